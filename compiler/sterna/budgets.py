"""Firmware within budgets: what is chosen under `--max-flash`, `--max-ram`, `--max-stack` and in the memories of
`--pool` before a model is refused.

A model is compiled as fast as it can be first. Where that takes too much memory, its leading layers are computed in
patches (`passes.patches`), those layers and as many patches as cost the fewest multiply-adds; where the kernels of
these are too much flash, those that have the fewest kernels. Where its code or its stack is too large, smaller code is
asked of the compiler, then tiles of fewer registers, then none with instructions for products of bytes, which are
packed for.

    compiled = within_budgets(graph, name, options)
    compiled.fitted        # what was chosen; None: nothing had to be
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sterna.bundle.firmware import Footprint, excess, firmware_archive, hold
from sterna.compiled import Compiled, Fitted
from sterna.driver import Observe, Progress, compile_graph
from sterna.errors import SternaError
from sterna.ir.graph import Graph
from sterna.options import Options, Patches
from sterna.passes.context import context_of
from sterna.passes.patches import Stretch, cut, leading
from sterna.passes.stages import Finished
from sterna.pipeline import outline_of, walk
from sterna.targets.target import Target
from sterna_runtime.abi import aligned

#: How many parts along the rows of an image, and along its columns, are tried.
GRIDS = ((2, 1), (3, 1), (4, 1), (6, 1), (8, 1), (12, 1), (2, 2), (3, 2), (4, 2), (3, 3), (4, 4))
#: In search of patches, how many memory plans are made, those with the scratch of kernels, which are scheduled for it,
#: and how often the model is compiled.
MOST_PLANS, MOST_SCHEDULED, MOST_COMPILED = 64, 12, 3
#: Where no patches are enough, of how many it is looked for those that take the least.
MOST_FEW = 8
#: Bytes for panels of weights that are worth it.
LEAST_PANELS = 256
#: Parts of budgets that other code than the fastest takes less of.
_OF_CODE = ("max_flash", "max_stack")


@dataclass(frozen=True)
class Way:
    """How code is made smaller: what is said of it, and how a target asks for it."""

    words: str
    change: Callable[[Target], Target]


def _with(code: str, registers: int, products: int, **more: Any) -> Callable[[Target], Target]:
    """A target that wants such code, with tiles of at most so many registers and written out products."""

    def changed(target: Target) -> Target:
        return replace(target.in_fewer_registers(registers, products), code=code, **more)

    return changed


#: From the fastest to the smallest code.
WAYS = (
    Way("", lambda target: target),
    Way("small code", lambda target: replace(target, code="small")),
    Way("small code, tiles of few registers", _with("smallest", 4, 4)),
    Way("small code, no tiles and no instructions for products of bytes", _with("smallest", 2, 2, int_dot=())),
)


@dataclass(frozen=True, eq=False)
class _Made:
    compiled: Compiled
    found: Footprint
    over: Mapping[str, int]
    way: Way

    @property
    def words(self) -> str:
        """How it is made, and what it takes."""
        patches = self.compiled.options.patches
        how = [self.way.words or "the fastest code", *([] if patches is None else [f"{patches.grid} patches"])]
        taken = {"flash": self.found.flash, "memory": self.found.ram}
        return f"{', '.join(how)}: {', '.join(f'{name} {n}' for name, n in taken.items() if n is not None)}"


@dataclass(frozen=True)
class _Candidate:
    """Patches that may be worth it: multiply-adds of all of them, bytes that they need at least, and how many kernels
    they have: patches of equal sizes have the same."""

    patches: Patches
    multiply_adds: int
    least: int
    kernels: int


_Order = Callable[[_Candidate], tuple[int, int]]


def _by_products(candidate: _Candidate) -> tuple[int, int]:
    return candidate.multiply_adds, candidate.kernels


def _by_kernels(candidate: _Candidate) -> tuple[int, int]:
    return candidate.kernels, candidate.multiply_adds


def within_budgets(
    graph: Graph, model: str, options: Options, observe: Observe | None = None, progress: Progress | None = None
) -> Compiled:
    """Compiles a graph as `compile_graph` does, within the budgets of the options and the memories of the target.

    Raises:
        SternaError: E0206, E0207 the memories are too small, a budget is exceeded, whatever is chosen; and those of
            `compile_graph`.
    """
    budgeted = any(getattr(options, name) is not None for name in ("max_flash", "max_ram", "max_stack"))
    placed = options.target.static and options.target.tensor_memories
    if options.patches is not None or not (budgeted or placed):
        return compile_graph(graph, model, options, observe, progress)
    search = _Search(graph, model, options, progress or (lambda words: None))
    chosen = search.run()
    hold(options, chosen.found, search.others(chosen))
    if observe is not None:
        compile_graph(graph, model, chosen.compiled.options, observe)
    return replace(chosen.compiled, fitted=search.said(chosen))


class _Search:
    """What was compiled so far.

    Attributes:
        arena: bytes that the model works in if nothing is chosen; None until that is known.
        refused: why its tensors do not fit the memories as a whole, where they do not.
        flash: that weights are fetched from, with as much room for panels of them as memory leaves; None: that is none.
        known: patches with which they do, or with which memory is within its budget.
        made: everything that was compiled.
    """

    def __init__(self, graph: Graph, model: str, options: Options, progress: Progress):
        self.graph, self.model, self.options, self.progress = graph, model, options, progress
        self.arena: int | None = None
        self.refused: SternaError | None = None
        self.known: list[Patches] = []
        self.flash = options.target.flash
        self.made: list[_Made] = []

    def run(self) -> _Made:
        """What meets the budgets, or of all that was tried what exceeds them least."""
        tried: list[_Made] = []
        for way in WAYS:
            best = self.best(way)
            tried.append(best)
            beyond = best.over.get("max_ram", 0) > (best.found.stack or 0)  # which is all that code takes of it
            if beyond or not set(_OF_CODE).intersection(best.over):
                break
        return min(tried, key=lambda made: sum(made.over.values()))

    def said(self, chosen: _Made) -> Fitted | None:
        """What is reported of it."""
        patches = chosen.compiled.options.patches
        assert self.arena is not None
        fetched, asked = chosen.compiled.options.target.flash, self.options.target.flash
        if chosen.way is WAYS[0] and patches is None and fetched == asked:
            return None
        plain, cut_up = (
            outline_of(self.graph, _anywhere(replace(chosen.compiled.options, patches=each)))
            for each in (None, patches)
        )
        products = int(plain.multiply_adds), int(cut_up.multiply_adds)
        made = {value.name: node for node in plain.graph.nodes for value in node.outputs}
        layer = "" if patches is None else ", ".join(made[patches.result].sources) or patches.result
        words = [] if fetched == asked else [f"{fetched.panel_bytes if fetched else 0} bytes for panels of weights"]
        words = [chosen.way.words, *words] if chosen.way.words else words
        return Fitted(", ".join(words), patches, layer, (self.arena, chosen.found.arena), products)

    def others(self, chosen: _Made) -> list[str]:
        """Of what else was tried, what takes the least flash and the least memory: what it would take of one budget to
        meet the other."""
        least = [
            min(self.made, key=lambda made: (made.found.flash or 0, made.found.ram or 0)),
            min(self.made, key=lambda made: (made.found.ram or 0, made.found.flash or 0)),
        ]
        return [f"or with {made.words}" for made in dict.fromkeys(least) if made is not chosen]

    def compile(self, way: Way, patches: Patches | None = None) -> _Made | None:
        """The model by a way; None if the memories are too small for it."""
        options = replace(self.by(way), patches=patches)
        try:
            compiled = compile_graph(self.graph, self.model, options, None, self.progress)
        except SternaError as problem:
            if problem.codes != ("E0206",):
                raise
            self.refused = self.refused or problem
            return None
        _, found = firmware_archive(compiled)
        made = _Made(compiled, found, excess(options, found), way)
        self.made.append(made)
        if self.arena is None:
            self.arena = found.arena
        return made

    def by(self, way: Way) -> Options:
        return replace(self.options, target=way.change(replace(self.options.target, flash=self.flash)))

    def best(self, way: Way) -> _Made:
        """The model by a way, in patches where it takes too much memory otherwise."""
        whole = self.compile(way) if self.refused is None else None
        while self.flash is not None and (whole is None or "max_ram" in whole.over):
            fewer = self.flash.panel_bytes // 4
            self.flash = replace(self.flash, panel_bytes=fewer) if fewer >= LEAST_PANELS else None
            self.refused = None
            whole = self.compile(way)
        if whole is not None and "max_ram" not in whole.over:
            return whole
        self.progress("computing the first layers in patches")
        every = [made for made in (whole, *self.in_patches(way, whole)) if made is not None]
        if not every:
            raise self.too_small(way)
        return min(every, key=lambda made: (made.over.get("max_ram", 0), sum(made.over.values())))

    def in_patches(self, way: Way, whole: _Made | None) -> Iterator[_Made]:
        """The model in patches of the fewest multiply-adds; where it takes too much flash so, also in those of the
        fewest kernels."""
        if self.known:
            yield from filter(None, (self.compile(way, patches) for patches in self.known))
            return
        options = self.by(way)
        room = sum(memory.bytes for memory in options.target.tensor_memories) or math.inf
        if options.max_ram is not None:
            room = min(room, options.max_ram - (whole.found.stack or 0 if whole is not None else 0))
        for order in (_by_products, _by_kernels):
            made = self.first_within(way, options, room, order)
            if made is not None:
                yield made
            if made is None or "max_flash" not in made.over:
                return

    def first_within(self, way: Way, options: Options, room: float, order: _Order) -> _Made | None:
        """The first patches, in an order, of which memory is within its budget, or those that exceed it least."""
        every: list[_Made] = []
        for patches in self.patches(options, room, order):
            if patches in self.known:
                return None
            if (made := self.compile(way, patches)) is not None:
                every.append(made)
                if "max_ram" not in made.over:
                    self.known.append(patches)
                    return made
            if len(every) >= MOST_COMPILED:
                break
        return min(every, key=lambda made: made.over["max_ram"], default=None)

    def patches(self, options: Options, room: float, order: _Order) -> Iterator[Patches]:
        """Patches with which tensors and scratch take at most so many bytes, in an order; where none do, those that
        take the least, if the memories have room for them."""
        there = sum(memory.bytes for memory in options.target.tensor_memories) or math.inf
        every = sorted((c for c in self.candidates(options) if c.least <= there), key=order)
        met = scheduled = 0
        for candidate in [c for c in every if c.least <= room][:MOST_PLANS]:
            if self.taken(options, candidate.patches, "memory") > room:
                continue
            if (scheduled := scheduled + 1) > MOST_SCHEDULED:
                break
            if self.taken(options, candidate.patches, "scratch") <= room:
                met += 1
                yield candidate.patches
        if not met and (found := self.least(options, every)) is not None:
            yield found[1]

    def least(self, options: Options, every: Sequence[_Candidate]) -> tuple[float, Patches] | None:
        """The patches, if there are any, with which tensors and scratch take the least, and how much that is."""
        few = [c.patches for c in sorted(every, key=lambda c: c.least)[:MOST_FEW]]
        few = sorted(few, key=lambda each: self.taken(options, each, "memory"))[:MOST_COMPILED]
        every_taken = [(self.taken(options, each, "scratch"), each) for each in few]
        return min(every_taken, key=lambda found: found[0], default=None)

    def taken(self, options: Options, patches: Patches, last: str) -> float:
        """Bytes of tensors, and after the pass "scratch" of that, too; infinitely many where they do not fit."""
        try:
            return float(walk(self.graph, context_of(replace(options, patches=patches)), last).plan.arena_bytes)
        except SternaError as problem:
            if problem.codes != ("E0206",):
                raise
            return math.inf

    def candidates(self, options: Options) -> list[_Candidate]:
        whole: Finished = walk(self.graph, context_of(_anywhere(options)), "scratch")
        if self.arena is None:
            self.arena = whole.plan.arena_bytes
        return list(_candidates(whole))

    def too_small(self, way: Way) -> SternaError:
        """That the memories are, and what the model takes in the patches that take the least."""
        assert self.refused is not None
        options = _anywhere(self.by(way))
        (first,) = self.refused.diagnostics
        if (found := self.least(options, self.candidates(options))) is not None:
            needed, patches = found
            if needed == math.inf:
                return SternaError([first])
            least = f"of all that were tried the least, {needed:.0f} bytes"
            line = f"with the first layers in {patches.grid} patches, {least}"
            first = replace(first, where=(*first.where, line))
        return SternaError([first])


def _anywhere(options: Options) -> Options:
    """The same with one arena of any size."""
    others = tuple(m for m in options.target.memories if not m.holds_tensors)
    return replace(options, target=replace(options.target, memories=others))


def _candidates(whole: Finished) -> Iterator[_Candidate]:
    """All patches of leading layers, up to every tensor that lies in memory."""
    after = _later(whole)
    for node in whole.graph.nodes:
        if len(node.outputs) != 1 or node.output.name not in after or not node.output.type.is_static:
            continue
        stretch = leading(whole.graph, node.output)
        if stretch is None or not stretch.spatial:
            continue
        for parts in _grids(stretch):
            needed = [stretch.regions(region) for region in cut(node.output.type.sizes, parts)]
            inside = [each for each in needed if each is not None]
            if len(inside) == len(needed):
                products = sum(map(stretch.multiply_adds, inside))
                held = [0] + [int(node.output.type.bytes)] * (len(inside) - 1)  # nothing is there before the first
                alive = [n + stretch.live_bytes(each) for n, each in zip(held, inside, strict=True)]
                least = max(after[node.output.name], int(node.output.type.bytes), *alive)
                kernels = len(set(map(stretch.sizes, inside))) * len(stretch.nodes)
                yield _Candidate(Patches(node.output.name, parts), products, least, kernels)


def smaller_arenas(graph: Graph, options: Options, most: int = MOST_PLANS) -> Iterator[tuple[Patches, int, int]]:
    """Patches of the leading layers with the arenas that they give, each smaller than those before, and the
    multiply-adds of the whole model then: what budgets would choose from.

    Args:
        most: how many memory plans are made.
    """
    whole: Finished = walk(graph, context_of(options), "scratch")
    least = whole.plan.arena_bytes
    for candidate in sorted(_candidates(whole), key=lambda each: each.multiply_adds)[:most]:
        if candidate.least >= least:
            continue
        cut_up = outline_of(graph, replace(options, patches=candidate.patches))
        if cut_up.plan.arena_bytes < least:
            least = cut_up.plan.arena_bytes
            yield candidate.patches, least, int(cut_up.multiply_adds)


def _later(whole: Finished) -> dict[str, int]:
    """For every tensor that a call makes, the bytes that are alive at once after that, scratch among them."""
    plan, found, most = whole.plan, dict[str, int](), 0
    calls = whole.sequence.calls
    where = plan.positions or tuple(range(len(calls)))
    scratch = [whole.kernels[k].function.scratch_bytes for k in whole.kernel_of]
    for call, at, own in reversed(list(zip(calls, where, scratch, strict=True))):
        found.update({value.name: most for value in call.outputs})
        alive = sum(life.size for life in plan.lives if life.first <= at <= life.last)
        most = max(most, alive + aligned(own, plan.alignment))
    return found


def _grids(stretch: Stretch) -> Iterator[tuple[int, ...]]:
    sizes = stretch.result.type.sizes
    for rows, columns in GRIDS:
        counts = dict(zip(stretch.spatial, (rows, columns), strict=False))
        fits = all(count <= sizes[d] // 2 for d, count in counts.items() if count > 1)
        if fits and (columns == 1 or len(stretch.spatial) > 1):
            yield tuple(counts.get(d, 1) for d in range(len(sizes)))


__all__ = ["WAYS", "smaller_arenas", "within_budgets"]
