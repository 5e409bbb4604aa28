"""Windows: what is in the files, and the C runtime under Wine; test_golden_matrix.py replays golden sets there."""

from __future__ import annotations

import contextlib
import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sterna
from sterna.api import compile_model, compile_to, options_of
from sterna.bundle.directory import write_files
from sterna.bundle.writer import bundle_files
from sterna.debug.golden import golden_files, golden_sets
from sterna.errors import SternaError
from sterna.targets.description import load_target
from sterna.toolchain.check import check_library
from sterna.toolchain.pe import Pe, read_pe
from support import wine
from support.tools import ROOT, ZIG, run
from support.trained import digits

pytestmark = pytest.mark.family("windows")

#: What every Windows 10 has.
SYSTEM = ("kernel32.dll", "api-ms-win-crt-")
ODD = "Küstenseeschwalbe 燕鸥"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wine.need()
    return wine.build_runtime(tmp_path_factory.mktemp("runtime"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With kernels for three kinds of processors, in a folder that no code page can spell."""
    place = tmp_path_factory.mktemp("bundles") / f"two words {ODD}"
    model = digits().file
    compiled = compile_model(model, "windows-x86-64", generator="llvm", all_variants=True)
    write_files(bundle_files(compiled, golden_files(*golden_sets(model, options_of(), 2))), place)
    return place


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(("target", "processor"), [("windows-x86-64", "x86_64"), ("windows-arm64", "arm64")])
def test_kernels_need_nothing(target: str, processor: str, generator: str, tmp_path: Path) -> None:
    place = compile_to(tmp_path / "bundle", digits().file, target, generator=generator)
    library = read_pe((place / "model.dll").read_bytes())
    assert library == Pe(library.symbols, (), (), processor)
    assert (library.exported, library.undefined) == (("sterna_digits_library",), ())


def test_the_runtime_needs_only_what_windows_has(program: Path) -> None:
    header = (ROOT / "runtime_c" / "include" / "sterna.h").read_text()
    library = read_pe(program.with_name("sterna.dll").read_bytes())
    assert library.exported == tuple(
        sorted(n for n in set(library.exported) if f" {n}(" in header or f"*{n}(" in header)
    )
    assert len(library.exported) == header.count("STERNA_API ") - header.count("#define STERNA_API ")
    assert [name for name in library.needed if not name.startswith(SYSTEM)] == []
    used = read_pe(program.read_bytes())
    assert "sterna.dll" in used.needed
    assert [name for name in used.needed if not name.startswith((*SYSTEM, "sterna.dll", "shell32.dll"))] == []


def test_a_library_that_needs_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "#include <windows.h>\n__declspec(dllexport) void sterna_m_library(void) { Sleep(1); }"
    )
    flags = ("-target", wine.TRIPLE, "-Os", "-Xclang", "-Oz", "-g0", "-fno-sanitize=all", "-shared")
    run(*ZIG, "cc", *flags, "k.c", "-o", "k.dll", cwd=tmp_path, timeout=600)
    with pytest.raises(SternaError, match=r"E0404.*abort"):
        check_library((tmp_path / "k.dll").read_bytes(), load_target("windows-x86-64"), "sterna_m_library")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_file_is_none(data: st.DataObject) -> None:
    """Whatever the bytes are, there is a record or a ValueError."""
    head = bytearray(512)
    head[:2], head[60:64] = b"MZ", struct.pack("<I", 64)
    head[64:88] = struct.pack("<4sHH12xHH", b"PE\0\0", 0x8664, 2, 128, 0)
    head[88:90] = struct.pack("<H", 0x20B)
    for _ in range(8):
        at = data.draw(st.integers(90, 500))
        head[at : at + 4] = struct.pack("<I", data.draw(st.sampled_from([0, 1, 64, 300, 511, 0xFFFFFFFF])))[: 512 - at]
    with contextlib.suppress(ValueError):
        assert isinstance(read_pe(bytes(head[: data.draw(st.integers(0, 512))])), Pe)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_the_best_variant_runs_from_any_folder(program: Path, bundle: Path, threads: str, tmp_path: Path) -> None:
    variants = json.loads((bundle / "graph.json").read_text())["variants"]
    assert [variant["target"] for variant in variants] == ["x86-64-v4-vnni", "x86-64-v3"]
    names = sorted(path.name for path in bundle.glob("*.dll"))
    assert names == ["model.dll", "model.x86-64-v3.dll", "model.x86-64-v4-vnni.dll"]
    assert "2 golden sets" in wine.run(program, bundle, "--golden", "--threads", threads)
    image = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    work = tmp_path / ODD
    work.mkdir()
    image.tofile(work / "in 0.bin")
    wine.run(program, bundle, "--threads", threads, work / "in 0.bin", "--out", work / "out ", cwd=work)
    with sterna.load(compile_to(tmp_path / "here", digits().file)) as here:
        (wanted,) = here.run({"image": image}).values()
    np.testing.assert_allclose(np.fromfile(work / "out 0.bin", np.float32).reshape(1, 10), wanted, rtol=0, atol=1e-6)


def test_errors_have_codes(program: Path, bundle: Path, tmp_path: Path) -> None:
    def refused(place: Path, *more: str) -> str:
        done = wine.call(program, place, "--golden", *more)
        assert done.returncode == 1
        return done.stderr

    assert "error[E0503]" in refused(tmp_path / ODD)
    damaged = shutil.copytree(bundle, tmp_path / "damaged")
    content = (damaged / "params.bin").read_bytes()
    (damaged / "params.bin").write_bytes(content[:-1] + b"\xff")
    assert "error[E0505]" in refused(damaged)
    (damaged / "params.bin").write_bytes(content)
    for file in damaged.glob("*.dll"):
        file.write_bytes(file.read_bytes()[:600])
    assert "error[E050" in refused(damaged)
    arm64 = compile_to(tmp_path / "arm64", digits().file, "windows-arm64", generator="llvm")
    assert "error[E0507]" in refused(arm64)
    (bundle.parent / "none").mkdir()
    assert "error[E0503]" in refused(bundle.parent / "none")
