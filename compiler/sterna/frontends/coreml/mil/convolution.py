"""Convolutions, pooling, products of matrices and normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.coreml.mil.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value

_AUTO = {"valid": "VALID", "same": "SAME_UPPER", "same_lower": "SAME_LOWER"}


def padding(t: Translation, spatial: int) -> dict[str, Any]:
    """What `pad_type` and `pad` say, as ONNX's attributes."""
    kind = t.text("pad_type", "valid")
    if kind in _AUTO:
        return {"auto_pad": _AUTO[kind]}
    if kind != "custom":
        raise error("E0109", f"there is no padding called {kind}")
    pads = t.ints("pad", [0] * 2 * spatial)
    if len(pads) != 2 * spatial:
        raise error("E0109", f"{len(pads)} numbers of padding for {spatial} dimensions")
    return {"pads": [*pads[0::2], *pads[1::2]]}


def _conv(t: Translation) -> Value:
    x, weight = t.arg("x"), t.arg("weight")
    spatial = x.type.rank - 2
    return standard(
        t, "Conv", x, t.cast(weight, x.dtype), t.maybe("bias"), strides=t.ints("strides", [1] * spatial),
        dilations=t.ints("dilations", [1] * spatial), group=t.integer("groups", 1), **padding(t, spatial),
    )  # fmt: skip


