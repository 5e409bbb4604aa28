"""Layers of specification 4 and later, on tensors of any rank: most are an operation of programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.coreml.layers.translation import Layer, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value

_UNARY = (
    "ceil", "floor", "sign", "round", "exp2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "atanh", "erf",
)  # fmt: skip
_BINARY = {
    "modBroadcastable": "mod", "minBroadcastable": "minimum", "maxBroadcastable": "maximum", "addBroadcastable": "add",
    "powBroadcastable": "pow", "divideBroadcastable": "real_div", "floorDivBroadcastable": "floor_div",
    "multiplyBroadcastable": "mul", "subtractBroadcastable": "sub",
}  # fmt: skip
_COMPARED = {
    "equal": "equal", "notEqual": "not_equal", "lessThan": "less", "lessEqual": "less_equal",
    "greaterThan": "greater", "greaterEqual": "greater_equal",
}  # fmt: skip
_LOGICAL = {"logicalOr": "logical_or", "logicalXor": "logical_xor", "logicalAnd": "logical_and"}
_REDUCED = {
    "reduceL1": "l1_norm", "reduceL2": "l2_norm", "reduceMax": "max", "reduceMin": "min", "reduceSum": "sum",
    "reduceProd": "prod", "reduceMean": "mean", "reduceLogSum": "log_sum", "reduceSumSquare": "sum_square",
    "reduceLogSumExp": "log_sum_exp",
}  # fmt: skip
_SCATTER = ("update", "add", "sub", "mul", "div", "max", "min")


def _list(values: Any) -> list[int]:
    return [int(n) for n in values]


def _truth(t: Layer, x: Value) -> Value:
    return t.cast(x, "bool")


def _number(t: Layer, x: Value) -> Value:
    """Networks know float32 alone: truth is 1, and positions are numbers."""
    return t.cast(x, "float32")


def _unary(name: str) -> Translator:
    return lambda t: t.mil(name, x=t.input(0))


def _binary(name: str) -> Translator:
    return lambda t: t.mil(name, x=t.input(0), y=t.input(1))


def _compared(name: str) -> Translator:
    def translate(t: Layer) -> Value:
        other = t.input(1) if len(t.inputs) > 1 else t.scalar(t.params.alpha, "float32")
        return _number(t, t.mil(name, x=t.input(0), y=other))

    return translate


def _logical(name: str) -> Translator:
    return lambda t: _number(t, t.mil(name, x=_truth(t, t.input(0)), y=_truth(t, t.input(1))))


def _reduced(name: str) -> Translator:
    def translate(t: Layer) -> Value:
        p, x = t.params, t.input(0)
        axes = list(range(x.type.rank)) if p.reduceAll or not p.axes else _list(p.axes)
        return t.mil(f"reduce_{name}", x=x, axes=axes, keep_dims=p.keepDims)  # type: ignore[no-any-return]

    return translate


def _scattered(name: str, has_axis: bool) -> Translator:
    def translate(t: Layer) -> Value:
        setting = {"axis": int(t.params.axis)} if has_axis else {}
        return t.mil(  # type: ignore[no-any-return]
            name, data=t.input(0), indices=t.cast(t.input(1), "int32"), updates=t.input(2),
            mode=_SCATTER[t.params.mode], **setting,
        )  # fmt: skip

    return translate


def _gathered(name: str, has_axis: bool) -> Translator:
    def translate(t: Layer) -> Value:
        setting = {"axis": int(t.params.axis)} if has_axis else {}
        return t.mil(name, x=t.input(0), indices=t.cast(t.input(1), "int32"), **setting)  # type: ignore[no-any-return]

    return translate


def _tile(t: Layer) -> Value:
    reps = _list(t.params.reps) if len(t.inputs) < 2 else t.cast(t.input(1), "int32")
    return t.mil("tile", x=t.input(0), reps=reps)  # type: ignore[no-any-return]


def _values(t: Layer) -> list[Value]:
    return [t.input(n) for n in range(len(t.inputs))]


def _split(t: Layer) -> Any:
    p = t.params
    sizes = {"split_sizes": _list(p.splitSizes)} if p.splitSizes else {"num_splits": int(p.numSplits)}
    return t.mil("split", x=t.input(0), axis=int(p.axis), **sizes)


def _reverse(t: Layer) -> Value:
    axes = [n for n, flag in enumerate(t.params.reverseDim) if flag]
    return t.mil("reverse", x=t.input(0), axes=axes) if axes else t.input(0)


def _masks(p: Any, rank: int) -> dict[str, Any]:
    return {
        "begin_mask": list(p.beginMasks) or [False] * rank,
        "end_mask": list(p.endMasks) or [False] * rank,
        "squeeze_mask": list(p.squeezeMasks) or [False] * rank,
        "stride": _list(p.strides) or [1] * rank,
    }


def _slice_static(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    begin, end = _list(p.beginIds), _list(p.endIds)
    return t.mil("slice_by_index", x=x, begin=begin, end=end, **_masks(p, x.type.rank))  # type: ignore[no-any-return]


def _slice_dynamic(t: Layer) -> Value:
    """Begin, and where it is given end, stride and masks, are operands."""
    p, x = t.params, t.input(0)
    rank = x.type.rank
    masks = _masks(p, rank)
    end: Any = t.cast(t.input(2), "int32") if t.has(2) else _list(p.endIds)
    for n, name in enumerate(("stride", "begin_mask", "end_mask", "squeeze_mask"), start=3):
        if t.has(n):
            masks[name] = t.cast(t.input(n), "int32")
    return t.mil("slice_by_index", x=x, begin=t.cast(t.input(1), "int32"), end=end, **masks)  # type: ignore[no-any-return]


def _top_k(t: Layer) -> tuple[Value, Value]:
    p = t.params
    k = t.integer_of(1, "the number of elements") if len(t.inputs) > 1 else int(p.K)
    values, places = t.mil("topk", x=t.input(0), k=k, axis=int(p.axis), ascending=p.useBottomK)
    return values, _number(t, places)


def _extreme(name: str) -> Translator:
    def translate(t: Layer) -> Value:
        p = t.params
        return _number(t, t.mil(name, x=t.input(0), axis=int(p.axis), keep_dims=not p.removeDim))

    return translate


def _embedding(t: Layer) -> Value:
    """(..., 1) becomes (..., size)."""
    p, x = t.params, t.input(0)
    table = t.weights(p.weights, int(p.embeddingSize), int(p.vocabSize)).T
    table = table + t.weights(p.bias, int(p.embeddingSize)) if p.hasBias else table
    rank = x.type.rank
    places = t.reshape(t.cast(x, "int64"), x.shape[: rank - 1])
    return standard(t, "Gather", t.constant(table.copy()), places, axis=0)


def _matmul(t: Layer) -> Value:
    p = t.params
    if len(t.inputs) > 1:
        return t.mil(  # type: ignore[no-any-return]
            "matmul", x=t.input(0), y=t.input(1), transpose_x=p.transposeA, transpose_y=p.transposeB
        )
    rows, columns = int(p.weightMatrixFirstDimension), int(p.weightMatrixSecondDimension)
    # The matrix is stored by columns of its second dimension, as that of innerProduct.
    weight = t.constant(t.weights(p.weights, columns, rows).T.copy())
    made = t.mil("matmul", x=t.input(0), y=weight, transpose_x=p.transposeA)
    return t.op("add", made, t.vector(p.bias, columns)) if p.hasBias else made


def _fill(t: Layer, shape: Any) -> Value:
    return t.mil("fill", shape=shape, value=np.float32(t.params.value))  # type: ignore[no-any-return]


def _like(t: Layer, n: int = 0) -> Value:
    return t.cast(t.dimensions(t.input(n).shape), "int32")


def _broadcast(t: Layer, shape: Any) -> Value:
    return standard(t, "Expand", t.input(0), t.cast(shape, "int64") if isinstance(shape, Value) else t.i64(shape))


def _squeeze(t: Layer) -> Value:
    p = t.params
    return t.mil("squeeze", x=t.input(0), **({} if p.squeezeAll else {"axes": _list(p.axes)}))  # type: ignore[no-any-return]


def _constant_pad(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    amounts = t.integers(1, "the amounts of padding") if len(t.inputs) > 1 else _list(p.padAmounts)
    before, after = amounts[0::2], amounts[1::2]
    if p.padToGivenOutputSizeMode:
        # One of each pair is 0, and the other the size that is wanted.
        sizes = t.static(x)
        for n, size in enumerate(sizes):
            if before[n] and after[n]:
                raise error("E0109", "a dimension is padded to a size on both sides")
            before[n], after[n] = (max(0, m - size) if m else 0 for m in (before[n], after[n]))
    return t.pad(x, before, after, p.value)


def _layer_norm(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    shape = _list(p.normalizedShape)
    gamma, beta = (t.constant(t.weights(held, *shape)) for held in (p.gamma, p.beta))
    axes = list(range(x.type.rank - len(shape), x.type.rank))
    return t.mil("layer_norm", x=x, axes=axes, gamma=gamma, beta=beta, epsilon=p.eps or 1e-5)  # type: ignore[no-any-return]


def _one_hot(t: Layer) -> Value:
    p = t.params
    size = t.integer_of(1, "the size of the vector") if len(t.inputs) > 1 else int(p.oneHotVectorSize)
    return t.mil(  # type: ignore[no-any-return]
        "one_hot", indices=t.cast(t.input(0), "int32"), one_hot_vector_size=size, axis=int(p.axis),
        on_value=np.float32(p.onValue), off_value=np.float32(p.offValue),
    )  # fmt: skip


def _cumsum(t: Layer) -> Value:
    p = t.params
    axis = t.integer_of(1, "the axis") if len(t.inputs) > 1 else int(p.axis)
    return t.mil("cumsum", x=t.input(0), axis=axis, exclusive=p.excludeFinalSum, reverse=p.reverse)  # type: ignore[no-any-return]


def _where(t: Layer) -> Value:
    return t.mil("select", cond=_truth(t, t.input(0)), a=t.input(1), b=t.input(2))  # type: ignore[no-any-return]


def _band(t: Layer, lower: int, upper: int) -> Value:
    return t.mil("band_part", x=t.input(0), lower=lower, upper=upper)  # type: ignore[no-any-return]


def _triangular(t: Layer, is_upper: bool) -> Value:
    x, k = t.input(0), int(t.params.k)
    return standard(t, "Trilu", x, t.constant(k, "int64"), upper=int(is_upper))


def _range_static(t: Layer) -> Value:
    p = t.params
    bounds = (np.float32(n) for n in (p.startValue, p.endValue, p.stepSizeValue))
    return t.mil("range_1d", **dict(zip(("start", "end", "step"), bounds, strict=True)))  # type: ignore[no-any-return]


def _range_dynamic(t: Layer) -> Value:
    """The end, and where they are given start and step, are operands."""
    p = t.params
    start = t.input(1) if t.has(1) else np.float32(p.startValue)
    step = t.input(2) if t.has(2) else np.float32(p.stepSizeValue or 1)
    return t.mil("range_1d", start=start, end=t.input(0), step=step)  # type: ignore[no-any-return]


def _rank_preserving(t: Layer) -> Value:
    """0 keeps a size, -1 is what is left."""
    return t.mil("reshape", x=t.input(0), shape=_list(t.params.targetShape))  # type: ignore[no-any-return]


TRANSLATORS: dict[str, Translator] = {
    **{name: _unary(name) for name in _UNARY},
    **{name: _binary(operation) for name, operation in _BINARY.items()},
    **{name: _compared(operation) for name, operation in _COMPARED.items()},
    **{name: _logical(operation) for name, operation in _LOGICAL.items()},
    **{name: _reduced(operation) for name, operation in _REDUCED.items()},
    "acosh": lambda t: standard(t, "Acosh", t.input(0)),
    "argMax": _extreme("reduce_argmax"),
    "argMin": _extreme("reduce_argmin"),
    "argSort": lambda t: _number(
        t, t.mil("argsort", x=t.input(0), axis=int(t.params.axis), ascending=not t.params.descending)
    ),
    "asinh": lambda t: standard(t, "Asinh", t.input(0)),
    "batchedMatmul": _matmul,
    "broadcastToDynamic": lambda t: _broadcast(t, t.input(1)),
    "broadcastToLike": lambda t: _broadcast(t, _like(t, 1)),
    "broadcastToStatic": lambda t: _broadcast(t, _list(t.params.targetShape)),
    "clampedReLU": lambda t: t.mil("clamped_relu", x=t.input(0), alpha=t.params.alpha, beta=t.params.beta),
    "clip": lambda t: t.mil("clip", x=t.input(0), alpha=t.params.minVal, beta=t.params.maxVal),
    "concatND": lambda t: t.mil(
        "concat", values=_values(t), axis=int(t.params.axis), interleave=bool(t.params.interleave)
    ),
    "constantPad": _constant_pad,
    "cumSum": _cumsum,
    "embeddingND": _embedding,
    "expandDims": lambda t: t.mil("expand_dims", x=t.input(0), axes=_list(t.params.axes)),
    "fillDynamic": lambda t: _fill(t, t.cast(t.input(0), "int32")),
    "fillLike": lambda t: _fill(t, _like(t)),
    "fillStatic": lambda t: _fill(t, _list(t.params.targetShape)),
    "flattenTo2D": lambda t: t.mil("flatten2d", x=t.input(0), axis=int(t.params.axis)),
    "gather": _gathered("gather", True),
    "gatherAlongAxis": _gathered("gather_along_axis", True),
    "gatherND": _gathered("gather_nd", False),
    "getShape": lambda t: _number(t, t.mil("shape", x=t.input(0))),
    "layerNormalization": _layer_norm,
    "loadConstantND": lambda t: t.constant(t.weights(t.params.data, *_list(t.params.shape))),
    "logicalNot": lambda t: _number(t, t.mil("logical_not", x=_truth(t, t.input(0)))),
    "lowerTriangular": lambda t: _triangular(t, False),
    "matrixBandPart": lambda t: _band(t, int(t.params.numLower), int(t.params.numUpper)),
    "oneHot": _one_hot,
    "rangeDynamic": _range_dynamic,
    "rangeStatic": _range_static,
    "rankPreservingReshape": _rank_preserving,
    "reshapeDynamic": lambda t: t.mil("reshape", x=t.input(0), shape=t.cast(t.input(1), "int32")),
    "reshapeLike": lambda t: t.reshape(t.input(0), t.input(1).shape),
    "reshapeStatic": lambda t: t.mil("reshape", x=t.input(0), shape=_list(t.params.targetShape)),
    "reverse": _reverse,
    "reverseSeq": lambda t: t.mil(
        "reverse_sequence",
        x=t.input(0),
        lengths=t.cast(t.input(1), "int32"),
        seq_axis=int(t.params.sequenceAxis),
        batch_axis=int(t.params.batchAxis),
    ),
    "scatter": _scattered("scatter", True),
    "scatterAlongAxis": _scattered("scatter_along_axis", True),
    "scatterND": _scattered("scatter_nd", False),
    "sliceDynamic": _slice_dynamic,
    "sliceStatic": _slice_static,
    "slidingWindows": lambda t: t.mil(
        "sliding_windows",
        x=t.input(0),
        axis=int(t.params.axis),
        size=int(t.params.windowSize),
        stride=int(t.params.step) or 1,
    ),
    "softmaxND": lambda t: t.mil("softmax", x=t.input(0), axis=int(t.params.axis)),
    "splitND": _split,
    "squeeze": _squeeze,
    "stack": lambda t: t.mil("stack", values=_values(t), axis=int(t.params.axis)),
    "tile": _tile,
    "topK": _top_k,
    "transpose": lambda t: t.mil("transpose", x=t.input(0), perm=_list(t.params.axes)),
    "upperTriangular": lambda t: _triangular(t, True),
    "whereBroadcastable": _where,
    "whereNonZero": lambda t: _number(t, t.mil("non_zero", x=t.input(0))),
}
