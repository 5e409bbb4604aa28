"""Matrix products of small integers, and the tile of one intrinsic that computes them: what holds a lowering to its
behaviour on any machine."""

from __future__ import annotations

import numpy as np

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total


def product(m: int, n: int, depth: int, left: str, right: str = "int8") -> Kernel:
    """x w + b of small integers."""
    x, w = placeholder("x", (m, depth), left), placeholder("w", (depth, n), right)
    b = placeholder("b", (n,), "int32")
    k = reduce_axis("k", depth)
    acc = compute("acc", (m, n), lambda i, j: total(E.cast(x[i, k.var], "int32") * E.cast(w[k.var, j], "int32"), k))
    out = compute("out", (m, n), lambda i, j: acc[i, j] + b[j])
    return Kernel("product", (x,), (w, b), (out,))


def arrays(kernel: Kernel, seed: int, intrinsic: Intrinsic | None = None) -> dict[str, np.ndarray]:
    """Random elements, the extreme ones as often as all others together; of weights those that an intrinsic takes."""
    random = np.random.default_rng(seed)
    made = {}
    for t in (*kernel.inputs, *kernel.params):
        low, high = dtypes.limits(t.dtype) if t.dtype != "int32" else (-1000, 1000)
        if intrinsic is not None and t.name == "w":
            low, high = intrinsic.bounds.get("b", (low, high))
        shape = [int(n) for n in t.shape]
        values = random.integers(low, high, shape, endpoint=True)
        made[t.name] = np.where(random.random(shape) < 0.5, values, random.choice([low, high], shape)).astype(t.dtype)
    return made


def tiled(kernel: Kernel, intrinsic: Intrinsic, rows: int = 2) -> Schedule:
    """A tile of `rows` by one vector, whatever the target."""
    s = Schedule(kernel)
    left, _ = intrinsic.operands
    given, wide = kernel.inputs[0].dtype, ""
    if given != left and dtypes.bits(given) == dtypes.bits(left):
        s.offset("acc", "x")
    elif given != left:
        wide = s.cache_read("x", "acc", left)
    if intrinsic.couples > 1:
        s.couple("acc", "w", "k", "b")
    s.split("out", "j", intrinsic.lanes)
    s.split("out", "i", rows)
    s.reorder("out", "j.o", "i.o", "i.i", "j.i")
    s.unroll("out", "i.i")
    s.vectorize("out", "j.i", whole=True)
    s.compute_at("acc", "out", "i.o", "register")
    if wide:
        s.compute_at(wide, "out", "i.o", "scratch")
    s.split("acc", "j", intrinsic.lanes)
    s.split("acc", "k", intrinsic.group)
    row, within = "i", ["j.i", "k.i"]
    if intrinsic.rows > 1:
        row, first = s.split("acc", "i", intrinsic.rows)
        within.insert(0, first)
    s.reorder("acc", "k.o", row, "j.o", *within)
    s.unroll("acc", row)
    s.unroll("acc", "j.o")
    s.tensorize("acc", *within, intrinsic.name)
    if intrinsic.adjoining == intrinsic.group:
        s.pack("w", {1: intrinsic.lanes, 0: intrinsic.group}, [(1, "o"), (0, "o"), (1, "i"), (0, "i")])
    elif intrinsic.woven > 1:
        order = [(1, "o"), (0, "o"), (1, "i"), (0, "i"), (0, "m")]
        s.pack("w", {1: intrinsic.lanes, 0: (intrinsic.group, intrinsic.group // intrinsic.woven)}, order)
    else:
        order = [(1, "o"), (0, "o"), (0, "m"), (1, "i"), (0, "i")]
        s.pack("w", {1: intrinsic.lanes, 0: (intrinsic.group, intrinsic.adjoining)}, order)
    return s
