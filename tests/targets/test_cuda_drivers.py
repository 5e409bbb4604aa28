"""Bundles for CUDA where the driver or the GPU does not fit, a call of the driver fails, or the device is lost: with a
library in place of NVIDIA's driver (`support/cuda_driver.py`)."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from sterna.api import compile_to
from sterna.errors import SternaError
from sterna_runtime import devices, hash64, load
from support.cuda_driver import Driver, build
from support.device_bundles import edited, refused
from support.tools import ROOT
from support.trained import agree as agrees
from support.trained import digits

pytestmark = [pytest.mark.family("cuda"), pytest.mark.usefixtures("fresh_cuda")]


@pytest.mark.parametrize(
    ("target", "key", "value", "code", "says"),
    [
        ("cuda", "capability", 61, "E0507", '0 has 6.1\n  {}\n  fix: compile with target="opencl" or target="host"'),
        ("cuda-sm90", "capability", 86, "E0507", 'has 8.6\n  {}\n  fix: compile with target="cuda-sm80"'),
        ("cuda-sm90a", "capability", 100, "E0507", "9.0 alone, and Test GPU 0 has 10.0\n  {}\n  fix: comp"),
        ("cuda-sm90a", "version", 11080, "E0507", "is of CUDA 11.8, and kernels need 12.0"),
        ("cuda-sm90", "version", 11040, "E0507", "is of CUDA 11.4, and kernels need 11.8"),
        ("cuda", "version", 9020, "E0507", '10.0\n  {}\n  fix: update the driver, or compile with target="opencl"'),
        ("cuda", "devices", 0, "E0507", "CUDA_ERROR_NO_DEVICE"),
        ("cuda", "fail cuInit", 803, "E0507", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        ("cuda", "fail cuInit", 803, "E0507", "fix: restart the machine"),
        ("cuda", "fail cuInit", 802, "E0507", "fix: start NVIDIA's fabric manager"),
        ("cuda", "memory", 20000, "E0502", "bytes is needed, and "),
        ("cuda", "fail cuModuleLoadDataEx", 221, "E0507", "fix: install all of the driver: libnvidia-ptxjitcompiler"),
        ("cuda", "fail cuModuleLoadDataEx", 223, "E0507", "fix: change CUDA_DISABLE_PTX_JIT"),
        ("cuda", "fail cuDevicePrimaryCtxRetain", 46, "E0511", "fix: close the process that has the device"),
        ("cuda", "fail cuModuleLoadDataEx", 222, "E0507", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
        ("cuda", "fail cuModuleLoadDataEx", 218, "E0508", "please report it"),
        ("cuda", "fail cuModuleLoadDataEx", 2, "E0502", "CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuda", "fail cuDevicePrimaryCtxRetain", 2, "E0502", 'compile with target="host"'),
    ],
)  # fmt: skip
def test_devices_and_drivers_that_do_not_fit(
    target: str, key: str, value: int, code: str, says: str, tmp_path: Path, cuda: Driver
) -> None:
    made = compile_to(tmp_path / "bundle", digits().file, target)
    cuda.set("capability", 90)
    cuda.set(key, value)
    problem = refused(made)
    assert problem.codes == (code,), problem
    assert says.format(made) in str(problem)
    cuda.reset()
    cuda.set("capability", 90)
    with load(made) as loaded:
        agrees(digits(), 0, list(loaded.run(digits().cases[0].inputs).values()))


def test_a_device_by_its_name(cuda_digits: Path, cuda: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.set("devices", 3)
    for wanted, found in (("2", "Test GPU 2"), ("GPU 1", "Test GPU 1"), ("PU", "Test GPU 0"), ("", "Test GPU 0")):
        monkeypatch.setenv("STERNA_CUDA_DEVICE", wanted)
        assert devices.describe("cuda").startswith(found)
    monkeypatch.setenv("STERNA_CUDA_DEVICE", "Voodoo")
    problem = refused(cuda_digits)
    assert problem.codes == ("E0507",)
    assert 'none of the 3 devices is "Voodoo"' in str(problem)


def test_text_that_the_driver_refuses(tmp_path: Path) -> None:
    made = compile_to(tmp_path / "bundle", digits().file, "cuda")
    text = (made / "kernels.ptx").read_text().replace("fma.rn.f32", "fam.rn.f32").encode()
    (made / "kernels.ptx").write_bytes(text)
    edited(made, lambda g: g["files"].update({"kernels.ptx": {"bytes": len(text), "hash": hash64(text)}}))
    problem = refused(made)
    assert problem.codes == ("E0508",)
    assert "kernels.ptx" in str(problem)
    assert "fam" in str(problem)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (lambda g: g["devices"][0].update(needs=["wings"]), "E0507", 'needs "wings"'),
        (lambda g: g["devices"][0].update(needs=["sm_7x"]), "E0507", 'needs "sm_7x"'),
        (lambda g: g["kernels"][2].update(shared_bytes=1 << 40), "E0507", "bytes of shared memory"),
        (lambda g: g["kernels"][2].update(threads=[1024, 2, 1]), "E0507", "threads of a block"),
        (lambda g: g["kernels"][2].update(threads=[1, 1, 128]), "E0507", "128 threads along a block's third axis"),
        (lambda g: g["kernels"][2].update(name="nothing"), "E0511", "cuModuleGetFunction of nothing"),
        (lambda g: g["devices"][0].update(scratch_bytes=1 << 50), "E0502", "a buffer of"),
    ],
)  # fmt: skip
def test_a_graph_that_the_device_does_not_take(tmp_path: Path, change: Any, code: str, says: str) -> None:
    problem = refused(edited(compile_to(tmp_path / "bundle", digits().file, "cuda"), change))
    assert problem.codes == (code,), problem
    assert says in str(problem)


def failure(cuda_digits: Path, cuda: Driver, name: str, code: int) -> str:
    """The code of the error where a call of the driver fails once while a model is loaded or run."""
    cuda.set(f"fail {name}", code)
    if name == "cuEventRecord":  # what measures where there are no graphs
        cuda.set("fail cuGraphCreate", 1)
    try:
        loaded = load(cuda_digits)
    except SternaError as problem:
        return problem.codes[0]
    with loaded:
        cuda.set(f"fail {name}", code)
        try:
            loaded.run(digits().cases[0].inputs)
            loaded.profile(1)
        except SternaError as problem:
            if code == 700:
                with pytest.raises(SternaError, match=r"E0511.*the device was lost"):
                    loaded.run(digits().cases[0].inputs)
            return problem.codes[0]
    return "none"


@pytest.mark.parametrize("turn", [0, 1])
def test_every_call_may_fail(cuda_digits: Path, cuda: Driver, turn: int) -> None:
    """Each call of the driver fails once, while a model is loaded and run: an error with the driver's words, nothing
    held, and the next load works; of a lost context it works once everybody has let go of it. Every other call loses
    it; in the other turn the others do."""
    names = (
        "cuCtxPushCurrent", "cuMemAlloc", "cuMemAllocHost", "cuMemsetD8Async", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
        "cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchKernel", "cuStreamCreate", "cuStreamSynchronize",
        "cuEventCreate", "cuEventRecord", "cuEventElapsedTime", "cuGraphLaunch",
    )  # fmt: skip
    for n, name in enumerate(names):
        cuda.reset()
        code = 700 if n % 2 == turn else 1 + n // 2 % 2
        assert failure(cuda_digits, cuda, name, code) in ("E0502", "E0507", "E0508", "E0511"), name
        gc.collect()  # of the traceback, which has the model
        assert (cuda.held, cuda.contexts) == (0, 0), name
        with load(cuda_digits) as again:
            agrees(digits(), 0, list(again.run(digits().cases[0].inputs).values()))


def test_a_lost_device_is_survived(cuda_digits: Path, cuda: Driver) -> None:
    """A kernel that reads where nothing is loses the context of all models; they say so, and a new start works."""
    first, second = load(cuda_digits), load(cuda_digits)
    cuda.set("fail cuStreamSynchronize", 700)
    with pytest.raises(
        SternaError, match=r"(?s)E0511.*CUDA_ERROR_ILLEGAL_ADDRESS.*fix: close all models of the device and load"
    ):
        first.run(digits().cases[0].inputs)
    for each in (first, second):
        with pytest.raises(SternaError, match=r"E0511.*the device was lost"):
            each.run(digits().cases[0].inputs)
    first.close()
    assert refused(cuda_digits).codes == ("E0511",)
    second.close()
    gc.collect()
    with load(cuda_digits) as again:
        agrees(digits(), 0, list(again.run(digits().cases[0].inputs).values()))


def test_a_lost_device_that_others_have_too(cuda_digits: Path, cuda: Driver) -> None:
    """Another library's use of the context keeps it as it is: only a new process mends that, and messages say so."""
    cuda.set("kept", 1)
    with load(cuda_digits) as loaded:
        before = cuda.calls("kernels")
        cuda.set("lose kernel", before + 1)
        with pytest.raises(SternaError, match="CUDA_ERROR_LAUNCH_FAILED"):
            loaded.run(digits().cases[0].inputs)
    gc.collect()
    problem = refused(cuda_digits)
    assert problem.codes == ("E0511",)
    assert "if that fails restart the process" in str(problem)


