"""Functions of keras.ops that find, warp and frame, beside Keras itself on JAX, NumPy or its own numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "numpy")
keras = pytest.importorskip("keras", reason="keras is not installed")

from sterna.debug.interpret import interpret  # noqa: E402
from sterna.errors import SternaError  # noqa: E402
from sterna.frontends.formats import read_model  # noqa: E402
from sterna.frontends.frontend import ReadOptions  # noqa: E402
from support.keras_cases import Make, check, drawn  # noqa: E402

ops = keras.ops
S = (2, 3, 4)
PICTURE = (2, 7, 8, 3)
TURN = np.array([0.913, 0.217, -0.631, -0.309, 1.127, 0.419, 0.0, 0.0], np.float32)
CORNERS = np.array([[0, 0], [7, 0], [0, 6], [7, 6]], np.float32)
MOVED = CORNERS + np.array([[0.61, 0.43], [-0.82, 0.33], [0.21, -1.13], [-0.47, -0.53]], np.float32)
KERNELS = [np.random.default_rng(n).normal(size=(*(3, 2, 2)[:n], 4, 3)).astype(np.float32) for n in (1, 2, 3)]
PLACES = np.random.default_rng(5).uniform(-4, 9, (3, 4, 5)).astype(np.float32)


def _rearranged(x: Any) -> list[Any]:
    """Keras multiplies every size that the result has, and so takes no open batch."""
    return [ops.rearrange(x[0], "b (c d) -> c (d b)", c=2), ops.rearrange(x[1], "b c -> c b")]


CASES: dict[str, tuple[Make, tuple[tuple[int, ...], ...], str]] = {
    "windows of pictures": (
        lambda x: [
            ops.unfold(x, (2, 3), dilation=(2, 1), padding=1, stride=(1, 2)),
            ops.adaptive_average_pool(x, (2, 3), data_format="channels_first"), ops.adaptive_max_pool(x, (3, 2)),
            ops.image.extract_patches(x, (2, 3), strides=(1, 2), padding="same"),
            ops.image.extract_patches(x, (2, 2), strides=(1, 1), dilation_rate=2, data_format="channels_last"),
        ],
        ((2, 6, 7, 3),), "float32",
    ),
    "windows of volumes": (
        lambda x: [ops.image.extract_patches(x, (2, 1, 3), strides=(1, 2, 1))], ((2, 3, 4, 5, 2),), "float32"
    ),
    "windows added up": (lambda x: [ops.fold(x, (5, 6), 2, stride=(2, 1), padding=(1, 0))], ((2, 12, 15),), "float32"),
    "frames": (
        lambda x: [
            *ops.stft(x, 12, 5, 16), *ops.stft(x, 16, 4, 16, window=None, center=False),
            ops.istft(ops.stft(x, 16, 4, 16, window="hamming"), 16, 4, 16, window="hamming"),
            ops.istft(ops.stft(x, 12, 3, 16), 12, 3, 16, length=40),
            ops.istft(ops.stft(x, 16, 4, 16, center=False), 16, 4, 16, center=False),
            ops.istft(ops.stft(x, 16, 8, 16, window=None), 16, 8, 16, window=None),
        ],
        ((2, 50),), "float32",
    ),
    "warps": (
        lambda x: [
            *(ops.image.affine_transform(x, np.stack([TURN, TURN * 0.9]), fill_mode=mode, fill_value=0.5)
              for mode in ("constant", "nearest", "wrap", "mirror", "reflect")),
            ops.image.affine_transform(x, np.stack([TURN, TURN]), interpolation="nearest"),
            ops.image.perspective_transform(x, CORNERS, MOVED, fill_value=0.25),
            ops.image.perspective_transform(x, np.stack([MOVED, CORNERS]), np.stack([CORNERS, MOVED]), "nearest"),
            ops.image.gaussian_blur(x, (3, 5), (0.8, 1.7)),
        ],
        (PICTURE,), "float32",
    ),
    "positions": (
        lambda x: [
            ops.image.map_coordinates(x, PLACES, order, fill_mode=mode, fill_value=2.0)
            for order in (0, 1) for mode in ("constant", "nearest", "wrap", "mirror", "reflect")
        ],
        (S,), "float32",
    ),
    "scales": (
        lambda x: [
            ops.image.scale_and_translate(
                x, (2, 9, 5, 3), np.float32([1.4, 0.6]), np.float32([0.3, -0.2]), (1, 2), method, antialias=smooth
            )
            for method in ("linear", "cubic", "lanczos3", "lanczos5") for smooth in (True, False)
        ],
        (PICTURE,), "float32",
    ),
    "similarity": (
        lambda x, y: [ops.image.ssim(ops.sigmoid(x), ops.sigmoid(y), filter_size=5)], (PICTURE, PICTURE), "float32"
    ),
    "order": (
        lambda x: [
            *ops.unique(ops.round(x), return_index=True, return_inverse=True, return_counts=True),
            ops.unique(ops.round(x), size=30), *ops.unique(ops.round(x), size=3, return_counts=True),
            *ops.nonzero(ops.relu(x)),
        ],
        (S,), "float32",
    ),
    "numbers": (
        lambda x, y: [
            ops.linspace(x, y, 4, axis=1), ops.linspace(x, y, 5, endpoint=False, axis=-1),
            ops.logspace(x, y, 3, base=2),
            ops.geomspace(ops.exp(x), ops.exp(y), 4), ops.full((2, 3), x[0, 0, 0]), ops.nextafter(x, y), ops.angle(x),
            ops.view(x, "int32"), ops.corrcoef(x[0]), *_rearranged(x),
            *(ops.correlate(x[0, 0], y[0, :, 1], mode) for mode in ("valid", "same", "full")),
            *(ops.correlate(y[0, :, 1], x[0, 0], mode) for mode in ("valid", "same", "full")),
        ],
        (S, S), "float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str, tmp_path: Path) -> None:
    make, shapes, dtype = CASES[name]
    check(make, [drawn(shape, dtype, number) for number, shape in enumerate(shapes)], tmp_path)


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_transposed_convolutions(padding: str, tmp_path: Path) -> None:
    """Keras 3.15 confuses two settings of the function when it runs a model, and so runs alone here."""
    given = [drawn((2, 4, 5, 3), "float32", 0), drawn((2, 4, 3), "float32", 1)]

    def made(x: Any, y: Any) -> list[Any]:
        wide = [ops.conv_transpose(x, KERNELS[1], 2, padding, output_padding=more) for more in (None, 1)]
        return [*wide, ops.conv_transpose(y, KERNELS[0], (3,), padding)]

    inputs = [keras.Input(x.shape[1:], name=f"x{n}") for n, x in enumerate(given)]
    keras.Model(inputs, made(*inputs)).save(tmp_path / "model.keras")
    graph = read_model(tmp_path / "model.keras", ReadOptions(dims={"batch": 2}))
    found = interpret(graph, {f"x{n}": x for n, x in enumerate(given)}).values()
    for each, wanted in zip(found, made(*given), strict=True):
        np.testing.assert_allclose(each, np.asarray(wanted), rtol=1e-4, atol=1e-4)


def test_histograms(tmp_path: Path) -> None:
    """Keras' NumPy backend has none."""
    x = drawn((40,), "float32", 3)
    given = keras.Input((), name="x0")
    model = keras.Model(given, [*ops.histogram(given, 5), *ops.histogram(given, 7, (-1.0, 1.5))])
    model.save(tmp_path / "model.keras")
    found = list(interpret(read_model(tmp_path / "model.keras", ReadOptions(dims={"batch": 40})), {"x0": x}).values())
    for n, wanted in enumerate([*np.histogram(x, 5), *np.histogram(x, 7, (-1.0, 1.5))]):
        np.testing.assert_allclose(found[n], wanted, rtol=1e-5, atol=1e-6)


