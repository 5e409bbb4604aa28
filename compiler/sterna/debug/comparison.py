"""Tensors beside what they should be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sterna.errors import SternaError
from sterna.ir.graph import Graph, Value
from sterna.ir.limits import memory_of
from sterna_runtime.checks import TensorCheck, compare
from sterna_runtime.inputs import Array

Inputs = Mapping[str, Array]
Run = Callable[[Inputs], Mapping[str, Array]]
Again = Callable[[Inputs, Iterable[str]], Mapping[str, Array]]


Checks = tuple[TensorCheck, ...]


@dataclass(frozen=True)
class Difference:
    """The first tensor that is wrong.

    Args:
        stage: what made it so: "import", a pass, "kernels" or "memory".
        node, kernel: the bundle's node and kernel that compute it, where a kernel is at fault.
        sources: the names of the model's nodes in it.
    """

    check: TensorCheck
    stage: str
    node: str = ""
    kernel: str = ""
    sources: tuple[str, ...] = ()


def worst(runs: Iterable[Sequence[TensorCheck]], tolerance: float) -> Checks:
    """Of every tensor the worst of several runs."""
    found: dict[str, TensorCheck] = {}
    for check in (check for checks in runs for check in checks):
        known = found.get(check.name)
        if known is None or (known.within(tolerance), -known.error) > (check.within(tolerance), -check.error):
            found[check.name] = check
    return tuple(found.values())


def with_spread(
    checks: Checks, run: Run, inputs: Inputs, wanted: Mapping[str, Array], again: Again | None = None
) -> Checks:
    """The checks with how far the reference is from itself: in another order of operations, and for inputs that are
    one unit in the last place away. What lies between 0 and 1 is taken to be made of terms of that size, and to be
    rounded with them.

    Args:
        run, wanted: the reference, and what it gives for `inputs`.
        again: the reference in another order of operations.
    """
    random = np.random.default_rng(0)
    others = [run({name: beside(array, random) for name, array in inputs.items()})]
    if again is not None:
        others.append(again(inputs, ()))
    result = []
    for check in checks:
        array = wanted[check.name]
        spread = max(
            (compare(check.name, other[check.name], array).error for other in others if check.name in other),
            default=0.0,
        )
        if array.dtype.kind == "f" and array.size and (array >= 0).all() and (array <= 1).all() and check.largest > 0:
            spread = max(spread, float(np.finfo(array.dtype).eps) / 4 / check.largest)
        result.append(replace(check, spread=spread if math.isfinite(spread) else 0.0))
    return tuple(result)


def beside(array: Array, random: np.random.Generator) -> Array:
    """Floats one unit in the last place away, up or down; anything else as it is."""
    if array.dtype.kind != "f":
        return array
    away = np.where(random.random(array.shape) < 0.5, -np.inf, np.inf).astype(array.dtype)
    result: Array = np.nextafter(array, away)
    return result


def nearby(graph: Graph) -> Graph:
    """The graph with its float constants one unit in the last place away: what rounding might have made of it. A model
    whose inputs are integers has nothing else to be rounded otherwise."""
    random = np.random.default_rng(1)
    moved: dict[Value, Value] = {}
    for value in graph.constants():
        if value.data is not None and memory_of(value.data) == value.data.nbytes:
            moved[value] = replace(value, data=beside(value.data, random))
    nodes = (replace(n, inputs=tuple(moved.get(v, v) if v is not None else v for v in n.inputs)) for n in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


__all__ = [
    "Checks",
    "Difference",
    "Inputs",
    "Run",
    "TensorCheck",
    "beside",
    "compare",
    "nearby",
    "with_spread",
    "worst",
]


def is_users(mistake: Exception) -> bool:
    """Whether an error is about the model, and not one that a wrong pass ran into."""
    ours = {"E0901", "E0304", "E0305", "E0306"}
    return isinstance(mistake, SternaError) and not ours & {*mistake.codes}


def said(mistake: Exception) -> str:
    """An error in a line."""
    if isinstance(mistake, SternaError):
        first = mistake.diagnostics[0]
        return f"{first.code}: {first.title}{f' ({first.where[0]})' if first.where else ''}"
    return f"{type(mistake).__name__}: {mistake}"
