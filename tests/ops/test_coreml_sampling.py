"""Operations of ML programs that sample images and choose boxes, against NumPy written from their definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("coremltools", reason="Core ML models are built with coremltools")
from coremltools.converters.mil import Builder as mb  # noqa: E402, N813

from support.coreml_programs import interpreted  # noqa: E402

MODES = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS")
BOXES = ("CORNERS_HEIGHT_FIRST", "CORNERS_WIDTH_FIRST", "CENTER_SIZE_HEIGHT_FIRST", "CENTER_SIZE_WIDTH_FIRST")


def element(image: np.ndarray, row: int, column: int, padding: str, value: float) -> np.ndarray:
    """(C) at a place, which may lie outside."""

    def inside(n: int, size: int) -> int | None:
        if padding == "constant":
            return n if 0 <= n < size else None
        if padding == "border":
            return min(max(n, 0), size - 1)
        span = 2 * size - 2 if padding == "reflection" else 2 * size
        n %= span
        return min(n, span - n if padding == "reflection" else span - 1 - n)

    y, x = inside(row, image.shape[1]), inside(column, image.shape[2])
    return np.full(image.shape[0], value) if y is None or x is None else image[:, y, x].astype(float)


def sample(image: np.ndarray, y: float, x: float, padding: str = "constant", value: float = 0.0) -> np.ndarray:
    """(C) between four elements."""
    top, left = int(np.floor(y)), int(np.floor(x))
    down, along = y - top, x - left
    corners = [element(image, top + a, left + b, padding, value) for a in (0, 1) for b in (0, 1)]
    return (corners[0] * (1 - along) + corners[1] * along) * (1 - down) + (
        corners[2] * (1 - along) + corners[3] * along
    ) * down


def points(mode: str, first: float, last: float, count: int) -> np.ndarray:
    steps, length = np.arange(count), last - first
    if mode == "ALIGN_CORNERS" and count == 1:
        return np.array([(first + last) / 2])
    if mode in MODES[:2]:
        return np.linspace(first, last, count)
    found = {
        "DEFAULT": first + steps * (length + 1) / count,
        "OFFSET_CORNERS": first + (steps + 0.5) * max(1, length) / count,
        "UNALIGN_CORNERS": first + (steps + 0.5) * (length + 1) / count - 0.5,
    }
    return np.clip(found[mode], first, last)


def cropped(x: np.ndarray, boxes: np.ndarray, images: Any, size: tuple[int, int], kind: str, mode: str) -> np.ndarray:
    made = []
    for box, n in zip(boxes.astype(float), images, strict=True):
        (a, b), (c, d) = (box[0::2], box[1::2]) if kind.endswith("HEIGHT_FIRST") else (box[1::2], box[0::2])
        if kind.startswith("CENTER"):
            a, b, c, d = a - b / 2, a + b / 2, c - d / 2, c + d / 2
        rows, columns = points(mode, a, b, size[0]), points(mode, c, d, size[1])
        outside = lambda y, s: not 0 <= y <= s - 1  # noqa: E731
        made.append(
            [
                [
                    np.full(x.shape[1], 5.0)
                    if outside(y, x.shape[2]) or outside(q, x.shape[3])
                    else sample(x[n], y, q, "border")
                    for q in columns
                ]
                for y in rows
            ]
        )
    return np.array(made).transpose(0, 3, 1, 2)


@pytest.mark.parametrize("mode", MODES)
def test_crop_resize(mode: str, tmp_path: Path) -> None:
    kind = BOXES[MODES.index(mode) % len(BOXES)]
    random = np.random.default_rng(1)
    x = random.normal(size=(2, 3, 5, 6)).astype(np.float32)
    corners, centres = [[0.5, 1, 3, 4], [1, 0, 4, 4], [-1, 2, 2.5, 7]], [[2, 2, 1, 3], [2.5, 3, 4, 2], [1, 1, 0.5, 4]]
    boxes = np.array(centres if kind.startswith("CENTER") else corners, np.float32)
    settings = {
        "target_height": 3, "target_width": 1 if mode == "ALIGN_CORNERS" else 4, "box_coordinate_mode": kind,
        "sampling_mode": mode, "pad_value": np.float32(5),
    }  # fmt: skip
    size = (settings["target_height"], settings["target_width"])
    build = lambda x, b: mb.crop_resize(x=x, boxes=b, box_indices=np.array([0, 1, 1], np.int32), **settings)  # noqa: E731
    (found,) = interpreted(build, [x, boxes], tmp_path)
    np.testing.assert_allclose(found, cropped(x, boxes, [0, 1, 1], size, kind, mode), atol=1e-5)
    # Before operator set CoreML7 every box is one of every image.
    old = lambda x, b: mb.crop_resize(x=x, roi=mb.reshape(x=b, shape=[3, 1, 4, 1, 1]), **settings)  # noqa: E731
    (found,) = interpreted(old, [x, boxes], tmp_path, ct.target.iOS16)
    expected = [cropped(x, boxes, [n] * 3, size, kind, mode) for n in range(2)]
    np.testing.assert_allclose(found, np.stack(expected, 1), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "padding"),
    [
        ("unnormalized", "constant"),
        ("unnormalized", "reflection"),
        ("normalized_minus_one_to_one", "symmetric"),
        ("normalized_minus_one_to_one", "border"),
        ("normalized_zero_to_one", "reflection"),
        ("normalized_zero_to_one", "constant"),
    ],
)
def test_resample(kind: str, padding: str, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    corners = kind != "normalized_zero_to_one"
    x = random.normal(size=(2, 3, 4, 5)).astype(np.float32)
    spread = (-4, 8) if kind == "unnormalized" else (-1.6, 1.6)
    grid = random.uniform(*spread, (2, 3, 2, 2)).astype(np.float32)
    settings = {"sampling_mode": "bilinear", "padding_mode": padding, "padding_value": np.float32(1.5)}
    build = lambda x, g: mb.resample(x=x, coordinates=g, coordinates_mode=kind, align_corners=corners, **settings)  # noqa: E731
    (found,) = interpreted(build, [x, grid], tmp_path)
    places = grid.astype(float)
    if kind != "unnormalized":
        places = places * 2 - 1 if kind == "normalized_zero_to_one" else places
        sizes = np.array([5, 4])
        places = (places + 1) / 2 * (sizes - 1) if corners else ((places + 1) * sizes - 1) / 2
    expected = np.array([[[sample(x[n], p[1], p[0], padding, 1.5) for p in r] for r in places[n]] for n in range(2)])
    np.testing.assert_allclose(found, expected.transpose(0, 3, 1, 2), atol=1e-4)


def test_affine(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    x, matrix = random.normal(size=(2, 1, 4, 5)).astype(np.float32), random.normal(size=(1, 6)).astype(np.float32) / 2
    (found,) = interpreted(
        lambda x, m: mb.affine(
            x=x, transform_matrix=m, output_height=3, output_width=4, sampling_mode="bilinear", align_corners=True,
            padding_mode="constant", padding_value=np.float32(0), coordinates_mode="normalized_minus_one_to_one",
        ),
        [x, matrix],
        tmp_path,
    )  # fmt: skip
    a, b, c, d, e, f = matrix[0].astype(float)
    expected = [
        [
            [
                sample(x[n], (d * p + e * q + f + 1) / 2 * 3, (a * p + b * q + c + 1) / 2 * 4)[0]
                for p in np.linspace(-1, 1, 4)
            ]
            for q in np.linspace(-1, 1, 3)
        ]
        for n in range(2)
    ]
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-5)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.minimum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2) - np.maximum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2)
    common = float(np.prod(np.maximum(sides, 0)))
    return common / (float(np.prod(a[2:])) + float(np.prod(b[2:])) - common)


def chosen(boxes: np.ndarray, scores: np.ndarray, least: float, most: int, per_class: bool) -> list[np.ndarray]:
    images, _, classes = scores.shape
    made = [np.zeros((images, most, 4)), np.zeros((images, most, classes)), np.full((images, most), -1)]
    counts = []
    for n in range(images):
        best, kind, kept = scores[n].max(1), scores[n].argmax(1), []
        for m in [m for m in np.argsort(-best) if best[m] >= least] or [int(best.argmax())]:
            near = (overlap(boxes[n, m], boxes[n, k]) > 0.3 and (not per_class or kind[m] == kind[k]) for k in kept)
            if len(kept) < most and not any(near):
                kept.append(m)
        for place, m in enumerate(kept):
            made[0][n, place], made[1][n, place], made[2][n, place] = boxes[n, m], scores[n, m], m
        counts.append(len(kept))
    return [*made, np.array(counts)]


@pytest.mark.parametrize(("least", "most", "per_class"), [(0.2, 3, False), (0.2, 15, True), (5.0, 3, False)])
def test_suppression(least: float, most: int, per_class: bool, tmp_path: Path) -> None:
    """Boxes of any score are fewer than none only where no box is good enough: then it is the best one."""
    random = np.random.default_rng(4)
    boxes = np.concatenate([random.uniform(0, 4, (2, 12, 2)), random.uniform(0.5, 3, (2, 12, 2))], -1)
    boxes, scores = boxes.astype(np.float32), random.uniform(0, 1, (2, 12, 3)).astype(np.float32)
    settings = {"iou_threshold": np.float32(0.3), "max_boxes": most, "per_class_suppression": per_class}
    build = lambda b, s: mb.non_maximum_suppression(boxes=b, scores=s, score_threshold=np.float32(least), **settings)  # noqa: E731
    found = interpreted(build, [boxes, scores], tmp_path, ct.target.iOS15)
    for got, expected in zip(found, chosen(boxes, scores, least, most, per_class), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)
    turned = [np.ascontiguousarray(each.transpose(0, 2, 1)) for each in (boxes, scores)]
    found = interpreted(lambda b, s: mb.non_maximum_suppression(boxes=b, scores=s, **settings), turned, tmp_path)
    expected = chosen(boxes, scores, 0.0, most, per_class)
    np.testing.assert_allclose(found[0], expected[0].transpose(0, 2, 1), atol=1e-6)
    np.testing.assert_array_equal(found[2], expected[2])
