"""Models compiled once with open dimensions, run at many sizes, compared with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import sterna
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.minilm import float_minilm
from support.open_networks import OpenGraph, decoder, detector, encoder, pyramid, rows
from support.trained import trained

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: the reference")
GENERATORS = ("c", "llvm")
SIZES = ((1, 1), (1, 2), (1, 15), (1, 16), (1, 17), (1, 33), (2, 9), (3, 31), (4, 48), (5, 7), (8, 1), (8, 48))


def _agree(bundle: sterna.Bundle, session: object, inputs: dict[str, np.ndarray]) -> None:
    outputs = list(bundle.run(inputs).values())
    wanted = session.run(None, inputs)  # type: ignore[attr-defined]
    for got, reference in zip(outputs, wanted, strict=True):
        assert got.shape == reference.shape
        assert np.abs(got - reference).max() <= 1e-4 * np.abs(reference).max()


@pytest.mark.parametrize("generator", GENERATORS)
def test_encoder_at_twelve_sizes(generator: str, tmp_path: Path) -> None:
    model = encoder()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    random = np.random.default_rng(3)
    dims = {"batch": (1, 8), "seq": (1, 48)}
    with sterna.compile(model, dims=dims, generator=generator, output=tmp_path / "encoder") as bundle:
        assert bundle.dims == dims
        for batch, seq in SIZES:
            mask = (random.random((batch, seq)) < 0.8) | (np.arange(seq) == 0)
            ids = random.integers(0, 50, (batch, seq))
            _agree(bundle, session, {"ids": ids, "mask": mask.astype(np.int64)})


@pytest.mark.parametrize("generator", GENERATORS)
def test_rows_and_columns(generator: str, tmp_path: Path) -> None:
    model = detector()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    random = np.random.default_rng(4)
    dims = {"height": (8, 60), "width": (8, 70)}
    with sterna.compile(model, dims=dims, generator=generator, output=tmp_path / "detector") as bundle:
        for height, width in ((8, 8), (60, 70), (9, 33), (31, 70), (60, 8), (17, 64)):
            _agree(bundle, session, {"image": random.standard_normal((1, 3, height, width)).astype(np.float32)})


@pytest.mark.parametrize("generator", GENERATORS)
def test_multiples(generator: str, tmp_path: Path) -> None:
    """What is halved and doubled again fits what it was, where sizes are multiples; arrays say which ones."""
    model, open_ = pyramid(), {"batch": (1, 8), "height": (6, 43), "width": (8, 64)}
    with pytest.raises(sterna.SternaError, match="E0108") as problem:
        sterna.compile(model, dims=open_)
    assert 'multiples of 4: dims={"height": (8, 40, 4), "width": (8, 64, 4)}' in str(problem.value)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    random = np.random.default_rng(12)
    dims = {"batch": (1, 2), "height": (6, 43, 4), "width": (8, 64, 4)}
    with sterna.compile(model, dims=dims, generator=generator, output=tmp_path / "pyramid") as bundle:
        assert bundle.dims == {"batch": (1, 2), "height/4": (2, 10), "width/4": (2, 16)}
        for batch, height, width in ((1, 8, 8), (2, 40, 64), (1, 12, 60), (2, 36, 8)):
            shape = (batch, 3, height, width)
            _agree(bundle, session, {"image": random.standard_normal(shape).astype(np.float32)})
        for height in (10, 44, 4):
            with pytest.raises(sterna.SternaError, match="a multiple of 4 from 8 to 40") as problem:
                bundle.run({"image": np.zeros((1, 3, height, 8), np.float32)})
            assert ('{"height": (8, 44, 4)}' in str(problem.value)) == (height == 44)


def test_multiples_by_the_name_that_a_bundle_has() -> None:
    open_ = {"batch": 1, "height": (8, 40, 4), "width": 8}
    at = [read_model(pyramid(), ReadOptions(dims={**open_, **more})) for more in ({"height/4": 5}, {"height": 20})]
    assert [graph.inputs[0].shape for graph in at] == [(1, 3, 20, 8)] * 2
    few = read_model(pyramid(), ReadOptions(dims={**open_, "height/4": (3, 4)}))
    assert str(few.inputs[0].type) == "float32[1, 3, height/4*4, 8]"
    assert few.inputs[0].shape[2].bounds() == (12, 16)


@pytest.mark.parametrize("size", [(8, 9, 0), (5, 7, 8), (1, 2, -1)])
def test_multiples_that_there_are_not(size: tuple[int, int, int]) -> None:
    with pytest.raises(sterna.SternaError, match="E0106"):
        sterna.compile(pyramid(), dims={"batch": 1, "height": size, "width": 8})


def test_a_size_out_of_bounds_is_refused(tmp_path: Path) -> None:
    with sterna.compile(detector(), dims={"height": (8, 20), "width": 16}, output=tmp_path / "d") as bundle:
        with pytest.raises(sterna.SternaError, match="E0604"):
            bundle.run({"image": np.zeros((1, 3, 21, 16), np.float32)})
        with pytest.raises(sterna.SternaError, match="E0604"):
            bundle.run({"image": np.zeros((1, 3, 20, 17), np.float32)})


def test_firmware_needs_every_size() -> None:
    with pytest.raises(sterna.SternaError, match="E0203") as problem:
        sterna.compile_to("unused", detector(), target="cortex-m4", dims={"height": (8, 20), "width": 16})
    assert 'dims={"height": 20}' in str(problem.value)


@pytest.mark.parametrize("generator", GENERATORS)
def test_rows_of_every_length(generator: str, tmp_path: Path) -> None:
    """Softmax and normalization over an open axis, element-wise tails, a product whose every size is open."""
    model = rows()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    random = np.random.default_rng(5)
    dims = {"batch": (1, 5), "length": (1, 150)}
    with sterna.compile(model, dims=dims, generator=generator, output=tmp_path / "rows") as bundle:
        for length in (*range(1, 36), 47, 63, 64, 65, 127, 128, 129, 149, 150):
            batch = length % 5 + 1
            _agree(bundle, session, {"x": random.standard_normal((batch, length)).astype(np.float32)})


@pytest.mark.parametrize("generator", GENERATORS)
def test_all_three_dimensions_of_a_trained_detector(generator: str, tmp_path: Path) -> None:
    path = trained("mtcnn_pnet_f32").file
    session = onnxruntime.InferenceSession(path)
    random = np.random.default_rng(6)
    dims = {"N": (1, 2), "M1": (16, 60), "M2": (16, 90)}
    with sterna.compile(path, dims=dims, generator=generator, output=tmp_path / "pnet") as bundle:
        for batch, height, width in ((1, 16, 16), (2, 60, 90), (1, 17, 90), (2, 33, 41), (1, 59, 16), (2, 48, 64)):
            _agree(bundle, session, {"input_1": random.standard_normal((batch, height, width, 3)).astype(np.float32)})


def test_the_float_minilm_at_twelve_sizes(tmp_path: Path) -> None:
    path = float_minilm(tmp_path)
    session = onnxruntime.InferenceSession(path)
    random = np.random.default_rng(7)
    dims = {"seq": (1, 256), "batch": (1, 8)}
    sizes = (
        *((1, 1), (1, 2), (1, 16), (1, 17), (1, 63), (1, 128), (1, 256)),
        *((2, 9), (3, 33), (4, 48), (8, 1), (8, 256)),
    )
    with sterna.compile(path, dims=dims, generator="llvm", output=tmp_path / "minilm") as bundle:
        assert bundle.dims == dims
        for batch, length in sizes:
            lengths = np.linspace(length, 1, batch).astype(np.int64)[:, None]
            inputs = {
                "input_ids": random.integers(0, 30522, (batch, length)),
                "attention_mask": (np.arange(length) < lengths).astype(np.int64),
                "token_type_ids": random.integers(0, 2, (batch, length)),
            }
            _agree(bundle, session, inputs)


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_decoder_from_an_empty_cache_on(generator: str, tmp_path: Path) -> None:
    """A prompt with no past, then word by word; at the end the same as everything at once."""
    model = decoder()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    words = np.random.default_rng(8).integers(0, 40, (1, 14))
    names = [value.name for value in model.graph.input]
    empty = {name: np.zeros((1, 2, 0, 8), np.float32) for name in names if name != "ids"}
    dims = {"past": (0, 31), "step": (1, 16)}
    with sterna.compile(model, dims=dims, generator=generator, output=tmp_path / "decoder") as bundle:
        assert bundle.dims == dims
        cache, logits = empty, np.zeros(0)
        for first, end in ((0, 6), *((n, n + 1) for n in range(6, 12)), (12, 14)):
            inputs = {"ids": words[:, first:end], **cache}
            _agree(bundle, session, inputs)
            *caches, logits = (array.copy() for array in bundle.run(inputs).values())
            cache = dict(
                zip([f"past_{kind}_{layer}" for layer in (0, 1) for kind in ("key", "value")], caches, strict=True)
            )
        whole = list(bundle.run({"ids": words, **empty}).values())[-1]
        np.testing.assert_allclose(logits, whole[:, -2:], rtol=1e-4, atol=1e-5)


def test_what_cannot_be_proved_names_its_node(tmp_path: Path) -> None:
    """An element is gathered from what may be empty."""
    g = OpenGraph(seed=1)
    x, places = g.input("x", ["rows", 4]), g.input("places", [3], TensorProto.INT64)
    g.nodes.append(helper.make_node("Gather", [x, places], ["picked"], "pick"))
    g.output("picked")
    with pytest.raises(sterna.SternaError, match="E0113") as problem:
        sterna.compile_to(tmp_path / "bundle", g.finished("empty"), dims={"rows": (0, 7)})
    assert 'from "pick' in str(problem.value)
    assert 'dims={"rows": <size>}' in str(problem.value)


@pytest.mark.parametrize("name", ["logreg_digits", "mlp_digits", "rf_digits", "svc_wine"])
def test_rows_of_a_table(name: str, tmp_path: Path) -> None:
    """Pipelines of scikit-learn take any number of rows."""
    sample = trained(f"sklearn_{name}")
    model = onnx.load(sample.file)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (table,) = sample.cases[0].inputs.values()
    with sterna.compile(model, dims={"rows": (1, 32)}, generator="llvm", output=tmp_path / name) as bundle:
        for count in (1, 7, 32):
            rows = table[:count].copy()
            labels, scores = bundle.run([rows]).values()
            wanted = session.run(None, {model.graph.input[0].name: rows})
            np.testing.assert_array_equal(labels, wanted[0])
            np.testing.assert_allclose(scores, wanted[1], atol=1e-5)
