"""What rounding the weights does to the mean of a result, taken back by the bias.

The errors of the weights do not cancel where activations are mostly positive, as after rectifiers: every element of a
channel moves by about the same. (Nagel, van Baalen, Blankevoort and Welling, "Data-Free Quantization Through Weight
Equalization and Bias Correction", ICCV 2019, section 4.2; the means are those of the samples.)
"""

from __future__ import annotations

import numpy as np

from sterna.ir.graph import Array
from sterna.quantize.plan import Layer

#: Layers whose bias can take the correction.
CORRECTED = frozenset({"Conv", "Gemm"})


class ChannelMeans:
    """The mean of every channel of what a layer reads, over all samples."""

    def __init__(self, layer: Layer):
        self.axis = 1 if layer.op == "Conv" else -1
        self.sums: Array = np.zeros(())
        self.count = 0

    def add(self, array: Array) -> None:
        rows = np.moveaxis(array, self.axis, 0).reshape(array.shape[self.axis], -1)
        self.sums = self.sums + rows.sum(axis=1, dtype=np.float64)
        self.count += rows.shape[1]

    @property
    def values(self) -> Array:
        return self.sums / max(self.count, 1)


def mean_shift(layer: Layer, weight_error: Array, means: Array) -> Array:
    """What errors of the weights add to each channel of the result, on average; where windows reach into the padding, a
    little less.

    Args:
        weight_error: rounded less real, of the weight's shape.
        means: of the channels that the layer reads.
    """
    if layer.op == "Gemm":
        shift: Array = (weight_error if layer.axis == 0 else weight_error.T) @ means
        return shift
    taps = weight_error.reshape(*weight_error.shape[:2], -1).sum(axis=2)  # [results, what a group reads]
    groups = means.size // taps.shape[1]
    of_groups = taps.reshape(groups, -1, taps.shape[1])
    by_group: Array = np.einsum("goi,gi->go", of_groups, means.reshape(groups, -1)).reshape(-1)
    return by_group
