"""Quantized models that are written with floats: operators between DequantizeLinear and QuantizeLinear.

ONNX Runtime's quantizer leaves every operator a float one, reads its operands through DequantizeLinear and rounds its
result by QuantizeLinear; ONNX Runtime then runs such a group as one operator on integers (its QDQ selectors and
actions). Here the group becomes that same operator, QLinearConv for Conv and so on, whose arithmetic is exact or
rounds once; operators that only move elements, or choose among them, lose the conversions around them where both have
the same scale and zero point. An integer product whose result is not rounded is one too, exact until it becomes a
float. What is no such group stays as it is, and computes with floats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sterna.errors import SternaError
from sterna.frontends.onnx.file import to_array
from sterna.frontends.onnx.structure import subgraph_reads

MICROSOFT = "com.microsoft"
#: Move or choose elements without looking at what they stand for: operand 0 and all results have one quantization.
MOVING = frozenset(
    {
        *("DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "MaxPool", "Pad", "Reshape", "Resize"),
        *("Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    }
)
_BYTES = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)


def only_moves(node: onnx.NodeProto, constant: Callable[[str], np.ndarray | None]) -> bool:
    """Whether all elements that one of `MOVING` gives are some of its operand's, or zero.

    Args:
        constant: the value of a tensor, if it is known.
    """
    settings = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "Resize":
        nearest = settings.get("mode", b"nearest") == b"nearest"
        return nearest and settings.get("coordinate_transformation_mode") != b"tf_crop_and_resize"
    if node.op_type == "Pad":
        value = constant(node.input[2]) if len(node.input) > 2 and node.input[2] else np.zeros(1)
        return len(node.input) > 1 and value is not None and value.size == 1 and not value.any()
    return True


@dataclass(frozen=True)
class _Quantized:
    """A tensor of integers, and the names of its scale and zero point. `axis`: of scales, where there are several."""

    name: str
    scale: str
    zero: str
    dtype: int
    axis: int | None = None

    @property
    def names(self) -> tuple[str, str, str]:
        return self.name, self.scale, self.zero


def fused(graph: onnx.GraphProto) -> onnx.GraphProto:
    """The graph with such groups as operators on integers; the same graph if there are none."""
    if not any(node.op_type == "QuantizeLinear" for node in graph.node):
        return graph
    return _Fusion(_Fusion(graph).merged()).run()


class _Fusion:
    def __init__(self, graph: onnx.GraphProto):
        self.graph = graph
        self.stored = {t.name: t for t in graph.initializer}
        self.producer = {name: node for node in graph.node for name in node.output if name}
        self.consumers: dict[str, list[onnx.NodeProto]] = {}
        reads: Counter[str] = Counter(value.name for value in graph.output)
        for node in graph.node:
            for name in node.input:
                self.consumers.setdefault(name, []).append(node)
            reads.update(subgraph_reads(node))
        self.kept = set(reads)  # read by somebody else than a node of this graph
        self.added: list[onnx.TensorProto] = []
        self.replaced: dict[int, list[onnx.NodeProto]] = {}  # by the identity of a node
        self.identity = {id(node): node for node in graph.node}

    def merged(self) -> onnx.GraphProto:
        """The graph with one conversion where several make the same integers of a float, one for each reader."""
        first: dict[tuple[str, ...], _Quantized] = {}
        renamed: dict[str, str] = {}
        for node in self.graph.node:
            if node.op_type != "QuantizeLinear" or node.domain not in ("", "ai.onnx"):
                continue
            made = self.quantized(node, node.output[0])
            if made is None:
                continue
            known = first.setdefault((node.input[0], *map(str, node.attribute)), made)
            if known is not made and made.name not in self.kept and self.alike(known, made):
                renamed[made.name] = known.name
        if not renamed:
            return self.graph
        result = onnx.GraphProto()
        result.CopyFrom(self.graph)
        del result.node[:]
        for node in self.graph.node:
            if any(name in renamed for name in node.output):
                continue
            new = result.node.add()
            new.CopyFrom(node)
            for n, name in enumerate(node.input):
                new.input[n] = renamed.get(name, name)
        return result

    def run(self) -> onnx.GraphProto:
        for node in self.graph.node:
            if id(node) not in self.replaced:
                self.group(node)
        if not self.replaced:
            return self.graph
        result = onnx.GraphProto()
        result.CopyFrom(self.graph)
        del result.node[:]
        for node in self.graph.node:
            result.node.extend(self.replaced.get(id(node), [node]))
        result.initializer.extend(self.added)
        return result

    # ---------------------------------------------------------------- groups
    def group(self, node: onnx.NodeProto) -> None:
        """Replaces a node and the conversion after it, if they are a group."""
        if node.domain not in ("", "ai.onnx"):
            return
        if node.op_type in MOVING:
            self.moving(node)
            return
        make = _MAKERS.get(node.op_type)
        if make is None or len([name for name in node.output if name]) != 1:
            return
        operands = [self.before(name) if name else None for name in node.input]
        behind = self.behind(node)
        if behind is None:
            made = _FLOAT_MAKERS[node.op_type](self, node, operands) if node.op_type in _FLOAT_MAKERS else None
            if made is not None:
                self.replaced[id(node)] = made
            return
        skipped, conversion, result = behind
        new = make(self, node, operands, result)
        if new is None:
            return
        new.name = node.name
        for other in skipped:
            self.replaced[id(other)] = []
        # The group stands where its last node stood, after all that it reads.
        self.replaced[id(node)] = []
        self.replaced[id(conversion)] = [new]

    def moving(self, node: onnx.NodeProto) -> None:
        """An operator on floats that does the same to the integers."""
        x = self.before(node.input[0])
        if x is None or x.axis is not None or x.dtype not in _BYTES or not only_moves(node, self.array):
            return
        ends = []
        for name in node.output:
            if not name:
                continue
            found = self.converted(name)
            if found is None or not self.alike(x, found[1]):
                return
            ends.append(found)
        if node.op_type == "MaxPool" and len(ends) != 1:
            return
        new = onnx.NodeProto()
        new.CopyFrom(node)
        new.input[0] = x.name
        if node.op_type == "Pad":
            new.input.extend([""] * (3 - len(node.input)))
            new.input[2] = x.zero
        for n, (conversion, result) in enumerate(ends):
            new.output[n] = result.name
            self.replaced[id(conversion)] = []
        # Results must be made before the first of their readers: in the place of the node itself.
        self.replaced[id(node)] = [new]

    def before(self, name: str) -> _Quantized | None:
        """What a float is made from, if it is made by DequantizeLinear."""
        node = self.producer.get(name)
        if node is None or node.op_type != "DequantizeLinear" or node.domain not in ("", "ai.onnx"):
            return None
        return self.quantized(node, node.input[0])

    def behind(self, node: onnx.NodeProto) -> tuple[list[onnx.NodeProto], onnx.NodeProto, _Quantized] | None:
        """The only conversion of a result, and activations before it that its range makes needless."""
        name = node.output[0]
        found = self.converted(name)
        if found is not None:
            return [], *found
        users = self.consumers.get(name, [])
        if len(users) != 1 or name in self.kept or users[0].op_type not in ("Relu", "Clip"):
            return None
        activation = users[0]
        found = self.converted(activation.output[0])
        if found is None or not self.needless(activation, found[1]):
            return None
        return [activation], *found

    def converted(self, name: str) -> tuple[onnx.NodeProto, _Quantized] | None:
        """The QuantizeLinear that alone reads a float, and what it gives."""
        users = self.consumers.get(name, [])
        if len(users) != 1 or name in self.kept:
            return None
        node = users[0]
        if node.op_type != "QuantizeLinear" or node.domain not in ("", "ai.onnx") or node.input[0] != name:
            return None
        result = self.quantized(node, node.output[0])
        return None if result is None or result.axis is not None else (node, result)

    def quantized(self, node: onnx.NodeProto, name: str) -> _Quantized | None:
        """The integers on one side of a conversion; None where they are not bytes or 32-bit, or scaled in blocks."""
        settings = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if settings.get("block_size") or settings.get("precision") or settings.get("output_dtype"):
            return None
        scale = self.array(node.input[1])
        if scale is None or scale.dtype != np.float32 or scale.ndim > 1:
            return None
        axis = None if scale.size == 1 else int(settings.get("axis", 1))
        if len(node.input) > 2 and node.input[2]:
            zero, dtype = node.input[2], self.dtype(node.input[2])
        else:
            dtype = onnx.TensorProto.UINT8 if node.op_type == "QuantizeLinear" else self.dtype(name)
            zero = "" if dtype is None else self.zeros(f"{node.output[0]}/zero", scale.shape, dtype)
        if dtype not in (*_BYTES, onnx.TensorProto.INT32) or dtype is None:
            return None
        return _Quantized(name, node.input[1], zero, dtype, axis)

    # ---------------------------------------------------------------- what is known of tensors
    def array(self, name: str) -> np.ndarray | None:
        """A small constant."""
        if name not in self.stored:
            node = self.producer.get(name)
            if node is None or node.op_type != "Constant":
                return None
            tensor = next((a.t for a in node.attribute if a.name == "value"), None)
        else:
            tensor = self.stored[name]
        if tensor is None or tensor.data_location == onnx.TensorProto.EXTERNAL:
            return None
        try:
            return to_array(tensor, None, "a tensor")
        except SternaError:  # what reads it says so
            return None

    def dtype(self, name: str) -> int | None:
        """The element type of a stored tensor, or of what QuantizeLinear gives."""
        if name in self.stored:
            return int(self.stored[name].data_type)
        if (known := self.array(name)) is not None:
            return helper.np_dtype_to_tensor_dtype(known.dtype)
        node = self.producer.get(name)
        if node is not None and node.op_type == "QuantizeLinear":
            return self.dtype(node.input[2]) if len(node.input) > 2 and node.input[2] else onnx.TensorProto.UINT8
        return None

    def zeros(self, name: str, shape: Sequence[int], dtype: int) -> str:
        """A zero point that the model leaves out."""
        return self.constant(name, np.zeros(shape, helper.tensor_dtype_to_np_dtype(dtype)))

    def constant(self, name: str, array: np.ndarray) -> str:
        """A constant that the model does not have; one of that name is the same."""
        if name not in self.stored:
            self.stored[name] = numpy_helper.from_array(array, name)
            self.added.append(self.stored[name])
        return name

    def alike(self, a: _Quantized, b: _Quantized) -> bool:
        """Whether integers of both stand for the same numbers."""
        if a.dtype != b.dtype:
            return False
        pairs = (self.array(a.scale), self.array(b.scale)), (self.array(a.zero), self.array(b.zero))
        return all(p is not None and q is not None and np.array_equal(p.reshape(-1), q.reshape(-1)) for p, q in pairs)

    def needless(self, activation: onnx.NodeProto, result: _Quantized) -> bool:
        """Whether all that the integers can stand for is within an activation's range."""
        scale, zero = self.array(result.scale), self.array(result.zero)
        if scale is None or zero is None or scale.size != 1 or scale.reshape(-1)[0] <= 0:
            return False
        limits = np.iinfo(zero.dtype)
        low, high = ((np.float32(n) - np.float32(zero.reshape(-1)[0])) * scale.reshape(-1)[0] for n in (
            limits.min, limits.max))  # fmt: skip
        if activation.op_type == "Relu":
            return bool(low >= 0)
        given = {a.name: a.f for a in activation.attribute}
        bounds = []
        for position, name, default in ((1, "min", -np.inf), (2, "max", np.inf)):
            bound: float | None = given.get(name, default)
            if len(activation.input) > position and activation.input[position]:
                value = self.array(activation.input[position])
                bound = None if value is None else float(value.reshape(-1)[0])
            if bound is None:
                return False
            bounds.append(bound)
        return bool(low >= bounds[0] and high <= bounds[1])


