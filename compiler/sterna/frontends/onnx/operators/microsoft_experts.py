"""Mixtures of experts as ONNX Runtime has them (com.microsoft): MoE, and QMoE with weights of few bits."""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.operators.attention import part
from sterna.frontends.onnx.operators.block_weights import unpacked
from sterna.frontends.onnx.operators.microsoft_models import gated, sigmoid_times
from sterna.frontends.onnx.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import IntLike, as_int


def _routes(t: Translation) -> tuple[Value, Value]:
    """(rows, k) experts and their weights. Those of QMoE are normalized in any case, as by ONNX Runtime's CPU."""
    logits, k = t.cast(t.input(1), "float32"), t.attribute("k", 1)
    if t.attribute("use_sparse_mixer", 0):
        raise t.unsupported("with a sparse mixer")
    shares = t.op("softmax", logits, axis=1)
    count = t.extent(shares, 1)
    if not 1 <= k <= count:
        raise error("E0109", f"{k} experts of {count}")
    best, chosen = t.builder.add_all(
        "top_k", shares, k=(k,), axis=1, largest=True, sources=t.sources, name=f"{t.name}/route"
    )
    if t.attribute("normalize_routing_weights", 0) or t.node.op == "QMoE":
        best = t.op("div", best, t.op("reduce_sum", best, axes=(1,), keep_dims=True))
    return chosen, best


def _layer(t: Translation, x: Value, weight: Value, bias: Value | None) -> Value:
    """(experts, rows, inputs) times (experts, outputs, inputs)."""
    y = t.op("matmul", x, t.transpose(weight, (0, 2, 1)))
    return y if bias is None else t.op("add", y, t.reshape(t.cast(bias, "float32"), (bias.shape[0], 1, bias.shape[1])))


def _experts(t: Translation, weights: list[Value | None], biases: list[Value | None]) -> Value:
    """Every expert meets all rows, and each row takes what its experts make of it by their weights."""
    x = t.input(0)
    width = x.shape[-1]
    rows: IntLike = as_int(1)
    for size in x.shape[:-1]:
        rows = size * rows
    flat = t.reshape(t.cast(x, "float32"), (1, rows, width))
    first, second, third = weights
    if first is None or second is None:
        raise error("E0103", "the weights of experts are missing")
    count = t.extent(first, 0)
    hidden = _layer(t, flat, first, biases[0])
    kind, fusion = t.attribute("activation_type", "relu"), t.attribute("swiglu_fusion", 0)
    if kind == "swiglu":
        gate, up = hidden, None if third is None else _layer(t, flat, third, biases[2])
        if fusion:
            half = t.extent(hidden, -1) // 2
            if fusion == 1:
                pairs = t.reshape(hidden, (*hidden.shape[:-1], half, 2))
                gate, up = (t.reshape(part(t, pairs, -1, n, 1), (*hidden.shape[:-1], half)) for n in range(2))
            else:
                gate, up = (part(t, hidden, -1, n * half, half) for n in range(2))
        if up is None or t.attribute("swiglu_limit_after_activation", 0):
            raise t.unsupported("by swiglu of one half, or limited after the activation,")
        limit = t.attribute("swiglu_limit")
        hidden = gated(
            t, gate, up, t.attribute("activation_alpha", 1.0), t.attribute("activation_beta", 0.0),
            math.inf if limit is None else limit,
        )  # fmt: skip
    else:
        hidden = _plain_activation(t, hidden, kind)
        if third is not None:
            hidden = t.op("mul", hidden, _layer(t, flat, third, biases[2]))
    made = _layer(t, hidden, second, biases[1])
    chosen, shares = _routes(t)
    hits = t.op("equal", t.reshape(chosen, (*chosen.shape, 1)), t.counting(count))
    weight = t.op("where", hits, t.reshape(shares, (*shares.shape, 1)), t.scalar(0, "float32"))
    weight = t.transpose(t.op("reduce_sum", weight, axes=(1,), keep_dims=False), (1, 0))
    y = t.op("reduce_sum", t.op("mul", made, t.reshape(weight, (*weight.shape, 1))), axes=(0,), keep_dims=False)
    return t.cast(t.reshape(y, x.shape), x.dtype)


def _plain_activation(t: Translation, x: Value, kind: str) -> Value:
    if kind == "silu":
        return sigmoid_times(t, x)
    if kind == "gelu":
        return t.op("gelu", x, approximate="tanh")
    if kind == "relu":
        return t.op("relu", x)
    if kind != "identity":
        raise t.unsupported(f"with the activation {kind}")
    return x


def mixture(t: Translation) -> Value:
    """MoE."""
    weights = [None if (x := t.optional(n)) is None else t.cast(x, "float32") for n in (2, 4, 6)]
    return _experts(t, weights, [t.optional(n) for n in (3, 5, 7)])


def quantized_mixture(t: Translation) -> Value:
    """QMoE, of integers with a scale for each column, or for blocks of one."""
    if t.attribute("quant_type", "int") != "int" or t.attribute("weights_prepacked", 0) not in (0, -1):
        raise t.unsupported(f"of {t.attribute('quant_type', 'int')} or of packed weights")
    if t.has(14):
        raise t.unsupported("with weights of routes beside their logits")
    weights = [_widened(t, n, zero) if t.has(n) else None for n, zero in ((2, 11), (5, 12), (8, 13))]
    return _experts(t, weights, [t.optional(n) for n in (4, 7, 10)])


def _widened(t: Translation, position: int, zeros: int) -> Value:
    """The weights of one layer as numbers: (experts, outputs, inputs)."""
    layer = {2: 1, 5: 2, 8: 3}[position]
    bits = t.attribute(f"fc{layer}_expert_weight_bits") or t.attribute("expert_weight_bits", 4)
    if bits not in (2, 4, 8):
        raise t.unsupported(f"of {bits} bits")
    packed, scale = np.asarray(t.array(position, "weights")), np.asarray(t.array(position + 1, "scales"), np.float32)
    experts, outputs, stored = packed.shape
    inputs = stored * 8 // bits
    codes = unpacked(packed.reshape(experts * outputs, stored), bits, inputs).reshape(experts, outputs, inputs)
    scale = scale.reshape(experts, outputs, -1)
    blocks = scale.shape[2]
    if inputs % blocks:
        raise error("E0108", f"{blocks} scales for {inputs} inputs")
    zero: np.ndarray = np.full((1, 1, 1), 1 << (bits - 1), np.float32)
    if t.has(zeros):
        held = np.asarray(t.array(zeros, "zero points"))
        if blocks == 1 and held.ndim == 2:
            zero = unpacked(held, bits, outputs).reshape(experts, outputs, 1).astype(np.float32)
        else:
            rows = held.reshape(experts * outputs, -1)
            zero = unpacked(rows, bits, blocks).reshape(experts, outputs, blocks).astype(np.float32)
    wide = codes.reshape(experts, outputs, blocks, inputs // blocks).astype(np.float32)
    wide = (wide - zero[..., None]) * scale[..., None]
    return t.constant(wide.reshape(experts, outputs, inputs), "float32")


MICROSOFT_TRANSLATORS: dict[str, Translator] = {"MoE": mixture, "QMoE": quantized_mixture}
