"""A graph of core operators as an ONNX model.

What one operator is in ONNX is read from its declaration where it is exactly one; the others have a function here.
ONNX's convolutions and pools have their channels in front: a value can exist in both orders, is made in the order of
what it is made from, and is transposed where the other one is needed, so that between two convolutions no
transpose is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sterna.errors import Diagnostic, SternaError
from sterna.frontends.onnx.file import ELEMENT_TYPES
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Names, Node, TensorType, Value
from sterna.ops import operator
from sterna.passes.eliminate_dead_code import eliminate_dead_code
from sterna.passes.eliminate_identities import eliminate_identities
from sterna.passes.fold_constants import fold_constants
from sterna.version import __version__

OPSET, IR_VERSION = 17, 8
_CODES = {name: code for code, name in ELEMENT_TYPES.items()}


def to_onnx(graph: Graph) -> onnx.ModelProto:
    """The graph as a model with the same inputs and outputs.

    Args:
        graph: with constant sizes, and without states and control flow.

    Raises:
        SternaError: E0707, something in it has no form in ONNX; everything at once.
    """
    graph = eliminate_dead_code(eliminate_identities(fold_constants(graph)))
    problems = _problems(graph)
    if problems:
        raise SternaError(problems)
    return _Export(graph).model()


def _problems(graph: Graph) -> list[Diagnostic]:
    problems = []
    if graph.states:
        names = ", ".join(state.name for state in graph.states)
        problems.append(Diagnostic("E0707", "states that survive a run cannot be written to ONNX", (names,)))
    missing: dict[str, list[str]] = {}
    for node in graph.nodes:
        if node.regions:
            problems.append(Diagnostic("E0707", "control flow cannot be written to ONNX", tuple(node.sources)))
        elif node.op not in _WRITERS and not any(form.domain == "" for form in operator(node.op).onnx):
            missing.setdefault(node.op, []).extend(node.sources[:1])
    for op, sources in missing.items():
        where = (", ".join(dict.fromkeys(sources)),) if sources else ()
        problems.append(Diagnostic("E0707", f"the operator {op} cannot be written to ONNX", where))
    if not all(value.type.is_static for value in graph.values()):
        problems.append(Diagnostic("E0707", "open dimensions cannot be written to ONNX", (), "give every size"))
    return problems


class _Export:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.users = graph.users()
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []
        self.fresh = Names(value.name for value in graph.values())
        self.labels = Names()
        self.last: dict[Value, str] = {value: value.name for value in graph.inputs}
        self.first: dict[Value, str] = {}  # in ONNX's order of dimensions
        self.label = ""

    def model(self) -> onnx.ModelProto:
        for node in self.graph.nodes:
            self.label = node.name
            write = _WRITERS.get(node.op, declared)
            write(self, node)
        self.label = "output"
        outputs = []
        for value, name in zip(self.graph.outputs, self.graph.output_names, strict=True):
            if (have := self.native(value)) != name:
                self.nodes.append(helper.make_node("Identity", [have], [name], name=f"{name}/output"))
            outputs.append(_info(name, value.type))
        graph = helper.make_graph(
            self.nodes, self.graph.name, [_info(v.name, v.type) for v in self.graph.inputs], outputs, self.stored
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
            producer_name="sterna", producer_version=__version__,
        )  # fmt: skip

    # ---------------------------------------------------------------- values
    def constant(self, data: Array, name: str) -> str:
        name = self.fresh.fresh(name)
        self.stored.append(numpy_helper.from_array(np.asarray(data, order="C"), name))
        return name

    def native(self, value: Value) -> str:
        """A value with its dimensions as the graph has them."""
        if value not in self.last:
            if value.data is not None:
                self.stored.append(numpy_helper.from_array(np.asarray(value.data, order="C"), value.name))
                self.last[value] = value.name
            else:
                self.last[value] = value.name
                order = [0, *range(2, value.type.rank), 1]
                self.emit("Transpose", [self.first[value]], value.name, perm=order)
        return self.last[value]

    def channels_first(self, value: Value) -> str:
        """A value with its last dimension behind the first."""
        if value not in self.first:
            order = [0, value.type.rank - 1, *range(1, value.type.rank - 1)]
            name = self.fresh.fresh(f"{value.name}/channels_first")
            if value.data is not None:
                name = self.constant(value.data.transpose(order), name)
            else:
                self.emit("Transpose", [self.native(value)], name, perm=order)
            self.first[value] = name
        return self.first[value]

    def emit(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        name = self.labels.fresh(f"{self.label}/{op.lower()}" if op == "Transpose" else self.label)
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=name, **attributes))
        return output

    def result(self, node: Node, op: str, inputs: Sequence[str], first: bool = False, **attributes: Any) -> None:
        """The node's result by an operator of ONNX; `first`: in ONNX's order of dimensions."""
        value = node.output
        name = self.fresh.fresh(f"{value.name}/channels_first") if first else value.name
        (self.first if first else self.last)[value] = self.emit(op, inputs, name, **attributes)

    def prefers_first(self, node: Node) -> bool:
        """Whether its operands, or else its readers, have ONNX's order of dimensions."""
        given = [v for v in node.operands if v.data is None]
        rank = node.output.type.rank
        if rank < 3 or not all(v.type.rank == rank for v in given):
            return False
        if any(v in self.first and v not in self.last for v in given):
            return True
        return all(user.op in _SPATIAL for user in self.users.get(node.output, ())) and bool(
            self.users.get(node.output)
        )


