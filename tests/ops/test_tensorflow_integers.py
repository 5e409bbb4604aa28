"""TensorFlow's products of integers with scales, ragged tensors and pictures of integers, against NumPy.

`ci/tensorflow-operators` compares the same operators with TensorFlow.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.graph_defs import GraphWriter, Kind

RNG = np.random.default_rng(4)
Array = np.ndarray


def run(
    folder: Path, op: str, *operands: Array, held: tuple[Any, ...] = (), results: int = 1, **said: Any
) -> list[Array]:
    """One operator of inputs and constants, in this order."""
    g = GraphWriter()
    names = [g.input(f"x{n}", x.shape, x.dtype.name) for n, x in enumerate(operands)]
    made = g.node(op, [*names, *(g.constant(np.asarray(c)) for c in held)], name="made", **said)
    for n in range(results):
        g.node("Identity", [f"{made}:{n}"], name=f"y{n}")
    found = interpret(read_model(g.write(folder)), {f"x{n}": x for n, x in enumerate(operands)})
    return [found[f"y{n}"] for n in range(results)]


def rounded(x: Array) -> Array:
    return np.floor(x + 0.5)


@pytest.mark.parametrize("each", [False, True])
def test_dot(tmp_path: Path, each: bool) -> None:
    x, w = (RNG.integers(-128, 128, size).astype(np.int8) for size in ((4, 6), (6, 3)))
    scales = np.float32([0.03, 0.01, 0.2]) if each else np.float32(0.03)
    zeros = np.int32([0, 0, 0]) if each else np.int32(2)
    held = (w, np.float32(0.05), np.int32(-3), scales, zeros, np.float32(0.01), np.int32(-5))
    said = {"rhs_quantization_axis": 1 if each else -1, "Tout": Kind("int32")}
    (found,) = run(tmp_path, "UniformQuantizedDot", x, held=held, **said)
    real = (x.astype(float) + 3) @ (w.astype(float) - zeros) * 0.05 * scales
    np.testing.assert_allclose(found, rounded(real / 0.01) - 5, atol=1)


def test_hybrid_dot(tmp_path: Path) -> None:
    x, w = RNG.normal(size=(4, 6)).astype(np.float32), RNG.integers(-128, 128, (6, 3)).astype(np.int8)
    (found,) = run(tmp_path, "UniformQuantizedDotHybrid", x, held=(w, np.float32(0.03), np.int32(2)))
    span = x.max(1).clip(0) - x.min(1).clip(None, 0)
    bound = np.abs(w.astype(float) - 2).sum(0) * 0.03 * (span[:, None] / 255)
    assert (np.abs(found - x @ (w.astype(np.float32) - 2) * 0.03) <= bound).all()


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_convolution(tmp_path: Path, padding: str) -> None:
    x = RNG.integers(-128, 128, (1, 2, 5, 6)).astype(np.int8)
    w = RNG.integers(-128, 128, (3, 2, 3, 3)).astype(np.int8)
    held = (w, np.float32(0.05), np.int32(-3), np.float32(0.03), np.int32(2), np.float32(0.1), np.int32(7))
    (found,) = run(tmp_path, "UniformQuantizedConvolution", x, held=held, padding=padding, Tout=Kind("int32"))
    steps = x.astype(float) + 3
    if padding == "SAME":
        steps = np.pad(steps, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(steps, (3, 3), (2, 3))
    real = np.einsum("nchwij,ocij->nohw", windows, w.astype(float) - 2) * 0.05 * 0.03
    np.testing.assert_allclose(found, rounded(real / 0.1) + 7, atol=1)


def test_sums_and_bounds(tmp_path: Path) -> None:
    x, y = (RNG.integers(-9000, 9000, (4, 6)).astype(np.int32) for _ in range(2))
    held = (np.float32(0.05), np.int32(3), np.float32(0.02), np.int32(-8), np.float32(0.03), np.int32(11))
    (found,) = run(tmp_path, "UniformQuantizedAdd", x, y, held=held)
    np.testing.assert_allclose(found, rounded((x - 3) * 0.05 / 0.03) + rounded((y + 8) * 0.02 / 0.03) + 11, atol=1)
    (found,) = run(
        tmp_path, "UniformQuantizedClipByValue", x, held=(np.int32(-500), np.int32(700), np.float32(0.1), np.int32(0))
    )
    np.testing.assert_array_equal(found, x.clip(-500, 700))
    held = (np.float32(0.01), np.int32(3), np.float32(0.5), np.int32(-4))
    (found,) = run(tmp_path, "UniformRequantize", x, held=held, Tout=Kind("int8"))
    np.testing.assert_allclose(found, (rounded((x - 3) * 0.02) - 4).clip(-128, 127), atol=1)


VALUES, SPLITS = RNG.normal(size=7).astype(np.float32), np.array([0, 2, 2, 5, 7], np.int64)


def rows(values: Array, splits: Array) -> list[Array]:
    return [values[a:b] for a, b in pairwise(splits)]


@pytest.mark.parametrize("kind", ["ROW_SPLITS", "VALUE_ROWIDS"])
@pytest.mark.parametrize(("height", "width"), [(4, 3), (6, 2), (3, 3)])
def test_ragged_rows_are_padded_and_cut(tmp_path: Path, kind: str, height: int, width: int) -> None:
    g = GraphWriter()
    values = g.input("values", (7,))
    own = SPLITS if kind == "ROW_SPLITS" else np.repeat(np.arange(4), np.diff(SPLITS))
    parts, kinds = [g.input("part", own.shape, "int64")], [kind]
    if kind == "VALUE_ROWIDS":
        parts, kinds = [g.constant(np.int64(4)), *parts], ["FIRST_DIM_SIZE", *kinds]
    sizes, default = g.constant(np.int64([height, width])), g.constant(np.float32(-1))
    g.node("RaggedTensorToTensor", [sizes, values, default, *parts], name="y", row_partition_types=kinds)
    (found,) = interpret(read_model(g.write(tmp_path)), {"values": VALUES, "part": own}).values()
    wanted = np.full((height, width), -1, np.float32)
    for n, row in enumerate(rows(VALUES, SPLITS)[:height]):
        wanted[n, : len(row)] = row[:width]
    np.testing.assert_array_equal(found, wanted)


def test_ragged_rows_as_coordinates(tmp_path: Path) -> None:
    found, values, sizes = run(tmp_path, "RaggedTensorToSparse", SPLITS, VALUES, results=3, RAGGED_RANK=1)
    wanted = [(n, m) for n, row in enumerate(rows(VALUES, SPLITS)) for m in range(len(row))]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(values, VALUES)
    np.testing.assert_array_equal(sizes, [4, 3])


def test_rows_and_ranges_that_are_known(tmp_path: Path) -> None:
    ends = [np.float32([0, 5, 3]), np.float32([3, 5, 0]), np.float32([1, 1, -0.5])]
    g = GraphWriter()
    x = g.input("x", (1,))
    made = g.node("RaggedRange", [g.constant(each) for each in ends], name="made", T=Kind("float32"))
    g.node("AddV2", [f"{made}:1", x], name="y")
    (found,) = interpret(read_model(g.write(tmp_path)), {"x": np.zeros(1, np.float32)}).values()
    np.testing.assert_array_equal(found, np.concatenate([np.arange(*each) for each in zip(*ends, strict=True)]))
    g = GraphWriter()
    operands = [g.constant(SPLITS), g.input("values", (7,)), g.constant(np.int64([2, 0, 3]))]
    made = g.node("RaggedGather", operands, name="made", PARAMS_RAGGED_RANK=1, OUTPUT_RAGGED_RANK=1)
    g.node("Identity", [f"{made}:1"], name="y")
    (found,) = interpret(read_model(g.write(tmp_path)), {"values": VALUES}).values()
    np.testing.assert_array_equal(found, np.concatenate([rows(VALUES, SPLITS)[n] for n in (2, 0, 3)]))


@pytest.mark.parametrize("count", [0, 2])
def test_no_ragged_values_as_coordinates(tmp_path: Path, count: int) -> None:
    held = (np.zeros(0, np.float32),)
    ends = np.zeros(count + 1, np.int64)
    found, values, sizes = run(tmp_path, "RaggedTensorToSparse", ends, held=held, results=3, RAGGED_RANK=1)
    assert found.shape == (0, 2)
    assert values.size == 0
    np.testing.assert_array_equal(sizes, [count, 0])


@pytest.mark.parametrize(
    ("start", "limit", "step", "code"),
    [
        ([0], [10**15], [1], "E0116"),
        ([-(2**62)], [2**62], [1], "E0116"),
        ([0], [5], [0], "E0109"),
        ([0.0], [np.nan], [1.0], "E0109"),
        ([0.0], [np.inf], [1.0], "E0109"),
        ([0.0], [5.0], [np.inf], "E0109"),
        ([0, 1], [5, 6, 7], [1], "E0108"),
    ],
)
def test_ranges_that_are_refused(tmp_path: Path, start: Any, limit: Any, step: Any, code: str) -> None:
    kind = "float32" if isinstance(start[0], float) else "int64"
    ends = tuple(np.array(each, kind) for each in (start, limit, step))
    with pytest.raises(SternaError) as caught:
        run(tmp_path, "RaggedRange", held=ends, results=2, T=Kind(kind))
    assert set(caught.value.codes) == {code}


def test_rows_that_end_beyond_the_values_are_refused(tmp_path: Path) -> None:
    g = GraphWriter()
    operands = [g.constant(np.int64([0, 2, 9])), g.input("values", (7,)), g.constant(np.int64([1]))]
    made = g.node("RaggedGather", operands, name="made", PARAMS_RAGGED_RANK=1, OUTPUT_RAGGED_RANK=1)
    g.node("Identity", [f"{made}:1"], name="y")
    with pytest.raises(SternaError) as caught:
        read_model(g.write(tmp_path))
    assert set(caught.value.codes) == {"E0109"}


def test_pictures_of_bytes(tmp_path: Path) -> None:
    """Within a level of the numbers between pixels."""
    x = RNG.integers(0, 256, (1, 4, 4, 2)).astype(np.uint8)
    held = (np.int32([8, 8]), np.float32(0), np.float32(1))
    (found,) = run(tmp_path, "QuantizedResizeBilinear", x, held=held, T=Kind("uint8"))
    at = np.arange(8) / 2
    low, share = at.astype(int), at - at.astype(int)
    high = np.minimum(low + 1, 3)
    wide = x.astype(float)
    wide = wide[:, low] + (wide[:, high] - wide[:, low]) * share[:, None, None]
    wide = wide[:, :, low] + (wide[:, :, high] - wide[:, :, low]) * share[:, None]
    np.testing.assert_allclose(found, wide, atol=1.01)


def test_a_fused_normalization(tmp_path: Path) -> None:
    x, side = (RNG.normal(size=(2, 3, 3, 4)).astype(np.float32) for _ in range(2))
    scale, offset, mean, variance = np.abs(RNG.normal(size=(4, 4))).astype(np.float32) + np.float32(0.1)
    g = GraphWriter()
    operands = [g.input("x", x.shape), *(g.constant(v) for v in (scale, offset, mean, variance)), g.input("s", x.shape)]
    g.node(
        "_FusedBatchNormEx", operands, name="y", is_training=False, epsilon=0.001, num_side_inputs=1,
        activation_mode="Relu",
    )  # fmt: skip
    (found,) = interpret(read_model(g.write(tmp_path)), {"x": x, "s": side}).values()
    wanted = np.maximum((x - mean) / np.sqrt(variance + np.float32(0.001)) * scale + offset + side, 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lacking", ["strides", "padding"])
@pytest.mark.parametrize("op", ["Conv2D", "DepthwiseConv2dNative"])
def test_attributes_that_every_file_has(tmp_path: Path, op: str, lacking: str) -> None:
    g = GraphWriter()
    operands = [g.input("x", (1, 5, 5, 2)), g.constant(np.ones((3, 3, 2, 2), np.float32))]
    said = {"strides": (1, 1, 1, 1), "padding": "SAME"}
    said.pop(lacking)
    g.node(op, operands, name="y", **said)
    with pytest.raises(SternaError, match=lacking) as caught:
        read_model(g.write(tmp_path))
    assert set(caught.value.codes) == {"E0109"}


@pytest.mark.parametrize(
    ("op", "operands", "held", "said", "code"),
    [
        ("UniformQuantizedDot", [np.zeros((2, 2), np.int8)] * 2, [np.float32(1), np.int32(0)] * 2, {}, "E0103"),
        ("RaggedTensorToTensor", [np.int64([2, 2]), VALUES, np.float32(0), SPLITS], [], {}, "E0109"),
        ("RaggedGather", [SPLITS, VALUES, np.int64([1])], [], {}, "E0107"),
        (
            "QuantizedResizeBilinear",
            [np.zeros((1, 2, 2, 1), np.float32)],
            [np.int32([4, 4]), np.float32(0)],
            {},
            "E0113",
        ),
    ],
)
def test_refused(
    tmp_path: Path, op: str, operands: list[Array], held: list[Any], said: dict[str, Any], code: str
) -> None:
    with pytest.raises(SternaError) as caught:
        run(tmp_path, op, *operands, held=tuple(held), **said)
    assert set(caught.value.codes) == {code}