def test_functions_of_matrices(tmp_path: Path) -> None:
    a = drawn((2, 5, 3), "float32", 0)
    b = drawn((5, 2), "float32", 1)
    low = (a[0] @ np.array([[1, 0, 1], [0, 1, 1], [0, 0, 0]], np.float32)).astype(np.float32)
    check(
        lambda x: [
            *ops.lu_factor(x[0]), ops.lstsq(x[0], b), ops.lstsq(x[1], b[:, 0]), ops.lstsq(ops.transpose(x[1]), b[:3]),
            ops.linalg.matrix_rank(x), ops.linalg.matrix_rank(x[0] * 0 + low),
        ],
        [a], tmp_path, 2e-3,
    )  # fmt: skip


def test_what_is_no_number_is_passed_over(tmp_path: Path) -> None:
    x = drawn(S, "float32", 0)
    x[0, 1, 2], x[1, 0, 1], x[1, 2, 3], x[0, 1, 3] = (np.nan,) * 4
    check(
        lambda x: [
            ops.nanmedian(x, axis=-1), ops.nanmedian(x), ops.nanquantile(x, 0.3, axis=(1, 2)), ops.nancumsum(x, axis=1),
            ops.nancumprod(x), ops.nanargmax(x, axis=1), ops.nanargmin(x), ops.nanargmin(x, axis=2, keepdims=True),
            ops.nanpercentile(x, np.array([10.0, 60.0], np.float32), axis=-1, keepdims=True),
            *(ops.nanquantile(x, 0.6, axis=-1, method=m) for m in ("lower", "higher", "midpoint", "nearest")),
        ],
        [x], tmp_path,
    )  # fmt: skip


