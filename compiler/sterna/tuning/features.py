"""What a cost model sees of a schedule: numbers that hold for kernels of every kind and size.

As AutoTVM and Ansor describe them (T. Chen et al., Learning to Optimize Tensor Programs, 2018; L. Zheng et al., Ansor,
2020): how often each kind of operation is done, how many bytes every level of the nest touches and how often they
come again, what registers hold, what is written out, tails, tasks. All are logarithms. They are estimated from the
schedule (`tuning.tiling`): lowering it would take ten times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, prod

from sterna.ir import dtypes
from sterna.schedule.schedule import Schedule
from sterna.targets.target import Target
from sterna.tuning.reads import Read
from sterna.tuning.thread_features import thread_features
from sterna.tuning.tiling import LANES, WRITTEN_OUT, Level, Nest, Tiling

#: Of what the numbers mean: priors of another one are not read.
VERSION = 2
#: Loop levels, from the innermost outwards, whose extents and touched bytes are told.
LEVELS = 6


def features_of(schedule: Schedule, target: Target) -> tuple[float, ...]:
    """The features of a schedule of a kernel of constant sizes: as many for all targets whose tasks one thread runs,
    and more, behind them, for groups of threads."""
    tiling = Tiling(schedule)
    sums = _Sums()
    for nest in tiling.nests.values():
        sums.add(nest, tiling, target)
    hottest = sums.hottest
    assert hottest is not None
    levels = [_Seen(level, tiling.touched(level)) for level in tiling.levels(hottest)]
    stages = schedule.stages.values()
    totals = (
        sums.instructions,
        sums.elements,
        sums.loads,
        sums.scattered,
        sums.stores,
        sums.iterations,
        sums.bytes_loaded,
        sums.bytes_stored,
        sums.most,
        hottest.runs,
        sums.written_out,
        sums.tail * 16,
        sums.registers,
        sums.registers / max(1, target.vector_registers) * 16,
        sums.memory,
        sums.tasks,
        sums.loads / max(1.0, sums.instructions) * 16,
        sums.stores / max(1.0, sums.instructions) * 16,
        _moved(levels, target.l1_bytes),
        _moved(levels, target.l2_bytes),
        float(len(tiling.nests)),
        float(sum(len(s.partitioned) for s in stages)),
        float(sum(len(s.clipped) for s in stages)),
        float(sum(s.ahead is not None for s in stages)),
        float(sum(s.tensorized is not None for s in stages)),
        float(max((lanes for s in stages for lanes in s.by_lane.values()), default=0)),
        float(target.vector_bits),
        float(target.l1_bytes),
        float(target.l2_bytes),
    )
    threads = thread_features(tiling, target)
    around = [each for n in range(LEVELS) for each in (levels[n].numbers if n < len(levels) else (0.0,) * 4)]
    return tuple(round(log2(1.0 + max(0.0, value)), 4) for value in (*totals, *around, *threads))


@dataclass(frozen=True)
class _Seen:
    """A loop level, and the bytes that all its iterations touch."""

    level: Level
    touched: float

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        """Iterations, how many of them are written out or lanes, the bytes, how often the level runs."""
        nest, leaf = self.level.nest, self.level.leaf
        extent = nest.full[leaf]
        return extent, extent if nest.kind(leaf) in (*WRITTEN_OUT, *LANES) else 0.0, self.touched, self.level.runs


def _moved(levels: list[_Seen], cache: int) -> float:
    """Bytes that come into a cache: what the outermost loop touches whose bytes fit in, every time that it runs."""
    fitting = [each for each in levels if each.touched <= cache]
    if not fitting:
        return levels[0].touched * levels[0].level.runs if levels else 0.0
    return fitting[-1].touched * fitting[-1].level.runs


class _Sums:
    """Sums over the nests of a kernel, in instructions: a vector counts as many as registers that it takes."""

    def __init__(self) -> None:
        self.instructions = self.elements = self.loads = self.scattered = self.stores = self.iterations = 0.0
        self.bytes_loaded = self.bytes_stored = self.registers = self.memory = 0.0
        self.tasks, self.tail, self.written_out = 1.0, 0.0, 0.0
        #: The nest in which most is done, and how much that is.
        self.hottest: Nest | None = None
        self.most = -1.0

    def add(self, nest: Nest, tiling: Tiling, target: Target) -> None:
        """Adds what all runs of a nest do."""
        s, extents = nest.stage, nest.extents
        kinds = {leaf: nest.kind(leaf) for leaf in s.leaves}
        looped = nest.runs
        for leaf, kind in kinds.items():
            if kind not in WRITTEN_OUT and kind not in LANES:
                looped *= extents[leaf]
                self.iterations += looped if extents[leaf] > 1 else 0.0
            if kind == "parallel":
                self.tasks *= extents[leaf]
        written = {leaf for leaf, kind in kinds.items() if kind in WRITTEN_OUT}
        lanes = {leaf for leaf, kind in kinds.items() if kind in LANES}
        copies, wide = prod(extents[leaf] for leaf in written), prod(extents[leaf] for leaf in lanes)
        bits = dtypes.bits(s.tensor.dtype)
        vectors = _vectors(wide, bits, target)
        steps = looped * copies
        done = steps * vectors * max(1, nest.body.operations)
        self.instructions += done
        self.elements += steps * wide * nest.body.operations
        if done > self.most:
            self.hottest, self.most = nest, done
            self.written_out = prod(nest.full[leaf] for leaf in written)
            self.tail = 1.0 - wide / (vectors * max(1.0, target.vector_bits / bits)) if lanes else 0.0
        for read in nest.body.reads:
            if not tiling.is_held(read):
                self._load(read, nest, looped, written, lanes, target)
        if nest.is_held:
            elements = prod(nest.shape)
            self.registers += _vectors(elements, bits, target) if lanes else elements
            return
        self.stores += steps * vectors
        self.bytes_stored += steps * wide * bits / 8
        if s.attach is not None:
            self.memory += prod(nest.shape) * bits / 8

    def _load(self, read: Read, nest: Nest, looped: float, written: set[str], lanes: set[str], target: Target) -> None:
        """Adds a load: what is written out beside it shares it where it does not depend on that loop, and what is read
        by lane comes several at once."""
        places = prod(read.widths(nest.spans(written)))
        for leaf, several in nest.stage.by_lane.items():
            if read.widths(nest.spans({leaf}))[-1] > 1.0:
                places = max(1.0, places / several)
        spans = nest.spans(lanes)
        elements, along = prod(read.widths(spans)), prod(read.widths(spans)[:-1])
        vectors = elements if along > 1.0 else _vectors(elements, read.bits, target)
        self.loads += looped * places * vectors
        self.scattered += looped * places * vectors if along > 1.0 else 0.0
        self.bytes_loaded += looped * places * elements * read.bits / 8


def _vectors(elements: float, bits: int, target: Target) -> float:
    """Registers that so many elements side by side take."""
    return max(1.0, float(ceil(elements * bits / target.vector_bits))) if target.vector_bits else elements
