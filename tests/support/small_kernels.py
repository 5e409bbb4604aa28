"""Kernels small enough to schedule by hand, and how they are run."""

from __future__ import annotations

import numpy as np

from sterna.ir.integer import ZERO, Int, IntLike, as_int
from sterna.loops import interpreter
from sterna.loops.lower import lower
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, Tensor, compute, placeholder, reduce, reduce_axis, total
from support.compiling import check, run_schedule


def matmul(m: int, n: int, depth: int, constant: bool = False) -> Kernel:
    """max(x w + b, 0) in two stages."""
    x, w, b = placeholder("x", (m, depth)), placeholder("w", (depth, n)), placeholder("b", (n,))
    k = reduce_axis("k", depth)
    acc = compute("acc", (m, n), lambda i, j: total(x[i, k.var] * w[k.var, j], k))
    out = compute("out", (m, n), lambda i, j: E.maximum(acc[i, j] + b[j], 0.0))
    inputs, params = ((x,), (w, b)) if constant else ((x, w, b), ())
    return Kernel("matmul", inputs, params, (out,))


def pointwise(*shape: int) -> Kernel:
    """A chain of two element-wise stages over any number of axes."""
    x, y = placeholder("x", shape), placeholder("y", shape[-1:])
    mid = compute("mid", shape, lambda *i: x[i] * 2.0 + y[i[-1]])
    out = compute("out", shape, lambda *i: mid[i] * mid[i] - x[i])
    return Kernel("pointwise", (x, y), (), (out,))


def window(size: int, taps: int, channels: int, dilation: int = 1) -> Kernel:
    """A sum over a window of an element-wise stage: neighbouring outputs need overlapping regions of it."""
    length = size + (taps - 1) * dilation
    x = placeholder("x", (length, channels))
    k = reduce_axis("k", taps)
    scaled = compute("scaled", (length, channels), lambda p, c: x[p, c] * 3.0 + 1.0)
    out = compute("out", (size, channels), lambda p, c: total(scaled[p + k.var * dilation, c], k))
    return Kernel("window", (x,), (), (out,))


def transposed(shape: tuple[IntLike, ...], order: tuple[int, ...], dtype: str = "float32") -> Kernel:
    """y = x, its dimensions in another order, + b along the last one."""
    x = placeholder("x", shape, dtype)
    own = tuple(shape[d] for d in order)
    b = placeholder("b", own[-1:], dtype)
    y = compute("y", own, lambda *i: x[tuple(i[order.index(d)] for d in range(len(shape)))] + b[i[-1]])
    return Kernel("transposed", (x, b), (), (y,))


def row_sums(rows: int, depth: int, combiner: str = "sum", dtype: str = "float32") -> Kernel:
    x = placeholder("x", (rows, depth), dtype)
    k = reduce_axis("k", depth)
    out = compute("out", (rows,), lambda i: reduce(combiner, x[i, k.var], k))
    return Kernel("row_sums", (x,), (), (out,))


def over_axes(shape: tuple[int, ...], axes: tuple[int, ...], combiner: str = "sum", dtype: str = "float32") -> Kernel:
    """What is reduced along several axes."""
    x = placeholder("x", shape, dtype)
    along = [reduce_axis(f"k{a}", shape[a]) for a in axes]

    def term(*kept: Int) -> E.Expr:
        left = iter(kept)
        return x[tuple(along[axes.index(a)].var if a in axes else next(left) for a in range(len(shape)))]

    sizes = tuple(n for a, n in enumerate(shape) if a not in axes) or (1,)
    out = compute("out", sizes, lambda *i: reduce(combiner, term(*i), *along))
    return Kernel("over_axes", (x,), (), (out,))


def times_vector(rows: int, depth: int, dtype: str = "float32", turned: bool = False) -> Kernel:
    """A matrix times a vector, added up in a wide type; `turned`: what is multiplied lies column by column."""
    x, w = placeholder("x", (depth,), dtype), placeholder("w", (depth, rows) if turned else (rows, depth), dtype)
    k, wide = reduce_axis("k", depth), "int32" if dtype == "int8" else "float32"

    def product(i: Int, k: Int) -> E.Expr:
        return E.cast(x[k], wide) * E.cast(w[k, i] if turned else w[i, k], wide)

    return Kernel("times_vector", (x, w), (), (compute("y", (rows,), lambda i: total(product(i, k.var), k)),))


