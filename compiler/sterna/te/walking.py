"""Walking over value expressions, and rebuilding them.

No walk looks at a node twice: what stands in several places of a tree is one node, and a node remembers those below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sterna.ir.integer import Int
from sterna.te.axis import Axis
from sterna.te.nodes import Expr, IndexValue, Load, const


def walk(expr: Expr) -> tuple[Expr, ...]:
    """Every node, operands first; one that stands in several places of the tree once."""
    # Nearly every pass over loops asks for those of the same values. A node does not remember itself: nobody but the
    # garbage collector could let go of it.
    known: tuple[Expr, ...] | None = expr.__dict__.get("_below")
    if known is None:
        expr.__dict__["_below"] = known = _below(expr)
    return (*known, expr)


def _below(expr: Expr) -> tuple[Expr, ...]:
    if not (operands := expr.children()):
        return ()
    found: list[Expr] = []
    seen = {id(expr)}
    pending: list[Expr | None] = [*operands[::-1]]
    while pending:
        node = pending.pop()
        if node is None:  # what is below has its operands done
            ready = pending.pop()
            assert ready is not None
            found.append(ready)
        elif id(node) not in seen:
            seen.add(id(node))
            if operands := node.children():
                pending += (node, None, *operands[::-1])
            else:
                found.append(node)
    return tuple(found)


def rewrite(expr: Expr, rule: Callable[[Expr], Expr | None], memo: dict[Expr, Expr] | None = None) -> Expr:
    """Rebuilds the tree from the leaves; `rule` gives a node's replacement (its operands are done already) or None."""
    return _rewritten(expr, rule, {} if memo is None else memo)


def _rewritten(node: Expr, rule: Callable[[Expr], Expr | None], done: dict[Expr, Expr]) -> Expr:
    # A function of its own: one within `rewrite` would hold itself, and all nodes until the garbage collector comes.
    if (known := done.get(node)) is not None:
        return known
    result = node
    if children := node.children():
        new = tuple([_rewritten(child, rule, done) for child in children])
        for a, b in zip(new, children):  # noqa: B905 - as many by construction, and in the hottest loop of lowering
            if a is not b:
                result = node.with_children(new)
                break
    replacement = rule(result)
    done[node] = result = result if replacement is None else replacement
    return result


def rewrite_within(
    expr: Expr, rule: Callable[[Expr, Callable[[Expr], Expr]], Expr | None], memo: dict[Expr, Expr] | None = None
) -> Expr:
    """`rewrite` by a rule that is also given the way to rewrite what it finds in a node, as in a computed position: a
    rule that named itself would live, with all that it knows, until the garbage collector comes."""
    return _Within(rule, {} if memo is None else memo).value(expr)


@dataclass(frozen=True)
class _Within:
    rule: Callable[[Expr, Callable[[Expr], Expr]], Expr | None]
    done: dict[Expr, Expr]

    def value(self, expr: Expr) -> Expr:
        return _rewritten(expr, self.node, self.done)

    def node(self, node: Expr) -> Expr | None:
        return self.rule(node, self.value)


def map_positions(expr: Expr, function: Callable[[Int], Int], memo: dict[Expr, Expr] | None = None) -> Expr:
    """Replaces every position of the tree."""
    return rewrite(expr, lambda node: with_positions(node, function), memo)


def with_positions(node: Expr, function: Callable[[Int], Int]) -> Expr | None:
    """A node with other positions, its operands' apart; None where they stay."""
    if isinstance(node, Load):
        indices = tuple([function(index) for index in node.indices])
        return node.changed(indices=indices) if indices != node.indices else None
    if isinstance(node, IndexValue):
        index = function(node.index)
        if index is node.index:
            return None
        return const(index.const, node.dtype) if index.is_const and node.lanes == 1 else node.changed(index=index)
    return None


def substitute_index(expr: Expr, values: Mapping[Any, Int], memo: dict[Expr, Expr] | None = None) -> Expr:
    """Replaces symbols in every position of the tree."""
    return map_positions(expr, lambda index: index.substitute(values), memo)


def positions(node: Expr) -> tuple[Int, ...]:
    """The positions that a node holds itself, not those of its operands."""
    return node.indices if isinstance(node, Load) else (node.index,) if isinstance(node, IndexValue) else ()


def loads(expr: Expr) -> tuple[Load, ...]:
    """Every load, those inside computed positions included."""
    known: tuple[Load, ...] | None = expr.__dict__.get("_loads")
    if known is None:
        found: list[Load] = []
        for node in walk(expr):
            if isinstance(node, Load):
                indices = node.indices
                if node is not expr:
                    found.append(node)
            elif isinstance(node, IndexValue):
                indices = (node.index,)
            else:
                continue
            for index in indices:
                for value in index.expressions():
                    found += [inner for inner in walk(value) if isinstance(inner, Load)]
        expr.__dict__["_loads"] = known = tuple(found)
    return (expr, *known) if isinstance(expr, Load) else known


def axes_of(value: Expr) -> set[Axis]:
    """The axes that positions in a value name."""
    named = (index.symbols() for node in walk(value) for index in positions(node))
    return {a for symbols in named for a in symbols if isinstance(a, Axis)}
