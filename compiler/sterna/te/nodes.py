"""The nodes of value expressions, and how they are built.

An expression is an immutable tree over scalars; in the loop program the same nodes also carry vectors of `lanes`
elements. Positions (indices, loop bounds) are not expressions but `ir.integer.Int`, which is always canonical.

Building is done with Python's operators and the functions below, which fold constants and promote nothing: both
operands of an operator must have one type, a Python number takes the other operand's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar, Union

import numpy as np

from sterna.ir import dtypes
from sterna.ir.integer import Int, Symbol, of
from sterna.te.axis import Axis

ExprLike = Union["Expr", int, float, bool]
E = TypeVar("E", bound="Expr")

#: One-operand operations. The names are NumPy's where NumPy has them; `flip_sign` inverts the highest bit of an
#: integer, which turns an int8 x into the uint8 x + 128 and back; `tf32` rounds a float32 to TF32, which has ten bits
#: of a fraction: to nearest, halves away from zero.
UNARY = (
    *("neg", "abs", "sign", "logical_not", "invert", "flip_sign", "floor", "ceil", "rint", "trunc", "sqrt"),
    *("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "sigmoid", "isnan", "isinf"),
    "tf32",
)
#: Two-operand operations; minimum and maximum give NaN if either operand is NaN, as ONNX and NumPy do. `high_product`
#: is 2 a b / 2^32 of int32, halves up, not defined where both are the least number; `upper_product` is a b / 2^32 of
#: int32, rounded down; `short_product` is a b of int32 numbers that int16 could hold, which machines multiply faster;
#: `round_shift` is a / 2^b of int32, halves up, for b from 0 to 31, not defined where a and the half together leave
#: int32.
BINARY = (
    *("add", "sub", "mul", "div", "floor_div", "mod", "minimum", "maximum", "pow", "high_product", "short_product"),
    *("upper_product", "round_shift"),
    *("and", "or", "xor", "shift_left", "shift_right"),
)
COMPARE = ("lt", "le", "eq", "ne", "gt", "ge")
#: Operations that the math lowering replaces by arithmetic before code is generated.
MATH = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "sigmoid", "pow", "tf32")


#: 1.5 * 2**23 (2**52): added to a float of size below 2**22 (2**51), it leaves the nearest integer (halves to even, as
#: floats are rounded) in the low bits of the sum. And its bits, and the integers that they are.
SHIFTS = {"float32": (12582912.0, 0x4B400000, "int32"), "float64": (6755399441055744.0, 0x4338000000000000, "int64")}


#: What a node remembers of itself beside its fields.
_REMEMBERED = ("_hash", "_below", "_loads")


class Storage(Protocol):
    """What a load reads: a `te.Tensor`, or a `loops.Buffer` after lowering."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...


