"""Bundles for CUDA, through the runtime and a driver for tests: no GPU has run them. Their PTX is translated to C++ by
a second reading of PTX's manual (`support/ptx_on_cpu.py`) and run over fibers: threads in random orders, accesses
checked.

STERNA_CUDA=all runs every part of the operators.
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, parser

import sterna
from sterna.api import compile_model, compile_to
from sterna.bundle.writer import write_bundle
from sterna.cli import program
from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.targets.description import load_target
from sterna_runtime import devices, hash64, load
from support import device_bundles, open_attention
from support.compiling import check
from support.control_flow import CHOICE, TRIPS, model, numbers
from support.convolutions import CHANNELS, network
from support.cuda_driver import Driver, build
from support.device_bundles import edited, refused
from support.every_operator import agree, every_operator
from support.half_networks import half_network
from support.open_networks import rows
from support.thread_programs import with_wide
from support.tools import ROOT
from support.trained import agree as agrees
from support.trained import digits

pytestmark = pytest.mark.family("cuda")
PARTS = 16
SAMPLED = range(PARTS) if os.environ.get("STERNA_CUDA") == "all" else (6,)
NETWORKS = ("mlperf_tiny_kws_int8", "silero_vad_16k_f32")


@pytest.fixture(autouse=True)
def fresh(cuda: Driver) -> Iterator[None]:
    """A driver as it is at first; afterwards nothing is held, and no context is left current."""
    cuda.reset()
    yield
    gc.collect()
    cuda.reset()
    assert (cuda.held, cuda.contexts) == (0, 0)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_to(tmp_path_factory.mktemp("digits") / "digits", digits().file, "cuda")


@pytest.mark.parametrize("name", NETWORKS)
def test_models(name: str) -> None:
    device_bundles.a_trained_model(name, "cuda")


def test_bytes(tmp_path: Path) -> None:
    device_bundles.bytes_are_multiplied("cuda", tmp_path)


@pytest.mark.parametrize("part", SAMPLED)
def test_every_operator(part: int, tmp_path: Path) -> None:
    device_bundles.a_part_of_the_operators(part, PARTS, "cuda", tmp_path / "bundle")


def test_wide_accesses(tmp_path: Path) -> None:
    """Threads read and store several neighbours at once; the driver refuses addresses that are no multiple of that."""
    graph, inputs, expected = every_operator(part=4, parts=PARTS)
    options = Options(with_wide(load_target("cuda")), host=load_target("host"))
    with load(write_bundle(compile_graph(graph, "small", options), tmp_path / "bundle")) as loaded:
        agree(loaded.run(inputs), expected)
    text = (tmp_path / "bundle" / "kernels.ptx").read_text()
    assert "ld.global.v4.b32" in text
    assert "st.global.v4.b32" in text


def test_shared_memory_of_four_bytes(tmp_path: Path, cuda: Driver) -> None:
    """A product reads its operands 16 bytes at a time; none are stored so where shared memory allows no more than 4."""
    cuda.set("capability", 80)
    cuda.set("version", 12000)
    table = '[[memories]]\nname = "shared"\nreach = "block"\nbytes = 49152\nalignment = 4\naddress_space = 3\n'
    (tmp_path / "four.toml").write_text(f'extends = "cuda-sm80"\n{table}')
    product = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[64,64] x, float[64,64] w) => (float[64,64] y) '
        "{ y = MatMul(x, w) }"
    )
    given = {"x": numbers(64, 64), "w": numbers(64, 64) + 1}
    for name, target, wide in (("four", str(tmp_path / "four.toml"), False), ("default", "cuda-sm80", True)):
        folder = compile_to(tmp_path / name, product, target)
        with load(folder) as loaded:
            np.testing.assert_allclose(loaded.run(given)["y"], given["x"] @ given["w"], 1e-4, 1e-4)
        text = (folder / "kernels.ptx").read_text()
        assert "ld.global.nc.v4.b32" in text
        assert bool(re.search(r"st\.shared\.v|cp\.async", text)) == wide


@pytest.mark.parametrize("target", ["cuda", "cuda-sm80"])
def test_half_precision(target: str, cuda: Driver) -> None:
    """A model in float16 keeps it, and its products are fragments': no further from float32 than one that is rounded
    after every node."""
    cuda.set("capability", 80)
    cuda.set("version", 12000)
    x = np.random.default_rng(1).standard_normal((1, 3, 22, 22)).astype(np.float16)
    with sterna.compile(half_network(), target) as there:
        (found,) = there.run({"x": x}).values()
    (wanted,) = interpret(read(half_network()), {"x": x}).values()
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), 0, 4e-3 * np.abs(wanted).max())


def test_the_text_has_fragments(tmp_path: Path) -> None:
    ptx = (compile_to(tmp_path / "half", half_network(), "cuda") / "kernels.ptx").read_text()
    products = re.findall(r"wmma\.mma\.sync\.aligned\.\w+\.\w+\.m16n16k16\.f32\.f32", ptx)
    assert len(products) > 5


def test_tf32_is_asked_for(tmp_path: Path, cuda: Driver) -> None:
    """No product of float32 is rounded unless errors are allowed, and then it is further from exact by that alone."""
    cuda.set("capability", 80)
    cuda.set("version", 12000)
    model, x = network(), np.random.default_rng(1).standard_normal((1, CHANNELS, 16, 16)).astype(np.float32)
    exact = compile_to(tmp_path / "exact", model, "cuda-sm80")
    assert "wmma" not in (exact / "kernels.ptx").read_text()
    rounded = compile_to(tmp_path / "tf32", model, "cuda-sm80", math="fast=0.05")
    text, stored = (rounded / "kernels.ptx").read_text(), json.loads((rounded / "graph.json").read_text())["math"]
    assert "m16n16k8.f32.tf32.tf32.f32" in text
    assert {row["dtype"] for row in stored["narrow"]} == {"tf32"}
    with load(exact) as one, load(rounded) as other:
        wanted, found = one.run({"x": x}), other.run({"x": x})
    for name, array in wanted.items():
        assert 1e-6 < np.abs(found[name] - array).max() / np.abs(array).max() < 0.05 / 8


def test_open_sizes() -> None:
    device_bundles.open_sizes("cuda")


def test_attention_of_open_sizes() -> None:
    open_attention.agrees("cuda", "decoder")


@pytest.mark.parametrize(("text", "name"), [(CHOICE, "hot"), (TRIPS, "trips")])
def test_control_flow(text: str, name: str) -> None:
    x, y = numbers(3, 4) if name == "hot" else numbers(4, 4), numbers(4, 4)
    source = parser.parse_model(model(text))
    with sterna.compile(source, "cuda") as there, sterna.compile(source) as here:
        for value in (True, False) if name == "hot" else (0, 3):
            given = {name: np.array(value), "x": x, **({"y": y} if name == "hot" else {"first": numbers(4, 4)})}
            check(there.run(given), here.run(given), 1e-5)


# ---------------------------------------------------------------- graphs, states, times
def test_a_run_is_one_launch_from_the_third_on(bundle: Path, cuda: Driver) -> None:
    """The first run is compared with the second, from which a graph is made."""
    with load(bundle) as loaded:
        for run in range(5):
            case = run % len(digits().cases)
            before = cuda.calls("cuLaunchKernel"), cuda.calls("cuGraphLaunch"), cuda.calls("cuStreamSynchronize")
            agrees(digits(), case, list(loaded.run(digits().cases[case].inputs).values()))
            if run > 2:
                after = cuda.calls("cuLaunchKernel"), cuda.calls("cuGraphLaunch")
                assert after == (before[0], before[1] + 1)
        assert cuda.calls("cuGraphInstantiate") >= 1


def test_a_run_waits_once_for_all_results(cuda: Driver) -> None:
    """Also for one that is too large for pinned memory; a run in which nodes are measured waits for each."""
    small, large = [3, 5], [3 << 10, 1 << 10]
    fed = [helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, s) for n, s in enumerate((small, small, large))]
    made = [helper.make_tensor_value_info(f"y{n}", TensorProto.FLOAT, s) for n, s in enumerate((small, small, large))]
    nodes = [helper.make_node("Neg", [f"x{n}"], [f"y{n}"]) for n in range(3)]
    for count in (2, 3):
        graph = helper.make_graph(nodes[:count], "net", fed[:count], made[:count])
        source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        with sterna.compile(source, "cuda") as loaded:
            for run in range(4):
                given = {f"x{n}": numbers(*(small if n < 2 else large)) + run for n in range(count)}
                before = cuda.calls("cuStreamSynchronize")
                found = loaded.run(given)
                assert all(np.array_equal(found[f"y{n}"], -given[f"x{n}"]) for n in range(count))
                waited = cuda.calls("cuStreamSynchronize") - before
                # The first run takes pinned memory. What is too large for it waits on its way in, before and after.
                assert run == 0 or waited == (1 if count == 2 else 3), f"run {run} waited {waited} times"
            assert all(t.nanoseconds > 0 for t in loaded.profile(1))


def test_graphs_of_two_signatures(cuda: Driver) -> None:
    """Sizes change what is launched; each has its own graph, and neither is run for the other."""
    dims = {"batch": (1, 4), "length": (2, 40)}
    with sterna.compile(rows(), "cuda", dims=dims) as there, sterna.compile(rows(), dims=dims) as here:
        for _ in range(4):
            for batch, length in ((4, 40), (2, 7)):
                given = {"x": numbers(batch, length)}
                check(there.run(given), here.run(given), 1e-4)
    assert cuda.calls("cuGraphLaunch") > 0


def test_a_driver_that_makes_no_graph(bundle: Path, cuda: Driver) -> None:
    with load(bundle) as loaded:
        for run in range(4):
            cuda.set("fail cuGraphInstantiate", 1)
            agrees(digits(), 0, list(loaded.run(digits().cases[0].inputs).values()))
            assert run < 3 or cuda.calls("cuGraphLaunch") == 0


def test_states_are_kept_and_reset() -> None:
    device_bundles.states_are_kept_and_reset("cuda")


def test_large_tensors_are_not_staged(cuda: Driver) -> None:
    """9 MB in and out, and 12 MB of weights: more than pinned memory takes."""
    shape = [3 << 10, 1 << 10]
    weights = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape) % 251
    fed, made = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "y"))
    constant = helper.make_tensor("w", TensorProto.FLOAT, shape, weights.tobytes(), raw=True)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "net", [fed], [made], [constant])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with sterna.compile(source, "cuda") as loaded:
        for scale in (1, 2):
            x = weights * scale
            assert np.array_equal(loaded.run({"x": x})["y"], x + weights)


def test_times_of_nodes(bundle: Path) -> None:
    device_bundles.nodes_are_timed(bundle)


def test_several_models_at_once(bundle: Path) -> None:
    device_bundles.several_models_at_once(bundle)


def test_places_on_both(tmp_path: Path) -> None:
    made = compile_to(tmp_path / "bundle", digits().file, "cuda", device_for={"*conv*": "cpu"})
    with load(made) as loaded:
        for _ in range(3):
            agrees(digits(), 0, list(loaded.run(digits().cases[0].inputs).values()))


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("target", "key", "value", "code", "says"),
    [
        ("cuda", "capability", 61, "E0507", '0 has 6.1\n  {}\n  fix: compile with target="opencl" or target="host"'),
        ("cuda-sm90", "capability", 86, "E0507", 'has 8.6\n  {}\n  fix: compile with target="cuda-sm80"'),
        ("cuda-sm90", "version", 11040, "E0507", "is of CUDA 11.4, and kernels need 11.8"),
        ("cuda", "version", 9020, "E0507", '10.0\n  {}\n  fix: update the driver, or compile with target="opencl"'),
        ("cuda", "devices", 0, "E0507", "CUDA_ERROR_NO_DEVICE"),
        ("cuda", "fail cuInit", 803, "E0507", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        ("cuda", "memory", 20000, "E0502", "bytes is needed, and "),
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


def test_a_device_by_its_name(bundle: Path, cuda: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.set("devices", 3)
    for wanted, found in (("2", "Test GPU 2"), ("GPU 1", "Test GPU 1"), ("PU", "Test GPU 0"), ("", "Test GPU 0")):
        monkeypatch.setenv("STERNA_CUDA_DEVICE", wanted)
        assert devices.describe("cuda").startswith(found)
    monkeypatch.setenv("STERNA_CUDA_DEVICE", "Voodoo")
    problem = refused(bundle)
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
        (lambda g: g["kernels"][2].update(name="nothing"), "E0511", "cuModuleGetFunction of nothing"),
        (lambda g: g["devices"][0].update(scratch_bytes=1 << 50), "E0502", "a buffer of"),
    ],
)  # fmt: skip
def test_a_graph_that_the_device_does_not_take(tmp_path: Path, change: Any, code: str, says: str) -> None:
    problem = refused(edited(compile_to(tmp_path / "bundle", digits().file, "cuda"), change))
    assert problem.codes == (code,), problem
    assert says in str(problem)


def failure(bundle: Path, cuda: Driver, name: str, code: int) -> str:
    """The code of the error where a call of the driver fails once while a model is loaded or run."""
    cuda.set(f"fail {name}", code)
    try:
        loaded = load(bundle)
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


@pytest.mark.parametrize("code", [1, 2, 700])
def test_every_call_may_fail(bundle: Path, cuda: Driver, code: int) -> None:
    """Each call of the driver fails once, while a model is loaded and run: an error with the driver's words, nothing
    held, and the next load works; of a lost context it works once everybody has let go of it."""
    names = (
        "cuCtxPushCurrent", "cuMemAlloc", "cuMemAllocHost", "cuMemsetD8Async", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
        "cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchKernel", "cuStreamCreate", "cuStreamSynchronize",
        "cuEventCreate", "cuEventRecord", "cuEventElapsedTime",
    )  # fmt: skip
    for name in names:
        cuda.reset()
        assert failure(bundle, cuda, name, code) in ("E0502", "E0507", "E0508", "E0511"), name
        gc.collect()  # of the traceback, which has the model
        assert (cuda.held, cuda.contexts) == (0, 0), name
        with load(bundle) as again:
            agrees(digits(), 0, list(again.run(digits().cases[0].inputs).values()))


def test_a_lost_device_is_survived(bundle: Path, cuda: Driver) -> None:
    """A kernel that reads where nothing is loses the context of all models; they say so, and a new start works."""
    first, second = load(bundle), load(bundle)
    cuda.set("fail cuStreamSynchronize", 700)
    with pytest.raises(SternaError, match=r"(?s)E0511.*CUDA_ERROR_ILLEGAL_ADDRESS.*fix: close them, and load again"):
        first.run(digits().cases[0].inputs)
    for each in (first, second):
        with pytest.raises(SternaError, match=r"E0511.*the device was lost"):
            each.run(digits().cases[0].inputs)
    first.close()
    assert refused(bundle).codes == ("E0511",)
    second.close()
    gc.collect()
    with load(bundle) as again:
        agrees(digits(), 0, list(again.run(digits().cases[0].inputs).values()))


def test_a_requirement_that_fails_is_reported() -> None:
    device_bundles.a_requirement_that_fails_is_reported("cuda", 3)


# ---------------------------------------------------------------- what is written
def test_the_text_is_the_same_every_time_and_needs_no_library() -> None:
    texts = {compile_model(digits().file, "cuda").module for _ in range(2)}
    (text,) = texts
    assert ".version 6.3\n.target sm_75\n" in text
    assert ".extern" not in text
    assert ".approx" not in text
    for target, version, name in (("cuda-sm80", "7.0", "sm_80"), ("cuda-sm90", "7.8", "sm_90")):
        assert f".version {version}\n.target {name}\n" in compile_model(digits().file, target).module


def test_commands(tmp_path: Path) -> None:
    made = tmp_path / "digits"
    runner = CliRunner()
    for command, says in (
        (["compile", digits().file, "-t", "cuda", "-o", made], "kernels of the device, PTX"),
        (["inspect", made, "--nodes"], "cpu to cuda"),
        (["run", made, "--random"], "scores"),
        (["profile", made], "copy"),
        (["verify", digits().file, "-t", "cuda"], "agrees"),
        (["doctor"], "Test GPU 0"),
    ):
        done = runner.invoke(program, [str(part) for part in command])
        assert done.exit_code == 0, done.output
        assert says in done.output, done.output


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


def in_a_process(bundle: Path, drivers: Path, folder: Path) -> str:
    """What loading and running says where the system finds libraries in a folder; the result is found.npy."""
    np.save(folder / "x.npy", digits().cases[0].inputs["image"])
    (folder / "runs.py").write_text(_RUNS)
    search = os.pathsep.join([str(ROOT / "compiler"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, folder / "runs.py", bundle, folder / "x.npy", folder / "found.npy"]
    return subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "LD_LIBRARY_PATH": str(drivers), "PYTHONPATH": search},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def test_no_driver(bundle: Path, tmp_path: Path) -> None:
    """What stands in the driver's place is no library, so that a driver which may be installed is not found."""
    (tmp_path / "libcuda.so.1").write_text("no library")
    if Path("/usr/lib/wsl/lib/libcuda.so.1").exists():
        pytest.skip("a driver is installed that is opened by its path")
    said = in_a_process(bundle, tmp_path, tmp_path)
    assert "E0507" in said
    assert 'fix: install NVIDIA\'s driver, or compile with target="opencl" or target="host"' in said


@pytest.mark.parametrize(("flag", "says"), [("WITHOUT_GRAPHS", ""), ("WITHOUT_EVENTS", "the driver has no cuEvent")])
def test_a_driver_that_lacks_functions(flag: str, says: str, bundle: Path, tmp_path: Path) -> None:
    """Graphs are only a shorter way."""
    build(tmp_path, f"-D{flag}")
    said = in_a_process(bundle, tmp_path, tmp_path)
    assert said == "" if not says else says in said and "E0507" in said
    if not says:
        agrees(digits(), 0, [np.load(tmp_path / "found.npy")])
