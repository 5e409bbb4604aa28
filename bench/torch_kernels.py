"""Compares the kernels that a model becomes from `.pt2` with those that it becomes from ONNX.

    python bench/torch_kernels.py FOLDER [NAME ...]

Kernels of one text are one function over tensors of one layout, and take the same time. Of models whose kernels differ,
those that only one form has are named, with what they compute and read and write. A model from `.pt2` counts as slower
where it computes, or reads and writes, more than 1.02 times as much as the one from ONNX. The exit status is 0 if none
does.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from layers import multiply_adds, nbytes
from sterna.api import options_of
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna.passes.context import context_of
from sterna.passes.kernels import Call
from sterna.pipeline import walk
from sterna.te.tensor import Kernel

MOST = 1.02


def text_of(call: Call) -> str:
    """What a kernel computes, and where its tensors lie. Leading dimensions of 1 of a constant and the way in which the
    last dimension is counted leave the loops the same."""
    text = re.sub(r"^(c\d+ \w+\[)(?:1, )+", r"\1", call.key, flags=re.MULTILINE)
    rank = {name: shape.count(",") + 1 for name, shape in re.findall(r"^(\w+) \w+\[([^\]]*)\]", text, re.MULTILINE)}
    return re.sub(
        r"^(layer_norm\((\w+).*axis=)-1", lambda m: f"{m[1]}{rank.get(m[2], 0) - 1}", text, flags=re.MULTILINE
    )


@dataclass(frozen=True)
class Work:
    """What a kernel does in one run."""

    name: str
    multiply_adds: int
    nbytes: int


def kernels_of(model: Path) -> dict[str, tuple[int, Work]]:
    """Of every kernel by its text: how often it runs, and what it does."""
    options = options_of("host", generator="llvm", tuning=False)
    outline = walk(read_model(model, ReadOptions()), context_of(options), "group-channels")
    counts: Counter[str] = Counter()
    works: dict[str, Work] = {}
    for call in outline.sequence.calls:
        own, kernel = text_of(call), call.kernel
        counts[own] += 1
        known = isinstance(kernel, Kernel)
        name = call.sources[0] if call.sources else call.name
        works[own] = Work(name, multiply_adds(kernel) if known else 0, nbytes(kernel) if known else 0)
    return {own: (counts[own], work) for own, work in works.items()}


def only_in(some: dict[str, tuple[int, Work]], others: dict[str, tuple[int, Work]]) -> Iterator[tuple[int, Work]]:
    for own, (count, work) in some.items():
        more = count - (others[own][0] if own in others else 0)
        if more > 0:
            yield more, work


def total(kernels: dict[str, tuple[int, Work]]) -> tuple[int, int, int]:
    """Runs of kernels, multiply-adds and bytes of a whole model."""
    counted = list(kernels.values())
    return (
        sum(count for count, _ in counted),
        sum(count * work.multiply_adds for count, work in counted),
        sum(count * work.nbytes for count, work in counted),
    )


def shown(differences: Iterator[tuple[int, Work]]) -> str:
    found = sorted(differences, key=lambda each: -each[0] * (each[1].multiply_adds + each[1].nbytes))
    told = [f"{count} x {w.name} ({w.multiply_adds:,} products, {w.nbytes:,} bytes)" for count, w in found[:6]]
    return "; ".join(told) + (f"; {len(found) - 6} more" if len(found) > 6 else "")


def main() -> int:
    folder, chosen = Path(sys.argv[1]), set(sys.argv[2:])
    same = differ = slower = 0
    for file in sorted(folder.glob("*.onnx")):
        if chosen and file.stem not in chosen:
            continue
        try:
            ours, theirs = kernels_of(file.with_suffix(".pt2")), kernels_of(file)
        except SternaError as problem:
            print(f"{file.stem}: {problem.diagnostics[0].title}", flush=True)
            continue
        if {k: n for k, (n, _) in ours.items()} == {k: n for k, (n, _) in theirs.items()}:
            same += 1
            print(f"{file.stem}: the same {total(ours)[0]} kernels", flush=True)
            continue
        differ += 1
        more = any(a > MOST * b for a, b in zip(total(ours)[1:], total(theirs)[1:], strict=True))
        slower += more
        figures = ", ".join(
            f"{a:,} against {b:,} {what}"
            for a, b, what in zip(total(ours), total(theirs), ("kernels", "products", "bytes"), strict=True)
        )
        print(f"{file.stem}: {'SLOWER, ' if more else ''}{figures}")
        print(f"  .pt2: {shown(only_in(ours, theirs))}\n  ONNX: {shown(only_in(theirs, ours))}", flush=True)
    print(f"{same} with the same kernels, {differ} with others, {slower} of which do more than {MOST} times as much")
    return int(slower > 0 or not same + differ)


if __name__ == "__main__":
    sys.exit(main())
