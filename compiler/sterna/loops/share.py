"""Names values that are used more than once.

Within a run of straight-line statements a value that several of them need (a weight vector used by every row of a tile,
an activation broadcast against every panel, a subexpression of a polynomial) is computed once. Entries are dropped when
a statement writes what they depend on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from operator import is_

from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr

_NAME = re.compile(r"t\d+")
_TRIVIAL = (E.Const, P.Read)


def share(stmt: P.Stmt) -> P.Stmt:
    """Rewrites every straight-line run inside a statement, in which values may have been shared before."""
    return _Sharing(_last_number(stmt)).block(stmt)


def _last_number(stmt: P.Stmt) -> int:
    """Of the names that values were shared by."""
    names = (s.variable.name for s in P.walk(stmt) if isinstance(s, P.Let))
    return max((int(name[1:]) for name in names if _NAME.fullmatch(name)), default=0)


@dataclass
class _Sharing:
    count: int = 0
    available: dict[Expr, P.Variable] = field(default_factory=dict)
    #: By what they depend on, the values that were available.
    dependent: dict[object, list[Expr]] = field(default_factory=dict)
    depends: dict[Expr, frozenset[object]] = field(default_factory=dict)

    def block(self, stmt: P.Stmt) -> P.Stmt:
        out: list[P.Stmt] = []
        run: list[P.Stmt] = []
        for s in P.members(stmt):
            if isinstance(s, (P.Store, P.Assign, P.Let)):
                run.append(s)
                continue
            self.run(run, out)
            run = []
            out.append(P.map_children(s, self.block) if P.children(s) else s)
        self.run(run, out)
        return P.seq(*out)

    def run(self, stmts: list[P.Stmt], out: list[P.Stmt]) -> None:
        if not stmts:
            return
        uses: dict[Expr, int] = {}
        for s in stmts:
            value = P.value_of(s)
            assert value is not None
            _count(value, uses)
        self.available, self.dependent = {}, {}
        for s in stmts:
            assert isinstance(s, (P.Store, P.Assign, P.Let))
            lets: list[P.Stmt] = []
            value = self.emit(s.value, uses, lets, {})
            out.extend(lets)
            out.append(s if value is s.value else s.changed(value=value))
            if isinstance(s, P.Let):
                continue
            written: object = s.variable if isinstance(s, P.Assign) else s.buffer
            for e in self.dependent.pop(written, ()):
                self.available.pop(e, None)

    def emit(self, e: Expr, uses: dict[Expr, int], lets: list[P.Stmt], done: dict[Expr, Expr]) -> Expr:
        if isinstance(e, _TRIVIAL):
            return e
        if (variable := self.available.get(e)) is not None:
            return P.Read(variable.dtype, variable=variable, lanes=variable.lanes)
        if (ready := done.get(e)) is not None:
            return ready
        children = e.children()
        new = tuple([self.emit(c, uses, lets, done) for c in children])
        result = e if all(map(is_, new, children)) else e.with_children(new)
        if uses[e] > 1 and not isinstance(e, E.IndexValue):
            self.count += 1
            variable = P.Variable(f"t{self.count}", e.dtype, e.lanes)
            lets.append(P.Let(variable, result))
            self.available[e] = variable
            for each in self.dependencies(e):
                self.dependent.setdefault(each, []).append(e)
            return P.Read(variable.dtype, variable=variable, lanes=variable.lanes)
        done[e] = result
        return result

    def dependencies(self, e: Expr) -> frozenset[object]:
        """Variables and buffers whose contents the value depends on."""
        if (known := self.depends.get(e)) is None:
            found: set[object] = set()
            if isinstance(e, P.Read):
                found.add(e.variable)
            elif isinstance(e, E.Load):
                found.add(e.tensor)
            inside = (x for index in E.positions(e) for x in index.expressions())
            for child in (*e.children(), *inside):
                found |= self.dependencies(child)
            self.depends[e] = known = frozenset(found)
        return known


def _count(e: Expr, uses: dict[Expr, int]) -> None:
    """Counts each distinct value once per distinct place that needs it."""
    seen = uses.get(e, 0)
    uses[e] = seen + 1
    if not seen:
        for child in e.children():
            _count(child, uses)
