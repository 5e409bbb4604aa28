"""Floats to integers of 64 bits as arithmetic of float64, for vectors of processors that convert to 32 bits only.

A whole number t of float64 is hi * 2**32 + lo, where hi is t / 2**32 to the nearest, and both are exact: the bits
of their sums with 1.5 * 2**52 are those of 1.5 * 2**52 and the integers. Of hi a shift keeps the lower word; what the
other sum has too much in the upper word is taken off hi beforehand, so that both together are the integer.
"""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.loops.lanewise import bits, cast, comparison, constant, fma, operation, select, unary
from sterna.te import expr as E
from sterna.te.expr import Expr

_WORD = 2.0**32
_MAGIC = 1.5 * 2.0**52
#: The upper word of _MAGIC's bits.
_EXCESS = 0x43380000


def is_long_integer(node: Expr) -> bool:
    """Whether it is a float as an integer of 64 bits."""
    return isinstance(node, E.Cast) and node.dtype in ("int64", "uint64") and dtypes.is_float(node.a.dtype)


def of_words(node: E.Cast) -> Expr:
    """The same value: truncated, clamped to the type, and 0 for what is no number."""
    least, most = dtypes.limits(node.dtype)
    x = cast(node.a, "float32") if node.a.dtype in dtypes.HALVES else node.a
    if least:  # else a NaN becomes `least`
        x = select(comparison("eq", x, x), x, constant(0.0, x))
    x = select(comparison("gt", x, float(least)), x, constant(float(least), x))
    x = cast(unary("trunc", x), "float64")
    shifted = _MAGIC - _EXCESS
    high = fma(x, 1 / _WORD, shifted)
    low = operation("add", fma(operation("sub", high, shifted), -_WORD, x), _MAGIC)
    upper = operation("shift_left", bits(high, node.dtype), 32)
    whole = operation("add", upper, bits(low, node.dtype))
    return select(comparison("ge", x, float(most + 1)), constant(most, whole), whole)
