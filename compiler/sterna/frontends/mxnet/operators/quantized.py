"""Operators of quantized symbols: tensors of 8 and 32 bits with the least and the greatest number they stand for.

Signed integers are symmetric: one step stands for max(|low|, |high|) / 127 (of 32 bits / (2^31 - 1)). Unsigned ones
begin at the least number: (high - low) / 255. Ranges may be computed as the model runs, or be those of a calibration
(src/operator/quantization of MXNet). The symbols are those without a backend's fused operators.
"""

from __future__ import annotations

from typing import NamedTuple

from sterna.errors import error
from sterna.frontends.mxnet.operators.layers import TRANSLATORS as LAYERS
from sterna.frontends.mxnet.operators.pooling import TRANSLATORS as POOLS
from sterna.frontends.mxnet.operators.recurrent import TRANSLATORS as RECURRENT
from sterna.frontends.mxnet.operators.shapes import TRANSLATORS as SHAPES
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value

Three = tuple[Value, Value, Value]
_WIDTHS = {"int8": 127.0, "uint8": 255.0, "int32": 2.0**31 - 1}


class _Ranged(NamedTuple):
    """Integers, and the numbers (float32, one element) at the ends of their range."""

    data: Value
    low: Value
    high: Value


def _number(t: Translation, value: float) -> Value:
    return t.scalar(value, "float32")


def _end(t: Translation, position: int) -> Value:
    x = t.input(position)
    if x.type.elements != 1:
        raise t.unsupported("with a range for each channel")
    return t.cast(t.reshape(x, (1,)), "float32")


def _ranged(t: Translation, data: int, low: int, high: int) -> _Ranged:
    x = t.input(data)
    if x.dtype not in _WIDTHS:
        raise error("E0108", f"{t.kind} of {x.type}, which is not quantized")
    return _Ranged(x, _end(t, low), _end(t, high))


def _greatest(t: Translation, low: Value, high: Value) -> Value:
    return t.op("maximum", t.op("abs", low), t.op("abs", high))


def _level(t: Translation, x: _Ranged) -> Value:
    """What one step of the integers stands for."""
    width = t.op("sub", x.high, x.low) if x.data.dtype == "uint8" else _greatest(t, x.low, x.high)
    return t.op("div", width, _number(t, _WIDTHS[x.data.dtype]))


def _real(t: Translation, x: _Ranged) -> Value:
    y = t.op("mul", t.cast(x.data, "float32"), _level(t, x))
    return t.op("add", y, x.low) if x.data.dtype == "uint8" else y


def _quantized(t: Translation, x: Value, low: Value, high: Value, dtype: str) -> Three:
    """Numbers as integers of a range, rounded half away from 0; signed ones get a symmetric range."""
    half = _number(t, 0.5)
    if dtype == "uint8":
        share = t.op("div", _number(t, 255.0), t.op("sub", high, low))
        y = t.op("add", t.op("mul", t.op("sub", x, low), share), half)
        return t.cast(t.op("clip", t.op("floor", y), min=0.0, max=255.0), dtype), low, high
    size, width = _greatest(t, low, high), _WIDTHS[dtype]
    share = t.op("div", _number(t, width), size)
    y = t.op("add", t.op("mul", t.op("abs", x), share), half)
    y = t.op("floor", t.op("minimum", y, _number(t, width)))
    return t.cast(t.op("mul", t.op("sign", x), y), dtype), t.op("neg", size), size


def _calibrated(t: Translation) -> tuple[Value, Value] | None:
    """The range of a calibration, where the symbol has one."""
    if not (t.said.has("min_calib_range") and t.said.has("max_calib_range")):
        return None
    ends = [t.said.finite(f"{end}_calib_range") for end in ("min", "max")]
    if ends[0] > ends[1]:
        raise error("E0109", f"{t.kind}: the range of the calibration is {ends}")
    low, high = (t.constant([end], "float32") for end in ends)
    return low, high


def _found(t: Translation, x: Value) -> tuple[Value, Value]:
    """The least and the greatest element."""
    axes = tuple(range(x.type.rank))
    low, high = (t.reshape(t.op(f"reduce_{end}", x, axes=axes, keep_dims=False), (1,)) for end in ("min", "max"))
    return low, high


def _out_type(t: Translation, default: str) -> str:
    found = t.said.text("out_type", default)
    if found == "auto":  # what is never negative has no sign
        return "uint8" if t.said.has("min_calib_range") and t.said.finite("min_calib_range") >= 0 else "int8"
    if found not in ("int8", "uint8"):
        raise error("E0109", f"{t.kind}: out_type is {found[:20]}")
    return found


