"""Exported programs of a few calls that the tests of damaged files and the fuzzer begin with."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.exported_programs import Program, Type

RNG = np.random.default_rng(5)


def network() -> Program:
    """A convolution, pooling, a linear layer of an open batch, and a buffer that changes."""
    program = Program()
    w = program.weight("conv.weight", RNG.standard_normal((4, 3, 3, 3)).astype(np.float32))
    fc = program.weight("fc.weight", RNG.standard_normal((5, 4)).astype(np.float32))
    seen = program.weight("seen", np.zeros((), np.float32), "buffer")
    x = program.input("x", (program.open("s0", 1, 4), 3, 8, 8))
    y = program.call("aten.conv2d.default", input=x, weight=w, bias=None, stride=[2, 2], padding=[1, 1])
    y = program.call("aten.max_pool2d.default", self=program.call("aten.relu.default", self=y), kernel_size=[2, 2])
    y = program.call("aten.flatten.using_ints", self=program.call("aten.mean.dim", self=y, dim=[2, 3]), start_dim=1)
    program.mutation("seen", program.call("aten.add.Tensor", self=seen, other=1.0))
    program.output(program.call("aten.linear.default", "scores", input=y, weight=fc))
    return program


def _branch(target: str, **more: Any) -> dict[str, Any]:
    inner = Program()
    inner.output(inner.call(target, self=inner.input("a", (3,)), **more))
    return {"as_graph": {"name": "inner", "graph": inner.graph()}}


def _controlled() -> Program:
    """A condition and a loop."""
    program = Program()
    x = program.input("x", (3,))
    test = program.call("aten.gt.Scalar", self=program.call("aten.sum.default", self=x), other=0.0)
    branches = {"t": _branch("aten.mul.Tensor", other=2.0), "f": _branch("aten.neg.default")}
    chosen = program.call("higher_order.cond", p=test, **branches, o=[x])
    small = Program()
    a = small.input("a", (3,))
    small.output(small.call("aten.lt.Scalar", self=small.call("aten.sum.default", self=a), other=9.0))
    going = {"as_graph": {"name": "c", "graph": small.graph()}}
    more = {"as_tensors": []}
    body = _branch("aten.add.Tensor", other=1.0)
    program.output(program.call("higher_order.while_loop", c=going, b=body, x=[chosen], m=more))
    return program


def _indexed() -> Program:
    """Positions, sorting, windows, sizes that are computed, and writes through views."""
    program = Program()
    x, i = program.input("x", (4, 6)), program.input("i", (2, 3), "int64")
    program.output(program.call("aten.index.Tensor", self=x, indices=[None, i]))
    values, _ = program.call("aten.topk.default", "values", "places", self=x, k=2, dim=-1)
    row = program.call("aten.select.int", self=x, dim=0, index=1)
    program.call("aten.mul_.Tensor", self=row, other=2.0)
    kept = program.call("aten.masked_select.default", self=x, mask=program.call("aten.gt.Scalar", self=x, other=0.0))
    for value in (values, kept, program.call("aten.unfold.default", self=x, dimension=1, size=3, step=2)):
        program.output(value)
    program.output(program.call("aten.cumsum.default", self=x, dim=0))
    return program


def _quantized() -> Program:
    """A linear layer between quantized tensors."""
    program = Program()
    weight = program.weight("w", RNG.integers(-9, 9, (3, 4)).astype(np.int8), "buffer")
    x = program.input("x", (2, 4))
    settings = {"scale": 0.05, "zero_point": 3, "quant_min": -128, "quant_max": 127, "dtype": Type("int8")}
    q = program.call("quantized_decomposed.quantize_per_tensor.default", input=x, **settings)
    real = program.call("quantized_decomposed.dequantize_per_tensor.default", input=q, **settings)
    wide = program.call("quantized_decomposed.dequantize_per_tensor.default", input=weight, **settings)
    program.output(program.call("aten.linear.default", input=real, weight=wide))
    return program


def _attended() -> Program:
    """Attention, normalization, an embedding and resampling."""
    program = Program()
    q, table = program.input("q", (1, 2, 3, 4)), program.weight("table", np.ones((5, 4), np.float32))
    y = program.call("aten.scaled_dot_product_attention.default", query=q, key=q, value=q, is_causal=True)
    program.output(program.call("aten.layer_norm.default", input=y, normalized_shape=[4]))
    program.output(program.call("aten.upsample_bilinear2d.vec", input=q, output_size=[5, 6], align_corners=False))
    program.output(program.call("aten.embedding.default", weight=table, indices=program.input("i", (3,), "int64")))
    return program


def samples() -> list[Program]:
    """All of them, made anew."""
    return [network(), _controlled(), _indexed(), _quantized(), _attended()]
