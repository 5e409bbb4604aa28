"""Windows whose elements lie apart for threads side by side: tasks bring what they slide over. In the interpreter, in
random orders, on PoCL, and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import Int
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.te.expr import Expr, Reduce, both, cast, const, in_range, select
from sterna.te.tensor import Kernel, Tensor, compute, placeholder, reduce_axis, total
from support import opencl_host
from support.bound_axes import compare


def pool(high: int, wide: int, channels: int, taps: int, stride: int, dtype: str = "float32") -> Kernel:
    x = placeholder("x", (high, wide, channels), dtype)
    kh, kw = reduce_axis("kh", taps), reduce_axis("kw", taps)
    shape = ((high - taps) // stride + 1, (wide - taps) // stride + 1, channels)

    def element(i: Int, j: Int, c: Int) -> Expr:
        return Reduce(dtype, combiner="max", a=x[i * stride + kh.var, j * stride + kw.var, c], axes=(kh, kw))

    return Kernel("pool", (x,), (), (compute("out", shape, element),))


def planes(channels: int, high: int, wide: int, taps: int, dtype: str = "float32") -> Kernel:
    x = placeholder("x", (channels, high + taps - 1, wide + taps - 1), dtype)
    kh, kw = reduce_axis("kh", taps), reduce_axis("kw", taps)

    def element(c: Int, i: Int, j: Int) -> Expr:
        return total(x[c, i + kh.var, j + kw.var], kh, kw)

    acc = compute("acc", (channels, high, wide), element)
    return Kernel("planes", (x,), (), (compute("out", acc.shape, lambda *i: acc[i] * const(0.25, dtype)),))


def padded(x: Tensor, border: int) -> Tensor:
    high, wide, channels = map(int, x.shape)

    def inside(i: Int, j: Int, c: Int) -> Expr:
        condition = both(in_range(i - border, high), in_range(j - border, wide))
        assert condition is not None
        places = (maximum(minimum(n - border, m - 1), 0) for n, m in ((i, high), (j, wide)))
        return select(condition, x[(*places, c)], const(0.0, x.dtype))

    return compute("padded", (high + 2 * border, wide + 2 * border, channels), inside)


def column(high: int, wide: int, channels: int, border: int, dtype: str = "float32") -> Kernel:
    """A convolution of one column that pads for itself."""
    taps = 2 * border + 1
    x, w = placeholder("x", (high, wide, channels), dtype), placeholder("w", (taps, taps, channels), dtype)
    window, ci = padded(x, border), reduce_axis("ci", channels)
    kh, kw = reduce_axis("kh", taps), reduce_axis("kw", taps)

    def element(i: Int, j: Int) -> Expr:
        read = window[i + kh.var, j + kw.var, ci.var], w[kh.var, kw.var, ci.var]
        return total(cast(read[0], "float32") * cast(read[1], "float32"), kh, kw, ci)

    acc = compute("acc", (high, wide), element)
    return Kernel("column", (x,), (w,), (compute("out", (high, wide), lambda *i: cast(acc[i], dtype)),))


def depthwise(high: int, wide: int, channels: int, stride: int, dtype: str = "float32") -> Kernel:
    x, w = placeholder("x", (high, wide, channels), dtype), placeholder("w", (3, 3, channels), dtype)
    window, kh, kw = padded(x, 1), reduce_axis("kh", 3), reduce_axis("kw", 3)

    def element(i: Int, j: Int, c: Int) -> Expr:
        read = window[i * stride + kh.var, j * stride + kw.var, c], w[kh.var, kw.var, c]
        return total(cast(read[0], "float32") * cast(read[1], "float32"), kh, kw)

    acc = compute("acc", ((high - 1) // stride + 1, (wide - 1) // stride + 1, channels), element)
    return Kernel("depthwise", (x,), (w,), (compute("out", acc.shape, lambda *i: cast(acc[i], dtype)),))


APART: dict[str, Kernel] = {
    "pool of few channels": pool(24, 26, 4, 2, 2),
    "pool of three channels": pool(25, 27, 3, 3, 2),
    "planes": planes(5, 13, 12, 3),
    "one column": column(17, 19, 8, 2),
    "depthwise with strides": depthwise(15, 17, 12, 2),
}


def scheduled(kernel: Kernel, target: str) -> Schedule:
    s = propose(kernel, Context(load_target(target)))
    assert s is not None
    return s


@pytest.mark.parametrize("name", APART)
def test_results(name: str) -> None:
    compare(scheduled(APART[name], "opencl"), None, orders=1)


@pytest.mark.family("opencl")
def test_results_of_a_device(tmp_path: Path) -> None:
    compare(scheduled(APART["depthwise with strides"], "opencl"), opencl_host.Device(tmp_path), orders=1)


@pytest.mark.parametrize(
    ("kernel", "requested"),
    [
        (pool(56, 56, 8, 2, 2, "float16"), 1.2),
        (pool(57, 57, 12, 3, 2, "float16"), 1.6),
        (planes(64, 24, 24, 3, "float16"), 1.5),
        (column(80, 96, 8, 2, "float16"), 2.2),
        (depthwise(56, 56, 12, 2, "float16"), 2.0),
    ],
    ids=lambda given: given.name if isinstance(given, Kernel) else str(given),
)
def test_accesses_are_side_by_side(kernel: Kernel, requested: float) -> None:
    program = finish(lower(scheduled(kernel, "cuda-sm80")))
    assert any(isinstance(s, P.Barrier) for s in P.walk(program.body))
    counted = accesses(program)
    assert counted.coalesced > 0.95 * counted.accesses
    assert counted.requested_bytes < requested * counted.least_bytes
    assert counted.conflicts < 0.6 * counted.shared_accesses


def test_what_needs_none() -> None:
    """Windows of whole sectors side by side."""
    for kernel in (pool(24, 24, 16, 2, 2), depthwise(16, 16, 32, 1)):
        program = finish(lower(scheduled(kernel, "cuda-sm80")))
        assert not any(isinstance(s, P.Barrier) for s in P.walk(program.body))
