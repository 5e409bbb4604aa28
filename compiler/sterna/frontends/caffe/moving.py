"""Layers of Caffe and its forks that choose and move elements: Filter, Reverse, FlowWarp."""

from __future__ import annotations

import math

from sterna.errors import error
from sterna.frontends.caffe.translation import Translation
from sterna.frontends.caffe.windows import choice
from sterna.ir.graph import Value


def filtered(t: Translation) -> list[Value]:
    """Of each operand but the last the items of the batch for which the last one is not 0. There may be none, where
    Caffe leaves what stood there before."""
    *parts, selector = (t.input(n) for n in range(max(len(t.inputs), 2)))
    batch = t.extent(selector, 0)
    if t.extent(t.reshape(selector, (selector.type.elements,)), 0) != batch:
        raise error("E0108", f"{t.kind} is told by {selector.type}, which is not one number for each item")
    if any(part.shape[0] != batch for part in parts):
        raise error("E0108", f"{t.kind} of {', '.join(str(part.type) for part in parts)} by {batch} numbers")
    hit = t.op("logical_not", t.op("equal", t.reshape(selector, (batch,)), t.number(0.0)))
    found, size = [], None
    for n, part in enumerate(parts):
        kept, count = t.builder.add_all(
            "compress", part, hit, axis=0, size=batch, sources=t.sources, name=f"{t.name}/{n}"
        )  # fmt: skip
        if size is None:
            size = t.builder.bind_size(
                count, t.builder.name("items"), 0, batch, sources=t.sources, name=f"{t.name}/items"
            )
        rest = part.shape[1:]
        steps = (1,) * part.type.rank
        found.append(t.op("slice", kept, starts=(0,) * part.type.rank, sizes=(size, *rest), steps=steps))
    return found


def reverse(t: Translation) -> Value:
    """Along one dimension, the first where none is named, the last element first."""
    x = t.x
    axis = t.axis(t.settings("reverse_param"), 0)
    starts = [x.shape[n] - 1 if n == axis else 0 for n in range(x.type.rank)]
    steps = tuple(-1 if n == axis else 1 for n in range(x.type.rank))
    return t.op("slice", x, starts=tuple(starts), sizes=x.shape, steps=steps)


def flow_warp(t: Translation) -> Value:
    """FlowNet 2's: an image read where a flow (N, 2, H, W; to the right, down) points to, between four elements; 0, or
    no number, beside it."""
    x, flow = t.x, t.input(1)
    batch, channels, height, width = t.sizes(x, 4)
    if t.static(flow) != (batch, 2, height, width):
        raise error("E0108", f"{t.kind} of {x.type} by a flow {flow.type}, not [{batch}, 2, {height}, {width}]")
    kind = choice(t.settings("flow_warp_param"), "fill_value", "", "ZERO", "NOT_A_NUMBER", default="ZERO")
    if kind not in ("ZERO", "NOT_A_NUMBER"):
        raise error("E0109", f"fill_value is {kind}")
    rows, columns = t.extent(x, 2), t.extent(x, 3)
    plane = rows * columns
    within: list[Value] = []
    lows: list[Value] = []
    highs: list[Value] = []
    shares: list[Value] = []
    for n, size in ((1, rows), (0, columns)):
        moved = t.op("slice", flow, starts=(0, n, 0, 0), sizes=(batch, 1, height, width), steps=(1,) * 4)
        grid = t.cast(t.reshape(t.counting(size), (size, 1) if n else (1, size)), "float32")
        at = t.op("add", moved, grid)
        inside = t.op("logical_and", t.op("less_equal", t.number(0.0), at), t.op("less", at, t.number(float(size))))
        at = t.op("where", inside, at, t.number(0.0))
        low = t.op("floor", at)
        within.append(inside)
        shares.append(t.op("sub", at, low))
        lows.append(t.cast(low, "int64"))
        highs.append(t.op("minimum", t.op("add", lows[-1], t.scalar(1, "int64")), t.scalar(size - 1, "int64")))
    flat = t.reshape(x, (batch, channels, plane))

    def read(y: Value, x_: Value) -> Value:
        place = t.op("add", t.op("mul", y, t.scalar(columns, "int64")), x_)
        index = t.op("expand", t.reshape(place, (batch, 1, plane)), shape=(batch, channels, plane))
        return t.reshape(t.op("gather_elements", flat, index, axis=2), x.shape)

    def between(a: Value, b: Value, share: Value) -> Value:
        return t.op("add", t.op("mul", a, t.op("sub", t.number(1.0), share)), t.op("mul", b, share))

    (top, left), (bottom, right), (down, aside) = lows, highs, shares
    above = between(read(top, left), read(top, right), aside)
    below = between(read(bottom, left), read(bottom, right), aside)
    rest = t.number(0.0 if kind == "ZERO" else math.nan)
    return t.op("where", t.op("logical_and", *within), between(above, below, down), rest)
