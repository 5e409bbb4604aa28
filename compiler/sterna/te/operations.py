"""What single operations of expressions compute, on NumPy arrays: the meaning that every code generator is tested
against.

It is that of the docstrings in `te.expr`. Functions of `expr.MATH` are computed in float64 and rounded once; `Fma` on
types narrower than float64 likewise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sterna.errors import internal_error
from sterna.ir import dtypes
from sterna.te import expr as E
from sterna.te.expr import Expr

Array = np.ndarray[Any, Any]


def operation(expr: Expr, operands: list[Array]) -> Any:
    """One operation of an expression on the values of its operands; the result may be of a wider type."""
    return operator_of(expr)(*operands)


def operator_of(expr: Expr) -> Callable[..., Any]:
    """What an expression makes of the values of its operands: `operation` for who evaluates it often."""
    if isinstance(expr, E.Unary):
        return _unary(expr.op)
    if isinstance(expr, E.Binary):
        return partial(_binary, expr.op) if expr.op in ("pow", "div") else _BINARY[expr.op]
    if isinstance(expr, E.Compare):
        return _COMPARE[expr.op]
    if isinstance(expr, E.Fma):
        return _fma
    if isinstance(expr, E.Select):
        return np.where
    if isinstance(expr, E.Cast):
        return partial(cast, dtype=expr.dtype)
    if isinstance(expr, E.Nearest):
        return partial(_nearest, expr=expr)
    if isinstance(expr, E.Bitcast):
        target = dtypes.to_numpy(expr.dtype)
        return lambda a: a.view(target)
    raise internal_error(f"{type(expr).__name__} inside an expression")


def _nearest(value: Array, expr: E.Nearest) -> Array:
    low, high = dtypes.limits(expr.dtype)
    clipped = np.clip(np.where(np.isnan(value), np.float32(low - expr.zero), value), low - expr.zero, high - expr.zero)
    result: Array = (np.rint(clipped).astype(np.int32) + expr.zero).astype(dtypes.to_numpy(expr.dtype))
    return result


def cast(value: Array, dtype: str) -> Array:
    """`expr.Cast`: saturating from float to integer with 0 for NaN, wrapping between integers."""
    target = dtypes.to_numpy(dtype)
    if dtype == "bool":
        return np.asarray(value != 0)
    source = dtypes.from_numpy(value.dtype)
    if not (dtypes.is_float(source) and dtypes.is_integer(dtype)):
        return value.astype(target)
    least, greatest = dtypes.limits(dtype)
    wide = np.trunc(value.astype(np.float64))
    # The limits of 64-bit types are not float64 values: what reaches 2**63 is set afterwards.
    inside = (wide >= least) & (wide < float(greatest + 1))
    result = np.where(inside, wide, 0).astype(target)
    result = np.where(wide >= float(greatest + 1), target.type(greatest), result)
    return np.where(wide < least, target.type(least), result)


def constant(expr: Expr) -> Array:
    assert isinstance(expr, E.Const)
    return np.asarray(expr.value).astype(dtypes.to_numpy(expr.dtype))


def _fma(a: Array, b: Array, c: Array) -> Array:
    # In float64 the product of two float32 is exact; for float64 itself the extended type is the best there is.
    wide = np.longdouble if c.dtype == np.float64 else np.float64
    return np.asarray(a.astype(wide) * b.astype(wide) + c.astype(wide))


def _unary(op: str) -> Callable[[Array], Any]:
    if (function := _MATH.get(op)) is not None:
        return lambda a: function(a.astype(np.float64))
    return _UNARY[op]


def _binary(op: str, a: Array, b: Array) -> Any:
    integer = a.dtype.kind in "iu"
    if op == "pow":
        return _integer_power(a, b) if integer else np.power(a.astype(np.float64), b.astype(np.float64))
    if op == "div" and integer:
        quotient, rest = np.divmod(a, b)
        return quotient + ((rest != 0) & ((a < 0) != (b < 0))).astype(a.dtype)
    return _BINARY[op](a, b)


def _integer_power(a: Array, b: Array) -> Array:
    """Wrapping; a negative exponent gives the truncated reciprocal, and 0 for that of 0."""
    positive = np.power(a, np.maximum(b, b.dtype.type(0)))
    reciprocal = np.where(np.abs(a) == 1, np.where((b & 1) == 1, a, a * a), 0 * a)
    return np.where(b < 0, reciprocal, positive)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


def rounded_to_tf32(x: Array | np.floating[Any]) -> Array:
    """The nearest numbers of TF32, of halves those away from zero: what PTX's `cvt.rna.tf32.f32` gives."""
    given = np.asarray(x, np.float32)
    bits = (given.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(given), given, bits.view(np.float32))


_erf = np.frompyfunc(math.erf, 1, 1)

_MATH: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": lambda x: np.asarray(_erf(x), dtype=np.float64),
    "sigmoid": _sigmoid,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "logical_not": np.logical_not,
    "invert": np.invert,
    "flip_sign": lambda x: (
        x ^ x.dtype.type(np.iinfo(x.dtype).max // 2 + 1 if x.dtype.kind == "u" else ~np.iinfo(x.dtype).max)
    ),
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "trunc": np.trunc,
    "sqrt": np.sqrt,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "tf32": rounded_to_tf32,
}
_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floor_div": np.floor_divide,
    "mod": np.mod,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "short_product": np.multiply,
    "round_shift": lambda a, b: ((a.astype(np.int64) + ((1 << b.astype(np.int64)) >> 1)) >> b).astype(np.int32),
    "high_product": lambda a, b: ((a.astype(np.int64) * b + (1 << 30)) >> 31).astype(np.int32),
    "upper_product": lambda a, b: ((a.astype(np.int64) * b) >> 32).astype(np.int32),
}
_COMPARE: dict[str, Callable[..., Any]] = {
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