# ---------------------------------------------------------------- from and to numbers
def quantize(t: Translation) -> Three:
    """By a range that is given."""
    dtype = _out_type(t, "uint8")
    return _quantized(t, t.cast(t.input(0), "float32"), _end(t, 1), _end(t, 2), dtype)


def quantize_by_calibration(t: Translation) -> Three:
    """quantize_v2: by the range of a calibration, or that of the data; what is quantized stays."""
    x = t.input(0)
    if not dtypes.is_float(x.dtype):
        low, high = _calibrated(t) or (t.constant([0.0 if x.dtype == "uint8" else -127.0], "float32"),
                                       t.constant([255.0 if x.dtype == "uint8" else 127.0], "float32"))  # fmt: skip
        return x, low, high
    x = t.cast(x, "float32")
    low, high = _calibrated(t) or _found(t, x)
    return _quantized(t, x, low, high, _out_type(t, "int8"))


def quantize_asymmetric(t: Translation) -> Three:
    """quantize_asym: bytes, and the scale and shift by which numbers became them; signed bytes are shifted by 128."""
    x = t.input(0)
    one, none = t.constant([1.0], "float32"), t.constant([0.0], "float32")
    if x.dtype == "uint8":
        return x, one, none
    if x.dtype == "int8":
        wide = t.op("add", t.cast(x, "int32"), t.scalar(128, "int32"))
        return t.cast(wide, "uint8"), one, t.constant([128.0], "float32")
    x = t.cast(x, "float32")
    low, high = _calibrated(t) or _found(t, x)
    scale = t.op("div", t.constant([255.0], "float32"), t.op("sub", high, low))
    shift = t.op("sub", t.constant([255.0], "float32"), t.op("mul", high, scale))
    y = t.op("add", t.op("add", t.op("mul", x, scale), shift), _number(t, 0.5))
    return t.cast(t.op("clip", t.op("floor", y), min=0.0, max=255.0), "uint8"), scale, shift


def recurrent(t: Translation) -> Value | tuple[Value | None, ...]:
    """quantized_rnn: an LSTM of bytes with a scale and a shift. Weights are floats in the file, and stay so here, where
    MXNet rounds them to 8 bits."""
    if t.said.text("mode") != "lstm" or len(t.inputs) < 6:
        raise t.unsupported(f"of the mode {t.said.text('mode')[:20]} with {len(t.inputs)} operands")
    scale, shift = (t.reshape(t.input(n), []) for n in (-2, -1))
    x = t.op("div", t.op("sub", t.cast(t.input(0), "float32"), shift), scale)
    return RECURRENT["RNN"](_again(t, x, *(t.input(n) for n in range(1, len(t.inputs) - 2))))


def dequantize(t: Translation) -> Value:
    return t.cast(_real(t, _ranged(t, 0, 1, 2)), t.dtype("float32", "out_type"))


def requantize(t: Translation) -> Three:
    """From 32 to 8 bits, in the range of a calibration or that of the data."""
    real = _real(t, _ranged(t, 0, 1, 2))
    low, high = _calibrated(t) or _found(t, real)
    return _quantized(t, real, low, high, _out_type(t, "int8"))


# ---------------------------------------------------------------- products and sums
def _again(t: Translation, *operands: Value) -> Translation:
    """The same node with other operands."""
    return Translation(t.node, operands, t.builder, t.origin, t.is_numpy, t.asked, t.graphs)


def _one(t: Translation, function: Translator, *operands: Value) -> Value:
    made = function(_again(t, *operands))
    if not isinstance(made, Value):
        raise error("E0108", f"{t.kind} gives no tensor")
    return made


def _product(function: Translator) -> Translator:
    """A product of integers in int32, and the range that its levels give. A bias comes in levels of its own."""

    def translate(t: Translation) -> Three:
        count = 2 if t.said.flag("no_bias") else 3
        x, weight, *bias = (_ranged(t, n, count + 2 * n, count + 2 * n + 1) for n in range(count))
        # The level 0 of unsigned numbers is 0 here, whatever their range says.
        own = t.op("div", _greatest(t, x.low, x.high), _number(t, _WIDTHS[x.data.dtype]))
        level = t.op("mul", own, _level(t, weight))
        operands = [t.cast(each.data, "int32") for each in (x, weight)]
        for each in bias:
            steps = t.op("div", t.op("mul", t.cast(each.data, "float32"), _level(t, each)), level)
            operands.append(t.cast(t.op("round_away", steps), "int32"))
        high = t.op("mul", level, _number(t, _WIDTHS["int32"]))
        return _one(t, function, *operands), t.op("neg", high), high

    return translate


