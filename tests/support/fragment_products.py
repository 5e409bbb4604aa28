"""Products of matrices of 16-bit floats or of TF32, scheduled by fragments: of either order, with what follows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sterna.ir import dtypes
from sterna.ir.integer import Int
from sterna.loops import program as P
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total


def product(
    m: int, n: int, depth: int, orders: tuple[str, str] = ("row", "row"), batch: int = 0, dtype: str = "float16"
) -> Kernel:
    """max(x w + b, 0) in float32, where a matrix that lies by columns has its dimensions the other way round.

    Args:
        dtype: of the factors; "tf32": of float32, rounded to that.
    """
    lead = (batch,) if batch else ()
    kind, dtype = dtype, "float32" if dtype == "tf32" else dtype
    x = placeholder("x", (*lead, m, depth) if orders[0] == "row" else (*lead, depth, m), dtype)
    w = placeholder("w", (*lead, depth, n) if orders[1] == "row" else (*lead, n, depth), dtype)
    b, k = placeholder("b", (n,)), reduce_axis("k", depth)

    def element(*at: Int) -> E.Expr:
        *z, i, j = at
        left = x[(*z, i, k.var) if orders[0] == "row" else (*z, k.var, i)]
        right = w[(*z, k.var, j) if orders[1] == "row" else (*z, j, k.var)]
        return total(_factor(left, kind) * _factor(right, kind), k)

    acc = compute("acc", (*lead, m, n), element, axes=(*("z" for _ in lead), "i", "j"))
    out = compute("out", (*lead, m, n), lambda *at: E.maximum(acc[at] + b[at[-1]], 0.0))
    return Kernel("product", (x, w, b), (), (out,))


def _factor(value: E.Expr, kind: str) -> E.Expr:
    return E.unary(kind, value) if kind == "tf32" else E.cast(value, "float32")


def convolution(size: int, channels: int, outputs: int, taps: int, stride: int, kind: str = "float16") -> Kernel:
    """A convolution of a square image in float16, rounded to that; or in float32 of factors rounded to "tf32"."""
    length, dtype = (size - 1) * stride + taps, "float32" if kind == "tf32" else kind
    x = placeholder("x", (length, length, channels), dtype)
    w = placeholder("w", (taps, taps, channels, outputs), dtype)
    kh, kw, c = reduce_axis("kh", taps), reduce_axis("kw", taps), reduce_axis("c", channels)

    def element(h: Int, v: Int, o: Int) -> E.Expr:
        left = x[h * stride + kh.var, v * stride + kw.var, c.var]
        return total(_factor(left, kind) * _factor(w[kh.var, kw.var, c.var, o], kind), kh, kw, c)

    acc = compute("acc", (size, size, outputs), element, axes=("h", "v", "o"))
    out = compute("out", (size, size, outputs), lambda *at: E.cast(acc[at], dtype))
    return Kernel("convolution", (x,), (w,), (out,))


def feeds(kernel: Kernel) -> dict[str, np.ndarray]:
    """Numbers whose products add up to the same in every order: small integers."""
    random = np.random.default_rng(3)
    found = {}
    for t in (*kernel.inputs, *kernel.params):
        values = random.integers(-3, 4, [int(n) for n in t.shape])
        found[t.name] = values.astype(dtypes.to_numpy(t.dtype))
    return found


def proposed(kernel: Kernel) -> Schedule:
    """By the strategy, for a device that has every fragment."""
    s = propose(kernel, Context(replace(load_target("cuda-sm80"), device=None)))
    assert s is not None
    return s


def with_fragments(body: P.Stmt) -> bool:
    return any(
        isinstance(s, P.Tiles) and s.intrinsic.tiles is not None and s.intrinsic.tiles.threads == 32
        for s in P.walk(body)
    )
