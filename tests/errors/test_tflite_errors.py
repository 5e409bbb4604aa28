"""Broken and damaged TensorFlow Lite models are refused: with a code, and the name of what is wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.frontends.tflite import read
from support.tflite_builder import GraphWriter, ModelWriter, Scale, schema

X = np.zeros((1, 4, 4, 3), np.int8)


def refusal(model: ModelWriter | bytes, folder: Path, **options: Any) -> SternaError:
    file = folder / "model.tflite"
    file.write_bytes(model if isinstance(model, bytes) else model.content())
    with pytest.raises(SternaError) as caught:
        read(file, **options)
    return caught.value


def codes_of(content: bytes, folder: Path) -> tuple[str, ...]:
    """The codes that a file is refused with; none if it is read."""
    file = folder / "model.tflite"
    file.write_bytes(content)
    try:
        read(file)
    except SternaError as mistake:
        return mistake.codes
    return ()


def convolution(
    x: Scale | None = Scale(0.1, 3),  # noqa: B008 (frozen)
    weights: Scale | None = Scale((0.01,) * 5, (0,) * 5),  # noqa: B008
    y: Scale | None = Scale(0.2, -7),  # noqa: B008
) -> ModelWriter:
    """A convolution of int8 with five channels."""
    model = ModelWriter()
    g = model.main
    w = g.constant(np.ones((5, 1, 1, 3), np.int8), weights)
    bias = g.constant(np.zeros(5, np.int32), Scale((0.001,) * 5, (0,) * 5))
    operands = [g.input(X, x), w, bias]
    for name, position in (("picture", operands[0]), ("kernel", w)):
        g.tensors[position].name = name.encode()
    made = g.output("int8", (1, 4, 4, 5), y)
    g.tensors[made].name = b"map"
    g.op("CONV_2D", operands, [made], "Conv2DOptions", strideH=1, strideW=1)
    return model


def test_a_code_that_stands_in_the_newer_field_only_is_read(tmp_path: Path) -> None:
    """As newer quantizers write those of operators that they add."""
    model = convolution()
    for code in model.model.operatorCodes:
        code.deprecatedBuiltinCode = 0
    assert codes_of(model.content(), tmp_path) == ()


def test_scales_of_blocks_are_refused(tmp_path: Path) -> None:
    model = convolution()
    blocks = schema.BlockwiseQuantizationT()
    blocks.blockSize = 1
    kernel = next(tensor for tensor in model.main.tensors if tensor.name == b"kernel")
    kernel.quantization.detailsType = schema.QuantizationDetails.BlockwiseQuantization
    kernel.quantization.details = blocks
    mistake = refusal(model, tmp_path)
    assert mistake.codes == ("E0113",)
    assert '"kernel"' in str(mistake)


def test_what_the_tests_break_is_sound(tmp_path: Path) -> None:
    file = tmp_path / "model.tflite"
    file.write_bytes(convolution().content())
    assert read(file).outputs[0].type.sizes == (1, 4, 4, 5)


# ---------------------------------------------------------------- E0114: quantization
@pytest.mark.parametrize(
    ("broken", "tensor", "said"),
    [
        ({"x": Scale(0.0)}, "picture", "scale of 0"),
        ({"x": Scale(-0.5)}, "picture", "scale of -0.5"),
        ({"x": Scale(float("nan"))}, "picture", "not a number"),
        ({"y": Scale(float("inf"))}, "map", "not a number"),
        ({"weights": Scale((0.1, 0.1, 0.0, 0.1, 0.1), (0,) * 5)}, "kernel", "scale of 0"),
        ({"x": Scale(0.1, 128)}, "picture", "zero point is 128"),
        ({"y": Scale(0.1, -129)}, "map", "zero point is -129"),
        ({"weights": Scale((0.1,) * 4, (0,) * 4)}, "kernel", "4 scales for 5"),
        ({"weights": Scale((0.1,) * 5, (0,) * 3)}, "kernel", "5 scales and 3 zero points"),
        ({"weights": Scale((0.1,) * 5, (0,) * 5, 7)}, "kernel", "dimension 7"),
        ({"weights": Scale((0.1,) * 5, (0,) * 5, -1)}, "kernel", "dimension -1"),
        ({"weights": Scale((0.1,) * 3, (0,) * 3, 3)}, "kernel", "3 scales for 5 channels"),
        ({"x": Scale((0.1,) * 3, (0,) * 3, 3)}, "picture", "one scale for the whole tensor"),
        ({"x": None}, "picture", "has no scale"),
        ({"y": None}, "map", "has no scale"),
    ],
)
def test_broken_quantization_is_refused_with_the_tensors_name(
    broken: dict[str, Scale | None], tensor: str, said: str, tmp_path: Path
) -> None:
    mistake = refusal(convolution(**broken), tmp_path)
    assert set(mistake.codes) == {"E0114"}
    assert f'"{tensor}"' in str(mistake)
    assert said in str(mistake)


def test_all_that_is_wrong_is_reported_at_once(tmp_path: Path) -> None:
    model = convolution(Scale(0.0), Scale((0.1,) * 4, (0,) * 4), Scale(0.1, 999))
    model.main.op("SKIP_GRAM", [1], [model.main.tensor("int8", (5, 1, 1, 3))])
    mistake = refusal(model, tmp_path)
    assert sorted(mistake.codes) == ["E0104", "E0114", "E0114", "E0114"]
    for part in ('"picture"', '"kernel"', '"map"', "SKIP_GRAM"):
        assert part in str(mistake)


# ---------------------------------------------------------------- E0101: files
def test_files_that_are_no_models(tmp_path: Path) -> None:
    for content in (b"", b"TFL3", b"\0\0\0\0TFL3", b"\x10\0\0\0TFL3 and then nothing", b"PK\3\4 something else"):
        assert refusal(content, tmp_path).codes == ("E0101",)
    with pytest.raises(SternaError, match="E0101"):
        read(tmp_path / "absent.tflite")


def test_every_way_to_cut_a_file_short(tmp_path: Path) -> None:
    content = convolution().content()
    for size in range(0, len(content), 7):  # what is cut off may be the end of something that nothing reads
        assert all(code.startswith("E01") for code in codes_of(content[:size], tmp_path)), size


def test_weights_that_lie_outside_of_the_file(tmp_path: Path) -> None:
    model = convolution()
    model.model.buffers[1].data = None
    model.model.buffers[1].offset, model.model.buffers[1].size = 1 << 40, 60
    assert refusal(model, tmp_path).codes == ("E0101",)


# ---------------------------------------------------------------- E0103: structure
Damage = Callable[[ModelWriter, GraphWriter], None]


def _of_operator(name: str, value: Any) -> Damage:
    return lambda model, graph: setattr(graph.operators[0], name, value)


@pytest.mark.parametrize(
    ("damage", "codes"),
    [
        (_of_operator("inputs", [0, 1, 77]), {"E0103"}),
        (_of_operator("inputs", [0, -5, 2]), {"E0103"}),
        (_of_operator("outputs", [99]), {"E0103"}),
        (_of_operator("inputs", [0]), {"E0103"}),
        (_of_operator("inputs", [-1, 1, 2]), {"E0103"}),
        (_of_operator("opcodeIndex", 3), {"E0101"}),
        (lambda model, graph: graph.outputs.append(50), {"E0103"}),
        (lambda model, graph: graph.outputs.clear(), {"E0103"}),
        (lambda model, graph: setattr(graph.tensors[0], "buffer", 70), {"E0101"}),
        (lambda model, graph: setattr(graph.tensors[0], "shape", [5, 1, 1, 4]), {"E0103"}),
        (lambda model, graph: setattr(graph.tensors[0], "shape", [5, -1, -1, 3]), {"E0103"}),
        (lambda model, graph: graph.operators.clear(), {"E0103"}),
        (lambda model, graph: model.graphs.clear(), {"E0101"}),
    ],
)
def test_damaged_structure(damage: Damage, codes: set[str], tmp_path: Path) -> None:
    model = convolution()
    damage(model, model.main)
    assert set(refusal(model, tmp_path).codes) == codes


@pytest.mark.parametrize("option", ["condSubgraphIndex", "bodySubgraphIndex"])
@pytest.mark.parametrize("number", [-1, 3, 1 << 30])
def test_graphs_that_are_not_there(option: str, number: int, tmp_path: Path) -> None:
    model = ModelWriter()
    g = model.main
    x = g.input(np.zeros(1, np.int32))
    inner = model.graph("inner")
    inner.outputs.append(inner.input(np.zeros(1, np.int32)))
    numbers = {"condSubgraphIndex": 1, "bodySubgraphIndex": 1, option: number}
    g.op("WHILE", [x], [g.output("int32", (1,))], "WhileOptions", **numbers)
    mistake = refusal(model, tmp_path)
    assert set(mistake.codes) == {"E0103"}
    assert f"no graph {number}" in str(mistake)


def test_call_once_of_a_graph_that_is_not_there(tmp_path: Path) -> None:
    model = convolution()
    model.main.op("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=9)
    assert set(refusal(model, tmp_path).codes) == {"E0103"}


# ---------------------------------------------------------------- E0104: unknown operators
def test_operators_that_are_not_known(tmp_path: Path) -> None:
    model = convolution()
    g = model.main
    g.op("MyOwnLayer", [0], [g.output("int8", (1,))], custom=b"\1\2")
    g.op("HASHTABLE_LOOKUP", [0], [g.output("int8", (1,))])
    mistake = refusal(model, tmp_path)
    assert mistake.codes == ("E0104", "E0104")
    assert "MyOwnLayer" in str(mistake)
    model.model.operatorCodes[0].builtinCode = 3999
    assert "number 3999" in str(refusal(model, tmp_path))


# ---------------------------------------------------------------- anything else
_SOUND = convolution().content()


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damaged_files_are_refused_or_still_models(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(_SOUND)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(8, len(content) - 4))
        if data.draw(st.booleans()):
            content[at] = data.draw(st.integers(0, 255))
        else:
            word = data.draw(
                st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(content), len(content) - 4])
            )
            content[at : at + 4] = struct.pack("<I", word)
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(8, len(content))) :]
    codes = codes_of(bytes(content), tmp_path_factory.mktemp("fuzz"))
    assert all(code.startswith("E01") for code in codes)
