"""Pictures as GluonCV prepares them: (height, width, channels), or several of them."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import as_int

#: The axes of colour of ImageNet's pixels, by their share of the light (A. Krizhevsky and others, 2012).
_LIGHT = np.array(
    [
        [55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009],
        [55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140],
        [55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203],
    ]
)


def _picture(t: Translation) -> Value:
    x = t.input(0)
    if x.type.rank not in (3, 4):
        raise error("E0108", f"{t.kind} takes a picture, or several, not {x.type}")
    return x


def to_tensor(t: Translation) -> Value:
    """Channels first, from 0 to 1."""
    x = _picture(t)
    rank = x.type.rank
    y = t.moved(t.cast(x, "float32"), rank - 1, rank - 3)
    return t.op("div", y, t.number(255, y))


def normalize(t: Translation) -> Value:
    """Of pictures whose channels come first."""
    x = t.floats(_picture(t))
    at = x.type.rank - 3
    count = t.extent(x, at)
    mean, deviation = (t.said.numbers(name, (default,)) for name, default in (("mean", 0.0), ("std", 1.0)))
    if any(len(row) < count and len(row) != 1 for row in (mean, deviation)) or 0 in deviation[:count]:
        raise error("E0109", f"{t.kind} of {x.type} by {list(mean)} and {list(deviation)}")
    low, high = (
        t.constant(np.array(row * count if len(row) == 1 else row[:count]).reshape(-1, 1, 1), x.dtype)
        for row in (mean, deviation)
    )
    return t.op("div", t.op("sub", x, low), high)


def _flipped(axis: int) -> Translator:
    def translate(t: Translation) -> Value:
        x = _picture(t)
        at = x.type.rank + axis
        starts = tuple(size - 1 if n == at else as_int(0) for n, size in enumerate(x.shape))
        steps = tuple(-1 if n == at else 1 for n in range(x.type.rank))
        return t.op("slice", x, starts=starts, sizes=x.shape, steps=steps)

    return translate


def crop(t: Translation) -> Value:
    x = _picture(t)
    rank = x.type.rank
    left, top, width, height = (t.said.integer(name) for name in ("x", "y", "width", "height"))
    rows, columns = (t.extent(x, n) for n in (rank - 3, rank - 2))
    if min(left, top) < 0 or min(width, height) < 1 or left + width > columns or top + height > rows:
        raise error("E0109", f"{t.kind} of {width} x {height} at ({left}, {top}) of {x.type}")
    return t.part(t.part(x, rank - 3, top, height), rank - 2, left, width)


def resize(t: Translation) -> Value:
    """By the nearest pixel (0) or between four (1), as OpenCV does; pixels of bytes are rounded."""
    x = _picture(t)
    rank = x.type.rank
    rows, columns = (t.extent(x, n) for n in (rank - 3, rank - 2))
    size, how = t.said.integers("size", ()), t.said.integer("interp", 1)
    if len(size) not in (1, 2) or min(size) < 1:
        raise error("E0109", f"{t.kind} to {list(size)}")
    width, height = size[0], size[-1]
    if len(size) == 1 and t.said.flag("keep_ratio"):
        if rows > columns:
            height = rows * width // columns
        else:
            width = columns * height // rows
    if how not in (0, 1):
        raise t.unsupported(f"by the interpolation {how}")
    wide = x if rank == 4 else t.spread(x, 0)
    planes = t.moved(t.floats(wide), 3, 1)
    sizes = t.vector([t.extent(wide, 0), t.extent(wide, 3), height, width])
    if how:
        y = standard(t, "Resize", planes, None, None, sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    else:
        y = standard(
            t, "Resize", planes, None, None, sizes, mode="nearest", nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        )  # fmt: skip
    y = t.moved(y, 1, 3)
    if not dtypes.is_float(x.dtype):
        y = t.cast(t.op("round", y), x.dtype)
    return y if rank == 4 else t.squeezed(y, 0)


def lighten(t: Translation) -> Value:
    """adjust_lighting: pixels moved along ImageNet's axes of colour."""
    x = _picture(t)
    shares = t.said.numbers("alpha", ())
    if len(shares) != 3 or t.extent(x, -1) not in (1, 3):
        raise error("E0109", f"{t.kind} of {x.type} by {list(shares)}")
    if t.extent(x, -1) == 1:
        return t.op("identity", x)
    pixels = t.floats(x)
    moved = t.op("add", pixels, t.constant(_LIGHT @ np.array(shares), pixels.dtype))
    return moved if dtypes.is_float(x.dtype) else t.cast(t.op("clip", moved, min=0.0, max=255.0), x.dtype)


_NAMED: dict[str, Translator] = {
    "adjust_lighting": lighten, "crop": crop, "flip_left_right": _flipped(-2), "flip_top_bottom": _flipped(-3),
    "normalize": normalize, "resize": resize, "to_tensor": to_tensor,
}  # fmt: skip
TRANSLATORS: dict[str, Translator] = {
    f"{prefix}_image_{name}": function for name, function in _NAMED.items() for prefix in ("", "_npx_")
}
