"""Sums of bytes become bytes by one product of 64 bits and a shift, where the target multiplies so and has no float64.

What models say is done in two roundings (TensorFlow Lite's fixed point: a high product rounded half up, then a shift),
in float64 (its fully connected layers), or in float32 (ONNX). The first is one product exactly, where nothing leaves
the words: rounding down twice is rounding down once. For floats the places where each of at most 256 results begins set
bounds to a multiplier of 31 bits: both ways of scaling never decrease, so if they agree there, they agree everywhere.
Results of 16 bits have a multiplier of two words, which is tried where each of 65,536 begins. Where vectors have high
products that round, the first stays as it is, and float32 too.

Sums to which a constant is added before are doubled, and the constant with them: then half of the first rounding's unit
is 2^31, which machines add as they keep the upper word; and doubling is a part of the addition. A zero point that is
added to the results is added before the shift, with the half.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, Value
from sterna.ops.multiply_shift import MOST_SHIFT, MOST_SHIFT_OF_ZERO
from sterna.passes.context import PassContext
from sterna.passes.rewriting import Rewriting, constant_data, splat

#: Half of the first rounding's unit, of a product of 64 bits.
_HALF = 1 << 30
#: Zero points of bytes.
_MOST_ZERO = 255
#: Bits of the lower word of a multiplier of two, without a sign; factors that are tried for one layer.
_WORD, _MOST_FACTORS = 31, 256


def applies(context: PassContext) -> bool:
    return context.target.wide_products or context.target.high_products


def scale_in_integers(graph: Graph, all_of_them: bool = True) -> Graph:
    """The graph with such scalings as `multiply_shift`: all, or those in float64."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        scaled = (all_of_them and _two_roundings(node, rewriting)) or _by_float(node, rewriting, all_of_them)
        if not (scaled or _with_zero(node, rewriting)):
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
    doubled = _doubled(x, rewriting) if node.attributes["range"] == "small_positive" else None
    if doubled is not None and int(right.max()) <= MOST_SHIFT:
        shifts = rewriting.builder.constant(_smallest(right.astype(np.int32), x, node))
        rewriting.emit(node, "multiply_shift", doubled, multiplier, shifts, bias=2 * _HALF)
        return True
    shifts = rewriting.builder.constant(_smallest(shift.astype(np.int32), x, node))
    rewriting.emit(node, "multiply_shift", x, multiplier, shifts, bias=_HALF, halves="up" if up else "away")
    return True


def _doubled(x: Value, rewriting: Rewriting) -> Value | None:
    """Twice a sum of a computed number and a constant, both below 2^30; None if x is no such sum."""
    added = rewriting.made_by(x, "add")
    if added is None or len(added.inputs) != 2:
        return None
    for given, computed in (added.inputs, added.inputs[::-1]):
        constant = constant_data(given)
        if constant is None or computed is None or computed.data is not None or not constant.size:
            continue
        if np.abs(constant.astype(np.int64)).max() >= 1 << 30:
            return None
        builder = rewriting.builder
        twice = builder.add("mul", computed, builder.constant(np.array(2, np.int32)), sources=added.sources)
        return builder.add("add", twice, builder.constant(constant * 2), sources=added.sources, name=added.name)
    return None


def _with_zero(node: Node, rewriting: Rewriting) -> bool:
    """A zero point added to what was scaled."""
    if node.op != "add" or len(node.inputs) != 2 or node.output.dtype != "int32":
        return False
    operands = rewriting.operands(node)
    for x, other in (operands, operands[::-1]):
        zero = splat(other)
        scaled = None if x is None else rewriting.made_by(x, "multiply_shift")
        if scaled is None or zero is None or x is None or x.shape != node.output.shape:
            continue
        shifts = constant_data(scaled.inputs[2])
        taken = scaled.attributes["halves"] != "up" or scaled.attributes["zero"]
        if taken or shifts is None or int(shifts.max()) > MOST_SHIFT_OF_ZERO or abs(zero) > _MOST_ZERO:
            return False
        attributes = {**scaled.attributes, "zero": int(zero)}
        rewriting.emit(node, scaled.op, *scaled.inputs, joined=scaled, **attributes)
        return True
    return False


