"""Short rows that follow one another: threads bring them side by side before each reduces its own. In the interpreter,
in random orders, and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support import opencl_host
from support.bound_axes import compare
from support.small_kernels import place_of_greatest, row_sums, softmax


def squares(rows: int, terms: int) -> Kernel:
    """The sums of a stage of squares, one more."""
    x, k = placeholder("x", (rows, terms)), reduce_axis("k", terms)
    square = compute("square", (rows, terms), lambda i, j: x[i, j] * x[i, j])
    sums = compute("sums", (rows,), lambda i: total(square[i, k.var], k))
    return Kernel("squares", (x,), (), (compute("out", (rows,), lambda i: sums[i] + E.const(1.0, "float32")),))


def two_axes(rows: int, high: int, wide: int) -> Kernel:
    x, i, j = placeholder("x", (rows, high, wide)), reduce_axis("i", high), reduce_axis("j", wide)
    return Kernel("two", (x,), (), (compute("out", (rows,), lambda n: total(x[n, i.var, j.var], i, j)),))


def weighted(rows: int, terms: int) -> Kernel:
    """Rows times a vector that all of them read."""
    x, w, k = placeholder("x", (rows, terms)), placeholder("w", (terms,)), reduce_axis("k", terms)
    return Kernel("weighted", (x, w), (), (compute("out", (rows,), lambda i: total(x[i, k.var] * w[k.var], k)),))


SHORT: dict[str, Kernel] = {
    "sums of three": row_sums(300, 3),
    "maxima of two bytes": row_sums(300, 2, "max", "int8"),
    "products of fifteen": row_sums(131, 15, "prod"),
    "sums of four longs": row_sums(200, 4, "sum", "int64"),
    "squares": squares(150, 8),
    "two axes": two_axes(140, 3, 4),
    "times a vector": weighted(150, 8),
    "places of maxima": place_of_greatest(300, 5),
    "softmax of three": softmax((150, 3), 1),
    "softmax of eight": softmax((70, 8), 1),
}


def scheduled(kernel: Kernel, target: str) -> Schedule:
    s = propose(kernel, Context(load_target(target)))
    assert s is not None
    return s


@pytest.mark.parametrize("name", SHORT)
def test_results(name: str) -> None:
    compare(scheduled(SHORT[name], "opencl"), None, orders=1)


@pytest.mark.family("opencl")
def test_results_of_a_device(tmp_path: Path) -> None:
    compare(scheduled(SHORT["softmax of eight"], "opencl"), opencl_host.Device(tmp_path), orders=1)


@pytest.mark.parametrize("target", ["cuda-sm80", "webgpu"])
@pytest.mark.parametrize("name", ["sums of three", "times a vector", "two axes", "softmax of eight"])
def test_accesses_are_side_by_side(name: str, target: str) -> None:
    program = finish(lower(scheduled(SHORT[name], target)))
    assert any(isinstance(s, P.Barrier) for s in P.walk(program.body))
    counted = accesses(program)
    assert counted.coalesced == counted.accesses
    assert counted.requested_bytes <= 1.6 * counted.least_bytes


def test_what_needs_none() -> None:
    """One term, rows that lie apart, rows side by side, and rows that threads share."""
    x, k = placeholder("x", (300, 4)), reduce_axis("k", 3)
    apart = Kernel("apart", (x,), (), (compute("out", (300,), lambda i: total(x[i, k.var], k)),))
    y, n = placeholder("y", (3, 300)), reduce_axis("n", 3)
    beside = Kernel("beside", (y,), (), (compute("out", (300,), lambda i: total(y[n.var, i], n)),))
    for kernel in (apart, beside, row_sums(300, 1)):
        program = finish(lower(scheduled(kernel, "opencl")))
        assert not any(isinstance(s, P.Barrier) for s in P.walk(program.body))
