"""Files of MXNet's weights, written by tests."""

from __future__ import annotations

import struct

import numpy as np

_CODES = {"uint8": 3, "int32": 4, "int8": 5, "int64": 6}


def parameters(arrays: dict[str, np.ndarray]) -> bytes:
    """A file of weights in the layout of 1.x: of integers, else in float32."""
    content = struct.pack("<3Q", 0x112, 0, len(arrays))
    for array in arrays.values():
        content += struct.pack("<IiI", 0xF993FAC9, 0, array.ndim) + struct.pack(f"<{array.ndim}q", *array.shape)
        code = _CODES.get(array.dtype.name, 0)
        content += struct.pack("<3i", 1, 0, code) + (array if code else array.astype("<f4")).tobytes()
    content += struct.pack("<Q", len(arrays))
    return content + b"".join(struct.pack("<Q", len(name)) + name.encode() for name in arrays)