@dataclass(frozen=True)
class Expr:
    """A value. `dtype` is the element type, `lanes` the number of elements (1: a scalar)."""

    #: Names of the fields that hold operands.
    OPERANDS: ClassVar[tuple[str, ...]] = ()

    dtype: str
    lanes: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        values = self.__dict__
        values["_hash"] = hash((type(self), *values.values()))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined,no-any-return]

    # -- operators
    def __add__(self, other: ExprLike) -> Expr:
        return binary("add", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary("add", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary("sub", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary("sub", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary("mul", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary("mul", other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary("div", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary("div", other, self)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __lt__(self, other: ExprLike) -> Expr:
        return compare("lt", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return compare("le", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return compare("gt", self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return compare("ge", self, other)

    # -- structure
    def children(self) -> tuple[Expr, ...]:
        """Operands, in order."""
        return ()

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        """The same operation on other operands, with as many lanes as they have."""
        if not self.OPERANDS:
            return self
        new = object.__new__(type(self))
        values = new.__dict__
        values.update(self.__dict__)
        for kept in _REMEMBERED:
            values.pop(kept, None)
        values.update(zip(self.OPERANDS, children, strict=True))
        values["lanes"] = children[-1].lanes
        new.__post_init__()
        return new

    def changed(self: E, **fields: Any) -> E:
        """The node with other values in some fields: `dataclasses.replace`, and half of what lowering spends its time
        on."""
        new = object.__new__(type(self))
        values = new.__dict__
        values.update(self.__dict__)
        for kept in _REMEMBERED:
            values.pop(kept, None)
        count = len(values)
        values.update(fields)
        if len(values) != count:
            raise TypeError(f"{type(self).__name__} has no such field: {', '.join(fields)}")
        new.__post_init__()
        return new

    def text(self, show: Callable[[Expr], str]) -> str | None:
        """The node as text, for kinds of nodes that other levels add."""
        return None


@dataclass(frozen=True)
class Const(Expr):
    """A constant. `value` is a Python bool, int or float, already rounded to `dtype`."""

    value: bool | int | float = 0
    __hash__ = Expr.__hash__

    def __eq__(self, other: object) -> bool:
        # 0.0 and -0.0 differ, a NaN equals itself: what matters is the bits.
        if not isinstance(other, Const) or (self.dtype, self.lanes) != (other.dtype, other.lanes):
            return False
        return _same(self.value, other.value)

    def __post_init__(self) -> None:
        self.__dict__["_hash"] = hash((self.dtype, self.lanes, str(self.value)))


@dataclass(frozen=True)
class IndexValue(Expr):
    """An integer position used as a value; with lanes, the values index, index + stride, ..."""

    index: Int = None  # type: ignore[assignment]
    stride: int = 0
    __hash__ = Expr.__hash__


@dataclass(frozen=True)
class Load(Expr):
    """An element of a tensor.

    In the loop program `indices` holds one flat element offset, and a load of several lanes reads elements `stride`
    apart; only the first `active` of them (None: all) are read, the others are zero. A load of a tile has `rows`, each
    of consecutive elements, `pitch` elements from one to the next.
    """

    tensor: Storage = None  # type: ignore[assignment]
    indices: tuple[Int, ...] = ()
    stride: int = 1
    active: int | None = None
    rows: int = 0
    pitch: int = 0
    __hash__ = Expr.__hash__


@dataclass(frozen=True)
class Unary(Expr):
    op: str = ""
    a: Expr = None  # type: ignore[assignment]
    OPERANDS = ("a",)
    __hash__ = Expr.__hash__

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(frozen=True)
class Binary(Expr):
    op: str = ""
    a: Expr = None  # type: ignore[assignment]
    b: Expr = None  # type: ignore[assignment]
    OPERANDS = ("a", "b")
    __hash__ = Expr.__hash__

    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)


@dataclass(frozen=True)
class Compare(Expr):
    """A bool: the comparison of two values of one type. Comparisons with NaN are false, except `ne`."""

    op: str = ""
    a: Expr = None  # type: ignore[assignment]
    b: Expr = None  # type: ignore[assignment]
    OPERANDS = ("a", "b")
    __hash__ = Expr.__hash__

    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)


@dataclass(frozen=True)
class Fma(Expr):
    """a * b + c, rounded once where the target can, twice where it cannot; the only place where the two may differ."""

    a: Expr = None  # type: ignore[assignment]
    b: Expr = None  # type: ignore[assignment]
    c: Expr = None  # type: ignore[assignment]
    OPERANDS = ("a", "b", "c")
    __hash__ = Expr.__hash__

    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b, self.c)


@dataclass(frozen=True)
class Select(Expr):
    """`a` where `condition` (a bool) holds, else `b`. Both sides are evaluated: loads in them must be in bounds."""

    condition: Expr = None  # type: ignore[assignment]
    a: Expr = None  # type: ignore[assignment]
    b: Expr = None  # type: ignore[assignment]
    OPERANDS = ("condition", "a", "b")
    __hash__ = Expr.__hash__

    def children(self) -> tuple[Expr, ...]:
        return (self.condition, self.a, self.b)


@dataclass(frozen=True)
class Cast(Expr):
    """Conversion of type. From float to integer it truncates toward zero and clamps to the range, NaN gives 0; from
    integer to integer it wraps; to bool it asks whether the value differs from zero."""

    a: Expr = None  # type: ignore[assignment]
    OPERANDS = ("a",)
    __hash__ = Expr.__hash__

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(frozen=True)
class Bitcast(Expr):
    """The same bits read as another type of the same width."""

    a: Expr = None  # type: ignore[assignment]
    OPERANDS = ("a",)
    __hash__ = Expr.__hash__

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(frozen=True)
class Nearest(Expr):
    """The nearest integer to a float32, halves to even, plus `zero`, saturated to a type of few bits; NaN gives its
    least."""

    a: Expr = None  # type: ignore[assignment]
    zero: int = 0
    OPERANDS = ("a",)
    __hash__ = Expr.__hash__

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)


@dataclass(frozen=True)
class Reduce(Expr):
    """A reduction over `axes`, the whole body of a stage. Tensor expressions only.

    `combiner` is sum, prod, min, max, argmin, argmax, all, any or rescaled. `argmin` and `argmax` reduce pairs (value,
    index) and give the index of the first extreme value: `a` is the value, `index` the index. `rescaled` adds up
    `index`, a float, times exp(a - the greatest a); where `a` is -infinity nothing is added.
    """

    combiner: str = ""
    a: Expr = None  # type: ignore[assignment]
    axes: tuple[Axis, ...] = ()
    index: Expr | None = None
    __hash__ = Expr.__hash__

    def children(self) -> tuple[Expr, ...]:
        return (self.a,) if self.index is None else (self.a, self.index)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return self.changed(a=children[0], index=children[1] if len(children) > 1 else None)


# ---------------------------------------------------------------- building
def const(value: bool | int | float | np.generic, dtype: str) -> Const:
    """A constant, rounded to the type."""
    if dtypes.is_float(dtype):
        return Const(dtype, value=float(np.asarray(value).astype(dtypes.to_numpy(dtype))))
    if dtype == "bool":
        return Const(dtype, value=bool(value))
    return Const(dtype, value=int(value))


def as_expr(value: ExprLike, dtype: str) -> Expr:
    return value if isinstance(value, Expr) else const(value, dtype)


def index_value(index: Int | Symbol, dtype: str = "int64") -> Expr:
    """A position as a value of an integer type."""
    position = of(index) if isinstance(index, Symbol) else index
    return const(position.const, dtype) if position.is_const else IndexValue(dtype, index=position)


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    x, y = _pair(a, b)
    if isinstance(x, Const) and isinstance(y, Const) and op in _FOLD:
        with np.errstate(all="ignore"):
            dtype = dtypes.to_numpy(x.dtype)
            return const(_FOLD[op](dtype.type(x.value), dtype.type(y.value)), x.dtype)
    if op == "mul" and isinstance(y, Const) and y.value == 1:
        return x
    if op == "mul" and isinstance(x, Const) and x.value == 1:
        return y
    return Binary(x.dtype, op=op, a=x, b=y, lanes=x.lanes)


def compare(op: str, a: ExprLike, b: ExprLike) -> Expr:
    x, y = _pair(a, b)
    return Compare("bool", op=op, a=x, b=y, lanes=x.lanes)


def unary(op: str, a: Expr) -> Expr:
    if op == "neg" and isinstance(a, Const) and dtypes.is_float(a.dtype):
        return const(-a.value, a.dtype)
    return Unary("bool" if op in ("isnan", "isinf", "logical_not") else a.dtype, op=op, a=a, lanes=a.lanes)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    return binary("minimum", a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    return binary("maximum", a, b)


def select(condition: Expr, a: ExprLike, b: ExprLike) -> Expr:
    if isinstance(condition, Const):
        x, y = _pair(a, b)
        return x if condition.value else y
    x, y = _pair(a, b)
    return Select(x.dtype, condition=condition, a=x, b=y, lanes=x.lanes)


def fma(a: ExprLike, b: ExprLike, c: Expr) -> Expr:
    return Fma(c.dtype, a=as_expr(a, c.dtype), b=as_expr(b, c.dtype), c=c, lanes=c.lanes)


def cast(a: Expr, dtype: str) -> Expr:
    if a.dtype == dtype:
        return a
    if isinstance(a, Const) and a.dtype != "bool" and dtypes.is_float(dtype):
        return const(a.value, dtype)
    return Cast(dtype, a=a, lanes=a.lanes)


def bitcast(a: Expr, dtype: str) -> Expr:
    return Bitcast(dtype, a=a, lanes=a.lanes)


def both(*conditions: Expr | None) -> Expr | None:
    """The conjunction of the conditions that are not None; None if all of them are."""
    result: Expr | None = None
    for condition in conditions:
        if condition is not None:
            result = condition if result is None else binary("and", result, condition)
    return result


def in_range(index: Int, size: Int | int) -> Expr | None:
    """Whether 0 <= index < size; None where the bounds of its symbols already prove it."""
    lo, _hi = index.bounds()
    below = None if lo is not None and lo >= 0 else compare("ge", index_value(index), 0)
    limit = size if isinstance(size, Int) else Int({}, size)
    over = (index - limit).bounds()[1]
    above = None if over is not None and over < 0 else compare("lt", index_value(index), index_value(limit))
    return both(below, above)


_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "minimum": np.minimum,
    "maximum": np.maximum,
}


def _pair(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    if isinstance(a, Expr):
        other = as_expr(b, a.dtype)
        if a.dtype != other.dtype:
            raise TypeError(f"operands of two types, {a.dtype} and {other.dtype}")
        return a, other
    if isinstance(b, Expr):
        return as_expr(a, b.dtype), b
    raise TypeError("at least one operand must be an expression")


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(a == b)
