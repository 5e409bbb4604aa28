"""Positions that differ by what a symbol leaves divided by a number: the slots of a ring, which iterations take in turn
(`loops.pipelines`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sterna.ir.integer import Atom, Int, Mod, Symbol, of

#: Of more slots nothing is told apart.
MOST_SLOTS = 8


def turns_of(positions: Iterable[Int]) -> list[tuple[Symbol, int]]:
    """The symbols of which positions name remainders by a small number, with that number."""
    found: dict[tuple[Symbol, int], None] = {}
    for position in positions:
        for atom in _atoms(position):
            if isinstance(atom, Mod) and atom.divisor <= MOST_SLOTS and (symbol := _alone(atom.value)) is not None:
                found[symbol, atom.divisor] = None
    return [*found]


def turns(symbol: Symbol, slots: int) -> Iterator[Mapping[Atom, Int]]:
    """What the symbol is for every remainder."""
    rounds = of(Symbol(f"{symbol.name}_round", 0, None))
    for n in range(slots):
        yield {symbol: rounds * slots + n}


def _alone(value: Int) -> Symbol | None:
    """The symbol of a number that is one, or more by a constant."""
    (symbol, *others) = value.symbols() or (None,)
    plain = isinstance(symbol, Symbol) and not others and value - value.const == of(symbol)
    return symbol if plain else None


def _atoms(position: Int) -> Iterator[Atom]:
    for monomial in position.terms:
        yield from monomial
