"""TensorFlow's levels of ranges that are computed or uniform, against what its kernels define, in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from sterna.ir import dtypes
from support.graph_defs import GraphWriter, Kind

Array = np.ndarray


def run(folder: Path, op: str, *inputs: Array, constants: tuple[Any, ...] = (), **said: Any) -> list[Array]:
    g = GraphWriter()
    names = [g.input(f"x{n}", x.shape, x.dtype.name) for n, x in enumerate(inputs)]
    made = g.node(op, [*names, *(g.constant(np.asarray(c)) for c in constants)], name="made", **said)
    g.node("Identity", [made], name="y")
    feeds = {f"x{n}": x for n, x in enumerate(inputs)}
    return list(interpret(read_model(g.write(folder)), feeds).values())


def levels(x: Array, low: Any, high: Any, bits: int, signed: bool, narrow: bool, up: bool, clamps: bool) -> Array:
    """ComputeQuantizationRange and ClampScaleAndRound of quantize_and_dequantize_op.h."""
    least = (-(1 << (bits - 1)) + int(narrow)) if signed else 0
    most = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    huge = np.finfo(np.float32).max
    below = least / low if least * low > 0 else huge
    above = most / high if most * high > 0 else huge
    scale, step = (below, low / least) if below < above else (above, high / most)
    kept = np.clip(x, least * step, most * step) if clamps else x
    return (np.floor(kept * scale + 0.5) if up else np.round(kept * scale)) * step


@pytest.mark.parametrize("op", ["QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(("signed", "narrow", "up"), [(True, False, False), (True, True, True), (False, False, False)])
def test_the_nearest_levels(tmp_path: Path, op: str, given: bool, signed: bool, narrow: bool, up: bool) -> None:
    rng = np.random.default_rng(23)
    x = rng.uniform(-2, 3, (4, 5)).astype(np.float32)
    ends = [np.float32(-1.5), np.float32(2.0)] if given else [np.float32(0), np.float32(0)]
    bits = [np.int32(6)] if op.endswith("V3") else []
    said = {} if bits else {"num_bits": 6}
    if not op.endswith("V3"):
        said["round_mode"] = b"HALF_UP" if up else b"HALF_TO_EVEN"
    (found,) = run(
        tmp_path, op, x, constants=(*ends, *bits), signed_input=signed, range_given=given, narrow_range=narrow, **said
    )
    low, high = (-1.5, 2.0) if given else (float(x.min()), float(x.max()))
    wanted = levels(x, low, high, 6, signed, narrow, up and not bits, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "given"), [("V2", False), ("V3", True), ("V4", False)])
def test_ranges_that_attributes_leave_out(tmp_path: Path, op: str, given: bool) -> None:
    """Saved models leave out attributes that have their default."""
    x = np.array([[-1.0, 0.25, 3.0]], np.float32)
    bits = [np.int32(8)] if op == "V3" else []
    ends = (np.float32(-2), np.float32(2))
    (found,) = run(tmp_path, f"QuantizeAndDequantize{op}", x, constants=(*ends, *bits))
    low, high = ends if given else (-1.0, 3.0)
    np.testing.assert_allclose(found, levels(x, low, high, 8, True, False, False, given), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_zeros_have_no_range(tmp_path: Path, dtype: str) -> None:
    x = np.zeros((2, 3), dtypes.to_numpy(dtype))
    ends = (np.zeros((), x.dtype), np.zeros((), x.dtype))
    (found,) = run(tmp_path, "QuantizeAndDequantizeV4", x, constants=ends, range_given=False)
    assert (found == 0).all()


@pytest.mark.parametrize("given", [True, False])
def test_levels_along_an_axis(tmp_path: Path, given: bool) -> None:
    rng = np.random.default_rng(23)
    x = rng.uniform(-2, 3, (4, 3)).astype(np.float32)
    low, high = np.array([-1, -2, -0.5], np.float32), np.array([1, 1, 3], np.float32)
    (found,) = run(tmp_path, "QuantizeAndDequantizeV4", x, low, high, axis=1, range_given=given)
    for n in range(3):
        ends = (low[n], high[n]) if given else (x[:, n].min(), x[:, n].max())
        np.testing.assert_allclose(
            found[:, n], levels(x[:, n], *ends, 8, True, False, False, given), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("axis", [-1, 1])
def test_uniform_levels_and_back(tmp_path: Path, axis: int) -> None:
    rng = np.random.default_rng(23)
    x = rng.uniform(-9, 9, (4, 3)).astype(np.float32)
    scale = np.array([0.05, 0.1, 0.02], np.float32) if axis == 1 else np.float32(0.05)
    zero = np.array([3, -7, 0], np.int32) if axis == 1 else np.int32(3)
    said = {"quantization_axis": axis, "quantization_min_val": -127, "quantization_max_val": 127}
    (q,) = run(tmp_path, "UniformQuantize", x, constants=(scale, zero), Tout=Kind("int8"), **said)
    wanted = np.clip(np.floor(x * (1 / scale) + np.float32(0.5)) + zero, -127, 127)
    assert q.dtype == np.int8
    assert np.abs(q - wanted).max() == 0
    (back,) = run(tmp_path, "UniformDequantize", q, constants=(scale, zero), Tout=Kind("float32"), **said)
    np.testing.assert_allclose(back, (q - zero.astype(np.float32)) * scale, rtol=1e-6)


def test_levels_between_zero_and_a_computed_bound(tmp_path: Path) -> None:
    q = np.arange(0, 256, 5, dtype=np.uint8)
    bound, low, high = np.float32(1.5), np.float32(-1.0), np.float32(2.0)
    (found,) = run(tmp_path, "QuantizedReluX", q, constants=(bound, low, high), out_type=Kind("uint8"))
    np.testing.assert_array_equal(found, np.clip(q, 85, 213))  # 255 / 3 steps in 1