def _info(name: str, kind: TensorType) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _CODES[kind.dtype], kind.sizes)


Writer = Callable[[_Export, Node], None]


# ---------------------------------------------------------------- convolutions and pools
def conv(e: _Export, node: Node) -> None:
    x, w = node.operands
    spatial = w.type.rank - 2
    if w.data is not None:
        weight = e.constant(w.data.transpose(spatial + 1, spatial, *range(spatial)), w.name)
    else:
        weight = e.emit(
            "Transpose", [e.native(w)], e.fresh.fresh(f"{w.name}/weight"), perm=[spatial + 1, spatial, *range(spatial)]
        )
    a = node.attributes
    e.result(
        node, "Conv", [e.channels_first(x), weight], first=True,
        strides=a["strides"], dilations=a["dilations"], group=a["groups"],
    )  # fmt: skip


def max_pool(e: _Export, node: Node) -> None:
    a = node.attributes
    settings = {"kernel_shape": a["kernel"], "strides": a["strides"], "dilations": a["dilations"]}
    (x,) = node.operands
    e.result(node, "MaxPool", [e.native(x) if a["planes"] else e.channels_first(x)], first=not a["planes"], **settings)


def sum_pool(e: _Export, node: Node) -> None:
    """An average times the count."""
    (x,) = node.operands
    a = node.attributes
    if a["planes"] or a["to"] not in (None, x.dtype) or any(d != 1 for d in a["dilations"]):
        raise SternaError(Diagnostic("E0707", "this sum of windows cannot be written to ONNX", tuple(node.sources)))
    count = int(np.prod(a["kernel"]))
    settings = {"kernel_shape": a["kernel"], "strides": a["strides"]}
    mean = e.fresh.fresh(f"{node.output.name}/mean")
    if tuple(a["kernel"]) == x.type.sizes[1:-1]:
        e.emit("GlobalAveragePool", [e.channels_first(x)], mean)
    else:
        e.emit("AveragePool", [e.channels_first(x)], mean, **settings)
    divided = e.users.get(node.output, [])
    if len(divided) == 1 and divided[0].op == "div" and node.output not in e.graph.outputs:
        by = divided[0].operands[1].data
        if by is not None and (by == count).all():
            e.first[divided[0].output] = mean
            return
    number = e.constant(np.asarray(count, dtypes.to_numpy(x.dtype)), f"{node.output.name}/count")
    e.result(node, "Mul", [mean, number], first=True)


