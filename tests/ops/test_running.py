"""What stands along a dimension up to each element: extremes and their places, logarithms of sums; and elements at
constant steps, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops.builder import Builder
from sterna.passes.eliminate_identities import eliminate_identities
from support.pytorch_calls import called

RNG = np.random.default_rng(3)
Array = np.ndarray


def extremes(x: Array, axis: int, largest: bool) -> tuple[Array, Array]:
    """As PyTorch: the last place of equal ones; what is not a number stays."""
    values, places = np.empty_like(x), np.empty(x.shape, np.int64)
    for index in np.ndindex(*(size for n, size in enumerate(x.shape) if n != axis)):
        at = (*index[:axis], slice(None), *index[axis:])
        row, best = x[at], 0
        for n, value in enumerate(row):
            further = value >= row[best] if largest else value <= row[best]
            if np.isnan(value) or (not np.isnan(row[best]) and further):
                best = n
            values[at][n], places[at][n] = row[best], best
    return values, places


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 9), 1), ((9, 3), 0), ((2, 5, 4), 1)])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool"])
def test_running_extremes(shape: tuple[int, ...], axis: int, largest: bool, dtype: str) -> None:
    x = RNG.integers(0, 2 if dtype == "bool" else 6, shape).astype(dtype)
    if dtype == "float32":
        x.flat[[1, 5]] = -np.inf, np.nan
    name = "aten.cummax.default" if largest else "aten.cummin.default"
    found = called(name, "values", "indices", self=x, dim=axis)
    for have, want in zip(found, extremes(x, axis, largest), strict=True):
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize(("shape", "axis"), [((8,), 0), ((3, 8), 1), ((8, 3), 0)])
def test_logarithms_of_running_sums(shape: tuple[int, ...], axis: int) -> None:
    x = (RNG.normal(size=shape) * 60).astype(np.float32)
    x.flat[0], x.flat[3] = -np.inf, 300.0
    (found,) = called("aten.logcumsumexp.default", self=x, dim=axis)
    np.testing.assert_allclose(found, np.logaddexp.accumulate(x.astype(np.float64), axis=axis), rtol=1e-5)
    x.flat[4] = np.inf
    (found,) = called("aten.logcumsumexp.default", self=x, dim=axis)
    np.testing.assert_allclose(found, np.logaddexp.accumulate(x.astype(np.float64), axis=axis), rtol=1e-5)


@pytest.mark.parametrize(
    ("places", "becomes"),
    [
        ([[0, 1, 2], [4, 5, 6], [8, 9, 10]], "strided"),
        ([[-1, -3], [-2, -4]], "strided"),
        ([1, 4, 7], "slice"),
        ([9, 8, 7], "slice"),
        ([3, 3, 3], "gather"),
        ([[0, 1], [2, 4]], "gather"),
    ],
)
def test_constant_positions_at_steps_are_known_to_the_loops(places: list[object], becomes: str) -> None:
    index = np.array(places, np.int64)
    builder, x = Builder(), Value("x", tensor_type("float32", (2, 11, 3)))
    y = builder.add("gather", x, builder.constant(index), axis=1)
    given = Graph("g", (x,), (y,), tuple(builder.nodes), ("y",))
    graph = eliminate_identities(given)
    assert [node.op for node in graph.nodes] == [becomes]
    data = RNG.normal(size=(2, 11, 3)).astype(np.float32)
    np.testing.assert_array_equal(next(iter(interpret(graph, {"x": data}).values())), data[:, index])
