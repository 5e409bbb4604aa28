"""Operators of ONNX Runtime that models of language, diffusion and speech have.

They are compared with ONNX Runtime where its CPU has them, else with their definition in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from support.runtime_nodes import Operands, check, model_of

RNG = np.random.default_rng(2)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def run(op: str, operands: Operands, fixed: Sequence[int] = (), outputs: int = 1, **said: Any) -> list[np.ndarray]:
    graph = read(onnx.load_from_string(model_of(op, operands, fixed, outputs, said)))
    feeds = {f"x{n}": a for n, a in enumerate(operands) if a is not None and n not in fixed}
    return list(interpret(graph, feeds).values())


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def group_normalized(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, groups: int) -> np.ndarray:
    apart = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    mean, variance = apart.mean((1, 3), keepdims=True), apart.var((1, 3), keepdims=True)
    return np.asarray(((apart - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape) * gamma + beta)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_group_normalization(last: int, activation: int) -> None:
    x, gamma, beta, bias = floats(2, 3, 5, 8), floats(8), floats(8), floats(8)
    said = {"groups": 4, "channels_last": last, "activation": activation, "epsilon": 1e-5}
    turned = x if last else np.ascontiguousarray(x.transpose(0, 3, 1, 2))

    def finished(y: np.ndarray) -> np.ndarray:
        y = y * sigmoid(y) if activation else y
        return y if last else y.transpose(0, 3, 1, 2)

    (found,) = run("GroupNorm", [turned, gamma, beta], **said)
    np.testing.assert_allclose(found, finished(group_normalized(x, gamma, beta, 4)), rtol=1e-4, atol=1e-5)
    for skip in (floats(2, 8), floats(2, 3, 5, 8)):
        wide = skip.reshape(2, 1, 1, 8) if skip.ndim == 2 else skip
        given = skip if last or skip.ndim == 2 else np.ascontiguousarray(skip.transpose(0, 3, 1, 2))
        found, total = run("SkipGroupNorm", [turned, gamma, beta, given, bias], outputs=2, **said)
        wanted = x + wide + bias
        np.testing.assert_allclose(total, wanted if last else wanted.transpose(0, 3, 1, 2), rtol=1e-5)
        np.testing.assert_allclose(found, finished(group_normalized(wanted, gamma, beta, 4)), rtol=1e-4, atol=1e-5)


def test_sums_and_softmax() -> None:
    x, bias = floats(2, 3, 4, 5), floats(2, 1, 1, 5)
    (found,) = run("BiasSoftmax", [x, bias], axis=3, is_inner_broadcast=1)
    e = np.exp(x + bias)
    np.testing.assert_allclose(found, e / e.sum(-1, keepdims=True), rtol=1e-5)
    row, rest = floats(5), floats(2, 3, 4, 5)
    (found,) = run("BiasDropout", [x, row, rest])
    np.testing.assert_allclose(found, x + row + rest, rtol=1e-6)
    (found,) = run("BitmaskDropout", [x])
    np.testing.assert_array_equal(found, x)
    gate = floats(2, 3, 4, 1)
    (found,) = run("GatedAdd", [x, rest, gate])
    np.testing.assert_allclose(found, x + rest * gate, rtol=1e-5, atol=1e-6)


def test_gated_root_normalization() -> None:
    x, scale, gate = floats(2, 3, 8), floats(4), floats(2, 3, 8)
    (found,) = run("GatedRMSNorm", [x, scale, gate], activation="silu", epsilon=1e-6)
    check("GatedRMSNorm", [x, scale, gate])
    apart = x.reshape(2, 3, 2, 4)
    y = (apart / np.sqrt((apart * apart).mean(-1, keepdims=True) + 1e-6) * scale).reshape(x.shape)
    np.testing.assert_allclose(found, y * gate * sigmoid(gate), rtol=1e-4, atol=1e-5)


def test_gates_and_products() -> None:
    x, up = floats(2, 3, 8), floats(2, 3, 8)
    (found,) = run("SwiGLU", [x, up], activation_alpha=1.7, activation_beta=1.0, limit=0.5)
    gate = x.clip(None, 0.5)
    np.testing.assert_allclose(found, gate * sigmoid(1.7 * gate) * (up.clip(-0.5, 0.5) + 1), rtol=1e-4, atol=1e-5)
    (found,) = run("SwiGLU", [x])
    np.testing.assert_allclose(found, x[..., :4] * sigmoid(x[..., :4]) * x[..., 4:], rtol=1e-4, atol=1e-5)
    a, b, bias = floats(2, 4), floats(4, 6), floats(6)
    (found,) = run("GemmFastGelu", [a, b, bias])
    y = a @ b + bias
    np.testing.assert_allclose(
        found, 0.5 * y * (1 + np.tanh(0.7978845608 * (y + 0.044715 * y**3))), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("bidirectional", [0, 1])
def test_distances(bidirectional: int) -> None:
    """As transformers' T5 has them (`_relative_position_bucket`)."""
    table, lengths = floats(8, 3), [np.array([9], np.int64)] * 2
    (found,) = run("RelativePositionBias", [table, *lengths], (1, 2), is_bidirectional=bidirectional, max_distance=6)
    wanted = np.zeros((1, 3, 9, 9), np.float32)
    half = 4 if bidirectional else 8
    for row in range(9):
        for column in range(9):
            apart, bucket = column - row, 0
            if bidirectional:
                bucket, apart = (half if apart > 0 else 0), abs(apart)
            else:
                apart = max(-apart, 0)
            if apart < half // 2:
                bucket += apart
            else:
                share = math.log(apart / (half // 2)) / math.log(6 / (half // 2)) * (half - half // 2)
                bucket += min(half // 2 + int(share + 1e-6), half - 1)
            wanted[0, :, row, column] = table[bucket]
    np.testing.assert_array_equal(found, wanted)


def test_gated_distances() -> None:
    query, bias, position, w, b, a = (
        floats(2, 5, 12),
        floats(12),
        floats(1, 3, 5, 5),
        floats(4, 8),
        floats(8),
        floats(1, 3, 1, 1),
    )
    (found,) = run("GatedRelativePositionBias", [query, bias, position, w, b, a], num_heads=3)
    q = (query + bias).reshape(2, 5, 3, 4).transpose(0, 2, 1, 3)
    gates = sigmoid((q @ w + b).reshape(2, 3, 5, 2, 4).sum(-1))
    share = gates[..., :1] * (gates[..., 1:] * a - 1) + 2
    np.testing.assert_allclose(found, share * position, rtol=1e-4, atol=1e-5)


def test_rotations_by_given_angles() -> None:
    angle, (q, q_turned, k, k_turned) = floats(2, 5, 4), (floats(2, 3, 5, 4) for _ in range(4))
    found = run("GemmaRotaryEmbedding", [angle, q, q_turned, k, k_turned], outputs=2)
    sine, cosine = np.sin(angle)[:, None], np.cos(angle)[:, None]
    for ours, x, turned in zip(found, (q, k), (q_turned, k_turned), strict=True):
        np.testing.assert_allclose(ours, x * cosine + turned * sine, rtol=1e-5, atol=1e-6)


def test_attention_of_one_more_token() -> None:
    q, k, v = (floats(2, 1, 12) for _ in range(3))
    past = [floats(2, 3, 4, 4), floats(2, 3, 4, 4)]
    operands = [q, k, v, None, None, *past]
    found = run("DecoderMaskedMultiHeadAttention", operands, outputs=3, num_heads=3)
    keys, values = (
        np.concatenate([old, new.reshape(2, 1, 3, 4).transpose(0, 2, 1, 3)], 2)
        for old, new in zip(past, (k, v), strict=True)
    )
    scores = q.reshape(2, 3, 1, 4) @ keys.transpose(0, 1, 3, 2) / 2
    e = np.exp(scores)
    wanted = (e / e.sum(-1, keepdims=True) @ values).reshape(2, 1, 12)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[1], keys)


def test_padding_and_back() -> None:
    x, counts = floats(3, 4, 2), np.array([2, 4, 1], np.int32)
    rows, places, starts, longest = run("RemovePadding", [x, counts], outputs=4)
    kept = np.concatenate([x[n, :count] for n, count in enumerate(counts)])
    np.testing.assert_array_equal(rows, kept)
    np.testing.assert_array_equal(starts, [0, 2, 6, 7])
    assert longest.tolist() == [4]
    np.testing.assert_array_equal(places.reshape(-1), [0, 1, 4, 5, 6, 7, 8, 2, 3, 9, 10, 11])
    (back,) = run("RestorePadding", [kept, places])
    counted = np.arange(4) < counts[:, None]
    np.testing.assert_array_equal(back, x * counted[..., None])


def test_convolutions_channels_last() -> None:
    x, w, bias, rest = floats(1, 5, 6, 3), floats(4, 3, 3, 3), floats(4), floats(1, 5, 6, 4)
    said = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    (found,) = run("NhwcFusedConv", [x, w, bias, rest], activation="Relu", **said)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (1, 2))
    y = np.einsum("nhwcij,ocij->nhwo", windows, w) + bias
    np.testing.assert_allclose(found, np.maximum(y + rest, 0), rtol=1e-4, atol=1e-4)
    (found,) = run("NhwcConv", [x, w, bias], **said)
    np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-4)
    operands = [floats(1, 3, 4, 4), floats(3, 2, 3, 3), np.array([1, 1, 1, 1], np.int64), floats(2)]
    check("ConvTransposeWithDynamicPads", operands, (1, 2, 3), strides=[2, 2], kernel_shape=[3, 3])