def _smallest(values: Array, x: Value, node: Node) -> Array:
    """One number in place of many that are equal, which is a constant of the code then, unless the result has its shape
    from them and not from x."""
    equal = node.output.shape == x.shape and (values == values.flat[0]).all()
    return values.reshape(-1)[0].reshape(()) if equal else values


def _by_float(node: Node, rewriting: Rewriting, all_of_them: bool) -> bool:
    """A `round_to_integer` of an integer times a constant; those of 16 bits, and float32, only with `all_of_them`."""
    if node.op != "round_to_integer":
        return False
    product = rewriting.made_by(_operand(node, rewriting, 0), "mul")
    factors = None if product is None else constant_data(product.inputs[1])
    cast = None if product is None or product.inputs[0] is None else rewriting.made_by(product.inputs[0], "cast")
    if factors is None or not factors.size or cast is None:
        return False
    x = cast.inputs[0]
    to, zero, halves = (node.attributes[name] for name in ("to", "zero", "halves"))
    if x is not None and dtypes.bits(to) == 16 and not zero:
        taken = all_of_them and factors.dtype == np.float64 and halves == "away"
        return taken and _to_16_bits(node, rewriting, x, factors)
    if x is None or x.dtype != "int32" or dtypes.bits(to) > 8:
        return False
    if factors.dtype == np.float32 and not all_of_them:
        return False
    low, high = dtypes.limits(to)
    found = [in_integers(f, low - zero, high - zero, halves) for f in factors.reshape(-1)]
    if any(each is None for each in found):
        return False
    multipliers, shifts = (np.array(column, np.int32).reshape(factors.shape) for column in zip(*found, strict=True))
    builder = rewriting.builder
    operands = (builder.constant(_smallest(each, x, node)) for each in (multipliers, shifts))
    together = abs(zero) <= _MOST_ZERO and int(shifts.max()) <= MOST_SHIFT_OF_ZERO
    sources, at_once = node.sources, int(zero) if together else 0
    scaled = builder.add("multiply_shift", x, *operands, sources=sources, name=node.name, zero=at_once)
    if zero and not together:
        scaled = builder.add("add", scaled, builder.constant(np.array(zero, np.int32)), sources=node.sources)
    inside = builder.add("clip", scaled, min=low, max=high, sources=node.sources)
    rewriting.emit(node, "cast", inside, to=to)
    return True


def _to_16_bits(node: Node, rewriting: Rewriting, x: Value, factors: Array) -> bool:
    """Results of 16 bits: a multiplier of 62 bits, in two words. What is cut off at the ends anyway is cut off before,
    so that numbers have 32 bits."""
    if x.dtype not in ("int32", "int64") or len(np.unique(factors)) > _MOST_FACTORS:
        return False
    low, high = dtypes.limits(node.attributes["to"])
    found = in_two_words(factors.reshape(-1), low, high)
    if found is None:
        return False
    multipliers, shift, most = found
    emit = partial(rewriting.builder.add, sources=node.sources, name=node.name)
    constant = rewriting.builder.constant
    shape = () if (multipliers == multipliers[0]).all() and node.output.shape == x.shape else factors.shape
    multipliers = multipliers[:1].reshape(()) if not shape else multipliers.reshape(shape)
    near = emit("cast", emit("cast", emit("clip", x, min=-most, max=most), to="int32"), to="int64")
    products = (emit("mul", near, constant(word)) for word in (multipliers >> _WORD, multipliers & (1 << _WORD) - 1))
    upper, lower = products
    carried = emit("bit_shift", lower, constant(np.array(_WORD, np.int64)), direction="RIGHT")
    total = emit("add", emit("add", upper, carried), constant(np.array(1 << (shift - 1), np.int64)))
    scaled = emit("cast", emit("bit_shift", total, constant(np.array(shift, np.int64)), direction="RIGHT"), to="int32")
    rewriting.emit(node, "cast", emit("clip", scaled, min=low, max=high), to=node.attributes["to"])
    return True


