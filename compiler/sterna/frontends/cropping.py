"""Parts of images, each resized to one size: TensorFlow's `CropAndResize`, Core ML's `crop_resize`."""

from __future__ import annotations

from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Value


def crops(t: Emitter, image: Value, which: Value, y: Value, x: Value, outside: float, nearest: bool = False) -> Value:
    """Images sampled at grids of points.

    Args:
        image: (images, H, W, C) in float32, H, W and C known.
        which: the number of the image of each crop, (crops) in int32.
        y, x: rows and columns of the points, (crops, height) and (crops, width) in float32.
        outside: what points beyond the first and last row and column are.
        nearest: take the nearest element, in place of what lies between four.

    Returns:
        (crops, height, width, C).
    """
    h, w, d = (t.extent(image, axis) for axis in (1, 2, 3))
    count, height, width = y.shape[0], y.shape[1], x.shape[1]

    def inside(at: Value, extent: int) -> Value:
        zero, last = t.scalar(0, "float32"), t.scalar(extent - 1, "float32")
        return t.op("logical_and", t.op("greater_equal", at, zero), t.op("less_equal", at, last))

    def read(rows: Value, columns: Value) -> Value:
        """The images at whole positions."""
        shape = (count, height, width, 1)
        parts = [
            t.op("expand", t.reshape(which, (count, 1, 1, 1)), shape=shape),
            t.op("expand", t.reshape(t.cast(rows, "int32"), (count, height, 1, 1)), shape=shape),
            t.op("expand", t.reshape(t.cast(columns, "int32"), (count, 1, width, 1)), shape=shape),
        ]
        return t.op("gather_nd", image, t.op("concat", *parts, axis=3))

    ys, xs = t.op("clip", y, min=0.0, max=float(h - 1)), t.op("clip", x, min=0.0, max=float(w - 1))
    if nearest:
        result = read(t.op("round_away", ys), t.op("round_away", xs))
    else:
        top, left = t.op("floor", ys), t.op("floor", xs)
        bottom, right = t.op("ceil", ys), t.op("ceil", xs)
        down = t.reshape(t.op("sub", ys, top), (count, height, 1, 1))
        along = t.reshape(t.op("sub", xs, left), (count, 1, width, 1))

        def between(a: Value, b: Value, part: Value) -> Value:
            return t.op("add", a, t.op("mul", t.op("sub", b, a), part))

        upper = between(read(top, left), read(top, right), along)
        lower = between(read(bottom, left), read(bottom, right), along)
        result = between(upper, lower, down)
    valid = t.op(
        "logical_and", t.reshape(inside(y, h), (count, height, 1, 1)), t.reshape(inside(x, w), (count, 1, width, 1))
    )
    valid = t.op("expand", valid, shape=(count, height, width, d))
    return t.op("where", valid, result, t.scalar(outside, "float32"))
