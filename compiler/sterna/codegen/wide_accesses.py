"""Vectors of the loop program in a language whose values are scalars: neighbours in memory are read and assigned
at once, by way of variables of the language's own vectors; everything else is done lane by lane. Bytes that dot
products of words take are numbers of 32 bits from the beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sterna.codegen.dialect import Dialect
from sterna.intrinsics.words import BYTES
from sterna.ir.integer import Int
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr

#: The type of a word of bytes.
WORD = "uint32"


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
        #: The same of those that are taken as words.
        self.words: dict[E.Load, tuple[int, list[str]]] = {}
        #: Variables that are words.
        self.of_words: set[P.Variable] = set()
        self.variables = 0

    def begin(self, body: P.Stmt) -> None:
        """Notes the variables of a kernel that are words."""
        values = (value for s in P.walk(body) if (value := s.computes()) is not None)
        found = (operand for value in values for operand in _words_of(value))
        self.of_words = {e.variable for e in found if isinstance(e, P.Read)}

    def taking(self, value: Expr, words: bool = False) -> Iterator[str]:
        """The statements before one that reads a value.

        Args:
            words: whether the value is of words.
        """
        self.taken, self.words = {}, {}
        if self.d.vectors:
            return
        of_words = {value} if words else {*_words_of(value)}
        for e in E.loads(value):
            many = self.d.widths.at_once(e)
            if many == 1 or e in self.taken or e in self.words:
                continue
            assert isinstance(e.tensor, P.Buffer)
            each = BYTES if e in of_words and many % BYTES == 0 else 1
            dtype = WORD if each > 1 else _stored(e.dtype)
            names = []
            for first in range(0, e.lanes, many):
                names.append(self._variable())
                position = self.position(e.indices[0] + first)
                place = self.d.wide_place(self.buffer(e.tensor), dtype, position, many // each)
                type_ = self.d.type(dtype) if many == each else self.d.wide_type(dtype, many // each)
                yield self.d.constant(type_, names[-1], place)
            (self.words if each > 1 else self.taken)[e] = many, names

    def word(self, e: Expr, first: int) -> str:
        """Four bytes of a value from a lane on, as a number of 32 bits."""
        if isinstance(e, P.Broadcast) and e.a.lanes % BYTES == 0:
            return self.word(e.a, first % e.a.lanes)
        if isinstance(e, P.Read) and e.variable in self.of_words:
            return self._word_of(e.variable, first)
        if isinstance(e, E.Load) and e in self.words:
            many, names = self.words[e]
            name = names[first // many]
            return self.d.wide_lane(name, first % many // BYTES, WORD, many // BYTES) if many > BYTES else name
        total = ""
        for n in range(BYTES):
            byte = self.d.cast("uint8", WORD, self.d.cast(e.dtype, "uint8", self.lane(e, first + n), 1, 0), 1, 0)
            shifted = self.d.binary("shift_left", WORD, byte, self.d.const(8 * n, WORD), 1) if n else byte
            total = self.d.binary("or", WORD, total, shifted, 1) if total else shifted
        return total

    def parts(self, v: P.Variable, value: Expr) -> list[tuple[str, str]]:
        """What becomes of a variable of words: (name, value) of each."""
        return [(self._word_of(v, first), self.word(value, first)) for first in range(0, v.lanes, BYTES)]

    def byte(self, v: P.Variable, lane: int) -> str:
        """A byte of a variable of words."""
        count = self.d.const(lane % BYTES * 8, WORD)
        return self.d.cast(WORD, v.dtype, self.d.binary("shift_right", WORD, self._word_of(v, lane), count, 1), 1, 0)

    def _word_of(self, v: P.Variable, lane: int) -> str:
        return f"{v.name}_w{lane // BYTES}"

    def element(self, e: E.Load, lane: int) -> str:
        """A lane of what has been taken; empty where nothing has."""
        if e not in self.taken:
            return ""
        many, names = self.taken[e]
        text = self.d.wide_lane(names[lane // many], lane % many, _stored(e.dtype), many)
        return self.d.truth(text, 1) if e.dtype == "bool" else text

    def giving(self, s: P.Store) -> list[str]:
        """The statements that store neighbours; none where they are stored one by one."""
        dtype, lines = _stored(s.buffer.dtype), list[str]()
        many = self.d.widths.at_once(s)
        same = self.taken.get(s.value, (0, []))[1] if isinstance(s.value, E.Load) else []
        whole = many > 1 and len(same) * many == s.value.lanes and _stored(s.value.dtype) == dtype
        for first in range(0, s.value.lanes, many) if many > 1 else ():
            if whole:
                index = self.position(s.index + first)
                lines.append(self.d.wide_store(self.buffer(s.buffer), dtype, index, many, same[first // many]))
                continue
            name = self._variable()
            values = [self.lane(s.value, first + n) for n in range(many)]
            values = [self.d.byte(value, 1) for value in values] if s.buffer.dtype == "bool" else values
            lines += self.d.wide_value(name, dtype, values)
            lines.append(self.d.wide_store(self.buffer(s.buffer), dtype, self.position(s.index + first), many, name))
        return lines

    def _variable(self) -> str:
        self.variables += 1
        return f"wide{self.variables}"


def _words_of(value: Expr) -> Iterator[Expr]:
    """What words of dot products in a value are parts of."""
    for e in E.walk(value):
        if isinstance(e, P.Apply) and e.intrinsic.of_words:
            for operand in e.operands[1:]:
                yield operand.a if isinstance(operand, P.Broadcast) else operand


def _stored(dtype: str) -> str:
    """The type of an element in memory."""
    return "uint8" if dtype == "bool" else dtype
