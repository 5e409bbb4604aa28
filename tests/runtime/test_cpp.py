"""sterna.hpp: strict builds with and without exceptions, and its own tests."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

from sterna.api import compile_to
from support.golden import write_bundles
from support.tools import ROOT, need, run
from support.trained import digits

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


C = """
#include <stdlib.h>
#include "sterna.h"
int main(int n, char **a) {
  sterna_model *m;
  if (n != 3 || sterna_load(a[1], NULL, &m, NULL)) return 1;
  for (int i = atoi(a[2]); i > 0; i--) {
    ((float *)sterna_input_buffer(m, 0))[0] = 1;
    if (sterna_run(m)) return 1;
  }
  sterna_unload(m);
  return 0;
}
"""
CPP = """
#include <cstdlib>
#include "sterna.hpp"
int main(int, char **a) {
  sterna::model m(a[1]);
  auto x = m.input(0u).data<float>();
  for (int i = std::atoi(a[2]); i > 0; i--) {
    x[0] = 1;
    m.run();
  }
}
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="counts x86-64 code")
def test_a_run_takes_the_instructions_of_c(tmp_path: Path) -> None:
    """Within 1 % and 20 instructions; what comes before the first run is the start of the C++ library."""
    valgrind = need("valgrind", "counts instructions")
    bundle = compile_to(tmp_path / "bundle", digits().file, "x86-64-v3")
    sources = [*sorted((RUNTIME / "src").glob("*.c")), RUNTIME / "port" / "posix.c"]
    run(need("gcc", "compiles the runtime"), "-O2", "-c", f"-I{RUNTIME / 'include'}", *sources, cwd=tmp_path)
    run("ar", "rcs", "libsterna.a", *sorted(path.name for path in tmp_path.glob("*.o")), cwd=tmp_path)

    def instructions(compiler: str, source: str) -> float:
        """Of one run."""
        file = tmp_path / ("main.c" if compiler == "gcc" else "main.cpp")
        file.write_text(source)
        flags = ("-O2", f"-I{RUNTIME / 'include'}")
        run(need(compiler, "compiles"), *flags, file, "libsterna.a", "-o", compiler, "-lpthread", "-ldl", cwd=tmp_path)
        counts = []
        for runs in (1, 21):
            command = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", tmp_path / compiler]
            done = subprocess.run(
                [*command, bundle, str(runs)], capture_output=True, text=True, check=True, timeout=120
            )
            counts.append(int(re.findall(r"Collected : (\d+)", done.stderr)[0]))
        return (counts[1] - counts[0]) / 20

    c, cpp = instructions("gcc", C), instructions("g++", CPP)
    assert cpp <= 1.01 * c + 20
