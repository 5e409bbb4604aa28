"""Whether an integer is a sum of what is known not to be negative.

    value = f1 w1 + f2 w2 + ... + c,    wi, c >= 0

where the fi are facts (integers that are not negative) and products of facts with factors that are not negative. Every
product of atoms counts as an unknown of its own; the weights are then a linear program, whose first phase is solved in
exact fractions (Handelman, Representing polynomials by positive linear functions, 1988, gives the products; Bland's
rule ends the simplex method).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from sterna.ir.integer import Atom, FloorDiv, Int, Monomial, of

_ROUNDS = 3  # of products that bring in further ones
_MOST_FACTS = 160


def is_combination(value: Int, facts: Iterable[Int]) -> bool:
    """Whether the value is a non-negative combination of the facts, the bounds of its atoms and the rests of its
    divisions."""
    return _feasible(value, _products(value, list(facts)))


def _products(value: Int, facts: Sequence[Int]) -> list[Int]:
    """Facts and products of them that share a monomial with the value, or with one another; of as many rounds as give
    no more than can be weighed."""
    found: dict[Int, None] = {}
    seen: set[Monomial] = set()
    known: dict[Atom, list[Int]] = {}
    fresh = list(value.terms)
    for _ in range(_ROUNDS):
        before = list(found)
        new: list[Int] = []
        for monomial in fresh:
            if monomial in seen:
                continue
            seen.add(monomial)
            new += [f for f in facts if monomial in f.terms]
            for atom in dict.fromkeys(monomial):
                rest = list(monomial)
                rest.remove(atom)
                if any(a.lo is None or a.lo < 0 for a in rest):
                    continue
                if atom not in known:
                    known[atom] = [*_facts(atom), *(f for f in facts if (atom,) in f.terms)]
                new += [_times(f, rest) for f in known[atom]]
        for f in new:
            if f.terms:
                found[f] = None
        if len(found) > _MOST_FACTS:
            return before
        fresh = [m for f in new for m in f.terms]
    return list(found)


def _facts(atom: Atom) -> list[Int]:
    """What is known of an atom by itself."""
    this, facts = of(atom), []
    if not this.terms:
        return []
    if atom.lo is not None:
        facts.append(this - atom.lo)
    if atom.hi is not None:
        facts.append(-this + atom.hi)
    if isinstance(atom, FloorDiv):
        rest = atom.value - this * atom.divisor
        facts += [rest, -rest + (atom.divisor - 1)]
    return facts


def _times(value: Int, atoms: Sequence[Atom]) -> Int:
    for atom in atoms:
        value = value * Int({(atom,): 1}, 0)
    return value


def _feasible(value: Int, columns: Sequence[Int]) -> bool:
    """Whether weights exist: phase one of the simplex method."""
    rows = list(dict.fromkeys(m for f in (value, *columns) for m in f.terms))
    # One equation per monomial, and one for the constants with a slack of its own.
    table = [[*(f.terms.get(m, 0) for f in columns), 0, value.terms.get(m, 0)] for m in rows]
    table.append([*(f.const for f in columns), 1, value.const])
    table = [[-x for x in row] if row[-1] < 0 else row for row in table]
    basis = [-1 - r for r in range(len(table))]  # negative: the artificial variable of a row
    table.append(list(map(sum, zip(*table, strict=True))))  # the sum of the artificial variables, which is to vanish
    scale = 1
    while table[-1][-1]:
        # What lessens that sum; the first such column, so that no basis comes back.
        enters = next((c for c in range(len(columns) + 1) if table[-1][c] > 0), None)
        if enters is None:
            return False
        ratios = [(Fraction(row[-1], row[enters]), b, r) for r, (row, b) in enumerate(zip(table, basis, strict=False))
                  if row[enters] > 0]  # fmt: skip
        leaves = min(ratios)[2]
        scale = _pivot(table, leaves, enters, scale)
        basis[leaves] = enters
    return True


def _pivot(table: list[list[int]], r: int, c: int, scale: int) -> int:
    """Exchanges two variables; all numbers are `scale` times what they stand for, and integers with the scale that is
    returned (Edmonds, Systems of distinct representatives and linear algebra, 1967)."""
    row = table[r]
    by = row[c]
    for other, line in enumerate(table):
        if other != r and (line[c] or by != scale):
            factor = line[c]
            table[other] = [(x * by - factor * y) // scale for x, y in zip(line, row, strict=True)]
    return by