def test_quantiles_of_infinite_numbers(tmp_path: Path) -> None:
    """Backends of Keras disagree on some of them; 0 times infinity is none of them."""
    x = np.array([[-np.inf, 1, np.nan], [1, np.inf, np.nan], [np.inf, np.inf, np.nan]], np.float32)
    cases: dict[tuple[float, str], list[float]] = {
        (0.0, "linear"): [-np.inf, 1, np.inf], (1.0, "linear"): [1, np.inf, np.inf],
        (0.5, "linear"): [-np.inf, np.inf, np.inf], (0.25, "midpoint"): [-np.inf, np.inf, np.inf],
        (0.5, "lower"): [-np.inf, 1, np.inf], (0.5, "higher"): [1, np.inf, np.inf],
    }  # fmt: skip
    given = keras.Input((3,), name="x0")
    made = []
    for q, method in cases:
        made += [
            ops.nanquantile(given, q, axis=-1, method=method), ops.quantile(given[:, :2], q, axis=-1, method=method)
        ]  # fmt: skip
    keras.Model([given], made).save(tmp_path / "model.keras")
    graph = read_model(tmp_path / "model.keras", ReadOptions(dims={"batch": 3}))
    with np.errstate(invalid="ignore"):
        found = list(interpret(graph, {"x0": x}).values())
    for n, (case, wanted) in enumerate(cases.items()):
        for y in found[2 * n : 2 * n + 2]:
            np.testing.assert_array_equal(y, np.array(wanted, np.float32), err_msg=str(case))


def test_greedy_text(tmp_path: Path) -> None:
    x, lengths = drawn((3, 6, 4), "float32", 2), np.array([6, 3, 4], np.int32)
    check(
        lambda x: [
            *ops.ctc_decode(x, lengths), *ops.ctc_decode(x, lengths, merge_repeated=False, mask_index=3),
        ],
        [x], tmp_path,
    )  # fmt: skip


