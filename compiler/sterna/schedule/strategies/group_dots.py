"""Products of bytes by dot products of words of four, in the tiles of `group_tiles`: the operands lie in shared memory
so that four neighbouring terms of a sum are a word.

Where terms are neighbours in memory, as the channels of an image are, rows are copied as they lie. Constants are packed
ahead of time, with zeros for the terms that a last word lacks; what else has its terms apart is packed by the threads
that copy it. Windows that begin anywhere, as those of an image of three channels do, are copied each by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sterna.intrinsics.words import BYTES, LANES, name_of
from sterna.ir.integer import ZERO, Atom, Int
from sterna.ir.memory import Memory
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, size
from sterna.schedule.strategies.group_banks import in_banks
from sterna.schedule.strategies.group_neighbours import bring
from sterna.schedule.strategies.operands import Contraction
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Load, Reduce
from sterna.te.tensor import Kernel

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
    if not found or _dimension(c.left, depth) != len(c.left.indices) - 1:
        return ""
    if c.right.tensor in kernel.params and c.columns.var in c.right.indices:
        whole = depth.var in c.right.indices or _begins_words(c.right, depth)
    else:
        # The terms that a last word lacks are zero in constants alone.
        whole = _begins_words(c.right, depth) and size(depth.extent) % BYTES == 0
    return found if whole and _dimension(c.right, depth) is not None else ""


def _dimension(load: Load, depth: Axis) -> int | None:
    """The dimension of an operand along which the terms of a sum lie, each beside the one before it."""
    moving = [d for d, index in enumerate(load.indices) if depth in index.symbols()]
    return moving[0] if len(moving) == 1 and load.indices[moving[0]].coefficient(depth) == 1 else None


def _begins_words(load: Load, depth: Axis) -> bool:
    """Whether the first terms of sums lie whole words from the beginning of that dimension."""
    along = _dimension(load, depth)
    rest = ZERO if along is None else load.indices[along] - depth.var
    return along is not None and all(n % BYTES == 0 for n in (rest.const, *rest.terms.values()))


def in_words(s: Schedule, acc: str, c: Contraction) -> Contraction:
    """Lets the operands of a sum have words: a constant is packed so that its last dimension are the terms of a word
    and the one before it columns, and windows that begin anywhere are read from a copy of each."""
    depth, left, right = c.inner[-1], c.left.tensor.name, c.right.tensor.name
    if any(p is c.right.tensor for p in s.kernel.params):
        along, columns = _dimension(c.right, depth), c.right.indices.index(c.columns.var)
        assert along is not None
        others = [(d, "") for d in range(len(c.right.indices)) if d not in (along, columns)]
        s.pack(right, {along: BYTES}, [*others, (along, "o"), (columns, ""), (along, "i")])
        right = s.packings[right].packed.name
        if size(depth.extent) % BYTES:
            s.fill_up(acc, depth.name, BYTES)
    if not _begins_words(c.left, depth):
        left = s.gather(acc, left)
    body = s.stages[acc].body
    assert isinstance(body, Reduce)
    # The sums may be a stage of their own by now, with axes of their own.
    inner = (*c.inner[:-1], body.axes[-1])
    axes = zip((*s.stages[acc].tensor.axes, *body.axes), (*c.stage.axes, *inner), strict=True)
    known: dict[Atom, Int] = {new: old.var for new, old in axes}
    read = {e.tensor.name: e.changed(indices=tuple(i.substitute(known) for i in e.indices)) for e in E.loads(body)}
    return replace(c, left=read[left], right=read[right], inner=inner)


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
    axes, whole = [a.name for a in s.stages[local].tensor.axes], size(s.stages[local].tensor.shape[-1]) % BYTES == 0
    order = in_banks(s, local, reading.reader, reading.depth, reading.tiles, reading.threads, BYTES)
    if order is not None and order != axes:
        axes, many = order, min(many, BYTES)
    elif not whole:
        # Rows begin with a word.
        axes[-1:] = s.fold(local, len(axes) - 1, BYTES)
    many = many if whole else 1
    bring(s, local, reading.reader, reading.part, reading.group, shared, many, axes)
    return order is not None


def bring_packed(s: Schedule, local: str, c: Contraction, reading: Reading, shared: Memory) -> None:
    """The operand on the right, of which words lie below one another, each thread a word at a time: of a constant that
    is packed, or of terms that lie below one another, four of which a thread packs."""
    if not any(p.packed is c.right.tensor for p in s.packings.values()):
        along = _dimension(c.right, c.inner[-1])
        assert along is not None
        s.fold(local, along, BYTES)
        others = [n for n in range(len(s.stages[local].tensor.axes)) if n not in (along, along + 1)]
        s.permute(local, *others[:-1], along, others[-1], along + 1)
    axes = [a.name for a in s.stages[local].tensor.axes]
    bring(s, local, reading.reader, reading.part, reading.group, shared, BYTES, axes)
