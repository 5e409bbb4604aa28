"""Bundles for CUDA, through the runtime and a driver for tests: no GPU has run them. Their PTX is translated to C++ by
a second reading of PTX's manual (`support/ptx_on_cpu.py`) and run over fibers: threads in random orders, accesses
checked.

STERNA_CUDA=all runs every part of the operators.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper, parser

import sterna
from sterna.api import compile_model, compile_to
from sterna.bundle.writer import write_bundle
from sterna.cli import program
from sterna.codegen.ptx_warpgroups import WarpgroupWriter
from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.targets.description import load_target
from sterna_runtime import devices, load
from support import device_bundles, open_attention
from support.compiling import check
from support.control_flow import CHOICE, TRIPS, model, numbers
from support.convolutions import CHANNELS, network
from support.cuda_driver import Driver
from support.every_operator import agree, every_operator
from support.half_networks import half_network
from support.halves import in_halves
from support.open_networks import encoder, rows
from support.quantized_networks import network as quantized_network
from support.quantized_networks import quantized
from support.thread_programs import with_wide
from support.trained import agree as agrees
from support.trained import digits

pytestmark = [pytest.mark.family("cuda"), pytest.mark.usefixtures("fresh_cuda")]
PARTS = 16
SAMPLED = range(PARTS) if os.environ.get("STERNA_CUDA") == "all" else (6,)
NETWORKS = ("mlperf_tiny_kws_int8", "silero_vad_16k_f32")
#: Trained models in float16; STERNA_CUDA=all adds slower ones.
HALVES = ["digits", "torch_digits_vit", "keras_h5_mnist_dw"]
if os.environ.get("STERNA_CUDA") == "all":
    HALVES += ["torch_digits_cnn", "mnist_cntk_f32", "tf_sm_kws_dscnn", "mtcnn_rnet_f32", "mxnet_digits_lstm"]
    HALVES += ["g2p_id_bert_f32", "mlperf_tiny_resnet_f32", "mxnet_digits_resnet"]


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


@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 1024, 136), (20, 256, 96)])
def test_sums_in_parts_at_once(rows: int, depth: int, columns: int, tmp_path: Path, cuda: Driver) -> None:
    """One launch: its blocks run in any order, run after run, and every run gives the same bits."""
    w = numpy_helper.from_array(np.sin(np.arange(depth * columns, dtype=np.float32)).reshape(depth, columns), "w")
    product = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> net (float[{rows},{depth}] x) => (float[{rows},{columns}] y) '
        "{ m = MatMul(x, w) y = Relu(m) }"
    )
    product.graph.initializer.append(w)
    x = np.cos(np.arange(rows * depth, dtype=np.float32)).reshape(rows, depth)
    folder = compile_to(tmp_path / "bundle", product, "cuda")
    text = (folder / "kernels.ptx").read_text()
    assert text.count(".entry") == text.count("atom.global.inc.u32") == 1
    with load(folder) as loaded:
        results = []
        for seed in (0, 1, 2):
            cuda.set("seed", seed)
            before = cuda.calls("cuLaunchKernel")
            results.append(loaded.run({"x": x})["y"])
            assert cuda.calls("cuLaunchKernel") <= before + 1
    np.testing.assert_allclose(results[0], np.maximum(x @ numpy_helper.to_array(w), 0), 1e-4, 1e-4)
    assert all(np.array_equal(results[0], each) for each in results)


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


def test_products_of_warpgroups(tmp_path: Path, cuda: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each goes on while the next step begins. What threads wrote to shared memory has to be fenced before the barrier
    behind which a warpgroup reads it there; the stand-in refuses what is not."""
    cuda.set("capability", 90)
    product = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float16[64,256] x, float16[256,72] w) => (float16[64,72] y) '
        "{ y = MatMul(x, w) }"
    )
    (tmp_path / "few.toml").write_text('extends = "cuda-sm90a"\n[threads]\nmultiprocessors = 1\n')
    folder = compile_to(tmp_path / "bundle", product, str(tmp_path / "few.toml"))
    given = {"x": numbers(64, 256).astype(np.float16), "w": numbers(256, 72).astype(np.float16)}
    with load(folder) as loaded:
        found = loaded.run(given)["y"].astype(np.float32)
    wanted = given["x"].astype(np.float64) @ given["w"].astype(np.float64)
    np.testing.assert_allclose(found, wanted, 0, 1e-3 * np.abs(wanted).max())
    assert "wgmma.wait_group.sync.aligned 1;" in (folder / "kernels.ptx").read_text()
    monkeypatch.setattr(WarpgroupWriter, "visible_to_products", lambda self: None)
    with (
        load(compile_to(tmp_path / "unfenced", product, str(tmp_path / "few.toml"))) as loaded,
        pytest.raises(SternaError, match="CUDA_ERROR_INVALID_ADDRESS_SPACE"),
    ):
        loaded.run(given)


@pytest.mark.parametrize("name", HALVES)
def test_models_in_half_precision(name: str, tmp_path: Path, cuda: Driver) -> None:
    """Convolutions, depthwise ones and of single channels too, normalizations, attention, recurrences between casts."""
    cuda.set("capability", 80)
    cuda.set("version", 12000)
    device_bundles.halves_are_rounded_as_the_model_says(name, "cuda-sm80", tmp_path)


