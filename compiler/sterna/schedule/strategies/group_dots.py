"""Products of bytes by dot products of words of four, in the tiles of `group_tiles`: the operands lie in shared memory so
that four neighbouring terms of a sum are a word.

Where terms are neighbours in memory, as the channels of an image are, rows are copied as they lie. Constants are packed
ahead of time, with zeros for the terms that a last word lacks; what else has its terms apart is packed by the threads
that copy it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sterna.intrinsics.words import BYTES, LANES, name_of
from sterna.ir.memory import Memory
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, size
from sterna.schedule.strategies.group_banks import in_banks
from sterna.schedule.strategies.group_neighbours import bring
from sterna.schedule.strategies.operands import Contraction
from sterna.te.axis import Axis
from sterna.te.expr import Load
from sterna.te.tensor import Kernel, Tensor

#: Terms of a sum whose operands are in shared memory at a time, and what others may be tried.
DEPTH, DEPTHS = 32, (16, 32, 64)
#: Terms of the innermost axis of a sum below which a word would be mostly empty.
FEW = 2
#: Sums of a thread whose operands on the right are one access, at most.
MOST_TOGETHER = max(LANES)


def dots_of(c: Contraction, kernel: Kernel, context: Context) -> str:
    """The target's intrinsic, of one lane, for a product of bytes; "" if there is none for it."""
    threads, depth = context.target.threads, c.inner[-1]
    if threads is None or not threads.dots or c.stage.dtype != "int32" or size(depth.extent) < FEW:
        return ""
    known = context.target.known_intrinsics
    found = next((n for n in threads.dots if known[n].operands == (c.left.dtype, c.right.dtype)), "")
    along = [_dimension(load, depth) for load in (c.left, c.right)]
    if not found or None in along or along[0] != len(c.left.indices) - 1:
        return ""
    # The terms that a last word lacks are zero in constants alone.
    plain = any(index == depth.var for index in c.right.indices) and c.right.tensor in kernel.params
    return found if plain or size(depth.extent) % BYTES == 0 else ""


def _dimension(load: Load, depth: Axis) -> int | None:
    """The dimension of an operand along which the terms of a sum lie, whose words begin with one of them."""
    moving = [d for d, index in enumerate(load.indices) if depth in index.symbols()]
    if len(moving) != 1:
        return None
    rest = load.indices[moving[0]] - depth.var
    whole = depth not in rest.symbols() and all(n % BYTES == 0 for n in (rest.const, *rest.terms.values()))
    return moving[0] if whole else None


def pack_words(s: Schedule, c: Contraction) -> Contraction:
    """Stores a constant on the right, ahead of time, so that its last dimension are the terms of a word, and the one
    before it columns."""
    right = c.right
    if not any(p is right.tensor for p in s.kernel.params):
        return c
    along, columns = _dimension(right, c.inner[-1]), right.indices.index(c.columns.var)
    assert along is not None
    others = [(d, "") for d in range(len(right.indices)) if d not in (along, columns)]
    s.pack(right.tensor.name, {along: BYTES}, [*others, (along, "o"), (columns, ""), (along, "i")])
    packed = s.packings[right.tensor.name]
    return replace(c, right=replace(right, tensor=packed.packed, indices=packed.index(right.indices)))


def multiply(s: Schedule, acc: str, around: list[str], terms: str, together: int, name: str) -> None:
    """Computes the sums of a thread word by word, so many columns at a time.

    Args:
        around: axes of parts of the sum; terms: the axis of those that are there at a time.
        name: of the intrinsic of one lane.
    """
    *rows, columns = (a.name for a in s.stages[acc].tensor.axes)
    words, word = s.split(acc, terms, BYTES)
    columns, lane = s.split(acc, columns, together)
    s.reorder(acc, *around, words, *rows, columns, lane, word)
    for axis in (*rows, columns):
        s.unroll(acc, axis)
    s.tensorize(acc, lane, word, name_of(name, together))


@dataclass(frozen=True)
class Reading:
    """How threads read operands from shared memory.

    Args:
        reader: the sums; part: its axis of parts that are there at a time; depth: the axis of their terms.
        tiles, threads: as of `group_banks.in_banks`; group: the threads along y and x.
    """

    reader: str
    part: str
    depth: str
    tiles: Mapping[str, int]
    threads: Mapping[str, tuple[int, int]]
    group: tuple[int, int]


def bring_rows(s: Schedule, local: str, reading: Reading, shared: Memory, many: int) -> bool:
    """An operand whose terms are neighbours; returns whether threads wait for no bank as they read it.

    Args:
        many: neighbours that a thread brings at once.
    """
    order = in_banks(s, local, reading.reader, reading.depth, reading.tiles, reading.threads, BYTES)
    whole = size(s.stages[local].tensor.shape[-1])
    axes = order or [a.name for a in s.stages[local].tensor.axes]
    folded = axes != [a.name for a in s.stages[local].tensor.axes]
    if not folded and whole % BYTES:
        # Rows begin with a word.
        *rows, _ = axes
        axes = [*rows, *s.fold(local, len(axes) - 1, BYTES)]
    many = 1 if whole % BYTES else min(many, BYTES) if folded else many
    bring(s, local, reading.reader, reading.part, reading.group, shared, many, axes)
    return order is not None


def bring_packed(s: Schedule, local: str, c: Contraction, reading: Reading, shared: Memory) -> None:
    """The operand on the right, of which words lie below one another, each thread a word at a time: of a constant that is
    packed, or of terms that lie below one another, four of which a thread packs."""
    if not any(p.packed is c.right.tensor for p in s.packings.values()):
        along = _dimension(c.right, c.inner[-1])
        assert along is not None
        s.fold(local, along, BYTES)
        others = [n for n in range(len(s.stages[local].tensor.axes)) if n not in (along, along + 1)]
        s.permute(local, *others[:-1], along, others[-1], along + 1)
    axes = [a.name for a in s.stages[local].tensor.axes]
    bring(s, local, reading.reader, reading.part, reading.group, shared, BYTES, axes)
