"""Operators of ONNX Runtime (com.microsoft), one node at a time with random operands, against ONNX Runtime itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from sterna.api import options_of
from sterna.cli import program
from sterna.debug.interpret import interpret
from sterna.debug.verify import verify_model
from sterna.errors import SternaError
from sterna.frontends.formats import reference_for
from sterna.frontends.onnx import read
from sterna.frontends.onnx.operators.microsoft_quantized import APPROXIMATED
from support.runtime_nodes import Operands, check, model_of


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def codes(*shape: int, dtype: str = "uint8", seed: int = 0) -> np.ndarray:
    """All of uint8, and 7 bits of int8: see support.onnx_runtime."""
    low, high = (0, 255) if dtype == "uint8" else (-64, 63)
    return np.random.default_rng(seed).integers(low, high, shape, endpoint=True).astype(dtype)


def scalar(value: float, dtype: str = "float32") -> np.ndarray:
    return np.array(value, dtype)


# ---------------------------------------------------------------- attention
MASKS = {
    "none": None,
    "lengths": np.array([3, 5], np.int32),
    "ends-and-starts": np.array([4, 5, 1, 0], np.int32),
    "keys": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
    "pairs": (np.random.default_rng(3).random((2, 5, 5)) < 0.7).astype(np.int32),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention(mask: str, unidirectional: int) -> None:
    operands = [floats(2, 5, 8), floats(8, 24, seed=1), floats(24, seed=2), MASKS[mask]]
    check("Attention", operands, (1, 2), num_heads=2, unidirectional=unidirectional)


def test_attention_with_a_past_a_bias_and_uneven_sizes() -> None:
    x, w = floats(2, 3, 8), floats(8, 24, seed=1)
    past, bias = floats(2, 2, 2, 4, 4, seed=3), floats(2, 2, 3, 7, seed=4)
    keys = np.array([[1] * 6 + [0], [1] * 7], np.int32)
    check("Attention", [x, w, floats(24), keys, past], (1, 2), 2, num_heads=2)
    check("Attention", [x, w, floats(24), None, past], (1, 2), 2, num_heads=2, unidirectional=1)
    check("Attention", [x, w, floats(24), None, None, bias[..., :3]], (1, 2), num_heads=2, unidirectional=1)
    check("Attention", [x, floats(8, 22), floats(22)], (1, 2), num_heads=2, qkv_hidden_sizes=[8, 8, 6], scale=0.3)
    check("Attention", [x, w, floats(24), keys[:, :3]], (1, 2), num_heads=4, mask_filter_value=-5.0)


@pytest.mark.parametrize("mask", ["none", "lengths", "keys"])
@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention(mask: str, bias: bool) -> None:
    q, k, v = floats(2, 3, 8), floats(2, 5, 8, seed=1), floats(2, 5, 12, seed=2)
    added = [floats(28, seed=5)] if bias else [None]
    check("MultiHeadAttention", [q, k, v, *added, MASKS[mask]], (3,), num_heads=4)
    check("MultiHeadAttention", [q, k, v, *added, MASKS[mask], floats(1, 4, 3, 5, seed=6)], (3,), num_heads=4)


def test_multi_head_attention_with_a_past() -> None:
    q, k, v = (floats(2, 3, 8, seed=n) for n in range(3))
    past = [floats(2, 4, 2, 2, seed=n) for n in (4, 5)]
    check("MultiHeadAttention", [q, k, v, None, None, None, *past], (), 3, num_heads=4)
    check("MultiHeadAttention", [q, k, v, None, None, None, *past], (), 3, num_heads=4, unidirectional=1, scale=0.4)
    heads = [floats(2, 4, 6, 2, seed=n) for n in (7, 8)]
    check("MultiHeadAttention", [q, *heads], num_heads=4)
    check("MultiHeadAttention", [q, k, v], num_heads=2, unidirectional=1)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    tables = [f(floats(9, 3)) for f in (np.cos, np.sin)]
    places = np.array([[2, 3, 4, 5], [0, 1, 2, 3]], np.int64)
    x, four = floats(2, 4, 12), floats(2, 2, 4, 6)
    for positions in (places, np.array([1], np.int64)):
        check("RotaryEmbedding", [x, positions, *tables], (2, 3), interleaved=interleaved)
        check("RotaryEmbedding", [four, positions, *tables], (2, 3), interleaved=interleaved)
    wide = floats(2, 4, 16)
    check(
        "RotaryEmbedding", [wide, places, *tables], (2, 3), interleaved=interleaved, num_heads=2, rotary_embedding_dim=6
    )


def _cache(past: int, batch: int = 2) -> list[np.ndarray]:
    return [floats(batch, 2, past, 16, seed=n) for n in (8, 9)]


def _lengths(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@pytest.mark.parametrize("settings", [
    {}, {"scale": 0.3}, {"softcap": 2.0}, {"local_window_size": 3}, {"smooth_softmax": 1},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("rotary", [0, 1])
def test_group_query_attention(settings: dict[str, Any], rotary: int) -> None:
    """A prompt, and a step of generation behind a past of full length."""
    tables = [f(floats(16, 8)) for f in (np.cos, np.sin)] if rotary else []
    options = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": rotary, "rotary_interleaved": rotary, **settings}
    q, k, v = floats(2, 5, 64), floats(2, 5, 32, seed=1), floats(2, 5, 32, seed=2)
    prompt = [q, k, v, *_cache(0), _lengths(4, 4), _lengths(5)[0], *tables]
    check("GroupQueryAttention", prompt, (6, 7, 8), 3, **options)
    one = [floats(2, 1, 64), floats(2, 1, 32, seed=1), floats(2, 1, 32, seed=2)]
    check("GroupQueryAttention", [*one, *_cache(6), _lengths(6, 6), _lengths(7)[0], *tables], (6, 7, 8), 3, **options)
    # A cache with room left: what lies behind the last key is nobody's.
    valid = dict.fromkeys((1, 2), np.s_[:, :, :7])
    room = [*one, *_cache(9), _lengths(6, 6), _lengths(7)[0], *tables]
    check("GroupQueryAttention", room, (6, 7, 8), 3, compared=valid, **options)


def test_group_query_attention_of_packed_operands_and_uneven_sequences() -> None:
    options = {"num_heads": 4, "kv_num_heads": 2}
    packed = floats(2, 1, 128)
    shorter = [packed, None, None, *_cache(8), _lengths(3, 6), _lengths(7)[0]]
    valid = dict.fromkeys((1, 2), np.s_[:, :, :4])
    check("GroupQueryAttention", shorter, (6,), 3, compared=valid, **options)
    bias = floats(1, 4, 1, 7, seed=4)
    same = [packed, None, None, *_cache(6), _lengths(6, 6), _lengths(7)[0], None, None, None, bias]
    check("GroupQueryAttention", same, (6,), 3, **options)
    check("GroupQueryAttention", [*same[:10], None, floats(4)], (6,), 3, **options)


# ---------------------------------------------------------------- normalization, activation, products
def test_normalization() -> None:
    x, skip, gamma, beta, bias = floats(2, 3, 8), floats(2, 3, 8, seed=1), *(floats(8, seed=n) for n in (2, 3, 4))
    check("SkipLayerNormalization", [x, skip, gamma, beta, bias], (2, 3, 4), epsilon=1e-3)
    check("SkipLayerNormalization", [x, skip[:1], gamma], (2,))
    check("SkipLayerNormalization", [x, skip[0], gamma, None, bias], (2, 4))
    check("SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], (2, 3), epsilon=1e-3)
    check("SkipSimplifiedLayerNormalization", [x, skip, gamma], (2,))


def test_the_sum_is_a_result_too() -> None:

    x, skip, gamma = floats(2, 3, 8), floats(2, 3, 8, seed=1), floats(8)
    model = onnx.load_from_string(model_of("SkipLayerNormalization", [x, skip, gamma], (2,), 1, {}))
    model.graph.node[0].output[:] = ["y0", "", "", "y1"]
    model.graph.output.append(helper.make_empty_tensor_value_info("y1"))
    found = interpret(read(model), {"x0": x, "x1": skip})
    np.testing.assert_allclose(found["y1"], x + skip, rtol=1e-6)


@pytest.mark.parametrize("op", ["EmbedLayerNormalization", "QEmbedLayerNormalization"])
@pytest.mark.parametrize("segments", [False, True])
def test_embedding(op: str, segments: bool) -> None:
    ids = np.array([[1, 2, 0], [4, 3, 2]], np.int32)
    kinds = np.array([[0, 0, 1], [1, 0, 1]], np.int32) if segments else None
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    sizes = [(5, 8), (6, 8), (2, 8), (8,), (8,)]
    if op[0] == "E":
        tables = [floats(*s, seed=n) for n, s in enumerate(sizes)]
        tables[2:3] = [tables[2] if segments else None]  # type: ignore[list-item]
        check(op, [ids, kinds, *tables, mask], range(2, 7), 2, epsilon=1e-4)
        check(op, [ids, kinds, *tables, mask, np.array([[2, 1, 0]] * 2, np.int32)], range(2, 7), 2)
        return
    tables = [codes(*s, seed=n) for n, s in enumerate(sizes)]
    scales = [scalar(0.02 * (n + 1)) for n in range(5)]
    zeros = [scalar(100 + n, "uint8") for n in range(5)]
    every = [tables, scales, zeros]
    if not segments:
        for group in every:
            group[2] = None  # type: ignore[call-overload]
    check(op, [ids, kinds, *every[0], mask, *every[1], *every[2]], range(2, 18), 2, epsilon=1e-4)


@pytest.mark.parametrize("activation", [
    {"activation": "Relu"}, {"activation": "LeakyRelu", "activation_params": [0.2]},
    {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
    {"activation": "Clip", "activation_params": [-1.0, 0.5]},
    {"activation": "Tanh"}, {"activation": "Sigmoid"},
], ids=str)  # fmt: skip
def test_fused_convolutions(activation: dict[str, Any]) -> None:
    x, w, b = floats(1, 4, 7, 5), floats(6, 2, 3, 3, seed=1), floats(6, seed=2)
    check("FusedConv", [x, w, b], (1, 2), group=2, pads=[1, 0, 1, 2], strides=[2, 1], **activation)
    check("FusedConv", [x, w, b, floats(1, 6, 7, 5, seed=3)], (1, 2), group=2, pads=[1] * 4, **activation)


@pytest.mark.parametrize("settings", [
    {"activation": "Relu"}, {"activation": "LeakyRelu", "activation_alpha": 0.2}, {"activation": "Tanh"},
    {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.4}, {"activation": "Sigmoid"},
], ids=str)  # fmt: skip
def test_fused_gemm(settings: dict[str, Any]) -> None:
    check("FusedGemm", [floats(3, 4), floats(4, 5, seed=1), floats(5)], (1,), alpha=0.5, **settings)
    check("FusedGemm", [floats(4, 3), floats(5, 4, seed=1)], (1,), transA=1, transB=1, activation="LeakyRelu",
          activation_alpha=0.3)  # fmt: skip


def test_activations() -> None:
    x = floats(2, 3, 8) * 3
    check("Gelu", [x])
    check("QuickGelu", [x], alpha=1.3)
    check("BiasGelu", [x, floats(8)])
    check("FastGelu", [x, floats(8)], step=1e-4)
    check("FastGelu", [x], step=1e-4)


def test_products() -> None:
    check("FusedMatMul", [floats(2, 4, 3), floats(2, 5, 4, seed=1)], alpha=0.3, transA=1, transB=1)
    check("FusedMatMul", [floats(3, 2, 4), floats(5, 2, 4, seed=1)], transBatchA=1, transBatchB=1, transB=1)
    check("FusedMatMul", [floats(3, 2, 4), floats(2, 3, 6, seed=1)], transBatchA=1, transA=1)
    check("TransposeMatMul", [floats(4, 3), floats(4, 5, seed=1)], transA=1)
    check("MatMulInteger16", [codes(2, 3, 4, dtype="int16"), codes(4, 2, dtype="int16")])
    for metric in ("euclidean", "sqeuclidean"):
        check("CDist", [floats(5, 3), floats(4, 3, seed=1)], metric=metric, step=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_inverse(rows: int) -> None:
    x = floats(2, 3, rows, rows)
    x[0, 0, 0, 0] = 0.0 if rows > 1 else 2.0  # a pivot further down
    check("Inverse", [x], step=1e-3)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_crop_and_resize(mode: str) -> None:
    boxes = np.array([[0, 0, 1, 1], [0.2, 0.3, 0.7, 0.8], [0.9, 0.1, 0.2, 1.3], [-0.2, 0, 0.5, 0.5]], np.float32)
    image = np.array([0, 1, 1, 0], np.int32)
    for size in ([4, 3], [1, 1], [2, 7]):
        operands = [floats(2, 3, 6, 5), boxes, image, np.array(size, np.int32)]
        check("CropAndResize", operands, (3,), mode=mode, extrapolation_value=-7.0)


def test_operators_that_onnx_took_over() -> None:
    x = floats(3, 4)
    check("Pad", [x, np.array([1, 0, 0, 2]), scalar(5.0)], (1, 2))
    check("Pad", [x, np.array([1, 0, 0, 2])], (1,), mode="edge")
    check("Range", [scalar(1.0), scalar(7.5), scalar(2.0)], (0, 1, 2))
    check("Range", [scalar(1, "int32"), scalar(7, "int32")], (0, 1))
    check("Trilu", [x, scalar(1, "int64")], (1,), upper=0)
    check("Trilu", [x])
    for axis in (0, 1, -1):
        check("ExpandDims", [x, scalar(axis, "int32")], (1,))
    check("GatherND", [x, np.array([[0, 1], [2, 3]])])
    grid = np.clip(floats(1, 3, 2, 2), -1, 1)
    for mode in ("bilinear", "nearest"):
        check("GridSample", [floats(1, 2, 4, 5), grid], mode=mode, padding_mode="border", align_corners=1)
    check("Unique", [np.array([3.0, 1, 3, 2, 1], np.float32)], (0,), 3)
    check("UnfoldTensor", [floats(2, 7)], dim=1, size=3, step=2)
    check("UnfoldTensor", [floats(7, 2)], dim=0, size=3, step=2)


# ---------------------------------------------------------------- quantized
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantized_attention(dtype: str) -> None:
    x, w = codes(2, 3, 8), codes(8, 24, dtype=dtype, seed=1)
    zero = [scalar(7, "uint8"), scalar(3, dtype)]
    scales = [scalar(0.01), scalar(0.02)]
    check("QAttention", [x, w, floats(24), *scales, None, *zero], (1, 2, 3, 4, 6, 7), num_heads=2, step=2e-4)
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    check("QAttention", [x, w, floats(24), *scales, mask, *zero], (1, 2, 3, 4, 6, 7), num_heads=2, step=2e-4,
          unidirectional=1)  # fmt: skip
    each = np.linspace(0.01, 0.03, 24, dtype=np.float32)
    past = floats(2, 2, 2, 4, 4)
    check("QAttention", [x, w, floats(24), scales[0], each, None, zero[0], zero[1], past], (1, 2, 3, 4, 6, 7), 2,
          num_heads=2, step=2e-4)  # fmt: skip


@pytest.mark.parametrize("result", [False, True])
@pytest.mark.parametrize("turned", [0, 1])
def test_quantized_gemm(result: bool, turned: int) -> None:
    a, b = codes(*((4, 3) if turned else (3, 4))), codes(*((5, 4) if turned else (4, 5)), dtype="int8")
    operands: list[np.ndarray | None] = [
        a, scalar(0.02), scalar(120, "uint8"), b, np.linspace(0.01, 0.03, 5, dtype=np.float32), np.zeros(5, np.int8),
        np.array([100, -300, 5, 0, 9], np.int32),
    ]  # fmt: skip
    if result:
        operands += [scalar(0.2), scalar(128, "uint8")]
    check("QGemm", operands, range(1, 9), transA=turned, transB=turned, alpha=1.0, step=1 if result else 1e-4)


def test_quantized_choice_and_pooling() -> None:
    q, r, y = ((scalar(0.02 * n), scalar(100 + n, "uint8")) for n in (1, 2, 3))
    condition = np.array([[True, False, True]])
    check("QLinearWhere", [condition, codes(2, 3), *q, codes(2, 3, seed=1), *r, *y], (2, 3, 5, 6, 7, 8), step=1)
    check("NhwcMaxPool", [codes(1, 6, 5, 3)], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0])
    check("NhwcMaxPool", [codes(1, 6, 5, 3, dtype="int8")], kernel_shape=[2, 2], ceil_mode=1, strides=[2, 2])
    for last in (0, 1):
        x = codes(1, 4, 5, 3) if last else codes(1, 3, 4, 5)
        check("QLinearGlobalAveragePool", [x, *q, *r], range(1, 5), step=1, channels_last=last)
        check("QLinearAveragePool", [x, *q, *r], range(1, 5), step=1, channels_last=last, kernel_shape=[2, 3],
              pads=[1, 1, 0, 0], count_include_pad=last)  # fmt: skip


def test_channels_last_convolution() -> None:
    each = np.linspace(0.01, 0.03, 6, dtype=np.float32)
    operands = [
        codes(1, 7, 5, 4), scalar(0.02), scalar(120, "uint8"), codes(6, 2, 3, 3, dtype="int8"), each,
        np.zeros(6, np.int8), scalar(0.3), scalar(128, "uint8"), np.arange(6, dtype=np.int32) * 50,
    ]  # fmt: skip
    check("QLinearConv", operands, range(1, 9), step=1, channels_last=1, group=2, pads=[1] * 4, strides=[2, 1])


@pytest.mark.parametrize(
    ("bits", "zeros"), [*((b, z) for b in (2, 4) for z in ("none", "packed", "float")), (8, "none"), (8, "packed")]
)
def test_products_with_weights_in_blocks(bits: int, zeros: str) -> None:
    n, k, block = 5, 48, 32
    blocks = -(-k // block)
    scales = np.abs(floats(n * blocks)) + 0.1
    packed = codes(n, blocks, block * bits // 8)
    zero = {
        "none": None,
        "packed": codes(n * -(-blocks * bits // 8), seed=1),
        "float": np.abs(floats(n * blocks, seed=2)) * 3,
    }[zeros]
    operands = [floats(2, 3, k), packed, scales, zero]
    check("MatMulNBits", operands, (1, 2, 3), step=2e-3, K=k, N=n, bits=bits, block_size=block)
    check("MatMulNBits", [*operands, None, floats(n)], (1, 2, 3, 5), step=2e-3, K=k, N=n, bits=bits, block_size=block)


@pytest.mark.parametrize("kind", [0, 1])
def test_products_with_numbered_weights(kind: int) -> None:
    n, k, block = 4, 32, 16
    operands = [floats(3, k), codes(n * k // 2), np.abs(floats(n * k // block)) + 0.1]
    check("MatMulBnb4", operands, (1, 2), step=1e-3, K=k, N=n, block_size=block, quant_type=kind)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_tables_in_blocks(zeros: bool, bits: int) -> None:
    rows, width, block = 5, 32, 16
    packed = codes(rows, width * bits // 8)
    scales = np.abs(floats(rows, width // block)) + 0.1
    zero = codes(rows, -(-width // block * bits // 8), seed=1) if zeros else None
    indices = np.array([[0, 4, 2], [1, 1, 3]], np.int64)
    check("GatherBlockQuantized", [packed, indices, scales, zero], (0, 2, 3), gather_axis=0, quantize_axis=1,
          block_size=block, bits=bits)  # fmt: skip


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrent_weights_in_few_bits(direction: str) -> None:
    """ONNX Runtime rounds the states to 8 bits as well, so that the results are about a step of those apart."""
    operands = _lstm_in_few_bits(2 if direction == "bidirectional" else 1)
    check("DynamicQuantizeLSTM", operands, (1, 2, 8, 9, 10, 11), 3, step=1.5e-2, hidden_size=5, direction=direction)


def _lstm_in_few_bits(directions: int) -> list[np.ndarray | None]:
    w, r = codes(directions, 4, 20, dtype="int8"), codes(directions, 5, 20, dtype="int8", seed=1)
    scale = np.full((directions,), 0.005, np.float32)
    zero = np.zeros((directions,), np.int8)
    return [floats(3, 2, 4), w, r, floats(directions, 40), None, None, None, None, scale, zero, scale, zero]


def test_verify_tells_an_approximation_from_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "lstm.onnx"
    given = {"hidden_size": 5}
    path.write_bytes(model_of("DynamicQuantizeLSTM", _lstm_in_few_bits(1), (1, 2, 8, 9, 10, 11), 1, given))
    for more in ([], ["--bisect"]):
        result = CliRunner().invoke(program, ["verify", str(path), "-g", "llvm", *more])
        assert result.exit_code == 1
        assert "ONNX Runtime rounds the inputs and hidden states of DynamicQuantizeLSTM to 8 bits" in result.stderr
        assert "fix: this difference is by design" in result.stderr
        assert "bug" not in result.stderr
    assert verify_model(path, options_of(generator="llvm"), tolerance=0.05).apart == ()


def test_a_fault_beside_an_approximation_stays_one(tmp_path: Path) -> None:
    """Only nodes whose import is an approximation are excused, not others of the same model."""
    path = tmp_path / "lstm.onnx"
    given = {"hidden_size": 5}
    path.write_bytes(model_of("DynamicQuantizeLSTM", _lstm_in_few_bits(1), (1, 2, 8, 9, 10, 11), 1, given))
    reference = reference_for(path)
    assert reference.apart(["DynamicQuantizeLSTM_0"]) == tuple(APPROXIMATED.values())
    assert reference.apart() == tuple(APPROXIMATED.values())
    assert reference.apart(["another"]) == ()


def test_what_is_refused() -> None:

    refused: list[tuple[str, str, Operands, dict[str, Any]]] = [
        ("E0109", "Attention", [floats(2, 3, 8), floats(8, 24), None], {"num_heads": 3}),
        ("E0113", "Attention", [floats(2, 3, 8), floats(8, 24), None], {"num_heads": 2, "do_rotary": 1}),
        ("E0109", "GroupQueryAttention", [floats(1, 2, 8)], {"num_heads": 3, "kv_num_heads": 2}),
        ("E0113", "RotaryEmbedding", [floats(1, 2, 8)], {"scale": 2.0}),
        ("E0113", "MatMulNBits", [floats(1, 8), codes(2, 1, 16), floats(2)], {"bits": 5, "N": 2, "K": 8}),
        ("E0109", "MatMulBnb4", [floats(1, 8), codes(2), floats(2)], {"N": 2, "K": 8, "block_size": 16}),
        ("E0109", "CropAndResize", [floats(1, 1, 2, 2), floats(1, 4), scalar(0), np.array([0, 2])], {}),
        ("E0113", "CDist", [floats(2, 3), floats(2, 3)], {"metric": "cosine"}),
        ("E0109", "IsAllFinite", [floats(3)], {"isnan_only": 1, "isinf_only": 1}),
        ("E0109", "UnfoldTensor", [floats(3)], {"dim": 0, "size": 4}),
    ]
    for code, op, operands, attributes in refused:
        model = onnx.load_from_string(model_of(op, operands, range(1, 9), 1, attributes))
        with pytest.raises(SternaError) as caught:
            read(model)
        assert caught.value.codes == (code,), op


def test_all_finite() -> None:

    for attributes, values, expected in (
        ({}, [1.0, 2.0], True), ({}, [1.0, np.nan], False), ({"isinf_only": 1}, [1.0, np.nan], True),
        ({"isinf_only": 1}, [1.0, np.inf], False), ({"isnan_only": 1}, [np.inf, 1.0], True),
    ):  # fmt: skip
        x = np.array(values, np.float32)
        model = onnx.load_from_string(model_of("IsAllFinite", [x, np.ones(2, np.float32)], (), 1, attributes))
        assert interpret(read(model), {"x0": x, "x1": np.ones(2, np.float32)})["y0"] == expected


def test_biases_of_diffusion_models() -> None:
    """ONNX Runtime has no kernels of these for processors; their formulas are one line each."""

    x, bias, skip = floats(2, 3, 8), floats(8, seed=1), floats(2, 3, 8, seed=2)
    split = onnx.load_from_string(model_of("BiasSplitGelu", [x, bias], (), 1, {}))
    left, right = np.split(x + bias, 2, axis=-1)
    gate = onnx.load_from_string(model_of("Gelu", [right], (), 1, {}))
    expected = left * interpret(read(gate), {"x0": right})["y0"]
    np.testing.assert_allclose(interpret(read(split), {"x0": x, "x1": bias})["y0"], expected, rtol=1e-5, atol=1e-6)
    added = onnx.load_from_string(model_of("BiasAdd", [x, bias, skip], (), 1, {}))
    np.testing.assert_allclose(
        interpret(read(added), {"x0": x, "x1": bias, "x2": skip})["y0"], x + bias + skip, rtol=1e-6
    )
