"""Kernels small enough to schedule by hand, and how they are run."""

from __future__ import annotations

import numpy as np

from sterna.loops import interpreter
from sterna.loops.lower import lower
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce, reduce_axis, total
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


def row_sums(rows: int, depth: int, combiner: str = "sum") -> Kernel:
    x = placeholder("x", (rows, depth))
    k = reduce_axis("k", depth)
    out = compute("out", (rows,), lambda i: reduce(combiner, x[i, k.var], k))
    return Kernel("row_sums", (x,), (), (out,))


def arrays(kernel: Kernel) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    return {
        t.name: random.standard_normal([int(n) for n in t.shape]).astype(np.float32)
        for t in (*kernel.inputs, *kernel.params)
    }


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
