"""Small integer inputs of a model that decide shapes inside it: found from the shapes that the model declares.

Where an operand must be known and is computed from such an input, values for the input are tried: those that its
declared results suggest. One that leads to just the declared shapes is kept, and the bundle tests at run time that the
input has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations, product

import numpy as np

from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, TensorType
from sterna.ir.printer import print_graph

LONGEST = 8  # elements of an input that may be a shape
MOST_TRIES = 200

Pins = Mapping[str, Array]
Attempt = Callable[[Pins, Mapping[str, Array]], Graph]


def find(types: Mapping[str, TensorType], results: Iterable[tuple[int, ...]], attempt: Attempt) -> Graph | None:
    """The graph for the only values of such inputs that fit the declared results, or None.

    Args:
        types: of the model's inputs.
        results: declared shapes of the model's outputs.
        attempt: reads the model for values of some inputs, testing some of their elements (masks) at run time; fails
            where the results are not the declared ones.
    """
    shapes = list(dict.fromkeys(results))
    names = [name for name, kind in types.items() if _may_be_shape(kind)]
    sizes = [size for kind in types.values() for size in kind.shape if not _may_be_shape(kind)]
    dims = [int(size) for size in sizes if size.is_const]
    tries = 0
    for count in range(1, min(len(names), 3) + 1):
        for chosen in combinations(names, count):
            options = [list(_candidates(types[name], shapes, dims)) for name in chosen]
            fitting: list[dict[str, Array]] = []
            for values in product(*options):
                tries += 1
                if tries > MOST_TRIES:
                    return None
                pins = dict(zip(chosen, values, strict=True))
                if _succeeds(attempt, pins) is not None:
                    fitting.append(pins)
            if fitting:
                return _agreed(attempt, fitting)
    return None


def _may_be_shape(kind: TensorType) -> bool:
    return kind.dtype in ("int32", "int64") and kind.is_static and kind.rank <= 1 and 0 < int(kind.elements) <= LONGEST


def _candidates(kind: TensorType, shapes: Iterable[tuple[int, ...]], dims: Iterable[int]) -> Iterator[Array]:
    """Values for an input: declared shapes, parts of them, and parts with a 1 put in."""
    size = int(kind.elements)
    seen: set[tuple[int, ...]] = set()
    for shape in shapes:
        rows = [shape] if len(shape) == size else list(combinations(shape, size))
        if len(shape) >= size > 1:
            rows += [(*r[:n], 1, *r[n:]) for r in combinations(shape, size - 1) for n in range(size)]
        for row in rows:
            if row not in seen:
                seen.add(row)
                yield np.array(row, dtypes.to_numpy(kind.dtype)).reshape(kind.sizes)
    if size == 1:
        for dim in dict.fromkeys(dims):
            if (dim,) not in seen:
                yield np.full(kind.sizes, dim, dtypes.to_numpy(kind.dtype))


def _succeeds(attempt: Attempt, pins: Pins, masks: Mapping[str, Array] | None = None) -> Graph | None:
    try:
        return attempt(
            pins, {name: np.ones(value.shape, np.bool_) for name, value in pins.items()} if masks is None else masks
        )
    except SternaError:
        return None


def _agreed(attempt: Attempt, fitting: list[dict[str, Array]]) -> Graph | None:
    """The graph that all fitting values lead to, if it is one: elements that change nothing are not tested."""
    first = fitting[0]
    free = {name: np.zeros(value.shape, np.bool_) for name, value in first.items()}
    base = _text(_succeeds(attempt, first, free))
    masks = {name: np.ones(value.shape, np.bool_) for name, value in first.items()}
    for name, value in first.items():
        for place in np.ndindex(value.shape):
            others = []
            for step in (1, 6):
                changed = value.copy()
                changed[place] += step
                others.append(_text(_succeeds(attempt, {**first, name: changed}, free)))
            masks[name][place] = any(text != base for text in others)
    for pins in fitting[1:]:
        if any((pins[name][masks[name]] != first[name][masks[name]]).any() for name in first):
            return None
    return _succeeds(attempt, first, masks)


def _text(graph: Graph | None) -> str:
    if graph is None:
        return ""
    data = [f"{value.name} {value.data.tobytes().hex()}" for value in graph.constants() if value.data is not None]
    return "\n".join([print_graph(graph), *data])