def best_texts(x: np.ndarray, length: int, blank: int) -> dict[tuple[int, ...], float]:
    """Every text that a row of scores can be, with its probability: all ways, added up."""
    shares = np.exp(x - np.log(np.exp(x).sum(-1, keepdims=True)))
    ways: dict[tuple[int, ...], float] = {(): 1.0}
    for step in shares[:length]:
        ways = {(*way, n): p * step[n] for way, p in ways.items() for n in range(len(step))}
    texts: dict[tuple[int, ...], float] = {}
    for way, p in ways.items():
        text = tuple(n for k, n in enumerate(way) if n != blank and (k == 0 or way[k - 1] != n))
        texts[text] = texts.get(text, 0.0) + p
    return texts


def test_the_likeliest_texts(tmp_path: Path) -> None:
    """Beams that are wide enough for all texts give their exact probabilities."""
    x, lengths = drawn((3, 5, 3), "float32", 2), np.array([5, 3, 4], np.int32)
    given = keras.Input((5, 3), name="x0")
    model = keras.Model(given, ops.ctc_decode(given, lengths, "beam_search", beam_width=60, top_paths=4, mask_index=1))
    model.save(tmp_path / "model.keras")
    graph = read_model(tmp_path / "model.keras", ReadOptions(dims={"batch": 3}))
    texts, scores = interpret(graph, {"x0": x}).values()
    assert texts.shape == (4, 3, 5)
    assert texts.dtype == np.int32
    for row, length in enumerate(lengths):
        wanted = sorted(best_texts(x[row], length, 1).items(), key=lambda item: -item[1])
        for n, (text, share) in enumerate(wanted[:4]):
            assert texts[n, row].tolist() == [*text, *[-1] * (5 - len(text))]
            np.testing.assert_allclose(np.exp(scores[row, n]), share, rtol=1e-4)


def test_elastic_pictures(tmp_path: Path) -> None:
    """Random, and so its own: without a displacement nothing moves, with one every pixel comes from within."""
    x = np.random.default_rng(0).uniform(0, 1, (2, 9, 9, 1)).astype(np.float32)
    given = keras.Input((9, 9, 1), name="x0")
    moved = [ops.image.elastic_transform(given, alpha=a, sigma=1.0, seed=3) for a in (0.0, 3.0)]
    keras.Model(given, moved).save(tmp_path / "model.keras")
    graph = read_model(tmp_path / "model.keras", ReadOptions(dims={"batch": 2}))
    still, found = interpret(graph, {"x0": x}).values()
    np.testing.assert_allclose(still, x, atol=1e-6)
    assert found.min() >= x.min()
    assert found.max() <= x.max()
    assert np.abs(found - x).max() > 0.01


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda x: ops.linalg.eig(x)[0], "complex numbers"),
        (lambda x: ops.bincount(ops.cast(x[0], "int32"), minlength=3), "whose largest"),
    ],
)
def test_what_has_no_known_form_is_refused(make: Any, why: str, tmp_path: Path) -> None:
    given = keras.Input((4, 4), name="x0")
    keras.Model(given, make(given)).save(tmp_path / "model.keras")
    with pytest.raises(SternaError, match=why) as caught:
        read_model(tmp_path / "model.keras", ReadOptions())
    assert caught.value.codes == ("E0113",)


QUANTIZED = ["int8", "int8 of weights", "int4", "int4 of blocks", "int4 of columns", "float8"]


