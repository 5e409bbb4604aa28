"""Collapsing of dimensions: fewer of them, the same values; equal computations on other shapes become equal kernels."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.ir.integer import of
from sterna.passes.views import plan_views
from sterna.pipeline import optimize
from sterna.te.collapse import collapse
from sterna.te.expr import cast, index_value
from sterna.te.interpreter import run_kernel
from sterna.te.position import position
from sterna.te.printer import print_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce, reduce_axis, total
from support.partition import build_calls
from support.random_kernels import network


def arrays(kernel: Kernel) -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    return {
        t.name: (random.standard_normal([int(n) for n in t.shape]) * (9 if t.dtype == "int8" else 1)).astype(t.dtype)
        for t in (*kernel.inputs, *kernel.params)
    }


def same(kernel: Kernel) -> Kernel:
    """The collapsed kernel, after comparing what both compute."""
    small = collapse(kernel, {}).kernel
    feeds = arrays(kernel)
    reshaped = {t.name: feeds[t.name].reshape([int(n) for n in t.shape]) for t in (*small.inputs, *small.params)}
    for one, other in zip(run_kernel(kernel, feeds).values(), run_kernel(small, reshaped).values(), strict=True):
        np.testing.assert_array_equal(one.reshape(-1), other.reshape(-1))
    return small


def shapes(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    return {t.name: tuple(int(n) for n in t.shape) for t in (*kernel.inputs, *kernel.params, *kernel.stages)}


def test_an_elementwise_chain_becomes_flat() -> None:
    x = placeholder("x", (2, 3, 4))
    y = compute("y", (2, 3, 4), lambda *i: x[i] * 2.0)
    z = compute("z", (2, 3, 4), lambda *i: y[i] + x[i])
    assert set(shapes(same(Kernel("k", (x,), (), (z,)))).values()) == {(24,)}


def test_a_broadcast_keeps_what_it_tells_apart() -> None:
    x, b = placeholder("x", (2, 3, 4, 5)), placeholder("b", (5,))
    z = compute("z", (2, 3, 4, 5), lambda *i: x[i] + b[i[-1]])
    assert shapes(same(Kernel("k", (x, b), (), (z,)))) == {"x": (24, 5), "b": (5,), "z": (24, 5)}


def test_dimensions_of_one_go() -> None:
    x = placeholder("x", (1, 7, 1, 3))
    z = compute("z", (1, 7, 1, 3), lambda a, b, c, d: x[a, b, c, d] + 1.0)
    assert shapes(same(Kernel("k", (x,), (), (z,)))) == {"x": (21,), "z": (21,)}
    x = placeholder("x", (1, 1))
    single = compute("z", (1, 1), lambda a, b: x[a, b])
    assert shapes(same(Kernel("k", (x,), (), (single,)))) == {"x": (), "z": (1,)}


def test_a_pointwise_convolution_is_a_matrix_product() -> None:
    x, w = placeholder("x", (1, 6, 7, 8)), placeholder("w", (1, 1, 8, 5))
    c = reduce_axis("c", 8)
    conv = compute("y", (1, 6, 7, 5), lambda n, i, j, o: total(x[n, i, j, c.var] * w[0, 0, c.var, o], c))
    assert shapes(same(Kernel("k", (x, w), (), (conv,)))) == {"x": (42, 8), "w": (8, 5), "y": (42, 5)}


def test_dimensions_along_which_elements_are_looked_up_are_one() -> None:
    x, table = placeholder("x", (3, 4, 5), "int8"), placeholder("table", (256,), "float32")
    y = compute("y", (3, 4, 5), lambda i, j, k: table[position(cast(x[i, j, k], "int32") + 128, 256)])
    assert shapes(same(Kernel("k", (x, table), (), (y,)))) == {"x": (60,), "table": (256,), "y": (60,)}


def test_rows_at_computed_positions_are_walked_together() -> None:
    x, places = placeholder("x", (9, 2, 5), "float32"), placeholder("places", (3, 4), "int8")
    y = compute("y", (3, 4, 2, 5), lambda i, j, k, m: x[position(places[i, j], 9, from_end=True), k, m])
    assert shapes(same(Kernel("k", (x, places), (), (y,)))) == {"x": (9, 10), "places": (12,), "y": (12, 10)}


def test_what_a_computed_position_tells_apart_stays() -> None:
    x, places = placeholder("x", (9, 4, 5), "float32"), placeholder("places", (4, 3), "int8")
    y = compute("y", (3, 4, 5), lambda i, j, k: x[position(places[j, i], 9), j, k])
    assert shapes(same(Kernel("k", (x, places), (), (y,)))) == {"x": (9, 4, 5), "places": (4, 3), "y": (3, 4, 5)}


def test_a_window_keeps_its_dimensions() -> None:
    x, w = placeholder("x", (8, 9, 4)), placeholder("w", (3, 3, 4, 5))
    axes = h, v, c = reduce_axis("h", 3), reduce_axis("v", 3), reduce_axis("c", 4)
    conv = compute(
        "y", (6, 7, 5), lambda i, j, o: total(x[i + h.var, j + v.var, c.var] * w[h.var, v.var, c.var, o], *axes)
    )
    assert len(same(Kernel("k", (x, w), (), (conv,))).tensor("x").shape) >= 2


@pytest.mark.parametrize(("channels", "merged"), [(3, True), (4, False)])
def test_a_window_of_few_bytes_is_walked_row_by_row(channels: int, merged: bool) -> None:
    """Its columns and channels lie side by side, so dot products add up over both."""
    x, w = placeholder("x", (9, 9, channels), "int8"), placeholder("w", (3, 3, channels, 5), "int8")
    axes = h, v, c = reduce_axis("h", 3), reduce_axis("v", 3), reduce_axis("c", channels)

    def element(i: Any, j: Any, o: Any) -> Any:
        left, right = x[i * 2 + h.var, j * 2 + v.var, c.var], w[h.var, v.var, c.var, o]
        return total(cast(left, "int32") * cast(right, "int32"), *axes)

    small = same(Kernel("k", (x, w), (), (compute("y", (4, 4, 5), element),)))
    assert shapes(small)["x"] == ((9, 27) if merged else (9, 9, 4))
    assert shapes(small)["w"] == ((3, 9, 5) if merged else (3, 3, 4, 5))


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_reductions_over_any_axes(axes: tuple[int, ...]) -> None:
    sizes = (3, 4, 5)
    x = placeholder("x", sizes)
    reduced = {d: reduce_axis(f"r{d}", sizes[d]) for d in axes}
    kept = [n for d, n in enumerate(sizes) if d not in axes]

    def body(*i: Any) -> Any:
        rest = iter(i)
        return reduce(
            "max", x[tuple(of(reduced[d]) if d in reduced else next(rest) for d in range(3))], *reduced.values()
        )

    y = compute("y", kept, body)
    small = same(Kernel("k", (x,), (), (y,)))
    (stage,) = small.stages
    assert stage.reduction is not None
    assert len(stage.reduction.axes) == (2 if axes == (0, 2) else 1)


def test_positions_survive() -> None:
    """argmax over an axis of one element is zero; over more it is the position in the old axis."""
    for size in (1, 5):
        x, r = placeholder("x", (4, size)), reduce_axis("r", size)
        y = compute("y", (4,), lambda i, x=x, r=r: reduce("argmax", x[i, r.var], r, index=index_value(r.var)))
        same(Kernel("k", (x,), (), (y,)))


def test_equal_kernels_are_one() -> None:
    texts = set()
    for shape in ((1, 6, 4), (2, 3, 4), (24,)):
        x = placeholder("x", shape)
        y = compute("y", shape, lambda *i, x=x: x[i] * x[i])
        texts.add(print_kernel(collapse(Kernel("k", (x,), (), (y,)), {}).kernel))
    assert len({re.sub(r"i\d(_i\d)*", "i", text) for text in texts}) == 1, "but for the names of axes"


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_random_kernels(data: st.DataObject) -> None:
    """Kernels as networks give them, whose operands lie densely."""
    graph, _ = network(data.draw)
    graph = optimize(graph)
    views = plan_views(graph)
    for call in build_calls(graph, views):
        if not call.layouts and call.kernel.scan is None:
            same(call.kernel)
