"""Random models of one TensorFlow Lite operator: shapes, settings and quantization parameters from a seed.

`model_of` makes one; an operator's cases are numbered, and its name and a number are all that a failure needs to be
repeated.
"""

import zlib

from support.tflite_builder import ModelWriter
from support.tflite_nodes import contractions, elementwise, movement, recurrent, reductions, segments  # noqa: F401 (they register)
from support.tflite_nodes.draw import MAKERS, Draw

__all__ = ["MAKERS", "model_of"]


def model_of(operator: str, number: int) -> tuple[ModelWriter, Draw]:
    """The numbered case of an operator, and the source of its random elements, for those of further runs."""
    draw = Draw((zlib.crc32(operator.encode()), number))
    return MAKERS[operator](draw), draw
