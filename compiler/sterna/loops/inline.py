"""The stages of a kernel after those that a schedule computes anew wherever they are read are substituted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sterna.schedule.decisions import StageSchedule
from sterna.te import expr as E
from sterna.te.expr import Expr, Load
from sterna.te.position import rewrite_index


def inlined(stages: Mapping[str, StageSchedule]) -> dict[str, Expr]:
    """The body of every stage that is left, by name."""
    memo: dict[Expr, Expr] = {}

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, E.IndexValue):
            position = rewrite_index(node.index, expand)
            return None if position is node.index else replace(node, index=position)
        if not isinstance(node, Load):
            return None
        indices = tuple(rewrite_index(i, expand) for i in node.indices)
        s = stages.get(node.tensor.name)
        if s is None or not s.inlined:
            return replace(node, indices=indices) if indices != node.indices else None
        return expand(E.substitute_index(s.body, dict(zip(s.tensor.axes, indices, strict=True))))

    def expand(body: Expr) -> Expr:
        return E.rewrite(body, rule, memo)

    return {name: expand(s.body) for name, s in stages.items() if not s.inlined}


def producers_first(bodies: Mapping[str, Expr], sinks: Iterable[str]) -> list[str]:
    """The stages that the sinks need, each after those that it reads."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order or name not in bodies:
            return
        for load in E.loads(bodies[name]):
            visit(load.tensor.name)
        order.append(name)

    for sink in sinks:
        visit(sink)
    return order
