"""Operators of old graphs and of `tf.raw_ops` against NumPy and SciPy: quantized ones, special functions, projections,
beams, complex numbers. `ci/tensorflow-operators` compares them with TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.graph_defs import GraphWriter, Kind

Array = np.ndarray


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def within(low: float, high: float, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def run(folder: Path, op: str, *operands: Array, **attributes: Any) -> Array:
    """The result of a node, whose first operand is an input and whose others are constants."""
    g = GraphWriter()
    g.input("x", operands[0].shape, str(operands[0].dtype))
    g.node(op, ["x", *(g.constant(each) for each in operands[1:])], name="y", **attributes)
    return next(iter(interpret(read_model(g.write(folder)), {"x": operands[0]}).values()))


SPECIAL: dict[str, tuple[Callable[[Array], Array], Array, list[float]]] = {
    "Expint": (scipy.special.expi, within(1e-3, 20, 60), [6, 0, 40, 90, 92.9, 3e38, np.inf, np.nan]),
    "Spence": (scipy.special.spence, within(0, 9, 60), [0, 0.5, 1, 1.5, 2]),
    "Dawsn": (scipy.special.dawsn, within(-12, 12, 60), [0, 0.2, 10, 50, 1e5, 1e8, -np.inf, np.nan]),
    "FresnelSin": (lambda x: scipy.special.fresnel(x)[0], within(-9, 9, 80), [99.9, 1234.5, -7777.7, 1e6, np.inf]),
    "FresnelCos": (lambda x: scipy.special.fresnel(x)[1], within(-4, 4, 80), [1.6, 0, 99.9, -1234.5, 3e4]),
}


@pytest.mark.parametrize("op", SPECIAL)
def test_special_functions(op: str, tmp_path: Path) -> None:
    function, x, more = SPECIAL[op]
    x = np.concatenate([x, more]).astype(np.float32)
    with np.errstate(all="ignore"):
        found, wanted = run(tmp_path, op, x), function(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)
    if op in ("Dawsn", "Expint"):
        large = x > 20
        np.testing.assert_allclose(found[large], wanted[large], rtol=1e-6)


def test_incomplete_beta_function(tmp_path: Path) -> None:
    x, a, b = within(0, 1, 80), within(0.1, 20, 80, seed=1), within(0.1, 20, 80, seed=2)
    x[:2] = 0, 1
    g = GraphWriter()
    g.input("x", x.shape)
    g.node("Betainc", [g.constant(a), g.constant(b), "x"], name="y")
    found = interpret(read_model(g.write(tmp_path)), {"x": x})["y"]
    np.testing.assert_allclose(found, scipy.special.betainc(a, b, x), rtol=1e-4, atol=1e-5)


def test_matrices(tmp_path: Path) -> None:
    a = drawn(2, 4, 4)
    a = (a @ a.swapaxes(1, 2) + 3 * np.eye(4)).astype(np.float32)
    skewed = np.eye(4, dtype=np.float32)
    skewed[0, 1], skewed[1, 1] = 1e4, 4
    far = [np.diag([1e-10, 1, 1e10, 1]), np.diag([1e10, 3e9, 1e10, 1e9]), skewed]
    every = np.stack([*(size * each for size in (1, 1e-10, 1e10) for each in a), *far]).astype(np.float32)
    for matrix, found in zip(every, run(tmp_path, "MatrixSquareRoot", every), strict=True):
        wanted = scipy.linalg.sqrtm(matrix.astype(np.float64))
        np.testing.assert_allclose(
            found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).min(initial=1, where=wanted > 0)
        )
    bands, b = within(1, 2, 3, 5), drawn(5, 2)
    whole = np.diag(bands[0]) + np.diag(bands[1][1:], -1) + np.diag(bands[2][2:], -2)
    found = run(tmp_path, "BandedTriangularSolve", bands, b, lower=True, adjoint=False)
    np.testing.assert_allclose(found, np.linalg.solve(whole, b), rtol=1e-4, atol=1e-4)
    symmetric = ((a[0] + a[0].T) / 2).astype(np.float32)
    found = run(tmp_path, "SelfAdjointEig", symmetric)
    np.testing.assert_allclose(found[0], np.linalg.eigvalsh(symmetric), rtol=1e-4)


# ---------------------------------------------------------------- quantized graphs
@pytest.mark.parametrize("mode", ["MIN_FIRST", "MIN_COMBINED", "SCALED"])
@pytest.mark.parametrize("kind", ["quint8", "qint8"])
def test_numbers_as_levels_and_back(mode: str, kind: str, tmp_path: Path) -> None:
    """No number is further away than half a level; 0 stays 0 but in MIN_COMBINED."""
    x = np.concatenate([within(-1, 3, 50), [0.0]]).astype(np.float32)
    x = np.maximum(x, 0) if (mode, kind) == ("SCALED", "quint8") else x
    g = GraphWriter()
    g.input("x", x.shape)
    axis = g.constant(np.array([0], np.int32))
    low, high = (g.node(op, ["x", axis]) for op in ("Min", "Max"))
    dtype = Kind("uint8" if kind == "quint8" else "int8")
    q = g.node("QuantizeV2", ["x", low, high], T=dtype, mode=mode)
    g.node("Dequantize", [q, f"{q}:1", f"{q}:2"], name="y", T=dtype, mode=mode)
    found = interpret(read_model(g.write(tmp_path)), {"x": x})["y"]
    level = (x.max() - x.min()) / 255 * (2 if mode == "SCALED" else 1)
    assert np.abs(found - x).max() <= level * 1.01
    assert mode == "MIN_COMBINED" or found[-1] == 0


def test_products_of_levels(tmp_path: Path) -> None:
    """A convolution and a product of old quantized graphs, as far from those of the numbers as levels are."""
    x, kernel = within(-1, 2, 1, 5, 6, 2), drawn(3, 3, 2, 4, seed=1)
    g = GraphWriter()
    g.input("x", x.shape)

    def quantized(name: str, rank: int) -> str:
        axes = g.constant(np.arange(rank, dtype=np.int32))
        ends = [g.node(op, [name, axes]) for op in ("Min", "Max")]
        return g.node("QuantizeV2", [name, *ends], T=Kind("uint8"), mode="MIN_FIRST")

    a, b = quantized("x", 4), quantized(g.constant(kernel), 4)
    product = g.node(
        "QuantizedConv2D", [a, b, f"{a}:1", f"{a}:2", f"{b}:1", f"{b}:2"], strides=(1, 1, 1, 1), padding="SAME"
    )
    three = [product, f"{product}:1", f"{product}:2"]
    span = g.node("RequantizationRange", three)
    small = g.node("Requantize", [*three, span, f"{span}:1"], out_type=Kind("uint8"))
    relu = g.node("QuantizedRelu", [small, f"{small}:1", f"{small}:2"])
    g.node("Dequantize", [relu, f"{relu}:1", f"{relu}:2"], name="y", T=Kind("uint8"), mode="MIN_FIRST")
    plain = GraphWriter()
    plain.input("x", x.shape)
    made = plain.node("Conv2D", ["x", plain.constant(kernel)], strides=(1, 1, 1, 1), padding="SAME")
    plain.node("Relu", [made], name="y")
    (tmp_path / "plain").mkdir()
    wanted = interpret(read_model(plain.write(tmp_path / "plain")), {"x": x})["y"]
    found = interpret(read_model(g.write(tmp_path)), {"x": x})["y"]
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()


def test_a_sum_of_levels_as_tensorflow_rounds_it(tmp_path: Path) -> None:
    """What TensorFlow 2.21 gives for these levels: in 32 bits, and from those in 8."""
    levels = (
        [[181, 255, 101, 118], [181, 233, 122, 126], [104, 0, 187, 77]],
        [[1, 126, 0, 58], [140, 65, 224, 21], [159, 183, 255, 212]],
    )
    ranges = ((-1.2055992, 1.9571), (-1.7270299, 1.4674717))
    g = GraphWriter()
    numbers = [[g.constant(np.float32(end)) for end in ends] for ends in ranges]
    for name in ("a", "b"):
        g.input(name, (3, 4), "uint8")
    made = g.node("QuantizedAdd", ["a", "b", *numbers[0], *numbers[1]], name="sum")
    three = [made, f"{made}:1", f"{made}:2"]
    span = g.node("RequantizationRange", three)
    g.node("Requantize", [*three, span, f"{span}:1"], name="small", out_type=Kind("uint8"))
    for n, output in enumerate((made, "small", "small:1", "small:2")):
        g.node("Identity", [output], name=f"y{n}")
    feeds = {name: np.array(x, np.uint8) for name, x in zip("ab", levels, strict=True)}
    found = interpret(read_model(g.write(tmp_path)), feeds)
    np.testing.assert_array_equal(
        found["y0"], [[-45284, 121011, -112523, -49751], [71337, 51572, 92843, -74154], [23368, -42816, 172802, 45425]]
    )
    np.testing.assert_array_equal(found["y1"], [[60, 209, 0, 56], [164, 147, 184, 34], [121, 62, 255, 141]])
    assert (found["y2"], found["y3"]) == (np.float32(-1.6801283), np.float32(2.5801985))


# ---------------------------------------------------------------- pictures
def test_fractional_pools(tmp_path: Path) -> None:
    """Windows of one and two elements; where they begin is a result."""
    x = drawn(1, 7, 5, 2)
    for op, function in (("FractionalMaxPool", np.max), ("FractionalAvgPool", np.mean)):
        for overlapping in (False, True):
            g = GraphWriter()
            g.input("x", x.shape)
            g.node(op, ["x"], name="p", pooling_ratio=(1.0, 1.5, 1.25, 1.0), overlapping=overlapping)
            for n, name in enumerate(("y", "rows", "columns")):
                g.node("Identity", [f"p:{n}"], name=name)
            y, rows, columns = interpret(read_model(g.write(tmp_path)), {"x": x}).values()
            assert y.shape == (1, 4, 4, 2)
            assert (rows[0], rows[-1], columns[-1]) == (0, 7, 5)
            assert set(np.diff(rows)) <= {1, 2}
            for i in range(4):
                for j in range(4):
                    window = x[:, rows[i] : rows[i + 1] + overlapping, columns[j] : columns[j + 1] + overlapping]
                    np.testing.assert_allclose(y[:, i, j], function(window, (1, 2)), rtol=1e-5, atol=1e-6)


def test_a_projection_that_moves(tmp_path: Path) -> None:
    x, size = drawn(1, 5, 6, 2), np.array([5, 6], np.int32)
    moved = np.array([[1, 0, 1, 0, 1, -1, 0, 0]], np.float32)  # one to the left, one down
    for way in ("NEAREST", "BILINEAR"):
        found = run(tmp_path, "ImageProjectiveTransformV3", x, moved, size, np.float32(9), interpolation=way)
        np.testing.assert_allclose(found[:, 1:, :-1], x[:, :-1, 1:], rtol=1e-5, atol=1e-6)
        assert (found[:, 0] == 9).all()
        assert (found[:, :, -1] == 9).all()


@pytest.mark.parametrize("mode", ["CONSTANT", "NEAREST", "WRAP", "REFLECT"])
def test_a_projection_from_nowhere_is_filled(mode: str, tmp_path: Path) -> None:
    """The denominator is 0 in one column, whose numerator is so, too, in one row."""
    for shape in ((1, 3, 4, 2), (1, 1, 1, 1)):
        x, size = within(1, 2, *shape), np.array([3, 4], np.int32)
        matrix = np.array([[0, 1, 0, 0, 1, 0, -0.5, 0]], np.float32)
        settings = {"fill_mode": mode, "interpolation": "NEAREST"}
        found = run(tmp_path, "ImageProjectiveTransformV3", x, matrix, size, np.float32(9), **settings)
        assert (found[:, :, 2] == 9).all()
        assert (found[:, 0, :2] != 9).all()


def test_the_next_number_beside_infinity(tmp_path: Path) -> None:
    x = drawn(3, 1)
    for beside in (np.float32(np.inf), np.array([-np.inf, 0, np.inf, np.nan], np.float32)):
        np.testing.assert_array_equal(run(tmp_path, "NextAfter", x, beside), np.nextafter(x, beside))
    ends = np.array([-np.inf, np.inf], np.float32)
    np.testing.assert_array_equal(run(tmp_path, "NextAfter", ends, np.float32(0)), np.nextafter(ends, np.float32(0)))


def test_boxes_of_given_overlaps(tmp_path: Path) -> None:
    overlaps, scores = within(0, 1, 9, 9), within(0, 1, 9, seed=1)
    settings = [scores, np.int32(4), np.float32(0.7), np.float32(0.2)]
    found = run(tmp_path, "NonMaxSuppressionWithOverlaps", overlaps, *settings)
    kept: list[int] = []
    for n in np.argsort(-scores):
        if scores[n] > 0.2 and len(kept) < 4 and all(overlaps[n, k] <= 0.7 for k in kept):
            kept.append(int(n))
    assert found.tolist() == kept


def test_glimpses_without_noise_alone(tmp_path: Path) -> None:
    x, offsets = drawn(1, 6, 6, 1), np.array([[0.0, 0.0]], np.float32)
    size = np.array([2, 2], np.int32)
    found = run(tmp_path, "ExtractGlimpse", x, size, offsets, noise="zero", uniform_noise=False)
    np.testing.assert_array_equal(found, x[:, 2:4, 2:4])
    with pytest.raises(SternaError, match="random numbers"):
        run(tmp_path, "ExtractGlimpse", x, size, offsets)


# ---------------------------------------------------------------- text and complex numbers
def test_beams_of_all_texts(tmp_path: Path) -> None:
    """Beams wide enough for all texts give the exact probability of the likeliest."""
    x = drawn(4, 1, 3)
    shares = np.exp(x[:, 0]) / np.exp(x[:, 0]).sum(-1, keepdims=True)
    ways: dict[tuple[int, ...], float] = {(): 1.0}
    for step in shares:
        ways = {(*way, n): p * step[n] for way, p in ways.items() for n in range(3)}
    texts: dict[tuple[int, ...], float] = {}
    for way, p in ways.items():
        text = tuple(n for k, n in enumerate(way) if n != 2 and (k == 0 or way[k - 1] != n))
        texts[text] = texts.get(text, 0.0) + p
    best = sorted(texts.items(), key=lambda item: -item[1])[:2]
    g = GraphWriter()
    g.input("x", x.shape)
    settings = {"beam_width": 40, "top_paths": 2, "merge_repeated": False}
    g.node("CTCBeamSearchDecoder", ["x", g.constant(np.array([4], np.int32))], name="d", **settings)
    for n, name in enumerate(("first", "second")):
        g.node("Identity", [f"d:{2 + n}"], name=name)
    g.node("Identity", ["d:6"], name="scores")
    found = interpret(read_model(g.write(tmp_path)), {"x": x})
    for name, (text, _) in zip(("first", "second"), best, strict=True):
        assert tuple(found[name].tolist()) == text
    np.testing.assert_allclose(np.exp(found["scores"][0]), [p for _, p in best], rtol=1e-4)


def test_complex_numbers(tmp_path: Path) -> None:
    x, y = drawn(2, 3), drawn(2, 3, seed=1)
    g = GraphWriter()
    g.input("x", x.shape)
    g.input("y", y.shape)
    c = g.node("Complex", ["x", "y"])
    product = g.node("Mul", [c, c])
    ratio = g.node("RealDiv", [product, g.node("Conj", [c])])
    turned = g.node("Transpose", [g.node("AddV2", [ratio, c]), g.constant(np.array([1, 0], np.int32))])
    joined = g.node("BatchMatMulV2", [turned, g.node("Exp", [c])])
    for op in ("Real", "Imag"):
        g.node(op, [joined], name=op.lower())
    found = interpret(read_model(g.write(tmp_path)), {"x": x, "y": y})
    z = x + 1j * y
    wanted = (z * z / np.conj(z) + z).T @ np.exp(z)
    np.testing.assert_allclose(found["real"], wanted.real, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["imag"], wanted.imag, rtol=1e-4, atol=1e-4)


def test_complex_numbers_of_what_is_no_complex_number(tmp_path: Path) -> None:
    """Integers, and numbers of which a product with 0 is not 0."""
    for x in (np.arange(3, dtype=np.int32), np.array([1, np.inf, -np.inf, np.nan], np.float32)):
        g = GraphWriter()
        g.input("x", x.shape, x.dtype.name)
        c = g.node("Cast", ["x"], SrcT=Kind(x.dtype.name), DstT=Kind("complex64"))
        made = {"same": c, "one": g.node("OnesLike", [c]), "nothing": g.node("ZerosLike", [c])}
        for name, each in made.items():
            for op in ("Real", "Imag"):
                g.node(op, [each], name=f"{name}_{op}")
        found = interpret(read_model(g.write(tmp_path)), {"x": x})
        assert {each.dtype.name for each in found.values()} == {"float32"}
        np.testing.assert_array_equal(found["same_Real"], x.astype(np.float32))
        for name, wanted in (("same_Imag", 0), ("one_Real", 1), ("one_Imag", 0), ("nothing_Real", 0)):
            np.testing.assert_array_equal(found[name], np.full(x.shape, wanted, np.float32))


def test_transforms_along_named_dimensions(tmp_path: Path) -> None:
    x = drawn(3, 4, 6)
    g = GraphWriter()
    g.input("x", x.shape)
    lengths, axes = (g.constant(np.array(v, np.int32)) for v in ([4, 6], [1, 2]))
    f = g.node("RFFTND", ["x", lengths, axes])
    g.node("ComplexAbs", [f], name="size")
    g.node("IRFFTND", [f, lengths, axes], name="back")
    found = interpret(read_model(g.write(tmp_path)), {"x": x})
    np.testing.assert_allclose(found["size"], np.abs(np.fft.rfftn(x, axes=(1, 2))), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["back"], x, rtol=1e-4, atol=1e-5)
