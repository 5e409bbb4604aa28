"""Division of symbolic integers: exact, and rounded up."""

from __future__ import annotations

from sterna.ir.integer import ONE, ZERO, Int, IntLike, Monomial, as_int


def divide_exactly(a: Int, b: Int) -> Int | None:
    """a / b where that is an integer for all values of the symbols, found term by term, the highest degrees first; None
    if it cannot be told."""
    if a == b:
        return ONE
    if b.is_const:
        return a // b.const if b.const > 0 and a % b.const == ZERO else None
    places = {atom: n for n, atom in enumerate(dict.fromkeys(x for n in (b, a) for m in n.terms for x in m))}

    def order(monomial: Monomial) -> tuple[int, ...]:
        """By degree, then by the powers of each atom: products are in the order of their factors."""
        return (len(monomial), *(monomial.count(atom) for atom in places))

    first = max(b.terms, key=order)
    found = ZERO
    while a != ZERO:
        leading = max(a.terms, key=order, default=())
        left, coefficient = list(leading), a.terms.get(leading, a.const)
        for factor in first:
            if factor not in left:
                return None
            left.remove(factor)
        if coefficient % b.terms[first]:
            return None
        quotient = (
            Int({tuple(left): coefficient // b.terms[first]}, 0) if left else as_int(coefficient // b.terms[first])
        )
        found, a = found + quotient, a - quotient * b
    return found


def ceil_div(a: IntLike, divisor: int) -> Int:
    """a / divisor, rounded up."""
    return (as_int(a) + (divisor - 1)) // divisor
