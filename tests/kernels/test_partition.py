"""Stages that are computed part by part, as their conditions say: borders and interiors apart."""

from __future__ import annotations

import pytest

from sterna.errors import SternaError
from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import Int, as_int
from sterna.loops import program as P
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support.small_kernels import run


def padded_sums(size: int, before: int, after: int, step: int, taps: int) -> Kernel:
    """Sums over windows of rows, of a padded stage that is computed."""
    x = placeholder("x", (size, 5))
    scaled = compute("scaled", (size, 5), lambda i, j: x[i, j] * 2.0)

    def pad(i: Int, j: Int) -> Expr:
        inside = E.both(E.in_range(i - before, size), E.compare("gt", E.index_value(-j), E.index_value(as_int(-4))))
        assert inside is not None
        return E.select(inside, scaled[maximum(minimum(i - before, size - 1), 0), j], 7.0)

    padded = compute("padded", (before + size + after, 5), pad)
    k = reduce_axis("k", taps)
    count = (before + size + after - taps) // step + 1
    sums = compute("sums", (count, 5), lambda i, j: total(padded[i * step + k.var, j], k))
    out = compute("out", (count, 5), lambda i, j: sums[i, j] + 1.0)
    return Kernel("padded_sums", (x,), (), (out,))


def partitioned(kernel: Kernel, rows: int, axes: tuple[str, ...] = ("i", "j")) -> Schedule:
    s = Schedule(kernel)
    s.split("out", "i", rows)
    s.compute_at("padded", "out", "i.o", "scratch")
    s.compute_at("scaled", "padded", axes[-1], "stack")
    s.compute_at("sums", "out", "j", "register")
    s.partition("padded", *axes)
    return s


def test_partition_settles_conditions() -> None:
    """Border and interior are loops of their own: nothing asks where an element lies."""
    s = partitioned(padded_sums(12, 1, 2, 1, 4), 4)
    lowered = lower(s)
    assert not any(isinstance(e, E.Select) for x in P.walk(lowered.body) if (v := P.value_of(x)) for e in E.walk(v))
    text = print_function(lowered)
    assert "= 7.0" in text
    assert "min(" in text  # a task at the border computes fewer rows
    for generator in ("llvm", "c"):
        run(s, generator)


def test_partition_along_one_axis_keeps_the_other_conditions() -> None:
    s = partitioned(padded_sums(9, 2, 0, 2, 3), 3, ("i",))
    lowered = lower(s)
    assert any(isinstance(e, E.Select) for x in P.walk(lowered.body) if (v := P.value_of(x)) for e in E.walk(v))
    run(s)


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_partition_at_any_place(before: int, after: int, step: int, rows: int) -> None:
    kernel = padded_sums(8, before, after, step, 3)
    count = int(kernel.outputs[0].shape[0])
    if count % rows and rows < count:
        rows = next(n for n in range(rows, count + 1) if count % n == 0)
    run(partitioned(kernel, rows))


def dilated_sums(size: int, rate: int, taps: int, before: int, after: int) -> Schedule:
    """A convolution of a padded image of which each part of the result adds up the taps within the image."""
    x, w = placeholder("x", (size, size, 3)), placeholder("w", (taps, taps, 3, 8))

    def pad(i: Int, j: Int, c: Int) -> Expr:
        inside = E.both(E.in_range(i - before, size), E.in_range(j - before, size))
        assert inside is not None
        place = [maximum(minimum(n - before, size - 1), 0) for n in (i, j)]
        return E.select(inside, x[(*place, c)], 0.0)

    whole = before + size + after
    padded = compute("padded", (whole, whole, 3), pad)
    kh, kw, ci = reduce_axis("kh", taps), reduce_axis("kw", taps), reduce_axis("ci", 3)

    def element(i: Int, j: Int, c: Int) -> Expr:
        value = padded[i + kh.var * rate, j + kw.var * rate, ci.var]
        return total(value * w[kh.var, kw.var, ci.var, c], kh, kw, ci)

    count = whole - (taps - 1) * rate
    sums = compute("sums", (count, count, 8), element, ["i", "j", "c"])
    out = compute("out", (count, count, 8), lambda i, j, c: sums[i, j, c] + 1.0, ["i", "j", "c"])
    s = Schedule(Kernel("dilated_sums", (x,), (w,), (out,)))
    s.inline("padded")
    s.split("out", "j", 2)
    s.reorder("out", "i", "j.o", "c", "j.i")
    s.compute_at("sums", "out", "j.o", "stack")
    s.partition("out", "i", "j")
    return s


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("size", "rate", "taps", "before", "after"), [(7, 5, 3, 5, 5), (6, 2, 3, 2, 2), (4, 3, 2, 6, 7), (5, 6, 3, 4, 9)]
)
def test_partition_leaves_out_terms_that_are_zero(
    size: int, rate: int, taps: int, before: int, after: int, parallel: bool
) -> None:
    """No part asks where an element lies, and what reads padding is not read: of the whole image fewer products."""
    s = dilated_sums(size, rate, taps, before, after)
    if parallel:
        s.parallel("out", "i")
    lowered = lower(s)
    assert not any(isinstance(e, E.Select) for x in P.walk(lowered.body) if (v := P.value_of(x)) for e in E.walk(v))
    run(s)
    run(s, "c")


def test_partition_of_what_tasks_are_split_from_is_refused() -> None:
    s = dilated_sums(7, 5, 3, 5, 5)
    outer, _ = s.split("out", "i", 2)
    s.parallel("out", outer)
    with pytest.raises(SternaError, match="E0303"):
        lower(s)