@pytest.mark.parametrize(
    ("given", "file"), [*((given, "model.keras") for given in QUANTIZED), ("int8", "model.h5"), ("int4", "model.h5")]
)
def test_quantized_models(given: str, file: str, tmp_path: Path) -> None:
    """Integers of 8 and 4 bits; operands are rounded as Keras rounds them, unless only weights are quantized."""
    layers, mode = keras.layers, given.split(maxsplit=1)[0]
    keras.utils.set_random_seed(3)
    tokens = keras.Input((6,), dtype="int32", name="x0")
    x = layers.Embedding(9, 7)(tokens)
    if given != "int8 of weights":  # of attention the file does not say that
        x = layers.MultiHeadAttention(3, 5, value_dim=3)(x, x)
        x = layers.GroupQueryAttention(3, 4, 2)(x, x)
    x = layers.EinsumDense("abc,cde->abed", output_shape=(6, 3, 2), bias_axes="ed")(x)
    model = keras.Model(tokens, layers.Dense(5, "relu")(layers.Flatten()(x)))
    settings = {
        "int8 of weights": lambda: keras.quantizers.Int8QuantizationConfig(activation_quantizer=None),
        "int4 of blocks": lambda: keras.quantizers.Int4QuantizationConfig(block_size=4),
        "int4 of columns": lambda: keras.quantizers.Int4QuantizationConfig(block_size=-1),
    }
    model.quantize(config=settings[given]()) if given in settings else model.quantize(mode)
    model.save(tmp_path / file)
    options = ReadOptions(dims={"batch": 2})
    if mode == "float8":
        with pytest.raises(SternaError, match="quantized in this way"):
            read_model(tmp_path / file, options)
        return
    ids = np.random.default_rng(0).integers(0, 9, (2, 6)).astype(np.int32)
    (found,) = interpret(read_model(tmp_path / file, options), {"x0": ids}).values()
    np.testing.assert_allclose(found, np.asarray(model(ids)), rtol=1e-4, atol=1e-6)


def test_adapters_of_low_rank(tmp_path: Path) -> None:
    """HDF5 files keep them beside the weights."""
    layers = keras.layers
    made = [layers.Embedding(9, 6), layers.Dense(5), layers.EinsumDense("abc,cd->abd", (None, 4)), layers.Conv1D(3, 2)]
    x = tokens = keras.Input((6,), dtype="int32", name="x0")
    for layer in made:
        x = layer(x)
    model = keras.Model(tokens, x)
    random = np.random.default_rng(0)
    for layer in made:
        layer.enable_lora(2, lora_alpha=3)
    for variable in model.trainable_variables:
        variable.assign(random.normal(size=variable.shape))
    ids = random.integers(0, 9, (2, 6)).astype(np.int32)
    for file in ("model.h5", "model.keras"):
        model.save(tmp_path / file)
        (found,) = interpret(read_model(tmp_path / file, ReadOptions(dims={"batch": 2})), {"x0": ids}).values()
        np.testing.assert_allclose(found, np.asarray(model(ids)), rtol=1e-4, atol=1e-4)


def _complex(x: Any, y: Any) -> list[Any]:
    ops = keras.ops
    z, w = ops.view_as_complex(x), ops.polar(ops.abs(y[..., 0]), y[..., 1])
    made = [ops.multiply(z, w), ops.add(z, w), ops.subtract(z, y[..., 0]), ops.divide(z, w), ops.conj(z), ops.exp(w)]
    return [*(ops.view_as_real(each) for each in made), ops.real(z), ops.imag(w), ops.abs(z), ops.angle(w)]


def test_complex_numbers(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    check(_complex, [random.normal(size=(2, 5, 2)).astype(np.float32) for _ in "xy"], tmp_path)
    x = keras.Input((4, 2), name="x0")
    for result in (keras.ops.view_as_complex(x), keras.ops.cumsum(keras.ops.view_as_complex(x))):
        keras.Model(x, result).save(tmp_path / "complex.keras")
        with pytest.raises(SternaError, match="complex") as caught:
            read_model(tmp_path / "complex.keras", ReadOptions())
        assert caught.value.codes == ("E0113",)


def test_ctc_loss(tmp_path: Path) -> None:
    """Labels that come twice, and fewer labels and steps than there could be."""
    random = np.random.default_rng(0)
    labels = np.array([[1, 1, 2, 3], [3, 2, 2, 2], [4, 1, 0, 0]], np.int32)
    logits = random.normal(size=(3, 9, 5)).astype(np.float32)
    lengths = [np.array(each, np.int32) for each in ([4, 3, 2], [9, 8, 5])]
    check(lambda a, b, c, d: [keras.ops.ctc_loss(a, b, c, d)], [labels, logits, *lengths], tmp_path)
