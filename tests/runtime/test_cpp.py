"""sterna.hpp: strict builds with and without exceptions, and its own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.golden import write_bundles
from support.tools import ROOT, need, run

pytestmark = pytest.mark.family("runtime")

RUNTIME = ROOT / "runtime_c"
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Wshadow", "-Werror", "-O1")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundles(tmp_path_factory.mktemp("cpp") / "bundles")


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runtime")
    sources = [*sorted((RUNTIME / "src").glob("*.c")), RUNTIME / "port" / "posix.c"]
    flags = ("-O1", "-fsanitize=address,undefined", f"-I{RUNTIME / 'include'}")
    run(need("gcc", "compiles the runtime"), "-c", *flags, *sources, cwd=place)
    run("ar", "rcs", place / "libsterna.a", *sorted(place.glob("*.o")))
    return place / "libsterna.a"


def build(compiler: str, source: str, runtime: Path, place: Path, *flags: str) -> Path:
    command = [need(compiler, "compiles C++"), *STRICT, *flags, f"-I{RUNTIME / 'include'}", RUNTIME / "test" / source]
    run(*command, runtime, "-fsanitize=address,undefined", "-o", place / "program", "-lpthread", "-ldl")
    return place / "program"


@pytest.mark.parametrize("flags", [("-std=c++17",), ("-std=c++20", "-fno-exceptions", "-fno-rtti")], ids=["17", "bare"])
def test_its_own_tests(flags: tuple[str, ...], runtime: Path, bundles: Path, tmp_path: Path) -> None:
    program = build("g++", "test_cpp.cpp", runtime, tmp_path, *flags)
    names = ("digits", "open", "counter", "quantized")
    assert run(program, *(bundles / name for name in names)) == "0 failures\n"


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("flags", [("-std=c++17",), ("-std=c++17", "-fno-exceptions"), ("-std=c++20",)])
def test_strict_builds(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    for source in ("test_cpp.cpp", "golden.cpp"):
        command = (need(compiler, "compiles C++"), *STRICT, *flags, f"-I{RUNTIME / 'include'}", "-fsyntax-only")
        run(*command, RUNTIME / "test" / source)