def pad(e: _Export, node: Node) -> None:
    (x,) = node.operands
    a = node.attributes
    before, after = list(a["before"]), list(a["after"])
    first = e.prefers_first(node)
    if first:
        before, after = (_moved(row) for row in (before, after))
    pads = e.constant(np.array([*before, *after], np.int64), f"{node.output.name}/pads")
    value = e.constant(np.asarray(a["value"]).astype(dtypes.to_numpy(x.dtype)), f"{node.output.name}/value")
    inputs = [e.channels_first(x) if first else e.native(x), pads, value]
    e.result(node, "Pad", inputs if a["mode"] == "constant" else inputs[:2], first, mode=a["mode"])


def _moved(row: Sequence[Any]) -> list[Any]:
    """Entries of channels-last dimensions in ONNX's order."""
    return [row[0], row[-1], *row[1:-1]]


# ---------------------------------------------------------------- element by element
def declared(e: _Export, node: Node) -> None:
    """An operator that ONNX has, by its declaration."""
    declaration = operator(node.op)
    form = next(form for form in declaration.onnx if form.domain == "")
    ours = {mine: theirs for theirs, mine in form.attributes.items()}
    settings = {ours.get(name, name): value for name, value in node.attributes.items() if value is not None}
    if "elementwise" in declaration.tags:
        if node.output in e.first:
            return  # the division of a sum that became an average
        elementwise(e, node, form.op, settings)
    elif node.op == "concat":
        concat(e, node)
    else:
        inputs = [e.native(v) if v is not None else "" for v in node.inputs]
        plain: dict[str, Any] = {k: int(v) if isinstance(v, bool) else v for k, v in settings.items()}
        e.result(node, form.op, inputs, first=False, **plain)


def elementwise(e: _Export, node: Node, op: str, settings: Mapping[str, Any]) -> None:
    rank = node.output.type.rank
    first = e.prefers_first(node)
    names = []
    for value in node.operands:
        if not first or value.type.rank == 0:
            names.append(e.native(value))
        elif value.type.rank == rank:
            names.append(e.channels_first(value))
        else:  # a constant that broadcasts
            assert value.data is not None
            wide = value.data.reshape([1] * (rank - value.data.ndim) + list(value.data.shape))
            names.append(e.constant(wide.transpose(0, rank - 1, *range(1, rank - 1)), value.name))
    e.result(node, op, names, first, **settings)


def _elementwise(op: str) -> Writer:
    return lambda e, node: elementwise(e, node, op, {})


def clip(e: _Export, node: Node) -> None:
    kind = dtypes.to_numpy(node.output.dtype)
    first = e.prefers_first(node)
    (x,) = node.operands
    inputs = [e.channels_first(x) if first else e.native(x)]
    for name in ("min", "max"):
        value = node.attributes[name]
        inputs.append("" if value is None else e.constant(np.asarray(value, kind), f"{node.output.name}/{name}"))
    e.result(node, "Clip", inputs, first)


def cast(e: _Export, node: Node) -> None:
    elementwise(e, node, "Cast", {"to": _CODES[node.attributes["to"]]})


# ---------------------------------------------------------------- shapes
def concat(e: _Export, node: Node) -> None:
    axis, rank = node.attributes["axis"], node.output.type.rank
    axis += rank if axis < 0 else 0
    if e.prefers_first(node):
        order = [0, rank - 1, *range(1, rank - 1)]
        e.result(node, "Concat", [e.channels_first(v) for v in node.operands], first=True, axis=order.index(axis))
    else:
        e.result(node, "Concat", [e.native(v) for v in node.operands], axis=axis)


def reshape(e: _Export, node: Node) -> None:
    shape = e.constant(np.array(node.output.type.sizes, np.int64), f"{node.output.name}/shape")
    e.result(node, "Reshape", [e.native(node.operands[0]), shape])


def transpose(e: _Export, node: Node) -> None:
    e.result(node, "Transpose", [e.native(node.operands[0])], perm=node.attributes["order"])


def expand(e: _Export, node: Node) -> None:
    shape = e.constant(np.array(node.output.type.sizes, np.int64), f"{node.output.name}/shape")
    e.result(node, "Expand", [e.native(node.operands[0]), shape])


def tile(e: _Export, node: Node) -> None:
    repeats = e.constant(np.array(node.attributes["repeats"], np.int64), f"{node.output.name}/repeats")
    e.result(node, "Tile", [e.native(node.operands[0]), repeats])


