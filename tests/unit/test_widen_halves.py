"""Networks of 16-bit floats are computed on float32, and rounded where the model says so."""

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
from sterna.passes.widen_halves import float32_results, widen_halves

#: Alone they are ONNX's chain of operators, each of which rounds; in a network of products nothing is.
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
                # As float64: bfloat16's NaN is not NaN to NumPy.
                rounded = have.astype(want.dtype).astype(float)
                np.testing.assert_array_equal(rounded, want.astype(float), err_msg=f"{name} {case}")


def network(dtype: str) -> Graph:
    """A product, softmax, a product; in float32 with the same weights where `dtype` is that."""
    random = np.random.default_rng(4)
    b = Builder()
    x = Value(b.name("x"), tensor_type(dtype, (8, 8)))
    weights = [random.standard_normal((8, 8)).astype(np.float16).astype(dtype) for _ in range(2)]
    scores = b.add("matmul", x, b.constant(weights[0]), sources=("scores",))
    shares = b.add("softmax", b.add("transpose", scores, order=(1, 0)), axis=1, sources=("softmax",))
    y = b.add("relu", b.add("matmul", shares, b.constant(weights[1]), sources=("values",)))
    return Graph("network", (x,), (y, scores), tuple(b.nodes))


def test_nothing_is_rounded_between_operators() -> None:
    """The results are those of the network in float32, rounded; also where a value within is handed out."""
    feeds = {"x": np.random.default_rng(5).standard_normal((8, 8)).astype(np.float16)}
    found = interpret(widen_halves(network("float16")), feeds).values()
    expected = interpret(network("float32"), {"x": feeds["x"].astype(np.float32)}).values()
    for have, want in zip(found, expected, strict=True):
        assert have.dtype == np.float16
        np.testing.assert_array_equal(have, want.astype(np.float16))


@pytest.mark.parametrize("to", ["float16", "float32", "bfloat16", "int32"])
def test_casts_of_the_model(to: str) -> None:
    """One to 16 bits rounds, one to float32 reads what was not rounded."""
    b = Builder()
    x = Value(b.name("x"), tensor_type("float16", (4, 4)))
    large = b.constant(np.full((4, 4), 2048.0, np.float16))
    first = b.add("matmul", x, b.constant(np.eye(4, dtype=np.float16)))
    cast = b.add("cast", b.add("cast", b.add("add", first, large), to="float32"), to=to)
    y = b.add("sub", b.add("cast", cast, to="float32"), b.constant(np.full((4, 4), 2048.0, np.float32)))
    graph = Graph("casts", (x,), (y,), tuple(b.nodes))
    (found,) = interpret(widen_halves(graph), {"x": np.full((4, 4), 1.3125, np.float16)}).values()
    # 2049.3125 lies between 2048 and 2050 of float16, and between 2048 and 2064 of bfloat16.
    assert set(found.reshape(-1)) == {{"float16": 2.0, "float32": 1.3125, "bfloat16": 0.0, "int32": 1.0}[to]}


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
