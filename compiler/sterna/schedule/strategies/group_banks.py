"""Where operands lie in memory that threads share, so that what they read or store at once is in different banks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod

from sterna.ir import dtypes
from sterna.ir.integer import Int
from sterna.ir.memory import BANKS
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E

#: Bytes of a word of a bank, and of what a thread stores at once at most.
WORD, RUN = 4, 16
#: Threads that access memory together.
SUBGROUP = 32


def in_banks(
    s: Schedule,
    local: str,
    reader: str,
    depth: str,
    tiles: Mapping[str, int],
    threads: Mapping[str, tuple[int, int]],
    word: int = 1,
) -> list[str] | None:
    """Stores the copy of an operand with the terms of a sum outermost where threads that read one term of several rows
    would find them in one bank otherwise. Returns the copy's axes in the order in which the operand lies in memory;
    None where they wait in either order.

    Args:
        depth: the axis of the reader's terms; tiles: positions along the reader's axes that the copy is read at.
        threads: along the reader's axes, how many, and positions from one to the next; those along the last axis are
            side by side.
        word: terms that are read at once, which stay neighbours: the last two of the axes that are returned are words
            and those in them, where the copy lies in another order.
    """
    order, size = [a.name for a in s.stages[local].tensor.axes], word * dtypes.size(s.stages[local].tensor.dtype)
    axes = {a.name: a for a in s.stages[reader].axes}
    (load,) = (each for each in E.loads(s.stages[reader].body) if each.tensor.name == local)
    if load.indices[-1].coefficient(axes[depth]) != 1 or len(order) < 2:
        return order

    def reached(index: Int, positions: Mapping[str, int]) -> int:
        return sum((index.coefficient(axes[name]) or 0) * n for name, n in positions.items())

    last = {name: n - 1 for name, n in tiles.items()}
    *shape, terms = (1 + reached(index, last) for index in load.indices)
    terms = -(-terms // word)
    read = [[reached(index, at) for index in load.indices[:-1]] for at in _subgroup(threads)]
    rows = [_number(each, shape) for each in read]
    if not waiting((row * terms for row in rows), size):
        return order
    if waiting(rows, size):
        return None
    if word > 1:
        order[-1:] = s.fold(local, len(shape), word)
    s.permute(local, len(shape), *range(len(shape)), *range(len(shape) + 1, len(order)))
    if word > 1:
        behind = _behind_words(prod(shape), terms)
    elif terms < SUBGROUP or not (extent := axes[depth].extent).is_const or int(extent) % 2 == 0:
        behind = _behind(prod(shape), size)
    else:
        # Threads side by side store terms of one row, each in a plane of its own, and in the end what is left of rows.
        patterns = (terms, int(extent) % terms or terms)
        behind = min(range(BANKS), key=lambda n: sum(_stored(prod(shape) + n, each) for each in patterns))
    if behind:
        s.pad_rows(local, word * behind, len(order) - 1)
    return order


def _behind(elements: int, size: int) -> int:
    """How many elements have to be left free behind planes of so many, so that threads which have some neighbours of
    each store them at once: words of planes side by side are 4 banks apart then."""
    return -(elements - RUN // size) % (2 * RUN // size)


def _behind_words(rows: int, words: int) -> int:
    """The same for planes of words, where each thread stores one of the words of a row."""
    return min(range(BANKS), key=lambda behind: _stored(rows + behind, words))


def _stored(plane: int, words: int) -> int:
    """Turns that threads wait which store rows of so many words side by side, each word in a plane of its own."""
    return waiting((n % words * plane + n // words for n in range(SUBGROUP)), WORD)


def between_runs(length: int, run: int, dtype: str) -> int:
    """How many elements to leave free behind rows of which each thread stores a run, longer than one access, so that
    threads side by side have the parts that they store at once in different banks."""
    size = dtypes.size(dtype)
    part, rows = RUN // size, max(1, length // run)
    if run <= part:
        return 0

    def turns(padding: int) -> int:
        begins = (n // rows * (length + padding) + n % rows * run for n in range(BANKS * WORD // RUN))
        return waiting([first + n for first in begins for n in range(part)], size)

    return min((0, part, 2 * part), key=turns)


def waiting(elements: Iterable[int], size: int) -> int:
    """Turns that some elements of so many bytes, wanted at once, take beyond the first as their words are in one
    bank."""
    words = {element * size // WORD + n for element in elements for n in range(max(1, size // WORD))}
    return max(Counter(word % BANKS for word in words).values()) - 1


def _subgroup(threads: Mapping[str, tuple[int, int]]) -> list[dict[str, int]]:
    """The positions, by axis, of threads that access memory together."""
    found = list[dict[str, int]]()
    for number in range(min(SUBGROUP, prod(many for many, _ in threads.values()))):
        at, rest = dict[str, int](), number
        for axis, (many, apart) in reversed([*threads.items()]):
            rest, digit = divmod(rest, many)
            at[axis] = digit * apart
        found.append(at)
    return found


def _number(position: Sequence[int], shape: Sequence[int]) -> int:
    """The number of a position, the last dimension's counted fastest."""
    number = 0
    for n, size in zip(position, shape, strict=True):
        number = number * size + n
    return number
