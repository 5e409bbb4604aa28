"""Compilers, linkers, and the check of what they made."""

from __future__ import annotations

import contextlib
import re
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.targets import features
from sterna.targets.description import host, load_target, target_names
from sterna.targets.target import Target
from sterna.toolchain import compilers, zig
from sterna.toolchain.check import Elf, check_library, check_objects, read_elf
from sterna.toolchain.compilers import compile_c
from sterna.toolchain.doctor import toolchain_report
from sterna.toolchain.link import export_name, link_library
from sterna.toolchain.units import Units
from sterna.toolchain.wasm import wasm_imports

SOURCE = """
static const float table[3] = {1, 2, 3};
static int twice(int n) { return n * 2; }
__attribute__((visibility("default"))) int sterna_m_library(int n) { return twice(n) + (int)table[n]; }
"""
ELF_TARGETS = ["arm64", "raspberrypi4", "x86-64-v2", "x86-64-v3", "x86-64-v4"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STERNA_NO_CACHE", raising=False)
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


def _windows() -> Target:
    base = load_target("x86-64-v3")
    return replace(base, triple="x86_64-windows-gnu", llvm_triple="x86_64-pc-windows-gnu", library="model.dll")


def _macos() -> Target:
    base = load_target("arm64")
    return replace(base, triple="aarch64-macos.11.0", llvm_triple="arm64-apple-macosx11.0", library="model.dylib")


# ---------------------------------------------------------------- compiling and linking
@pytest.mark.parametrize("name", ELF_TARGETS)
def test_elf_libraries(name: str) -> None:
    target = load_target(name)
    elf = read_elf(link_library([compile_c(SOURCE, target)], target, "m"))
    assert (elf.exported, elf.undefined, elf.needed, elf.soname) == (("sterna_m_library",), (), (), "model.so")
    assert elf.bits == 64
    assert not elf.relocatable


def test_other_formats() -> None:
    wasm, thumb = load_target("browser"), load_target("cortex-m4")
    assert wasm_imports(link_library([compile_c(SOURCE, wasm)], wasm, "m")) == ("env.memory",)
    assert link_library([compile_c(SOURCE, thumb)], thumb, "m").startswith(b"!<arch>\n")
    assert link_library([compile_c(SOURCE, _windows())], _windows(), "m").startswith(b"MZ")
    assert link_library([compile_c(SOURCE, _macos())], _macos(), "m").startswith(b"\xcf\xfa\xed\xfe")


@pytest.mark.parametrize("target", [host(), load_target("browser"), load_target("cortex-m4"), _windows(), _macos()])
def test_the_same_source_gives_the_same_bytes(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_NO_CACHE", "1")
    libraries = [link_library([compile_c(SOURCE, target)], target, "m") for _ in range(2)]
    assert libraries[0] == libraries[1]
    assert b"/tmp" not in libraries[0]


@pytest.mark.parametrize(
    ("compiler", "name"), [("clang", "host"), ("gcc", "host"), ("clang", "arm64"), ("arm-none-eabi-gcc", "cortex-m4")]
)
def test_other_compilers(compiler: str, name: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    target = load_target(name)
    elf = read_elf(compile_c(SOURCE, target, compiler))
    assert (elf.exported, elf.undefined) == (("sterna_m_library",), ())
    assert compile_c(SOURCE, target, shutil.which(compiler) or "") == compile_c(SOURCE, target, compiler)


def test_objects_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    first = link_library([compile_c(SOURCE, host())], host(), "m")

    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(compilers, "run", refuse)
    monkeypatch.setattr("sterna.toolchain.link.run", refuse)
    assert link_library([compile_c(SOURCE, host())], host(), "m") == first
    with pytest.raises(AssertionError):
        compile_c(SOURCE, host(), extra_flags=["-DOTHER"])
    with pytest.raises(AssertionError):
        compile_c(SOURCE + "\n", host())
    with pytest.raises(AssertionError):
        compile_c(SOURCE, load_target("arm64"))


def test_translation_units_are_compiled_together() -> None:
    sources = [f"int part{n}(void) {{ return {n}; }}" for n in range(3)]
    sources.append(
        SOURCE.replace("twice(n)", "part0() + part1() + part2()").replace(
            "static int", "int part0(void); int part1(void); int part2(void);\nint"
        )
    )
    with Units(lambda text: compile_c(text, host()), jobs=2) as units:
        for source in sources:
            units.add(source, len(source))
        elf = read_elf(link_library(units.results(), host(), "m"))
    assert elf.exported == (export_name("m"),)


def test_flags_reach_the_compiler() -> None:
    source = "#if !defined(ASKED) || ASKED != 3\n#error not told\n#endif\n" + SOURCE
    compile_c(source, host(), extra_flags=["-DASKED=3"])
    compile_c(source, replace(host(), c_flags=("-DASKED=3",)))


# ---------------------------------------------------------------- errors
def test_a_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SternaError, match="E0402") as problem:
        compile_c(SOURCE, host(), "no-such-compiler")
    assert "no-such-compiler" in str(problem.value)
    monkeypatch.setattr(zig, "find_zig", lambda: None)
    with pytest.raises(SternaError, match="E0402") as problem:
        compile_c(SOURCE, host())
    assert "pip install ziglang" in str(problem.value)


@pytest.mark.parametrize("compiler", ["zig", "gcc"])
def test_rejected_code_shows_the_error_and_the_command(compiler: str) -> None:
    if compiler != "zig" and shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    with pytest.raises(SternaError) as problem:
        compile_c("int f(void) { return oops; }", host(), compiler)
    assert problem.value.codes == ("E0403",)
    assert "kernels.c:1:" in str(problem.value)
    assert "oops" in str(problem.value)
    assert "command: " in str(problem.value)


def test_a_program_that_cannot_run(tmp_path: Path) -> None:
    program = tmp_path / "clang"
    program.write_text("not a program")
    program.chmod(0o755)
    with pytest.raises(SternaError, match=r"E040[23]"):
        compile_c(SOURCE, host(), str(program))


@pytest.mark.parametrize("name", ["host", "arm64", "cortex-m4", "browser"])
def test_undefined_symbols_are_refused(name: str) -> None:
    target = load_target(name)
    source = SOURCE.replace("twice(n)", "sinhf_of_a_library(n)").replace(
        "static int", "int sinhf_of_a_library(int);\nstatic int"
    )
    with pytest.raises(SternaError, match=r"E040[34](?s:.*)sinhf_of_a_library"):
        link_library(
            [compile_c(source.replace("twice", "unused __attribute__((unused)) twice", 0), target)], target, "m"
        )


def test_variables_are_refused() -> None:
    source = SOURCE + "int counter; int *next(void) { counter++; return &counter; }"
    with pytest.raises(SternaError, match="E0404"):
        link_library([compile_c(source, host())], host(), "m")


def test_a_second_export_is_refused() -> None:
    library = link_library([compile_c(SOURCE, host())], host(), "m")
    with pytest.raises(SternaError, match="E0404"):
        check_library(library, host(), "sterna_other_library")


def test_a_forgotten_fpu_is_refused() -> None:
    source = SOURCE + "float sum(float a, float b) { return a + b * 2; } double wide(double a) { return a + 1; }"
    target = load_target("cortex-m4")
    check_objects([compile_c(source, target)], target)  # double precision is the run-time library's there
    with pytest.raises(SternaError, match="E0404") as problem:
        check_objects([compile_c(source, replace(target, cpu="cortex_m4"))], target)
    assert "FPU" in str(problem.value)
    assert "__aeabi_fadd" in str(problem.value)


def test_firmware_without_libm_is_refused_what_libm_has() -> None:
    source = SOURCE + "float sqrtf(float); float root(float a) { return sqrtf(a); }"
    with pytest.raises(SternaError, match=r"E0404.*sqrtf"):
        check_objects([compile_c(source, load_target("cortex-m0plus"))], load_target("cortex-m0plus"))


# ---------------------------------------------------------------- reading files
def test_an_object_read_back() -> None:
    elf = read_elf(compile_c("int other(void); int value; int f(void) { return other() + value; }", host()))
    assert elf.relocatable
    assert "other" in elf.undefined
    assert {"value", "f"} <= {s.name for s in elf.symbols if s.defined}
    assert any(name.startswith((".bss", ".data")) for name in elf.writable)


def test_32_bit_objects() -> None:
    elf = read_elf(compile_c(SOURCE, load_target("cortex-m4")))
    assert (elf.bits, elf.exported) == (32, ("sterna_m_library",))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_elf_files_are_refused(data: st.DataObject) -> None:
    whole = _LIBRARY
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = data.draw(
        st.sampled_from([whole[:at], whole[:at] + data.draw(st.binary(min_size=8, max_size=8)) + whole[at + 8 :]])
    )
    with contextlib.suppress(ValueError):
        assert isinstance(read_elf(damaged), Elf)


@given(data=st.binary(max_size=64).filter(lambda data: not data.startswith(b"\0asm")))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    for read in (read_elf, wasm_imports):
        with pytest.raises(ValueError):  # noqa: PT011
            read(data)


@given(data=st.binary(max_size=64))
def test_damaged_modules_are_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(wasm_imports(b"\0asm\1\0\0\0" + data), tuple)


def test_imports_of_every_kind() -> None:
    def text(name: str) -> bytes:
        return bytes([len(name)]) + name.encode()

    entries = [
        text("env") + text("f") + b"\0\5",
        text("env") + text("t") + b"\1\x70\1\2\x80\1",
        text("env") + text("memory") + b"\2\0\1",
        text("env") + text("g") + b"\3\x7f\0",
    ]
    body = bytes([len(entries)]) + b"".join(entries)
    module = struct.pack("<4sI", b"\0asm", 1) + b"\0\2\1x" + b"\2" + bytes([len(body)]) + body
    assert wasm_imports(module) == ("env.f", "env.t", "env.memory", "env.g")


def _make_library() -> bytes:
    return link_library([compile_c(SOURCE, host())], host(), "m")


_LIBRARY = _make_library()


def test_the_report_lists_every_tool() -> None:
    report = {tool.name: tool for tool in toolchain_report()}
    assert report["ziglang"].found
    assert report["llvmlite"].version.count(".") >= 1
    assert {"gcc", "clang", "qemu-aarch64"} <= set(report)
    assert all(tool.gives and tool.fix for tool in report.values())
    assert all(tool.found or not tool.version for tool in report.values())


@pytest.mark.parametrize("name", [n for n in target_names() if n != "host" and load_target(n).triple])
def test_zig_knows_the_same_features(name: str) -> None:
    """What zig says of the processor: all that the runtime looks for, and nothing of that kind beside it."""
    target = load_target(name)
    command = zig.zig("build-obj", "--show-builtin", "-target", target.triple, f"-mcpu={target.cpu}")
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listed = re.search(r"featureSet\(&\.\{(.*?)\}\)", said, re.S)
    assert listed is not None
    has = {features.plain(word) for word in re.findall(r"\.(\w+)", listed[1])}
    wanted = features.closure(map(features.plain, target.cpu_features))
    assert wanted <= has
    assert has & features.CHECKED <= wanted | (has if target.static else set())
