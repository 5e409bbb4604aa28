"""Which constants of kernels are fetched, panel by panel, where weights lie in memory that loads reach slowly.

The target says how slow (`Flash`). A constant that loads read again for every row of an image waits for that memory
each time; fetched, it is read once, from fast memory then, and where fetches go on by DMA while the core computes,
hardly anything waits. What that costs is scratch, and work that is done again for every panel. All of it is counted in
cycles, of the finished loops; what saves most is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sterna.ir import dtypes
from sterna.ir.memory import PARAM
from sterna.loops.finish import finish
from sterna.loops.panels import Panels, fetched, fetches, repeated
from sterna.loops.program import For, Function
from sterna.loops.traffic import WORD, traffic
from sterna.loops.values import Buffer
from sterna.passes.context import PassContext
from sterna.passes.programs import arithmetic
from sterna.passes.stages import Lowered, Planned
from sterna.targets.target import Flash, Target

#: A fetch is worth its code and memory if it saves one part of so many of what a kernel takes.
WORTH = 64


def applies(context: PassContext) -> bool:
    return context.target.static and context.target.flash is not None


def stream_weights(lowered: Lowered, context: PassContext) -> Lowered:
    """The kernels with those constants fetched for which that pays."""
    return replace(
        lowered,
        lowered=tuple(
            streamed(function, context.target, call.in_place)
            for call, function in zip(lowered.firsts, lowered.lowered, strict=True)
        ),
    )


def streamed(function: Function, target: Target, in_place: Sequence[int] = ()) -> Function:
    """One kernel: of one constant panels at most, then others as a whole while there is room.

    Args:
        in_place: slots of inputs in whose memory the result may lie.
    """
    flash = target.flash
    assert flash is not None
    if not function.params:
        return function
    costs = _Costs(function, flash, target)
    # The largest comes first, as it is mostly that which is waited for. Panels go around all else: no other has some.
    chosen: list[Panels] = []
    for param in sorted(function.params, key=lambda each: -_bytes(each)):
        room = flash.panel_bytes - sum(panels.bytes for panels in chosen)
        ways = (way for way in Panels.of(function, param, flash.dma, in_place) if way.bytes <= room)
        found = [(costs.saved(way), way) for way in ways if not way.loops or not chosen]
        saved, best = max(found, key=lambda each: each[0], default=(0.0, None))
        if best is not None and saved > 0 and saved * WORTH >= costs.work:
            chosen.append(best)
    for n, panels in enumerate(chosen):
        function = fetched(function, panels, n)
    return function


class _Costs:
    """What reading constants of a kernel takes, in cycles."""

    def __init__(self, function: Function, flash: Flash, target: Target):
        self.function, self.flash = function, flash
        finished = traffic(finish(function, arithmetic(target)))
        self.words = {buffer.name: words for buffer, words in finished.items() if buffer.scope is PARAM}
        self.work = sum(finished.values())
        self.beside: dict[tuple[For, ...], int] = {}
        self.cached = sum(map(_bytes, function.params)) <= flash.cache_bytes

    def saved(self, panels: Panels) -> float:
        """By fetching a constant so."""
        param, flash = panels.param, self.flash
        words = self.words.get(param.name, 0)
        read = min(words * WORD, _bytes(param)) if self.cached else words * WORD
        each = flash.fetch_cycles + _bytes(param) / panels.count / flash.fetched
        again = self.repeated(panels) if panels.loops else 0
        others = each * (panels.count - 1)
        if panels.doubled:
            others = max(0.0, others - self.work * (panels.count - 1) / panels.count)
        return read / flash.bytes_per_cycle - (each + others + again * (panels.count - 1) + words)

    def repeated(self, panels: Panels) -> int:
        """What a further panel does again."""
        if panels.loops not in self.beside:
            beside = replace(self.function, body=repeated(self.function, panels))
            self.beside[panels.loops] = sum(traffic(beside).values())
        return self.beside[panels.loops]


def _bytes(buffer: Buffer) -> int:
    return buffer.elements * dtypes.size(buffer.dtype)


@dataclass(frozen=True)
class Reads:
    """Of constants, in a run.

    Args:
        kernels: that fetch some; of: how many there are.
        fetched, loaded: bytes that are fetched, and that loads take from where they lie.
        scratch: bytes that the panels of a kernel take at most.
        asynchronous: whether some are fetched while the core computes.
    """

    kernels: int
    of: int
    fetched: int
    loaded: int
    scratch: int
    asynchronous: bool

    @property
    def text(self) -> str:
        """In a line."""
        how = ", while the core computes" if self.asynchronous else ""
        return (
            f"weights: {self.kernels} of {self.of} kernels fetch them by panels{how}: {self.fetched:,} bytes in a "
            f"run, into at most {self.scratch:,} bytes of scratch; {self.loaded:,} bytes are read where they lie"
        )


def reads_of(kernels: Sequence[Planned], kernel_of: Sequence[int]) -> Reads:
    """What calls of kernels read of constants."""
    counted = [_read(kernel.function) for kernel in kernels]
    rooms = [sum(_rooms(kernel.function)) for kernel in kernels]
    streaming = [bool(fetches(kernel.function)) for kernel in kernels]
    asynchronous = any(copy.asynchronous for kernel in kernels for copy in fetches(kernel.function))
    by_fetch, by_load = (sum(counted[k][n] for k in kernel_of) for n in (0, 1))
    return Reads(sum(streaming), len(kernels), by_fetch, by_load, max(rooms, default=0), asynchronous)


def _read(function: Function) -> tuple[int, int]:
    """Bytes of constants that are fetched, and that are loaded, in a run of a kernel."""
    every = sum(words for buffer, words in traffic(function).items() if buffer.scope is PARAM) * WORD
    names = {copy.source for copy in fetches(function)}
    whole = sum(map(_bytes, names))  # each element once
    return whole, every - sum(-(-_bytes(buffer) // WORD) * WORD for buffer in names)


def _rooms(function: Function) -> Iterator[int]:
    return iter(map(_bytes, {copy.destination for copy in fetches(function)}))


__all__ = ["Reads", "applies", "reads_of", "stream_weights", "streamed"]