def in_two_words(factors: Array, low: int, high: int) -> tuple[Array, int, int] | None:
    """(multipliers, shift, most) so that (x multiplier / 2^31 + 2^(shift - 1)) / 2^shift, rounded down twice and cut
    off at low and high, is what float64 gives for every x of -most ... most: x * factor rounded, halves away from
    zero, and cut off. Beyond these, results are cut off. One shift serves all factors. None if none was found."""
    least, greatest = float(factors.min()), float(factors.max())
    if not 2.0**-15 < least <= greatest < 0.25:
        return None
    most = math.ceil((max(-low, high) + 2) / least)
    if most >= 1 << 31:
        return None
    # The greatest multiplier has 61 bits: those of one word and of the other, which is no sign.
    shift = 2 * _WORD - 1 - math.frexp(greatest)[1] - _WORD
    exact = {}
    for factor in np.unique(factors):
        near = int(math.ldexp(factor, shift + _WORD))
        firsts = _firsts(factor, low, high)
        for multiplier in (
            near,
            near + 1,
            near + (1 << 5),
            near + (1 << 8),
            near - 1,
            near - (1 << 5),
            near - (1 << 8),
        ):
            if _begins_at(multiplier, shift, firsts, low, most):
                exact[float(factor)] = multiplier
                break
        else:
            return None
    return np.array([exact[float(factor)] for factor in factors], np.int64), shift, most


def _begins_at(multiplier: int, shift: int, firsts: Array, low: int, most: int) -> bool:
    """Whether the two words give each result from the same number on."""
    results = np.arange(low + 1, low + 1 + len(firsts))
    upper, lower = multiplier >> _WORD, multiplier & (1 << _WORD) - 1

    def scaled(x: Array) -> Array:
        return np.asarray((x * upper + (x * lower >> _WORD) + (1 << (shift - 1))) >> shift)

    inside = bool((np.abs(firsts) < most).all())
    return inside and bool((scaled(firsts) >= results).all() and (scaled(firsts - 1) < results).all())


def _operand(node: Node, rewriting: Rewriting, n: int) -> Value:
    value = rewriting.operands(node)[n]
    assert value is not None
    return value


def in_integers(factor: float | np.floating, low: int, high: int, halves: str = "away") -> tuple[int, int] | None:
    """(multiplier, shift) so that (x multiplier / 2^32 + 2^(shift - 1)) / 2^shift, rounded down twice and cut off at
    low and high, is for every int32 x what floats give in the type of the factor: x * factor rounded, `halves` away
    from zero or to even numbers, and cut off. None if there is none.

    Both never decrease as x grows. So they are equal if each result begins at the same x, which sets bounds to the
    multiplier: halves, and sums that float32 rounds to halves, only move them.
    """
    if not 2.0**-30 < factor < 0.25:
        return None
    mantissa, exponent = math.frexp(factor)
    shift = -exponent - 1
    firsts = _firsts(factor, low, high, halves)
    limits = np.iinfo(np.int32)
    least, greatest = 1, limits.max
    for result, first in enumerate(firsts.tolist(), low + 1):
        # From `first` on, and not before, x multiplier is at least this.
        begins = ((result << shift) - (1 << (shift - 1))) << 32
        for x, reaches in ((first, True), (first - 1, False)):
            if not limits.min <= x <= limits.max:
                continue
            if x == 0:
                if reaches != (begins <= 0):
                    return None
            elif reaches == (x > 0):
                least = max(least, -(-begins // x) if reaches else begins // x + 1)
            else:
                greatest = min(greatest, begins // x if reaches else -(-begins // x) - 1)
    near = round(mantissa * (1 << 31))
    return (min(max(near, least), greatest), shift) if least <= greatest else None


def _firsts(factor: float | np.floating, low: int, high: int, halves: str = "away") -> Array:
    """The least x for which each result after the lowest comes out, found by halves."""
    results = np.arange(low + 1, high + 1)
    rounded = np.rint if halves == "even" else _away
    kind = np.asarray(factor).dtype
    middle = np.floor(results / float(factor)).astype(np.int64)
    # A result is off by one half, and the factor's last bits by less than another one.
    margin = int(2 / float(factor)) + 2
    before, reached = middle - margin, middle + margin
    while (reached - before > 1).any():
        half = (before + reached) >> 1
        enough = rounded(half.astype(kind) * factor) >= results
        before, reached = np.where(enough, before, half), np.where(enough, half, reached)
    return reached


def _away(x: Array) -> Array:
    """Rounded, halves away from zero."""
    return np.asarray(np.trunc(x + np.copysign(0.49999999999999994, x)))