def test_integers() -> None:
    a, b = (RNG.integers(0, 255, (3, 4)).astype(np.uint8) for _ in range(2))
    zero = np.array(7, np.uint8)
    found = run("MulInteger", [a, zero, b, None])[0]
    np.testing.assert_array_equal(found, (a.astype(np.int32) - 7) * b)
    found = run("ReduceSumInteger", [a], axes=[1], keepdims=0)[0]
    np.testing.assert_array_equal(found, a.astype(np.int32).sum(1))


def test_spectra() -> None:
    x = floats(3, 8)
    (found,) = run("Rfft", [x], onesided=1, signal_ndim=1, normalized=0)
    wanted = np.fft.rfft(x)
    np.testing.assert_allclose(found, np.stack([wanted.real, wanted.imag], -1), rtol=1e-4, atol=1e-5)
    (back,) = run("Irfft", [found], onesided=1, signal_ndim=1, normalized=0)
    np.testing.assert_allclose(back, x, rtol=1e-4, atol=1e-5)
    a, b = floats(3, 4, 2), floats(3, 4, 2)
    for op, conjugate in (("ComplexMul", 1), ("ComplexMulConj", -1)):
        product = (a[..., 0] + 1j * a[..., 1]) * (b[..., 0] + 1j * conjugate * b[..., 1])
        (found,) = run(op, [a, b])
        np.testing.assert_allclose(found, np.stack([product.real, product.imag], -1), rtol=1e-4, atol=1e-5)


