"""Objects and libraries for Apple's systems are what their targets say, and are checked as those for Linux are."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from sterna.errors import SternaError
from sterna.targets.description import load_target
from sterna.toolchain.check import check_objects
from sterna.toolchain.compilers import compile_c
from sterna.toolchain.link import link_library
from sterna.toolchain.mach_o import MachO, read_mach_o, universal
from support.tools import need, run

SOURCE = "static const int t[] = {1, 2}; const int *sterna_m_library(void) { return t; }"
#: Target -> architecture, platform, oldest system.
SYSTEMS = {
    "ios-arm64": ("arm64", "ios", (13, 0)),
    "ios-simulator": ("arm64", "ios-simulator", (14, 0)),
    "ios-simulator-x86-64": ("x86_64", "ios-simulator", (13, 0)),
    "macos-arm64": ("arm64", "macos", (11, 0)),
    "macos-x86-64": ("x86_64", "macos", (11, 0)),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_objects_and_libraries_are_of_their_system(name: str) -> None:
    target = load_target(name)
    data = compile_c(SOURCE.replace("const int *", '__attribute__((visibility("default"))) const int *'), target)
    library = link_library([data], target, "m")
    for each in (read_mach_o(data), read_mach_o(library)):
        assert (each.processor, each.platform, each.minimum) == SYSTEMS[name]
        assert (each.exported, each.undefined) == (("sterna_m_library",), ())
    assert read_mach_o(data).writable == ()
    assert read_mach_o(library).own_name == f"@rpath/{target.library}"


def test_what_kernels_must_not_have_is_refused() -> None:
    target = load_target("ios-arm64")
    for source, what in (
        ("int other(void); int f(void) { return other(); }", r"E0404.*\n?.*other"),
        ("int value = 3; int f(void) { return value++; }", "have variables"),
    ):
        with pytest.raises(SternaError, match=what):
            check_objects([compile_c(source, target)], target)


def test_damaged_files_are_told_of() -> None:
    data = compile_c(SOURCE, load_target("ios-arm64"))
    for length in range(0, len(data), 7):
        with contextlib.suppress(ValueError):
            assert isinstance(read_mach_o(data[:length]), MachO)
    with pytest.raises(ValueError, match="empty command"):
        read_mach_o(data[:36] + bytes(4) + data[40:])


def test_a_file_for_several_processors_is_what_llvm_reads(tmp_path: Path) -> None:
    objdump = need("llvm-objdump", "reads Mach-O")
    parts = [(SYSTEMS[name][0], compile_c(SOURCE, load_target(name))) for name in ("macos-arm64", "macos-x86-64")]
    made = tmp_path / "made"
    made.write_bytes(universal(parts))
    said = run(objdump, "--macho", "--universal-headers", made)
    assert re.findall(r"^architecture (\w+)", said, re.M) == ["arm64", "x86_64"]
    offsets, sizes = re.findall(r"^ +offset (\d+)", said, re.M), re.findall(r"^ +size (\d+)", said, re.M)
    for (_, data), offset, size in zip(parts, offsets, sizes, strict=True):
        assert int(offset) % 16384 == 0
        assert made.read_bytes()[int(offset) :][: int(size)] == data
    assert universal(parts[:1]) == parts[0][1]
