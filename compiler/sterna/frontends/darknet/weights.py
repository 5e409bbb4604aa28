"""DarkNet's weights: a header of versions, then 32-bit floats, layer after layer."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from sterna.errors import error
from sterna.frontends.source import content_of
from sterna.ir.graph import Array


class Weights:
    """The numbers of a file, which layers take in their order.

    Args:
        path: of the file.

    Raises:
        SternaError: E0101, it cannot be read; E0103, it has no header.
    """

    def __init__(self, path: Path):
        self.name = path.name
        try:
            self.content = content_of(path)
        except (OSError, ValueError) as problem:
            raise error("E0101", f"{path.name} cannot be read: {problem}") from None
        if len(self.content) < 16:
            size = len(self.content)
            raise error("E0103", f"{path.name} has {size} bytes, less than a header", fix="copy the weights again")
        major, minor = (int(v) for v in np.frombuffer(self.content, "<i4", 2))
        # How many pictures were seen while training is counted in 64 bits since version 0.2.
        self.at = 12 + (8 if major * 10 + minor >= 2 and major < 1000 and minor < 1000 else 4)
        #: Matrices of connected layers stand transposed in files of very old versions.
        self.is_transposed = major > 1000 or minor > 1000

    def take(self, *shape: int) -> Array:
        """The next numbers.

        Raises:
            SternaError: E0103, there are not so many.
        """
        count = math.prod(shape)
        if self.at + 4 * count > len(self.content):
            left = (len(self.content) - self.at) // 4
            fix = "take the weights that belong to this description"
            raise error("E0103", f"{self.name} has {left} numbers left where the layer needs {count}", fix=fix)
        found: Array = np.frombuffer(self.content, "<f4", count, self.at).reshape(shape)
        self.at += 4 * count
        return found

    @property
    def left(self) -> int:
        """Bytes that no layer took."""
        return len(self.content) - self.at