# ---------------------------------------------------------------- other drivers, each in a process of its own
_RUNS = """
import sys
from sterna_runtime import SternaError, load
import numpy as np
try:
    with load(sys.argv[1]) as loaded:
        x = np.load(sys.argv[2])
        for _ in range(4):
            found = loaded.run({"image": x})
        np.save(sys.argv[3], found["scores"])
except SternaError as problem:
    print(problem)
"""


def in_a_process(cuda_digits: Path, drivers: Path, folder: Path, text: str = _RUNS) -> str:
    """What loading and running says where the system finds libraries in a folder; the result is found.npy."""
    np.save(folder / "x.npy", digits().cases[0].inputs["image"])
    (folder / "runs.py").write_text(text)
    search = os.pathsep.join([str(ROOT / "compiler"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, folder / "runs.py", cuda_digits, folder / "x.npy", folder / "found.npy"]
    return subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "LD_LIBRARY_PATH": str(drivers), "PYTHONPATH": search},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def test_no_driver(cuda_digits: Path, tmp_path: Path) -> None:
    """What stands in the driver's place is no library, so that a driver which may be installed is not found."""
    (tmp_path / "libcuda.so.1").write_text("no library")
    if any(Path(place, "libcuda.so.1").exists() for place in ("/usr/lib/wsl/lib", "/usr/local/nvidia/lib64")):
        pytest.skip("a driver is installed that is opened by its path")
    said = in_a_process(cuda_digits, tmp_path, tmp_path)
    assert "E0507" in said
    assert 'fix: install NVIDIA\'s driver, or compile with target="opencl" or target="host"' in said


@pytest.mark.parametrize(
    ("flag", "says"), [("WITHOUT_GRAPHS", ""), ("OLDER_NAMES", ""), ("WITHOUT_EVENTS", "the driver has no cuEvent")]
)
def test_a_driver_that_lacks_functions(flag: str, says: str, cuda_digits: Path, tmp_path: Path) -> None:
    """Graphs are only a shorter way, and some functions had another name before CUDA 11."""
    build(tmp_path, f"-D{flag}")
    said = in_a_process(cuda_digits, tmp_path, tmp_path)
    assert said == "" if not says else says in said and "E0507" in said
    if not says:
        agrees(digits(), 0, [np.load(tmp_path / "found.npy")])


_FORKS = """
import os, sys
from sterna_runtime import SternaError, load
def attempt():
    try:
        load(sys.argv[1]).close()
        return "works"
    except SternaError as problem:
        return problem.codes[0] + " " + str(problem.diagnostics[0].fix)
def child(name):
    sys.stdout.flush()
    number = os.fork()
    if number == 0:
        print(name, attempt(), flush=True)
        os._exit(0)
    os.waitpid(number, 0)
child("before:")
with load(sys.argv[1]):
    child("open:")
child("closed:")
"""


def test_forked_processes(cuda_digits: Path, tmp_path: Path) -> None:
    """One that was forked off a process that uses the driver cannot use it, and is told what can."""
    build(tmp_path)
    lines = in_a_process(cuda_digits, tmp_path, tmp_path, _FORKS).splitlines()
    assert [line.split()[:2] for line in lines] == [["before:", "works"], ["open:", "E0511"], ["closed:", "E0507"]]
    assert all("start processes that use CUDA by spawn" in line for line in lines[1:])


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a product of halves in tiles of 256 x 128, three steps of which are in shared memory together:
    more than a launch has without asking."""
    folder = tmp_path_factory.mktemp("asking")
    (folder / "one.toml").write_text('extends = "cuda-sm80"\n[threads]\nmultiprocessors = 1\n')
    weights = onnx.numpy_helper.from_array(halves(96, 128), "w")
    product = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float16[512,96] x) => (float16[512,128] y) { y = MatMul(x, w) }'
    )
    product.graph.initializer.append(weights)
    return compile_to(folder / "bundle", product, str(folder / "one.toml"))


def halves(*shape: int) -> np.ndarray:
    """Products of which are exact."""
    return np.random.default_rng(len(shape)).integers(-4, 5, shape).astype(np.float16)


def test_shared_memory_that_launches_ask_for(asking: Path, cuda: Driver) -> None:
    """One by one and as a graph; and on the devices that have least of those that the target is for."""
    (kernel,) = json.loads((asking / "graph.json").read_text())["kernels"]
    assert kernel["shared_bytes"] == kernel["asked_bytes"] > 49152
    assert re.search(r"\.extern \.shared \.align \d+ \.b8 \w+\[\];", (asking / "kernels.ptx").read_text())
    x, w = halves(512, 96), halves(96, 128)
    wanted = (x.astype(np.float32) @ w.astype(np.float32)).astype(np.float16)
    for capability in (80, 86):
        cuda.reset()
        cuda.set("capability", capability)
        with load(asking) as loaded:
            assert cuda.calls("cuFuncSetAttribute") == 1
            for _ in range(3):
                np.testing.assert_array_equal(loaded.run({"x": x})["y"], wanted)
            assert (cuda.calls("cuLaunchKernel"), cuda.calls("cuGraphLaunch")) == (2, 1)


def test_a_device_has_less_shared_memory_than_launches_ask_for(asking: Path, tmp_path: Path, cuda: Driver) -> None:
    cuda.set("capability", 86)
    more = edited(shutil.copytree(asking, tmp_path / "more"), lambda g: g["kernels"][0].update(asking_for(120000)))
    problem = refused(more)
    assert problem.codes == ("E0507",)
    assert "need 120000 bytes of shared memory, and Test GPU 0 has 101376" in str(problem)
    assert 'target="cuda"' in str(problem)
    cuda.set("capability", 80)
    load(more).close()


def asking_for(nbytes: int) -> dict[str, int]:
    return {"shared_bytes": nbytes, "asked_bytes": nbytes}


def test_less_is_asked_for_than_a_kernel_has(asking: Path, tmp_path: Path, cuda: Driver) -> None:
    """The driver refuses launches of a function that was not told of their shared memory, and no kernel reaches beyond
    what its launch has; a bundle that asks for more than its kernels have is damaged."""
    cuda.set("capability", 80)
    less = edited(shutil.copytree(asking, tmp_path / "less"), lambda g: g["kernels"][0].update(asking_for(50000)))
    with load(less) as loaded, pytest.raises(SternaError, match=r"E0511.*CUDA_ERROR_ILLEGAL_ADDRESS"):
        loaded.run({"x": halves(512, 96)})
    cuda.reset()
    cuda.set("capability", 80)
    cuda.set("fail cuFuncSetAttribute", 1)
    assert refused(asking).codes == ("E0511",)
    wrong = edited(shutil.copytree(asking, tmp_path / "wrong"), lambda g: g["kernels"][0].update(shared_bytes=64))
    assert refused(wrong).codes == ("E0504",)


def test_the_test_driver_refuses_launches_that_nobody_has_announced(asking: Path, cuda: Driver) -> None:
    cuda.set("capability", 80)
    with load(asking) as loaded:
        cuda.set("unannounced", 1)
        with pytest.raises(SternaError, match=r"E0511.*CUDA_ERROR_INVALID_VALUE"):
            loaded.run({"x": halves(512, 96)})
