"""A float model in the form that quantization expects.

Constants are initializers and computed as far as they can be; batch normalization, scales and shifts are part of the
weights and bias that they follow; padding is part of the convolution or pool that it precedes; a product of matrices
with a bias after it is a Gemm. What the model computes does not change, but for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, inliner, shape_inference, version_converter
from onnx.reference import ReferenceEvaluator

from sterna.errors import error
from sterna.export.onnx import to_onnx
from sterna.frontends.formats import Model, as_onnx, read_model
from sterna.frontends.onnx.structure import listed, node_names
from sterna.frontends.source import Source
from sterna.ir.graph import Array
from sterna.quantize.model import STANDARD, Editing, settings

OPSET = 13  # the first whose QuantizeLinear knows of channels
LARGEST = 1 << 24  # bytes of a constant that is computed here
_INTEGER = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger")
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm")
_VARYING = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")


def prepared(model: Model) -> onnx.ModelProto:
    """The model, ready.

    Raises:
        SternaError: E0101 it cannot be read, E0701 it is quantized already, E0707 it has no form in ONNX, E0102 it
            cannot be brought to an operator set that knows of quantization by channel.
    """
    proto = _as_onnx(model)
    _refuse_integers(proto)
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
    e = Editing(_modern(proto))
    _name_nodes(e)
    _fold_constants(e)
    _bypass(e)
    _fold_padding(e)
    _join_products(e)
    while _fold_scales(e):
        pass
    return e.finish()


def _as_onnx(model: Model) -> onnx.ModelProto:
    source = Source.of(model)
    proto: onnx.ModelProto | None = as_onnx(source)
    if proto is not None:
        return proto
    graph = read_model(source)
    if graph.quantization or any(v.dtype in ("int8", "uint8") and v.type.rank > 1 for v in graph.constants()):
        title = "the model is quantized already: it has integer weights"
        raise error("E0701", title, source.name, fix="give the float model")
    if any(node.op == "tree_ensemble" for node in graph.nodes):
        raise error("E0705", "no part of the model can be quantized: it is one of trees", source.name)
    return to_onnx(graph)


def _refuse_integers(model: onnx.ModelProto) -> None:
    names = node_names(model.graph.node)
    found = [
        name
        for name, node in zip(names, model.graph.node, strict=True)
        if node.op_type in _INTEGER or node.op_type.startswith(("QLinear", "QGemm", "QAttention"))
    ]
    if found:
        raise error("E0701", "the model is quantized already", f"by {listed(found)}", fix="give the float model")


def _modern(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in an operator set that has quantization by channel."""
    version = max((o.version for o in model.opset_import if o.domain in STANDARD), default=1)
    if version >= OPSET:
        return model
    # Old files list their constants among the inputs, which the converter takes for tensors of unknown value.
    stored = {tensor.name for tensor in model.graph.initializer}
    given = [value for value in model.graph.input if value.name not in stored]
    del model.graph.input[:]
    model.graph.input.extend(given)
    model.ir_version = max(model.ir_version, 8)
    try:
        return version_converter.convert_version(model, OPSET)
    except Exception as problem:  # the converter's errors have no common type
        reason = str(problem).strip().splitlines()[:2] or [type(problem).__name__]
        title = f"the model's operator set {version} cannot be brought to {OPSET}, which quantization needs"
        raise error("E0102", title, *reason, fix=f"export the model with operator set {OPSET} or later") from None


def _name_nodes(e: Editing) -> None:
    """Gives every node a name of its own."""
    seen: set[str] = set()
    for n, (node, name) in enumerate(zip(e.nodes, node_names(e.nodes), strict=True)):
        own = onnx.NodeProto()
        own.CopyFrom(node)
        own.name = name if name not in seen else f"{name}_{n}"
        seen.add(own.name)
        e.nodes[n] = own
    e.index()


# ---------------------------------------------------------------- constants
def _fold_constants(e: Editing) -> None:
    kept = []
    for node in e.nodes:
        results = _computed(e, node)
        if results is None:
            kept.append(node)
        else:
            e.constants.update(zip(node.output, results, strict=True))
    e.nodes = kept
    e.index()


def _computed(e: Editing, node: onnx.NodeProto) -> list[Array] | None:
    """The results of a node whose operands are constants; None if they are not, or it is not worth it."""
    has_graph = any(a.HasField("g") or a.graphs for a in node.attribute)
    if node.domain not in STANDARD or node.op_type in _VARYING or has_graph or any(n in e.outputs for n in node.output):
        return None
    names = [name for name in node.input if name]
    if not all(name in e.constants for name in names) or not all(node.output):
        return None
    given = {name: e.constants[name] for name in names}
    graph = helper.make_graph(
        [node],
        "constant",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items()],
        [onnx.ValueInfoProto(name=name) for name in node.output],
    )
    try:
        single = helper.make_model(graph, opset_imports=e.model.opset_import)
        results = [np.asarray(r) for r in ReferenceEvaluator(single).run(None, given)]
    except Exception:  # whatever it does not know stays for the compiler
        return None
    size, most = sum(r.nbytes for r in results), sum(a.nbytes for a in given.values())
    return results if size <= max(LARGEST, most) else None


