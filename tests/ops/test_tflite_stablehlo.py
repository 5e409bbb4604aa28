"""StableHLO in TensorFlow Lite's files, windows and gaps, against LiteRT's kernels where it has them, else NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.stablehlo_models import compared, model
from support.tflite_builder import ModelWriter

RNG = np.random.default_rng(12)
X, Y = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32)
WHOLE = RNG.integers(-9, 9, (2, 3, 4)).astype(np.int32)
POSITIVE = np.abs(X) + np.float32(0.1)
ROW = RNG.normal(size=(6, 4)).astype(np.float32)


#: Operator, operands, NumPy's result, the positions of constants, the table of settings, settings.
CASES: list[tuple[str, list[np.ndarray], Callable[..., Any], tuple[int, ...], str, dict[str, Any]]] = [
    *((f"STABLEHLO_{name}", [X, Y], function, (), "", {}) for name, function in (
        ("ADD", np.add), ("SUBTRACT", np.subtract), ("MULTIPLY", np.multiply), ("DIVIDE", np.divide),
        ("MAXIMUM", np.maximum), ("MINIMUM", np.minimum), ("REMAINDER", np.fmod),
    )),
    *((f"STABLEHLO_{name}", [POSITIVE], function, (), "", {}) for name, function in (
        ("ABS", np.abs), ("NEGATE", np.negative), ("EXPONENTIAL", np.exp), ("LOG", np.log), ("COSINE", np.cos),
        ("TANH", np.tanh), ("FLOOR", np.floor), ("RSQRT", lambda x: 1 / np.sqrt(x)), ("CBRT", np.cbrt),
        ("LOGISTIC", lambda x: 1 / (1 + np.exp(-x))),
    )),
    ("STABLEHLO_POWER", [POSITIVE, Y], np.power, (), "", {}),
    ("STABLEHLO_AND", [WHOLE, WHOLE[::-1].copy()], np.bitwise_and, (), "", {}),
    ("STABLEHLO_OR", [WHOLE, WHOLE[::-1].copy()], np.bitwise_or, (), "", {}),
    ("STABLEHLO_SHIFT_LEFT", [WHOLE, np.abs(WHOLE) % 4], np.left_shift, (), "", {}),
    ("STABLEHLO_CLAMP", [np.float32(-0.5).reshape(()), X, np.float32(0.5).reshape(())],
     lambda a, x, b: x.clip(a, b), (0, 2), "", {}),
    *(("STABLEHLO_COMPARE", [WHOLE, WHOLE[::-1].copy()], function, (), "StablehloCompareOptions",
       {"comparisonDirection": n}) for n, function in enumerate(
           (np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less))),
    ("STABLEHLO_CONVERT", [WHOLE], lambda x: x.astype(np.float32), (), "", {}),
    ("STABLEHLO_BROADCAST_IN_DIM", [ROW], lambda x: np.broadcast_to(x[:, None], (6, 3, 4)), (),
     "StablehloBroadcastInDimOptions", {"broadcastDimensions": [0, 2]}),
    ("STABLEHLO_CONCATENATE", [X, Y], lambda x, y: np.concatenate([x, y], 1), (), "StablehloConcatenateOptions",
     {"dimension": 1}),
    ("STABLEHLO_SLICE", [X], lambda x: x[1:3, :3:2, 1:], (), "StablehloSliceOptions",
     {"startIndices": [1, 0, 1], "limitIndices": [3, 3, 5], "strides": [1, 2, 1]}),
    ("STABLEHLO_DYNAMIC_SLICE", [ROW, np.int32(5).reshape(()), np.int32(1).reshape(())], lambda x, *_: x[4:, 1:3], (),
     "StablehloDynamicSliceOptions", {"sliceSizes": [2, 2]}),
    ("STABLEHLO_RESHAPE", [X], lambda x: x.reshape(12, 5), (), "", {}),
    ("STABLEHLO_TRANSPOSE", [X], lambda x: x.transpose(2, 0, 1), (), "StablehloTransposeOptions",
     {"permutation": [2, 0, 1]}),
    ("STABLEHLO_DOT_GENERAL", [X, Y], lambda x, y: np.einsum("bik,bjk->bij", x, y), (), "StablehloDotGeneralOptions",
     {"lhsBatchingDimensions": [0], "rhsBatchingDimensions": [0], "lhsContractingDimensions": [2],
      "rhsContractingDimensions": [2]}),
    ("STABLEHLO_DOT_GENERAL", [X, Y], lambda x, y: np.tensordot(x, y, ((2, 0), (2, 0))), (),
     "StablehloDotGeneralOptions", {"lhsContractingDimensions": [2, 0], "rhsContractingDimensions": [2, 0]}),
    ("STABLEHLO_SELECT", [WHOLE > 0, WHOLE, -WHOLE], np.where, (), "", {}),
    ("STABLEHLO_DYNAMIC_UPDATE_SLICE", [ROW, ROW[:2, :2] * 2, np.int32(5).reshape(()), np.int32(1).reshape(())],
     lambda x, u, *_: np.concatenate([x[:4], np.concatenate([x[4:, :1], u, x[4:, 3:]], 1)]), (), "", {}),
]  # fmt: skip
#: What the interpreter of LiteRT has kernels for.
_BY_LITERT = ("STABLEHLO_ADD", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].removeprefix("STABLEHLO_").lower())
def test_against_numpy(tmp_path: Path, case: Any) -> None:
    op, operands, function, held, options, settings = case
    wanted = np.asarray(function(*operands))
    compared(tmp_path, model(op, operands, held, wanted, options, **settings), wanted, op in _BY_LITERT)


def test_numbers_in_order(tmp_path: Path) -> None:
    writer = model("STABLEHLO_IOTA", [], (), np.zeros((3, 4), np.int32), "StablehloIotaOptions", iotaDimension=1)
    (tmp_path / "model.tflite").write_bytes(writer.content())
    (found,) = interpret(read_model(tmp_path / "model.tflite"), {}).values()
    np.testing.assert_array_equal(found, np.broadcast_to(np.arange(4), (3, 4)))


@pytest.mark.parametrize(
    ("low", "high", "gaps"), [((1, 0), (2, 3), (0, 0)), ((-1, 2), (1, -1), (1, 2)), ((0, 0), (0, 0), (2, 1))]
)
def test_padding_with_gaps(tmp_path: Path, low: tuple[int, ...], high: tuple[int, ...], gaps: tuple[int, ...]) -> None:
    rows, columns = (n + (n - 1) * gap for n, gap in zip(ROW.shape, gaps, strict=True))
    wide = np.full((rows, columns), 7, np.float32)
    wide[:: gaps[0] + 1, :: gaps[1] + 1] = ROW
    for axis, (a, b) in enumerate(zip(low, high, strict=True)):
        pads = [(max(a, 0), max(b, 0)) if n == axis else (0, 0) for n in range(2)]
        cut = [slice(max(-a, 0), wide.shape[axis] - max(-b, 0)) if n == axis else slice(None) for n in range(2)]
        wide = np.pad(wide[tuple(cut)], pads, constant_values=7)
    writer = model(
        "STABLEHLO_PAD", [ROW, np.float32(7).reshape(())], (1,), wide, "StablehloPadOptions",
        edgePaddingLow=list(low), edgePaddingHigh=list(high), interiorPadding=list(gaps),
    )  # fmt: skip
    compared(tmp_path, writer, wide)


def test_dilation(tmp_path: Path) -> None:
    wanted = np.full((11, 10), 7, np.float32)
    wanted[::2, ::3] = ROW
    operands = [ROW, np.array([2, 3], np.int32), np.array([7], np.float32).reshape(())]
    compared(tmp_path, model("DILATE", operands, (1, 2), wanted, "DilateOptions"), wanted)


@pytest.mark.parametrize(("inner", "function"), [("ADD", np.sum), ("MUL", np.prod), ("MAXIMUM", np.max)])
def test_reductions_by_graphs(tmp_path: Path, inner: str, function: Any) -> None:
    neutral = np.float32({"ADD": 0, "MUL": 1, "MAXIMUM": -1e9}[inner]).reshape(())
    wanted = function(X, axis=(0, 2))
    writer = model(
        "STABLEHLO_REDUCE", [X, neutral], (1,), wanted, "StablehloReduceOptions", (inner, "bodySubgraphIndex"),
        dimensions=[0, 2],
    )  # fmt: skip
    compared(tmp_path, writer, wanted, by_litert=False)
    windows = np.lib.stride_tricks.sliding_window_view(ROW, (2, 3), (0, 1))[::2]
    wanted = function(windows, axis=(2, 3))
    writer = model(
        "STABLEHLO_REDUCE_WINDOW", [ROW, neutral], (1,), wanted, "StablehloReduceWindowOptions",
        (inner, "bodySubgraphIndex"), windowDimensions=[2, 3], windowStrides=[2, 1], baseDilations=[1, 1],
        windowDilations=[1, 1], padding=[0, 0, 0, 0],
    )  # fmt: skip
    compared(tmp_path, writer, wanted)
    sizes = [np.array(row, np.int64) for row in ([2, 3], [2, 1], [1, 1])]
    number = {"ADD": 1, "MUL": 2, "MAXIMUM": 4}[inner]
    writer = model(
        "REDUCE_WINDOW", [ROW, neutral, *sizes], (1, 2, 3, 4), wanted, "ReduceWindowOptions", reduceFunction=number
    )
    compared(tmp_path, writer, wanted)


def test_gather(tmp_path: Path) -> None:
    places = np.array([[0, 1], [5, 2], [3, 0]], np.int32)
    clipped = places.clip(0, [4, 2])
    wanted = np.stack([ROW[a : a + 2, b : b + 2] for a, b in clipped])
    writer = model(
        "STABLEHLO_GATHER", [ROW, places], (), wanted, "StablehloGatherOptions", offsetDims=[1, 2],
        collapsedSliceDims=[], startIndexMap=[0, 1], indexVectorDim=1, sliceSizes=[2, 2],
    )  # fmt: skip
    compared(tmp_path, writer, wanted)
    wanted = np.stack([ROW[a] for a in clipped[:, 0]])
    writer = model(
        "STABLEHLO_GATHER", [ROW, clipped[:, :1].copy()], (), wanted, "StablehloGatherOptions", offsetDims=[1],
        collapsedSliceDims=[0], startIndexMap=[0], indexVectorDim=1, sliceSizes=[1, 4],
    )  # fmt: skip
    compared(tmp_path, writer, wanted)


def test_scatter(tmp_path: Path) -> None:
    places, updates = np.array([[1], [4], [1]], np.int32), RNG.normal(size=(3, 4)).astype(np.float32)
    wanted = ROW.copy()
    np.add.at(wanted, places[:, 0], updates)
    writer = model(
        "STABLEHLO_SCATTER", [ROW, places, updates], (), wanted, "StablehloScatterOptions",
        ("STABLEHLO_ADD", "updateComputationSubgraphIndex"), updateWindowDims=[1], insertedWindowDims=[0],
        scatterDimsToOperandDims=[0], indexVectorDim=1,
    )  # fmt: skip
    compared(tmp_path, writer, wanted)


def test_a_composite_is_its_decomposition(tmp_path: Path) -> None:
    writer = ModelWriter()
    inner = writer.graph("rms")
    a, b = (inner.tensor("float32", X.shape) for _ in range(2))
    inner.inputs, inner.outputs = [a], [b]
    inner.op("MUL", [a, a], [b], "MulOptions")
    x = writer.main.input(X)
    y = writer.main.output("float32", X.shape)
    writer.main.op(
        "STABLEHLO_COMPOSITE",
        [x],
        [y],
        "StableHLOCompositeOptions",
        name=b"odml.square",
        decompositionSubgraphIndex=1,
        compositeAttributes=list(flexbuffers.Dumps({})),
    )
    compared(tmp_path, writer, X * X)


def test_a_composite_of_itself_is_refused(tmp_path: Path) -> None:
    writer = ModelWriter()
    x, y = writer.main.input(X), writer.main.output("float32", X.shape)
    writer.main.op("STABLEHLO_COMPOSITE", [x], [y], "StableHLOCompositeOptions", decompositionSubgraphIndex=0)
    (tmp_path / "model.tflite").write_bytes(writer.content())
    with pytest.raises(SternaError) as caught:
        read_model(tmp_path / "model.tflite")
    assert set(caught.value.codes) == {"E0103"}


def test_a_graph_of_several_operators_is_no_reduction(tmp_path: Path) -> None:
    neutral = np.float32(0).reshape(())
    writer = model("STABLEHLO_REDUCE", [X, neutral], (1,), X.sum((0, 2)), "StablehloReduceOptions", dimensions=[0, 2])
    (tmp_path / "model.tflite").write_bytes(writer.content())
    with pytest.raises(SternaError) as caught:
        read_model(tmp_path / "model.tflite")
    assert set(caught.value.codes) == {"E0113"}


def test_random_numbers_and_positions(tmp_path: Path) -> None:
    sizes = np.array([100, 200], np.int32)
    for op, mean, deviation in (("RANDOM_UNIFORM", 0.5, 12**-0.5), ("RANDOM_STANDARD_NORMAL", 0, 1)):
        writer = model(op, [sizes], (0,), np.zeros((100, 200), np.float32), "RandomOptions")
        (tmp_path / "model.tflite").write_bytes(writer.content())
        (found,) = interpret(read_model(tmp_path / "model.tflite"), {}).values()
        assert abs(found.mean() - mean) < 0.03
        assert abs(found.std() - deviation) < 0.03
    shares = np.float32([[0.1, 0.0001, 0.6, 0.2999]])
    operands = [np.log(shares), np.int32(2000).reshape(())]
    writer = model("MULTINOMIAL", operands, (1,), np.zeros((1, 2000), np.int64), "RandomOptions")
    (tmp_path / "model.tflite").write_bytes(writer.content())
    (found,) = interpret(read_model(tmp_path / "model.tflite"), writer.feeds).values()
    np.testing.assert_allclose(np.bincount(found[0], minlength=4) / 2000, shares[0], atol=0.04)


@pytest.mark.parametrize("combiner", [0, 1, 2])
def test_sparse_embeddings(tmp_path: Path, combiner: int) -> None:
    ids, places = np.array([1, 3, 0, 1], np.int32), np.array([[0, 0], [0, 1], [2, 0], [2, 2]], np.int32)
    weights, table = np.float32([1.0, 2.0, 0.5, 3.0]), ROW
    wanted = np.zeros((3, 4), np.float32)
    np.add.at(wanted, places[:, 0], weights[:, None] * table[ids])
    for row in (0, 2):
        own = weights[places[:, 0] == row]
        wanted[row] /= {0: 1, 1: own.sum(), 2: np.sqrt((own * own).sum())}[combiner]
    operands = [ids, places, np.array([3, 3], np.int32), weights, table]
    writer = model("EMBEDDING_LOOKUP_SPARSE", operands, (2,), wanted, "EmbeddingLookupSparseOptions", combiner=combiner)
    compared(tmp_path, writer, wanted)
