"""Arguments of operations between layers: they stand in the call, or in the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import axes_of
from sterna.frontends.keras.translation import Translation
from sterna.ir import dtypes
from sterna.ir.graph import Value


def tensor(t: Translation, value: Any, like: Value | None) -> Value:
    """An argument as a tensor; numbers are of the other operand's type, where that can hold them."""
    if isinstance(value, Value):
        return value
    array = np.asarray(value)
    if array.dtype == object or array.dtype.kind not in "fiub":
        raise error("E0109", f"{t.kind} of {value!r}"[:200])
    if like is not None and not (array.dtype.kind == "f" and not dtypes.is_float(like.dtype)):
        return t.constant(array, like.dtype)
    return t.constant(array, {"f": "float32", "i": "int32", "u": "int32", "b": "bool"}[array.dtype.kind])


def two_operands(t: Translation, names: Sequence[str] = ("x1", "x2", "x", "y", "a", "b")) -> tuple[Value, Value]:
    """Both operands, of one type."""
    given = [*t.args, *(t.kwargs[name] for name in names if t.kwargs.get(name) is not None)]
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        given = list(given[0])
    if len(given) < 2:
        raise error("E0108", f"{t.kind} takes two operands")
    first, second = given[:2]
    like = next((v for v in (first, second) if isinstance(v, Value)), None)
    one, other = tensor(t, first, like), tensor(t, second, like)
    one, other = promoted(t, (one, other))
    return one, other


def promoted(t: Translation, values: Sequence[Value]) -> list[Value]:
    """Tensors in the type that holds them all; integers beside floats become those floats."""
    found = {value.dtype for value in values}
    if len(found) < 2:
        return list(values)
    floats = {dtype for dtype in found if dtypes.is_float(dtype)} or found
    if len(floats) == 1:
        wide = next(iter(floats))
    else:
        wide = str(np.result_type(*(np.dtype("float32" if each == "bfloat16" else each) for each in floats)))
        wide = "float32" if wide == "float64" and "float64" not in found else wide
    return [t.cast(value, wide) for value in values]


def option(t: Translation, position: int, key: str, default: Any = None, *others: str) -> Any:
    """An argument that is no tensor: of the call, else of the configuration."""
    for name in (key, *others):
        if t.kwargs.get(name) is not None:
            return t.kwargs[name]
    if position < len(t.args):
        return t.args[position]
    for name in (key, *others):
        if t.layer.config.get(name) is not None:
            return t.layer.config[name]
    return default


def axes_in(t: Translation, x: Value, position: int = 1) -> tuple[int, ...]:
    """The dimensions that `axis` names, or all."""
    axis = option(t, position, "axis", None)
    given = range(x.type.rank) if axis is None else [axis] if isinstance(axis, int) else axis
    return axes_of(tuple(given), x.type.rank)
