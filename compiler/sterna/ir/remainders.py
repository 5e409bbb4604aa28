"""Quotients and remainders that belong together: d (v // d) + v mod d is v.

Axes that were fused are taken apart by such pairs; where what they index is dense, the position that was fused is left.
"""

from __future__ import annotations

from sterna.ir.integer import Int, Mod


def rejoined(value: Int) -> Int:
    """The same integer with fewer quotients and remainders, where some belong together."""
    for monomial, coefficient in value.terms.items():
        atom = monomial[0]
        if len(monomial) != 1 or not isinstance(atom, Mod):
            continue
        inner, divisor = atom.value, atom.divisor
        apart = Int({monomial: coefficient}, 0) + inner // divisor * (coefficient * divisor)
        joined = value - apart + inner * coefficient
        if len(joined.terms) < len(value.terms):
            return rejoined(joined)
    return value
