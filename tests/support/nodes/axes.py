"""Reductions, extrema, sums and normalizations along axes."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from support.nodes.case import NodeCase
from support.nodes.draw import BOOL, Draw, array, axes_of, axis_of, int64, one_of, shape_of, some, strategy

_REDUCTIONS = """
    ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare
"""


@strategy(*_REDUCTIONS.split())
def reduction(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 0, 5, 1 if op in ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceLogSum") else 0)
    x = array(draw, shape, low=0.1 if op == "ReduceLogSum" else -3, special=op in ("ReduceMax", "ReduceMin"))
    if op in ("ReduceMax", "ReduceMin"):
        x = np.nan_to_num(x, nan=1.0, posinf=np.inf, neginf=-np.inf)
    axes = int64(axes_of(draw, len(shape), 0)) if shape and draw(st.booleans()) else None
    attributes = some(draw, keepdims=BOOL, noop_with_empty_axes=BOOL)
    return NodeCase(op, (x, axes), frozenset({1}), attributes, loose=10)


@strategy("ArgMax", "ArgMin")
def arg(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 4, 1)
    attributes = {"axis": axis_of(draw, len(shape)), **some(draw, keepdims=BOOL, select_last_index=BOOL)}
    return NodeCase(op, (array(draw, shape, one_of(draw, "float32", "int32", "uint8")),), attributes=attributes)


@strategy("Softmax", "LogSoftmax", "Hardmax")
def soft(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 4)
    return NodeCase(
        op,
        (array(draw, shape, low=-30, high=30),),
        attributes=some(draw, axis=st.integers(-len(shape), len(shape) - 1)),
        loose=4,
    )


@strategy("CumSum")
def cumulative(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 4)
    axis = np.array(axis_of(draw, len(shape)), one_of(draw, "int32", "int64"))
    attributes = some(draw, exclusive=BOOL, reverse=BOOL)
    return NodeCase(
        op, (array(draw, shape, one_of(draw, "float32", "int32")), axis), frozenset({1}), attributes, loose=4
    )


@strategy("TopK")
def top_k(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 4, 1)
    axis = axis_of(draw, len(shape))
    k = int64([draw(st.integers(1, shape[axis]))])
    x = array(draw, shape, one_of(draw, "float32", "int64"), low=-1000, high=1000)
    return NodeCase(op, (x, k), frozenset({1}), {"axis": axis, **some(draw, largest=BOOL)}, 2)


@strategy("LpNormalization", "MeanVarianceNormalization", "LayerNormalization")
def normalization(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 2, 4, 2)
    x = array(draw, shape)
    axis = axis_of(draw, len(shape))
    if op == "LpNormalization":
        return NodeCase(op, (x,), attributes={"axis": axis, "p": one_of(draw, 1, 2)})
    if op == "MeanVarianceNormalization":
        return NodeCase(op, (x,), attributes={"axes": axes_of(draw, len(shape))}, loose=20, opset=13)
    tail = shape[axis % len(shape) :]
    bias = array(draw, tail) if draw(st.booleans()) else None
    return NodeCase(
        op,
        (x, array(draw, tail), bias),
        frozenset({1, 2}),
        {"axis": axis, **some(draw, epsilon=st.just(0.01))},
        loose=20,
    )


@strategy("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LRN")
def channels(draw: Draw, op: str) -> NodeCase:
    shape = (draw(st.integers(1, 2)), one_of(draw, 2, 4, 6), *shape_of(draw, *((2, 2) if op == "LRN" else (1, 3)), 1))
    x = array(draw, shape)
    if op == "LRN":
        return NodeCase(
            op,
            (x,),
            attributes={"size": one_of(draw, 1, 3, 5), **some(draw, bias=st.just(2.0), beta=st.just(0.5))},
            loose=10,
        )
    scale, bias, mean = (array(draw, shape[1:2]) for _ in range(3))
    epsilon = some(draw, epsilon=st.just(0.01))
    if op == "InstanceNormalization":
        return NodeCase(op, (x, scale, bias), frozenset({1, 2}), {"epsilon": 0.1}, loose=20)
    if op == "GroupNormalization":
        return NodeCase(
            op, (x, scale, bias), frozenset({1, 2}), {"num_groups": one_of(draw, 1, 2), "epsilon": 0.1}, loose=20
        )
    return NodeCase(
        op, (x, scale, bias, mean, array(draw, shape[1:2], low=0.1)), frozenset({1, 2, 3, 4}), epsilon, loose=10
    )
