"""Loop and Scan of known numbers of iterations, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, parser

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.pipeline import optimize


def check(text: str, feeds: dict[str, np.ndarray]) -> None:
    """The model, in ONNX's textual form, computes what ONNX Runtime says, before and after the passes."""
    model = onnx.shape_inference.infer_shapes(parser.parse_model(text))
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    graph = read(model)
    for version in (graph, optimize(graph, check=True)):
        for have, want in zip(interpret(version, feeds).values(), expected, strict=True):
            assert have.shape == want.shape
            np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


def model(graph: str) -> str:
    return f'<ir_version: 8, opset_import: ["" : 17]>\n{graph}'


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


SCAN = """
    agraph (float[3] first, float[{x}] x, float[{y}] y, float[3] outer) => (float[3] last, float[{z}] z)
    {{
      last, z = Scan <num_scan_inputs = 2, {settings} body = step
        (float[3] s, float[3] a, float[3] b) => (float[3] t, float[3] r)
        {{ p = Mul(s, a)  t = Add(p, b)  r = Sub(t, outer) }}> (first, x, y)
    }}"""


@pytest.mark.parametrize("backward", [(0, 0), (1, 0)])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(axis: int, backward: tuple[int, int]) -> None:
    settings = f"scan_input_axes = [{axis}, 0], scan_output_axes = [{axis}], "
    settings += f"scan_input_directions = [{backward[0]}, {backward[1]}], scan_output_directions = [{backward[0]}],"
    shape = (3, 4) if axis else (4, 3)
    sizes = ",".join(map(str, shape))
    feeds = {"first": numbers(3), "x": numbers(*shape), "y": numbers(4, 3) + 1, "outer": numbers(3) * 2}
    check(model(SCAN.format(x=sizes, y="4,3", z=sizes, settings=settings)), feeds)


LOOP = """
    agraph (float[2] first, float[2] x) => (float[2] last, float[K, 2] rows)
    <int64 trips = {{{trips}}}, bool on = {{1}}, int64 stop = {{{stop}}}>
    {{
      last, rows = Loop (trips, on, first) <body = step
        (int64 i, bool going, float[2] s) => (bool more, float[2] t, float[2] row)
        {{ f = Cast <to = 1> (i)  p = Mul(s, x)  t = Add(p, f)  row = Identity(p)  more = Less(i, stop) }}>
    }}"""


@pytest.mark.parametrize(("trips", "stop"), [(1, 9), (5, 9), (5, 2)])
def test_loop(trips: int, stop: int) -> None:
    check(model(LOOP.format(trips=trips, stop=stop)), {"first": numbers(2), "x": numbers(2) + 1})


def refused(code: str, graph: str) -> None:
    with pytest.raises(SternaError, match=code):
        read(parser.parse_model(model(graph)))


def test_what_is_only_known_at_run_time_is_refused() -> None:
    refused("E0107", LOOP.format(trips=2**63 - 1, stop=99))
    refused(
        "E0107", LOOP.replace("<int64 trips = {{{trips}}}, ", "<").replace("x) =>", "x, int64 trips) =>").format(stop=3)
    )
    refused("E0107", SCAN.format(x="4,3", y="5,3", z="4,3", settings=""))


def test_scan_of_operator_set_8_has_batches() -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "a"], ["t"]), helper.make_node("Identity", ["t"], ["r"])],
        "step",
        [_value("s", 2), _value("a", 2)],
        [_value("t", 2), _value("r", 2)],
    )
    node = helper.make_node("Scan", ["", "first", "x"], ["last", "rows"], num_scan_inputs=1, body=body)
    graph = helper.make_graph(
        [node], "one", [_value("first", 2, 2), _value("x", 2, 3, 2)], [_value("last", 2, 2), _value("rows", 2, 3, 2)]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=8)
    feeds = {"first": numbers(2, 2), "x": numbers(2, 3, 2)}
    found = interpret(optimize(read(proto)), feeds)
    sums = feeds["first"][:, None] + np.cumsum(feeds["x"], axis=1)
    np.testing.assert_allclose(found["rows"], sums, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["last"], sums[:, -1], rtol=1e-5, atol=1e-6)


def _value(name: str, *shape: int) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
