"""The stages of a kernel after those that a schedule computes anew wherever they are read are substituted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sterna.ir import dtypes
from sterna.schedule.decisions import StageSchedule
from sterna.te import expr as E
from sterna.te.expr import Expr, Load
from sterna.te.position import rewrite_index


def inlined(stages: Mapping[str, StageSchedule]) -> dict[str, Expr]:
    """The body of every stage that is left, by name."""
    memo: dict[Expr, Expr] = {}

    def rule(node: Expr, again: Callable[[Expr], Expr]) -> Expr | None:
        if isinstance(node, E.IndexValue):
            position = rewrite_index(node.index, again)
            return None if position is node.index else node.changed(index=position)
        if isinstance(node, E.Cast) and node.dtype == "float32" and node.a.dtype in dtypes.HALVES:
            # A constant is wide from here on: what is cheaper for a number that is known sees it.
            half = again(node.a)
            return E.const(half.value, node.dtype) if isinstance(half, E.Const) else node.changed(a=half)
        if not isinstance(node, Load):
            return None
        indices = tuple(rewrite_index(i, again) for i in node.indices)
        s = stages.get(node.tensor.name)
        if s is None or not s.inlined:
            return node.changed(indices=indices) if indices != node.indices else None
        return again(E.substitute_index(s.body, dict(zip(s.tensor.axes, indices, strict=True))))

    return {name: E.rewrite_within(s.body, rule, memo) for name, s in stages.items() if not s.inlined}


def producers_first(bodies: Mapping[str, Expr], sinks: Iterable[str]) -> list[str]:
    """The stages that the sinks need, each after those that it reads."""
    order: list[str] = []
    for sink in sinks:
        _add_in_order(sink, bodies, order)
    return order


def _add_in_order(name: str, bodies: Mapping[str, Expr], order: list[str]) -> None:
    if name in order or name not in bodies:
        return
    for load in E.loads(bodies[name]):
        _add_in_order(load.tensor.name, bodies, order)
    order.append(name)
