"""Bundles for devices, whatever drives them: what all of them have to do, and bundles that are damaged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import sterna
from sterna.api import options_of
from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna.targets.description import load_target
from sterna_runtime import devices, hash64, load
from support.compiling import check
from support.control_flow import numbers
from support.every_operator import agree, every_operator
from support.frontend_models import frontend_model, frontend_model_names
from support.open_networks import rows
from support.quantized_networks import network, quantized
from support.retyped import HALF, as_types, in_halves, run_in_float64
from support.trained import agree as agrees
from support.trained import digits, sample


@contextmanager
def opencl(cache: Path) -> Iterator[pytest.MonkeyPatch]:
    """There is a device for OpenCL, whose driver keeps what it compiles in `cache`; tests are skipped otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POCL_CACHE_DIR", str(cache))
        try:
            devices.describe("opencl")
        except SternaError as problem:
            pytest.skip(f"needs pocl-opencl-icd: runs OpenCL C: {problem.diagnostics[0].title}")
        yield patch


def edited(bundle: Path, change: Callable[[Any], object]) -> Path:
    """The bundle with another graph.json, whose hash is right."""
    first, _, rest = (bundle / "graph.json").read_text().partition("\n")
    graph = json.loads(first + rest)
    change(graph)
    version = graph.pop("sterna")
    del graph["hash"]
    text = json.dumps(graph, separators=(",", ":"))[1:]
    (bundle / "graph.json").write_text(f'{{"sterna":{version},"hash":"{hash64(text.encode())}",\n{text}')
    return bundle


def refused(bundle: Path) -> SternaError:
    with pytest.raises(SternaError) as caught:
        load(bundle)
    return caught.value


def a_trained_model(name: str, target: str) -> None:
    trained = sample(name)
    with sterna.compile(trained.file, target, shapes=trained.shapes()) as loaded:
        for number, case in enumerate(trained.cases[:2]):
            agrees(trained, number, list(loaded.run(case.inputs).values()))


def halves_are_rounded_as_the_model_says(name: str, target: str, place: Path) -> None:
    """A trained model in float16, from the same in float64: no output is further off than twice what rounding every
    tensor of it takes, or than half a step of float16."""
    model = sample(name) if name not in frontend_model_names() else frontend_model(name)
    half = in_halves(read_model(model.file, ReadOptions(shapes=model.shapes(), values=model.values or None)))
    assert not half.beyond
    given = as_types(model.cases[0].inputs, HALF)
    device = load_target(target).device
    assert device is not None
    options = options_of(target, device_for={"*": device.kind})  # the estimate would leave it to the CPU
    with load(write_bundle(compile_graph(half.graph, "half", options), place / "there")) as there:
        found = {key: array.copy() for key, array in there.run(given).items()}
    (exact,) = run_in_float64(half.graph, [given], place / "exact")
    rounded = interpret(half.graph, given)
    for key, wanted in exact.items():
        if wanted.dtype.kind != "f":
            continue
        off, own = (float(np.abs(x[key].astype(np.float64) - wanted).max()) for x in (found, rounded))
        assert off <= max(2 * own, 2.0**-11 * float(np.abs(wanted).max())), (key, off, own)


def bytes_are_multiplied(target: str, place: Path) -> None:
    """Quantized networks, activations of either sign: the same as on the CPU, to the last bit."""
    given = {"x": np.random.default_rng(6).standard_normal((1, 3, 18, 18)).astype(np.float32)}
    for signs in ("int8", "uint8"):
        file = quantized(network, place, signs, "int8", channels=True)
        with sterna.compile(file, target) as there, sterna.compile(file) as here:
            check(there.run(given), here.run(given), 0)


def a_part_of_the_operators(part: int, parts: int, target: str, place: Path) -> None:
    graph, inputs, expected = every_operator(part=part, parts=parts)
    options = Options(load_target(target), host=load_target("host"))
    with load(write_bundle(compile_graph(graph, "small", options), place)) as loaded:
        agree(loaded.run(inputs), expected)


def open_sizes(target: str) -> None:
    dims = {"batch": (1, 4), "length": (2, 40)}
    with sterna.compile(rows(), target, dims=dims) as there, sterna.compile(rows(), dims=dims) as here:
        for batch, length in ((4, 40), (1, 2), (3, 17), (4, 40)):
            given = {"x": numbers(batch, length)}
            check(there.run(given), here.run(given), 1e-4)


def states_are_kept_and_reset(target: str) -> None:
    trained = sample("silero_vad_16k_f32")
    with sterna.compile(trained.file, target, shapes=trained.shapes()) as loaded:
        once = [out.copy() for out in loaded.run(trained.cases[0].inputs).values()]
        loaded.run(trained.cases[1].inputs)
        loaded.reset_state()
        again = list(loaded.run(trained.cases[0].inputs).values())
    assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))


def nodes_are_timed(digits_bundle: Path) -> None:
    with load(digits_bundle) as loaded:
        loaded.run(digits().cases[0].inputs)
        times = loaded.profile(2)
    assert times[0].kernel == "copy"
    assert all(t.nanoseconds > 0 for t in times)


def several_models_at_once(digits_bundle: Path) -> None:
    case = digits().cases[1]
    loaded = [load(digits_bundle) for _ in range(3)]
    try:
        for each in (*loaded, loaded[0]):
            agrees(digits(), 1, list(each.run(case.inputs).values()))
        loaded.pop(1).close()
        agrees(digits(), 1, list(loaded[-1].run(case.inputs).values()))
    finally:
        for each in loaded:
            each.close()


def a_requirement_that_fails_is_reported(target: str, runs: int) -> None:
    """A kernel sets the status that the runtime reads; the next run is as if nothing had been."""
    fed = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
        helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
    ]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])]
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("Reshape", ["t", "shape"], ["y"])]
    graph = helper.make_graph(nodes, "net", fed, made)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.arange(4, dtype=np.float32)
    with sterna.compile(source, target) as loaded:
        for _ in range(runs):
            y = loaded.run({"x": x, "shape": np.array([2, 2])})["y"]
            np.testing.assert_allclose(y, np.tanh(x).reshape(2, 2), 1e-5)
            with pytest.raises(SternaError) as caught:
                loaded.run({"x": x, "shape": np.array([4, 1])})
            assert caught.value.codes == ("E0511",)
