"""Random operators that move, choose, repeat and join elements."""

from __future__ import annotations

import math

import numpy as np

from support.tflite_builder import GraphWriter, ModelWriter
from support.tflite_nodes.draw import Draw, register

_TYPES = ("float32", "int32", "int8", "uint8", "int16")


def _start(d: Draw, types: tuple[str, ...] = _TYPES) -> tuple[ModelWriter, GraphWriter, str]:
    model = ModelWriter()
    return model, model.main, d.pick(types)


def _ints(g: GraphWriter, values: object) -> int:
    return g.constant(np.asarray(values, np.int32))


def _moved(
    d: Draw, name: str, dtype: str, g: GraphWriter, shape: tuple[int, ...], result: tuple[int, ...], rest: list[int],
    options: str = "", **settings: object,
) -> None:  # fmt: skip
    """An operator whose elements keep their scale."""
    same = d.scale(dtype)
    g.op(name, [d.input(g, dtype, shape, same), *rest], [g.output(dtype, result, same)], options, **settings)


@register("RESHAPE")
def reshape(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = d.shape(d.below(5, 1), 5)
    order = d.random.permutation(len(shape))
    result = tuple(shape[n] for n in order)
    if d.chance():
        result = (math.prod(shape[:1]), -1)
    full = tuple(math.prod(shape) // shape[0] if n == -1 else n for n in result)
    _moved(d, "RESHAPE", dtype, g, shape, full, [_ints(g, result)], "ReshapeOptions", newShape=list(result))
    return model


@register("TRANSPOSE")
def transpose(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = d.shape(d.below(6, 1), 5)
    order = d.random.permutation(len(shape)).tolist()
    _moved(d, "TRANSPOSE", dtype, g, shape, tuple(shape[n] for n in order), [_ints(g, order)], "TransposeOptions")
    return model


@register("PAD", "PADV2", "MIRROR_PAD")
def pad(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    name = d.pick(("PAD", "PADV2", "MIRROR_PAD"))
    shape = d.shape(d.below(5, 1), 5)
    mode, same = d.below(2), d.scale(dtype)
    most = [size + mode if name == "MIRROR_PAD" else 4 for size in shape]
    amounts = np.array([[d.below(n), d.below(n)] for n in most], np.int32)
    result = tuple(int(s + a.sum()) for s, a in zip(shape, amounts, strict=True))
    operands = [d.input(g, dtype, shape, same), g.constant(amounts)]
    if name == "PADV2":
        operands.append(g.constant(d.elements(dtype, (1,)), same))
    options = {"PAD": "PadOptions", "PADV2": "PadV2Options", "MIRROR_PAD": "MirrorPadOptions"}[name]
    settings = {"mode": mode} if name == "MIRROR_PAD" else {}
    g.op(name, operands, [g.output(dtype, result, same)], options, **settings)
    return model


@register("CONCATENATION")
def concatenation(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = list(d.shape(d.below(5, 1), 5))
    axis, same = d.below(len(shape)), d.scale(dtype)
    parts, total = [], 0
    for _ in range(d.below(5, 1)):
        shape[axis] = d.below(6, 1)
        total += shape[axis]
        parts.append(d.input(g, dtype, shape, d.scale("uint8") if dtype == "uint8" else same))
    result = [*shape[:axis], total, *shape[axis + 1 :]]
    g.op("CONCATENATION", parts, [g.output(dtype, result, same)], "ConcatenationOptions",
         axis=axis - len(shape) if d.chance(0.3) else axis)  # fmt: skip
    return model


@register("SPLIT")
def split(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = list(d.shape(d.below(5, 1), 4))
    axis, count, same = d.below(len(shape)), d.below(4, 1), d.scale(dtype)
    part = list(shape)
    shape[axis] *= count
    operands = [_ints(g, axis), d.input(g, dtype, shape, same)]
    g.op("SPLIT", operands, [g.output(dtype, part, same) for _ in range(count)], "SplitOptions", numSplits=count)
    return model


@register("SPLIT_V")
def split_v(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = list(d.shape(d.below(5, 1), 4))
    axis, sizes, same = d.below(len(shape)), d.shape(d.below(4, 1), 4), d.scale(dtype)
    shape[axis] = sum(sizes)
    said = list(sizes)
    if d.chance(0.3):
        said[d.below(len(said))] = -1
    operands = [d.input(g, dtype, shape, same), _ints(g, said), _ints(g, axis)]
    results = [g.output(dtype, [*shape[:axis], size, *shape[axis + 1 :]], same) for size in sizes]
    g.op("SPLIT_V", operands, results, "SplitVOptions", numSplits=len(sizes))
    return model


@register("PACK")
def pack(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape, count, same = d.shape(d.below(4, 1), 5), d.below(5, 1), d.scale(dtype)
    axis = d.below(len(shape) + 1)
    operands = [d.input(g, dtype, shape, same) for _ in range(count)]
    result = (*shape[:axis], count, *shape[axis:])
    g.op("PACK", operands, [g.output(dtype, result, same)], "PackOptions", valuesCount=count, axis=axis)
    return model


@register("UNPACK")
def unpack(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape, same = d.shape(d.below(5, 1), 4), d.scale(dtype)
    axis = d.below(len(shape))
    result = (*shape[:axis], *shape[axis + 1 :])
    outputs = [g.output(dtype, result, same) for _ in range(shape[axis])]
    g.op("UNPACK", [d.input(g, dtype, shape, same)], outputs, "UnpackOptions", num=shape[axis], axis=axis)
    return model


@register("SLICE")
def slice_(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = d.shape(d.below(5, 1), 6)
    starts = [d.below(size) for size in shape]
    sizes = [d.below(size - start + 1, 1) for size, start in zip(shape, starts, strict=True)]
    said = [-1 if size + start == whole else size for size, start, whole in zip(sizes, starts, shape, strict=True)]
    _moved(d, "SLICE", dtype, g, shape, tuple(sizes), [_ints(g, starts), _ints(g, said)], "SliceOptions")
    return model


@register("STRIDED_SLICE")
def strided_slice(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = d.shape(d.below(5, 1), 7)
    begins, ends, steps, result = [], [], [], []
    masks = {"beginMask": 0, "endMask": 0, "shrinkAxisMask": 0}
    for n, size in enumerate(shape):
        step = d.number(1, 1, 2, -1, -2)
        first, last = sorted((d.below(size), d.below(size)))
        begin, end = (first, last + 1) if step > 0 else (last, first - 1 - size if first == 0 else first - 1)
        if d.chance(0.2):
            masks["shrinkAxisMask"] |= 1 << n
            begins.append(first - size if d.chance() else first)
            ends.append(first + 1)
            steps.append(1)
            continue
        if d.chance(0.2):
            masks["beginMask"] |= 1 << n
        if d.chance(0.2):
            masks["endMask"] |= 1 << n
        begins.append(begin)
        ends.append(end)
        steps.append(step)
        open_begin = None if masks["beginMask"] >> n & 1 else begin
        open_end = None if masks["endMask"] >> n & 1 else end
        result.append(len(range(*slice(open_begin, open_end, step).indices(size))))
    rest = [_ints(g, begins), _ints(g, ends), _ints(g, steps)]
    _moved(d, "STRIDED_SLICE", dtype, g, shape, tuple(result), rest, "StridedSliceOptions", **masks)
    return model


@register("GATHER")
def gather(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = d.shape(d.below(5, 1), 6)
    axis = d.below(len(shape))
    batch = d.below(axis + 1) if d.chance(0.3) else 0
    picked = (*shape[:batch], *d.shape(d.below(3), 5))
    indices = g.input(d.random.integers(0, shape[axis], picked).astype(d.pick(("int32", "int64"))))
    result = (*shape[:axis], *picked[batch:], *shape[axis + 1 :])
    same = d.scale(dtype)
    g.op("GATHER", [d.input(g, dtype, shape, same), indices], [g.output(dtype, result, same)], "GatherOptions",
         axis=axis, batchDims=batch)  # fmt: skip
    return model


@register("GATHER_ND")
def gather_nd(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int32", "int8", "int16"))
    shape = d.shape(d.below(4, 1), 5)
    depth, outer = d.below(len(shape) + 1, 1), d.shape(d.below(3, 1), 4)
    places = np.stack([d.random.integers(0, size, outer) for size in shape[:depth]], -1).astype(np.int32)
    _moved(d, "GATHER_ND", dtype, g, shape, (*outer, *shape[depth:]), [g.input(places)], "GatherNdOptions")
    return model


@register("SCATTER_ND")
def scatter_nd(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int32", "int8"))
    shape = d.shape(d.below(4, 1), 5)
    depth, count = d.below(len(shape) + 1, 1), d.below(6, 1)
    places = np.stack([d.random.integers(0, size, count) for size in shape[:depth]], -1).astype(np.int32)
    updates = d.input(g, dtype, (count, *shape[depth:]), None)
    g.tensors[updates].quantization = None
    g.op("SCATTER_ND", [g.input(places), updates, _ints(g, shape)], [g.output(dtype, shape)], "ScatterNdOptions")
    return model


@register("ONE_HOT")
def one_hot(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int32", "int8", "uint8"))
    shape, depth = d.shape(d.below(4), 4), d.below(6, 1)
    axis = d.below(len(shape) + 1, -1)
    at = len(shape) if axis == -1 else axis
    indices = g.input(d.random.integers(-1, depth + 1, shape).astype(np.int32))
    on, off = (g.constant(np.array(v, dtype)) for v in (d.below(9), d.below(3)))
    result = (*shape[:at], depth, *shape[at:])
    g.op("ONE_HOT", [indices, _ints(g, depth), on, off], [g.output(dtype, result)], "OneHotOptions", axis=axis)
    return model


@register("TILE")
def tile(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int32", "int8", "uint8"))
    shape = d.shape(d.below(5, 1), 4)
    repeats = d.shape(len(shape), 3)
    result = tuple(a * b for a, b in zip(shape, repeats, strict=True))
    _moved(d, "TILE", dtype, g, shape, result, [_ints(g, repeats)], "TileOptions")
    return model


@register("SQUEEZE")
def squeeze(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = tuple(1 if d.chance() else d.below(5, 2) for _ in range(d.below(5, 1)))
    axes = [n for n, size in enumerate(shape) if size == 1 and d.chance()]
    gone = axes or [n for n, size in enumerate(shape) if size == 1]
    result = tuple(size for n, size in enumerate(shape) if n not in gone)
    _moved(d, "SQUEEZE", dtype, g, shape, result, [], "SqueezeOptions", squeezeDims=axes)
    return model


@register("EXPAND_DIMS")
def expand_dims(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = d.shape(d.below(5), 4)
    axis = d.below(len(shape) + 1, -len(shape) - 1)
    at = axis % (len(shape) + 1)
    _moved(d, "EXPAND_DIMS", dtype, g, shape, (*shape[:at], 1, *shape[at:]), [_ints(g, axis)], "ExpandDimsOptions")
    return model


@register("BROADCAST_TO")
def broadcast_to(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    result = d.shape(d.below(5, 1), 4)
    shape = tuple(1 if d.chance() else size for size in result)[d.below(len(result)) :]
    _moved(d, "BROADCAST_TO", dtype, g, shape, result, [_ints(g, result)], "BroadcastToOptions")
    return model


@register("FILL")
def fill(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int32", "int64", "bool"))
    shape = d.shape(d.below(4, 1), 4)
    g.op("FILL", [_ints(g, shape), g.input(d.elements(dtype, ()))], [g.output(dtype, shape)], "FillOptions")
    return model


@register("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def depth(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int32", "int8", "uint8"))
    (n, h, w, c), block = d.shape(4, 4), d.below(4, 1)
    near, far = (n, h, w, c * block * block), (n, h * block, w * block, c)
    if d.chance():
        _moved(d, "DEPTH_TO_SPACE", dtype, g, near, far, [], "DepthToSpaceOptions", blockSize=block)
    else:
        _moved(d, "SPACE_TO_DEPTH", dtype, g, far, near, [], "SpaceToDepthOptions", blockSize=block)
    return model


@register("SPACE_TO_BATCH_ND")
def space_to_batch(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int32", "int8", "uint8", "int16"))
    spatial = d.below(3, 1)
    n, sizes, c, blocks = d.below(3, 1), d.shape(spatial, 6), d.below(5, 1), d.shape(spatial, 3)
    before = [d.below(3) for _ in sizes]
    after = [-(s + b) % k + k * d.below(2) for s, b, k in zip(sizes, before, blocks, strict=True)]
    rows = [(s + b + a) // k for s, b, a, k in zip(sizes, before, after, blocks, strict=True)]
    rest = [_ints(g, blocks), _ints(g, list(zip(before, after, strict=True)))]
    result = (n * math.prod(blocks), *rows, c)
    _moved(d, "SPACE_TO_BATCH_ND", dtype, g, (n, *sizes, c), result, rest, "SpaceToBatchNDOptions")
    return model


@register("BATCH_TO_SPACE_ND")
def batch_to_space(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int32", "int8", "uint8", "int16"))
    spatial = d.below(3, 1)
    n, sizes, c, blocks = d.below(3, 1), d.shape(spatial, 5), d.below(5, 1), d.shape(spatial, 3)
    full = [s * k for s, k in zip(sizes, blocks, strict=True)]
    crops = []
    for size in full:
        first = d.below(min(size, 2))
        crops.append((first, d.below(min(size - first, 2))))
    kept = [size - a - b for size, (a, b) in zip(full, crops, strict=True)]
    rest = [_ints(g, blocks), _ints(g, crops)]
    shape, result = (n * math.prod(blocks), *sizes, c), (n, *kept, c)
    _moved(d, "BATCH_TO_SPACE_ND", dtype, g, shape, result, rest, "BatchToSpaceNDOptions")
    return model


@register("REVERSE_V2")
def reverse(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int32", "uint8", "int8", "int16"))
    shape = d.shape(d.below(4, 1), 5)
    _moved(d, "REVERSE_V2", dtype, g, shape, shape, [_ints(g, [d.below(len(shape))])], "ReverseV2Options")
    return model


@register("REVERSE_SEQUENCE")
def reverse_sequence(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int32", "uint8"))
    shape = d.shape(d.below(5, 2), 5)
    time, batch = d.random.permutation(len(shape))[:2].tolist()
    lengths = g.input(d.random.integers(1, shape[time] + 1, shape[batch]).astype(np.int32))
    _moved(d, "REVERSE_SEQUENCE", dtype, g, shape, shape, [lengths], "ReverseSequenceOptions",
           seqDim=time, batchDim=batch)  # fmt: skip
    return model


@register("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int32", "int8"))
    shape = d.shape(d.below(4, 1), 6)
    update = tuple(d.below(size + 1, 1) for size in shape)
    starts = g.input(np.array([d.below(size + 2, -2) for size in shape], np.int32))
    same = d.scale(dtype)
    operands = [d.input(g, dtype, shape, same), d.input(g, dtype, update, same), starts]
    g.op("DYNAMIC_UPDATE_SLICE", operands, [g.output(dtype, shape, same)], "DynamicUpdateSliceOptions")
    return model


@register("EMBEDDING_LOOKUP")
def embedding_lookup(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("float32", "int8"))
    (rows, width), count = d.shape(2, 6), d.below(6, 1)
    table = d.weights(g, dtype, (rows, width), 0)[0]
    indices = g.input(d.random.integers(0, rows, count).astype(np.int32))
    g.op("EMBEDDING_LOOKUP", [indices, table], [g.output("float32", (count, width))])
    return model


@register("SHAPE", "RANK")
def shape_of(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d)
    shape = d.shape(d.below(5, 1), 5)
    x = d.input(g, dtype, shape)
    if d.chance():
        g.op("RANK", [x], [g.output("int32", ())], "RankOptions")
    else:
        y = g.output(d.pick(("int32", "int64")), (len(shape),))
        g.op("SHAPE", [x], [y], "ShapeOptions", outType=g.tensors[y].type)
    return model


@register("WHERE")
def where(d: Draw) -> ModelWriter:
    model, g, dtype = _start(d, ("bool", "float32", "int32"))
    shape = d.shape(d.below(4, 1), 5)
    data = d.elements(dtype, shape) * d.elements("bool", shape)
    g.op("WHERE", [g.input(data.astype(dtype))], [g.output("int64", (0, len(shape)))], "WhereOptions")
    return model
