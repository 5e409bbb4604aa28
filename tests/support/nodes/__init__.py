"""Random ONNX nodes with their operands: one hypothesis strategy per operator, over its attributes and awkward shapes.

Sizes are 0, 1 and small primes, ranks 0 to 6; operands broadcast, axes count from either end, and floats hold NaN,
infinities, zeros of both signs and numbers near the ends of their range where the operator is defined for them.
"""

from support.nodes import axes, elementwise, movement, quantized, recurrent, windows  # noqa: F401 (they register themselves)
from support.nodes.case import NodeCase
from support.nodes.draw import STRATEGIES

__all__ = ["STRATEGIES", "NodeCase"]
