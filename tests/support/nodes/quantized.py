"""Quantization, and products of quantized operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from support.nodes.case import NodeCase
from support.nodes.draw import Draw, array, axis_of, one_of, shape_of, strategy


def _scales(draw: Draw, shape: Sequence[int]) -> np.ndarray:
    return array(draw, shape, low=0.01, high=0.2)


@strategy("QuantizeLinear", "DequantizeLinear")
def quantize(draw: Draw, op: str) -> NodeCase:
    shape, dtype = shape_of(draw, 1, 4, 1), one_of(draw, "uint8", "int8", "int16", "uint16")
    axis = axis_of(draw, len(shape))
    kind = draw(st.integers(0, 2))
    attributes: dict[str, Any] = {} if kind == 0 else {"axis": axis}
    given: tuple[int, ...] = () if kind == 0 else (shape[axis],)
    if kind == 2:
        block = draw(st.integers(1, shape[axis]))
        attributes["block_size"] = block
        given = tuple(-(-n // block) if k == axis % len(shape) else n for k, n in enumerate(shape))
    zero = array(draw, given, dtype, True)
    x = array(draw, shape, low=-20, high=20) if op[0] == "Q" else array(draw, shape, dtype, True)
    return NodeCase(op, (x, _scales(draw, given), zero), frozenset({1, 2}), attributes, loose=4)


@strategy("DynamicQuantizeLinear")
def dynamic_quantize(draw: Draw, op: str) -> NodeCase:
    low = draw(st.sampled_from([-3.0, 0.5, -3.0]))
    return NodeCase(op, (array(draw, shape_of(draw, 1, 3, 1), low=low, high=low + 4),), outputs=3)


@strategy("MatMulInteger", "QLinearMatMul")
def quantized_product(draw: Draw, op: str) -> NodeCase:
    m, k, n = shape_of(draw, 3, 3, 1)
    a, b = array(draw, (m, k), "uint8", True), array(draw, (k, n), one_of(draw, "uint8", "int8"), True)
    zeros = [np.array(7, np.uint8), np.array(3, b.dtype)]
    if op == "MatMulInteger":
        count = draw(st.integers(0, 2))
        return NodeCase(op, (a, b, *zeros[:count]), frozenset(draw(st.sampled_from([(), (1, 2, 3)]))))
    scales = [_scales(draw, ()) for _ in range(3)]
    operands = (a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2] * 50, np.array(100, np.uint8))
    return NodeCase(op, operands, frozenset(range(1, 8)))
