"""`--math fast`: what is computed otherwise than the model says, for speed, within a bound measured on the model.

Convolutions get tiles (`passes.winograd`), products that wait for weights read them in float16
(`passes.halve_weights`), products that wait for multiplications have factors of 16 bits where the processor multiplies
those faster, or of TF32 where fragments of matrices do (`passes.narrow_products`). An estimate says which are worth it;
the model is compiled with and without, both run on the same inputs, and of every output the largest difference,
relative to its largest magnitude, is taken.

Where that exceeds the bound, factors of few bits go first: tiles of them, then all but as many as the bound has room
for, of those layers that save most. Then layers go back to smaller tiles, then to exact arithmetic: those first whose
own error is largest, until the model as a whole is within the bound.

    decided = decide(graph, name, options)
    compile_graph(graph, name, decided.options)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot
from pathlib import Path

from sterna.bundle.writer import write_bundle
from sterna.choices import Choice
from sterna.compiled import Measured
from sterna.driver import compile_graph
from sterna.ir.graph import Graph, Node, graphs_within
from sterna.ir.printer import print_graph
from sterna.options import Options
from sterna.passes.context import context_of
from sterna.passes.estimate import LEAST_GAIN
from sterna.passes.halve_weights import reads_half
from sterna.passes.narrow_products import narrow_choices
from sterna.passes.winograd import Tile, products_of, tile_choices
from sterna.pipeline import walk
from sterna.runtime.here import why_not_here
from sterna.scratch import temporary_directory
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna_runtime import Bundle, load
from sterna_runtime.checks import compare
from sterna_runtime.inputs import Array
from sterna_runtime.random_inputs import random_inputs

Say = Callable[[str], None]
Runs = Sequence[Mapping[str, Array]]

#: What a way that is measured may lose by the estimate: it may be twice as slow.
LEAST_TRIED = -1.0
#: Sets of inputs that a model is measured on.
SETS = 2
#: Of the bound, what errors that were measured one by one may add up to: the whole has to keep within it.
ROOM = 0.7
#: How many times as large the errors of factors of 16 bits may be on other inputs than those that are measured: on
#: their own ones, those of trained models were up to 4.8 times as large as on random ones. That much of the bound is
#: kept free.
MARGIN = 8.0
#: How many times as large the errors of a tile are as those of the next smaller one, measured on random convolutions;
#: those of factors of 16 bits as those of the smallest tile; those of tiles of such factors as those of the next
#: smaller ones, whose last transform multiplies what was rounded.
GROWTH, NARROW_GROWTH = 2.0, 4.0
ROUGHNESS = {"tf32": 2.0**10, "float16": 2.0**10, "bfloat16": 2.0**13}


@dataclass(frozen=True)
class Decision:
    """What was decided: the options to compile with, what was measured, and the way of each layer that is faster."""

    options: Options
    measured: Measured
    ways: Mapping[str, Choice] = field(default_factory=dict)


@dataclass(frozen=True)
class Feeds:
    """What errors are measured on.

    Args:
        runs: inputs by name, of one run after the other; name: what messages call them.
    """

    runs: Runs
    name: str


def decide(
    graph: Graph,
    model: str,
    options: Options,
    say: Say | None = None,
    layers: Mapping[str, Layer] | None = None,
    feeds: Feeds | None = None,
) -> Decision:
    """What may be faster in a model, by `options.math`. What `options.tuning` knows to be the fastest way of every
    layer is where it begins; without, estimates say that.

    Args:
        model: its name as a C identifier.
        say: called with a few words at the start of every longer step.
        layers: that can be faster, where that has been measured.
        feeds: what errors are measured on; None: sets of random inputs, those of golden sets.

    Raises:
        SternaError: the model cannot be compiled.
    """
    tuned = layers is not None
    if layers is None:
        layers = layers_of(graph, options)
        if (known := _known(graph, options)) is not None:
            layers, tuned = _as_known(layers_of(graph, options, LEAST_TRIED), known), True
    search = _Search(graph, model, options, layers, say or (lambda words: None), feeds)
    chosen, errors = search.run() if layers else ({}, {})
    ways = {name: layers[name].ways[level] for name, level in chosen.items()}
    tiles = tuple((layers[name].said, layers[name].taps, way.tile) for name, way in ways.items() if way.tile)
    halves = tuple(layers[name].said for name, way in ways.items() if way.halves)
    narrow = tuple((layers[name].said, way.narrow) for name, way in ways.items() if way.narrow)
    sets, data = len(feeds.runs) if feeds is not None else SETS, feeds.name if feeds is not None else ""
    measured = Measured(
        options.math, tuple(errors.items()), tiles, halves, len(layers), search.machine, sets, narrow, data, tuned
    )
    return Decision(with_levels(options, layers, chosen), measured, {n: way.choice for n, way in ways.items()})


def model_id(graph: Graph) -> str:
    """What records know a model by, as it is read: its operators, sizes and names, not what its weights are."""
    return hashlib.sha256(print_graph(graph).encode()).hexdigest()[:16]


def _known(graph: Graph, options: Options) -> Mapping[str, Choice] | None:
    if options.tuning is None:
        return None
    return options.tuning.algorithms(model_id(graph), options.target, options.math)


@dataclass(frozen=True)
class Way:
    """A faster way of a layer.

    Args:
        tile: outputs of the tiles, if it is by tiles.
        narrow: the type that factors are rounded to, if they are; halves: whether weights are, to be read sooner.
        cycles: estimated, or measured in any unit.
        rough: how large its errors are beside those of other ways of the layer.
    """

    tile: Tile = ()
    narrow: str = ""
    halves: bool = False
    cycles: float = 0.0
    rough: float = 1.0

    @property
    def choice(self) -> Choice:
        """What it is, as records have it."""
        return {"tile": self.tile, "narrow": self.narrow, "halves": self.halves}


@dataclass(frozen=True)
class Layer:
    """What can be faster.

    Args:
        said: the model's own name of it.
        ways: those that are worth it: each is faster than those before it, and rounds worse.
        taps: of a convolution, its filter.
        exact: cycles as it is, where that is known.
    """

    said: str
    ways: tuple[Way, ...]
    taps: Tile = ()
    exact: float = 0.0

    def fastest(self, rough: float) -> int:
        """The highest level that is no rougher than that; -1: exact arithmetic."""
        return max((n for n, way in enumerate(self.ways) if way.rough <= rough), default=-1)

    def cycles(self, level: int) -> float:
        """At a level; of exact arithmetic at -1."""
        return self.ways[level].cycles if level >= 0 else self.exact


def layers_of(graph: Graph, options: Options, least: float = LEAST_GAIN) -> dict[str, Layer]:
    """The layers that can be faster, by the names of their results; products after the tiles that they may be of.

    Args:
        least: what a way has to gain by the estimate; below 0, what it may lose.
    """
    exact, target = options.exact, options.target
    found: dict[str, Layer] = {}
    for node in _nodes(graph, exact):
        if (layer := _layer(node, target, least)) is not None:
            found[node.output.name] = layer
    tiled = with_levels(exact, found, {name: len(layer.ways) - 1 for name, layer in found.items()})
    for node in _nodes(graph, replace(tiled, narrow=())):
        if reads_half(node, target):
            found[node.output.name] = Layer(_said(node), (Way(halves=True),))
    return found


def _layer(node: Node, target: Target, least: float) -> Layer | None:
    """How a node can be faster, but for weights that are read sooner; None if it cannot."""
    narrow = () if reads_half(node, target) else narrow_choices(node, target, least)
    choices = tile_choices(node, target, least=least)
    ways = [Way(tile=c.outputs, cycles=c.cycles, rough=GROWTH**n) for n, c in enumerate(choices)]
    for choice in narrow:
        rough = ROUGHNESS[choice.dtype]
        ways.append(Way(narrow=choice.dtype, cycles=choice.cycles, rough=rough))
        for n, c in enumerate(tile_choices(node, target, choice.group, least) if choice.many else (), 1):
            way = Way(tile=c.outputs, narrow=choice.dtype, cycles=c.cycles, rough=rough * NARROW_GROWTH**n)
            ways.append(way)
    if not (kept := worthwhile(ways, least)):
        return None
    taps = tuple(int(n) for n in node.operands[1].shape[:-2]) if node.op == "conv" else ()
    return Layer(_said(node), kept, taps, narrow[0].exact if narrow else 0.0)


def worthwhile(ways: Sequence[Way], least: float = LEAST_GAIN, exact: float = math.inf) -> tuple[Way, ...]:
    """Of ways whose errors grow, those that save something beside the ones before them and exact arithmetic; none that
    fails, which costs infinitely much."""
    kept: list[Way] = []
    for way in ways:
        if math.isfinite(way.cycles) and way.cycles <= (1 - least) * (kept[-1].cycles if kept else exact):
            kept.append(way)
    return tuple(kept)


def _as_known(layers: Mapping[str, Layer], known: Mapping[str, Choice]) -> dict[str, Layer]:
    """Layers whose fastest way is the one that is known; those of which nothing is known are exact."""
    found: dict[str, Layer] = {}
    for name, layer in layers.items():
        level = next((n for n, way in enumerate(layer.ways) if way.choice == known.get(name)), -1)
        if level >= 0:
            found[name] = replace(layer, ways=layer.ways[: level + 1])
    return found


def _nodes(graph: Graph, options: Options) -> list[Node]:
    """The nodes after the pass that makes tiles, those of regions included; without tiles, it is given the same."""
    return [node for each in graphs_within(walk(graph, context_of(options), "winograd")) for node in each.nodes]


def _said(node: Node) -> str:
    return ", ".join(node.sources) or node.output.name


def with_levels(options: Options, layers: Mapping[str, Layer], levels: Mapping[str, int]) -> Options:
    """The options with these layers faster."""
    ways = {name: layers[name].ways[level] for name, level in levels.items()}
    return replace(
        options,
        tiles=tuple((name, way.tile) for name, way in ways.items() if way.tile),
        halves=tuple(name for name, way in ways.items() if way.halves),
        narrow=tuple((products_of(name) if way.tile else name, way.narrow) for name, way in ways.items() if way.narrow),
    )


class _Search:
    """Compiles and runs a model with some tiles and others, until the bound holds."""

    def __init__(
        self,
        graph: Graph,
        model: str,
        options: Options,
        layers: Mapping[str, Layer],
        say: Say,
        feeds: Feeds | None = None,
    ):
        self.graph, self.model, self.layers, self.say = graph, model, layers, say
        self.bound, self.given = options.math, feeds
        made = replace(options.exact.alone, debug=False, generator="llvm")
        # Whether the device of a target is here is known when a bundle is loaded; the factors are the same on the host.
        if made.target.device is not None or why_not_here(made.target) is not None:
            made = replace(made, target=load_target("host"), host=None, device_for=())
        self.options = made
        self.machine = made.target.name

    def run(self) -> tuple[dict[str, int], dict[str, float]]:
        """The level of every layer that is faster, and the error of every output."""
        self.say("measuring what faster arithmetic costs")
        with self._bundle({}) as bundle:
            if self.given is not None:
                self.feeds: Runs = self.given.runs
            else:
                specs = [spec.at(bundle.dim_sizes) for spec in bundle.inputs]
                self.feeds = [random_inputs(specs, seed, self.graph.strings) for seed in range(SETS)]
            self.wanted = self._outputs(bundle)
        levels, errors = self._by_roughness()
        alone: dict[str, float] = {}
        room = ROOM * self.bound
        while not _largest(errors) <= self.bound:
            if not alone:
                self.say("measuring what each layer costs")
                alone = {name: _largest(self._errors({name: level})) for name, level in levels.items()}
            levels, alone = self._fewer(levels, alone, room)
            errors = self._errors(levels)
            room /= 2
        return levels, errors

    def _by_roughness(self) -> tuple[dict[str, int], dict[str, float]]:
        """The fastest ways of all layers that are no rougher than the bound allows; those of float32, where none is
        within it, and their errors.

        Where a rougher one is the fastest for some layers, as many of them take it as errors leave room for: errors
        that are independent of one another add up as squares.
        """
        ways = [way for layer in self.layers.values() for way in layer.ways]
        limits = sorted({way.rough for way in ways if way.narrow}, reverse=True)
        beyond: tuple[dict[str, int], float] | None = None
        for limit in (*limits, min(ROUGHNESS.values()) / 2):
            levels = {name: level for name, layer in self.layers.items() if (level := layer.fastest(limit)) >= 0}
            if beyond is not None and levels == beyond[0]:
                continue
            errors = self._errors(levels)
            if _largest(errors) <= self._allowed(levels):
                break
            beyond = levels, _largest(errors)
        if beyond is None or not _largest(errors) <= self._allowed(levels):
            return levels, errors
        return self._with_rougher(levels, errors, *beyond)

    def _allowed(self, levels: Mapping[str, int]) -> float:
        """The largest error that may be measured."""
        narrow = any(self.layers[name].ways[level].narrow for name, level in levels.items())
        return self.bound / MARGIN if narrow else self.bound

    def _with_rougher(
        self, levels: dict[str, int], errors: dict[str, float], beyond: Mapping[str, int], largest: float
    ) -> tuple[dict[str, int], dict[str, float]]:
        """Rougher ways for those layers that save most by them, within the bound.

        Args:
            levels, errors: what is within it; beyond, largest: the rougher ways, which are not.
        """
        least = _largest(errors)
        squares = max((ROOM * self._allowed(beyond)) ** 2 - least**2, 0.0)
        # Where there is room, the rougher ways, which go beyond it, have larger errors than what is within.
        share = squares / (largest**2 - least**2) if squares and math.isfinite(largest) else 0.0
        saved = {
            name: layer.cycles(levels.get(name, -1)) - layer.cycles(beyond.get(name, -1))
            for name, layer in self.layers.items()
        }
        most = sorted((name for name, cycles in saved.items() if cycles > 0), key=lambda name: -saved[name])
        count = int(share * len(most))
        while count:
            more = {**levels, **{name: beyond[name] for name in most[:count]}}
            found = self._errors(more)
            if _largest(found) <= self._allowed(more):
                return more, found
            count //= 2
        return levels, errors

    def _fewer(
        self, levels: Mapping[str, int], alone: Mapping[str, float], room: float
    ) -> tuple[dict[str, int], dict[str, float]]:
        """Smaller tiles for the layers of the largest errors, at least for one, until what is left is within `room`."""
        levels, alone = dict(levels), dict(alone)
        first = True
        while levels and (first or not hypot(*alone.values()) <= room):
            first = False
            name = max(alone, key=lambda each: (not math.isfinite(alone[each]), alone[each]))
            if levels[name] and math.isfinite(alone[name]):
                before, levels[name] = levels[name], levels[name] - 1
                ways = self.layers[name].ways
                alone[name] *= ways[before - 1].rough / ways[before].rough
            else:
                del levels[name], alone[name]
        return levels, alone

    def _errors(self, levels: Mapping[str, int]) -> dict[str, float]:
        """The error of every output with these layers faster."""
        with self._bundle(levels) as bundle:
            runs = self._outputs(bundle)
        found: dict[str, float] = {}
        for got, wanted in zip(runs, self.wanted, strict=True):
            for name, array in wanted.items():
                found[name] = max(found.get(name, 0.0), compare(name, got[name], array).error)
        return found

    def _outputs(self, bundle: Bundle) -> Runs:
        results = []
        for feed in self.feeds:
            bundle.reset_state()
            results.append({name: array.copy() for name, array in bundle.run(feed).items()})
        return results

    def _bundle(self, levels: Mapping[str, int]) -> Bundle:
        compiled = compile_graph(self.graph, self.model, with_levels(self.options, self.layers, levels))
        directory = temporary_directory("fast")
        return load(write_bundle(compiled, Path(directory.name) / "bundle")).keep(directory)


def _largest(errors: Mapping[str, float]) -> float:
    return max(errors.values(), default=0.0)


__all__ = ["Decision", "Feeds", "Layer", "Way", "decide", "layers_of", "with_levels", "worthwhile"]
