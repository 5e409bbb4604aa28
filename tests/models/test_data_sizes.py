"""Models in which the data decide how large tensors are: compiled once, every result is of onnxruntime's size too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import sterna
from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from support.data_sized import BOOL, F32, I64, Feeds, Net, detections, detector

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: the reference")
GENERATORS = ("c", "llvm")


def agree(model: onnx.ModelProto, feeds: Feeds, folder: Path, generator: str = "llvm", **options: Any) -> None:
    """Compiled once, and interpreted: the same arrays as onnxruntime for all of the inputs."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    graph = read(model, dims=options.get("dims"))
    with sterna.compile(model, generator=generator, output=folder / "bundle", **options) as bundle:
        for feed in feeds:
            wanted = dict(zip(names, session.run(None, dict(feed)), strict=True))
            found = bundle.run(feed)
            assert list(found) == names
            shown = {spec.name: bundle.get_output(spec.name) for spec in bundle.outputs}
            others = [shown] if bundle.dims else [shown, interpret(graph, feed)]
            for arrays in (found, *others):
                for name, want in wanted.items():
                    assert arrays[name].shape == want.shape, name
                    assert arrays[name].dtype == want.dtype, name
                    np.testing.assert_allclose(arrays[name], want, rtol=1e-5, atol=1e-6, err_msg=name)


def grids(*shape: int, seed: int = 0, name: str = "x") -> Feeds:
    """Zeros and numbers in all proportions, none and all included."""
    random = np.random.default_rng(seed)
    made = []
    for share in (0.4, 0.0, 1.0, 0.8, 0.1):
        numbers = random.integers(1, 9, shape).astype(np.float32)
        made.append({name: numbers * (random.random(shape) < share)})
    return made


# ---------------------------------------------------------------- one operator
@pytest.mark.parametrize("generator", GENERATORS)
def test_non_zero_and_what_is_computed_from_its_size(generator: str, tmp_path: Path) -> None:
    net = Net(x=(F32, [3, 5]))
    places = net("NonZero", "x", out="places")
    rows = net("Transpose", places)
    found = net("GatherND", "x", rows, out="found")
    shape = net("Shape", rows, out="shape")
    net("ConstantOfShape", shape, out="zeros")
    net("Concat", found, net("Relu", found), axis=0, out="twice")
    count = net("Gather", shape, net.constant(0), axis=0)
    net("Range", net.constant(0), count, net.constant(2), out="even")
    net("Expand", net.constant([[1.5]], "float32"), net("Concat", net.constant([2]),
        net("Unsqueeze", count, net.constant([0])), axis=0), out="spread")  # fmt: skip
    net("Reshape", places, net.constant([-1]), out="flat")
    net("Tile", found, net.constant([3]), out="thrice")
    net("ReduceSum", found, keepdims=0, out="sum")
    net("Softmax", net("Unsqueeze", found, net.constant([0])), axis=1, out="share")
    model = net.model(
        places=(I64, [2, None]), found=(F32, [None]), shape=(I64, [2]), zeros=(F32, [None, 2]), twice=(F32, [None]),
        even=(I64, [None]), spread=(F32, [2, None]), flat=(I64, [None]), thrice=(F32, [None]), sum=(F32, []),
        share=(F32, [1, None]),
    )  # fmt: skip
    agree(model, grids(3, 5), tmp_path, generator)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress(generator: str, axis: int | None, tmp_path: Path) -> None:
    net = Net(x=(F32, [3, 4, 5]), keep=(BOOL, [4]))
    where = {} if axis is None else {"axis": axis}
    net("Compress", "x", "keep", out="kept", **where)
    net("Add", "kept", net("Sigmoid", "kept"), out="more")
    unknown = [None] if axis is None else [None, None, None]
    random = np.random.default_rng(1)
    x = random.standard_normal((3, 4, 5)).astype(np.float32)
    masks = [[True, False, True, False], [False] * 4, [True, True, True, axis not in (0,)], [False, False, True, False]]
    feeds = [{"x": x, "keep": np.array(mask)} for mask in masks]
    agree(net.model(kept=(F32, unknown), more=(F32, unknown)), feeds, tmp_path, generator)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("settings", [{}, {"sorted": 0}, {"axis": 0}, {"axis": 1}, {"axis": -1, "sorted": 0}], ids=str)
