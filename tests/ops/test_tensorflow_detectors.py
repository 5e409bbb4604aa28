"""What detectors of TensorFlow's object detection end in: as many rows as the data say, cut or padded to a number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sterna
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.graph_defs import GraphWriter, Kind

Array = np.ndarray
SETTINGS = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SCORES, LIMIT = 8, 5


def first_of(g: GraphWriter, tensor: str, name: str) -> str:
    """The first size of a tensor, as `tf.shape(x)[0]` writes it."""
    g.node("Shape", [tensor], name=f"{name}/shape", out_type=Kind("int32"))
    zero, one = (g.constant(np.array([n], np.int32)) for n in (0, 1))
    return g.node("StridedSlice", [f"{name}/shape", zero, one, one], name=name, shrink_axis_mask=1)


def detector(lesser: str, padded: int) -> GraphWriter:
    """Positive scores in falling order, at most LIMIT of them and only those above 1, padded with zeros."""
    g = GraphWriter()
    g.input("x", (SCORES,))
    g.node("Greater", ["x", g.constant(np.float32(0))], name="mask")
    g.node("Where", ["mask"], name="places")
    g.node("Reshape", ["places", g.constant(np.array([-1], np.int32))], name="rows")
    g.node("GatherV2", ["x", "rows", g.constant(np.int32(0))], name="found")
    g.node("TopKV2", ["found", first_of(g, "found", "all")], name="sorted")
    g.node("Minimum", [g.constant(np.int32(LIMIT)), first_of(g, "sorted", "sorted/size")], name="most")
    g.node("Range", [g.constant(np.int32(0)), "most", g.constant(np.int32(1))], name="first/rows")
    g.node("GatherV2", ["sorted", "first/rows", g.constant(np.int32(0))], name="first")
    g.node("GreaterEqual", ["sorted", g.constant(np.float32(1))], name="good")
    g.node("Cast", ["good"], name="ones", SrcT=Kind("bool"), DstT=Kind("int32"))
    g.node("Sum", ["ones", g.constant(np.int32(0))], name="count")
    if lesser == "Select":
        g.node("Greater", ["most", "count"], name="fewer")
        g.node("Select", ["fewer", "count", "most"], name="left")
    else:
        g.node(lesser, ["most", "count"], name="left")
    g.node("Range", [g.constant(np.int32(0)), "left", g.constant(np.int32(1))], name="last/rows")
    g.node("GatherV2", ["first", "last/rows", g.constant(np.int32(0))], name="last")
    # pad_or_clip: -1 takes all of what is not longer than it may be.
    size = first_of(g, "last", "last/size")
    g.node("Sub", [size, g.constant(np.int32(padded))], name="more")
    g.node("Greater", ["more", g.constant(np.int32(0))], name="longer")
    g.node("Select", ["longer", g.constant(np.int32(padded)), g.constant(np.int32(-1))], name="kept")
    g.node("ExpandDims", ["kept", g.constant(np.int32(0))], name="kept/sizes")
    g.node("Slice", ["last", g.constant(np.array([0], np.int32)), "kept/sizes"], name="clipped")
    g.node("Sub", [g.constant(np.int32(padded)), first_of(g, "clipped", "clipped/size")], name="missing")
    g.node("Pack", [g.constant(np.int32(0)), "missing"], name="missing/pair", axis=0, N=2)
    g.node("ExpandDims", ["missing/pair", g.constant(np.int32(0))], name="paddings")
    g.node("Pad", ["clipped", "paddings"], name="y")
    return g


def wanted(x: Array, padded: int) -> Array:
    found = np.sort(x[x > 0])[::-1]
    count = min(LIMIT, len(found), int((found >= 1).sum()))
    return np.pad(found[:count], (0, padded - count))


@SETTINGS
@given(
    st.lists(st.sampled_from([-1.0, 0.5, 1.0, 2.0, 3.0]), min_size=SCORES, max_size=SCORES),
    st.sampled_from(["Select", "Minimum"]), st.sampled_from([LIMIT, LIMIT + 3]),
)  # fmt: skip
def test_results_of_as_many_rows_as_are_wanted(tmp_path: Path, numbers: list[float], lesser: str, padded: int) -> None:
    x, graph = np.array(numbers, np.float32), read_model(detector(lesser, padded).write(tmp_path))
    assert str(graph.outputs[0].type) == f"float32[{padded}]"
    np.testing.assert_array_equal(interpret(graph, {"x": x})["y"], wanted(x, padded))


@pytest.mark.family("host-llvm")
def test_results_compiled(tmp_path: Path) -> None:
    with sterna.compile(detector("Select", 7).write(tmp_path), generator="llvm") as bundle:
        for x in (np.array([3, 0.5, 2, 1, 4, 5, 6, 7], np.float32), -np.ones(8, np.float32), np.ones(8, np.float32)):
            np.testing.assert_array_equal(bundle.run({"x": x})["y"], wanted(x, 7))


def test_a_range_up_to_a_number_without_a_bound(tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("n", (3,), "int32")
    g.node("Max", ["n", g.constant(np.int32(0))], name="most")
    g.node("Range", [g.constant(np.int32(0)), "most", g.constant(np.int32(1))], name="y")
    with pytest.raises(SternaError) as caught:
        read_model(g.write(tmp_path))
    assert caught.value.codes == ("E0107",)
    assert "Range needs the limit to be constant" in str(caught.value)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_sparse_to_dense(rank: int, tmp_path: Path) -> None:
    """Places are one number, numbers, or rows of coordinates; values are one for each, or one for all."""
    g = GraphWriter()
    g.input("x", () if rank != 2 else (2,))
    places = np.array(2, np.int32) if rank == 0 else np.array([3, 1] if rank == 1 else [[1, 2], [0, 0]], np.int32)
    sizes = [2, 3] if rank == 2 else [4]
    g.node("SparseToDense", [g.constant(places), g.constant(np.array(sizes, np.int32)), "x", g.constant(np.float32(9))],
           name="y", validate_indices=True)  # fmt: skip
    x, dense = np.array([5, 7] if rank == 2 else 5, np.float32), np.full(sizes, 9, np.float32)
    dense[tuple(places.T) if rank == 2 else places] = x
    np.testing.assert_array_equal(interpret(read_model(g.write(tmp_path)), {"x": x})["y"], dense)
