"""From watched tensors to scales: which tensors have one together, and how a rectifier limits them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sterna.quantize.calibration import Range
from sterna.quantize.numbers import Scale, activation_scale
from sterna.quantize.plan import Plan

#: A tensor that is concatenated takes the scale of the whole if that costs it at most one bit.
_LEAST_SHARE = 0.5


def root(plan: Plan, tensor: str) -> str:
    """The tensor whose elements another one has, moved or chosen: both have its scale."""
    while tensor in plan.moved:
        tensor = plan.moved[tensor]
    return tensor


def roots(plan: Plan, rounded: Collection[str]) -> list[str]:
    """The tensors whose ranges must be known."""
    return list(dict.fromkeys(root(plan, tensor) for tensor in rounded))


def scales(plan: Plan, ranges: Mapping[str, Range], rounded: Collection[str], dtype: str) -> dict[str, Scale]:
    """The scale of every rounded tensor.

    Args:
        ranges: of `roots`.
    """
    group = {name: name for name in ranges}
    whole = dict(ranges)

    def of(tensor: str) -> str:
        name = root(plan, tensor)
        while group[name] != name:
            name = group[name]
        return name

    for output, inputs in plan.concatenated.items():
        if output not in rounded or any(name not in rounded for name in inputs):
            continue
        members = list(dict.fromkeys(of(name) for name in (output, *inputs)))
        joint = whole[members[0]]
        for name in members[1:]:
            joint = joint.joined(whole[name])
        if not all(_alike(whole[name], joint) for name in members):
            continue
        for name in members[1:]:
            group[name] = members[0]
        whole[members[0]] = joint
    made = {name: activation_scale(whole[name], dtype) for name in set(group.values())}
    return {tensor: made[of(tensor)] for tensor in rounded}


def _alike(own: Range, joint: Range) -> bool:
    """Whether a tensor loses little by a wider range; one of a rectifier keeps its bound, which then does the
    rectifier's work."""
    return own.width >= _LEAST_SHARE * joint.width and (own.low == 0) == (joint.low == 0)
