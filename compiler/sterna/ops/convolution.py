"""Convolutions. Channels are last: (N, spatial..., C); weights are (spatial..., C / groups, O).

Padding is never part of these operators but a `pad` before them, so that the storage plan can turn it into a border of
the producer's buffer; a bias is an `add` after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.ops.contraction import CHUNK, FACTORS, Sum, accumulator, check_chunk, chunked, factor, summed, widening
from sterna.ops.formulas import at, widened
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, unfit
from sterna.ops.types import present, single
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, reduce_axis

SPATIAL = (("w",), ("h", "w"), ("d", "h", "w"))

STRIDES = Attribute("strides", "ints", "step of the window per spatial dimension")
DILATIONS = Attribute("dilations", "ints", "distance of neighbouring window elements per spatial dimension")
GROUPS = Attribute("groups", "int", "input and output channels fall into so many independent groups", 1)


def spatial_rank(x: TensorType, attributes: Mapping[str, Any], *per_dimension: str) -> int:
    """The number of spatial dimensions, which each of these attributes must have.

    Raises:
        SternaError: E0108, the rank is not 3 to 5 or an attribute has another length.
    """
    spatial = x.rank - 2
    if not 1 <= spatial <= 3:
        raise unfit(f"takes tensors of 3 to 5 dimensions (batch, 1 to 3 spatial, channels), not {x.rank}")
    for name in per_dimension:
        if len(attributes[name]) != spatial:
            raise unfit(f"{name} has {len(attributes[name])} entries for {spatial} spatial dimensions")
        if any((as_int(v).bounds()[0] or 0) < 1 for v in attributes[name]):
            raise unfit(f"{name} must be positive, not {list(attributes[name])}")
    return spatial


def windows(
    sizes: Sequence[Int], kernel: Sequence[Int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Int, ...]:
    """How many positions a window has along each dimension."""
    result = []
    for size, extent, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        count = (size - (extent - 1) * dilation - 1) // stride + 1
        if count.is_const and int(count) < 1:
            raise unfit(f"a window of {extent} (dilation {dilation}) does not fit into {size} elements")
        result.append(count)
    return tuple(result)


def _grouped(
    types: Types, attributes: Mapping[str, Any], spatial: int, kind: Sum = Sum.OWN
) -> tuple[TensorType, TensorType]:
    """Operands of a convolution, checked against the groups."""
    x, w = present(types, 0, 1)
    accumulator(x, w, kind)
    groups = attributes["groups"]
    if w.rank != x.rank:
        raise unfit(f"the weight {w} has another rank than the input {x}")
    if groups < 1 or w.shape[spatial] * groups != x.shape[-1]:
        raise unfit(f"{x.shape[-1]} channels do not fit the weight's {w.shape[spatial]} in {groups} groups")
    if w.shape[-1] % groups != 0:
        raise unfit(f"{w.shape[-1]} output channels do not fall into {groups} groups")
    return x, w


def channel_read(co: Int, ci: Int, of_group: Int, outputs: Int, groups: int) -> Int:
    """The input channel that output channel `co`, of so many outputs, reads for channel `ci` of its group."""
    if groups == 1:
        return ci
    return (co // (int(outputs) // groups)) * of_group + ci


def _channel(co: Int, ci: Int, w: Tensor, groups: int) -> Int:
    """The same by the weights of channels last."""
    return channel_read(co, ci, w.shape[-2], w.shape[-1], groups)


def _conv_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    return _convolved_type(types, attributes, Sum.OWN)


def _conv_integer_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    return _convolved_type(types, attributes, Sum.INTEGER)


def _conv_widening_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    check_chunk(present(types, 0, 1)[1].shape[-2], attributes["chunk"], attributes["factors"])
    return _convolved_type(types, attributes, widening(attributes["factors"]))


def _convolved_type(types: Types, attributes: Mapping[str, Any], kind: Sum) -> TensorType:
    spatial = spatial_rank(present(types, 0)[0], attributes, "strides", "dilations")
    x, w = _grouped(types, attributes, spatial, kind)
    sizes = windows(x.shape[1:-1], w.shape[:spatial], attributes["strides"], attributes["dilations"])
    return TensorType(accumulator(x, w, kind), (x.shape[0], *sizes, w.shape[-1]))


def _conv(applied: Application) -> Tensor:
    x, w = applied.input(0), applied.input(1)
    names = SPATIAL[len(x.shape) - 3]
    kernel = [reduce_axis(f"k{name}", size) for name, size in zip(names, w.shape, strict=False)]
    ci = reduce_axis("ci", w.shape[-2])

    def element(n: Int, *rest: Int) -> Expr:
        *position, co = rest
        steps = zip(position, kernel, applied["strides"], applied["dilations"], strict=True)
        source = [p * stride + k.var * dilation for p, k, stride, dilation in steps]
        value = at(x, (n, *source, _channel(co, ci.var, w, applied["groups"])))
        weight = at(w, (*(k.var for k in kernel), ci.var, co))
        return factor(value, dtype, rounding) * factor(weight, dtype, rounding)

    dtype, rounding = applied.output.dtype, applied.attributes.get("factors", "")
    return summed(applied.name, applied.output.shape, ["n", *names, "co"], element, inner=[*kernel, ci], dtype=dtype)


def _conv_widening(applied: Application) -> Tensor:
    if not applied["chunk"]:
        return _conv(applied)
    x, w = applied.input(0), applied.input(1)
    names = SPATIAL[len(x.shape) - 3]
    kernel = [reduce_axis(f"k{name}", size) for name, size in zip(names, w.shape, strict=False)]

    def element(index: Sequence[Int], taps: Sequence[Int], ci: Int) -> Expr:
        n, *position, co = index
        steps = zip(position, taps, applied["strides"], applied["dilations"], strict=True)
        source = [p * stride + k * dilation for p, k, stride, dilation in steps]
        return at(x, (n, *source, _channel(co, ci, w, applied["groups"]))) * at(w, (*taps, ci, co))

    axes, depth = ["n", *names, "co"], reduce_axis("ci", w.shape[-2])
    return chunked(applied.name, applied.output.shape, axes, element, kernel, depth, applied["chunk"])


# ---------------------------------------------------------------- transposed convolution
def _taps(extent: Int, stride: int) -> int:
    return -(-int(extent) // stride)


def _conv_transpose_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    spatial = spatial_rank(present(types, 0)[0], attributes, "strides", "sizes")
    x, w = _grouped(types, attributes, spatial)
    rows = zip(x.shape[1:-1], w.shape, attributes["strides"], attributes["begins"], attributes["sizes"], strict=False)
    for size, extent, stride, begin, length in rows:
        if int(extent) % stride:
            raise unfit(f"the weight's extent {extent} is not a multiple of the stride {stride}")
        last = (as_int(length) + (begin - 1)) // stride + _taps(extent, stride) - 1
        if begin < 0 or ((size - 1 - last).bounds()[1] or 0) < 0:
            raise unfit(f"elements {begin} to {length + (begin - 1)} reach beyond the padded input of {size}")
    return TensorType(x.dtype, (x.shape[0], *map(as_int, attributes["sizes"]), w.shape[-1]))


def _conv_transpose(applied: Application) -> Tensor:
    """Gathers instead of scattering: output o of stride s meets the weight's elements (o mod s) + s j and nothing else.

    The input has J - 1 zeros on each side (J = weight extent / s), so that every index is in bounds without a test.
    """
    x, w = applied.input(0), applied.input(1)
    names = SPATIAL[len(x.shape) - 3]
    strides = applied["strides"]
    taps = [
        reduce_axis(f"k{name}", _taps(extent, stride))
        for name, extent, stride in zip(names, w.shape, strides, strict=False)
    ]
    ci = reduce_axis("ci", w.shape[-2])

    def element(n: Int, *rest: Int) -> Expr:
        *position, co = rest
        source, weight = [], []
        for p, tap, stride, begin in zip(position, taps, strides, applied["begins"], strict=True):
            source.append((p + begin) // stride + (tap.extent - 1) - tap.var)
            weight.append((p + begin) % stride + tap.var * stride)
        value = at(x, (n, *source, _channel(co, ci.var, w, applied["groups"])))
        return widened(value) * widened(at(w, (*weight, ci.var, co)))

    return summed(applied.name, applied.output.shape, ["n", *names, "co"], element, inner=[*taps, ci], dtype=x.dtype)


F = "float32"
_CONVOLUTIONS = (
    case((F, (1, 8, 8, 3)), (F, (3, 3, 3, 16)), strides=(1, 1), dilations=(1, 1)),
    case((F, (2, 9, 7, 4)), (F, (3, 2, 4, 5)), strides=(2, 1), dilations=(1, 2)),
    case((F, (1, 6, 6, 8)), (F, (1, 1, 8, 24)), strides=(1, 1), dilations=(1, 1)),
    case((F, (1, 9, 9, 8)), (F, (3, 3, 1, 8)), strides=(2, 2), dilations=(1, 1), groups=8),
    case((F, (1, 7, 7, 4)), (F, (3, 3, 1, 8)), strides=(1, 1), dilations=(1, 1), groups=4),
    case((F, (1, 5, 5, 6)), (F, (3, 3, 2, 9)), strides=(1, 1), dilations=(1, 1), groups=3),
    case((F, (2, 11, 3)), (F, (4, 3, 5)), strides=(2,), dilations=(1,)),
    case((F, (1, 4, 5, 6, 2)), (F, (2, 3, 3, 2, 4)), strides=(1, 1, 2), dilations=(1, 1, 1)),
    case(("int32", (1, 6, 6, 3)), ("int32", (3, 3, 3, 4)), strides=(1, 1), dilations=(1, 1)),
)
_TRANSPOSED = (
    case((F, (1, 4, 4, 3)), (F, (2, 2, 3, 5)), strides=(2, 2), begins=(0, 0), sizes=(8, 8)),
    case((F, (1, 6, 5, 4)), (F, (4, 3, 4, 2)), strides=(2, 1), begins=(1, 2), sizes=(6, 1)),
    case((F, (1, 7, 4)), (F, (6, 2, 6)), strides=(3,), begins=(2,), sizes=(15,), groups=2),
)
_FEW_BITS_CONVOLUTIONS = (
    case(("uint8", (1, 8, 8, 3)), ("int8", (3, 3, 3, 16)), strides=(1, 1), dilations=(1, 1), low=-128, high=128),
    case(("int8", (1, 9, 9, 8)), ("int8", (3, 3, 1, 8)), strides=(2, 2), dilations=(1, 1), groups=8),
)
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "conv",
        "Convolution (cross-correlation) of 1 to 3 spatial dimensions, channels last, without padding.",
        single(_conv_type),
        _conv,
        Fusion.COMPLEX,
        (STRIDES, DILATIONS, GROUPS),
        cases=_CONVOLUTIONS,
    ),
    Operator(
        "conv_integer",
        "The same convolution of tensors of 8 or 16 bits, of two types maybe, exact in int32.",
        single(_conv_integer_type),
        _conv,
        Fusion.COMPLEX,
        (STRIDES, DILATIONS, GROUPS),
        cases=_FEW_BITS_CONVOLUTIONS,
    ),
    Operator(
        "conv_widening",
        "The same convolution of 16-bit floats, or of float32 rounded to TF32, added up and given in float32.",
        single(_conv_widening_type),
        _conv_widening,
        Fusion.COMPLEX,
        (STRIDES, DILATIONS, GROUPS, CHUNK, FACTORS),
        cases=(
            case(
                ("float32", (1, 7, 6, 8)), ("float32", (3, 3, 8, 20)), strides=(1, 2), dilations=(1, 1), factors="tf32"
            ),
            case(("bfloat16", (1, 8, 8, 3)), ("bfloat16", (3, 3, 3, 16)), strides=(1, 1), dilations=(1, 1)),
            case(("float16", (1, 9, 9, 8)), ("float16", (3, 3, 4, 8)), strides=(2, 2), dilations=(1, 1), groups=2),
            case(("float16", (1, 7, 6, 8)), ("float16", (3, 3, 8, 20)), strides=(1, 1), dilations=(1, 1), chunk=4),
        ),
    ),
    Operator(
        "conv_transpose",
        "Transposed convolution, channels last: the elements from `begins` on of the full result, for an "
        "input padded by (weight extent / stride - 1) zeros on each side, or more at the end.",
        single(_conv_transpose_type),
        _conv_transpose,
        Fusion.COMPLEX,
        (
            STRIDES,
            Attribute("begins", "ints", "first element of the full result, per spatial dimension"),
            Attribute("sizes", "ints", "number of elements, per spatial dimension"),
            GROUPS,
        ),
        cases=_TRANSPOSED,
    ),
)
