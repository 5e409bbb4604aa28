"""Which algorithm each layer has, by what kernels cost on a device: as the model says, by tiles, by rounded factors.

`sterna.fast` knows the ways and holds the bound; where it goes by estimates, this module measures: a way costs what the
kernels take that the model has with it, and not without.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from sterna.fast import LEAST_TRIED, Decision, Feeds, Layer, decide, layers_of, with_levels, worthwhile
from sterna.ir.graph import Graph
from sterna.options import Options
from sterna.quantize.samples import Data, Input, read_samples
from sterna.tuning.kernels import Task, tasks_of
from sterna_runtime.names import model_name

#: What a call of a kernel costs, by the rules or as it is known to be faster; infinite where it fails.
Cost = Callable[[Task], float]


def chosen(graph: Graph, options: Options, cost: Cost, feeds: Feeds | None = None) -> Decision:
    """The fastest ways of a model's layers within the bound `options.math`.

    Raises:
        SternaError: the model cannot be compiled.
    """
    options = replace(options, tuning=None)
    return decide(graph, model_name(graph.name), options, layers=measured_layers(graph, options, cost), feeds=feeds)


def measured_layers(graph: Graph, options: Options, cost: Cost) -> dict[str, Layer]:
    """The layers that have faster ways, with what those cost; of a layer the ways that are worth it."""
    layers = layers_of(graph, options, LEAST_TRIED)
    spent = _Spent(graph, options, cost)
    found: dict[str, Layer] = {}
    # Weights that are read sooner may be those of tiles: these come first.
    for halves in (False, True):
        own = {name: layer for name, layer in layers.items() if layer.ways[0].halves == halves}
        base = {name: len(layer.ways) - 1 for name, layer in found.items()}
        for name, layer in own.items():
            all_ways, ways = {**found, name: layer}, []
            for level, way in enumerate(layer.ways):
                before, after = spent.between(with_levels(options, found, base), with_levels(
                    options, all_ways, {**base, name: level}
                ))  # fmt: skip
                ways.append((before, replace(way, cycles=after)))
            exact = max(before for before, _ in ways)
            costs = [replace(way, cycles=_beside(exact, before, way.cycles)) for before, way in ways]
            if kept := worthwhile(costs, exact=exact):
                found[name] = replace(layer, ways=kept, exact=exact)
    return found


def _beside(exact: float, before: float, after: float) -> float:
    """What a layer costs by a way that replaces part of it: what it leaves as it was counts on both sides. Kernels that
    fail cost infinitely much: where the way replaces them, only its own count."""
    return after if math.isinf(before) else after + (exact - before)


class _Spent:
    """What models compiled by different options cost, each kernel measured once."""

    def __init__(self, graph: Graph, options: Options, cost: Cost):
        self._graph, self._cost = graph, cost
        self._known: dict[str, float] = {}
        self._calls: dict[tuple[object, ...], Mapping[str, Task]] = {}

    def between(self, before: Options, after: Options) -> tuple[float, float]:
        """The cost of the calls that only the one has, and of those that only the other has."""
        one, other = self._tasks(before), self._tasks(after)
        left, right = (Counter({name: task.calls for name, task in each.items()}) for each in (one, other))
        return self._sum(one, left - right), self._sum(other, right - left)

    def _tasks(self, options: Options) -> Mapping[str, Task]:
        key = (options.tiles, options.halves, options.narrow)
        if key not in self._calls:
            self._calls[key] = {task.kernel: task for task in tasks_of(self._graph, options)[0]}
        return self._calls[key]

    def _sum(self, tasks: Mapping[str, Task], calls: Counter[str]) -> float:
        for name in calls:
            if name not in self._known:
                self._known[name] = self._cost(tasks[name])
        return sum(count * self._known[name] for name, count in calls.items())


def feeds_of(graph: Graph, data: Data) -> Feeds:
    """Samples of what a model will see.

    Raises:
        SternaError: as of `quantize.samples.read_samples`.
    """
    inputs = tuple(
        Input(v.name, v.dtype, tuple(int(n) if n.is_const else None for n in v.shape)) for v in graph.arguments
    )
    name = os.fspath(data) if isinstance(data, (str, os.PathLike)) else "arrays in memory"
    return Feeds(read_samples(data, inputs).feeds, Path(name).name)
