"""Random reductions, positions of extremes, running sums and resampling."""

from __future__ import annotations

import numpy as np

from support.tflite_builder import ModelWriter
from support.tflite_nodes.draw import Draw, register


def _axes(d: Draw, rank: int) -> list[int]:
    count = d.below(rank + 1, 1)
    axes = sorted(d.random.choice(rank, count, replace=False).tolist())
    return [axis - rank if d.chance(0.3) else axis for axis in axes]


def _reduced(shape: tuple[int, ...], axes: list[int], keep: bool) -> tuple[int, ...]:
    gone = {axis % len(shape) for axis in axes}
    return tuple(1 if n in gone else size for n, size in enumerate(shape) if keep or n not in gone)


def _reduction(name: str, types: tuple[str, ...], same: bool) -> None:
    def make(d: Draw) -> ModelWriter:
        model = ModelWriter()
        g, dtype, shape = model.main, d.pick(types), d.shape(d.below(5, 1), 6)
        axes, keep, scale = _axes(d, len(shape)), d.chance(), d.scale(dtype)
        y_scale = scale if same else d.scale(dtype)
        data = d.elements(dtype, shape, 0.5, 1.5) if name == "REDUCE_PROD" else d.elements(dtype, shape)
        if name == "REDUCE_PROD" and dtype == "int32":
            data = np.clip(data, -1, 2)
        operands = [g.input(data, scale), g.constant(np.array(axes, np.int32))]
        g.op(name, operands, [g.output(dtype, _reduced(shape, axes, keep), y_scale)], "ReducerOptions", keepDims=keep)
        return model

    register(name)(make)


_reduction("MEAN", ("float32", "int8", "uint8", "int16", "int32", "int64"), same=False)
_reduction("SUM", ("float32", "int8", "uint8", "int32", "int64"), same=False)
_reduction("REDUCE_MAX", ("float32", "int8", "uint8", "int16", "int32"), same=True)
_reduction("REDUCE_MIN", ("float32", "int8", "uint8", "int16", "int32"), same=True)
_reduction("REDUCE_PROD", ("float32", "int32"), same=True)
_reduction("REDUCE_ANY", ("bool",), same=True)
_reduction("REDUCE_ALL", ("bool",), same=True)


@register("ARG_MAX", "ARG_MIN")
def arg(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, shape = model.main, d.shape(d.below(5, 1), 8)
    dtype = d.pick(("float32", "int8", "uint8", "int32"))
    axis, to = d.below(len(shape), -len(shape)), d.pick(("int32", "int64"))
    name = d.pick(("ARG_MAX", "ARG_MIN"))
    y = g.output(to, _reduced(shape, [axis], False))
    operands = [d.input(g, dtype, shape), g.constant(np.array(axis, np.int32))]
    g.op(name, operands, [y], f"Arg{name[-3:].title()}Options", outputType=g.tensors[y].type)
    return model


@register("CUMSUM")
def cumsum(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, dtype, shape = model.main, d.pick(("float32", "int32", "int64")), d.shape(d.below(4, 1), 7)
    operands = [d.input(g, dtype, shape), g.constant(np.array(d.below(len(shape)), np.int32))]
    g.op("CUMSUM", operands, [g.output(dtype, shape)], "CumsumOptions", exclusive=d.chance(), reverse=d.chance())
    return model


@register("TOPK_V2")
def top_k(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, dtype, shape = model.main, d.pick(("float32", "int8", "uint8", "int32", "int64")), d.shape(d.below(4, 1), 9)
    scale, k = d.scale(dtype), d.below(shape[-1] + 1, 1)
    result = (*shape[:-1], k)
    results = [g.output(dtype, result, scale), g.output("int32", result)]
    g.op("TOPK_V2", [d.input(g, dtype, shape, scale), g.constant(np.array(k, np.int32))], results, "TopKV2Options")
    return model


def _resize(d: Draw, name: str, options: str, types: tuple[str, ...]) -> ModelWriter:
    model = ModelWriter()
    g, dtype = model.main, d.pick(types)
    n, h, w, c = d.below(3, 1), *d.shape(2, 7), d.below(5, 1)
    rows, columns, same = d.below(12, 1), d.below(12, 1), d.scale(dtype)
    aligned = d.chance(0.4)
    operands = [d.input(g, dtype, (n, h, w, c), same), g.constant(np.array([rows, columns], np.int32))]
    g.op(name, operands, [g.output(dtype, (n, rows, columns, c), same)], options,
         alignCorners=aligned, halfPixelCenters=not aligned and d.chance())  # fmt: skip
    return model


@register("RESIZE_BILINEAR")
def resize_bilinear(d: Draw) -> ModelWriter:
    return _resize(d, "RESIZE_BILINEAR", "ResizeBilinearOptions", ("float32", "int8", "uint8", "int16"))


@register("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(d: Draw) -> ModelWriter:
    return _resize(d, "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", ("float32", "int8", "uint8", "int16"))
