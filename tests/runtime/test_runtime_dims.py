"""Bundles whose sizes are open until they run, through the Python API."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sterna.errors import SternaError
from sterna_runtime import Bundle, load
from sterna_runtime.dims import Bounds, Dimension, GivenShape, infer
from support import handmade_bundle, handmade_dims

F32 = np.float32


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return handmade_dims.write(tmp_path / "bundle")


def message(function: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(SternaError) as caught:
        function(*arguments, **named)
    return str(caught.value)


def check(bundle: Bundle, batch: int, seq: int, seed: int = 1) -> None:
    inputs = handmade_dims.inputs(batch, seq, seed)
    expected = handmade_dims.expected(**inputs)
    outputs = bundle.run(inputs)
    assert list(outputs) == ["y", "tail"]
    for name, array in outputs.items():
        assert array.shape == expected[name].shape
        assert np.array_equal(array, expected[name]), name
    assert np.array_equal(bundle.intermediate("mid"), expected["mid"])
    assert bundle.dim_sizes == {"batch": batch, "seq": seq}


@pytest.mark.parametrize("threads", [1, 3])
def test_run_at_every_size(directory: Path, threads: int) -> None:
    with load(directory, threads) as bundle:
        for batch in range(1, handmade_dims.BATCH + 1):
            for seq in [*range(1, handmade_dims.SEQ + 1), 3, 3]:
                check(bundle, batch, seq, seed=seq)


def test_what_it_is(directory: Path) -> None:
    bundle = load(directory)
    assert bundle.dims == {"batch": (1, 3), "seq": (1, 16)}
    assert bundle.dim_sizes == {"batch": 3, "seq": 16}
    x, pairs = bundle.inputs
    assert x.shape == ("batch", "seq")
    assert str(pairs) == "pairs float32[(seq + 1) // 2]"
    assert [spec.shape for spec in bundle.outputs] == [("batch", "2*seq + 1"), ("max(seq - 4, 0)",)]
    assert [spec.name for spec in bundle.values] == ["x", "pairs", "mid", "y", "tail"]
    assert x.at({"batch": 2, "seq": 7}).shape == (2, 7)
    assert pairs.at({"batch": 2, "seq": 7}).nbytes == 16
    assert pickle.loads(pickle.dumps(pairs)).at({"seq": 9}).sizes == (5,)
    assert "say the size of batch, seq" in message(lambda: x.nbytes)
    assert "x float32[batch, seq], pairs" in repr(bundle)
    assert bundle.memory()["signature"] == (48 + 8 + 99 + 12) * 4, "room for the largest sizes"
    assert copy.deepcopy(x) == x


def test_inputs_of_many_kinds(directory: Path) -> None:
    bundle = load(directory)
    inputs = handmade_dims.inputs(2, 5)
    y = handmade_dims.expected(**inputs)["y"]
    assert np.array_equal(bundle.run([inputs["x"].tolist(), inputs["pairs"].tolist()])["y"], y)
    assert np.array_equal(bundle.run([np.asfortranarray(inputs["x"]), inputs["pairs"]])["y"], y)


def test_wrong_shapes_are_reported_together(directory: Path) -> None:
    bundle = load(directory)

    def ask(x: tuple[int, ...], pairs: tuple[int, ...], dtype: npt.DTypeLike = F32) -> str:
        return message(bundle.run, {"x": np.zeros(x, dtype), "pairs": np.zeros(pairs, F32)})

    text = ask((4, 17), (9,))
    assert text.count("error[E0604]") == 2
    assert 'input "x", dimension 0 is 4; the model expects "batch" from 1 to 3' in text
    assert 'input "x", dimension 1 is 17; the model expects "seq" from 1 to 16' in text
    assert 'dims={"seq": (1, 17)}' in text
    text = ask((2, 0), (0,))
    assert 'dimension 1 is 0; the model expects "seq" from 1 to 16' in text
    assert "dims=" not in text
    text = ask((2, 7), (3,))
    assert 'input "pairs", dimension 0 is 3; the model expects (seq + 1) // 2, here 4' in text
    assert "with seq = 7" in text
    assert "seq 1 to 16" in text
    assert 'input "x" has shape [2, 7, 1]' in ask((2, 7, 1), (4,))
    assert ask((2, 7), (4, 1), np.float64).count("error[") == 2
    assert bundle.dim_sizes == {"batch": 3, "seq": 16}, "nothing has changed"
    check(bundle, 2, 7)


def test_inference() -> None:
    names = ("n", "m")
    n, m = Dimension(["d", 0], names), Dimension(["d", 1], names)
    bounds = {"n": Bounds(1, 9), "m": Bounds(0, 4)}
    present = {"n": 9, "m": 4}
    sizes, problems = infer([GivenShape("a", (n, 3), (5, 3)), GivenShape("b", (n,), (5,))], bounds, present)
    assert (sizes, problems) == ({"n": 5, "m": 4}, [])
    odd = Dimension(["+", ["*", ["d", 0], 2], 1], names)
    given = [GivenShape("a", (n, m), (5, 1)), GivenShape("b", (n, odd), (6, 99)), GivenShape("c", (m, n), (2, 5))]
    _, problems = infer(given, bounds, present)
    assert [problem.title for problem in problems] == [
        'dimension "n" has 2 sizes: 5, 6',
        'dimension "m" has 2 sizes: 1, 2',
    ]
    assert problems[0].where == (
        '5 in input "a", dimension 0',
        '6 in input "b", dimension 0',
        '5 in input "c", dimension 1',
    )
    sizes, problems = infer([GivenShape("b", (odd,), (19,))], bounds, present)
    assert (sizes, problems) == (present, []), "no array says n: it stays as it is"
    _, problems = infer([GivenShape("b", (odd,), (11,))], bounds, present)
    assert problems[0].title == 'input "b", dimension 0 is 11; the model expects n*2 + 1, here 19'


@pytest.mark.parametrize("expression", [["*", 2, ["d", 0]], ["*", ["d", 0], 2]])
def test_a_multiple_says_what_a_dimension_is(expression: list[Any]) -> None:
    names = ("n/2",)
    twice, bounds, present = Dimension(expression, names), {"n/2": Bounds(1, 9)}, {"n/2": 9}
    assert infer([GivenShape("b", (twice, twice), (10, 10))], bounds, present) == ({"n/2": 5}, [])
    for found, fix in ((11, None), (0, None), (20, 'compile the model for it: dims={"n": (2, 20, 2)}')):
        _, problems = infer([GivenShape("b", (twice,), (found,))], bounds, present)
        title = f'input "b", dimension 0 is {found}; the model expects a multiple of 2 from 2 to 18'
        assert [(p.title, p.fix and str(p.fix)) for p in problems] == [(title, fix)]
    _, problems = infer([GivenShape("b", (twice, twice), (10, 12))], bounds, present)
    assert problems[0].title == 'dimension "n/2" has 2 sizes: 5, 6'


@pytest.mark.parametrize(
    ("expression", "text", "value"),
    [
        (["d", 1], "seq", 7),
        (["+", ["*", 2, ["d", 1]], -1], "2*seq - 1", 13),
        (["*", ["+", ["d", 1], 1], ["d", 0]], "(seq + 1)*batch", 16),
        (["/", ["+", ["d", 1], -3], 2], "(seq - 3) // 2", 2),
        (["/", ["+", ["*", -1, ["d", 1]], 2], 2], "(-seq + 2) // 2", -3),
        (["%", ["/", ["d", 1], 2], 2], "(seq // 2) % 2", 1),
        (["%", ["*", -1, ["d", 1]], 4], "-seq % 4", 1),
        (["+", 9, ["*", -1, ["+", ["d", 1], ["d", 0]]]], "9 - (seq + batch)", 0),
        (["*", 3, ["/", ["d", 1], 2]], "3*(seq // 2)", 9),
        (["min", ["d", 0], ["max", ["d", 1], 4]], "min(batch, max(seq, 4))", 2),
        (["+", ["d", 0], ["d", 1], ["*", -2, ["d", 1]]], "batch + seq - 2*seq", -5),
    ],
)
def test_expressions(expression: list[Any], text: str, value: int) -> None:
    dimension = Dimension(expression, ("batch", "seq"))
    assert dimension == text
    assert dimension.at({"batch": 2, "seq": 7}) == value
    assert eval(text, {"batch": 2, "seq": 7, "min": min, "max": max}) == value


def test_three_calls(directory: Path) -> None:
    bundle = load(directory)
    inputs = handmade_dims.inputs(2, 6)
    assert "set_dims before set_input; now batch = 3, seq = 16" in message(bundle.set_input, "x", inputs["x"])
    bundle.set_dims(seq=6)
    bundle.set_dims(batch=2)
    for name, array in inputs.items():
        bundle.set_input(name, array)
    y = bundle.get_output("y")
    bundle.run()
    assert np.array_equal(y, handmade_dims.expected(**inputs)["y"])
    bundle.set_dims(batch=2, seq=6)
    assert bundle.get_output("y") is y, "nothing has changed"
    assert bundle.intermediate("mid").shape == (2, 6)
    assert len(bundle.profile()) == 3

    # Other sizes: arrays that no longer fit are not read.
    bundle.set_dims(seq=5)
    assert bundle.get_output("y").shape == (2, 11)
    assert "E0510" in message(bundle.intermediate, "mid")
    for call in (bundle.run, bundle.profile):
        text = message(call)
        assert text.count("error[E0604]") == 1, "pairs has 3 elements at 5 and at 6"
        assert 'input "x" was set with shape [2, 6]' in text
        assert "with batch = 2, seq = 5 the model expects x float32[2, 5]" in text
    smaller = handmade_dims.inputs(2, 5)
    for name, array in smaller.items():
        bundle.set_input(name, array)
    del array, inputs
    gc.collect()
    bundle.run()
    assert np.array_equal(bundle.get_output("y"), handmade_dims.expected(**smaller)["y"])
    check(bundle, 3, 9)  # run(inputs) sets the sizes too
    assert "E0604" in message(bundle.run)
    bundle.set_dims(batch=2, seq=5)
    bundle.run()
    assert np.array_equal(bundle.get_output("y"), handmade_dims.expected(**smaller)["y"]), "what was set fits again"


def test_set_dims_refuses(directory: Path, tmp_path: Path) -> None:
    bundle = load(directory)
    text = message(bundle.set_dims, seq=17, time=3, batch="2")
    assert 'dimension "seq" is 17; the model takes 1 to 16' in text
    assert 'no open dimension "time"\n  it has: batch 1 to 3, seq 1 to 16' in text
    assert "dimension \"batch\" is '2'; the model takes 1 to 3" in text
    assert text.count("error[E0501]") == 3
    assert bundle.dim_sizes == {"batch": 3, "seq": 16}
    bundle.set_dims(seq=np.int64(4))
    assert bundle.dim_sizes == {"batch": 3, "seq": 4}
    fixed = load(handmade_bundle.write(tmp_path / "fixed"))
    assert fixed.dims == {}
    assert "all its sizes are fixed" in message(fixed.set_dims, seq=3)
    bundle.close()
    assert "E0520" in message(bundle.set_dims, seq=3)


def test_a_bundle_that_contradicts_itself_at_some_sizes(tmp_path: Path) -> None:
    graph = handmade_dims.graph(handmade_dims.kernel_library())
    graph["values"][2]["storage"]["origin"] = ["+", 1, ["*", 9, ["+", 16, ["*", -1, ["d", 1]]]]]
    bundle = load(handmade_dims.write(tmp_path / "bundle", graph))
    inputs = handmade_dims.inputs(3, 16)
    before = bundle.run(inputs)["y"]
    assert "E0504" in message(bundle.set_dims, seq=1)
    assert bundle.dim_sizes == {"batch": 3, "seq": 16}
    assert np.array_equal(bundle.run(inputs)["y"], before)


def test_arrays_outlive_other_sizes(directory: Path) -> None:
    bundle = load(directory)
    bundle.run(handmade_dims.inputs(3, 16))
    y = bundle.get_output("y")
    bundle.set_dims(batch=1, seq=1)
    bundle.close()
    del bundle
    gc.collect()
    assert y.shape == (3, 33)
    assert np.isfinite(y).all()


def test_changed_on_disk(directory: Path) -> None:
    bundle = load(directory)
    (directory / "graph.json").write_text("{}")
    assert "E0505" in message(lambda: bundle.values)


def test_no_elements(tmp_path: Path) -> None:
    """A static size of 0: nothing to read, and the rest of the model runs."""
    graph = handmade_bundle.graph(handmade_bundle.params(), handmade_bundle.kernel_library())
    for kind in ("input", "output", "arena"):
        storage = {"class": kind, "offset": 0, "bytes": 1 if kind == "arena" else 4, "origin": 0, "strides": [0, 3, 1]}
        graph["values"].append({"name": f"no {kind}", "dtype": "float32", "dims": [2, 0, 3], "storage": storage})
    graph["inputs"].append(6)
    graph["outputs"].append(7)
    bundle = load(handmade_bundle.write(tmp_path / "bundle", graph))
    x = np.ones((handmade_bundle.ROWS, handmade_bundle.COLUMNS), F32)
    outputs = bundle.run([x, np.zeros((2, 0, 3), F32)])
    assert outputs["no output"].shape == (2, 0, 3)
    assert np.array_equal(outputs["y"], handmade_bundle.expected(x)["y"])
    assert bundle.intermediate("no arena").shape == (2, 0, 3)