def test_unique(generator: str, settings: dict[str, int], tmp_path: Path) -> None:
    net = Net(x=(F32, [4, 6]))
    names = ["values", "first", "inverse", "counts"]
    net.several("Unique", ["x"], names, **settings)
    shape = [None] if "axis" not in settings else [None, None]
    model = net.model(values=(F32, shape), first=(I64, [None]), inverse=(I64, [None]), counts=(I64, [None]))
    random = np.random.default_rng(2)
    feeds = [{"x": random.integers(0, most, (4, 6)).astype(np.float32)} for most in (1, 2, 3, 30)]
    feeds += [{"x": np.repeat(feeds[-1]["x"][:, :3], 2, axis=1)}, {"x": np.arange(24, dtype=np.float32).reshape(4, 6)}]
    agree(model, feeds, tmp_path, generator)


# ---------------------------------------------------------------- together
@pytest.mark.parametrize("generator", GENERATORS)
def test_one_after_another(generator: str, tmp_path: Path) -> None:
    """A size that depends on a size: what is chosen from what was chosen."""
    net = Net(x=(F32, [4, 7]))
    places = net("NonZero", "x")
    found = net("GatherND", "x", net("Transpose", places), out="found")
    large = net("Greater", found, net.constant(4, "float32"))
    net("Compress", found, large, axis=0, out="large")
    net("Compress", places, large, axis=1, out="large_places")
    net.several("Unique", ["large"], ["different", "", "which", "often"])
    net("NonZero", net("Sub", "different", net.constant(5, "float32")), out="not_five")
    model = net.model(
        found=(F32, [None]), large=(F32, [None]), large_places=(I64, [2, None]), different=(F32, [None]),
        which=(I64, [None]), often=(I64, [None]), not_five=(I64, [1, None]),
    )  # fmt: skip
    agree(model, grids(4, 7, seed=3), tmp_path, generator)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("axis", [0, 1])
def test_two_sizes_side_by_side(generator: str, axis: int, tmp_path: Path) -> None:
    """The second part's place depends on the first part's size, which is known only after the second is computed."""
    net = Net(x=(F32, [5, 3]), y=(F32, [4, 6]))
    parts = []
    for name in ("y", "x"):
        places = net("Cast", net("NonZero", name), to=F32)
        wide = net("Mul", places, net.constant(2, "float32"))
        parts.append(net("Transpose", wide) if axis == 0 else net("Exp", wide))
    net("Concat", *parts, net.constant([[7.0, 8.0]] if axis == 0 else [[7.0], [8.0]], "float32"), axis=axis, out="both")
    net("Concat", parts[1], parts[0], axis=axis, out="turned")
    shape = [None, 2] if axis == 0 else [2, None]
    model = net.model(both=(F32, shape), turned=(F32, shape))
    feeds = [{**a, **b} for a, b in zip(grids(5, 3, seed=4), reversed(grids(4, 6, seed=5, name="y")), strict=True)]
    agree(model, feeds, tmp_path, generator)


def test_equal_conditions_have_equal_sizes(tmp_path: Path) -> None:
    """Exporters write NonZero of one mask once per use; the results still fit each other."""
    net = Net(x=(F32, [12]), y=(F32, [12]))
    mask = net("Greater", "x", net.constant(0, "float32"))
    chosen = [net("GatherND", name, net("Transpose", net("NonZero", mask))) for name in ("x", "y")]
    net("Add", *chosen, out="sum")
    y = np.arange(12, dtype=np.float32)
    agree(net.model(sum=(F32, [None])), [{**feed, "y": y} for feed in grids(12)], tmp_path)


