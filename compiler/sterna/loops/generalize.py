"""One loop program for several that differ only in numbers: these become arguments, which a call brings as it brings
the sizes of open dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sterna.ir import dtypes
from sterna.ir.integer import Int, Symbol, as_int, of
from sterna.loops.arguments import Numbers, choose_arguments
from sterna.loops.program import ARGUMENTS, Function
from sterna.loops.together import DiffersError, together


@dataclass(frozen=True)
class General:
    """A program for several.

    Args:
        function: its `dims` are the arguments.
        arguments: for each of the several, the numbers in the order of `dims`.
    """

    function: Function
    arguments: tuple[tuple[int, ...], ...]


def are_alike(*functions: Function) -> bool:
    """Whether programs differ only in numbers."""
    try:
        together(functions, lambda numbers: as_int(numbers[0]))
    except DiffersError:
        return False
    return True


def generalize(functions: Sequence[Function]) -> General:
    """The program for all.

    Raises:
        DiffersError: they differ in more than numbers.
    """
    seen: set[Numbers] = set()

    def note(numbers: Numbers) -> Int:
        seen.add(numbers)
        return as_int(numbers[0])

    together(functions, note)
    chosen = choose_arguments(seen)
    symbols = [Symbol("size", min(each), max(each)) for each in chosen.given]

    def make(numbers: Numbers) -> Int:
        found = chosen.sums[numbers]
        return sum((of(symbols[n]) * factor for n, factor in found.terms), as_int(found.constant))

    most = max((max(n, -n - 1) for each in chosen.given for n in each), default=0)
    kind = next(name for name in ARGUMENTS if most <= dtypes.limits(name)[1])
    dims = tuple((symbol, n) for n, symbol in enumerate(symbols))
    function = replace(together(functions, make), dims=dims, dims_type=kind)
    arguments = tuple(tuple(each[n] for each in chosen.given) for n in range(len(functions)))
    return General(function, arguments)
