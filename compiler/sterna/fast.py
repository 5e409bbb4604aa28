"""`--math fast`: what is computed otherwise than the model says, for speed, within a bound measured on the model.

Today that is the tiles of convolutions (`passes.winograd`). An estimate says which are worth it; the model is compiled
with and without them, both run on the same inputs, and of every output the largest difference, relative to its
largest magnitude, is taken. Where that exceeds the bound, convolutions go back to smaller tiles, then to none: those
first whose own error is largest, until the model as a whole is within the bound.

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
from sterna.passes.winograd import Tile, TileChoice, tile_choices
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
    """The tiles that a model may have, by `options.math`.

    Args:
        model: its name as a C identifier.
        say: called with a few words at the start of every longer step.

    Raises:
        SternaError: the model cannot be compiled.
    """
    layers = _layers(graph, options)
    search = _Search(graph, model, options, layers, say or (lambda words: None))
    chosen, errors = search.run() if layers else ({}, {})
    picked = {name: layers[name].choices[level] for name, level in chosen.items()}
    options = replace(options, tiles=tuple((name, choice.outputs) for name, choice in picked.items()))
    tiles = tuple((layers[name].said, layers[name].taps, choice.outputs) for name, choice in picked.items())
    return Decision(options, Measured(options.math, tuple(errors.items()), tiles, len(layers), search.machine, SETS))


@dataclass(frozen=True)
class _Layer:
    """A convolution that tiles are worth it for.

    Args:
        said: the model's own name of it.
        choices: its tiles, the smallest first.
    """

    said: str
    taps: Tile
    choices: tuple[TileChoice, ...]


def _layers(graph: Graph, options: Options) -> dict[str, _Layer]:
    """The convolutions that tiles are worth it for, by the names of their results."""
    found: dict[str, _Layer] = {}
    for each in graphs_within(walk(graph, context_of(options.exact), BEFORE)):
        for node in each.nodes:
            if choices := tile_choices(node, options.target):
                found[node.output.name] = _layer(node, choices)
    return found


#: The pass after which convolutions are what `passes.winograd` is given.
BEFORE = "phases"


def _layer(node: Node, choices: tuple[TileChoice, ...]) -> _Layer:
    taps = tuple(int(n) for n in node.operands[1].shape[:-2])
    return _Layer(", ".join(node.sources) or node.output.name, taps, choices)


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
        """The level of every layer that has tiles, and the error of every output."""
        self.say("measuring what faster arithmetic costs")
        with self._bundle({}) as bundle:
            specs = [spec.at(bundle.dim_sizes) for spec in bundle.inputs]
            self.feeds = [random_inputs(specs, seed, self.graph.strings) for seed in range(SETS)]
            self.wanted = self._outputs(bundle)
        levels = {name: len(layer.choices) - 1 for name, layer in self.layers.items()}
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
        """The error of every output with these layers by tiles."""
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
        tiles = tuple((name, self.layers[name].choices[level].outputs) for name, level in levels.items())
        compiled = compile_graph(self.graph, self.model, replace(self.options, tiles=tiles))
        directory = tempfile.TemporaryDirectory(prefix="sterna-fast-", ignore_cleanup_errors=True)
        return load(write_bundle(compiled, Path(directory.name) / "bundle")).keep(directory)


def _largest(errors: Mapping[str, float]) -> float:
    return max(errors.values(), default=0.0)


__all__ = ["Decision", "decide"]
