"""Networks of 16-bit floats are computed on float32: every operator that may be is itself, rounded once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, Value, tensor_type
from sterna.ops import Builder, operator, operators
from sterna.ops.evaluate import evaluate
from sterna.ops.operator import Case
from sterna.passes.fold_constants import fold_constants
from sterna.passes.widen_halves import float32_results, is_exact, widen_halves

#: Alone they are ONNX's chain of operators, each of which rounds; in a network of products they round once, as those
#: of PyTorch and ONNX Runtime do.
ROUNDED_ONCE = ("softmax", "log_softmax")
HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def node_of(name: str, case: Case, dtype: str) -> tuple[Node, list[Array | None]] | None:
    """One application of an operator to operands of 16 bits, where the case has floats; None where it takes none."""
    arrays = [
        a.astype(HALVES[dtype]) if a is not None and a.dtype in (np.float16, np.float32) else a for a in case.arrays()
    ]
    if not any(a is not None and a.dtype == HALVES[dtype] for a in arrays):
        return None
    inputs = tuple(
        None if a is None else Value(f"x{n}", tensor_type(dtypes.from_numpy(a.dtype), a.shape))
        for n, a in enumerate(arrays)
    )
    b = Builder()
    try:
        b.add_all(name, *inputs, **case.attributes)
    except SternaError:
        return None
    return b.nodes[-1], arrays


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", [name for name in operators() if name not in ROUNDED_ONCE])
def test_an_operator_on_float32_rounded_is_itself(name: str, dtype: str) -> None:
    for case in operator(name).cases:
        applied = node_of(name, case, dtype)
        kinds = None if applied is None else float32_results(applied[0])
        if applied is None or kinds is None:
            continue
        node, arrays = applied
        wide = [a.astype(np.float32) if a is not None and a.dtype == HALVES[dtype] else a for a in arrays]
        with np.errstate(all="ignore"):
            expected = evaluate(name, arrays, node.attributes, [v.type for v in node.outputs])
            found = evaluate(name, wide, node.attributes, kinds)
            for want, have in zip(expected, found, strict=True):
                rounded = have if is_exact(node) else have.astype(want.dtype)
                # As float64: bfloat16's NaN is not NaN to NumPy.
                np.testing.assert_array_equal(rounded.astype(float), want.astype(float), err_msg=f"{name} {case}")


@pytest.mark.parametrize("parts", ["one", "two"])
def test_what_an_operator_was_taken_apart_to_rounds_once(parts: str) -> None:
    """A product of numbers, moved: where both are of one operator of the source model, the sum is rounded after it was
    moved; moving alone would round nothing."""
    b = Builder()
    x = Value(b.name("x"), tensor_type("float16", (3, 4)))
    factor = b.constant(np.array([0.5947265625], np.float16))
    scaled = b.add("mul", x, factor, sources=("scale",))
    moved = b.add("transpose", scaled, order=(1, 0), sources=("scale",) if parts == "one" else ("move",))
    weight = b.constant(np.random.default_rng(2).standard_normal((3, 5)).astype(np.float16))
    y = b.add("matmul", moved, weight, sources=("product",))
    graph = Graph("halves", (x,), (y,), tuple(b.nodes))
    feeds = {"x": np.random.default_rng(3).standard_normal((3, 4)).astype(np.float16)}
    (before,), (after,) = (interpret(g, feeds).values() for g in (graph, widen_halves(graph)))
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("fold", [0, 1 << 20])
def test_constants_that_a_model_widens_are_known_to_be_halves(fold: int, dtype: str) -> None:
    """Whether the front end widens them or a pass does."""
    b = Builder(fold=fold)
    x = Value(b.name("x"), tensor_type("float32", (3, 4)))
    weight = b.constant(np.random.default_rng(5).standard_normal((4, 5)).astype(HALVES[dtype]))
    y = b.add("matmul", x, b.add("cast", weight, to="float32"))
    graph = Graph("mixed", (x,), (y,), tuple(b.nodes), halves=frozenset(b.halves))
    assert fold_constants(graph).halves == {dtype}


def test_softmax_rounds_at_its_steps() -> None:
    """As ONNX defines it, also between products, where all else is computed on float32."""
    b = Builder()
    x, w = (Value(b.name(n), tensor_type("float16", (8, 8))) for n in "xw")
    scores = b.add("matmul", x, w, sources=("scores",))
    y = b.add("matmul", b.add("softmax", scores, axis=1, sources=("softmax",)), w, sources=("values",))
    graph = Graph("halves", (x, w), (y,), tuple(b.nodes))
    random = np.random.default_rng(4)
    feeds = {n: random.standard_normal((8, 8)).astype(np.float16) for n in "xw"}
    wide = widen_halves(graph)
    assert [n.outputs[0].dtype for n in wide.nodes if n.op == "softmax"] == ["float16"]
    assert [n.outputs[0].dtype for n in wide.nodes if n.op == "matmul"] == ["float32", "float32"]
    (before,), (after,) = (interpret(g, feeds).values() for g in (graph, wide))
    np.testing.assert_array_equal(after, before)
