"""Which numbers a program for several is given, and how it computes the others from them.

Programs that differ in sizes differ in many numbers, but these are few sizes in many guises: with a row of R elements
and C channels the offsets of the taps of a window are C, 2 C, R, R + C and so on, in all of the programs. So of all
numbers, each as a tuple with one for every program, a few are chosen from which the others follow by shifts and sums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import gcd

Numbers = tuple[int, ...]
#: Factors that cost a shift and at most an addition; those of a sum of two.
_FACTORS = frozenset(sign * odd << n for sign in (1, -1) for odd in (1, 3) for n in range(13))
_OF_SUMS = frozenset(sign << n for sign in (1, -1) for n in range(13))
#: What addresses are a multiple of beyond which nothing asks.
_UNIT = 8
#: What no sum, added up in any order, reaches: processors of 32 bits compute it.
_MOST = 1 << 31


@dataclass(frozen=True)
class Sum:
    """A constant, and arguments by their number, each times a factor."""

    constant: int
    terms: tuple[tuple[int, int], ...]

    def fits(self, arguments: Sequence[Numbers]) -> bool:
        """Whether it overflows in no program."""
        parts = (max(abs(factor * number) for number in arguments[n]) for n, factor in self.terms)
        return abs(self.constant) + sum(parts) < _MOST

    def of(self, arguments: Sequence[Numbers]) -> Numbers:
        """What it is in each program."""
        width = len(arguments[0])
        return tuple(self.constant + sum(factor * arguments[n][i] for n, factor in self.terms) for i in range(width))


@dataclass(frozen=True)
class Arguments:
    """The numbers that are given, and how the others follow."""

    given: tuple[Numbers, ...]
    sums: dict[Numbers, Sum]


def choose_arguments(numbers: Collection[Numbers]) -> Arguments:
    """Arguments for numbers of which not all programs have the same; small ones are given, large ones follow."""
    given: list[Numbers] = []
    sums: dict[Numbers, Sum] = {}
    for each in sorted(set(numbers), key=lambda v: (max(map(abs, v)), v)):
        found = next((way for way in _sums(each, given) if way.fits(given)), None)
        if found is None:
            unit = gcd(_UNIT, *each)
            given.append(tuple(n // unit for n in each))
            found = Sum(0, ((len(given) - 1, unit),))
        sums[each] = found
    return Arguments(tuple(given), sums)


def _sums(wanted: Numbers, given: Sequence[Numbers]) -> Iterator[Sum]:
    """The ways to make numbers of those that are given, cheaper ones first."""
    for n, one in enumerate(given):
        if (found := _multiple(wanted, one, _FACTORS)) is not None:
            yield Sum(found[1], ((n, found[0]),))
    for (n, one), (m, other) in combinations(enumerate(given), 2):
        for factor in _OF_SUMS:
            rest = tuple(w - factor * a for w, a in zip(wanted, one, strict=True))
            if (found := _multiple(rest, other, _OF_SUMS)) is not None:
                yield Sum(found[1], ((n, factor), (m, found[0])))


def _multiple(wanted: Numbers, one: Numbers, factors: Collection[int]) -> tuple[int, int] | None:
    """A factor and a constant by which `one` becomes what is wanted."""
    at = next(n for n, number in enumerate(one) if number != one[0])
    factor, rest = divmod(wanted[at] - wanted[0], one[at] - one[0])
    constant = wanted[0] - factor * one[0]
    if rest or factor not in factors:
        return None
    same = all(w == factor * a + constant for w, a in zip(wanted, one, strict=True))
    return (factor, constant) if same else None
