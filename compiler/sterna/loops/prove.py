"""Proves that a position is at least zero for all sizes of the model's dimensions.

Interval arithmetic settles nearly everything when all sizes are numbers. Where dimensions are open it does not see that
a loop which ends at n - 1 stays within a row of n - 1; so every loop variable is replaced by the end of its range that
makes the position least, as an expression, until only dimensions are left, and what they have in common cancels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sterna.ir.integer import Atom, FloorDiv, Int, Monomial, Symbol, as_int, of


@dataclass(frozen=True)
class Range:
    """A variable's least and greatest value."""

    least: Int
    greatest: Int


def at_least_zero(value: Int, ranges: Mapping[Symbol, Range]) -> bool:
    """Whether value >= 0 can be shown.

    Args:
        ranges: of loop variables, outer first; a range may depend on variables before it and on dimensions.
    """
    lo = value.bounds()[0]
    if lo is not None and lo >= 0:
        return True
    for symbol in reversed(list(ranges)):
        factor = _factor(value, symbol)
        if factor is None:
            return False
        if factor == 0:
            continue
        if _least_of_dimensions(factor):
            end = ranges[symbol].least
        elif _least_of_dimensions(-factor):
            end = ranges[symbol].greatest
        else:
            return False
        value = value.substitute({symbol: end})
    return _least_of_dimensions(value)


def _least_of_dimensions(value: Int) -> bool:
    """Whether a polynomial over dimensions and floor divisions of them is never negative."""
    for _ in range(8):
        if _shifted(value):
            return True
        divisions = [a for m in value.terms for a in m if isinstance(a, FloorDiv)]
        if not divisions:
            return False
        # Outer divisions first: what is inside them may then cancel.
        division = max(divisions, key=lambda d: sum(isinstance(a, FloorDiv) for a in d.value.atoms()))
        # d * (x // d) = x - r with 0 <= r < d; the sign of the value is that of d times the value.
        rest = of(Symbol("r", 0, division.divisor - 1))
        total = as_int(value.const * division.divisor)
        for monomial, coefficient in value.terms.items():
            left: list[Atom] = list(monomial)
            term = as_int(coefficient * division.divisor)
            if division in left:
                left.remove(division)
                term = (division.value - rest) * coefficient
            for atom in left:
                term = term * Int({(atom,): 1}, 0)
            total = total + term
        value = total
    return False


def _shifted(value: Int) -> bool:
    """Interval arithmetic after every factor is measured from its least value, so that products of what is left over
    are not negative."""
    shifts: dict[Atom, Int] = {}
    for monomial in value.terms:
        for atom in monomial:
            if atom.lo:
                shifts[atom] = of(Symbol("s", 0, None if atom.hi is None else atom.hi - atom.lo)) + atom.lo
    lo = (value.substitute(shifts) if shifts else value).bounds()[0]
    return lo is not None and lo >= 0


def _factor(value: Int, symbol: Symbol) -> Int | None:
    """q with value = q symbol + rest; None if the value is not linear in the symbol."""
    terms: dict[Monomial, int] = {}
    constant = 0
    for monomial, coefficient in value.terms.items():
        if any(symbol in part.symbols() for atom in monomial for part in atom.parts()):
            return None
        count = monomial.count(symbol)
        if count > 1:
            return None
        if count:
            left = list(monomial)
            left.remove(symbol)
            if left:
                terms[tuple(left)] = coefficient
            else:
                constant += coefficient
    return Int(terms, constant)