def test_tokens_that_would_repeat() -> None:
    ids = np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4], [1, 2, 3, 4, 0]], np.int64)
    check("NGramRepeatBlock", [ids, floats(3, 6)], ngram_size=3)


@pytest.mark.parametrize(("dilation", "activation"), [(1, "none"), (2, "silu")])
def test_convolutions_with_a_state(dilation: int, activation: str) -> None:
    said = {"dilation": dilation, "activation": activation}
    check(
        "CausalConvWithState",
        [floats(2, 6, 5), floats(6, 1, 4), floats(6), floats(2, 6, 3 * dilation)],
        outputs=2,
        **said,
    )
    check("CausalConvWithState", [floats(2, 6, 5), floats(6, 1, 4)], outputs=2)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("heads", [4, 2])
def test_linear_attention(rule: str, heads: int) -> None:
    operands = [
        floats(2, 5, 32), floats(2, 5, heads * 8) * np.float32(0.3), floats(2, 5, heads * 6),
        floats(2, heads, 8, 6) if heads == 4 else None,
        -np.abs(floats(2, 5, heads)) if "gated" in rule else None,
        np.abs(floats(2, 5, heads)) * np.float32(0.3) if "delta" in rule else None,
    ]  # fmt: skip
    check(
        "LinearAttention", operands, outputs=2, step=1e-4, q_num_heads=4, kv_num_heads=heads, update_rule=rule
    )  # fmt: skip


