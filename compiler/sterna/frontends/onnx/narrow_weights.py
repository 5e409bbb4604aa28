"""Products by constant weights of 4 or 2 bits that the model widens first: DequantizeLinear before MatMul or Gemm.

The pair becomes one operator of Sterna's own, which keeps the weights as they are. Nothing but types, sizes and
attributes is looked at, so that weights in other files are not read here.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import TensorProto, helper

#: The domain of operators that stand for several nodes of a model.
INNER = "sterna"
PRODUCT = "NarrowProduct"
_NARROW = (TensorProto.INT4, TensorProto.UINT4, *(
    getattr(TensorProto, name) for name in ("INT2", "UINT2") if hasattr(TensorProto, name)
))  # fmt: skip
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def with_products(graph: onnx.GraphProto) -> onnx.GraphProto:
    """The graph with such pairs as one node each; the same graph if there are none."""
    stored = {t.name: t for t in graph.initializer}
    producer = {name: node for node in graph.node for name in node.output if name}
    made = {id(node): new for node in graph.node for new in _product(node, producer, stored)}
    if not made:
        return graph
    result = onnx.GraphProto()
    result.CopyFrom(graph)
    del result.node[:]
    result.node.extend(made.get(id(node), node) for node in graph.node)
    return result


def _product(
    node: onnx.NodeProto, producer: dict[str, onnx.NodeProto], stored: dict[str, onnx.TensorProto]
) -> Iterator[onnx.NodeProto]:
    """The node in the place of one that multiplies by such weights."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in ("MatMul", "Gemm") or len(node.input) < 2:
        return
    settings = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if settings.get("transA", 0) or settings.get("alpha", 1.0) != 1.0 or settings.get("beta", 1.0) != 1.0:
        return
    source, transposed = producer.get(node.input[1]), bool(settings.get("transB", 0))
    if source is not None and source.op_type == "Transpose" and source.domain in ("", "ai.onnx"):
        order = next((list(a.ints) for a in source.attribute if a.name == "perm"), [1, 0])
        if order == [1, 0]:
            source, transposed = producer.get(source.input[0]), not transposed
    if source is None or source.op_type != "DequantizeLinear" or source.domain not in ("", "ai.onnx"):
        return
    weight, scale = stored.get(source.input[0]), stored.get(source.input[1])
    if weight is None or scale is None or weight.data_type not in _NARROW or len(weight.dims) != 2:
        return
    given = {a.name: helper.get_attribute_value(a) for a in source.attribute}
    depth = 1 if transposed else 0
    axis, block = given.get("axis", 1) % 2, given.get("block_size", 0)
    # A scale for every column, or for every block of one.
    along = axis == depth if block else len(scale.dims) == 0 or scale.dims == [1] or axis != depth
    if not along or scale.data_type not in _FLOATS or given.get("output_dtype", 0):
        return
    zero = source.input[2] if len(source.input) > 2 else ""
    if zero and zero not in stored:
        return
    bias = list(node.input[2:3]) if node.op_type == "Gemm" else []
    yield helper.make_node(
        PRODUCT, [node.input[0], *source.input[:2], zero, *bias], list(node.output), name=node.name, domain=INNER,
        transposed=int(transposed), block_size=block,
    )  # fmt: skip
