"""A bundle for OpenCL through every door: the C tool, the server of devices, C++, Node. On PoCL it runs; where nothing
can run it there is a coded error that says what to do."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import sterna
from sterna.api import compile_to
from sterna.cli import program
from sterna.errors import SternaError
from sterna.package.c import c_package
from sterna.package.deb import deb_packages
from sterna.rpc.program import server_here
from sterna_runtime import library
from support import device_bundles
from support.rpc_server import server_program, started
from support.tools import ROOT, need, run
from support.trained import agree, digits

pytestmark = pytest.mark.family("opencl")
RUNTIME = ROOT / "runtime_c"
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-O1")
ADVICE = "put the library of the device, such as libsterna_opencl"
CASE = digits().cases[0]
IMAGE = CASE.inputs["image"]


@pytest.fixture(scope="module", autouse=True)
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """There is a device, which keeps what it compiles in a folder of ours; programs find the library that drives it."""
    with device_bundles.opencl(tmp_path_factory.mktemp("pocl")) as patch:
        patch.setenv("LD_LIBRARY_PATH", str(library.find("opencl").parent))
        yield


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_to(tmp_path_factory.mktemp("doors") / "digits", digits().file, "opencl")


def alone() -> dict[str, str]:
    """An environment in which no library of devices is found."""
    return {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}


def failure(*command: object, **environment: str) -> str:
    """What a program that fails says."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**alone(), **environment})
    assert done.returncode == 1, done
    return done.stderr


def test_the_tool_in_c(bundle: Path, tmp_path: Path) -> None:
    tool = tmp_path / "sterna_run"
    sources = [RUNTIME / "tools" / "sterna_run.c", *sorted((RUNTIME / "src").glob("*.c")), RUNTIME / "port" / "posix.c"]
    gcc = need("gcc", "builds the tool")
    run(gcc, "-std=c99", *STRICT, f"-I{RUNTIME / 'include'}", *sources, "-o", tool, "-lpthread", "-ldl")
    IMAGE.tofile(tmp_path / "in.bin")
    shown = run(tool, bundle, tmp_path / "in.bin", "--profile", "--out", tmp_path / "out")
    assert "copy image" in shown
    found = np.fromfile(tmp_path / "out0.bin", np.float32).reshape(CASE.outputs[0].shape)
    agree(digits(), 0, [found])
    said = failure(tool, bundle, tmp_path / "in.bin")
    assert 'error[E0507]: graph.json: needs the device "opencl", which is not here' in said
    assert ADVICE in said
    driverless = failure(
        tool,
        bundle,
        tmp_path / "in.bin",
        LD_LIBRARY_PATH=os.environ["LD_LIBRARY_PATH"],
        STERNA_OPENCL_DEVICE="a device that nobody makes",
    )
    assert "error[E0507]" in driverless
    assert "change or unset STERNA_OPENCL_DEVICE" in driverless


def test_the_server_of_devices(bundle: Path, tmp_path: Path) -> None:
    with started([server_program()], tmp_path / "scratch") as running:
        runner = CliRunner()
        np.save(tmp_path / "image.npy", IMAGE)
        done = runner.invoke(
            program,
            ["run", str(bundle), "--on", running.address, "--input", f"image={tmp_path / 'image.npy'}", "--json"],
        )
        assert done.exit_code == 0, done.output
        assert "scores" in done.output
        with sterna.rpc.connect(running.address) as device, device.load(bundle) as loaded:
            agree(digits(), 0, list(loaded.run(CASE.inputs).values()))
            assert [t.kernel for t in loaded.profile(2)].count("copy") == 2
        done = runner.invoke(program, ["profile", str(bundle), "--on", running.address, "--repeat", "2"])
        assert done.exit_code == 0, done.output


def test_a_static_server_says_what_to_do(bundle: Path, tmp_path: Path) -> None:
    with started([server_here()], tmp_path / "scratch") as running, sterna.rpc.connect(running.address) as device:
        with pytest.raises(SternaError) as caught:
            device.load(bundle)
        assert caught.value.codes == ("E0507",)
        assert ADVICE in str(caught.value)
        # The server goes on with other bundles.
        with device.load(compile_to(tmp_path / "here", digits().file, generator="llvm")) as loaded:
            agree(digits(), 0, list(loaded.run(CASE.inputs).values()))


