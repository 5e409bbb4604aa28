"""Products, normalization, reductions and element-wise operators that are not one core operator."""

from __future__ import annotations

import math
from collections.abc import Callable

from sterna.errors import error
from sterna.frontends.onnx.file import element_type
from sterna.frontends.onnx.operators import runtime
from sterna.frontends.onnx.translation import Translation, Translator, axes_of, is_float
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import ONE
from sterna.ir.limits import walked


# ---------------------------------------------------------------- products
def matmul(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if a.type.rank == 0 or b.type.rank == 0:
        raise error("E0108", "MatMul of a scalar")
    left = t.reshape(a, (1, *a.shape)) if a.type.rank == 1 else a
    right = t.reshape(b, (*b.shape, 1)) if b.type.rank == 1 else b
    y = t.op("matmul", left, right)
    shape = list(y.shape)
    if b.type.rank == 1:
        shape.pop()
    if a.type.rank == 1:
        shape.pop(-1 if b.type.rank == 1 else -2)
    return t.reshape(y, shape)


def gemm(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if a.type.rank != 2 or b.type.rank != 2:
        raise error("E0108", f"Gemm of {a.type} and {b.type}, which are not matrices")
    if t.attribute("transA", 0):
        a = t.transpose(a, (1, 0))
    if t.attribute("transB", 0):
        b = t.transpose(b, (1, 0))
    y = t.op("matmul", a, b)
    if t.attribute("alpha", 1.0) != 1.0:
        y = t.op("mul", y, t.scalar(t.attribute("alpha"), y.dtype))
    if t.has(2):
        c = t.input(2)
        if t.attribute("beta", 1.0) != 1.0:
            c = t.op("mul", c, t.scalar(t.attribute("beta"), c.dtype))
        if len(c.shape) > 2:
            raise error("E0108", f"Gemm cannot add {c.type}")
        y = t.op("add", y, c)
    return y


# ---------------------------------------------------------------- normalization
def _per_channel(t: Translation, value: Value, rank: int) -> Value:
    """A vector over the channels of a channels-first tensor."""
    return t.reshape(value, (*value.shape, *[1] * (rank - 2)))


def batch_normalization(t: Translation) -> tuple[Value | None, ...]:
    x, scale, bias, mean, variance = (t.input(n) for n in range(5))
    training = bool(t.attribute("training_mode", 0))
    if any(t.used[1:]) and not training:
        raise t.unsupported("in training mode", "export the model for inference")
    if t.attribute("spatial", 1) != 1:
        raise t.unsupported("with spatial = 0")
    running: tuple[Value | None, ...] = (None,)
    if training:
        # The statistics of this batch normalize it; the running ones move towards them.
        given, share = (mean, variance), t.attribute("momentum", 0.9)
        mean, variance = _batch_statistics(t, t.cast(x, mean.dtype))
        old, new = t.scalar(share, mean.dtype), t.scalar(1 - share, mean.dtype)
        pairs = zip(given, (mean, variance), strict=True)
        running = tuple(t.op("add", t.op("mul", a, old), t.op("mul", b, new)) for a, b in pairs)
    root = t.op("sqrt", t.op("add", variance, t.scalar(t.attribute("epsilon", 1e-5), variance.dtype)))
    factor = t.cast(t.op("div", scale, t.cast(root, scale.dtype)), x.dtype)
    shift = t.op("sub", t.cast(bias, x.dtype), t.op("mul", t.cast(mean, x.dtype), factor))
    rank = max(x.type.rank, 2)
    return (t.op("add", t.op("mul", x, _per_channel(t, factor, rank)), _per_channel(t, shift, rank)), *running)


def _batch_statistics(t: Translation, x: Value) -> tuple[Value, Value]:
    """Mean and variance of every channel."""
    axes = (0, *range(2, x.type.rank))
    mean = t.op("reduce_mean", x, axes=axes, keep_dims=True)
    distance = t.op("sub", x, mean)
    variance = t.op("reduce_mean", t.op("mul", distance, distance), axes=axes, keep_dims=False)
    return t.reshape(mean, variance.shape), variance


def instance_normalization(t: Translation) -> Value:
    x, scale, bias = t.input(0), t.input(1), t.input(2)
    rank = x.type.rank
    if rank < 3:
        raise error("E0108", f"InstanceNormalization needs spatial dimensions, {x.type} has none")
    normal = t.op("layer_norm", x, axis=2, epsilon=t.attribute("epsilon", 1e-5))
    return t.op("add", t.op("mul", normal, _per_channel(t, scale, rank)), _per_channel(t, bias, rank))


def layer_normalization(t: Translation) -> tuple[Value | None, ...]:
    x = t.input(0)
    if not is_float(x):
        raise error("E0108", f"elements of type {x.dtype} are not allowed")
    axis, epsilon = t.attribute("axis", -1), t.attribute("epsilon", 1e-5)
    mean = inverse = None
    if any(t.used[1:]):
        axes = tuple(range(axes_of((axis,), x.type.rank)[0], x.type.rank))
        wide = t.cast(x, "float32" if x.dtype in dtypes.HALVES else x.dtype)
        mean = t.op("reduce_mean", wide, axes=axes, keep_dims=True)
        distance = t.op("sub", wide, mean)
        variance = t.op("reduce_mean", t.op("mul", distance, distance), axes=axes, keep_dims=True)
        inverse = t.op("reciprocal", t.op("sqrt", t.op("add", variance, t.scalar(epsilon, wide.dtype))))
    y = t.op("layer_norm", x, axis=axis, epsilon=epsilon)
    y = t.op("mul", y, t.input(1))
    return (t.op("add", y, t.input(2)) if t.has(2) else y, mean, inverse)


def mean_variance_normalization(t: Translation) -> Value:
    """As the function that defines it, with the variance taken of what is left of the mean: no digits cancel."""
    x = t.input(0)
    axes = axes_of(t.attribute("axes") or (0, 2, 3), x.type.rank)
    centered = t.op("sub", x, t.op("reduce_mean", x, axes=axes, keep_dims=True))
    variance = t.op("reduce_mean", t.op("mul", centered, centered), axes=axes, keep_dims=True)
    deviation = t.op("add", t.op("sqrt", variance), t.scalar(1e-9, x.dtype))
    return t.op("div", centered, deviation)


def lp_normalization(t: Translation) -> Value:
    x = t.input(0)
    axes = axes_of((t.attribute("axis", -1),), x.type.rank)
    if t.attribute("p", 2) == 1:
        size = t.op("reduce_sum", t.op("abs", x), axes=axes, keep_dims=True)
    else:
        size = t.op("sqrt", t.op("reduce_sum", t.op("mul", x, x), axes=axes, keep_dims=True))
    zero = t.op("equal", size, t.scalar(0, x.dtype))
    return t.op("div", x, t.op("where", zero, t.scalar(1, x.dtype), size))


def _along(t: Translation, function: Callable[[Value, int], Value]) -> Value:
    """A function of an operand and an axis. Until operator set 13 it ran over everything from the axis on."""
    x = t.input(0)
    rank = x.type.rank
    if t.version >= 13 or rank == 0:
        return function(x, t.attribute("axis", -1))
    (axis,) = axes_of((t.attribute("axis", 1),), rank) if t.attribute("axis", 1) != rank else (rank,)
    if axis == rank - 1:
        return function(x, axis)
    sizes = x.type.shape
    rows, columns = (math.prod(part, start=ONE) for part in (sizes[:axis], sizes[axis:]))
    return t.reshape(function(t.reshape(x, (rows, columns)), 1), sizes)


def _softmax(operator: str) -> Translator:
    return lambda t: _along(t, lambda x, axis: t.op(operator, x, axis=axis))


def hardmax(t: Translation) -> Value:
    def translate(x: Value, at: int) -> Value:
        (axis,) = axes_of((at,), x.type.rank)
        best = t.op("arg_max", x, axis=axis, keep_dims=True)
        positions = t.op("arange", start=0, step=1, size=(x.shape[axis],), to="int64")
        along = [x.shape[axis] if n == axis else 1 for n in range(x.type.rank)]
        return t.cast(t.op("equal", best, t.reshape(positions, along)), x.dtype)

    return _along(t, translate)


# ---------------------------------------------------------------- reductions
def reduction_axes(t: Translation, x: Value) -> tuple[int, ...] | None:
    """The axes of a reduction: an attribute in old operator sets, an operand in new ones; None: nothing to reduce."""
    axes = t.attribute("axes")
    if axes is None and t.has(1):
        axes = t.integers(1, "axes")
    if not axes:
        return None if t.attribute("noop_with_empty_axes", 0) else tuple(range(x.type.rank))
    return tuple(sorted(set(axes_of(axes, x.type.rank))))


def _reduce(operator: str, before: str = "", after: str = "") -> Translator:
    def translate(t: Translation) -> Value:
        x = t.input(0)
        if not t.known(1):
            return runtime.reduction(t, lambda given, axes: reduced(t, given, axes))
        return reduced(t, x, reduction_axes(t, x))

    def reduced(t: Translation, x: Value, axes: tuple[int, ...] | None) -> Value:
        if before == "square":
            x = t.op("mul", x, x)
        elif before:
            x = t.op(before, x)
        if axes is None:
            return t.op(after, x) if after else x
        name = (
            {"reduce_max": "reduce_any", "reduce_min": "reduce_all"}.get(operator, operator)
            if x.dtype == "bool"
            else operator
        )
        if name == "reduce_mean" and not is_float(x):
            total = t.op("reduce_sum", x, axes=axes, keep_dims=bool(t.attribute("keepdims", 1)))
            count = t.reshape(t.dimensions([math.prod((x.shape[n] for n in axes), start=ONE)]), ())
            return t.op("div", total, t.cast(count, x.dtype))
        y = t.op(name, x, axes=axes, keep_dims=bool(t.attribute("keepdims", 1)))
        return t.op(after, y) if after else y

    return translate


def reduce_log_sum_exp(t: Translation) -> Value:
    x = t.input(0)
    if not t.known(1):
        return runtime.reduction(t, lambda given, axes: _log_sum_exp(t, given, axes))
    return _log_sum_exp(t, x, reduction_axes(t, x))


def _log_sum_exp(t: Translation, x: Value, axes: tuple[int, ...] | None) -> Value:
    if axes is None:
        return x
    if not is_float(x):
        raise error("E0108", f"elements of type {x.dtype} are not allowed")
    peak = t.op("reduce_max", x, axes=axes, keep_dims=True)
    # Infinities are not subtracted from themselves.
    limit = dtypes.greatest(x.dtype)
    peak = t.op("clip", peak, min=-limit, max=limit)
    total = t.op("reduce_sum", t.op("exp", t.op("sub", x, peak)), axes=axes, keep_dims=True)
    y = t.op("add", t.op("log", total), peak)
    if t.attribute("keepdims", 1):
        return y
    return t.reshape(y, [size for n, size in enumerate(x.shape) if n not in axes])


def cumulative_sum(t: Translation) -> Value:
    return _cumulative(t, "cumulative_sum")


def cumulative_product(t: Translation) -> Value:
    return _cumulative(t, "cumulative_product")


def _cumulative(t: Translation, operator: str) -> Value:
    x = t.input(0)
    flags = {key: bool(t.attribute(key, 0)) for key in ("exclusive", "reverse")}
    if not t.known(1):
        return runtime.along(t, 1, x, lambda axis: t.op(operator, x, axis=axis, **flags))
    return t.op(operator, x, axis=t.integer_of(1, "axis"), **flags)


# ---------------------------------------------------------------- element by element
def _chain(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        total = t.input(0)
        for n in range(1, len(t.inputs)):
            total = t.op(operator, total, t.input(n))
        return total

    return translate


def mean(t: Translation) -> Value:
    total = _chain("add")(t)
    assert isinstance(total, Value)
    return t.op("div", total, t.scalar(len(t.inputs), total.dtype))


def clip(t: Translation) -> Value:
    x = t.input(0)
    bounds: dict[str, float | int] = {}
    if t.version < 11:
        bounds = {key: t.attribute(key) for key in ("min", "max") if key in t.node.given}
        return t.op("clip", x, **bounds) if bounds else x
    low, high = t.optional(1), t.optional(2)
    for key, value in (("min", low), ("max", high)):
        if value is not None and value.data is not None and value.data.size == 1:
            bounds[key] = value.data.reshape(-1)[0].item()
    if "min" not in bounds and low is not None:
        x = t.op("maximum", x, low)
    if bounds:
        x = t.op("clip", x, **bounds)
    return t.op("minimum", x, high) if high is not None and "max" not in bounds else x


def power(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if a.dtype == b.dtype:
        return t.op("pow", a, b)
    if is_float(a) or not is_float(b):
        return t.op("pow", a, t.cast(b, a.dtype))
    return t.cast(t.op("pow", t.cast(a, b.dtype), b), a.dtype)


def modulo(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if is_float(a):
        return t.op("fmod", a, b, truncated=bool(t.attribute("fmod", 0)))
    return t.op("mod", a, b, truncated=bool(t.attribute("fmod", 0)))


def cast(t: Translation) -> Value:
    return _converted(t, element_type(t.attribute("to")))


def _converted(t: Translation, dtype: str) -> Value:
    return t.cast(t.input(0), dtype, bool(t.attribute("saturate", 1)), t.attribute("round_mode", "up"))


def bit_cast(t: Translation) -> Value:
    return t.op("bit_cast", t.input(0), to=element_type(t.attribute("to")))


def cast_like(t: Translation) -> Value:
    return _converted(t, t.input(1).dtype)


def equal(t: Translation) -> Value:
    """Strings are equal where their numbers are."""
    a, b = t.input(0), t.input(1)
    if a.dtype == b.dtype == dtypes.STRING:
        a, b = t.op("bit_cast", a, to="int64"), t.op("bit_cast", b, to="int64")
    return t.op("equal", a, b)


def identity(t: Translation) -> Value:
    return t.input(0)


def dropout(t: Translation) -> tuple[Value | None, ...]:
    x = t.input(0)
    ratio = t.optional(1)
    idle = ratio is not None and ratio.data is not None and not walked(ratio.data).any()
    if t.has(2) and not t.known(2):
        # Known at run time only: the bundle tests that nothing is dropped.
        off = t.op("logical_not", t.reshape(t.input(2), ()))
        rate = ratio if ratio is not None else t.scalar(0.5, "float32")
        none = t.op("equal", t.reshape(rate, ()), t.scalar(0, rate.dtype))
        x = t.agree(x, t.op("logical_or", off, none))
    elif t.has(2) and t.scalar_of(2, "a training mode") and not idle:
        raise t.unsupported("in training mode", "export the model for inference")
    if len(t.used) > 1 and t.used[1]:
        mask = t.op("expand", t.scalar(True, "bool"), shape=x.shape)
        return (x, mask)
    return (x, None)


# ---------------------------------------------------------------- ai.onnx.ml
def scaler(t: Translation) -> Value:
    x = t.cast(t.input(0), "float32")
    offset, scale = t.attribute("offset"), t.attribute("scale")
    if offset:
        x = t.op("sub", x, t.constant(offset if len(offset) > 1 else offset[0], "float32"))
    return t.op("mul", x, t.constant(scale if len(scale) > 1 else scale[0], "float32")) if scale else x


def normalizer(t: Translation) -> Value:
    x = t.cast(t.input(0), "float32")
    kind, axes = t.attribute("norm", "MAX"), (x.type.rank - 1,)
    if kind == "L2":
        size = t.op("sqrt", t.op("reduce_sum", t.op("mul", x, x), axes=axes))
    else:
        size = t.op("reduce_sum" if kind == "L1" else "reduce_max", t.op("abs", x) if kind == "L1" else x, axes=axes)
    zero = t.op("equal", size, t.scalar(0, "float32"))
    return t.op("div", x, t.op("where", zero, t.scalar(1, "float32"), size))


def array_feature_extractor(t: Translation) -> Value:
    x, indices = t.input(0), t.input(1)
    flat = t.reshape(indices, (indices.type.elements,))
    y = t.op("gather", x, flat, axis=x.type.rank - 1)
    return t.reshape(y, (1, *y.shape)) if x.type.rank == 1 else y


TRANSLATORS: dict[str, Translator] = {
    "BatchNormalization": batch_normalization,
    "BitCast": bit_cast,
    "Cast": cast,
    "CastLike": cast_like,
    "Clip": clip,
    "CumProd": cumulative_product,
    "CumSum": cumulative_sum,
    "Dropout": dropout,
    "Equal": equal,
    "Gemm": gemm,
    "Hardmax": hardmax,
    "Identity": identity,
    "InstanceNormalization": instance_normalization,
    "LayerNormalization": layer_normalization,
    "LogSoftmax": _softmax("log_softmax"),
    "MatMul": matmul,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "Max": _chain("maximum"),
    "Mean": mean,
    "Min": _chain("minimum"),
    "Mod": modulo,
    "Pow": power,
    "ReduceL1": _reduce("reduce_sum", "abs"),
    "ReduceL2": _reduce("reduce_sum", "square", "sqrt"),
    "ReduceLogSum": _reduce("reduce_sum", after="log"),
    "ReduceLogSumExp": reduce_log_sum_exp,
    "ReduceMax": _reduce("reduce_max"),
    "ReduceMean": _reduce("reduce_mean"),
    "ReduceMin": _reduce("reduce_min"),
    "ReduceProd": _reduce("reduce_prod"),
    "ReduceSum": _reduce("reduce_sum"),
    "ReduceSumSquare": _reduce("reduce_sum", "square"),
    "Softmax": _softmax("softmax"),
    "Sum": _chain("add"),
}
ML_TRANSLATORS: dict[str, Translator] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Normalizer": normalizer,
    "Scaler": scaler,
}