def arrays(kernel: Kernel) -> dict[str, np.ndarray]:
    """Random elements; where they are not float32, integers so small that their sums are exact in any order."""
    random = np.random.default_rng(7)
    made = {}
    for t in (*kernel.inputs, *kernel.params):
        shape = [int(n) for n in t.shape]
        drawn = random.standard_normal(shape) if t.dtype == "float32" else random.integers(-5, 6, shape)
        made[t.name] = drawn.astype(t.dtype)
    return made


def interpreted(schedule: Schedule, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """What the loops of a schedule compute, one statement after the other."""
    function = lower(schedule)
    (out,) = schedule.kernel.outputs
    stored = schedule.stored([feeds[p.name] for p in schedule.kernel.params])
    memory = {b.name: a.reshape(-1) for b, a in zip(function.params, stored, strict=True)}
    memory |= {b.name: feeds[b.name].reshape(-1) for b in function.inputs}
    memory[out.name] = np.zeros(int(np.prod([int(n) for n in out.shape])), out.dtype)
    interpreter.run_function(function, memory)
    return memory[out.name].reshape([int(n) for n in out.shape])


def run(schedule: Schedule, generator: str = "llvm", threads: int = 1) -> None:
    """Compiles, runs and compares; the schedule is saved and reloaded on the way."""
    kernel, feeds = schedule.kernel, arrays(schedule.kernel)
    again = saved.apply(kernel, saved.from_json(saved.to_json(schedule.steps)), memories=schedule.memories)
    assert again.steps == schedule.steps
    constants = [feeds[p.name] for p in kernel.params]
    inputs = {t.name: feeds[t.name] for t in kernel.inputs}
    check(run_schedule(again, inputs, constants, generator, threads), run_kernel(kernel, feeds), 1e-5)


def softmax(shape: tuple[int, ...], axis: int) -> Kernel:
    """The greatest element along an axis, exponentials, their sum, quotients."""
    x = placeholder("x", shape)
    peak = _along("max", x, axis, "peak")
    powers = compute("powers", shape, lambda *i: E.unary("exp", x[i] - peak[_without(axis, i)]))
    sums = _along("sum", powers, axis, "sums")
    out = compute("out", shape, lambda *i: powers[i] / sums[_without(axis, i)])
    return Kernel("softmax", (x,), (), (out,))


def normalized(shape: tuple[int, ...], axes: tuple[int, ...]) -> Kernel:
    """Less the mean over some axes, divided by the root of the variance."""
    x = placeholder("x", shape)
    inner = {n: [reduce_axis(f"r{n}", shape[n]) for _ in range(2)] for n in axes}
    kept = tuple(1 if n in axes else size for n, size in enumerate(shape))
    count = float(np.prod([shape[n] for n in axes]))

    def row(index: tuple[Int, ...]) -> tuple[Int, ...]:
        return tuple(ZERO if n in axes else i for n, i in enumerate(index))

    def over(pass_: int, index: tuple[Int, ...]) -> tuple[Int, ...]:
        return tuple(inner[n][pass_].var if n in axes else i for n, i in enumerate(index))

    sums = compute("sums", kept, lambda *i: total(x[over(0, i)], *(inner[n][0] for n in axes)))

    def squared(index: tuple[Int, ...]) -> E.Expr:
        off = x[over(1, index)] - sums[row(index)] / count
        return off * off

    squares = compute("squares", kept, lambda *i: total(squared(i), *(inner[n][1] for n in axes)))
    scale = compute("scale", kept, lambda *i: 1.0 / E.unary("sqrt", squares[i] / count + 1e-5))
    out = compute("out", shape, lambda *i: (x[i] - sums[row(i)] / count) * scale[row(i)])
    return Kernel("normalized", (x,), (), (out,))


def log_sum_exp(rows: int, depth: int) -> Kernel:
    x = placeholder("x", (rows, depth))
    peak, k = _along("max", x, 1, "peak"), reduce_axis("k", depth)
    sums = compute("sums", (rows,), lambda i: total(E.unary("exp", x[i, k.var] - peak[i, ZERO]), k))
    out = compute("out", (rows,), lambda i: E.unary("log", sums[i]) + peak[i, ZERO])
    return Kernel("log_sum_exp", (x,), (), (out,))


def mean_and_variance(shape: tuple[int, ...], axis: int, with_elements: bool = False) -> Kernel:
    """Along an axis; two outputs, of which the second reads the first, or three."""
    x = placeholder("x", shape)
    count = float(shape[axis])
    kept = tuple(1 if n == axis else size for n, size in enumerate(shape))
    sums = _along("sum", x, axis, "sums")
    mean = compute("mean", kept, lambda *i: sums[i] / count)
    k = reduce_axis("k", shape[axis])

    def squared(i: tuple[Int, ...]) -> E.Expr:
        off = x[(*i[:axis], k.var, *i[axis + 1 :])] - mean[_without(axis, i)]
        return off * off

    squares = compute("squares", kept, lambda *i: total(squared(i), k))
    variance = compute("variance", kept, lambda *i: squares[i] / count)
    doubled = compute("doubled", shape, lambda *i: x[i] * 2.0)
    return Kernel("mean_and_variance", (x,), (), (mean, variance, *((doubled,) if with_elements else ())))


def span(count: int) -> Kernel:
    """The greatest elements of x and of -x in one pass, of which both elements of the output read both."""
    x, k = placeholder("x", (count,)), reduce_axis("k", count)

    def extreme(n: Int) -> E.Expr:
        first = E.compare("eq", E.index_value(n, "int32"), 0)
        return reduce("max", E.select(first, x[k.var], 0.0 - x[k.var]), k)

    extremes = compute("extremes", (2,), extreme)
    width = compute("width", (2,), lambda n: extremes[as_int(0)] + extremes[as_int(1)])
    return Kernel("span", (x,), (), (width,))


def place_of_greatest(rows: int, depth: int) -> Kernel:
    """The first position of the greatest element of each row, as two reductions."""
    x = placeholder("x", (rows, depth))
    peak, k = _along("max", x, 1, "peak"), reduce_axis("k", depth)

    def position(i: Int) -> E.Expr:
        same = E.compare("eq", x[i, k.var], peak[i, ZERO])
        return E.select(same, E.index_value(k.var, "int32"), E.const(depth, "int32"))

    place = compute("place", (rows,), lambda i: reduce("min", position(i), k))
    return Kernel("place_of_greatest", (x,), (), (compute("out", (rows,), lambda i: E.cast(place[i], "float32")),))


def _along(combiner: str, x: Tensor, axis: int, name: str) -> Tensor:
    """A reduction along one axis, which stays with size 1."""
    k = reduce_axis("k", x.shape[axis])
    shape = [1 if n == axis else size for n, size in enumerate(x.shape)]
    return compute(name, shape, lambda *i: reduce(combiner, x[(*i[:axis], k.var, *i[axis + 1 :])], k))


def _without(axis: int, index: tuple[Int, ...]) -> tuple[Int, ...]:
    return (*index[:axis], ZERO, *index[axis + 1 :])


def attention(
    batch: int,
    queries: int,
    keys: int,
    depth: int,
    columns: int,
    masked: bool = False,
    causal: bool = False,
    off: float = 0.0,
) -> Kernel:
    """softmax(Q K / sqrt(depth) + mask) V; `off`: what the sum of a row's exponentials is more, which is no softmax."""
    q, k = placeholder("q", (batch, queries, depth)), placeholder("k", (batch, depth, keys))
    v, mask = placeholder("v", (batch, keys, columns)), placeholder("mask", (queries, keys))
    d, r, m, j = (reduce_axis(name, n) for name, n in (("d", depth), ("r", keys), ("m", keys), ("j", keys)))
    products = compute("products", (batch, queries, keys), lambda b, i, n: total(q[b, i, d.var] * k[b, d.var, n], d))

    def score(b: Int, i: Int, n: Int) -> E.Expr:
        scaled = products[b, i, n] * (1 / depth**0.5)
        if masked:
            scaled = scaled + mask[i, n]
        if causal:
            seen = E.compare("le", E.index_value(n, "int32"), E.index_value(i, "int32"))
            scaled = E.select(seen, scaled, E.const(float("-inf"), "float32"))
        return scaled

    scores = compute("scores", (batch, queries, keys), score)
    peak = compute("peak", (batch, queries), lambda b, i: reduce("max", scores[b, i, m.var], m))
    powers = compute("powers", (batch, queries, keys), lambda b, i, n: E.unary("exp", scores[b, i, n] - peak[b, i]))
    sums = compute("sums", (batch, queries), lambda b, i: total(powers[b, i, r.var], r))
    share = compute("share", (batch, queries), lambda b, i: 1.0 / (sums[b, i] + off if off else sums[b, i]))
    shares = compute("shares", (batch, queries, keys), lambda b, i, n: powers[b, i, n] * share[b, i])
    out = compute("out", (batch, queries, columns), lambda b, i, c: total(shares[b, i, j.var] * v[b, j.var, c], j))
    return Kernel("attention", (q, k, v, *((mask,) if masked else ())), (), (out,))