def test_with_open_dimensions(tmp_path: Path) -> None:
    net = Net(x=(F32, ["rows", 4]))
    net("GatherND", "x", net("Transpose", net("NonZero", "x")), out="found")
    total = net("ReduceSum", "x", net.constant([1]), keepdims=0)
    net("Compress", "x", net("Greater", total, net.constant(0, "float32")), axis=0, out="rows_kept")
    net("Concat", "rows_kept", "x", axis=0, out="both")
    model = net.model(found=(F32, [None]), rows_kept=(F32, [None, 4]), both=(F32, [None, 4]))
    feeds = [feed for rows in (3, 9, 1, 5) for feed in grids(rows, 4, seed=rows)]
    agree(model, feeds, tmp_path, dims={"rows": (1, 9)})


def test_a_range_to_a_computed_end(tmp_path: Path) -> None:
    """Nothing bounds the end but what the user says."""
    net = Net(n=(I64, []))
    net("Range", net.constant(3), net("Mul", "n", net.constant(2)), net.constant(4), out="numbers")
    net("Add", "numbers", "numbers", out="twice")
    feeds = [{"n": np.array(n)} for n in (0, 1, 2, 3, 4, 5, 20, -7)]
    model = net.model(numbers=(I64, [None]), twice=(I64, [None]))
    agree(model, feeds, tmp_path, dims={"numbers": (0, 10)})
    with sterna.load(tmp_path / "bundle") as bundle, pytest.raises(sterna.SternaError, match="E0511"):
        bundle.run({"n": np.array(22)})
    with pytest.raises(sterna.SternaError, match="E0107"):
        sterna.compile(model)


# ---------------------------------------------------------------- detectors


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("limit", [None, 4])
def test_detector(generator: str, limit: int | None, tmp_path: Path) -> None:
    agree(detector(30, 3, limit), detections(30, 3), tmp_path, generator)


def test_a_tighter_bound(tmp_path: Path) -> None:
    feeds = detections(30, 3)
    agree(detector(30, 3, None), feeds[:3], tmp_path, dims={"selected": (0, 60)})
    with sterna.load(tmp_path / "bundle") as bundle:
        assert bundle.outputs[0].shape == ("0..60", 3)
        assert str(bundle.outputs[-1]) == "top float32[0..3, 6]"
        with pytest.raises(sterna.SternaError, match=r'E0511.*"selected" is 90; the bundle has room for 0 to 60'):
            bundle.run(feeds[3])
        assert bundle.run(feeds[1])["table"].shape == (0, 6), "a run after one that failed"
    with pytest.raises(sterna.SternaError, match=r'E0106.*no dimension "unknown"'):
        sterna.compile(detector(30, 3, None), dims={"unknown": (0, 60)})


# ---------------------------------------------------------------- declared sizes
def declared(size: int | None = 3) -> onnx.ModelProto:
    net = Net(x=(F32, [2, 3]))
    net("NonZero", "x", out="places")
    return net.model(places=(I64, [2, size]))


def test_the_actual_size_counts_not_the_declared_one(tmp_path: Path) -> None:
    agree(declared(), grids(2, 3), tmp_path)


def test_firmware_has_the_declared_size() -> None:
    graph = read(declared(), static=True)
    assert graph.outputs[0].type.sizes == (2, 3)
    x = np.array([[1, 0, 2], [0, 0, 3]], np.float32)
    np.testing.assert_array_equal(interpret(graph, {"x": x})["places"], np.nonzero(x))
    with pytest.raises(sterna.SternaError, match="E0511"):
        interpret(graph, {"x": x * 0})