def test_half_precision_of_open_sizes(cuda: Driver) -> None:
    """An encoder in float16, of any batch and length, none included: as near to float32 as its own roundings are."""
    cuda.set("capability", 80)
    cuda.set("version", 12000)
    network, dims = in_halves(encoder(width=48, layers=1)), {"batch": (0, 3), "seq": (0, 48)}
    names, random = [i.name for i in network.graph.input], np.random.default_rng(2)
    with sterna.compile(network, "cuda-sm80", dims=dims) as there:
        for batch, length in ((0, 9), (2, 0), (1, 1), (3, 17), (3, 48)):
            tokens = random.integers(0, 2, (batch, length))
            tokens[:, :1] = 1
            (found,) = there.run(dict.fromkeys(names, tokens)).values()
            assert found.shape == (batch, length, 48)
            if batch and length:
                sizes = {"batch": batch, "seq": length}
                (wanted,) = interpret(read(network, None, sizes), dict.fromkeys(names, tokens)).values()
                off = np.abs(found.astype(np.float32) - wanted.astype(np.float32))
                assert off.max() <= 8e-3 * np.abs(wanted.astype(np.float32)).max()


def test_the_text_has_fragments(tmp_path: Path) -> None:
    ptx = (compile_to(tmp_path / "half", half_network(), "cuda") / "kernels.ptx").read_text()
    products = re.findall(r"wmma\.mma\.sync\.aligned\.\w+\.\w+\.m16n16k16\.f32\.f32", ptx)
    assert len(products) > 5


def test_the_text_has_fragments_of_bytes(tmp_path: Path) -> None:
    """Activations without signs become those of the weights' sign, and none of the products is left to words."""
    file = quantized(quantized_network, tmp_path, "uint8", "int8", channels=True)
    ptx = (compile_to(tmp_path / "bytes", file, "cuda") / "kernels.ptx").read_text()
    assert len(re.findall(r"wmma\.mma\.sync\.aligned\.\w+\.\w+\.m16n16k16\.s32\.s8\.s8\.s32", ptx)) > 3
    assert "dp4a" not in ptx


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
def test_a_run_is_one_launch_from_the_third_on(cuda_digits: Path, cuda: Driver) -> None:
    """The first run is compared with the second, from which a graph is made."""
    with load(cuda_digits) as loaded:
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


def test_a_run_enters_the_context_once(cuda_digits: Path, cuda: Driver) -> None:
    """Launches and copies are noted; the driver hears of them when somebody waits."""
    with load(cuda_digits) as loaded:
        for run in range(5):
            before = cuda.calls("cuCtxPushCurrent")
            agrees(digits(), 0, list(loaded.run(digits().cases[0].inputs).values()))
            assert run < 2 or cuda.calls("cuCtxPushCurrent") == before + 1


@pytest.mark.parametrize("call", ["Create", "AddKernelNode", "AddMemcpyNode", "Instantiate"])
def test_a_driver_that_makes_no_graph(call: str, cuda_digits: Path, cuda: Driver) -> None:
    with load(cuda_digits) as loaded:
        for run in range(4):
            cuda.set(f"fail cuGraph{call}", 1)
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


def test_times_of_nodes(cuda_digits: Path, cuda: Driver) -> None:
    """Measured launches are graphs with an event before and behind; without graphs the events are the stream's."""
    device_bundles.nodes_are_timed(cuda_digits)
    assert cuda.calls("cuEventRecord") == 0
    assert cuda.calls("cuGraphAddEventRecordNode") > 0
    with load(cuda_digits) as loaded:
        cuda.set("fail cuGraphAddEventRecordNode", 1)
        loaded.profile(1)
    assert cuda.calls("cuEventRecord") > 0


def test_several_models_at_once(cuda_digits: Path) -> None:
    device_bundles.several_models_at_once(cuda_digits)


def test_places_on_both(tmp_path: Path) -> None:
    made = compile_to(tmp_path / "bundle", digits().file, "cuda", device_for={"*conv*": "cpu"})
    with load(made) as loaded:
        for _ in range(3):
            agrees(digits(), 0, list(loaded.run(digits().cases[0].inputs).values()))


# ---------------------------------------------------------------- what goes wrong


def test_describing_a_device_makes_no_context(cuda: Driver) -> None:
    assert devices.describe("cuda").startswith("Test GPU 0")
    assert cuda.calls("cuDevicePrimaryCtxRetain") == 0


def test_a_requirement_that_fails_is_reported() -> None:
    device_bundles.a_requirement_that_fails_is_reported("cuda", 3)


# ---------------------------------------------------------------- what is written
def test_the_text_is_the_same_every_time_and_needs_no_library() -> None:
    texts = {compile_model(digits().file, "cuda").module for _ in range(2)}
    (text,) = texts
    assert ".version 6.3\n.target sm_75\n" in text
    assert ".extern" not in text
    assert ".approx" not in text
    for target, version, name in (
        ("cuda-sm80", "7.0", "sm_80"),
        ("cuda-sm90", "7.8", "sm_90"),
        ("cuda-sm90a", "8.0", "sm_90a"),
    ):
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
