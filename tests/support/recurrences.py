"""Small recurrences as tensor expressions, and numbers for their inputs."""

from __future__ import annotations

import numpy as np

from sterna.ir.extremum import maximum
from sterna.ir.integer import Int
from sterna.te import expr as E
from sterna.te.scan import scan
from sterna.te.tensor import Kernel, Tensor, compute, placeholder, reduce, reduce_axis, total


def arrays(kernel: Kernel, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        t.name: random.uniform(-0.5, 0.5, [int(n) for n in t.shape]).astype(np.float32)
        for t in (*kernel.inputs, *kernel.params)
    }


def tanh_layer(steps: int, batch: int, hidden: int, reverse: bool = False, last: bool = False) -> Kernel:
    """h' = tanh(x + h r)."""
    x, r = placeholder("x", (steps, batch, hidden)), placeholder("r", (hidden, hidden))
    start = placeholder("start", (batch, hidden))
    k = reduce_axis("k", hidden)

    def step(h: Tensor) -> tuple[Tensor, ...]:
        def product(t: Int, n: Int, j: Int) -> E.Expr:
            return total(h[t, n, k] * r[k, j], k) if hidden > 1 else h[t, n, 0] * r[0, j]

        acc = compute("acc", (steps, batch, hidden), product, ("t", "n", "j"))
        shape = (steps, batch, hidden)
        return (compute("h", shape, lambda t, n, j: E.unary("tanh", x[t, n, j] + acc[t, n, j])),)

    (h,) = scan("layer", steps, (start,), step, reverse)
    final = 0 if reverse else steps - 1
    y = compute("y", (steps, batch, hidden), lambda t, n, j: h[t, n, j])
    z = compute("z", (batch, hidden), lambda n, j: h[final, n, j])
    return Kernel("layer", (x, start), (r,), (z,) if last else (y, z))


def running_sums(steps: int, width: int) -> Kernel:
    """Two states that do not read each other, and no sequence."""
    x, first = placeholder("x", (steps, width)), placeholder("first", (width,))

    def step(s: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        return (
            compute("s", (steps, width), lambda t, j: s[t, j] + x[t, j]),
            compute("p", (steps, width), lambda t, j: p[t, j] * x[t, j]),
        )

    s, p = scan("both", steps, (first, first), step)
    out = compute("out", (width,), lambda j: s[steps - 1, j] - p[steps - 1, j])
    return Kernel("sums", (x, first), (), (out,))


def shifting(steps: int, width: int) -> Kernel:
    """A state that is read elsewhere than it is written: a delay line, as of a streaming convolution."""
    x, first = placeholder("x", (steps,)), placeholder("first", (width,))

    def step(line: Tensor) -> tuple[Tensor, ...]:
        def element(t: Int, j: Int) -> E.Expr:
            return E.select(E.compare("eq", E.index_value(j), 0), x[t], line[t, maximum(j - 1, 0)])

        return (compute("line", (steps, width), element, ("t", "j")),)

    (line,) = scan("delay", steps, (first,), step)
    j = reduce_axis("j", width)
    y = compute("y", (steps,), lambda t: total(line[t, j], j))
    return Kernel("delay", (x, first), (), (y,))


def power_iteration(steps: int, size: int) -> Kernel:
    """A state that is a reduction itself, then one of the norm: products of the step that read each other."""
    a, first = placeholder("a", (size, size)), placeholder("first", (size,))
    k, m = reduce_axis("k", size), reduce_axis("m", size)

    def step(v: Tensor) -> tuple[Tensor, ...]:
        w = compute("w", (steps, size), lambda t, i: total(v[t, k] * a[k, i], k))
        peak = compute("peak", (steps,), lambda t: reduce("max", E.unary("abs", w[t, m]), m))
        return (compute("v", (steps, size), lambda t, i: w[t, i] / (peak[t] + 0.25)),)

    (v,) = scan("power", steps, (first,), step)
    return Kernel("power", (first,), (a,), (compute("y", (size,), lambda i: v[steps - 1, i]),))


def two_products(steps: int, size: int) -> Kernel:
    """A product of the step that reads another one whole."""
    x, first, r = placeholder("x", (steps, size)), placeholder("first", (size,)), placeholder("r", (size, size))
    k, m = reduce_axis("k", size), reduce_axis("m", size)

    def step(h: Tensor) -> tuple[Tensor, ...]:
        p = compute("p", (steps, size), lambda t, j: total(h[t, k] * r[k, j], k))
        u = compute("u", (steps, size), lambda t, j: E.unary("tanh", x[t, j] + p[t, j]))
        q = compute("q", (steps, size), lambda t, j: total(u[t, m] * r[m, j], m))
        return (compute("h", (steps, size), lambda t, j: E.unary("tanh", q[t, j] - x[t, j])),)

    (h,) = scan("two", steps, (first,), step)
    return Kernel("two", (x, first), (r,), (compute("y", (size,), lambda j: h[steps - 1, j]),))
