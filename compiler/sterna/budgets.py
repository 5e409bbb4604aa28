"""Firmware within budgets: what is chosen under `--max-flash`, `--max-ram` and `--max-stack` before a model is refused.

A model is compiled as fast as it can be first. Where that takes too much memory, its leading layers are computed in
patches (`passes.patches`), those layers and as many patches as cost the fewest multiply-adds. Where its code or its
stack is too large, smaller code is asked of the compiler, then tiles of fewer registers, then none with instructions
for products of bytes, which are packed for.

    compiled = within_budgets(graph, name, options)
    compiled.fitted        # what was chosen; None: nothing had to be
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sterna.bundle.firmware import Footprint, excess, firmware_archive, hold
from sterna.compiled import Compiled, Fitted
from sterna.driver import Observe, Progress, compile_graph
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
MOST_FEW = 16
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
        return replace(
            target,
            code=code,
            vector_registers=min(target.vector_registers, 2 * registers),
            integer_registers=min(target.integer_registers, registers),
            unrolled_products=min(target.unrolled_products, products),
            **more,
        )

    return changed


#: From the fastest to the smallest code.
WAYS = (
    Way("", lambda target: target),
    Way("small code", lambda target: replace(target, code="small")),
    Way("small code, tiles of few registers", _with("smallest", 4, 4)),
    Way("small code, no tiles and no instructions for products of bytes", _with("smallest", 2, 2, int_dot=())),
)


@dataclass(frozen=True)
class _Made:
    compiled: Compiled
    found: Footprint
    over: Mapping[str, int]
    way: Way


@dataclass(frozen=True)
class _Candidate:
    """Patches that may be worth it: multiply-adds of all of them, and bytes that they need at least."""

    patches: Patches
    multiply_adds: int
    least: int


def within_budgets(
    graph: Graph, model: str, options: Options, observe: Observe | None = None, progress: Progress | None = None
) -> Compiled:
    """Compiles a graph as `compile_graph` does, within the budgets of the options.

    Raises:
        SternaError: E0207 a budget is exceeded whatever is chosen; and those of `compile_graph`.
    """
    if options.max_flash is None and options.max_ram is None and options.max_stack is None:
        return compile_graph(graph, model, options, observe, progress)
    search = _Search(graph, model, options, progress or (lambda words: None))
    chosen = search.run()
    hold(options, chosen.found)
    if observe is not None:
        compile_graph(graph, model, chosen.compiled.options, observe)
    return replace(chosen.compiled, fitted=search.said(chosen))


class _Search:
    def __init__(self, graph: Graph, model: str, options: Options, progress: Progress):
        self.graph, self.model, self.options, self.progress = graph, model, options, progress
        self.first: _Made | None = None
        self.known: Patches | None = None

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
        first, patches = self.first, chosen.compiled.options.patches
        assert first is not None
        if chosen is first:
            return None
        plain, cut_up = (
            outline_of(self.graph, replace(chosen.compiled.options, patches=each)) for each in (None, patches)
        )
        products = int(plain.multiply_adds), int(cut_up.multiply_adds)
        made = {value.name: node for node in plain.graph.nodes for value in node.outputs}
        layer = "" if patches is None else ", ".join(made[patches.result].sources) or patches.result
        return Fitted(chosen.way.words, patches, layer, (first.found.arena, chosen.found.arena), products)

    def compile(self, way: Way, patches: Patches | None = None) -> _Made:
        options = replace(self.options, target=way.change(self.options.target), patches=patches)
        compiled = compile_graph(self.graph, self.model, options, None, self.progress)
        _, found = firmware_archive(compiled)
        made = _Made(compiled, found, excess(options, found), way)
        self.first = self.first or made
        return made

    def best(self, way: Way) -> _Made:
        """The model by a way, in patches where it takes too much memory otherwise."""
        every = [self.compile(way)]
        if "max_ram" not in every[0].over:
            return every[0]
        assert self.options.max_ram is not None
        self.progress("computing the first layers in patches")
        room = self.options.max_ram - (every[0].found.stack or 0)
        for patches in self.patches(every[0].compiled.options, room) if self.known is None else [self.known]:
            every.append(self.compile(way, patches))
            if "max_ram" not in every[-1].over:
                self.known = patches
            if self.known is not None or len(every) > MOST_COMPILED:
                break
        return min(every, key=lambda each: each.over.get("max_ram", 0))

    def patches(self, options: Options, room: int) -> Iterator[Patches]:
        """Patches with which tensors and scratch take at most so many bytes, those of the fewest multiply-adds first;
        where none do, those that take the least."""

        def taken(patches: Patches, last: str) -> int:
            return int(walk(self.graph, context_of(replace(options, patches=patches)), last).plan.arena_bytes)

        whole: Finished = walk(self.graph, context_of(options), "scratch")
        every = sorted(_candidates(whole), key=lambda each: each.multiply_adds)
        met = scheduled = 0
        for candidate in [c for c in every if c.least <= room][:MOST_PLANS]:
            if taken(candidate.patches, "memory") > room:
                continue
            if (scheduled := scheduled + 1) > MOST_SCHEDULED:
                break
            if taken(candidate.patches, "scratch") <= room:
                met += 1
                yield candidate.patches
        if not met:
            few = [c.patches for c in sorted(every, key=lambda c: c.least)[:MOST_FEW]]
            few = sorted(few, key=lambda each: taken(each, "memory"))[:MOST_COMPILED]
            yield from sorted(few, key=lambda each: taken(each, "scratch"))[:1]


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
                yield _Candidate(Patches(node.output.name, parts), products, least)


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