def test_firmware_without_a_declared_size_is_refused() -> None:
    with pytest.raises(sterna.SternaError, match="E0203") as problem:
        sterna.compile_to("unused", declared(None), target="cortex-m4")
    assert "places (at most 6) comes from n0" in str(problem.value)
    assert "declare the result's shape" in str(problem.value)


@pytest.mark.parametrize("generator", GENERATORS)
def test_the_number_of_elements_to_choose_is_computed(generator: str, tmp_path: Path) -> None:
    net = Net(x=(F32, ["rows", 7]), k=(I64, [1]))
    net.several("TopK", ["x", "k"], ["best", "places"], axis=1)
    net("ReduceSum", "best", net.constant([1]), out="total", keepdims=0)
    model = net.model(best=(F32, ["rows", None]), places=(I64, ["rows", None]), total=(F32, ["rows"]))
    x = np.random.default_rng(0).standard_normal((3, 7)).astype(np.float32)
    feeds = [{"x": x[:rows], "k": np.array([k])} for rows, k in ((3, 1), (1, 7), (2, 3))]
    agree(model, feeds, tmp_path, generator, dims={"rows": (1, 3)})
    with sterna.load(tmp_path / "bundle") as bundle, pytest.raises(sterna.SternaError, match="E0511"):
        bundle.run({"x": x, "k": np.array([8])})


def test_more_elements_than_an_open_dimension_has_are_refused(tmp_path: Path) -> None:
    net = Net(x=(F32, ["n"]), k=(I64, [1]))
    net.several("TopK", ["x", "k"], ["best", "places"])
    model = net.model(best=(F32, [None]), places=(I64, [None]))
    x = np.arange(9, dtype=np.float32)
    agree(model, [{"x": x, "k": np.array([9])}, {"x": x[:4], "k": np.array([2])}], tmp_path, dims={"n": (2, 9)})
    with sterna.load(tmp_path / "bundle") as bundle, pytest.raises(sterna.SternaError, match="E0511"):
        bundle.run({"x": x[:4], "k": np.array([5])})


def test_an_operator_that_needs_the_size_takes_the_declared_one(tmp_path: Path) -> None:
    net = Net(x=(F32, [2, 3]))
    net.several("Split", [net("NonZero", "x", out="places")], ["left", "right"], axis=1)
    model = net.model(places=(I64, [2, 4]), left=(I64, [2, 2]), right=(I64, [2, 2]))
    x = np.array([[1, 0, 2], [3, 0, 3]], np.float32)
    agree(model, [{"x": x}, {"x": -x[:, ::-1].copy()}], tmp_path)
    with sterna.load(tmp_path / "bundle") as bundle, pytest.raises(sterna.SternaError, match="E0511"):
        bundle.run({"x": x * 0})


# ---------------------------------------------------------------- the interface
def test_what_the_bundle_says(tmp_path: Path) -> None:
    net = Net(x=(F32, ["rows", 4]))
    net("NonZero", "x", out="places")
    net("Concat", "places", net.constant([[5], [6]]), axis=1, out="more")
    model = net.model(places=(I64, [2, None]), more=(I64, [2, None]))
    with sterna.compile(model, generator="llvm", dims={"rows": (1, 5)}, output=tmp_path / "bundle") as bundle:
        assert bundle.dims == {"rows": (1, 5)}
        assert bundle.dim_sizes == {"rows": 5}
        assert [str(spec) for spec in bundle.outputs] == ["places int64[2, 0..20]", "more int64[2, 1..21]"]
        assert bundle.get_output("places").shape == (2, 20), "before a run: the most that it may be"
        x = np.eye(3, 4, dtype=np.float32)
        assert bundle.run([x])["more"].shape == (2, 4)
        assert bundle.dim_sizes == {"rows": 3}
        bundle.set_dims(rows=2)
        bundle.set_input("x", x[:2].copy())
        bundle.run()
        assert bundle.get_output("places").shape == (2, 2)
        with pytest.raises(sterna.SternaError, match="E0501"):
            bundle.set_dims(places=3)
