"""Conversions from and to the types that are only stored: float8, float4 and integers of 2 and 4 bits.

Everything is integer arithmetic on their bits, exact, with one rounding to nearest, halves to even. The formats are
those of "FP8 Formats for Deep Learning" (Micikevicius et al., 2022), of its variants without infinities and without a
negative zero (ONNX, "Float stored in 8 bits"), and of OCP Microscaling (float4_e2m1fn, float8_e8m0fnu).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import TensorType
from sterna.ops.formulas import at
from sterna.ops.operator import Application, Attribute, Case, Fusion, Operator, Types, unfit
from sterna.ops.types import present, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute

SINGLE_BIAS, SINGLE_FRACTION = 127, 23


@dataclass(frozen=True)
class Format:
    """A narrow float: a sign, an exponent and a fraction.

    Args:
        greatest: bits of the greatest finite number.
        overflow: bits of what lies beyond it, without the sign: infinity, NaN, or again the greatest.
        nan: bits of NaN.
        unsigned_zero: whether the bits of -0 mean NaN.
    """

    exponent: int
    fraction: int
    bias: int
    greatest: int
    overflow: int
    nan: int
    unsigned_zero: bool = False

    @property
    def sign(self) -> int:
        """The position of the sign."""
        return self.exponent + self.fraction


FORMATS = {
    "float8_e4m3fn": Format(4, 3, 7, 0x7E, 0x7F, 0x7F),
    "float8_e4m3fnuz": Format(4, 3, 8, 0x7F, 0x80, 0x80, unsigned_zero=True),
    "float8_e5m2": Format(5, 2, 15, 0x7B, 0x7C, 0x7E),
    "float8_e5m2fnuz": Format(5, 2, 16, 0x7F, 0x80, 0x80, unsigned_zero=True),
    "float4_e2m1fn": Format(2, 1, 1, 0x7, 0x7, 0x8),
}


def _or(a: Expr, b: Expr) -> Expr:
    return E.binary("or", a, b)


def _and(a: Expr, mask: int) -> Expr:
    return E.binary("and", a, mask)


def _left(a: Expr, count: int) -> Expr:
    return E.binary("shift_left", a, count) if count else a


def _right(a: Expr, count: int) -> Expr:
    return E.binary("shift_right", a, count) if count else a


def _nan() -> Expr:
    return E.const(math.nan, "float32")


# ---------------------------------------------------------------- to wide types
def decoded(value: Expr, kind: str) -> Expr:
    """The number that a byte holds: float32 for floats, int32 for integers."""
    bits = E.cast(value, "int32")
    if kind in dtypes.NARROW_INTEGERS:
        low, high = dtypes.limits(kind)
        bits = _and(bits, high - low)
        return E.binary("xor", bits, -low) + low if low else bits
    if kind == "float8_e8m0fnu":
        power = E.bitcast(_left(bits, SINGLE_FRACTION), "float32")
        tiny = E.select(E.compare("eq", bits, 0), E.const(2.0**-127, "float32"), power)
        return E.select(E.compare("eq", bits, 255), _nan(), tiny)
    f = FORMATS[kind]
    size = _and(bits, (1 << f.sign) - 1)
    fraction = E.cast(_and(bits, (1 << f.fraction) - 1), "float32")
    moved = _left(size, SINGLE_FRACTION - f.fraction) + ((SINGLE_BIAS - f.bias) << SINGLE_FRACTION)
    subnormal = fraction * 2.0 ** (1 - f.bias - f.fraction)
    number = E.select(size < 1 << f.fraction, subnormal, E.bitcast(moved, "float32"))
    number = E.select(E.compare("ne", _and(bits, 1 << f.sign), 0), -number, number)
    if kind == "float8_e5m2":
        number = E.select(
            E.compare("eq", size, f.overflow),
            E.select(_is_negative(bits, f), -math.inf, E.const(math.inf, "float32")),
            number,
        )
        return E.select(size > f.overflow, _nan(), number)
    if f.unsigned_zero:
        return E.select(E.compare("eq", _and(bits, 0xFF), f.nan), _nan(), number)
    return E.select(E.compare("eq", size, f.nan), _nan(), number) if kind == "float8_e4m3fn" else number


def _is_negative(bits: Expr, f: Format) -> Expr:
    return E.compare("ne", _and(bits, 1 << f.sign), 0)


# ---------------------------------------------------------------- from wide types
def encoded(value: Expr, kind: str, saturate: bool, rounding: str) -> Expr:
    """The byte for a float32 (floats) or int32 (integers, which wrap)."""
    if kind in dtypes.NARROW_INTEGERS:
        low, high = dtypes.limits(kind)
        return E.cast(_and(value, high - low), "uint8")
    bits = E.bitcast(value, "int32")
    if kind == "float8_e8m0fnu":
        return E.cast(_power(bits, saturate, rounding), "uint8")
    f = FORMATS[kind]
    size = _and(bits, 0x7FFFFFFF)
    cut = SINGLE_FRACTION - f.fraction
    # Normal: just enough is added that cutting bits off rounds. Subnormal: a whole number of the least steps.
    half = size + ((1 << (cut - 1)) - 1) + _and(_right(size, cut), 1)
    normal = _right(half, cut) - ((SINGLE_BIAS - f.bias) << f.fraction)
    steps = E.cast(E.unary("rint", E.unary("abs", value) * 2.0 ** (f.bias - 1 + f.fraction)), "int32")
    number = E.select(size < (SINGLE_BIAS + 1 - f.bias) << SINGLE_FRACTION, steps, normal)
    number = E.select(number > f.greatest, f.greatest if saturate else f.overflow, number)
    sign = _and(_right(bits, 31 - f.sign), 1 << f.sign)
    if f.unsigned_zero:
        sign = E.select(E.compare("eq", number, 0), 0, sign)
    return E.cast(E.select(E.unary("isnan", value), f.nan, _or(number, sign)), "uint8")


def _power(bits: Expr, saturate: bool, rounding: str) -> Expr:
    """The exponent of a float32, rounded; NaN and infinity become NaN."""
    exponent = _and(_right(bits, SINGLE_FRACTION), 0xFF)
    fraction = _and(bits, (1 << SINGLE_FRACTION) - 1)
    if rounding == "down":
        return exponent
    if rounding == "up":
        up = fraction > 0
    else:
        half = 1 << (SINGLE_FRACTION - 1)
        tie_up = E.binary("and", E.compare("eq", fraction, half), exponent > 0)
        up = _or(fraction > half, tie_up)
    limit = 0xFE if saturate else 0xFF
    up = E.binary("and", up, exponent < limit)
    return exponent + E.cast(up, "int32")


# ---------------------------------------------------------------- operators
def _decode_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    if x.dtype != attributes["kind"]:
        raise unfit(f"elements of type {x.dtype} are not {attributes['kind']}")
    return TensorType(wide_type(x.dtype), x.shape)


def _encode_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    if x.dtype != wide_type(attributes["to"]):
        raise unfit(f"elements of type {x.dtype} are not {wide_type(attributes['to'])}")
    return TensorType(attributes["to"], x.shape)


def wide_type(kind: str) -> str:
    """The type that conversions from and to a narrow type go through."""
    return "int32" if kind in dtypes.NARROW_INTEGERS else "float32"


def _decode(applied: Application) -> Tensor:
    return compute(applied.name, applied.output.shape, lambda *i: decoded(at(applied.input(0), i), applied["kind"]))


def _encode(applied: Application) -> Tensor:
    def body(*index: Any) -> Expr:
        return encoded(at(applied.input(0), index), applied["to"], applied["saturate"], applied["rounding"])

    return compute(applied.name, applied.output.shape, body)


_ALL_BYTES = np.arange(256, dtype=np.uint8)
_FINITE = (0.0, -0.0, 1.0, -1.5, 0.4789, 3e-3, 1e-7, -1e-7, 17.0, 18.0, 19.5, 448.0, 464.0, 465.0, 57344.0, 1e6, -1e6)
_TIES = (2.0**-10, 3 * 2.0**-10, 5.0, 2.5, 3.5, 0.25, 0.75, 6.5)
_NUMBERS = np.array([*_FINITE, *_TIES, math.nan, math.inf, -math.inf], np.float32)


def _cases() -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    down, up = [], []
    for kind in dtypes.NARROW:
        count = 1 << int(kind[-1]) if kind in dtypes.NARROW_INTEGERS else 16 if kind.startswith("float4") else 256
        down.append(Case((_ALL_BYTES[:count].view(dtypes.to_numpy(kind)),), {"kind": kind}))
        if kind in dtypes.NARROW_INTEGERS:
            up.append(Case((np.arange(-20, 20, dtype=np.int32),), {"to": kind}))
        else:
            up += [Case((_NUMBERS,), {"to": kind, "saturate": saturate}) for saturate in (True, False)]
    up += [Case((_NUMBERS,), {"to": "float8_e8m0fnu", "rounding": rounding}) for rounding in ("nearest", "down")]
    return tuple(down), tuple(up)


DECODE_CASES, ENCODE_CASES = _cases()
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "decode",
        "The numbers that a tensor of a narrow type holds: float32 for floats, int32 for integers.",
        single(_decode_type),
        _decode,
        Fusion.BROADCAST,
        (Attribute("kind", "dtype", "the narrow type", choices=dtypes.NARROW),),
        cases=DECODE_CASES,
        tags=frozenset({"elementwise"}),
    ),
    Operator(
        "encode",
        "Numbers in a narrow type: float32 is rounded to floats, int32 wraps to integers.",
        single(_encode_type),
        _encode,
        Fusion.BROADCAST,
        (
            Attribute("to", "dtype", "the narrow type", choices=dtypes.NARROW),
            Attribute("saturate", "bool", "whether what is too large becomes the greatest number, not NaN", True),
            Attribute("rounding", "string", "of float8_e8m0fnu", "up", ("up", "down", "nearest")),
        ),
        cases=ENCODE_CASES,
        tags=frozenset({"elementwise"}),
    ),
)
