"""Integer tensors whose elements are known as expressions over the model's dimensions.

Exporters compute shapes with ordinary operators: Shape, Gather, Concat, arithmetic. Where dimensions are open, such a
tensor has no constant elements, yet each is an `Int`; these rules carry them through the operators that appear there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.division import divide_exactly
from sterna.ir.extremum import maximum, minimum
from sterna.ir.graph import Array, Value
from sterna.ir.integer import Int, as_int
from sterna.ir.sizes import BIND
from sterna.ops.arrangements import LARGEST, MOVES, object_array
from sterna.ops.shares import integers_of


def contents_of(op: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> Array | None:
    """The elements of an operator's result, if they follow from its operands' contents and constants; else None."""
    if op == "dimensions":
        return symbolic([as_int(n) for n in attributes["sizes"]])
    if op == BIND:
        return scalar(as_int(attributes["size"][0]))
    if op == "cast" and (cast := integers_of(inputs[0])) is not None and dtypes.is_integer(attributes["to"]):
        return cast
    rule = _RULES.get(op)
    if rule is None or not any(v is not None and v.contents is not None for v in inputs):
        return None
    arrays: list[Array] = []
    for value in inputs:
        known = None if value is None else _known(value)
        if known is None:
            return None
        arrays.append(known)
    return rule(arrays, attributes)


def _known(value: Value) -> Array | None:
    if value.contents is not None:
        return value.contents
    data = value.data
    if data is None or data.size > LARGEST or not (dtypes.is_integer(value.dtype) or value.dtype == "bool"):
        return None
    return object_array([as_int(int(n)) for n in data.reshape(-1)], data.shape)


def symbolic(elements: Sequence[Int]) -> Array:
    """Contents of a vector."""
    return object_array(elements, (len(elements),))


def scalar(element: Int) -> Array:
    """Contents of a tensor without dimensions."""
    return object_array([element], ())


def constant_array(contents: Array, dtype: str) -> Array | None:
    """The contents as a plain array, if no element depends on a dimension."""
    if all(n.is_const for n in contents.reshape(-1)):
        return np.array([int(n) for n in contents.reshape(-1)], dtypes.to_numpy(dtype)).reshape(contents.shape)
    return None


def _each(combine: Callable[[Int, Int], Int | None]) -> Callable[[Sequence[Array], Mapping[str, Any]], Array | None]:
    def rule(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
        a, b = np.broadcast_arrays(*arrays)
        results = [combine(x, y) for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)]
        known = [r for r in results if r is not None]
        return object_array(known, a.shape) if len(known) == len(results) else None

    return rule


def _quotient(a: Int, b: Int) -> Int | None:
    """ONNX divides integers toward zero, which is the floor for what is not negative."""
    exact = divide_exactly(a, b)
    if exact is not None:
        return exact
    lo, hi = a.bounds()
    if not b.is_const or b.const <= 0:
        return None
    if lo is not None and lo >= 0:
        return a // b
    return -(-a // b.const) if hi is not None and hi <= 0 else None


def _remainder(a: Int, b: Int) -> Int | None:
    """The remainder that ONNX's Mod gives, whichever sign rule it follows: of what is not negative."""
    lo = a.bounds()[0]
    return a % b if b.is_const and b.const > 0 and lo is not None and lo >= 0 else None


def _equal(a: Int, b: Int) -> Int | None:
    lo, hi = (a - b).bounds()
    if lo == 0 and hi == 0:
        return as_int(1)
    return as_int(0) if (lo is not None and lo > 0) or (hi is not None and hi < 0) else None


def _greater(a: Int, b: Int) -> Int | None:
    """1 or 0 where the bounds of both say which."""
    lo, hi = (a - b).bounds()
    if lo is not None and lo > 0:
        return as_int(1)
    return as_int(0) if hi is not None and hi <= 0 else None


def _not(a: Int | None) -> Int | None:
    return None if a is None else 1 - a


def _where(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    condition, a, b = np.broadcast_arrays(*arrays)
    if not all(c.is_const for c in condition.reshape(-1)):
        return None
    rows = zip(condition.reshape(-1), a.reshape(-1), b.reshape(-1), strict=True)
    return object_array([x if int(c) else y for c, x, y in rows], condition.shape)


def _product(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    if len(attributes["axes"]) != arrays[0].ndim:
        return None
    total = as_int(1)
    for n in arrays[0].reshape(-1):
        total = total * n
    return object_array([total], [1] * arrays[0].ndim if attributes["keep_dims"] else [])


_RULES: dict[str, Callable[[Sequence[Array], Mapping[str, Any]], Array | None]] = {
    "add": _each(lambda a, b: a + b),
    "sub": _each(lambda a, b: a - b),
    "mul": _each(lambda a, b: a * b),
    "div": _each(_quotient),
    "mod": _each(_remainder),
    "minimum": _each(minimum),
    "maximum": _each(maximum),
    "equal": _each(_equal),
    "greater": _each(_greater),
    "less": _each(lambda a, b: _greater(b, a)),
    "greater_equal": _each(lambda a, b: _not(_greater(b, a))),
    "less_equal": _each(lambda a, b: _not(_greater(a, b))),
    "where": _where,
    **MOVES,
    "cast": lambda arrays, a: arrays[0] if dtypes.is_integer(a["to"]) else None,
    "neg": lambda arrays, a: object_array([-n for n in arrays[0].reshape(-1)], arrays[0].shape),
    "reduce_prod": _product,
}