EXPERTS, ROWS, WIDTH, HIDDEN = 4, 5, 32, 16
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("relu", {}),
    ("gelu", {"k": 2}),
    ("silu", {"k": 2, "normalize_routing_weights": 1}),
    ("swiglu", {"k": 2, "swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0, "swiglu_limit": 0.7}),
]


def mixed(x: np.ndarray, logits: np.ndarray, layers: Sequence[Any], kind: str, said: dict[str, Any]) -> np.ndarray:
    """A mixture of experts by its definition."""
    (w1, b1), (w2, b2) = layers
    e = np.exp(logits)
    shares = e / e.sum(1, keepdims=True)
    y = np.zeros_like(x)
    for n, row in enumerate(x):
        best = np.argsort(-shares[n], kind="stable")[: said.get("k", 1)]
        weights = shares[n][best]
        weights = weights / weights.sum() if said.get("normalize_routing_weights") else weights
        for expert, weight in zip(best, weights, strict=True):
            h = w1[expert] @ row + b1[expert]
            if kind == "swiglu":
                limit = said["swiglu_limit"]
                gate, up = h[::2].clip(None, limit), h[1::2].clip(-limit, limit)
                h = gate * sigmoid(said["activation_alpha"] * gate) * (up + said["activation_beta"])
            elif kind == "relu":
                h = np.maximum(h, 0)
            else:
                h = h * sigmoid(h) if kind == "silu" else 0.5 * h * (1 + np.tanh(0.7978845608 * (h + 0.044715 * h**3)))
            y[n] += weight * (w2[expert] @ h + b2[expert])
    return y


@pytest.mark.parametrize(("kind", "said"), KINDS, ids=lambda value: value if isinstance(value, str) else "")
def test_experts(kind: str, said: dict[str, Any]) -> None:
    x, logits = floats(ROWS, WIDTH), floats(ROWS, EXPERTS)
    wide = 2 * HIDDEN if kind == "swiglu" else HIDDEN
    layers = [
        (floats(EXPERTS, wide, WIDTH) * np.float32(0.2), floats(EXPERTS, wide)),
        (floats(EXPERTS, WIDTH, HIDDEN) * np.float32(0.2), floats(EXPERTS, WIDTH)),
    ]
    operands = [x, logits, *layers[0], *layers[1]]
    check("MoE", operands, range(2, 6), step=1e-4, activation_type=kind, **said)
    (found,) = run("MoE", operands, range(2, 6), activation_type=kind, **said)
    np.testing.assert_allclose(found, mixed(x, logits, layers, kind, said), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("zeros", [False, True])
def test_experts_of_few_bits(bits: int, block: int, zeros: bool) -> None:
    x, logits, said = floats(ROWS, WIDTH), floats(ROWS, EXPERTS), {"k": 2, "normalize_routing_weights": 1}
    operands: list[np.ndarray | None] = [x, logits]
    places: list[np.ndarray | None] = []
    layers = []
    for rows, columns in ((HIDDEN, WIDTH), (WIDTH, HIDDEN)):
        blocks = columns // block if block else 1
        codes = RNG.integers(0, 1 << bits, (EXPERTS, rows, columns)).astype(np.uint8)
        scale = (RNG.random((EXPERTS, rows, blocks)) * 0.02 + 0.01).astype(np.float32)
        zero = RNG.integers(0, 1 << bits, (EXPERTS, rows, blocks)).astype(np.uint8)
        packed = codes if bits == 8 else codes[..., ::2] | (codes[..., 1::2] << 4)
        flat = zero if block else zero[..., 0]
        if bits == 4:
            even = flat if flat.shape[-1] % 2 == 0 else np.concatenate([flat, flat * 0], -1)
            flat = even[..., ::2] | (even[..., 1::2] << 4)
        places.append(flat if zeros else None)
        middle = zero[..., None].astype(float) if zeros else float(1 << (bits - 1))
        moved = codes.reshape(EXPERTS, rows, blocks, -1) - middle
        bias = floats(EXPERTS, rows)
        layers.append(((moved * scale[..., None]).reshape(EXPERTS, rows, columns), bias))
        operands += [packed, scale if block else scale[..., 0], bias]
    operands += [None, None, None, *places]
    fixed = [n for n, a in enumerate(operands) if n > 1 and a is not None]
    more = {"block_size": block} if block else {}
    if bits == 4 and not zeros:  # of other kinds the runtime rounds activations, or takes zero points of one block only
        check("QMoE", operands[:8], fixed, step=1e-3, activation_type="silu", expert_weight_bits=bits, **said, **more)
    (found,) = run("QMoE", operands, fixed, activation_type="silu", expert_weight_bits=bits, **said, **more)
    np.testing.assert_allclose(found, mixed(x, logits, layers, "silu", said), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("op", "operands", "said", "code"),
    [
        ("BeamSearch", [np.zeros((1, 4), np.int32)], {}, "E0104"),
        ("QOrderedGelu", [floats(2, 3)], {}, "E0104"),
        ("GroupNorm", [floats(1, 2, 2, 6), floats(6), floats(6)], {"groups": 4}, "E0109"),
        ("MoE", [floats(2, 4), floats(2, 3), floats(3, 4, 4), None, floats(3, 4, 4)], {"k": 9}, "E0109"),
        ("LinearAttention", [floats(1, 2, 8)] * 3, {"q_num_heads": 3, "kv_num_heads": 2}, "E0109"),
        ("CausalConvWithState", [floats(1, 2, 8), floats(2, 1, 3)], {"ndim": 2}, "E0113"),
        ("MoE", [floats(2, 4), floats(2, 3), floats(3, 4, 4), None, floats(3, 4, 4)], {"use_sparse_mixer": 1}, "E0113"),
    ],
)
def test_refused(op: str, operands: Operands, said: dict[str, Any], code: str) -> None:
    with pytest.raises(SternaError) as caught:
        run(op, operands, **said)
    assert set(caught.value.codes) == {code}
