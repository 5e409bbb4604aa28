"""For any intrinsic a kernel of nothing else, so that a lowering can be held to its behaviour."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sterna.intrinsics import Form, Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import of
from sterna.ir.memory import SCRATCH
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.tensor import Kernel, Tensor

#: How often the kernel applies its intrinsic.
TIMES = 3


def kernel_of(intrinsic: Intrinsic) -> Kernel:
    """The behaviour of an intrinsic several times over: added up, if it accumulates, else side by side."""
    behaviour = intrinsic.behaviour
    assert behaviour.body is not None
    again = Axis("again", TIMES, reduction=intrinsic.accumulates)
    renamed = {a: Axis(f"x_{a.name}", a.extent, a.reduction) for a in intrinsic.axes}
    given = {t.name: Tensor(t.name, (again.extent, *t.shape), t.dtype) for t in intrinsic.inputs}

    def rule(node: E.Expr) -> E.Expr | None:
        return given[node.tensor.name][(of(again), *node.indices)] if isinstance(node, Load) else None

    body = E.substitute_index(behaviour.body, {a: of(b) for a, b in renamed.items()})
    spatial = tuple(renamed[a] for a in behaviour.axes)
    if isinstance(body, Reduce):
        reduced = tuple(renamed[a] for a in intrinsic.reduction.axes)
        axes = (again, *reduced) if intrinsic.accumulates else reduced
        body = Reduce(body.dtype, combiner=body.combiner, a=E.rewrite(body.a, rule), axes=axes)
    else:
        body = E.rewrite(body, rule)
    own = spatial if intrinsic.accumulates else (again, *spatial)
    result = Tensor("result", tuple(a.extent for a in own), behaviour.dtype, own, body)
    return Kernel("only", tuple(given.values()), (), (result,))


def schedule_of(kernel: Kernel, intrinsic: Intrinsic) -> Schedule:
    """The kernel by the intrinsic and nothing else, but for copies of what has to lie otherwise than arguments do."""
    s = Schedule(kernel, {intrinsic.name: intrinsic})
    axes, stage = [f"x_{a.name}" for a in intrinsic.axes], "result"
    apart = intrinsic.tiles is not None and intrinsic.tiles.row_bytes > 1
    if apart:
        stage = s.cache_write("result")
        first = kernel.outputs[0].axes[0]
        s.compute_at(stage, "result", s.split("result", first.name, int(first.extent))[0], SCRATCH)
    s.reorder(stage, "again", *axes)
    if apart:
        for t in kernel.inputs:
            s.compute_at(s.cache_read(t.name, stage), stage, "again", SCRATCH)
    if intrinsic.form is Form.MEMORY and any(t.name not in intrinsic.places for t in intrinsic.inputs):
        s.unroll(stage, "again")
    s.tensorize(stage, *axes, intrinsic.name)
    return s


def feeds_of(kernel: Kernel, seed: int) -> Mapping[str, np.ndarray]:
    """Operands: of integers the extreme ones as often as all others together."""
    random = np.random.default_rng(seed)
    feeds = {}
    for t in kernel.inputs:
        shape = [int(n) for n in t.shape]
        if dtypes.is_float(t.dtype):
            # Few digits: sums are exact in any order.
            most = 64 if dtypes.bits(kernel.outputs[0].dtype) > 16 else 16
            feeds[t.name] = random.integers(-most, most, shape).astype(dtypes.to_numpy(t.dtype))
            continue
        low, high = dtypes.limits(t.dtype)
        values = random.integers(low, high, shape, endpoint=True, dtype=dtypes.to_numpy(t.dtype))
        feeds[t.name] = np.where(random.random(shape) < 0.5, values, random.choice([low, high], shape)).astype(t.dtype)
    return feeds
