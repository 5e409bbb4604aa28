"""Operators of TensorFlow against NumPy, written from what TensorFlow's documentation says of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.frontends import register
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.graph_defs import Function, GraphWriter, Kind

RNG = np.random.default_rng(5)
SETTINGS = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def run(writer: GraphWriter, folder: Path, dims: Any = None, **feeds: Any) -> list[Any]:
    graph = read_model(writer.write(folder), ReadOptions(dims=dims or {}))
    return list(interpret(graph, feeds).values())


def unary(op: str, x: Any, folder: Path, *constants: Any, **attributes: Any) -> Any:
    g = GraphWriter()
    g.input("x", x.shape, str(x.dtype))
    g.node(op, ["x", *(g.constant(c) for c in constants)], name="y", **attributes)
    return run(g, folder, x=x)[0]


@SETTINGS
@given(
    h=st.integers(4, 9), w=st.integers(4, 9), k=st.integers(1, 3), s=st.integers(1, 3), d=st.integers(1, 2),
    padding=st.sampled_from(("SAME", "VALID", "EXPLICIT")), layout=st.sampled_from(("NHWC", "NCHW")),
    op=st.sampled_from(("Conv2D", "DepthwiseConv2dNative")), groups=st.sampled_from((1, 2)),
)  # fmt: skip
def test_convolution(
    h: int, w: int, k: int, s: int, d: int, padding: str, layout: str, op: str, groups: int, tmp_path: Path
) -> None:
    x = RNG.normal(size=(2, h, w, 4)).astype(np.float32)
    if (k - 1) * d + 1 > min(h, w):
        return
    inner, outer = (4 // groups, 6) if op == "Conv2D" else (4, 2)
    weights = RNG.normal(size=(k, k, inner, outer)).astype(np.float32)
    reach = (k - 1) * d + 1
    amounts = []
    for size in (h, w):
        total = max((-(-size // s) - 1) * s + reach - size, 0)
        same = (total // 2, total - total // 2)
        amounts.append({"SAME": same, "VALID": (0, 0), "EXPLICIT": (2, 1)}[padding])
    padded = np.pad(x, ((0, 0), *amounts, (0, 0)))
    rows, columns = ((n - reach) // s + 1 for n in padded.shape[1:3])
    results = 6 if op == "Conv2D" else 8
    wanted = np.zeros((2, rows, columns, results))
    for i in range(k):
        for j in range(k):
            part = padded[:, i * d : i * d + (rows - 1) * s + 1 : s, j * d : j * d + (columns - 1) * s + 1 : s]
            for o in range(results):
                if op == "Conv2D":
                    first = (o // (6 // groups)) * inner
                    wanted[..., o] += part[..., first : first + inner] @ weights[i, j, :, o]
                else:
                    wanted[..., o] += part[..., o // 2] * weights[i, j, o // 2, o % 2]
    ones = lambda n: [1, n, n, 1] if layout == "NHWC" else [1, 1, n, n]  # noqa: E731
    pads = [0, 0, *amounts[0], *amounts[1], 0, 0] if layout == "NHWC" else [0, 0, 0, 0, *amounts[0], *amounts[1]]
    given_ = x if layout == "NHWC" else x.transpose(0, 3, 1, 2)
    got = unary(
        op, given_, tmp_path, weights, strides=ones(s), dilations=ones(d), padding=padding, data_format=layout,
        explicit_paddings=pads if padding == "EXPLICIT" else [],
    )  # fmt: skip
    got = got if layout == "NHWC" else got.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("op", "reference"),
    [
        ("DivNoNan", lambda a, b: np.where(b == 0, 0, a / np.where(b == 0, 1, b))),
        ("SquaredDifference", lambda a, b: (a - b) ** 2),
        ("FloorMod", np.mod),
        ("FloorDiv", np.floor_divide),
        ("Xdivy", lambda a, b: np.where(a == 0, 0, a / np.where(b == 0, np.inf, b))),
        ("NotEqual", np.not_equal),
        ("Maximum", np.maximum),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_binary(op: str, reference: Any, dtype: str, tmp_path: Path) -> None:
    if dtype == "int32" and op in ("DivNoNan", "Xdivy"):
        pytest.skip("only of floats")
    a, b = RNG.integers(-9, 9, (4, 1, 5)).astype(dtype), RNG.integers(1, 5, (3, 5)).astype(dtype)
    b *= RNG.choice(np.array([-1, 1], dtype), b.shape)
    if op == "DivNoNan":
        b[0, 0] = 0
    np.testing.assert_allclose(unary(op, a, tmp_path, b), reference(a, b), rtol=1e-6)


@SETTINGS
@given(data=st.data())
def test_strided_slice(data: st.DataObject, tmp_path: Path) -> None:
    x = np.arange(4 * 5 * 6, dtype=np.int32).reshape(4, 5, 6)
    masks = dict.fromkeys(("begin", "end", "ellipsis", "new_axis", "shrink_axis"), 0)
    begins, ends, steps, index = [], [], [], []
    kinds = data.draw(st.lists(st.sampled_from(("slice", "new", "one")), max_size=3))
    if data.draw(st.booleans()):
        kinds.insert(data.draw(st.integers(0, len(kinds))), "rest")
    for n, kind in enumerate(kinds):
        first, last = data.draw(st.integers(-6, 6)), data.draw(st.integers(-6, 6))
        step = data.draw(st.sampled_from((1, 2, -1, -2)))
        if kind == "one":
            first, step = data.draw(st.integers(-4, 3)), 1
            masks["shrink_axis"] |= 1 << n
            index.append(first)
        elif kind == "new":
            masks["new_axis"] |= 1 << n
            index.append(None)
        elif kind == "rest":
            masks["ellipsis"] |= 1 << n
            index.append(Ellipsis)
        else:
            skips = data.draw(st.tuples(st.booleans(), st.booleans()))
            masks["begin"] |= int(skips[0]) << n
            masks["end"] |= int(skips[1]) << n
            index.append(slice(None if skips[0] else first, None if skips[1] else last, step))
        begins.append(first)
        ends.append(last)
        steps.append(step)
    wanted = x[tuple(index)]
    if not kinds or wanted.size == 0:
        return
    bounds = [np.array(v, np.int32) for v in (begins, ends, steps)]
    got = unary("StridedSlice", x, tmp_path, *bounds, **{f"{k}_mask": v for k, v in masks.items()})
    np.testing.assert_array_equal(got, wanted)


def test_version_1_loop(tmp_path: Path) -> None:
    """while i < 5: x = x * 2 + i, written with Enter, Merge, Switch, NextIteration and Exit."""
    g = GraphWriter()
    g.input("x", (3,))
    g.constant(np.int32(0), name="zero")
    for name, first in (("i", "zero"), ("v", "x")):
        g.node("Enter", [first], name=f"{name}/enter", frame_name="loop")
        g.node("Merge", [f"{name}/enter", f"{name}/next"], name=f"{name}/merge")
    g.node("Less", ["i/merge", g.constant(np.int32(5))], name="less")
    g.node("LoopCond", ["less"], name="going")
    for name in ("i", "v"):
        g.node("Switch", [f"{name}/merge", "going"], name=f"{name}/switch")
        g.node("Identity", [f"{name}/switch:1"], name=f"{name}/inside")
    g.node("AddV2", ["i/inside", g.constant(np.int32(1))], name="i/after")
    g.node("Mul", ["v/inside", g.constant(np.float32(2))], name="double")
    g.node("Cast", ["i/inside"], name="number", DstT=Kind("float32"))
    g.node("AddV2", ["double", "number"], name="v/after")
    for name in ("i", "v"):
        g.node("NextIteration", [f"{name}/after"], name=f"{name}/next")
        g.node("Exit", [f"{name}/switch"], name=f"{name}/exit")
    g.node("Identity", ["v/exit"], name="y")
    g.node("Identity", ["i/exit"], name="z")
    x = np.array([1, -2, 0.5], np.float32)
    wanted = x
    for n in range(5):
        wanted = wanted * 2 + n
    y, z = run(g, tmp_path, x=x)
    np.testing.assert_allclose(y, wanted)
    assert int(z) == 5


@pytest.mark.parametrize("holds", [True, False])
def test_version_1_choice(holds: bool, tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("x", (3,))
    g.input("p", (), "bool")
    g.node("Switch", ["x", "p"], name="switch")
    g.node("Neg", ["switch"], name="no")
    g.node("Exp", ["switch:1"], name="yes")
    g.node("Merge", ["no", "yes"], name="merge")
    g.node("Identity", ["merge"], name="y")
    x = np.array([1, -2, 0.5], np.float32)
    (y,) = run(g, tmp_path, x=x, p=np.array(holds))
    np.testing.assert_allclose(y, np.exp(x) if holds else -x, rtol=1e-6)


@pytest.mark.parametrize("op", ["If", "StatelessIf"])
@pytest.mark.parametrize("holds", [True, False])
def test_version_2_choice(op: str, holds: bool, tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("x", (3,))
    g.input("p", (), "bool")
    for name, inner in (("yes", "Exp"), ("no", "Neg")):
        g.function(name, {"a": "float32"}, [(inner, ["a"], "made", {})], {"r": ("made:y:0", "float32")})
    g.node(op, ["p", "x"], name="y", then_branch=Function("yes"), else_branch=Function("no"))
    x = np.array([1, -2, 0.5], np.float32)
    (y,) = run(g, tmp_path, x=x, p=np.array(holds))
    np.testing.assert_allclose(y, np.exp(x) if holds else -x, rtol=1e-6)


@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
def test_version_2_loop_over_a_list(op: str, tmp_path: Path) -> None:
    """A TensorList is reserved, one element of it is written in every iteration, and it is stacked."""
    g = GraphWriter()
    g.input("x", (4, 2))
    variant = {"i": "int32", "held": "float32", "x": "float32"}
    g.function(
        "test", variant, [("Const", [], "n", {"value": np.array(4, np.int32)}), ("Less", ["i", "n:output:0"], "l", {})],
        {"r": ("l:z:0", "bool")},
    )  # fmt: skip
    g.function(
        "body",
        variant,
        [
            ("Const", [], "one", {"value": np.array(1, np.int32)}),
            ("TensorListFromTensor", ["x"], "rows", {}),
            ("TensorListGetItem", ["rows:output_handle:0", "i", "one:output:0"], "row", {}),
            ("Square", ["row:item:0"], "square", {}),
            ("TensorListSetItem", ["held", "i", "square:y:0"], "set", {}),
            ("AddV2", ["i", "one:output:0"], "next", {}),
        ],
        {"i_": ("next:z:0", "int32"), "h_": ("set:output_handle:0", "float32"), "x_": ("x", "float32")},
    )
    shape, count = g.constant(np.array([2], np.int32)), g.constant(np.int32(4))
    g.node("TensorListReserve", [shape, count], name="list", element_dtype=Kind("float32"))
    g.node(op, [g.constant(np.int32(0)), "list", "x"], name="loop", cond=Function("test"), body=Function("body"))
    g.node("TensorListStack", ["loop:1", shape], name="y")
    x = RNG.normal(size=(4, 2)).astype(np.float32)
    np.testing.assert_allclose(run(g, tmp_path, x=x)[0], x * x, rtol=1e-6)


def test_the_shape_of_an_open_batch_stays_open(tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("x", (-1, 2, 3))
    g.node("Shape", ["x"], name="shape", out_type=Kind("int32"))
    bounds = [g.constant(np.array([n], np.int32)) for n in (0, 1, 1)]
    g.node("StridedSlice", ["shape", *bounds], name="first", shrink_axis_mask=1)
    g.node("Pack", ["first", g.constant(np.int32(6))], name="wanted", axis=0)
    g.node("Reshape", ["x", "wanted"], name="y")
    graph = read_model(g.write(tmp_path), ReadOptions(dims={"batch": (1, 9)}))
    assert str(graph.outputs[0].type) == "float32[batch, 6]"


def test_a_registered_translation(tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("x", (3,))
    g.node("Wobble", ["x"], name="y", rate=2.0)
    with register("tensorflow", "Wobble", lambda t: t.op("mul", t.input(0), t.scalar(t.option("rate"), "float32"))):
        (y,) = run(g, tmp_path, x=np.ones(3, np.float32))
    np.testing.assert_allclose(y, [2, 2, 2])


@pytest.mark.parametrize("name", ["_FusedHardSwish", "GeluExact", "GeluApproximate", "LeakyRelu", "Relu6"])
def test_activations_that_a_product_is_fused_with(name: str, tmp_path: Path) -> None:
    """As Grappler, and with it the converter of TensorFlow.js, writes them."""
    random = np.random.default_rng(5)
    weights, bias, x = (random.normal(size=shape).astype(np.float32) for shape in ((4, 3), (3,), (6, 4)))
    g = GraphWriter()
    g.input("x", (6, 4))
    operands = ["x", g.constant(weights), g.constant(bias)]
    g.node("_FusedMatMul", operands, name="y", T=Kind("float32"), num_args=1, fused_ops=["BiasAdd", name])
    (found,) = interpret(read_model(g.write(tmp_path), ReadOptions()), {"x": x}).values()
    y = (x @ weights + bias).astype(np.float64)
    cubic = np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)
    wanted = {
        "_FusedHardSwish": y * np.clip(y / 6 + 0.5, 0, 1), "LeakyRelu": np.where(y < 0, 0.2 * y, y),
        "GeluExact": y * (1 + np.vectorize(math.erf)(y / np.sqrt(2))) / 2, "Relu6": np.clip(y, 0, 6),
        "GeluApproximate": y * (1 + np.tanh(cubic)) / 2,
    }[name]  # fmt: skip
    np.testing.assert_allclose(found, wanted, atol=1e-5)
