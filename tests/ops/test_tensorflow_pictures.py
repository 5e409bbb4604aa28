"""Operators of TensorFlow on pictures, spectra, segments and diagonals against NumPy; lists that grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.graph_defs import Function, GraphWriter, Kind

RNG = np.random.default_rng(7)
Array = np.ndarray


def drawn(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def run(folder: Path, x: Array, *steps: tuple[Any, ...]) -> Array:
    """The result of nodes, each on the one before: (op, further constants, attributes)."""
    g = GraphWriter()
    g.input("x", x.shape, str(x.dtype))
    last = "x"
    for op, constants, attributes in steps:
        last = g.node(op, [last, *(g.constant(c) for c in constants)], **attributes)
    g.node("Identity", [last], name="y")
    return next(iter(interpret(read_model(g.write(folder)), {"x": x}).values()))


def close(found: Array, wanted: Array) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 12), st.integers(1, 16))
def test_spectra(tmp_path_factory: pytest.TempPathFactory, size: int, length: int) -> None:
    folder, x = tmp_path_factory.mktemp("net"), drawn(2, size)
    forward = ("RFFT", [np.array([length], np.int32)], {})
    wanted = np.fft.rfft(x, length)
    close(run(folder, x, forward, ("ComplexAbs", [], {})), np.abs(wanted))
    close(run(folder, x, forward, ("Conj", [], {}), ("Imag", [], {})), -wanted.imag)
    close(run(folder, x, forward, ("Real", [], {})), wanted.real)
    again = run(folder, x, forward, ("IRFFT", [np.array([length], np.int32)], {}))
    close(again, np.fft.irfft(wanted, length))


def test_complex_numbers_of_two_parts(tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("x", (3, 8))
    g.input("y", (3, 8))
    g.node("Complex", ["x", "y"], name="c")
    g.node("FFT", ["c"], name="f")
    g.node("ComplexAbs", ["f"], name="size")
    g.node("IFFT", ["f"], name="back")
    g.node("Imag", ["back"], name="z")
    x, y = drawn(3, 8), drawn(3, 8)
    found = interpret(read_model(g.write(tmp_path)), {"x": x, "y": y})
    close(found["size"], np.abs(np.fft.fft(x + 1j * y)))
    close(found["z"], y)


def test_complex_numbers_are_no_floats(tmp_path: Path) -> None:
    with pytest.raises(SternaError):
        run(tmp_path, drawn(2, 8), ("RFFT", [np.array([8], np.int32)], {}), ("Neg", [], {}))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_patches_and_maxima(padding: str, tmp_path: Path) -> None:
    x = drawn(2, 6, 7, 3)
    window = {"ksizes": (1, 3, 2, 1), "strides": (1, 2, 1, 1), "rates": (1, 1, 1, 1), "padding": padding}
    found = run(tmp_path, x, ("ExtractImagePatches", [], window))
    high, wide = found.shape[1:3]
    total = [max((n - 1) * s + k - size, 0) for n, s, k, size in ((high, 2, 3, 6), (wide, 1, 2, 7))]
    before = [n // 2 if padding == "SAME" else 0 for n in total]
    padded = np.pad(x, ((0, 0), *((b, n) for b, n in zip(before, total, strict=True)), (0, 0)))
    for i in range(high):
        for j in range(wide):
            close(found[:, i, j], padded[:, 2 * i : 2 * i + 3, j : j + 2].reshape(2, -1))
    g = GraphWriter()
    g.input("x", x.shape)
    ends = {"Targmax": Kind("int64"), "include_batch_in_index": True}
    g.node("MaxPoolWithArgmax", ["x"], name="m", ksize=(1, 2, 2, 1), strides=(1, 2, 2, 1), padding=padding, **ends)
    g.node("Identity", ["m"], name="value")
    g.node("Identity", ["m:1"], name="place")
    found_ = interpret(read_model(g.write(tmp_path)), {"x": x})
    np.testing.assert_array_equal(x.reshape(-1)[found_["place"]], found_["value"])
    assert found_["value"].max() == x[:, : 2 * found_["value"].shape[1], : 2 * found_["value"].shape[2]].max()


@pytest.mark.parametrize("smooth", [True, False])
def test_scaling_by_kernels(smooth: bool, tmp_path: Path) -> None:
    """Halved by triangles that are as wide as two pixels of the result; a picture of one colour stays one."""
    x = np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1)
    scale = np.array([0.5, 1.0], np.float32)
    operands = [np.array([4, 1], np.int32), scale, np.zeros(2, np.float32)]
    found = run(tmp_path, x, ("ScaleAndTranslate", operands, {"kernel_type": "triangle", "antialias": smooth}))
    wanted = []
    for n in range(4):
        at = 2 * n + 1
        wide = 2 if smooth else 1
        taps = np.maximum(1 - np.abs(np.arange(8) + 0.5 - at) / wide, 0)
        wanted.append((taps / taps.sum() * np.arange(8)).sum())
    close(found.reshape(-1), np.array(wanted))
    for kind in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "keyscubic", "mitchellcubic"):
        options = {"kernel_type": kind, "antialias": smooth}
        ones = np.ones((1, 8, 6, 2), np.float32)
        larger = [np.array([5, 9], np.int32), np.array([5 / 8, 1.5], np.float32), np.zeros(2, np.float32)]
        close(run(tmp_path, ones, ("ScaleAndTranslate", larger, options)), np.ones((1, 5, 9, 2)))


def test_contrast_shifts_segments_and_diagonals(tmp_path: Path) -> None:
    x = drawn(2, 4, 5, 3)
    mean = x.mean((1, 2), keepdims=True)
    close(run(tmp_path, x, ("AdjustContrastv2", [np.float32(1.5)], {})), (x - mean) * 1.5 + mean)
    n = np.array([1, 5, -8], np.int32)
    assert run(tmp_path, n, ("LeftShift", [np.int32(2)], {})).tolist() == [4, 20, -32]
    assert run(tmp_path, n, ("RightShift", [np.int32(2)], {})).tolist() == [0, 1, -2]
    rows, places = drawn(4, 3), np.array([0, 2, 0, 2], np.int32)
    found = run(tmp_path, rows, ("UnsortedSegmentSum", [places, np.int32(3)], {}))
    close(found, np.stack([rows[0] + rows[2], np.zeros(3), rows[1] + rows[3]]))
    close(run(tmp_path, rows, ("SegmentSum", [np.array([0, 0, 1, 1], np.int32)], {}))[1], rows[2] + rows[3])
    sizes = [np.int32(0), np.int32(-1), np.int32(-1), np.float32(0)]
    close(run(tmp_path, rows[0], ("MatrixDiagV3", sizes, {})), np.diag(rows[0]))
    close(run(tmp_path, rows[:3], ("MatrixDiagPartV3", [np.int32(0), np.float32(0)], {})), np.diagonal(rows[:3]))
    close(run(tmp_path, rows[0], ("MatrixDiagV3", [np.int32(1), *sizes[1:]], {})), np.diag(rows[0], 1))


def test_a_list_that_grows(tmp_path: Path) -> None:
    """TensorArray(size=0, dynamic_size=True) of TensorFlow 2: elements are set beyond the end of a list."""
    g = GraphWriter()
    g.input("x", (3, 2))
    shape, held = g.constant(np.array([2], np.int32)), ""
    held = g.node("TensorListReserve", [shape, g.constant(np.int32(0))], element_dtype=Kind("float32"))
    for n in range(3):
        row = g.node("GatherV2", ["x", g.constant(np.int32(2 - n)), g.constant(np.int32(0))])
        held = g.node("TensorListSetItem", [held, g.constant(np.int32(n)), row], resize_if_index_out_of_bounds=True)
    g.node("TensorListStack", [held, shape], name="y")
    x = drawn(3, 2)
    (found,) = interpret(read_model(g.write(tmp_path)), {"x": x}).values()
    np.testing.assert_array_equal(found, x[::-1])


def test_a_list_that_grows_as_long_as_data_say_is_refused(tmp_path: Path) -> None:
    """Nothing says how large it will be: no result would be better than a wrong one."""
    g = GraphWriter()
    g.input("x", (2,))
    g.input("n", (), "int32")
    kinds = {"i": "int32", "n": "int32", "held": "float32", "x": "float32"}
    g.function("test", kinds, [("Less", ["i", "n"], "l", {})], {"r": ("l:z:0", "bool")})
    g.function(
        "body", kinds,
        [("Const", [], "one", {"value": np.array(1, np.int32)}),
         ("TensorListSetItem", ["held", "i", "x"], "set", {"resize_if_index_out_of_bounds": True}),
         ("AddV2", ["i", "one:output:0"], "next", {})],
        {"i_": ("next:z:0", "int32"), "n_": ("n", "int32"), "h_": ("set:output_handle:0", "float32"),
         "x_": ("x", "float32")},
    )  # fmt: skip
    shape = g.constant(np.array([2], np.int32))
    held = g.node("TensorListReserve", [shape, g.constant(np.int32(0))], element_dtype=Kind("float32"))
    g.node("While", [g.constant(np.int32(0)), "n", held, "x"], "loop", cond=Function("test"), body=Function("body"))
    g.node("TensorListStack", ["loop:2", shape], name="y")
    with pytest.raises(SternaError) as caught:
        read_model(g.write(tmp_path))
    assert "E0113" in caught.value.codes
