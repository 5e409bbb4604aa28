"""Strokes of a pen as polylines, and as the pixels that the network sees.

`seen` is what examples/browser/strokes.js does, step by step, so that the network meets in the page what it met in
training; a test compares them.
"""

from __future__ import annotations

import numpy as np

#: Polylines of (x, y), y downwards.
Strokes = list[np.ndarray]

#: In pixels: the bitmap, a block of it, how wide digits may be, the pen.
BITMAP, BLOCK, WIDTH, RADIUS = 32, 4, 28, 2.0


def unit(strokes: Strokes) -> Strokes:
    """The strokes moved to the origin and scaled to a height of 1 (a flat drawing: a width of 1)."""
    points = np.concatenate(strokes)
    low, size = points.min(0), np.ptp(points, axis=0)
    return [(np.asarray(stroke, np.float64) - low) / (size[1] or size[0] or 1) for stroke in strokes]


def bent(
    strokes: Strokes, random: np.random.Generator, lean: float, turn: float, stretch: float, tremble: float
) -> Strokes:
    """The strokes as another hand may write them; the arguments are standard deviations."""
    angle, slope = random.normal(0, turn), random.normal(0, lean)
    wide, high = np.exp(random.normal(0, stretch, 2))
    cos, sin = np.cos(angle), np.sin(angle)
    matrix = np.array([[cos, -sin], [sin, cos]]) @ np.array([[wide, slope], [0, high]])
    # A slow swing over the whole digit, which keeps what is joined joined, and a tremble of every point.
    swing, phase = random.normal(0, 2.5 * tremble, (2, 2)), random.uniform(0, 2 * np.pi, 2)
    result = []
    for stroke in strokes:
        wave = np.sin(2 * np.pi * 0.8 * stroke + phase) @ swing
        result.append((stroke + wave + random.normal(0, tremble, stroke.shape)) @ matrix.T)
    return result


def seen(strokes: Strokes) -> np.ndarray:
    """What the network sees of a drawing: 8 by 8 numbers from 0 to 1, in 16 steps.

    UCI's digits were scanned into 32 x 32 black and white pixels, fitted into a box and counted in blocks of 4 x 4. So
    are these: wherever and however large a drawing is, it fills the box, and the same round pen is drawn along its
    strokes, whatever the pen on the paper was.
    """
    points = np.concatenate(strokes)
    low, size = points.min(0), np.ptp(points, axis=0)
    scale = float(((np.array([WIDTH, BITMAP]) - 2 * RADIUS) / np.maximum(size, 1e-9)).min())
    ink = np.zeros((BITMAP, BITMAP), bool)
    for stroke in strokes:
        _draw(ink, (stroke - low - size / 2) * scale + BITMAP / 2)
    blocks = ink.reshape(BITMAP // BLOCK, BLOCK, BITMAP // BLOCK, BLOCK)
    return (blocks.sum((1, 3)) / BLOCK**2).astype(np.float32)


def _draw(ink: np.ndarray, stroke: np.ndarray) -> None:
    """Blackens the pixels whose middle a round pen covers on its way along a stroke."""
    a, b = stroke[:-1, None], stroke[1:, None]
    if len(stroke) == 1:
        a = b = stroke[None]
    middle = np.arange(BITMAP) + 0.5
    at = np.stack(np.meshgrid(middle, middle), -1).reshape(1, -1, 2)
    along, away = b - a, at - a
    square = (along**2).sum(2)
    part = np.clip((away * along).sum(2) / np.where(square > 0, square, 1), 0, 1)
    near = ((away - part[:, :, None] * along) ** 2).sum(2) <= RADIUS**2
    ink |= near.any(0).reshape(BITMAP, BITMAP)
