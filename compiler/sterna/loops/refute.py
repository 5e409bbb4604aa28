"""Refutes by numbers that an integer is never negative, so that no proof is looked for where there is none.

A proof holds for every choice of the symbols within their bounds. Most of what a proof tries is wrong at the least or
the greatest sizes already, and to compute that takes a fraction of the time that the try does. What is not refuted may
still be wrong: nothing is ever proved here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sterna.ir.extremum import Extremum
from sterna.ir.integer import Atom, FloorDiv, Int, Mod, Symbol

#: For each choice, which of its numbers each symbol has: its least, its greatest, one beside them, one between.
_CHOICES = ((0,) * 8, (1,) * 8, (0, 1) * 4, (1, 0) * 4, (2, 3, 4) * 3, (3, 4, 0, 2) * 2, (4, 1, 1, 0) * 2)
#: How far a symbol without a greatest value is tried.
_FAR = 1000


def is_refuted(value: Int) -> bool:
    """Whether some choice of its symbols makes an integer negative."""
    symbols: dict[Symbol, None] = {}
    if not _collect(value, symbols):
        return False
    numbers = {s: numbers_of(s) for s in symbols}
    return None not in numbers.values() and any(at_point(value, point) < 0 for point in _points(numbers))


class Box:
    """Some choices of symbols within their bounds, and what integers are there.

    Args:
        parts: integers; their symbols are those of the choices.
    """

    def __init__(self, parts: Iterable[Int]):
        symbols: dict[Symbol, None] = {}
        known = all(_collect(part, symbols) for part in parts)
        numbers = {s: numbers_of(s) for s in symbols}
        self._points = [] if not known or None in numbers.values() else [*_points(numbers)]
        self._values: dict[Int, list[int]] = {}

    def refutes(self, value: Int, times: int, less: Int, weight: Int) -> bool:
        """Whether value * times - less * weight is negative somewhere."""
        rows = zip(self._at(value), self._at(less), self._at(weight), strict=True)
        return any(v * times < n * w for v, n, w in rows)

    def _at(self, value: Int) -> list[int]:
        if (found := self._values.get(value)) is None:
            self._values[value] = found = [at_point(value, point) for point in self._points]
        return found


def _points(numbers: Mapping[Symbol, Sequence[int] | None]) -> Iterator[dict[Symbol, int]]:
    """The choices of symbols that have numbers."""
    for choice in _CHOICES:
        yield {s: each[choice[n % 8]] for n, (s, each) in enumerate(numbers.items()) if each is not None}


def numbers_of(symbol: Symbol) -> tuple[int, ...] | None:
    """Numbers that a symbol may be; None if there is none."""
    lo, hi = symbol.lo, symbol.hi
    if lo is None:
        lo = -_FAR if hi is None else hi - _FAR
    hi = lo + _FAR if hi is None else hi
    return None if hi < lo else (lo, hi, min(lo + 1, hi), max(hi - 1, lo), (lo + hi) // 2)


def at_point(value: Int, point: Mapping[Symbol, int]) -> int:
    """An integer for numbers in the place of its symbols."""
    total = value.const
    for monomial, coefficient in value.terms.items():
        product = coefficient
        for atom in monomial:
            product *= point[atom] if isinstance(atom, Symbol) else _atom_at(atom, point)
        total += product
    return total


def _atom_at(atom: Atom, point: Mapping[Symbol, int]) -> int:
    if isinstance(atom, FloorDiv):
        return at_point(atom.value, point) // atom.divisor
    if isinstance(atom, Mod):
        return at_point(atom.value, point) % atom.divisor
    assert isinstance(atom, Extremum)
    choose = min if atom.kind == "min" else max
    return choose(at_point(operand, point) for operand in atom.operands)


def _collect(value: Int, found: dict[Symbol, None]) -> bool:
    """Adds the symbols of an integer; False if anything else decides it."""
    for monomial in value.terms:
        for atom in monomial:
            if isinstance(atom, Symbol):
                found[atom] = None
            elif not isinstance(atom, (FloorDiv, Mod, Extremum)) or not all(_collect(p, found) for p in atom.parts()):
                return False
    return True