def _bypass(e: Editing) -> None:
    """Leaves out what does nothing."""
    kept = []
    renamed: dict[str, str] = {}
    for node in e.nodes:
        for n, name in enumerate(node.input):
            node.input[n] = renamed.get(name, name)
        idle = node.op_type == "Identity" or (node.op_type == "Dropout" and not _training(e, node))
        hidden = len([n for n in node.output if n]) > 1 or node.output[0] in e.outputs or node.output[0] in e.captured
        if idle and not hidden and node.domain in STANDARD:
            renamed[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    e.nodes = kept
    e.index()


def _training(e: Editing, node: onnx.NodeProto) -> bool:
    return len(node.input) > 2 and bool(node.input[2]) and bool(np.any(e.constants.get(node.input[2], True)))


# ---------------------------------------------------------------- padding
def _fold_padding(e: Editing) -> None:
    """Makes padding by a constant part of the convolution or pool after it, where that pads with the same."""
    removed = set()
    for node in e.nodes:
        reader = e.only_reader(node.output[0]) if node.op_type == "Pad" and node.domain in STANDARD else None
        if reader is None or reader.op_type not in ("Conv", "MaxPool") or reader.input[0] != node.output[0]:
            continue
        pads = _joint_padding(e, node, reader)
        if pads is None:
            continue
        kept = [a for a in reader.attribute if a.name not in ("pads", "auto_pad")]
        del reader.attribute[:]
        reader.attribute.extend([*kept, helper.make_attribute("pads", pads)])
        reader.input[0] = node.input[0]
        removed.add(node.output[0])
    e.nodes = [node for node in e.nodes if node.output[0] not in removed]
    e.index()


def _joint_padding(e: Editing, pad: onnx.NodeProto, window: onnx.NodeProto) -> list[int] | None:
    """What a convolution or pool must pad by, with the padding before it; None if it cannot do the same."""
    pads = e.constants.get(pad.input[1]) if len(pad.input) > 1 else None
    value = e.constants.get(pad.input[2]) if len(pad.input) > 2 and pad.input[2] else np.zeros(())
    given = settings(window)
    mode, automatic = settings(pad).get("mode", b"constant"), given.get("auto_pad", b"NOTSET")
    if pads is None or value is None or mode != b"constant" or len(pad.input) > 3:
        return None
    if automatic not in (b"NOTSET", b"VALID") or given.get("ceil_mode", 0):
        return None
    neutral = float(value) == 0 if window.op_type == "Conv" else float(value) <= np.finfo(np.float32).min
    before, after = np.split(pads, 2)
    if before[:2].any() or after[:2].any() or pads.min() < 0 or not neutral:
        return None
    total = np.concatenate([before[2:], after[2:]])
    if automatic == b"NOTSET" and "pads" in given:
        total = total + given["pads"]
    if window.op_type == "MaxPool" and (total >= given["kernel_shape"] * 2).any():
        return None  # a pool may not have a window in its padding alone
    return [int(n) for n in total]


# ---------------------------------------------------------------- products, scales and shifts
def _join_products(e: Editing) -> None:
    """Makes a product of matrices by constant weights and the bias after it one Gemm."""
    ranks = _ranks(e)
    removed = set()
    for node in e.nodes:
        if node.op_type != "MatMul" or node.domain not in STANDARD or ranks.get(node.input[0]) != 2:
            continue
        weight, reader = e.constants.get(node.input[1]), e.only_reader(node.output[0])
        if (
            weight is None
            or weight.ndim != 2
            or weight.dtype != np.float32
            or reader is None
            or reader.op_type != "Add"
        ):
            continue
        (other,) = [name for name in reader.input if name != node.output[0]] or [""]
        bias = e.constants.get(other)
        if bias is None or bias.size not in (1, weight.shape[1]) or bias.size != max(bias.shape[-1:], default=1):
            continue
        removed.add(id(reader))
        name = e.constant(np.broadcast_to(bias.reshape(-1), weight.shape[1]), other)
        node.op_type = "Gemm"
        node.input.append(name)
        node.output[0] = reader.output[0]
    e.nodes = [node for node in e.nodes if id(node) not in removed]
    e.index()


def _ranks(e: Editing) -> dict[str, int]:
    """The ranks of tensors, as far as they are known."""
    try:
        inferred = shape_inference.infer_shapes(e.finish())
    except Exception:  # a model that it does not understand; then products stay as they are
        return {}
    values = (*inferred.graph.input, *inferred.graph.value_info)
    return {v.name: len(v.type.tensor_type.shape.dim) for v in values if v.type.tensor_type.HasField("shape")}


def _fold_scales(e: Editing) -> bool:
    """Folds factors and addends per channel into the weights and bias before them; whether there were any."""
    for node in e.nodes:
        if node.domain not in STANDARD or not node.input:
            continue
        affine = _affine(e, node)
        before = None if affine is None else e.producer.get(affine.x)
        if affine is None or before is None or before.op_type not in _WEIGHTED or before.domain not in STANDARD:
            continue
        if e.only_reader(affine.x) is not node or not _scale(e, before, affine):
            continue
        before.output[0] = node.output[0]
        e.nodes = [other for other in e.nodes if other is not node]
        e.index()
        return True
    return False


@dataclass(frozen=True)
class _Affine:
    """x * factor + addend, in float64.

    Args:
        by_channel: both have one number per channel; else they broadcast against x.
    """

    x: str
    factor: Array
    addend: Array
    by_channel: bool = False


def _affine(e: Editing, node: onnx.NodeProto) -> _Affine | None:
    """What a node is, if it is a batch normalization or arithmetic with a constant."""
    if node.op_type == "BatchNormalization":
        rows = [e.constants[name].astype(np.float64) for name in node.input[1:5] if name in e.constants]
        if len(rows) < 4 or settings(node).get("training_mode") or len([name for name in node.output if name]) > 1:
            return None
        scale, bias, mean, variance = rows
        factor = scale / np.sqrt(variance + settings(node).get("epsilon", 1e-5))
        return _Affine(node.input[0], factor, bias - mean * factor, by_channel=True)
    if node.op_type not in ("Add", "Sub", "Mul", "Div") or len(node.input) != 2:
        return None
    a, b = node.input
    if a in e.constants and node.op_type in ("Add", "Mul"):
        a, b = b, a
    if b not in e.constants or a in e.constants or e.constants[b].dtype != np.float32:
        return None
    c = e.constants[b].astype(np.float64)
    if node.op_type in ("Add", "Sub"):
        return _Affine(a, np.ones(()), c if node.op_type == "Add" else -c)
    if node.op_type == "Div" and not c.all():
        return None
    return _Affine(a, c if node.op_type == "Mul" else 1.0 / c, np.zeros(()))


def _scale(e: Editing, node: onnx.NodeProto, affine: _Affine) -> bool:
    """Lets a convolution or Gemm do an affine map of its result too; False if that cannot be done in its constants."""
    given = settings(node)
    biased = len(node.input) > 2 and bool(node.input[2])
    weight = e.constants.get(node.input[1])
    bias = e.constants.get(node.input[2]) if biased else np.zeros(1, np.float32)
    if weight is None or bias is None or weight.dtype != np.float32:
        return False
    if node.op_type == "Gemm" and any(given.get(k, 1.0) != 1.0 for k in ("alpha", "beta")):
        return False
    axis, channels = output_channels(node, weight)
    place = (weight.ndim, weight.ndim - 1 if node.op_type == "Gemm" else 1)
    f = affine.factor if affine.by_channel else _per_channel(affine.factor, channels, *place)
    s = affine.addend if affine.by_channel else _per_channel(affine.addend, channels, *place)
    if f is None or s is None or bias.size not in (1, channels):
        return False
    # The axis of a grouped ConvTranspose counts the channels of a group; its first dimension the groups.
    groups = channels // weight.shape[axis]
    parts = np.split(weight.astype(np.float64), groups)
    factors = np.split(f, groups)
    around = [1] * (weight.ndim - axis - 1)
    scaled = np.concatenate([w * row.reshape(-1, *around) for w, row in zip(parts, factors, strict=True)])
    total = np.broadcast_to(bias.reshape(-1).astype(np.float64), channels) * f + s
    node.input[1] = e.constant(scaled.astype(np.float32), node.input[1])
    name = e.constant(total.astype(np.float32), node.input[2] if biased else f"{node.name}/bias")
    if len(node.input) > 2:
        node.input[2] = name
    else:
        node.input.append(name)
    return True


def _per_channel(row: Array, channels: int, rank: int, axis: int) -> Array | None:
    """One number per channel of what broadcasts against a tensor of some rank; None if it varies otherwise."""
    if row.ndim > rank or row.size not in (1, channels):
        return None
    shape = [*[1] * (rank - row.ndim), *row.shape]
    return np.broadcast_to(row.reshape(-1), channels) if row.size in (1, shape[axis]) else None


def output_channels(node: onnx.NodeProto, weight: Array) -> tuple[int, int]:
    """The axis of its weight along which the results of a node lie, and how many channels they are.

    Args:
        node: a Conv, ConvTranspose, Gemm or MatMul.
    """
    if node.op_type == "Conv":
        return 0, weight.shape[0]
    if node.op_type == "ConvTranspose":
        return 1, weight.shape[1] * settings(node).get("group", 1)
    axis = 0 if settings(node).get("transB", 0) else weight.ndim - 1
    return axis, weight.shape[axis]