def _sum_or_product(operator: str) -> Translator:
    """Of two tensors as numbers: 8 bits in the range of a calibration, else 32 in that of all results."""

    def translate(t: Translation) -> Three:
        a, b = _ranged(t, 0, 2, 3), _ranged(t, 1, 4, 5)
        real = t.op(operator, _real(t, a), _real(t, b))
        calibrated = _calibrated(t)
        if calibrated is not None:
            return _quantized(t, real, *calibrated, "int8")
        if operator == "mul":
            high = t.op("mul", t.op("mul", _level(t, a), _level(t, b)), _number(t, _WIDTHS["int32"]))
            return t.op("mul", t.cast(a.data, "int32"), t.cast(b.data, "int32")), t.op("neg", high), high
        high = t.op("add", _greatest(t, a.low, a.high), _greatest(t, b.low, b.high))
        share = t.op("div", _number(t, _WIDTHS["int32"]), high)
        level = t.op("clip", t.op("mul", real, share), min=-2147483520.0, max=2147483520.0)
        return t.cast(t.op("round_away", level), "int32"), t.op("neg", high), high

    return translate


def batch_norm(t: Translation) -> Three:
    """Of numbers, in the range of a calibration, which it must have."""
    x, calibrated = _ranged(t, 0, 5, 6), _calibrated(t)
    if calibrated is None:
        raise error("E0109", f"{t.kind} lacks the setting min_calib_range")
    made = LAYERS["BatchNorm"](_again(t, _real(t, x), *(t.input(n) for n in range(1, 5))))
    y = made if isinstance(made, Value) else made[0]
    assert y is not None
    return _quantized(t, y, *calibrated, "int8")


# ---------------------------------------------------------------- on integers alone
def pooling(t: Translation) -> Three:
    """Means are rounded to the nearest."""
    x = _ranged(t, 0, 1, 2)
    y = t.op("round", _one(t, POOLS["Pooling"], t.cast(x.data, "float32")))
    return t.cast(y, x.data.dtype), x.low, x.high


def flattened(t: Translation) -> Three:
    x = _ranged(t, 0, 1, 2)
    return _one(t, LAYERS["Flatten"], x.data), x.low, x.high


def _moved(name: str) -> Translator:
    """Elements in another shape or order."""

    def translate(t: Translation) -> Three:
        x = _ranged(t, 0, 1, 2)
        return _one(t, SHAPES[name], x.data), x.low, x.high

    return translate


def activation(t: Translation) -> Three:
    """relu alone, as in MXNet: unsigned numbers stay."""
    if t.said.text("act_type") != "relu":
        raise t.unsupported(f"by {t.said.text('act_type')[:20]}")
    x = _ranged(t, 0, 1, 2)
    y = x.data if x.data.dtype == "uint8" else t.op("maximum", x.data, t.scalar(0, x.data.dtype))
    return y, x.low, x.high


def concat(t: Translation) -> Three:
    """In the range of all operands; those of another one are rounded anew."""
    count = t.said.integer("num_args", len(t.inputs) // 3)
    if count < 1:
        raise error("E0109", f"{t.kind} of {count} tensors")
    parts = [_ranged(t, n, count + 2 * n, count + 2 * n + 1) for n in range(count)]
    low, high = parts[0].low, parts[0].high
    for part in parts[1:]:
        low, high = t.op("minimum", low, part.low), t.op("maximum", high, part.high)
    dtype = "int8" if any(part.data.dtype == "int8" for part in parts) else "uint8"
    found = [_quantized(t, _real(t, part), low, high, dtype) for part in parts]
    y = t.op("concat", *(each[0] for each in found), axis=t.axis("dim", 1))
    return y, found[0][1], found[0][2]


def embedding(t: Translation) -> Three:
    """Rows of a quantized table."""
    table = _ranged(t, 1, 2, 3)
    return t.op("gather", table.data, t.integral(t.input(0)), axis=0), table.low, table.high


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"_contrib_{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(quantize, "quantize"), **_named(quantize_by_calibration, "quantize_v2"),
    **_named(quantize_asymmetric, "quantize_asym"), **_named(recurrent, "quantized_rnn"),
    **_named(dequantize, "dequantize"), **_named(requantize, "requantize"),
    **_named(_product(LAYERS["Convolution"]), "quantized_conv"),
    **_named(_product(LAYERS["FullyConnected"]), "quantized_fully_connected"),
    **_named(_sum_or_product("add"), "quantized_elemwise_add"),
    **_named(_sum_or_product("mul"), "quantized_elemwise_mul"), **_named(batch_norm, "quantized_batch_norm"),
    **_named(pooling, "quantized_pooling"), **_named(activation, "quantized_act"),
    **_named(flattened, "quantized_flatten"), **_named(concat, "quantized_concat"),
    **_named(embedding, "quantized_embedding"), **_named(_moved("Reshape"), "quantized_reshape"),
    **_named(_moved("transpose"), "quantized_transpose"),
}  # fmt: skip
