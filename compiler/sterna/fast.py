"""`--math fast`: what is computed otherwise than the model says, for speed, within a bound measured on the model.

Convolutions get tiles (`passes.winograd`), products that wait for weights read them in float16
(`passes.halve_weights`). An estimate says which are worth it; the model is compiled with and without, both run on the
same inputs, and of every output the largest difference, relative to its largest magnitude, is taken. Where that exceeds
the bound, layers go back to smaller tiles, then to exact arithmetic: those first whose own error is largest, until the
model as a whole is within the bound.

    decided = decide(graph, name, options)
    compile_graph(graph, name, decided.options)
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from pathlib import Path

from sterna.bundle.writer import write_bundle
from sterna.compiled import Measured
from sterna.driver import compile_graph
from sterna.ir.graph import Graph, Node, graphs_within
from sterna.options import Options
from sterna.passes.context import context_of
from sterna.passes.halve_weights import reads_half
from sterna.passes.winograd import Tile, tile_choices
from sterna.pipeline import walk
from sterna.runtime import Bundle, load
from sterna.runtime.checks import compare
from sterna.runtime.here import why_not_here
from sterna.runtime.inputs import Array
from sterna.runtime.random_inputs import random_inputs
from sterna.targets.description import load_target

Say = Callable[[str], None]
Runs = Sequence[Mapping[str, Array]]

#: Sets of inputs that a model is measured on.
SETS = 2
#: Of the bound, what errors that were measured one by one may add up to: the whole has to keep within it.
ROOM = 0.7
#: How many times as large the errors of a tile are as those of the next smaller one, measured on random convolutions.
GROWTH = 2.0


@dataclass(frozen=True)
class Decision:
    """What was decided: the options to compile with, and what was measured."""

    options: Options
    measured: Measured


def decide(graph: Graph, model: str, options: Options, say: Say | None = None) -> Decision:
    """What may be faster in a model, by `options.math`.

    Args:
        model: its name as a C identifier.
        say: called with a few words at the start of every longer step.

    Raises:
        SternaError: the model cannot be compiled.
    """
    layers = _layers(graph, options)
    search = _Search(graph, model, options, layers, say or (lambda words: None))
    chosen, errors = search.run() if layers else ({}, {})
    made = _with(options, layers, chosen)
    tiles = tuple((layers[name].said, layers[name].taps, outputs) for name, outputs in made.tiles)
    halves = tuple(layers[name].said for name in made.halves)
    bound = options.math
    return Decision(made, Measured(bound, tuple(errors.items()), tiles, halves, len(layers), search.machine, SETS))


@dataclass(frozen=True)
class _Layer:
    """What can be faster.

    Args:
        said: the model's own name of it.
        taps, tiles: of a convolution, its filter, and the outputs of the tiles that are worth it, the smallest first;
            none of a product whose weights may be rounded.
    """

    said: str
    taps: Tile = ()
    tiles: tuple[Tile, ...] = ()

    @property
    def best(self) -> int:
        """The highest level; below the level 0 there is exact arithmetic."""
        return max(len(self.tiles) - 1, 0)


def _layers(graph: Graph, options: Options) -> dict[str, _Layer]:
    """The layers that can be faster, by the names of their results; products after the tiles that they may be of."""
    exact, target = options.exact, options.target
    found: dict[str, _Layer] = {}
    for node in _nodes(graph, exact):
        if choices := tile_choices(node, target):
            taps = tuple(int(n) for n in node.operands[1].shape[:-2])
            found[node.output.name] = _Layer(_said(node), taps, tuple(choice.outputs for choice in choices))
    tiled = _with(exact, found, {name: layer.best for name, layer in found.items()})
    for node in _nodes(graph, tiled):
        if reads_half(node, target):
            found[node.output.name] = _Layer(_said(node))
    return found


def _nodes(graph: Graph, options: Options) -> list[Node]:
    """The nodes after the pass that makes tiles, those of regions included; without tiles, it is given the same."""
    return [node for each in graphs_within(walk(graph, context_of(options), "winograd")) for node in each.nodes]


def _said(node: Node) -> str:
    return ", ".join(node.sources) or node.output.name


def _with(options: Options, layers: Mapping[str, _Layer], levels: Mapping[str, int]) -> Options:
    """The options with these layers faster."""
    tiles = tuple((name, layers[name].tiles[level]) for name, level in levels.items() if layers[name].tiles)
    return replace(options, tiles=tiles, halves=tuple(name for name in levels if not layers[name].tiles))


class _Search:
    """Compiles and runs a model with some tiles and others, until the bound holds."""

    def __init__(self, graph: Graph, model: str, options: Options, layers: Mapping[str, _Layer], say: Say):
        self.graph, self.model, self.layers, self.say = graph, model, layers, say
        self.bound = options.math
        made = replace(options.exact, debug=False, variants=(), single_file=False, generator="llvm")
        if why_not_here(made.target) is not None:
            made = replace(made, target=load_target("host"))
        self.options = made
        self.machine = made.target.name

    def run(self) -> tuple[dict[str, int], dict[str, float]]:
        """The level of every layer that is faster, and the error of every output."""
        self.say("measuring what faster arithmetic costs")
        with self._bundle({}) as bundle:
            specs = [spec.at(bundle.dim_sizes) for spec in bundle.inputs]
            self.feeds = [random_inputs(specs, seed, self.graph.strings) for seed in range(SETS)]
            self.wanted = self._outputs(bundle)
        levels = {name: layer.best for name, layer in self.layers.items()}
        errors = self._errors(levels)
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
                levels[name] -= 1
                alone[name] /= GROWTH
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
        compiled = compile_graph(self.graph, self.model, _with(self.options, self.layers, levels))
        directory = tempfile.TemporaryDirectory(prefix="sterna-fast-", ignore_cleanup_errors=True)
        return load(write_bundle(compiled, Path(directory.name) / "bundle")).keep(directory)


def _largest(errors: Mapping[str, float]) -> float:
    return max(errors.values(), default=0.0)


__all__ = ["Decision", "decide"]