def _conv_transpose(t: Translation) -> Value:
    x, weight = t.arg("x"), t.arg("weight")
    spatial = x.type.rank - 2
    strides, dilations = t.ints("strides", [1] * spatial), t.ints("dilations", [1] * spatial)
    pads = padding(t, spatial)
    extra = None
    if t.given("output_shape"):
        # What is asked for beyond what padding leaves stands at the end, as ONNX's output_padding.
        wanted = t.ints("output_shape")[-spatial:]
        kernel = [t.extent(weight, 2 + n) for n in range(spatial)]
        sizes = [t.extent(x, 2 + n) for n in range(spatial)]
        full = [(sizes[n] - 1) * strides[n] + dilations[n] * (kernel[n] - 1) + 1 for n in range(spatial)]
        if "pads" not in pads and pads["auto_pad"] != "VALID":
            cut = [full[n] - wanted[n] for n in range(spatial)]
            upper = pads["auto_pad"] == "SAME_UPPER"
            begin = [max(n, 0) // 2 if upper else (max(n, 0) + 1) // 2 for n in cut]
            pads = {"pads": [*begin, *(max(c, 0) - b for c, b in zip(cut, begin, strict=True))]}
        amounts = pads.get("pads", [0] * 2 * spatial)
        extra = [wanted[n] - (full[n] - amounts[n] - amounts[spatial + n]) for n in range(spatial)]
        pads = {"pads": [*amounts[:spatial], *(amounts[spatial + n] - min(extra[n], 0) for n in range(spatial))]}
        extra = [max(n, 0) for n in extra]
    return standard(
        t, "ConvTranspose", x, t.cast(weight, x.dtype), t.maybe("bias"), strides=strides, dilations=dilations,
        group=t.integer("groups", 1), output_padding=extra, **pads,
    )  # fmt: skip


def _pool(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x, sizes = t.arg("x"), t.ints("kernel_sizes")
        settings = padding(t, len(sizes))
        settings |= {"kernel_shape": sizes, "strides": t.ints("strides", [1] * len(sizes))}
        settings["ceil_mode"] = int(t.flag("ceil_mode"))
        if operator == "AveragePool":
            settings["count_include_pad"] = int(not t.flag("exclude_padding_from_average"))
        if operator == "LpPool":
            settings["p"] = 2
        return standard(t, operator, x, **settings)

    return translate


def _linear(t: Translation) -> Value:
    x, weight, bias = t.arg("x"), t.arg("weight"), t.maybe("bias")
    product = standard(t, "MatMul", x, t.transpose(t.cast(weight, x.dtype), (1, 0)))
    return product if bias is None else t.op("add", product, t.cast(bias, x.dtype))


def swapped(t: Translation, x: Value) -> Value:
    """The last two dimensions exchanged."""
    rank = x.type.rank
    return t.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _matmul(t: Translation) -> Value:
    x, y = t.arg("x"), t.arg("y")
    x = swapped(t, x) if t.flag("transpose_x") else x
    y = swapped(t, y) if t.flag("transpose_y") else y
    return standard(t, "MatMul", x, t.cast(y, x.dtype))


def _einsum(t: Translation) -> Value:
    return standard(t, "Einsum", *t.many("values"), equation=t.text("equation"))


def _batch_norm(t: Translation) -> Value:
    x = t.arg("x")
    mean, variance = t.arg("mean"), t.arg("variance")
    count = (t.extent(mean, 0),)
    gamma = t.maybe("gamma") or t.constant(np.ones(count), x.dtype)
    beta = t.maybe("beta") or t.constant(np.zeros(count), x.dtype)
    return standard(t, "BatchNormalization", x, gamma, beta, mean, variance, epsilon=t.number("epsilon", 1e-5))


def _instance_norm(t: Translation) -> Value:
    x = t.arg("x")
    count = (t.extent(x, 1),)
    gamma = t.maybe("gamma") or t.constant(np.ones(count), x.dtype)
    beta = t.maybe("beta") or t.constant(np.zeros(count), x.dtype)
    return standard(t, "InstanceNormalization", x, gamma, beta, epsilon=t.number("epsilon", 1e-5))


def _layer_norm(t: Translation) -> Value:
    x = t.arg("x")
    rank = x.type.rank
    axes = [axis % rank for axis in t.ints("axes", list(range(rank)))]
    gamma, beta = t.maybe("gamma"), t.maybe("beta")
    epsilon = t.number("epsilon", 1e-5)
    if sorted(axes) == list(range(rank - len(axes), rank)) and axes == sorted(axes):
        sizes = [t.extent(x, axis) for axis in axes]
        scale = gamma or t.constant(np.ones(sizes), x.dtype)
        return standard(t, "LayerNormalization", x, scale, beta, axis=axes[0], epsilon=epsilon)
    shape = [x.shape[axis] if axis in axes else 1 for axis in range(rank)]
    mean = standard(t, "ReduceMean", x, t.i64(axes))
    centred = t.op("sub", x, mean)
    variance = standard(t, "ReduceMean", t.op("mul", centred, centred), t.i64(axes))
    root = standard(t, "Sqrt", t.op("add", variance, t.scalar(epsilon, x.dtype)))
    result = t.op("div", centred, root)
    result = result if gamma is None else t.op("mul", result, t.reshape(gamma, shape))
    return result if beta is None else t.op("add", result, t.reshape(beta, shape))


def _l2_norm(t: Translation) -> Value:
    x = t.arg("x")
    rank = x.type.rank
    squares = standard(t, "ReduceSumSquare", x, t.i64(range(max(rank - 3, 0), rank)))
    root = standard(t, "Sqrt", t.op("add", squares, t.scalar(t.number("epsilon", 1e-6), x.dtype)))
    return t.op("div", x, root)


def _response_norm(t: Translation) -> Value:
    return standard(
        t, "LRN", t.arg("x"), size=t.integer("size"), alpha=t.number("alpha", 1e-4), beta=t.number("beta", 0.75),
        bias=t.number("k", 1.0),
    )  # fmt: skip


def _attention(t: Translation) -> Value:
    """softmax(query keyT / sqrt(size) + mask) value."""
    q, k, v, mask = t.arg("query"), t.arg("key"), t.arg("value"), t.maybe("attn_mask")
    scale = 1.0 / np.sqrt(t.extent(q, -1))
    scores = standard(t, "MatMul", t.op("mul", q, t.scalar(scale, q.dtype)), swapped(t, k))
    if mask is not None and mask.dtype == "bool":
        scores = t.op("where", mask, scores, t.scalar(-np.inf, q.dtype))
    elif mask is not None:
        scores = t.op("add", scores, t.cast(mask, q.dtype))
    return standard(t, "MatMul", standard(t, "Softmax", scores, axis=-1), v)


TRANSLATORS: dict[str, Translator] = {
    "avg_pool": _pool("AveragePool"),
    "batch_norm": _batch_norm,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "einsum": _einsum,
    "instance_norm": _instance_norm,
    "l2_norm": _l2_norm,
    "l2_pool": _pool("LpPool"),
    "layer_norm": _layer_norm,
    "linear": _linear,
    "local_response_norm": _response_norm,
    "matmul": _matmul,
    "max_pool": _pool("MaxPool"),
    "scaled_dot_product_attention": _attention,
}
