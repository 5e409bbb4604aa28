"""Sums of bytes become bytes by one product of 64 bits and a shift, where the target multiplies so and has no float64.

What models say is done in two roundings (TensorFlow Lite's fixed point: a high product rounded half up, then a shift),
or in float64 (its fully connected layers). The first is one product exactly, where nothing leaves the words: rounding
down twice is rounding down once. For the second a multiplier of 31 bits is tried on the one place where each result
begins: both ways of scaling never decrease, so if they agree where each of at most 256 results begins, they agree
everywhere. Where vectors have high products that round, the first stays as it is.
"""

from __future__ import annotations

import math

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, Value
from sterna.ops.multiply_shift import MOST_SHIFT
from sterna.passes.context import PassContext
from sterna.passes.rewriting import Rewriting, constant_data

#: Half of the first rounding's unit, of a product of 64 bits.
_HALF = 1 << 30
_NEAR = 8


def applies(context: PassContext) -> bool:
    return context.target.wide_products or context.target.high_products


def scale_in_integers(graph: Graph, all_of_them: bool = True) -> Graph:
    """The graph with such scalings as `multiply_shift`: all, or those in float64."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if not ((all_of_them and _two_roundings(node, rewriting)) or _by_float64(node, rewriting)):
            rewriting.keep(node)
    return rewriting.finish()


def _two_roundings(node: Node, rewriting: Rewriting) -> bool:
    """A `fixed_multiply` that rounds halves up, or whose numbers are small: none leaves 32 bits."""
    if node.op != "fixed_multiply" or node.attributes.get("range", "any") == "any" or len(node.inputs) > 3:
        return False
    x, multiplier, _ = rewriting.operands(node)
    factors, right = constant_data(node.inputs[1]), constant_data(node.inputs[2])
    if factors is None or right is None or not factors.size or not right.size:
        return False
    right = np.where(factors == 0, np.maximum(right, 2), right)  # zero stays zero
    up = node.attributes["range"].endswith("positive")
    shift = right - 1 if up else right
    if int(right.min()) < 2 or int(shift.max()) > MOST_SHIFT:
        return False
    assert x is not None
    shifts = rewriting.builder.constant(_smallest(shift.astype(np.int32), x, node))
    rewriting.emit(node, "multiply_shift", x, multiplier, shifts, bias=_HALF, halves="up" if up else "away")
    return True


def _smallest(values: Array, x: Value, node: Node) -> Array:
    """One number in place of many that are equal, which is a constant of the code then, unless the result has its shape
    from them and not from x."""
    equal = node.output.shape == x.shape and (values == values.flat[0]).all()
    return values.reshape(-1)[0].reshape(()) if equal else values


def _by_float64(node: Node, rewriting: Rewriting) -> bool:
    """A `round_to_integer` of an int32 times a constant, in float64."""
    if node.op != "round_to_integer" or node.attributes["halves"] != "away":
        return False
    product = rewriting.made_by(_operand(node, rewriting, 0), "mul")
    factors = None if product is None else constant_data(product.inputs[1])
    cast = None if product is None or product.inputs[0] is None else rewriting.made_by(product.inputs[0], "cast")
    if factors is None or factors.dtype != np.float64 or not factors.size or cast is None:
        return False
    x = cast.inputs[0]
    to, zero = node.attributes["to"], node.attributes["zero"]
    if x is None or x.dtype != "int32" or dtypes.bits(to) > 8:
        return False
    low, high = dtypes.limits(to)
    found = [in_integers(float(f), low - zero, high - zero) for f in factors.reshape(-1)]
    if any(each is None for each in found):
        return False
    multipliers, shifts = (np.array(column, np.int32).reshape(factors.shape) for column in zip(*found, strict=True))
    builder = rewriting.builder
    operands = (builder.constant(_smallest(each, x, node)) for each in (multipliers, shifts))
    scaled = builder.add("multiply_shift", x, *operands, sources=node.sources, name=node.name)
    if zero:
        scaled = builder.add("add", scaled, builder.constant(np.array(zero, np.int32)), sources=node.sources)
    inside = builder.add("clip", scaled, min=low, max=high, sources=node.sources)
    rewriting.emit(node, "cast", inside, to=to)
    return True


def _operand(node: Node, rewriting: Rewriting, n: int) -> Value:
    value = rewriting.operands(node)[n]
    assert value is not None
    return value


def in_integers(factor: float, low: int, high: int) -> tuple[int, int] | None:
    """(multiplier, shift) so that (x multiplier / 2^32 + 2^(shift - 1)) / 2^shift, rounded down twice and cut off at
    low and high, is what float64 gives for every int32 x: x * factor rounded, halves away from zero, and cut off; None
    if none was found. Halves of both signs go away from zero by a multiplier that is a little larger."""
    if not 2.0**-30 < factor < 0.25:
        return None
    mantissa, exponent = math.frexp(factor)
    shift = -exponent - 1
    firsts = _firsts(factor, low, high)
    near = round(mantissa * (1 << 31))
    for multiplier in sorted(range(near - _NEAR, near + _NEAR + 1), key=lambda m: abs(m - near)):
        if multiplier < 1 << 31 and _begins(multiplier, shift, firsts, low):
            return multiplier, shift
    return None


def _firsts(factor: float, low: int, high: int) -> Array:
    """The least x for which each result after the lowest comes out."""
    results = np.arange(low + 1, high + 1)
    near = np.floor((results - 0.5) / factor).astype(np.int64)
    around = near[:, None] + np.arange(-4, 5)
    reached = _rounded(around * factor) >= results[:, None]
    assert reached[:, -1].all()
    assert not reached[:, 0].any()
    found: Array = around[np.arange(len(results)), reached.argmax(axis=1)]
    return found


def _rounded(x: Array) -> Array:
    """Halves away from zero."""
    return np.asarray(np.trunc(x + np.copysign(0.49999999999999994, x)))


def _begins(multiplier: int, shift: int, firsts: Array, low: int) -> bool:
    """Whether integers give each result from the same number on, as far as that is an int32."""
    limits = np.iinfo(np.int32)
    results = np.arange(low + 1, low + 1 + len(firsts))
    reached, missed = firsts <= limits.max, firsts > limits.min

    def scaled(x: Array) -> Array:
        return np.asarray((((x * multiplier) >> 32) + (1 << (shift - 1))) >> shift)

    after = scaled(np.maximum(firsts, limits.min)[reached]) >= results[reached]
    before = scaled(np.minimum(firsts - 1, limits.max)[missed]) < results[missed]
    return bool(after.all() and before.all())
