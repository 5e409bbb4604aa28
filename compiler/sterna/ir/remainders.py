"""Quotients and remainders that belong together: d (v // d) + v mod d is v.

Axes that were fused are taken apart by such pairs; where what they index is dense, the position that was fused is left.
"""

from __future__ import annotations

from sterna.ir.integer import FloorDiv, Int, Mod, as_int, of


def rejoined(value: Int) -> Int:
    """The same integer with fewer quotients and remainders, where some belong together."""
    for monomial, coefficient in value.terms.items():
        for n, atom in enumerate(monomial):
            if not isinstance(atom, Mod):
                continue
            inner, divisor = atom.value, atom.divisor
            factor = as_int(coefficient)
            for other in monomial[:n] + monomial[n + 1 :]:
                factor = factor * of(other)
            joined = value - Int({monomial: coefficient}, 0) + (inner - inner // divisor * divisor) * factor
            if len(joined.terms) < len(value.terms):
                return rejoined(joined)
    return value


def remainders(value: Int) -> Int:
    """The same integer with v mod d in the place of v - d (v // d), whose bounds do not tell that it is below d."""
    for monomial, coefficient in value.terms.items():
        if len(monomial) == 1 and isinstance(atom := monomial[0], FloorDiv) and coefficient % atom.divisor == 0:
            times = -coefficient // atom.divisor
            rest = atom.value % atom.divisor
            joined = value - Int({monomial: coefficient}, 0) - atom.value * times + rest * times
            if len(joined.terms) < len(value.terms):
                return remainders(joined)
    return value


def between(value: Int) -> Int:
    """The same integer with (b mod d + a - b) // d in the place of a // d - b // d where a - b has bounds: what lies
    between two quotients has bounds then, too."""
    quotients = [(m[0], c) for m, c in value.terms.items() if len(m) == 1 and isinstance(m[0], FloorDiv)]
    for a, times in quotients:
        for b, other in quotients:
            if times <= 0 or other != -times or a.divisor % b.divisor:
                continue
            # A quotient whose dividend and divisor had a factor in common has lost it.
            begin = b.value * (a.divisor // b.divisor)
            if None not in (a.value - begin).bounds():
                step = (begin % a.divisor + a.value - begin) // a.divisor
                return between(value + (step - of(a) + of(b)) * times)
    return value
