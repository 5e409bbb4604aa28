"""Random operators on segments, sparse elements, diagonals, boxes and frequencies."""

from __future__ import annotations

import numpy as np

from support.tflite_builder import GraphWriter, ModelWriter
from support.tflite_nodes.draw import Draw, register


def _start(d: Draw, *types: str) -> tuple[ModelWriter, GraphWriter, str]:
    model = ModelWriter()
    return model, model.main, d.pick(types or ("float32", "int32"))


@register("SEGMENT_SUM")
def segment_sum(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = d.shape(d.below(4, 1), 6)
    places = np.cumsum(np.append(0, d.random.integers(0, 2, shape[0] - 1))).astype(np.int32)
    operands = [d.input(g, dtype, shape), g.constant(places)]
    g.op("SEGMENT_SUM", operands, [g.output(dtype, (int(places[-1]) + 1, *shape[1:]))], "SegmentSumOptions")
    return model


def _unsorted(name: str, options: str) -> None:
    def make(d: Draw) -> ModelWriter:
        model, g, dtype = _start(d)
        shape, count = d.shape(d.below(4, 1), 5), d.below(6, 1)
        rank = d.below(len(shape) + 1, 1)
        places = g.input(d.random.integers(-1, count, shape[:rank]).astype(np.int32))
        operands = [d.input(g, dtype, shape), places, g.constant(np.array(count, np.int32))]
        g.op(name, operands, [g.output(dtype, (count, *shape[rank:]))], options)
        return model

    register(name)(make)


for _name in ("Max", "Min", "Prod", "Sum"):
    _unsorted(f"UNSORTED_SEGMENT_{_name.upper()}", f"UnsortedSegment{_name}Options")


@register("SPARSE_TO_DENSE")
def sparse_to_dense(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, "float32", "int32", "int8", "uint8", "int64")
    shape = d.shape(d.below(5, 1), 5)
    total = int(np.prod(shape))
    flat = np.sort(d.random.choice(total, d.below(total + 1, 1), replace=False))
    places = np.stack(np.unravel_index(flat, shape), axis=-1).astype(np.int32)
    if len(shape) == 1 and d.chance():
        places = places[:, 0]
    same = d.scale(dtype)
    values = d.input(g, dtype, () if d.chance(0.3) else (len(flat),), same)
    default = g.constant(d.elements(dtype, ()), same)
    operands = [g.input(places), g.constant(np.array(shape, np.int32)), values, default]
    g.op("SPARSE_TO_DENSE", operands, [g.output(dtype, shape, same)], "SparseToDenseOptions", validateIndices=False)
    return model


@register("BUCKETIZE")
def bucketize(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, "float32", "int32", "int64")
    shape = d.shape(d.below(4, 1), 6)
    bounds = np.sort(d.random.integers(-12, 12, d.below(8, 1)) / d.number(1, 4)).astype(np.float32)
    g.op("BUCKETIZE", [d.input(g, dtype, shape)], [g.output("int32", shape)], "BucketizeOptions",
         boundaries=bounds.tolist())  # fmt: skip
    return model


@register("MATRIX_DIAG")
def matrix_diag(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, "float32", "int32", "int8", "uint8", "int64")
    shape, same = d.shape(d.below(4, 1), 5), d.scale(dtype)
    g.op("MATRIX_DIAG", [d.input(g, dtype, shape, same)], [g.output(dtype, (*shape, shape[-1]), same)],
         "MatrixDiagOptions")  # fmt: skip
    return model


@register("MATRIX_SET_DIAG")
def matrix_set_diag(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, "float32", "int32", "int8", "uint8", "int64")
    shape, same = d.shape(d.below(5, 2), 5), d.scale(dtype)
    operands = [d.input(g, dtype, shape, same), d.input(g, dtype, (*shape[:-2], min(shape[-2:])), same)]
    g.op("MATRIX_SET_DIAG", operands, [g.output(dtype, shape, same)], "MatrixSetDiagOptions")
    return model


@register("UNIQUE")
def unique(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, "float32", "int32", "int8", "uint8", "int64")
    data = d.random.integers(0, 6, d.below(12, 1)).astype(dtype)
    results = [g.output(dtype, (0,)), g.output("int32", data.shape)]
    g.op("UNIQUE", [g.input(data)], results, "UniqueOptions", idxOutType=2)
    return model


@register("BROADCAST_ARGS")
def broadcast_args(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, "int32", "int64")
    whole = d.shape(d.below(5, 1), 5)
    pair = [np.array([1 if d.chance(0.3) else n for n in whole], dtype) for _ in range(2)]
    pair[d.below(2)] = pair[0][d.below(len(whole)) :]
    y = g.output(dtype, (max(map(len, pair)),))
    g.op("BROADCAST_ARGS", [g.input(x) for x in pair], [y])
    return model


@register("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def non_max_suppression(d: Draw) -> ModelWriter:
    model, g, _ = _start(d)
    count, most, version = d.below(20, 1), d.below(9), d.number(4, 5)
    corners = d.random.uniform(0, 1, (count, 2))
    boxes = np.concatenate([corners, corners + d.random.uniform(-0.5, 0.6, (count, 2))], axis=1).astype(np.float32)
    scores = d.random.permutation(count).astype(np.float32) / count
    limits = [float(d.random.uniform(0.1, 1.0)), float(d.random.uniform(-0.1, 0.6)), 0.0][: version - 2]
    operands = [g.input(boxes), g.input(scores), g.constant(np.array(most, np.int32))]
    operands += [g.constant(np.array(limit, np.float32)) for limit in limits]
    results = [g.output("int32", (most,))]
    if version == 5:
        results.append(g.output("float32", (most,)))
    results.append(g.output("int32", ()))
    g.op(f"NON_MAX_SUPPRESSION_V{version}", operands, results, f"NonMaxSuppressionV{version}Options")
    return model


def _complex_with_one_more(g: GraphWriter, made: int, shape: tuple[int, ...]) -> int:
    """Complex numbers with a first dimension of size 1."""
    moved = g.tensor("complex64", (1, *shape))
    g.op("EXPAND_DIMS", [made, g.constant(np.array([0], np.int32))], [moved], "ExpandDimsOptions")
    return moved


@register("RFFT2D", "COMPLEX_ABS", "REAL", "IMAG")
def transform(d: Draw) -> ModelWriter:
    """Complex numbers come from a transform, and go through other dimensions on their way."""
    model, g, _ = _start(d)
    outer, given = d.shape(d.below(3), 3), d.shape(2, 9)
    # The reference kernel takes lengths that are powers of two.
    rows, columns = d.number(1, 2, 4, 8), d.number(2, 4, 8, 16)
    shape = (*outer, rows, columns // 2 + 1)
    x, sizes = g.input(d.elements("float32", (*outer, *given))), g.constant(np.array([rows, columns], np.int32))
    made, flat = g.tensor("complex64", shape), (int(np.prod(shape)),)
    g.op("RFFT2D", [x, sizes], [made], "Rfft2dOptions")
    way = d.pick(("", "RESHAPE", "EXPAND_DIMS", "SQUEEZE"))
    if way == "RESHAPE":
        moved = g.tensor("complex64", flat)
        g.op("RESHAPE", [made, g.constant(np.array(flat, np.int32))], [moved], "ReshapeOptions", newShape=list(flat))
        made, shape = moved, flat
    elif way:
        made, shape = _complex_with_one_more(g, made, shape), (1, *shape)
        if way == "SQUEEZE":
            moved, shape = g.tensor("complex64", shape[1:]), shape[1:]
            g.op("SQUEEZE", [made], [moved], "SqueezeOptions", squeezeDims=[0])
            made = moved
    g.op(d.pick(("COMPLEX_ABS", "REAL", "IMAG")), [made], [g.output("float32", shape)])
    return model
