"""What node strategies are made of: shapes, operands, axes, and the table that they register in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from support.nodes.case import NodeCase

Draw = Callable[[st.SearchStrategy[Any]], Any]
SIZES = st.sampled_from([1, 2, 3, 5, 7, 1, 11, 0])
FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 3e37, -3e37, 0.5, -0.5, 1.5, 2.5, -1.0])
STRATEGIES: dict[str, Callable[[Draw], NodeCase]] = {}


def strategy(*names: str) -> Callable[[Callable[..., NodeCase]], Callable[..., NodeCase]]:
    """Registers a function of (draw, operator) for operators."""

    def register(make: Callable[..., NodeCase]) -> Callable[..., NodeCase]:
        for name in names:
            STRATEGIES[name] = lambda draw, name=name: make(draw, name)  # type: ignore[misc]
        return make

    return register


def shape_of(draw: Draw, low: int = 0, high: int = 5, least: int = 0) -> tuple[int, ...]:
    """A shape of so many dimensions whose elements are few."""
    shape = draw(st.lists(SIZES.filter(lambda n: n >= least), min_size=low, max_size=high))
    while math.prod(shape) > 3000:
        shape[shape.index(max(shape))] = 2
    return tuple(shape)


def array(
    draw: Draw, shape: Sequence[int], dtype: str = "float32", special: bool = False, low: float = -3, high: float = 3
) -> np.ndarray:
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    if dtype == "bool":
        return random.random(shape) < 0.5
    if dtype.startswith("float"):
        values = random.uniform(low, high, shape)
        if special and draw(st.booleans()):
            values = np.where(random.random(shape) < 0.3, random.choice(SPECIAL, shape), values)
        with np.errstate(over="ignore"):
            return np.asarray(values).astype(dtype)
    info = np.iinfo(dtype)
    least, most = (info.min, info.max) if special and draw(st.booleans()) else (max(low, info.min), min(high, info.max))
    return random.integers(int(least), int(most), shape, dtype=dtype, endpoint=True)


def broadcast(draw: Draw, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that broadcasts to this one."""
    kept = list(shape[draw(st.integers(0, len(shape))) :]) if shape else []
    return tuple(1 if draw(st.booleans()) else n for n in kept)


def one_of(draw: Draw, *values: Any) -> Any:
    return draw(st.sampled_from(values))


def axis_of(draw: Draw, rank: int) -> int:
    return draw(st.integers(-rank, rank - 1))


def axes_of(draw: Draw, rank: int, least: int = 1) -> list[int]:
    return draw(
        st.lists(st.integers(-rank, rank - 1), min_size=min(least, rank), max_size=rank, unique_by=lambda a: a % rank)
    )


def some(draw: Draw, **choices: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Attributes, each given or left out."""
    return {name: draw(values) for name, values in choices.items() if draw(st.booleans())}


def int64(values: Any) -> np.ndarray:
    return np.array(values, np.int64)


BOOL = st.integers(0, 1)
ALPHA = st.sampled_from([0.0, 0.1, 1.0, -0.5, 2.5])
