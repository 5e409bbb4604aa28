"""Which elements of a buffer positions can be, where some of their symbols are known and others are not."""

from __future__ import annotations

from collections.abc import Collection

from sterna.ir.integer import ZERO, Atom, Int


def part_of(index: Int, symbols: Collection[Atom]) -> Int | None:
    """The terms of a position that are made of these symbols only; None where they and others are multiplied."""
    kept = {}
    for monomial, coefficient in index.terms.items():
        own = [symbol in symbols for symbol in Int({monomial: 1}, 0).symbols()]
        if any(own):
            if not all(own):
                return None
            kept[monomial] = coefficient
    return Int(kept, 0) if kept else ZERO