CPP = """
#include <cstdio>
#include <cstdlib>
#include "sterna.hpp"
#include "sterna_opencl.h"
int main(int count, char **given) {
  sterna::options how;
  if (count > 2) {
    how.devices = {sterna_opencl()};
    how.device_cache = given[2];
  }
  sterna::model model;
  if (sterna::status loaded = model.try_load(given[1], how); !loaded) {
    std::fprintf(stderr, "%s: %s\\n", loaded.code(), loaded.message().c_str());
    return 1;
  }
  sterna::span<float> image, scores;
  sterna::tensor in, out;
  if (!model.try_input(0u, in) || !in.try_data(image)) return 2;
  for (float &pixel : image)
    if (std::scanf("%f", &pixel) != 1) return 2;
  if (!model.try_run() || !model.try_output(0u, out) || !out.try_data(scores)) return 2;
  for (float score : scores) std::printf("%.9g\\n", static_cast<double>(score));
}
"""


def test_cpp(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(CPP)
    made = tmp_path / "program"
    libraries = [library.find(), library.find("opencl")]
    command = [need("g++", "compiles C++"), "-std=c++17", *STRICT, f"-I{RUNTIME / 'include'}", tmp_path / "main.cpp"]
    folders = ":".join(str(each.parent) for each in libraries)
    run(*command, *libraries, f"-Wl,-rpath,{folders}", "-o", made)
    (tmp_path / "cache").mkdir(mode=0o700)
    pixels = " ".join(f"{float(pixel):.9g}" for pixel in IMAGE.reshape(-1))
    words = [str(made), str(bundle), str(tmp_path / "cache")]
    done = subprocess.run(words, input=pixels, capture_output=True, text=True, check=True)
    agree(digits(), 0, [np.array(done.stdout.split(), np.float32).reshape(CASE.outputs[0].shape)])
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert failure(made, bundle).startswith('E0507: graph.json: needs the device "opencl"')


def test_node(bundle: Path, tmp_path: Path) -> None:
    script = tmp_path / "main.mjs"
    script.write_text(
        f"import {{ Model }} from {json.dumps(str(ROOT / 'runtime_js' / 'src' / 'index.js'))};\n"
        "const failed = (problem) => { console.error(problem.code, problem.message); process.exit(1); };\n"
        "await Model.load(process.argv[2]).catch(failed);\n"
    )
    said = failure(need("node", "runs JavaScript"), script, bundle)
    assert said.startswith("E0507")
    assert "opencl" in said
    assert "browser" in said


def test_packages_of_a_bundle_without_machine_code(bundle: Path, tmp_path: Path) -> None:
    """A folder of C is built and runs; Debian's package of a model is for all machines."""
    out = c_package(bundle, tmp_path / "c")
    np.save(tmp_path / "image.npy", IMAGE)
    command = re.search(r"^    (cc .*)$", (out / "README.md").read_text(), re.M)
    assert command is not None
    run("bash", "-c", f"{command[1]} -Wall -Wextra -Wconversion -Wpedantic -Werror", cwd=out)
    said = run(out / "digits", tmp_path / "image.npy", cwd=out)
    best = int(np.argmax(CASE.outputs[0]))
    assert re.search(rf"^scores  float32\[1, 10\]\n +{best} ", said, re.M)
    place = deb_packages(bundle, tmp_path / "deb", maintainer="Ada Lovelace <ada@example.org>")
    model, runtime = sorted(place.iterdir())
    need("dpkg-deb", "reads packages of Debian")
    assert run("dpkg-deb", "-f", model, "Architecture") == "all\n"
    for package in (model, runtime):
        run("dpkg-deb", "-x", package, tmp_path / "root")
    (library_,) = (tmp_path / "root").glob("usr/lib/*/libsterna_opencl.so")
    assert (tmp_path / "root" / "usr" / "include" / "sterna_opencl.h").is_file()
    IMAGE.tofile(tmp_path / "in.bin")
    words = [
        str(tmp_path / "root" / "usr" / "bin" / "sterna-run"),
        str(tmp_path / "root/usr/share/sterna/sterna-digits"),
    ]
    found = {**os.environ, "LD_LIBRARY_PATH": str(library_.parent)}
    subprocess.run([*words, str(tmp_path / "in.bin"), "--out", str(tmp_path / "y")], check=True, env=found)
    agree(digits(), 0, [np.fromfile(tmp_path / "y0.bin", np.float32).reshape(CASE.outputs[0].shape)])


def test_no_program_of_c_drives_a_page_s_gpu(tmp_path: Path) -> None:
    made = compile_to(tmp_path / "web", digits().file, "webgpu")
    for kind in ("c", "deb"):
        done = CliRunner().invoke(program, ["package", str(made), "--for", kind, "-o", str(tmp_path / "out")])
        assert done.exit_code == 1
        assert "E0507" in done.output
        assert "--target host" in done.output
