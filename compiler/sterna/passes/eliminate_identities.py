"""Removes what changes nothing, and joins neighbours that are one operator together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.ir.graph import Graph, Node, Value
from sterna.passes.rewriting import Rewriting, splat

Rule = Callable[[Rewriting, Node, Value], "Value | None"]


def eliminate_identities(graph: Graph) -> Graph:
    """The graph without no-ops: reshape and transpose chains, empty pads and slices, x * 1, x + 0 and their like."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        operands = rewriting.operands(node)
        rule = _RULES.get(node.op)
        first = operands[0] if operands else None
        replacement = rule(rewriting, node, first) if rule is not None and first is not None else None
        if replacement is None:
            rewriting.keep(node)
        else:
            rewriting.substitute(node.output, replacement)
    return rewriting.finish()


def _transpose(r: Rewriting, node: Node, x: Value) -> Value | None:
    order: tuple[int, ...] = node.attributes["order"]
    inner = r.made_by(x, "transpose")
    if inner is not None and inner.inputs[0] is not None:
        x, order = inner.inputs[0], tuple(inner.attributes["order"][n] for n in order)
    if order == tuple(range(len(order))):
        return x
    return r.emit(node, "transpose", x, order=order) if inner is not None else None


def _reshape(r: Rewriting, node: Node, x: Value) -> Value | None:
    inner = r.made_by(x, "reshape")
    if inner is not None and inner.inputs[0] is not None:
        x = inner.inputs[0]
    if x.shape == node.output.shape:
        return x
    return r.emit(node, "reshape", x, shape=node.output.shape) if inner is not None else None


def _same_type(r: Rewriting, node: Node, x: Value) -> Value | None:
    return x if x.type == node.output.type else None


def _identity(r: Rewriting, node: Node, x: Value) -> Value | None:
    return x


def _slice(r: Rewriting, node: Node, x: Value) -> Value | None:
    return x if x.type == node.output.type and all(step == 1 for step in node.attributes["steps"]) else None


def _pad(r: Rewriting, node: Node, x: Value) -> Value | None:
    settings = node.attributes
    if all(n == 0 for n in (*settings["before"], *settings["after"])):
        return x
    inner = r.made_by(x, "pad")
    if inner is None or settings["mode"] != "constant" or inner.attributes["mode"] != "constant":
        return None
    if settings["value"] != inner.attributes["value"]:
        return None
    ends: dict[str, Any] = {
        key: tuple(a + b for a, b in zip(settings[key], inner.attributes[key], strict=True))
        for key in ("before", "after")
    }
    return r.emit(node, "pad", inner.inputs[0], mode="constant", value=settings["value"], **ends)


def _concat(r: Rewriting, node: Node, x: Value) -> Value | None:
    return x if len(node.inputs) == 1 else None


def _reduction(r: Rewriting, node: Node, x: Value) -> Value | None:
    if any(x.shape[axis] != 1 for axis in node.attributes["axes"]):
        return None
    return r.emit(node, "reshape", x, shape=node.output.shape)


def _neutral(element: float, either: bool) -> Rule:
    """x (op) element = x; on both sides if the operator commutes."""

    def rule(r: Rewriting, node: Node, x: Value) -> Value | None:
        _, other = r.operands(node)
        if splat(other) == element and x.type == node.output.type:
            return x
        if either and other is not None and splat(x) == element and other.type == node.output.type:
            return other
        return None

    return rule


def _power(r: Rewriting, node: Node, x: Value) -> Value | None:
    exponent = splat(r.operands(node)[1])
    if exponent is None or x.type != node.output.type:
        return None
    if exponent == 1:
        return x
    if exponent == 2:
        return r.emit(node, "mul", x, x)
    if exponent == 0.5 and x.dtype in ("float32", "float64"):
        return r.emit(node, "sqrt", x)
    if exponent == -1 and x.dtype in ("float32", "float64"):
        return r.emit(node, "reciprocal", x)
    return None


def _bound(key: str) -> Rule:
    """A maximum or minimum with one number is a clip."""

    def rule(r: Rewriting, node: Node, x: Value) -> Value | None:
        a, b = r.operands(node)
        for kept, bound in ((a, b), (b, a)):
            if kept is None or bound is None or bound.data is None or kept.type != node.output.type:
                continue
            value = splat(bound)
            if value is not None and not math.isnan(value):
                if key == "min" and value == 0 and _signed(kept):
                    return r.emit(node, "relu", kept)
                setting: dict[str, Any] = {key: bound.data.flat[0].item()}
                return r.emit(node, "clip", kept, **setting)
        return None

    return rule


def _signed(value: Value) -> bool:
    return not value.dtype.startswith(("u", "bool"))


def _clip(r: Rewriting, node: Node, x: Value) -> Value | None:
    low, high = node.attributes["min"], node.attributes["max"]
    if low is None and high is None:
        return x
    inner = r.made_by(x, "relu")
    if inner is not None and low is not None and low >= 0:
        return r.emit(node, "clip", inner.inputs[0], min=low, max=high)
    return None


def _gather(r: Rewriting, node: Node, x: Value) -> Value | None:
    """Constant positions that lie steps apart are known to the loops."""
    indices = node.inputs[1]
    axis = node.attributes["axis"] % x.type.rank
    if indices is None or indices.data is None or not indices.type.rank or not x.shape[axis].is_const:
        return None
    extent, places = int(x.shape[axis]), np.asarray(indices.data)
    places = np.where(places < 0, places + extent, places)
    if not places.size or places.min() < 0 or places.max() >= extent:
        return None
    start = int(places.flat[0])
    steps = [int(places.take(1, n).flat[0]) - start if size > 1 else 1 for n, size in enumerate(places.shape)]
    ramps = np.ix_(*(np.arange(size) * step for size, step in zip(places.shape, steps, strict=True)))
    if (places != sum(ramps, np.int64(start))).any():
        return None
    if len(steps) > 1:
        return r.emit(node, "strided", x, axis=axis, start=start, sizes=places.shape, steps=tuple(steps))
    if steps[0] == 0:
        return None
    starts, every = [0] * x.type.rank, [1] * x.type.rank
    starts[axis], every[axis] = start, steps[0]
    return r.emit(node, "slice", x, starts=tuple(starts), sizes=node.output.shape, steps=tuple(every))


_RULES: dict[str, Rule] = {
    "add": _neutral(0.0, True),
    "cast": _same_type,
    "clip": _clip,
    "concat": _concat,
    "div": _neutral(1.0, False),
    "expand": _same_type,
    "gather": _gather,
    "identity": _identity,
    "maximum": _bound("min"),
    "minimum": _bound("max"),
    "mul": _neutral(1.0, True),
    "pad": _pad,
    "pow": _power,
    "reduce_max": _reduction,
    "reduce_mean": _reduction,
    "reduce_min": _reduction,
    "reduce_prod": _reduction,
    "reduce_sum": _reduction,
    "reshape": _reshape,
    "slice": _slice,
    "sub": _neutral(0.0, False),
    "tile": _same_type,
    "transpose": _transpose,
}