# ---------------------------------------------------------------- the operators on integers
_Operands = Sequence[_Quantized | None]
_Maker = Callable[[_Fusion, onnx.NodeProto, _Operands, _Quantized], onnx.NodeProto | None]


def _node(
    op: str, inputs: Iterable[str], result: _Quantized, given: onnx.NodeProto, domain: str = "", **more: Any
) -> onnx.NodeProto:
    """The operator, with the attributes of the one that it stands for."""
    node = helper.make_node(op, list(inputs), [result.name], domain=domain, **more)
    names = {a.name for a in node.attribute}
    node.attribute.extend(a for a in given.attribute if a.name not in names)
    return node


def _bytes(*operands: _Quantized | None) -> bool:
    """Whether all are there, of 8 bits, the first with one scale."""
    return all(x is not None and x.dtype in _BYTES for x in operands)


def _weighted(op: str, domain: str, bias_last: bool) -> _Maker:
    """A contraction with weights and a bias of 32 bits: Conv, Gemm."""

    def make(f: _Fusion, node: onnx.NodeProto, operands: _Operands, y: _Quantized) -> onnx.NodeProto | None:
        x, w, bias = (*operands, None, None)[:3]
        biased = len(node.input) > 2 and bool(node.input[2])
        if x is None or w is None or not _bytes(x, w) or x.axis is not None or x.dtype != y.dtype:
            return None
        if biased and (bias is None or bias.dtype != onnx.TensorProto.INT32):
            return None
        if x.dtype == onnx.TensorProto.INT8 and w.dtype != x.dtype:
            return None
        extra = [bias.name] if bias is not None else []
        if bias_last:
            if w.axis not in (None, 0):
                return None
            return _node(op, [*x.names, *w.names, y.scale, y.zero, *extra], y, node, domain)
        settings = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if settings.get("beta", 1.0) != 1.0 and biased:
            return None
        if w.axis is not None and w.axis % 2 != (0 if settings.get("transB", 0) else 1):
            return None
        new = _node(op, [*x.names, *w.names, *(extra or [""]), y.scale, y.zero], y, node, domain)
        kept = [a for a in new.attribute if a.name != "beta"]
        del new.attribute[:]
        new.attribute.extend(kept)
        return new

    return make


