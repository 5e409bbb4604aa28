"""Edges of StableHLO in TensorFlow Lite's files: what lies outside, long windows, truths, sizes that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.stablehlo_models import compared, model
from support.tflite_builder import ModelWriter

RNG = np.random.default_rng(13)
ROW = RNG.normal(size=(6, 4)).astype(np.float32)
TRUE = np.array([True, True, False, False])
OTHER = np.array([True, False, True, False])


def number(value: int) -> np.ndarray:
    return np.int32(value).reshape(())


@pytest.mark.parametrize(
    ("places", "updates", "wanted"),
    [
        ([[9], [1]], [[5], [7]], [0, 7, 0, 0, 0, 0]),
        ([[-1], [1]], [[5], [7]], [0, 7, 0, 0, 0, 0]),
        ([[5]], [[5, 7]], [0, 0, 0, 0, 0, 5]),
        ([[-1]], [[5, 7]], [7, 0, 0, 0, 0, 0]),
        ([[6], [4]], [[5, 7], [1, 2]], [0, 0, 0, 0, 1, 2]),
    ],
)
@pytest.mark.parametrize("held", [(), (1,)])
def test_updates_outside_are_left_out(
    tmp_path: Path, places: Any, updates: Any, wanted: Any, held: tuple[int, ...]
) -> None:
    operands = [np.zeros(6, np.float32), np.array(places, np.int32), np.array(updates, np.float32)]
    writer = model(
        "STABLEHLO_SCATTER", operands, held, np.float32(wanted), "StablehloScatterOptions",
        ("STABLEHLO_ADD", "updateComputationSubgraphIndex"), updateWindowDims=[1], insertedWindowDims=[],
        scatterDimsToOperandDims=[0], indexVectorDim=1,
    )  # fmt: skip
    compared(tmp_path, writer, np.float32(wanted))


def test_updates_outside_in_two_dimensions_are_left_out(tmp_path: Path) -> None:
    places, updates = np.array([[5, 1], [2, 3], [0, -2], [7, 0]], np.int32), RNG.normal(size=(4, 2, 2))
    wanted = np.pad(ROW, 8)
    for (a, b), update in zip(places + 8, updates, strict=True):
        wanted[a : a + 2, b : b + 2] = np.maximum(wanted[a : a + 2, b : b + 2], update.astype(np.float32))
    writer = model(
        "STABLEHLO_SCATTER", [ROW, places, updates.astype(np.float32)], (), ROW, "StablehloScatterOptions",
        ("STABLEHLO_MAXIMUM", "updateComputationSubgraphIndex"), updateWindowDims=[1, 2], insertedWindowDims=[],
        scatterDimsToOperandDims=[0, 1], indexVectorDim=1,
    )  # fmt: skip
    compared(tmp_path, writer, wanted[8:14, 8:12])


JOINS: dict[str, tuple[Callable[..., Any], float]] = {
    "ADD": (np.sum, 0), "MUL": (np.prod, 1), "MAXIMUM": (np.max, -1e9), "MINIMUM": (np.min, 1e9),
}  # fmt: skip


def windowed(x: np.ndarray, inner: str, size: int, stride: int, step: int, pads: tuple[int, int], start: float) -> Any:
    function = JOINS[inner][0]
    wide = np.pad(x, (pads, (0, 0)), constant_values=start)
    rows = range(0, len(wide) - (size - 1) * step, stride)
    found = np.stack([function(wide[n : n + (size - 1) * step + 1 : step], axis=0) for n in rows])
    return function(np.stack([found, np.full_like(found, start)]), axis=0)


@pytest.mark.parametrize("inner", [*JOINS])
@pytest.mark.parametrize(
    ("size", "stride", "step", "pads", "start"),
    [
        (40, 1, 1, (39, 0), None), (40, 1, 1, (0, 39), None), (40, 1, 1, (39, 0), 2.0), (9, 1, 1, (0, 0), None),
        (16, 3, 1, (2, 4), None), (11, 2, 3, (0, 5), None), (13, 1, 2, (3, 3), None), (37, 1, 1, (0, 0), None),
        (3, 2, 2, (1, 1), None),
    ],
)  # fmt: skip
def test_windows_of_any_length(
    tmp_path: Path, inner: str, size: int, stride: int, step: int, pads: tuple[int, int], start: float | None
) -> None:
    x = RNG.uniform(0.8, 1.2, (40, 2)).astype(np.float32)
    first = np.float32(JOINS[inner][1] if start is None else start)
    wanted = windowed(x, inner, size, stride, step, pads, float(first)).astype(np.float32)
    writer = model(
        "STABLEHLO_REDUCE_WINDOW", [x, first.reshape(())], (1,), wanted, "StablehloReduceWindowOptions",
        (inner, "bodySubgraphIndex"), windowDimensions=[size, 1], windowStrides=[stride, 1], baseDilations=[1, 1],
        windowDilations=[step, 1], padding=[*pads, 0, 0],
    )  # fmt: skip
    compared(tmp_path, writer, wanted)


@pytest.mark.parametrize(("inner", "pads"), [("ADD", (3999, 0)), ("MINIMUM", (3999, 0)), ("ADD", (100, 0))])
def test_long_windows_are_few_operators(tmp_path: Path, inner: str, pads: tuple[int, int]) -> None:
    x = RNG.uniform(0.8, 1.2, (4000,)).astype(np.float32)
    count = 1 + sum(pads)
    writer = model(
        "STABLEHLO_REDUCE_WINDOW", [x, np.float32(JOINS[inner][1]).reshape(())], (1,), np.zeros(count, np.float32),
        "StablehloReduceWindowOptions", (inner, "bodySubgraphIndex"), windowDimensions=[4000], windowStrides=[1],
        baseDilations=[1], windowDilations=[1], padding=list(pads),
    )  # fmt: skip
    (tmp_path / "model.tflite").write_bytes(writer.content())
    graph = read_model(tmp_path / "model.tflite")
    assert len(graph.nodes) < 80
    (found,) = interpret(graph, writer.feeds).values()
    join = np.add if inner == "ADD" else np.minimum
    wanted = join.accumulate(x.astype(np.float64))
    np.testing.assert_allclose(found, wanted if sum(pads) == 3999 else wanted[-101:], rtol=1e-4)


def test_a_window_longer_than_the_tensor_gives_nothing(tmp_path: Path) -> None:
    sizes = [np.array([n], np.int64) for n in (9, 1, 1)]
    writer = model(
        "REDUCE_WINDOW", [ROW[:, 0].copy(), np.float32(0).reshape(()), *sizes], (1, 2, 3, 4), np.zeros(0, np.float32),
        "ReduceWindowOptions", reduceFunction=1,
    )  # fmt: skip
    compared(tmp_path, writer, np.zeros(0, np.float32), by_litert=False)


@pytest.mark.parametrize(
    ("op", "function", "settings"),
    [
        ("ADD", np.logical_or, {}), ("MULTIPLY", np.logical_and, {}), ("MAXIMUM", np.maximum, {}),
        ("MINIMUM", np.minimum, {}), ("AND", np.logical_and, {}), ("OR", np.logical_or, {}),
        *(("COMPARE", function, {"comparisonDirection": n}) for n, function in enumerate(
            (np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less))),
    ],
)  # fmt: skip
def test_of_truths(tmp_path: Path, op: str, function: Any, settings: dict[str, int]) -> None:
    wanted = function(TRUE, OTHER)
    options = "StablehloCompareOptions" if settings else ""
    compared(tmp_path, model(f"STABLEHLO_{op}", [TRUE, OTHER], (), wanted, options, **settings), wanted, False)


def test_parts_of_a_scalar(tmp_path: Path) -> None:
    x, update = np.float32(2).reshape(()), np.float32(3).reshape(())
    compared(
        tmp_path, model("STABLEHLO_DYNAMIC_SLICE", [x], (), x, "StablehloDynamicSliceOptions", sliceSizes=[]), x, False
    )
    compared(tmp_path, model("STABLEHLO_DYNAMIC_UPDATE_SLICE", [x, update], (), x), update, False)


PLACES = np.array([[0, 1], [5, 2]], np.int32)
GATHERED = {
    "offsetDims": [1, 2], "collapsedSliceDims": [], "startIndexMap": [0, 1], "indexVectorDim": 1, "sliceSizes": [2, 2],
}  # fmt: skip


@pytest.mark.parametrize(
    ("op", "operands", "options", "settings"),
    [
        ("DYNAMIC_SLICE", [ROW, number(0), number(0)], "StablehloDynamicSliceOptions", {"sliceSizes": [7, 2]}),
        ("DYNAMIC_SLICE", [ROW, number(0), number(0)], "StablehloDynamicSliceOptions", {"sliceSizes": [-1, 2]}),
        ("DYNAMIC_SLICE", [ROW, number(0), number(0)], "StablehloDynamicSliceOptions", {"sliceSizes": [2]}),
        ("DYNAMIC_UPDATE_SLICE", [ROW, np.ones((7, 2), np.float32), number(0), number(0)], "", {}),
        ("GATHER", [ROW, PLACES], "StablehloGatherOptions", GATHERED | {"sliceSizes": [7, 2]}),
        ("GATHER", [ROW, PLACES], "StablehloGatherOptions", GATHERED | {"sliceSizes": [2, -1]}),
        ("GATHER", [ROW, PLACES], "StablehloGatherOptions", GATHERED | {"startIndexMap": [0, 2]}),
        ("GATHER", [ROW, PLACES], "StablehloGatherOptions", GATHERED | {"offsetDims": [1, 3]}),
        ("GATHER", [ROW, PLACES], "StablehloGatherOptions", GATHERED | {"collapsedSliceDims": [0], "offsetDims": [1]}),
        ("TRANSPOSE", [ROW], "StablehloTransposeOptions", {"permutation": [0]}),
        ("TRANSPOSE", [ROW], "StablehloTransposeOptions", {"permutation": [0, 0]}),
        ("TRANSPOSE", [ROW], "StablehloTransposeOptions", {"permutation": [0, 2]}),
        ("SLICE", [ROW], "StablehloSliceOptions",
         {"startIndices": [4, 0], "limitIndices": [7, 4], "strides": [1, 1]}),
        ("SLICE", [ROW], "StablehloSliceOptions",
         {"startIndices": [4, 0], "limitIndices": [3, 4], "strides": [1, 1]}),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit(
    tmp_path: Path, op: str, operands: list[np.ndarray], options: str, settings: dict[str, Any]
) -> None:
    writer = model(f"STABLEHLO_{op}", operands, (), ROW, options, **settings)
    (tmp_path / "model.tflite").write_bytes(writer.content())
    with pytest.raises(SternaError) as caught:
        read_model(tmp_path / "model.tflite")
    assert set(caught.value.codes) == {"E0108"}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("op", "sign"), [("LESS", 1), ("GREATER", -1), ("STABLEHLO_COMPARE", -1)])
def test_sorted_by_a_comparison(tmp_path: Path, op: str, sign: int, turned: bool) -> None:
    writer = ModelWriter()
    x, y = writer.main.input(ROW), writer.main.output("float32", ROW.shape)
    body = writer.graph("comparator")
    a, b, c = body.tensor("float32", ()), body.tensor("float32", ()), body.tensor("bool", ())
    body.inputs, body.outputs = [a, b], [c]
    table, settings = ("StablehloCompareOptions", {"comparisonDirection": 3}) if "_" in op else ("", {})
    body.op(op, [b, a] if turned else [a, b], [c], table, **settings)
    writer.main.op("STABLEHLO_SORT", [x], [y], "StablehloSortOptions", dimension=0, comparatorSubgraphIndex=1)
    if not turned:
        compared(tmp_path, writer, np.sort(ROW * sign, 0) * sign, by_litert=False)
        return
    (tmp_path / "model.tflite").write_bytes(writer.content())
    with pytest.raises(SternaError) as caught:
        read_model(tmp_path / "model.tflite")
    assert set(caught.value.codes) == {"E0113"}


def test_a_loop(tmp_path: Path) -> None:
    """Doubles a vector as long as a counter is below 5."""
    x = ROW[0].copy()
    writer = ModelWriter()
    first, row = writer.main.input(number(2)), writer.main.input(x)
    last, made = writer.main.output("int32", ()), writer.main.output("float32", x.shape)
    for name in ("cond", "body"):
        inner = writer.graph(name)
        n, v = inner.tensor("int32", ()), inner.tensor("float32", x.shape)
        if name == "cond":
            more = inner.tensor("bool", ())
            inner.inputs, inner.outputs = [n, v], [more]
            inner.op("STABLEHLO_COMPARE", [n, inner.constant(number(5))], [more], "StablehloCompareOptions",
                     comparisonDirection=5)  # fmt: skip
        else:
            m, w = inner.tensor("int32", ()), inner.tensor("float32", x.shape)
            inner.inputs, inner.outputs = [n, v], [m, w]
            inner.op("STABLEHLO_ADD", [n, inner.constant(number(1))], [m])
            inner.op("STABLEHLO_ADD", [v, v], [w])
    writer.main.op("STABLEHLO_WHILE", [first, row], [last, made], "StablehloWhileOptions", condSubgraphIndex=1,
                   bodySubgraphIndex=2)  # fmt: skip
    (tmp_path / "model.tflite").write_bytes(writer.content())
    count, found = interpret(read_model(tmp_path / "model.tflite"), writer.feeds).values()
    assert count == 5
    np.testing.assert_array_equal(found, x * 8)
