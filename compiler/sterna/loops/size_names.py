"""Names for sizes, for proofs: of dimensions that are not 0 here, and of what stands in products.

An integer is kept as a sum of products, so that a position i * (n // 4 - 1) is i * (n // 4) - i: two terms that
interval arithmetic and sums of facts see apart. With a name for n // 4 - 1 it is one. What convolutions and pools leave
of an open length is such a size.

A size has one name always, since proofs are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from sterna.ir.integer import Atom, FloorDiv, Int, Symbol, of


@lru_cache(maxsize=1 << 8)
def of_some(dimension: Symbol) -> Symbol:
    """A dimension that is at least 1."""
    return Symbol(dimension.name, 1, dimension.hi)


def shifted_sizes(values: Iterable[Int]) -> dict[Atom, Int]:
    """Quotients by the names of what stands in their products: they, and a number more or less. A name has the bounds
    of that; what a quotient is made of is forgotten."""
    found: dict[Atom, Int] = {}
    for value in values:
        for atom, shift in _shifts(value):
            if atom not in found:
                found[atom] = of(_name(atom, shift)) - shift
    return found


def _shifts(value: Int) -> Iterator[tuple[FloorDiv, int]]:
    """Quotients, and what is added to each where it is a factor: in a * b * q + c * a * b it is c."""
    for monomial, coefficient in value.terms.items():
        for n, atom in enumerate(monomial):
            rest = monomial[:n] + monomial[n + 1 :]
            beside = value.terms.get(rest, 0) if rest else 0
            if isinstance(atom, FloorDiv) and beside and not beside % coefficient:
                yield atom, beside // coefficient


@lru_cache(maxsize=1 << 8)
def _name(atom: FloorDiv, shift: int) -> Symbol:
    lo, hi = (None if end is None else end + shift for end in (atom.lo, atom.hi))
    return Symbol("size", lo, hi)
