"""The C runtime: its own tests under sanitizers, strict builds by several compilers, its size, its installation."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sterna.runtime.programs import FLAGS, MACHINES
from sterna_runtime import recipe
from support import handmade_bundle, handmade_dims

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "runtime_c"
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Werror"]
INCLUDES = [f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'src'}"]
ZIG = [sys.executable, "-m", "ziglang"]

posix_only = pytest.mark.skipif(platform.system() == "Windows", reason="needs POSIX: builds port/posix.c")


def sources(port: str = "posix") -> list[str]:
    return [str(path) for path in sorted((RUNTIME / "src").glob("*.c"))] + [str(RUNTIME / "port" / f"{port}.c")]


def need(tool: str, why: str) -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"needs {tool}: {why}")
    return found


def run(*command: str | Path, cwd: Path | None = None) -> str:
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, cwd=cwd)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def test_the_recipe_names_every_source() -> None:
    assert sorted(recipe.SOURCES) == sorted(path.stem for path in (RUNTIME / "src").glob("*.c"))


def test_cmake_names_every_source() -> None:
    named = re.findall(r"src/(\w+)\.c", (RUNTIME / "CMakeLists.txt").read_text())
    assert sorted(set(named)) == sorted(recipe.SOURCES)


@posix_only
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
@pytest.mark.parametrize("program", ["test_parts", "test_model", "test_dims", "test_computed"])
def test_c_tests(program: str, sanitizers: str, tmp_path: Path) -> None:
    gcc = need("gcc", "compiles the C tests with sanitizers")
    binary = tmp_path / program
    # Every request is one of the allocator: it can fail, and nothing lies behind its end.
    flags = [*STRICT, *INCLUDES, "-g", "-O1", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    flags.append("-DSTERNA_CHUNK_BYTES=32")
    run(gcc, *flags, RUNTIME / "test" / f"{program}.c", *sources(), "-o", binary, "-lpthread", "-ldl")
    assert run(binary).endswith("0 failures\n")


@posix_only
def test_cut_libraries(tmp_path: Path) -> None:
    """Files of every system's format: whole ones are told from those that end early."""
    gcc = need("gcc", "compiles the C tests with sanitizers")
    made = []
    for name, target in [
        ("64.so", "x86_64-linux-gnu"),
        ("32.so", "arm-linux-gnueabihf"),
        ("64.dylib", "aarch64-macos"),
    ]:
        made.append(tmp_path / name)
        handmade_bundle.compile_c(handmade_bundle.KERNELS_C, made[-1], "-target", target, "-Wl,-s")
    (tmp_path / "kernels.c").write_text(handmade_bundle.KERNELS_C)
    quiet = ["-fno-sanitize=all", "-O2"]
    run(
        *ZIG,
        "cc",
        "-target",
        "x86_64-windows-gnu",
        *quiet,
        "-c",
        *INCLUDES,
        "kernels.c",
        "-o",
        "kernels.obj",
        cwd=tmp_path,
    )
    run(*ZIG, "lld-link", "-dll", "-noentry", "-out:64.dll", "kernels.obj", cwd=tmp_path)
    binary = tmp_path / "test_parts"
    flags = [*STRICT, *INCLUDES, "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    flags.append("-DSTERNA_EVERY_FORMAT")
    run(gcc, *flags, RUNTIME / "test" / "test_parts.c", *sources(), "-o", binary, "-lpthread", "-ldl")
    assert run(binary, *made, tmp_path / "64.dll").endswith("0 failures\n")


PACKAGED = r"under (\d+) KB as a shared\s+library"
"""The README's words on the library in the Python package."""


@posix_only
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("options", [(), ("-DSTERNA_NO_MESSAGES",)])
def test_strict_build(compiler: str, options: tuple[str, ...], tmp_path: Path) -> None:
    path = need(compiler, "one of the compilers that the runtime must be clean under")
    programs = [RUNTIME / "tools" / "sterna_run.c", *sorted((RUNTIME / "rpc").glob("*.c"))]
    tests = [] if options else sorted((RUNTIME / "test").glob("*.c"))
    for source in [*sources(), *programs, *tests]:
        run(path, *STRICT, "-Wpedantic", "-O2", *options, *INCLUDES, f"-I{RUNTIME / 'rpc'}", "-c", source, cwd=tmp_path)


@posix_only
@pytest.mark.parametrize("program", ["test_model", "test_dims"])
def test_without_an_operating_system(program: str, tmp_path: Path) -> None:
    gcc = need("gcc", "compiles the runtime for a system without files and threads")
    binary = tmp_path / program
    flags = [*STRICT, "-Wpedantic", "-O2", "-DSTERNA_PORT_NONE", *INCLUDES]
    run(gcc, *flags, RUNTIME / "test" / f"{program}.c", *sources("none"), "-o", binary)
    assert run(binary).endswith("0 failures\n")


@posix_only
def test_header_is_cpp(tmp_path: Path) -> None:
    compiler = need("g++", "compiles the header as C++")
    user = tmp_path / "user.cpp"
    user.write_text('#include "sterna.h"\nint main() { return sterna_version() == nullptr; }\n')
    run(compiler, "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *INCLUDES, "-c", user, cwd=tmp_path)


@pytest.mark.parametrize("target", ["x86_64-linux-gnu.2.17", "aarch64-linux-gnu.2.17", "arm-linux-gnueabihf.2.17"])
def test_shared_library_is_small(target: str, tmp_path: Path) -> None:
    library = tmp_path / "libsterna.so"
    command = recipe.compile_command(RUNTIME, library, target)
    result = subprocess.run([*command, *STRICT], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert library.stat().st_size < stated_size(PACKAGED)


@posix_only
def test_without_messages(tmp_path: Path) -> None:
    """Neither a text nor printf gets into a program that wants none."""
    gcc = need("gcc", "compiles the objects")
    nm = need("nm", "lists their symbols")
    flags = ["-std=c99", "-Os", "-DSTERNA_PORT_NONE", "-DSTERNA_NO_MESSAGES", *INCLUDES]
    run(gcc, *flags, "-c", *sources("none"), cwd=tmp_path)
    objects = sorted(tmp_path.glob("*.o"))
    assert "printf" not in run(nm, *objects)
    assert not any(text in path.read_bytes() for path in objects for text in (b"graph.json: ", b"out of memory", b"%s"))


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every source of the runtime, compiled."""
    gcc, folder = need("gcc", "compiles the objects"), tmp_path_factory.mktemp("objects")
    for source in sources():
        run(gcc, "-std=c99", "-O2", *INCLUDES, "-c", source, cwd=folder)
    return sorted(folder.glob("*.o"))


@posix_only
def test_a_static_library_keeps_to_its_name_space(objects: list[Path]) -> None:
    listing = run(need("nm", "lists their symbols"), "-g", "--defined-only", *objects)
    names = re.findall(r"^[0-9a-f]+ (\w) (\w+)$", listing, re.M)
    assert len(names) > 40
    assert [name for _, name in names if not name.lstrip("_").startswith("sterna_")] == []
    assert [name for kind, name in names if kind in "BCDGS"] == [], "no mutable globals"


@posix_only
def test_sources_form_layers(objects: list[Path]) -> None:
    """No file calls one that calls it, directly or through others."""
    nm = need("nm", "lists their symbols")
    symbols = {path.stem: re.findall(r"^ *[0-9a-f]* (\w) (\w+)$", run(nm, "-g", path), re.M) for path in objects}
    home = {name: file for file, names in symbols.items() for kind, name in names if kind != "U"}
    calls = {
        file: {home[name] for kind, name in names if kind == "U" and name in home} for file, names in symbols.items()
    }
    assert {"manifest", "graph"} <= calls["bundle"]
    while leaves := {file for file, called in calls.items() if not called}:
        calls = {file: called - leaves for file, called in calls.items() if file not in leaves}
    assert calls == {}, "files that call one another in a circle, or call such files"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cmake = need("cmake", "installs the runtime")
    gcc = need("gcc", "the C compiler of the CMake build")
    # As distributions have it, where find_package looks too: lib/x86_64-linux-gnu.
    deep = f"lib/{run(gcc, '-print-multiarch').strip()}".rstrip("/")
    folder = tmp_path_factory.mktemp("cmake")
    for shared, libraries in (("ON", deep), ("OFF", "lib")):
        build = folder / f"build-{shared}"
        flags = ["-DCMAKE_C_FLAGS=-Werror", f"-DBUILD_SHARED_LIBS={shared}", f"-DCMAKE_INSTALL_LIBDIR={libraries}"]
        run(cmake, "-S", RUNTIME, "-B", build, f"-DCMAKE_INSTALL_PREFIX={folder / shared}", *flags)
        run(cmake, "--build", build)
        run(cmake, "--install", build, "--strip")
    return folder


def stated_size(words: str) -> int:
    """Bytes: what the README says with these words that the shared library has at most."""
    (size,) = re.findall(words, (RUNTIME / "README.md").read_text())
    return int(size) * 1024


@posix_only
def test_the_documented_build_has_the_stated_size(installed: Path) -> None:
    """The build of the README: CMake's default, by gcc, and `--strip`."""
    if platform.machine() != "x86_64":
        pytest.skip("the size is that of x86-64")
    (library,) = (p for p in installed.glob("ON/lib/**/libsterna.so.*") if not p.is_symlink())
    stated = stated_size(r"by gcc [^.]*\s+takes under (\d+) KB")
    assert stated - 4 * 1024 < library.stat().st_size < stated


@posix_only
def test_an_installation_that_is_moved(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sterna_run and sterna.pc find their library and headers from where they are themselves."""
    pkg_config = need("pkg-config", "reads sterna.pc")
    gcc = need("gcc", "compiles a program with pkg-config's flags")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    moved = tmp_path / "elsewhere"
    shutil.copytree(installed / "ON", moved, symlinks=True)
    bundle = handmade_bundle.write(tmp_path / "bundle")
    x = np.ones((handmade_bundle.ROWS, handmade_bundle.COLUMNS), np.float32)
    x.tofile(tmp_path / "x.bin")
    listing = run(need("ldd", "lists the libraries of a program"), moved / "bin" / "sterna_run")
    (library,) = moved.glob("lib/**/libsterna.so")
    assert f"{moved}/bin/../{library.relative_to(moved)}" in listing
    assert "1 runs" in run(moved / "bin" / "sterna_run", bundle, tmp_path / "x.bin")
    monkeypatch.setenv("PKG_CONFIG_PATH", str(library.parent / "pkgconfig"))
    flags = run(pkg_config, "--cflags", "--libs", "sterna").split()
    assert str(installed) not in " ".join(flags)
    assert Path(run(pkg_config, "--variable=prefix", "sterna").strip()).resolve() == moved.resolve()
    (tmp_path / "user.c").write_text(USER_C)
    run(gcc, tmp_path / "user.c", "-o", tmp_path / "user", *flags)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    assert run(tmp_path / "user", bundle) == "handmade 3\n"


USER_C = """
#include <stdio.h>
#include <sterna.h>
int main(int argc, char **argv) {
  sterna_error error;
  sterna_model *model;
  if (argc != 2 || sterna_load(argv[1], NULL, &model, &error) != STERNA_OK) return puts(error.message), 1;
  printf("%s %u\\n", sterna_model_name(model), (unsigned)sterna_node_count(model));
  sterna_unload(model);
  return 0;
}
"""


@posix_only
@pytest.mark.parametrize("shared", ["ON", "OFF"])
def test_find_package(installed: Path, shared: str, tmp_path: Path) -> None:
    cmake = need("cmake", "builds a program that uses find_package(sterna)")
    (tmp_path / "user.c").write_text(USER_C)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(user C)\nfind_package(sterna 0.1 REQUIRED)\n"
        "add_executable(user user.c)\ntarget_link_libraries(user PRIVATE sterna::sterna)\n"
    )
    run(cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed / shared}")
    run(cmake, "--build", tmp_path / "build")
    bundle = handmade_bundle.write(tmp_path / "bundle")
    assert run(tmp_path / "build" / "user", bundle) == "handmade 3\n"


@posix_only
def test_pkg_config(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pkg_config = need("pkg-config", "reads sterna.pc")
    gcc = need("gcc", "compiles a program with pkg-config's flags")
    monkeypatch.setenv("PKG_CONFIG_PATH", str(installed / "OFF" / "lib" / "pkgconfig"))
    (tmp_path / "user.c").write_text(USER_C)
    flags = run(pkg_config, "--cflags", "--libs", "--static", "sterna").split()
    run(gcc, tmp_path / "user.c", "-o", tmp_path / "user", *flags)
    bundle = handmade_bundle.write(tmp_path / "bundle")
    assert run(tmp_path / "user", bundle) == "handmade 3\n"


@posix_only
@pytest.mark.parametrize("threads", [1, 3])
def test_command_line_host(installed: Path, threads: int, tmp_path: Path) -> None:
    bundle = handmade_bundle.write(tmp_path / "bundle")
    x = np.random.default_rng(3).random((handmade_bundle.ROWS, handmade_bundle.COLUMNS), np.float32)
    x.tofile(tmp_path / "x.bin")
    host = installed / "OFF" / "bin" / "sterna_run"
    text = run(host, bundle, "--threads", str(threads), "--profile", tmp_path / "x.bin", "--out", tmp_path / "y")
    assert "shift" in text
    y = np.fromfile(tmp_path / "y0.bin", np.float32).reshape(x.shape)
    assert np.array_equal(y, handmade_bundle.expected(x)["y"])
    failed = subprocess.run([host, bundle], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "has 1 inputs; 0 files" in failed.stderr


@posix_only
def test_command_line_host_sets_dimensions(installed: Path, tmp_path: Path) -> None:
    bundle = handmade_dims.write(tmp_path / "bundle")
    inputs = handmade_dims.inputs(2, 7)
    for name, array in inputs.items():
        array.tofile(tmp_path / f"{name}.bin")
    files = [tmp_path / "x.bin", tmp_path / "pairs.bin", "--out", tmp_path / "y"]
    host = installed / "OFF" / "bin" / "sterna_run"
    run(host, bundle, "--threads", "2", "--dim", "batch=2", "--dim", "seq=7", *files)
    expected = handmade_dims.expected(**inputs)
    for number, name in enumerate(("y", "tail")):
        assert np.array_equal(np.fromfile(tmp_path / f"y{number}.bin", np.float32), expected[name].ravel())
    for dims, says in [
        (["--dim", "seq=17"], 'dimension "seq" is 17; the model takes 1 to 16'),
        (["--dim", "time=3"], 'no dimension "time"'),
        (["--dim", "seq"], "not of the form NAME=SIZE"),
        (["--dim", "seq=7"], "x.bin: has only 56 bytes; the input needs 84"),
    ]:
        failed = subprocess.run([host, bundle, *dims, *files], capture_output=True, text=True, check=False)
        assert failed.returncode == 1
        assert says in failed.stderr


@pytest.mark.parametrize("architecture", ["aarch64", "armv7"])
def test_foreign_machine_under_qemu(architecture: str, tmp_path: Path) -> None:
    """The runtime, its command-line host and the kernels as a static program for another machine."""
    machine = MACHINES[architecture]
    triple = machine[1]
    family = triple.split("-", maxsplit=1)[0]
    qemu = need(f"qemu-{family}", f"runs programs for {family}")
    (tmp_path / "kernels.c").write_text(handmade_bundle.KERNELS_C)
    program = [RUNTIME / "tools" / "sterna_run.c", *sources(), tmp_path / "kernels.c"]
    flags = [*FLAGS, "-static", *INCLUDES, "-DSTERNA_LINKED=sterna_handmade_library"]
    run(*ZIG, "cc", *machine, *flags, *program, "-o", tmp_path / "sterna_run")
    members = handmade_bundle.graph(handmade_bundle.params(), b"")
    members["target"] = {
        "triple": triple,
        "pointer_bits": 64 if family == "aarch64" else 32,
        "cpu_features": ["neon"],
    }
    bundle = handmade_bundle.write(tmp_path / "bundle", members)
    x = np.random.default_rng(4).random((handmade_bundle.ROWS, handmade_bundle.COLUMNS), np.float32)
    x.tofile(tmp_path / "x.bin")
    run(qemu, tmp_path / "sterna_run", bundle, "--threads", "2", tmp_path / "x.bin", "--out", tmp_path / "y")
    y = np.fromfile(tmp_path / "y0.bin", np.float32).reshape(x.shape)
    assert np.array_equal(y, handmade_bundle.expected(x)["y"])


@pytest.mark.skipif(
    not os.environ.get("STERNA_SLOW_TESTS"), reason="STERNA_SLOW_TESTS is not set: a minute the first time"
)
def test_windows_port_compiles(tmp_path: Path) -> None:
    command = recipe.compile_command(RUNTIME, tmp_path / "sterna.dll", "x86_64-windows-gnu")
    run(*command, *STRICT, cwd=tmp_path)
    assert (tmp_path / "sterna.dll").stat().st_size < 3 * stated_size(PACKAGED)
