"""What products take, estimated: which of several ways of a layer is worth its rounding (`sterna.fast`)."""

from __future__ import annotations

from math import ceil

from sterna.targets.target import Target

#: Bytes that come from beyond L2 in a cycle.
FAR_RATE = 8
#: Of the time of the definition, or of what rounds less, the least that another way has to save by the estimate.
LEAST_GAIN = 0.12
_FLOAT = 4  # bytes


def product_cycles(depth: int, columns: int, rows: int, target: Target, products: int = 1, group: int = 1) -> float:
    """Cycles of a matrix product, of so many that share the caches: for its multiply-adds, for the loads of weights
    that a tile of rows shares, or to read the weights from beyond L2.

    Args:
        group: numbers that lie side by side in four bytes, and that one instruction adds up per lane.
    """
    lanes, depth = target.lanes(32), ceil(depth / group)
    vectors = ceil(columns / lanes)
    most = max(1, min(rows, target.vector_registers // 2 - 2))
    steps = depth * vectors
    arithmetic = steps * rows / target.rate
    # A tile of r rows and two vectors loads r + 2 times for 2 r multiply-adds.
    loads = steps * (ceil(rows / most) + rows / 2) / target.loads_per_cycle
    far = depth * columns * _FLOAT
    return max(arithmetic, loads, far / FAR_RATE if products * far > target.l2_bytes else 0.0)
