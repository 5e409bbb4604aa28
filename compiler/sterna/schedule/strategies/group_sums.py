"""Sums of each thread's own, in registers."""

from __future__ import annotations

from sterna.ir.memory import REGISTER
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import size
from sterna.schedule.strategies.rows import SUMS, keep_lanes, many_terms
from sterna.te.expr import Reduce


def in_register(s: Schedule, acc: str, out: str, thread: str, many: int) -> None:
    """Places the sums of a thread's elements, so many neighbours, in its registers; of parts if they are long: a sum of
    many terms is off by as many roundings."""
    body = s.stages[acc].body
    assert isinstance(body, Reduce)
    longest = max(body.axes, key=lambda a: size(a.extent), default=None)
    long = longest is not None and longest.extent.is_const and many_terms(body, body.axes)
    if many > 1:
        assert longest is not None
        parts = [acc]
        if long:
            _, part = s.split(acc, longest.name, min(SUMS, size(longest.extent)))
            parts.append(s.rfactor(acc, part, outermost=True))
        for name in parts:
            state = s.stages[name]
            last = state.tensor.axes[-1].name
            terms = [leaf for leaf in state.leaves if leaf in state.reduction_leaves]
            s.reorder(name, *terms, *(leaf for leaf in state.leaves if leaf not in (*terms, last)), last)
            s.vectorize(name, last)
            s.compute_at(name, out, thread, REGISTER)
        if long:
            s.unroll(acc, "lane")
            s.unroll(parts[1], "lane")
        return
    if longest is not None and long:
        keep_lanes(s, acc, longest.name, min(SUMS, size(longest.extent)), out, thread, 1)
        for leaf in list(s.stages[acc].leaves):
            s.unroll(acc, leaf)
    s.compute_at(acc, out, thread, REGISTER)