def _product(f: _Fusion, node: onnx.NodeProto, operands: _Operands, y: _Quantized) -> onnx.NodeProto | None:
    a, b = operands
    if a is None or b is None or not _bytes(a, b, y) or a.axis is not None or a.dtype != y.dtype:
        return None
    if b.axis is not None:
        weight = f.stored.get(b.name)
        if weight is None or len(weight.dims) != 2 or b.axis % 2 != 1:
            return None
    return _node("QLinearMatMul", [*a.names, *b.names, y.scale, y.zero], y, node)


def _plain(op: str, operands_of: int, **more: Any) -> _Maker:
    """An operator of one or two operands that is known by the same attributes."""

    def make(f: _Fusion, node: onnx.NodeProto, operands: _Operands, y: _Quantized) -> onnx.NodeProto | None:
        if len(operands) != operands_of or not _bytes(*operands, y):
            return None
        found = [x for x in operands if x is not None]
        if any(x.axis is not None or x.dtype != y.dtype for x in found):
            return None
        names = [name for x in found for name in x.names]
        return _node(op, [*names, y.scale, y.zero], y, node, MICROSOFT, **more)

    return make


def _concat(f: _Fusion, node: onnx.NodeProto, operands: _Operands, y: _Quantized) -> onnx.NodeProto | None:
    found = [x for x in operands if x is not None]
    if (
        len(found) != len(operands)
        or not _bytes(*found)
        or any(x.axis is not None or x.dtype != y.dtype for x in found)
    ):
        return None
    names = [name for x in found for name in x.names]
    return _node("QLinearConcat", [y.scale, y.zero, *names], y, node, MICROSOFT)


