"""Schedules in words: a sentence for every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sterna.ir.threads import VIRTUAL
from sterna.schedule.decisions import Step


def _names(axes: Sequence[Any]) -> str:
    words = [str(axis) for axis in axes]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "nothing"


def _fuse(stage: str, first: str, second: str, pitch: int = 0) -> str:
    rows = f", whose rows are {pitch} apart" if pitch else ""
    return f"{stage}: one loop goes over {first} and {second}{rows}"


#: A factor from which on a tile is the whole of an axis, however long.
_WHOLE = 1 << 30


def _split(stage: str, axis: str, factor: Any, overhang: bool = False) -> str:
    if isinstance(factor, int) and factor >= _WHOLE:
        return f"{stage}: {axis} is one tile, {axis}.i; {axis}.o has a single round"
    tail = "; the last tile is computed whole, too" if overhang else ""
    return f"{stage}: {axis} is cut into tiles of {factor}: {axis}.o counts them, {axis}.i goes through one{tail}"


_PLACES = {"register": "registers", "stack": "a small array on the stack", "scratch": "scratch memory of the worker"}


def _compute_at(stage: str, consumer: str, axis: str, where: str = "stack") -> str:
    return f"{stage} is computed piece by piece, for each {axis} of {consumer}, and held in {_PLACES.get(where, where)}"


def _pack(tensor: str, *layout: Any) -> str:
    return f"{tensor} is stored in the order in which tiles read it, so that every load is of neighbours"


#: Each primitive (`schedule.saved.PRIMITIVES`) with what its arguments say.
WORDS: dict[str, Callable[..., str]] = {
    "split": _split,
    "fuse": _fuse,
    "reorder": lambda stage, *axes: f"{stage}: loops from the outermost to the innermost: {', '.join(map(str, axes))}",
    "unroll": lambda stage, axis, *_: f"{stage}: {axis} is written out, without a loop",
    "vectorize": lambda stage, axis, *_: f"{stage}: {axis} is computed by vectors",
    "by_lane": lambda stage, axis, *_: f"{stage}: {axis} is written out, and takes what repeats from lanes of vectors",
    "prefetch": lambda stage, axis, tensor, *_: f"{stage}: in {axis}, the next part of {tensor} is asked for ahead",
    "tensorize": lambda stage, *rest: f"{stage}: {_names(rest[:-1])} are computed by the instruction {rest[-1]}",
    "partition": lambda stage, *axes: f"{stage}: border and interior of {_names(axes)} have loops of their own",
    "clip": lambda stage, axis: f"{stage}: {axis} leaves out the terms that read padding alone",
    "parallel": lambda stage, axis, *_: f"{stage}: each part of {axis} is a task, which threads share",
    "bind": lambda stage, axis, thread, *_: (
        f"{stage}: a thread has all of {axis}, as virtual threads side by side"
        if thread == VIRTUAL
        else f"{stage}: {axis} runs over {thread} of a group"
    ),
    "inline": lambda stage: f"{stage} is computed wherever it is needed, and stored nowhere",
    "compute_at": _compute_at,
    "cache_read": lambda tensor, consumer, *dtype: (
        f"{consumer} reads a copy of {tensor}" + (f" as {dtype[0]}" if dtype and dtype[0] else "")
    ),
    "cache_write": lambda stage: f"{stage} is computed aside and stored when it is complete",
    "fold": lambda stage, dimension, factor: (
        f"{stage}: dimension {dimension} is two, the second of {factor} positions, so that threads have neighbours"
    ),
    "pipeline": lambda stage, axis, depth: (
        f"{stage}: while an iteration of {axis} computes, later ones' operands come into {depth} buffers in turn"
    ),
    "permute": lambda stage, *order: f"{stage}: dimensions lie in the order {', '.join(map(str, order))}",
    "pad_rows": lambda stage, elements, *_: (
        f"{stage}: rows lie {elements} elements further apart, for the sake of banks, or of where rows begin"
    ),
    "swizzle": lambda stage, elements: (
        f"{stage}: each row is turned by {elements}, so that what is below one another is in other banks"
    ),
    "as_matrices": lambda stage, batch, folded, *_: (
        f"{stage} is a product of matrices, whose depth is {_names(folded)}"
    ),
    "stride": lambda stage, dimension, step: f"{stage}: of dimension {dimension}, every {step}th position is copied",
    "recompute": lambda stage, *consumers: f"{stage} is computed once more for {_names(consumers)}",
    "online_in_matrices": lambda stage, scores, *_: (
        f"{stage} is added up while {scores} is found, block by block, by matrices of 16-bit floats, and rescaled"
    ),
    "online": lambda stage, scores, *_: f"{stage} is added up while {scores} is found, block by block, and rescaled",
    "transfer": lambda stage, *asynchronous: (
        f"{stage} is a copy between memories"
        + (", made while others compute" if asynchronous and asynchronous[0] else "")
    ),
    "across": lambda stage, axis, threads: f"{stage}: {threads} threads share {axis}, and exchange what they have",
    "rfactor": lambda stage, axis, *_: f"{stage}: sums along {axis} are kept apart and added up at the end",
    "gather": lambda stage, tensor: f"{stage}: {tensor} is read from a copy of what each window has of it",
    "fill_up": lambda stage, axis, many: f"{stage}: {axis} has zeros behind it, up to a multiple of {many}",
    "from_tiles": lambda stage, *_: f"{stage}: fragments are stored, a part of a tile at a time",
    "by_last_tasks": lambda stage, parts, *_: (
        f"{stage}: computed by the last of the tasks of {parts} with its elements"
    ),
    "by_runs": lambda stage, many, *_: f"{stage}: terms are read {many} at a time",
    "pack": _pack,
    "narrow": lambda tensor, dtype, *_: f"{tensor} is stored as {dtype} and widened where it is read",
    "couple": lambda stage, tensor, axis, *_: (
        f"{stage}: numbers of {tensor} lie two by two along {axis}, so that one instruction widens both"
    ),
    "negate": lambda tensor: f"{tensor} is stored with the other sign, as the instructions that read it take it",
    "offset": lambda stage, tensor: f"{stage}: {tensor} is read with the other sign, which a sum makes up for",
}


def in_words(step: Step) -> str:
    """What a step does, in a sentence without a full stop."""
    return WORDS[step.primitive](step.stage, *step.arguments)
