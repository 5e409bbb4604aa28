"""Counts of shifts, stored as the instructions take them."""

from __future__ import annotations

from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, product
from sterna.te import expr as E


def negate_counts(s: Schedule, context: Context) -> None:
    """Stores constants negated that nothing but shifts to the right by vectors of counts reads, where the target has
    such instructions: they shift to the left, and to the right by what is negative. Comes after the steps that decide
    what a stage reads."""
    # Those of a panel of columns are negated once, before the loops over its rows.
    if "round_shift" not in context.target.rounded or any(stage.tensorized for stage in s.stages.values()):
        return
    bodies = [stage.body for stage in s.stages.values()]
    counts = {e.b for body in bodies for e in E.walk(body) if isinstance(e, E.Binary) and e.op == "round_shift"}
    others = {
        load.tensor.name
        for body in bodies
        for e in E.walk(body)
        for load in e.children()
        if isinstance(load, E.Load) and not (isinstance(e, E.Binary) and e.op == "round_shift" and e.b is load)
    }
    names = {e.tensor.name for e in counts if isinstance(e, E.Load)}
    for param in s.kernel.params:
        if param.name in names - others and product(param.shape) > 1:
            s.negate(param.name)