def _where(f: _Fusion, node: onnx.NodeProto, operands: _Operands, y: _Quantized) -> onnx.NodeProto | None:
    _, a, b = operands
    if a is None or b is None or not _bytes(a, b, y) or any(x.axis is not None or x.dtype != y.dtype for x in (a, b)):
        return None
    return _node("QLinearWhere", [node.input[0], *a.names, *b.names, y.scale, y.zero], y, node, MICROSOFT)


_MAKERS: dict[str, _Maker] = {
    "Add": _plain("QLinearAdd", 2),
    "AveragePool": _plain("QLinearAveragePool", 1),
    "Concat": _concat,
    "Conv": _weighted("QLinearConv", "", bias_last=True),
    "Gemm": _weighted("QGemm", MICROSOFT, bias_last=False),
    "GlobalAveragePool": _plain("QLinearGlobalAveragePool", 1),
    "LeakyRelu": _plain("QLinearLeakyRelu", 1),
    "MatMul": _product,
    "Mul": _plain("QLinearMul", 2),
    "Sigmoid": _plain("QLinearSigmoid", 1),
    "Softmax": _plain("QLinearSoftmax", 1),
    "Where": _where,
}


# ---------------------------------------------------------------- products that give floats
_FloatMaker = Callable[[_Fusion, onnx.NodeProto, _Operands], "list[onnx.NodeProto] | None"]


