"""Networks of DarkNet for tests: a description with drawn weights, and NumPy's view of its convolutions."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

Array = np.ndarray
HEADER = struct.pack("<iiiQ", 0, 2, 5, 0)


def drawn(*shape: int, seed: int = 1, positive: bool = False) -> Array:
    found = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return np.abs(found) + np.float32(0.2) if positive else found


def network(folder: Path, sections: str, weights: list[Array], sizes: tuple[int, ...] = (4, 6, 8)) -> Path:
    """A description with a picture as its input, and its weights."""
    net = (
        f"[net]\nchannels={sizes[0]}\nheight={sizes[1]}\nwidth={sizes[2]}\n"
        if len(sizes) == 3
        else f"[net]\ninputs={sizes[0]}\n"
    )
    path = folder / "model.cfg"
    path.write_text(f"# a network\n{net}\n{sections}")
    content = HEADER + b"".join(np.ascontiguousarray(w, "<f4").tobytes() for w in weights)
    path.with_suffix(".weights").write_bytes(content)
    return path


def convolved(x: Array, kernel: Array, stride: tuple[int, int], pad: int, dilation: int, groups: int) -> Array:
    """im2col and a product, group by group."""
    filters, _, size, _ = kernel.shape
    wide = np.pad(x[0], ((0, 0), (pad, pad), (pad, pad)))
    reach = (size - 1) * dilation + 1
    high, across = ((n + 2 * pad - reach) // s + 1 for n, s in zip(x.shape[2:], stride, strict=True))
    found = np.zeros((1, filters, high, across), np.float64)
    inner, outer = x.shape[1] // groups, filters // groups
    for f in range(filters):
        g = f // outer
        for i in range(high):
            for j in range(across):
                part = wide[g * inner : (g + 1) * inner, i * stride[0] :, j * stride[1] :]
                found[0, f, i, j] = (part[:, :reach:dilation, :reach:dilation] * kernel[f]).sum()
    return found


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))
