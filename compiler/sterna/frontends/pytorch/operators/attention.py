"""Scaled dot product attention."""

from __future__ import annotations

import math

from sterna.frontends.pytorch.operators.matrices import product
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import IntLike


def attended(t: Translation) -> Value:
    """softmax(q k^T * scale + mask) v; a mask of bools says what is seen, rows that see nothing give 0."""
    q, k, v = t.tensor("query"), t.tensor("key"), t.tensor("value")
    if t.number("dropout_p", 0.0):
        raise t.unsupported("with dropout", "export the module after model.eval()")
    if t.flag("enable_gqa") and q.shape[-3] != k.shape[-3]:
        times = t.extent(q, -3) // t.extent(k, -3)
        k, v = _repeated(t, k, times), _repeated(t, v, times)
    width = q.shape[-1]
    scale = t.arg("scale")
    factor = 1 / math.sqrt(int(width)) if scale is None else t.number("scale")
    scores = product(t, t.op("mul", q, t.scalar(factor, q.dtype)), _turned(t, k))
    mask = t.maybe("attn_mask") or t.maybe("attn_bias")
    hidden = t.scalar(float("-inf"), scores.dtype)
    seen = some = None
    if t.flag("is_causal"):
        rows, columns = q.shape[-2], k.shape[-2]
        seen = t.op("less_equal", t.reshape(t.counting(columns), (1, columns)), t.reshape(t.counting(rows), (rows, 1)))
    if mask is not None and mask.dtype == "bool":
        seen = mask if seen is None else t.op("logical_and", seen, mask)
    elif mask is not None:
        scores = t.op("add", scores, t.cast(mask, scores.dtype))
    if seen is not None:
        scores = t.op("where", seen, scores, hidden)
        if mask is not None:
            some = t.op("reduce_any", seen, axes=(seen.type.rank - 1,), keep_dims=True)
    result = product(t, t.op("softmax", scores, axis=-1), v)
    # Of the result, so that softmax lies between two products, which are one kernel then.
    return result if some is None else t.op("where", some, result, t.scalar(0, result.dtype))


def _turned(t: Translation, k: Value) -> Value:
    return t.transpose(k, (*range(k.type.rank - 2), k.type.rank - 1, k.type.rank - 2))


def _repeated(t: Translation, x: Value, times: int) -> Value:
    """Every head so many times."""
    axis = x.type.rank - 3
    wide = t.unsqueeze(x, axis + 1)
    shape: list[IntLike] = [*wide.shape[: axis + 1], times, *wide.shape[axis + 2 :]]
    return t.reshape(t.expand(wide, shape), (*x.shape[:axis], x.shape[axis] * times, *x.shape[axis + 1 :]))


def with_statistics(t: Translation) -> tuple[Value | None, ...]:
    """The forms of the core set, of which only the first result is of use in inference."""
    return (attended(t), *(None for _ in range(8)))


TRANSLATORS: dict[str, Translator] = {
    "aten.scaled_dot_product_attention.default": attended,
    "aten._scaled_dot_product_flash_attention_for_cpu.default": with_statistics,
    "aten._scaled_dot_product_efficient_attention.default": with_statistics,
    "aten._scaled_dot_product_flash_attention.default": with_statistics,
    "aten._scaled_dot_product_cudnn_attention.default": with_statistics,
    "aten._scaled_dot_product_fused_attention_overrideable.default": with_statistics,
    "aten._scaled_dot_product_attention_math.default": with_statistics,
}
