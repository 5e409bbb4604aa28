"""Vectors of the loop program in a language whose values are scalars: neighbours in memory are read and assigned
at once, by way of variables of the language's own vectors; everything else is done lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sterna.codegen.dialect import Dialect
from sterna.ir.integer import Int
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr


class WideAccesses:
    """The statements for them in one kernel.

    Args:
        position: the text of a position; lane: of one lane of a value; buffer: a buffer by its name in the language.
    """

    def __init__(
        self,
        dialect: Dialect,
        position: Callable[[Int], str],
        lane: Callable[[Expr, int], str],
        buffer: Callable[[P.Buffer], P.Buffer],
    ):
        self.d, self.position, self.lane, self.buffer = dialect, position, lane, buffer
        #: What the loads of the statement that is written have taken: elements of an access, and variables.
        self.taken: dict[E.Load, tuple[int, list[str]]] = {}
        self.variables = 0

    def taking(self, value: Expr) -> Iterator[str]:
        """The statements before one that reads a value."""
        self.taken = {}
        if self.d.vectors:
            return
        for e in E.loads(value):
            dtype = _stored(e.dtype)
            many = self.d.widths.at_once(e)
            if many == 1 or e in self.taken:
                continue
            assert isinstance(e.tensor, P.Buffer)
            names = []
            for first in range(0, e.lanes, many):
                names.append(self._variable())
                place = self.d.wide_place(self.buffer(e.tensor), dtype, self.position(e.indices[0] + first), many)
                yield self.d.constant(self.d.wide_type(dtype, many), names[-1], place)
            self.taken[e] = many, names

    def element(self, e: E.Load, lane: int) -> str:
        """A lane of what has been taken; empty where nothing has."""
        if e not in self.taken:
            return ""
        many, names = self.taken[e]
        text = self.d.wide_lane(names[lane // many], lane % many)
        return self.d.truth(text, 1) if e.dtype == "bool" else text

    def giving(self, s: P.Store) -> list[str]:
        """The statements that store neighbours; none where they are stored one by one."""
        dtype, lines = _stored(s.buffer.dtype), list[str]()
        many = self.d.widths.at_once(s)
        for first in range(0, s.value.lanes, many) if many > 1 else ():
            name = self._variable()
            lines.append(self.d.variable(self.d.wide_type(dtype, many), name))
            for n in range(many):
                value = self.lane(s.value, first + n)
                value = self.d.byte(value, 1) if s.buffer.dtype == "bool" else value
                lines.append(f"{self.d.wide_lane(name, n)} = {value};")
            place = self.d.wide_place(self.buffer(s.buffer), dtype, self.position(s.index + first), many)
            lines.append(f"{place} = {name};")
        return lines

    def _variable(self) -> str:
        self.variables += 1
        return f"wide{self.variables}"


def _stored(dtype: str) -> str:
    """The type of an element in memory."""
    return "uint8" if dtype == "bool" else dtype
