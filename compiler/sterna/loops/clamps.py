"""Positions that are clamped to a dimension, max(min(p, n - 1), 0), as where tiles reach beyond a tensor, or by a
remainder, as that of a channel where taps and channels are counted through."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sterna.ir.extremum import Extremum
from sterna.ir.integer import ZERO, Atom, Int, Mod, Symbol, as_int, of


def without_clamps(value: Int, names: Mapping[Atom, Int], varying: Collection[Symbol]) -> tuple[Int, dict[Symbol, Int]]:
    """An integer with such positions as variables and names in full, and what each of these is at most, by sizes alone:
    wherever p lies, which most often needs to be known of none of them. As it is where it has remainders alone.

    Args:
        varying: symbols that are no sizes.
    """
    found: dict[Symbol, Int] = {}
    for _ in range(2):  # a name is known not to be negative, what it stands for may not be
        ends = dict[Atom, Int]()
        for atom in value.atoms():
            if isinstance(atom, Extremum) and (end := _greatest(atom, varying)) is not None:
                ends[atom] = end
        if ends or found:
            ends |= {atom: as_int(atom.divisor - 1) for atom in value.atoms() if isinstance(atom, Mod)}
        variables: dict[Atom, Symbol] = {a: Symbol("clamped", 0, end.bounds()[1]) for a, end in ends.items()}
        found |= {variables[a]: end for a, end in ends.items()}
        value = value.substitute({a: of(s) for a, s in variables.items()}).substitute(names)
    return value, found


def _greatest(atom: Extremum, varying: Collection[Symbol]) -> Int | None:
    """What a position is at most that is kept within a dimension; None where it is not such a one."""
    least: Atom = atom
    if atom.kind == "max" and atom.operands[1] == ZERO and len(atom.operands[0].terms) == 1:
        (((least, *others), times),) = atom.operands[0].terms.items()
        if others or times != 1 or atom.operands[0].const:
            return None
    if not isinstance(least, Extremum) or least.kind != "min" or atom.lo is None or atom.lo < 0:
        return None
    for end in least.operands:
        lowest = end.bounds()[0]
        if lowest is not None and lowest >= 0 and not end.symbols() & {*varying} and not end.expressions():
            return end
    return None
