"""Caffe's layers that choose and move elements (Filter, Reverse, FlowWarp), and DispNet's correlation, beside NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.caffe_networks import drawn, layer, network

Array = np.ndarray


def run(folder: Path, kind: str, settings: str, *inputs: Array, tops: tuple[str, ...] = ("y",)) -> list[Array]:
    names = ["x", *(f"x{n}" for n in range(1, len(inputs)))]
    text = ""
    for name, x in zip(names[1:], inputs[1:], strict=True):
        dims = " ".join(f"dim: {size}" for size in x.shape)
        text += f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'
    path = network(folder, text + layer(kind, settings, tuple(names), tops), {}, inputs[0].shape)
    return list(interpret(read_model(path), dict(zip(names, inputs, strict=True))).values())


@pytest.mark.parametrize("chosen", [[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
def test_items_are_filtered(tmp_path: Path, chosen: list[int]) -> None:
    x, z = drawn(4, 2, 3), drawn(4, 5, seed=3)
    selector = np.array(chosen, np.float32).reshape(4, 1, 1, 1)
    found = run(tmp_path, "Filter", "", x, z, selector, tops=("y", "z"))
    for part, given in zip(found, (x, z), strict=True):
        np.testing.assert_array_equal(part, given[np.array(chosen, bool)])


def test_selectors_are_one_number_for_each_item(tmp_path: Path) -> None:
    with pytest.raises(SternaError, match="E0108"):
        run(tmp_path, "Filter", "", drawn(4, 2), drawn(4, 3))
    with pytest.raises(SternaError, match="E0108"):
        run(tmp_path, "Filter", "", drawn(3, 2), drawn(4))


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_reversed_dimensions(tmp_path: Path, axis: int) -> None:
    x = drawn(3, 2, 4, 5)
    (found,) = run(tmp_path, "Reverse", f"reverse_param {{ axis: {axis} }}", x)
    np.testing.assert_array_equal(found, np.flip(x, axis))


@pytest.mark.parametrize("fill", ["ZERO", "NOT_A_NUMBER"])
def test_images_are_read_where_a_flow_points_to(tmp_path: Path, fill: str) -> None:
    x, flow = drawn(2, 3, 4, 5), 2 * drawn(2, 2, 4, 5, seed=4)
    wanted = np.full_like(x, 0 if fill == "ZERO" else np.nan)
    for n, i, j in np.ndindex(2, 4, 5):
        h, w = np.float32(j) + flow[n, 0, i, j], np.float32(i) + flow[n, 1, i, j]
        if not (0 <= h < 5 and 0 <= w < 4):
            continue
        left, top = int(h), int(w)
        right, bottom = min(left + 1, 4), min(top + 1, 3)
        a, b = h - left, w - top
        wanted[n, :, i, j] = (
            (1 - a) * (1 - b) * x[n, :, top, left] + a * (1 - b) * x[n, :, top, right]
            + (1 - a) * b * x[n, :, bottom, left] + a * b * x[n, :, bottom, right]
        )  # fmt: skip
    (found,) = run(tmp_path, "FlowWarp", f"flow_warp_param {{ fill_value: {fill} }}", x, flow)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction", [-1, 0, 1])
@pytest.mark.parametrize(("kernel", "stride_1", "stride_2"), [(1, 1, 1), (3, 2, 2)])
def test_correlation_along_rows(tmp_path: Path, direction: int, kernel: int, stride_1: int, stride_2: int) -> None:
    a, b = drawn(2, 3, 6, 9), drawn(2, 3, 6, 9, seed=5)
    most, pad, radius = 4, 4, kernel // 2
    reach = most // stride_2
    shifts = {-1: range(-reach - 1, 0), 0: range(-reach, reach + 1), 1: range(reach + 1)}[direction]
    rows = -(-(6 - 2 * radius) // stride_1)
    columns = -(-(9 + 2 * pad - 2 * (most + radius)) // stride_1)
    wide = [np.pad(x, ((0, 0), (0, 0), (0, 0), (pad + stride_2, pad + stride_2))) for x in (a, b)]
    wanted = np.zeros((2, len(shifts), rows, columns), np.float32)
    for c, i, j in np.ndindex(len(shifts), rows, columns):
        y, x = i * stride_1, j * stride_1 + most + stride_2
        moved = x + shifts[c] * stride_2
        first = wide[0][:, :, y : y + kernel, x : x + kernel]
        second = wide[1][:, :, y : y + kernel, moved : moved + kernel]
        wanted[:, c, i, j] = (first * second).sum((1, 2, 3)) / (kernel * kernel * 3)
    said = (
        f"correlation_param {{ pad: {pad} kernel_size: {kernel} max_displacement: {most} stride_1: {stride_1} "
        f"stride_2: {stride_2} single_direction: {direction} }}"
    )
    (found,) = run(tmp_path, "Correlation1D", said, a, b)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
