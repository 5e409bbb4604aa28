"""Division of symbolic integers: exact, and rounded up."""

from __future__ import annotations

from sterna.ir.integer import ONE, ZERO, Int, IntLike, Monomial, as_int


def divide_exactly(a: Int, b: Int) -> Int | None:
    """a / b where that is an integer for all values of the symbols, found term by term; None if it cannot be told."""
    if a == b:
        return ONE
    if b.is_const:
        return a // b.const if b.const > 0 and a % b.const == ZERO else None
    if len(b.terms) != 1 or b.const or a.const:
        return None
    ((factors, scale),) = b.terms.items()
    terms: dict[Monomial, int] = {}
    for monomial, coefficient in a.terms.items():
        left = list(monomial)
        for factor in factors:
            if factor not in left:
                return None
            left.remove(factor)
        if coefficient % scale:
            return None
        terms[tuple(left)] = coefficient // scale
    constant = terms.pop((), 0)
    return Int(terms, constant)


def ceil_div(a: IntLike, divisor: int) -> Int:
    """a / divisor, rounded up."""
    return (as_int(a) + (divisor - 1)) // divisor