def slice_(e: _Export, node: Node) -> None:
    a = node.attributes
    starts, sizes, steps = ([int(n) for n in a[key]] for key in ("starts", "sizes", "steps"))
    ends = [start + size * step for start, size, step in zip(starts, sizes, steps, strict=True)]
    ends = [-(1 << 31) if step < 0 and end < 0 else end for end, step in zip(ends, steps, strict=True)]
    name = node.output.name
    rows = (starts, ends, list(range(len(starts))), steps)
    e.result(node, "Slice", [e.native(node.operands[0]), *(e.constant(np.array(r, np.int64), name) for r in rows)])


def strided(e: _Export, node: Node) -> None:
    a = node.attributes
    sizes, steps = [int(n) for n in a["sizes"]], a["steps"]
    ramps = np.ix_(*(np.arange(size, dtype=np.int64) * step for size, step in zip(sizes, steps, strict=True)))
    places = sum(ramps, np.int64(int(a["start"])))
    e.result(node, "Gather", [e.native(node.operands[0]), e.constant(places, node.output.name)], axis=a["axis"])


# ---------------------------------------------------------------- the rest
def matmul(e: _Export, node: Node) -> None:
    e.result(node, "MatMul", [e.native(v) for v in node.operands])


def _along_axis(op: str) -> Writer:
    def write(e: _Export, node: Node) -> None:
        e.result(node, op, [e.native(node.operands[0])], axis=node.attributes["axis"])

    return write


def _reduction(op: str) -> Writer:
    def write(e: _Export, node: Node) -> None:
        (x,) = node.operands
        axes, keep = [int(a) % x.type.rank for a in node.attributes["axes"]], node.attributes["keep_dims"]
        spatial = list(range(1, x.type.rank - 1))
        if op == "ReduceMean" and sorted(axes) == spatial and x in e.first:
            if keep:
                e.result(node, "GlobalAveragePool", [e.channels_first(x)], first=True)
                return
            mean = e.emit("GlobalAveragePool", [e.channels_first(x)], e.fresh.fresh(f"{node.output.name}/mean"))
            e.result(node, "Flatten", [mean])
        elif op == "ReduceSum":
            axis = e.constant(np.array(axes, np.int64), f"{node.output.name}/axes")
            e.result(node, op, [e.native(x), axis], keepdims=int(keep))
        else:
            e.result(node, op, [e.native(x)], axes=axes, keepdims=int(keep))

    return write


def resize(e: _Export, node: Node) -> None:
    a = node.attributes
    (x,) = node.operands
    first = e.prefers_first(node)
    sizes = node.output.type.sizes
    wanted = e.constant(np.array(_moved(sizes) if first else sizes, np.int64), f"{node.output.name}/sizes")
    e.result(
        node, "Resize", [e.channels_first(x) if first else e.native(x), "", "", wanted], first, mode=a["mode"],
        coordinate_transformation_mode=a["transform"], nearest_mode=a["rounding"],
        cubic_coeff_a=a["cubic_coefficient"],
    )  # fmt: skip


#: Readers that want their operand's channels in front.
_SPATIAL = frozenset({"conv", "max_pool", "sum_pool"})
_WRITERS: dict[str, Writer] = {
    "cast": cast,
    "clip": clip,
    "conv": conv,
    "expand": expand,
    "log_softmax": _along_axis("LogSoftmax"),
    "matmul": matmul,
    "max_pool": max_pool,
    "maximum": _elementwise("Max"),
    "minimum": _elementwise("Min"),
    "pad": pad,
    "pow": _elementwise("Pow"),
    "reduce_max": _reduction("ReduceMax"),
    "reduce_mean": _reduction("ReduceMean"),
    "reduce_min": _reduction("ReduceMin"),
    "reduce_sum": _reduction("ReduceSum"),
    "reshape": reshape,
    "resize": resize,
    "slice": slice_,
    "strided": strided,
    "softmax": _along_axis("Softmax"),
    "sum_pool": sum_pool,
    "tile": tile,
    "transpose": transpose,
}
