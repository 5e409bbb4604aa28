"""Correlations and maps for each bin of a region, of MXNet and of forks of Caffe, beside loops as their C++ has them.

`ci/mxnet-operators` compares the same with MXNet itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.caffe_networks import drawn, layer, network
from support.mxnet_symbols import parameters

Array = np.ndarray
A, B = drawn(2, 3, 7, 8), drawn(2, 3, 7, 8, seed=3)
MAPS = drawn(2, 18, 8, 9)
ROIS = np.array([[0, 0, 0, 12, 9], [1, 3.5, 1.5, 17, 14], [1, -4, -3, 30, 30]], np.float32)


def of_mxnet(folder: Path, op: str, *operands: Array, results: int = 1, **said: Any) -> list[Array]:
    nodes: list[dict[str, Any]] = [{"op": "null", "name": f"x{n}", "inputs": []} for n in range(len(operands))]
    attrs = {name: str(value) for name, value in said.items()}
    nodes.append({"op": op, "name": "y", "attrs": attrs, "inputs": [[n, 0, 0] for n in range(len(operands))]})
    heads = [[len(operands), n, 0] for n in range(results)]
    (folder / "model-symbol.json").write_text(json.dumps({"nodes": nodes, "heads": heads}))
    (folder / "model-0000.params").write_bytes(parameters({"arg:unused": np.zeros(1, np.float32)}))
    feeds = {f"x{n}": x for n, x in enumerate(operands)}
    options = ReadOptions(shapes={name: x.shape for name, x in feeds.items()})
    return list(interpret(read_model(folder / "model-symbol.json", options), feeds).values())


def of_caffe(folder: Path, kind: str, settings: str, x: Array, other: Array) -> Array:
    dims = " ".join(f"dim: {size}" for size in other.shape)
    text = f'layer {{ name: "o" type: "Input" top: "o" input_param {{ shape {{ {dims} }} }} }}\n'
    graph = read_model(network(folder, text + layer(kind, settings, ("x", "o")), {}, x.shape))
    (found,) = interpret(graph, {"x": x, "o": other}).values()
    return found


def correlation(kernel: int, most: int, stride: int, step: int, pad: int, products: bool) -> Array:
    a, b = (np.pad(v, ((0, 0), (0, 0), (pad, pad), (pad, pad))) for v in (A, B))
    border, reach = most + kernel // 2, most // step
    high, wide = (-(-(size - 2 * border) // stride) for size in a.shape[2:])
    y = np.zeros((2, (2 * reach + 1) ** 2, high, wide))
    for d, (down, right) in enumerate(np.ndindex(2 * reach + 1, 2 * reach + 1)):
        for i, j in np.ndindex(high, wide):
            top, left = i * stride + most, j * stride + most
            below, beside = top + (down - reach) * step, left + (right - reach) * step
            u = a[:, :, top : top + kernel, left : left + kernel]
            v = b[:, :, below : below + kernel, beside : beside + kernel]
            y[:, d, i, j] = (u * v if products else abs(u - v)).mean((1, 2, 3))
    return y


@pytest.mark.parametrize("products", [True, False])
@pytest.mark.parametrize("said", [(1, 3, 1, 1, 3), (3, 4, 2, 2, 5), (1, 3, 2, 2, 2)])
def test_correlations(said: tuple[int, ...], products: bool, tmp_path: Path) -> None:
    kernel, most, stride, step, pad = said
    wanted = correlation(kernel, most, stride, step, pad, products)
    (found,) = of_mxnet(
        tmp_path, "Correlation", A, B, kernel_size=kernel, max_displacement=most, stride1=stride, stride2=step,
        pad_size=pad, is_multiply=products,
    )  # fmt: skip
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    text = f"pad: {pad} kernel_size: {kernel} max_displacement: {most} stride_1: {stride} stride_2: {step}"
    text += "" if products else " correlation_type: SUBTRACT"
    found = of_caffe(tmp_path, "Correlation", f"correlation_param {{ {text} }}", A, B)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def edges(roi: Array, scale: float, shift: float) -> tuple[Array, Array]:
    corners = np.where(roi[1:] < 0, -np.floor(0.5 - roi[1:]), np.floor(roi[1:] + 0.5)) + np.array([0, 0, 1, 1])
    corners = corners * scale - shift
    return corners[:2], np.maximum(corners[2:] - corners[:2], 0.1)


def position_pooled(scale: float) -> Array:
    y = np.zeros((len(ROIS), 2, 3, 3))
    for n, roi in enumerate(ROIS):
        start, size = edges(roi, scale, 0)
        for d, i, j in np.ndindex(2, 3, 3):
            low = np.floor(np.array([j, i]) * size / 3 + start)
            high = np.ceil((np.array([j, i]) + 1) * size / 3 + start)
            (left, top), (right, bottom) = (np.clip(v, 0, [9, 8]).astype(int) for v in (low, high))
            part = MAPS[int(roi[0]), (d * 3 + i) * 3 + j, top:bottom, left:right]
            y[n, d, i, j] = part.mean() if part.size else 0
    return y


def test_bins_have_maps_of_their_own(tmp_path: Path) -> None:
    wanted = position_pooled(0.5)
    said = {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": 3}
    (found,) = of_mxnet(tmp_path, "_contrib_PSROIPooling", MAPS, ROIS, **said)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    text = "psroi_pooling_param { spatial_scale: 0.5 output_dim: 2 group_size: 3 }"
    np.testing.assert_allclose(of_caffe(tmp_path, "PSROIPooling", text, MAPS, ROIS), wanted, rtol=1e-5, atol=1e-6)


def test_bins_that_are_moved(tmp_path: Path) -> None:
    moves, samples = drawn(3, 2, 3, 3), 2
    y = np.zeros((len(ROIS), 2, 3, 3))
    for n, roi in enumerate(ROIS):
        start, size = edges(roi, 0.5, 0.5)
        for d, i, j in np.ndindex(2, 3, 3):
            values = []
            corner = np.array([j, i]) * size / 3 + start + moves[n, :, i, j] * 0.1 * size
            for a, b in np.ndindex(samples, samples):
                x, z = corner + np.array([b, a]) * size / 3 / samples
                if -0.5 <= x <= 8.5 and -0.5 <= z <= 7.5:
                    x, z = np.clip(x, 0, 8), np.clip(z, 0, 7)
                    plane = MAPS[int(roi[0]), (d * 3 + i) * 3 + j]
                    u, v = int(x), int(z)
                    upper = plane[v, u] * (1 - x + u) + plane[v, min(u + 1, 8)] * (x - u)
                    lower = plane[min(v + 1, 7), u] * (1 - x + u) + plane[min(v + 1, 7), min(u + 1, 8)] * (x - u)
                    values.append(upper * (1 - z + v) + lower * (z - v))
            y[n, d, i, j] = np.mean(values) if values else 0
    said = {"spatial_scale": 0.5, "output_dim": 2, "group_size": 3, "pooled_size": 3, "sample_per_part": samples}
    (found,) = of_mxnet(tmp_path, "_contrib_DeformablePSROIPooling", MAPS, ROIS, moves, trans_std=0.1, **said)
    np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-5)


def test_regions_are_repeated_where_few_are_found(tmp_path: Path) -> None:
    """One box for each place, all of them nearly the same."""
    scores, offsets = np.zeros((2, 2, 1, 2), np.float32), np.zeros((2, 4, 1, 2), np.float32)
    scores[:, 1] = [[[0.25, 0.5]], [[0.75, 0.5]]]
    said = {
        "scales": (4,),
        "ratios": (1,),
        "feature_stride": 8,
        "rpn_post_nms_top_n": 3,
        "rpn_min_size": 1,
        "threshold": 0.8,
    }
    info = np.array([[64, 64, 1], [64, 8, 1]], np.float32)
    found, best = of_mxnet(tmp_path, "_contrib_MultiProposal", scores, offsets, info, results=2, **said)
    # Around (3.5, 3.5) 32 pixels, cut to the picture; the second place of the second picture is beyond it.
    wanted = [[0, 0, 0, 27, 19], [0, 0, 0, 19, 19], [0, 0, 0, 27, 19]] + [[1, 0, 0, 7, 19]] * 3
    np.testing.assert_allclose(found, wanted)
    np.testing.assert_allclose(best[:, 0], [0.5, 0.25, 0.5, 0.75, 0.75, 0.75])


@pytest.mark.parametrize(
    ("op", "operands", "said", "code"),
    [
        ("Correlation", (A, B), {"kernel_size": 2}, "E0109"),
        ("Correlation", (A, B[:, :2]), {}, "E0108"),
        ("Correlation", (A, B), {"max_displacement": 9}, "E0108"),
        ("_contrib_PSROIPooling", (MAPS, ROIS), {"spatial_scale": 1, "output_dim": 3, "pooled_size": 3}, "E0108"),
        ("_contrib_Proposal", (MAPS, MAPS, ROIS), {}, "E0108"),
        ("_contrib_Proposal", (MAPS, MAPS, ROIS), {"ratios": (0,)}, "E0109"),
    ],
)
def test_what_does_not_fit_is_refused(
    op: str, operands: tuple[Array, ...], said: dict[str, Any], code: str, tmp_path: Path
) -> None:
    with pytest.raises(SternaError) as caught:
        of_mxnet(tmp_path, op, *operands, **said)
    assert caught.value.codes == (code,)
