"""Float tensors whose elements are known as shares of expressions over the model's dimensions.

Some exporters compute sizes in floats: the width of what a stride of 16 leaves is (float(width) - 1) / 16 + 1, without
what is behind the point. Numerators and divisors are followed as long as floats hold the exact number, so that the
integers that come of it are those that the model would compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.division import ceil_div
from sterna.ir.graph import Array, Value
from sterna.ir.integer import Int, as_int
from sterna.ops.arrangements import LARGEST, MOVES, object_array

#: Integers up to 2 to the power of this are exact, by type.
_EXACT = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_MOST_DIVISOR = 1 << 16


@dataclass(frozen=True)
class Share:
    """A numerator by a positive number, and nothing else if that is a power of two; of others what is before and behind
    the point is known, but a float holds only what is nearest."""

    numerator: Int
    divisor: int = 1

    @property
    def is_exact(self) -> bool:
        return self.divisor & (self.divisor - 1) == 0

    def floor(self) -> Int:
        return self.numerator // self.divisor

    def ceil(self) -> Int:
        return ceil_div(self.numerator, self.divisor)

    def truncated(self) -> Int | None:
        """Without what is behind the point; None where the sign is not known."""
        lo, hi = self.numerator.bounds()
        if lo is not None and lo >= 0:
            return self.floor()
        return self.ceil() if hi is not None and hi <= 0 else None


def shares_of(op: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any], dtype: str) -> Array | None:
    """The elements of an operator's float result, if they follow from its operands; else None."""
    if dtype not in _EXACT:
        return None
    if op == "cast":
        return _from_integers(inputs[0], dtype)
    if not any(v is not None and v.shares is not None for v in inputs):
        return None
    known = [array for v in inputs if v is not None and (array := _known(v)) is not None]
    if len(known) < len(inputs):
        return None
    if op in MOVES:
        return MOVES[op](known, attributes)
    return _fitting(_RULES[op](known), dtype) if op in _RULES else None


def integers_of(value: Value | None) -> Array | None:
    """What a cast to integers makes of a tensor of shares, as `Value.contents`."""
    if value is None or value.shares is None:
        return None
    return _all_of(value.shares, [share.truncated() for share in value.shares.reshape(-1)])


def _from_integers(value: Value | None, dtype: str) -> Array | None:
    if value is None:
        return None
    if value.shares is not None:  # of another float type
        exact = all(share.is_exact for share in value.shares.reshape(-1))
        return _fitting(value.shares, dtype) if exact else None
    contents = value.contents
    return None if contents is None else _fitting(_mapped(Share, contents), dtype)


def _known(value: Value) -> Array | None:
    """Shares, exact constants, or integers that say where elements are."""
    if value.shares is not None or value.data is None or value.data.size > LARGEST:
        return value.shares
    if dtypes.is_integer(value.dtype):
        return object_array([as_int(int(n)) for n in value.data.reshape(-1)], value.data.shape)
    if value.dtype not in _EXACT or not np.isfinite(value.data).all():
        return None
    exact = [Fraction(float(n)) for n in value.data.reshape(-1)]
    if any(n.denominator > _MOST_DIVISOR for n in exact):
        return None
    return object_array([Share(as_int(n.numerator), n.denominator) for n in exact], value.data.shape)


def _fitting(array: Array | None, dtype: str) -> Array | None:
    """The shares, if the type holds each of them: exactly, or one division of exact numbers by another one, which is on
    the right side of every integer."""
    most = 1 << _EXACT[dtype]
    for share in () if array is None else array.reshape(-1):
        lo, hi = share.numerator.bounds()
        room = most if share.is_exact else most >> 1
        if lo is None or hi is None or max(-lo, hi) + share.divisor > room:
            return None
    return array


def _all_of(like: Array, elements: Sequence[Any]) -> Array | None:
    return None if any(element is None for element in elements) else object_array(elements, like.shape)


def _mapped(function: Callable[[Any], Any], array: Array) -> Array:
    return object_array([function(element) for element in array.reshape(-1)], array.shape)


def _made(numerator: Int, divisor: int) -> Share:
    common = math.gcd(divisor, numerator.const, *numerator.terms.values())
    terms = {m: c // common for m, c in numerator.terms.items()}
    return Share(Int(terms, numerator.const // common), divisor // common)


def _each(combine: Callable[[Share, Share], Share | None]) -> Callable[[Sequence[Array]], Array | None]:
    """A rule by elements, of exact numbers."""

    def rule(arrays: Sequence[Array]) -> Array | None:
        a, b = np.broadcast_arrays(*arrays)
        pairs = list(zip(a.reshape(-1), b.reshape(-1), strict=True))
        if not all(x.is_exact and y.is_exact for x, y in pairs):
            return None
        return _all_of(a, [combine(x, y) for x, y in pairs])

    return rule


def _sum(a: Share, b: Share) -> Share:
    return _made(a.numerator * b.divisor + b.numerator * a.divisor, a.divisor * b.divisor)


def _negative(a: Share) -> Share:
    return Share(-a.numerator, a.divisor)


def _quotient(a: Share, b: Share) -> Share | None:
    if not b.numerator.is_const or int(b.numerator) == 0:
        return None
    by = int(b.numerator)
    found = _made(a.numerator * (b.divisor if by > 0 else -b.divisor), a.divisor * abs(by))
    return found if found.is_exact or a.divisor == b.divisor == 1 else None


_RULES: Mapping[str, Callable[[Sequence[Array]], Array | None]] = {
    "add": _each(_sum),
    "sub": _each(lambda a, b: _sum(a, _negative(b))),
    "mul": _each(lambda a, b: _made(a.numerator * b.numerator, a.divisor * b.divisor)),
    "div": _each(_quotient),
    "neg": lambda arrays: _mapped(_negative, arrays[0]),
    "floor": lambda arrays: _mapped(lambda share: Share(share.floor()), arrays[0]),
    "ceil": lambda arrays: _mapped(lambda share: Share(share.ceil()), arrays[0]),
}
