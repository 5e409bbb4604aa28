"""Beside plain networks, browsers give what the host gives: choices and loops, sizes that the data decide, integers,
half floats, states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

from support.control_flow import CHOICE, DATA_SIZED, GROWING, ROWS, TRIPS, WHILE, numbers
from support.control_flow import model as written
from support.data_sized import detections, detector
from support.replaying import Feeds, replay
from support.trained import digits, trained

pytestmark = pytest.mark.family("wasm32")


def flow(text: str, every: Feeds) -> tuple[onnx.ModelProto, Feeds]:
    return parser.parse_model(written(text)), every


BOTH = {"x": numbers(3, 4), "y": numbers(4, 4)}
SQUARES = {"first": numbers(4, 4), "x": numbers(4, 4)}
ONES = np.ones(4, np.float32)
FLOWS = {
    "if": flow(CHOICE, [{**BOTH, "hot": True}, {**BOTH, "hot": False}, {**BOTH, "hot": True}]),
    "loop": flow(TRIPS, [{**SQUARES, "trips": np.int64(n)} for n in (0, 1, 7, 200)]),
    "while": flow(
        WHILE, [{"start": bool(s), "first": ONES, "bound": np.float32(b)} for s, b in ((1, 50), (1, 1), (0, 9))]
    ),
    "rows": flow(
        ROWS.format(inputs="int64 stop, ", rows="K", trips=", int64 trips = {20}", more="Less(i, stop)"),
        [{"first": numbers(2), "x": numbers(2), "stop": np.int64(n)} for n in (4, 0, 17, 3)],
    ),
    "growing": flow(GROWING, [{"x": numbers(9, 4), "first": numbers(4), "trips": np.int64(n)} for n in (4, 0, 9, 1)]),
    "data": flow(
        DATA_SIZED,
        [{"hot": bool(h), "trips": np.int64(n), "x": np.maximum(numbers(3, 4), 0)} for h, n in ((1, 0), (0, 3))],
    ),
}
GENERATORS = pytest.mark.parametrize("generator", ["c", "llvm"])


@GENERATORS
@pytest.mark.parametrize("kind", FLOWS)
def test_control_flow(kind: str, generator: str, tmp_path: Path) -> None:
    replay(*FLOWS[kind], tmp_path, generator)


@GENERATORS
def test_computed_sizes(generator: str, tmp_path: Path) -> None:
    """A detector's suppression: no box, some, all of them."""
    replay(detector(30, 3, None), detections(30, 3), tmp_path, generator)


class Pictures(CalibrationDataReader):
    def __init__(self) -> None:
        self.left = iter([dict(case.inputs) for case in digits().cases])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


@GENERATORS
def test_integers_of_a_quantized_network(generator: str, tmp_path: Path) -> None:
    """The digits' network in eight bits: what is integer in between is equal, so that the scores are nearly so."""
    file = tmp_path / "digits8.onnx"
    quantize_static(str(digits().file), str(file), Pictures(), quant_format=QuantFormat.QDQ, per_channel=True)
    replay(file, [case.inputs for case in digits().cases], tmp_path, generator)


@GENERATORS
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bool"]
)
def test_dtypes_of_a_signature(dtype: str, generator: str, tmp_path: Path) -> None:
    """Turned and taken apart: bits go through unchanged, whatever they stand for."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0]),
        helper.make_node("Slice", ["turned", "first", "last"], ["part"]),
    ]
    graph = helper.make_graph(
        nodes, "bits",
        [helper.make_tensor_value_info("x", kind, [3, 5])],
        [helper.make_tensor_value_info("turned", kind, [5, 3]), helper.make_tensor_value_info("part", kind, [2, 3])],
        [helper.make_tensor(name, TensorProto.INT64, [1], [at]) for name, at in (("first", 1), ("last", 3))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    bits = np.random.default_rng(5).integers(0, 2, (3, 5)) if dtype == "bool" else np.arange(15).reshape(3, 5) * 17 - 90
    replay(model, [{"x": bits.astype(dtype)}], tmp_path, generator)


@GENERATORS
def test_states(generator: str, tmp_path: Path) -> None:
    """The wake-word model remembers its last frames; eight bits, TensorFlow Lite."""
    model = trained("micro_wakeword_okay_nabu_int8")
    replay(model.file, [case.inputs for case in model.cases], tmp_path, generator)