def _integers(f: _Fusion, node: onnx.NodeProto, operands: _Operands) -> tuple[_Quantized, _Quantized] | None:
    """The activations and the stored weights, if both are bytes that a product of integers can read, and so is the
    bias."""
    x, w, bias = (*operands, None, None)[:3]
    if x is None or w is None or not _bytes(x, w) or x.axis is not None or w.name not in f.stored:
        return None
    if x.dtype == onnx.TensorProto.INT8 and w.dtype != x.dtype:
        return None
    if len(node.input) > 2 and node.input[2] and (bias is None or bias.dtype != onnx.TensorProto.INT32):
        return None
    return x, w


def _float_conv(f: _Fusion, node: onnx.NodeProto, operands: _Operands) -> list[onnx.NodeProto] | None:
    """Sums of products and the bias in int32; then one factor for each channel."""
    found = _integers(f, node, operands)
    if found is None or found[1].axis not in (None, 0):
        return None
    x, w = found
    x_scale, w_scale = f.array(x.scale), f.array(w.scale)
    bias = operands[2] if len(operands) > 2 else None
    added = None if bias is None else f.array(bias.name)
    if x_scale is None or w_scale is None or (bias is not None and added is None):
        return None
    (result,) = node.output
    around = [1] * (len(f.stored[w.name].dims) - 2)
    factor = f.constant(f"{result}/factor", (x_scale.reshape(-1) * w_scale.reshape(-1)).reshape(-1, *around))
    sums = f"{result}/sums"
    nodes = [helper.make_node("ConvInteger", [x.name, w.name, x.zero, w.zero], [sums], name=node.name)]
    nodes[0].attribute.extend(node.attribute)
    if added is not None:
        shift = f.constant(f"{result}/shift", added.reshape(-1, *around))
        nodes.append(helper.make_node("Add", [sums, shift], [f"{result}/total"], name=f"{node.name}/bias"))
        sums = f"{result}/total"
    to = onnx.TensorProto.FLOAT
    nodes.append(helper.make_node("Cast", [sums], [f"{result}/whole"], name=f"{node.name}/cast", to=to))
    nodes.append(helper.make_node("Mul", [f"{result}/whole", factor], [result], name=f"{node.name}/factor"))
    return nodes


def _float_gemm(f: _Fusion, node: onnx.NodeProto, operands: _Operands) -> list[onnx.NodeProto] | None:
    found = _integers(f, node, operands)
    settings = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if found is None or settings.get("beta", 1.0) != 1.0:
        return None
    x, w = found
    if w.axis is not None and w.axis % 2 != (0 if settings.get("transB", 0) else 1):
        return None
    bias = operands[2] if len(operands) > 2 else None
    inputs = [*x.names, *w.names, *([bias.name] if bias is not None else [])]
    new = helper.make_node("QGemm", inputs, list(node.output), name=node.name, domain=MICROSOFT)
    new.attribute.extend(a for a in node.attribute if a.name != "beta")
    return [new]


def _float_product(f: _Fusion, node: onnx.NodeProto, operands: _Operands) -> list[onnx.NodeProto] | None:
    found = _integers(f, node, operands)
    if found is None:
        return None
    a, b = found
    if b.axis is not None and (len(f.stored[b.name].dims) != 2 or b.axis % 2 != 1):
        return None
    inputs = [a.name, b.name, a.scale, b.scale, a.zero, b.zero]
    return [helper.make_node("MatMulIntegerToFloat", inputs, list(node.output), name=node.name, domain=MICROSOFT)]


_FLOAT_MAKERS: dict[str, _FloatMaker] = {"Conv": _float_conv, "Gemm": _float_gemm, "MatMul": _float_product}
