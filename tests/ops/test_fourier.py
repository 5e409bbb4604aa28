"""Fourier transforms against NumPy's in float64: products, fast ones and convolutions give the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from sterna.debug.interpret import interpret
from sterna.frontends import fast_fourier, fourier
from sterna.frontends.onnx import read
from sterna.pipeline import optimize
from support.compiling import run

Array = np.ndarray[Any, Any]
KINDS = {"float32": 2e-6, "float64": 1e-13, "float16": 4e-3}


def dft(x: Array, axis: int, length: int, inverse: bool, onesided: bool) -> onnx.ModelProto:
    node = helper.make_node("DFT", ["x", "length", "axis"], ["y"], inverse=int(inverse), onesided=int(onesided))
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    stored = [numpy_helper.from_array(np.array(v), n) for n, v in (("length", length), ("axis", axis))]
    given = [helper.make_tensor_value_info("x", kind, x.shape)]
    graph = helper.make_graph([node], "g", given, [helper.make_tensor_value_info("y", kind, None)], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def expected(x: Array, axis: int, length: int, inverse: bool, onesided: bool) -> Array:
    values = x[..., 0] + 1j * (x[..., 1] if x.shape[-1] == 2 else 0.0)
    if inverse and onesided:
        return np.fft.irfft(values, length, axis)[..., None]
    found = np.fft.ifft(values, length, axis) if inverse else np.fft.fft(values, length, axis)
    if onesided:
        found = np.take(found, range(length // 2 + 1), axis)
    return np.stack([found.real, found.imag], -1)


def close(found: Array, wanted: Array, limit: float) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max(initial=0) <= limit * max(np.abs(wanted).max(initial=0), 1e-3)


@st.composite
def transforms(draw: st.DrawFn) -> tuple[Array, int, int, bool, bool]:
    """Elements, axis, length, inverse and onesided; elements may be fewer or more than the length."""
    length = draw(st.one_of(st.integers(1, 40), st.integers(41, 500)))
    inverse, onesided = draw(st.booleans()), draw(st.booleans())
    elements = length // 2 + 1 if inverse and onesided else length
    elements = draw(st.sampled_from([elements, elements, max(1, elements // 2), elements + 3]))
    # A result of real and imaginary part cannot be one-sided: there the elements are taken as real.
    parts = 1 if onesided and not inverse else draw(st.sampled_from([1, 2]))
    lead = draw(st.lists(st.integers(1, 3), max_size=2))
    axis = draw(st.integers(0, len(lead)))
    shape = (*lead[:axis], elements, *lead[axis:], parts)
    kind = draw(st.sampled_from(list(KINDS)))
    x = np.random.default_rng(length).standard_normal(shape).astype(kind)
    return x, axis, length, inverse, onesided


@settings(max_examples=60, deadline=None)
@given(transforms(), st.booleans())
def test_transforms_of_any_length(drawn: tuple[Array, int, int, bool, bool], fast: bool) -> None:
    x, axis, length, inverse, onesided = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fourier, "_is_large", lambda *_: fast)
        graph = optimize(read(dft(x, axis, length, inverse, onesided)), check=True)
    (found,) = interpret(graph, {"x": x}).values()
    close(found, expected(x.astype(np.float64), axis, length, inverse, onesided), KINDS[x.dtype.name])


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(("length", "inverse"), [(1024, False), (1024, True), (840, False), (331, True), (8192, False)])
def test_compiled(length: int, inverse: bool, generator: str, tmp_path: Path) -> None:
    """Two and three factors, several small ones, a prime, and a length that no matrix could have."""
    for parts in (1, 2):
        x = np.random.default_rng(parts).standard_normal((2, length, parts)).astype(np.float32)
        model = dft(x, 1, length, inverse, onesided=parts == 1 and not inverse)
        wanted = expected(x.astype(np.float64), 1, length, inverse, onesided=parts == 1 and not inverse)
        (found,) = run(read(model), {"x": x}, tmp_path / f"{parts}", generator).values()
        close(found, wanted, KINDS["float32"])


def test_which_way() -> None:
    """Short transforms are products, long ones are not, and a large prime is a convolution."""
    assert fast_fourier.factors_of(1024) is not None
    assert fast_fourier.factors_of(1021) is None
    assert fast_fourier.factors_of(2 * 101) is None
    names = {}
    for length in (64, 1024, 1021):
        x = np.zeros((1, length, 2), np.float32)
        names[length] = sum(node.op == "matmul" for node in read(dft(x, 1, length, False, False)).nodes)
    assert names[64] == 1
    assert 1 < names[1024] <= 3
    assert names[1021] > names[1024]
