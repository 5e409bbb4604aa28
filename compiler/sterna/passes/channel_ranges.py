"""What every channel (the last dimension) of a quantized model's tensors can be, from the integers that make it.

Sums of products of bytes are bounded by the weights' signs, and what follows on a product (bias, scaling, clamping) is
monotone, so that the operator itself computes the ends of an interval. Where an interval is one number, the channel is
that number wherever it is read.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, Value
from sterna.ops.evaluate import evaluate

#: Element by element; what gives a constant of constants.
ELEMENTWISE = frozenset(
    (
        "abs", "add", "cast", "clip", "div", "equal", "fixed_multiply", "greater", "greater_equal", "less",
        "less_equal", "maximum", "minimum", "mul", "neg", "relu", "round_to_integer", "sub", "where",
    )
)  # fmt: skip
_PRODUCTS = ("conv_integer", "matmul_integer")
#: Below every clamp, and yet so that a zero point can be added.
_FAR = -(1 << 31) + (1 << 17)
#: By channel: the least and the greatest element.
Range = tuple[Array, Array]


def channels(value: Value) -> int:
    """How many a tensor has; 0 where it has none, or as many as only a run says."""
    return int(value.shape[-1]) if value.shape and value.shape[-1].is_const else 0


def is_dense(node: Node) -> bool:
    """Whether every channel of the result is a sum over all channels of the first operand, times constants."""
    if (
        node.op not in _PRODUCTS
        or len(node.inputs) != 2
        or node.operands[1].data is None
        or node.operands[0].is_constant
    ):
        return False
    return (node.op == "matmul_integer" and node.operands[1].type.rank == 2) or node.attributes.get("groups") == 1


def is_depthwise(node: Node) -> bool:
    """Whether every channel of the result is a sum over the same channel of the first operand, times constants."""
    if node.op != "conv_integer" or len(node.inputs) != 2 or node.operands[1].data is None:
        return False
    count = channels(node.output)
    return node.attributes["groups"] == count == channels(node.operands[0]) > 1 and not node.operands[0].is_constant


def is_pool(node: Node) -> bool:
    return node.op in ("max_pool", "sum_pool") and not node.attributes["planes"]


def pads_positions(node: Node) -> bool:
    """Whether a pad leaves the channels alone."""
    return node.op == "pad" and all(node.attributes[end][-1] == 0 for end in ("before", "after"))


class ChannelRanges:
    """The ranges of all values of a graph."""

    def __init__(self, graph: Graph):
        self.known: dict[Value, Range] = {}
        for node in graph.nodes:
            if len(node.outputs) == 1 and channels(node.output):
                found = self._found(node)
                if found is not None and _fits(found, node.output.dtype):
                    self.known[node.output] = found

    def of(self, value: Value) -> Range:
        """The range of each channel; that of the type where nothing is known."""
        if value not in self.known:
            least, most = _of_type(value.dtype)
            count = channels(value)
            return np.full(count, least), np.full(count, most)
        return self.known[value]

    def constant(self, value: Value) -> Array:
        """Which channels are one number."""
        least, most = self.of(value)
        return np.equal(least, most)

    def _found(self, node: Node) -> Range | None:
        if is_dense(node) or is_depthwise(node):
            return self._product(node)
        if pads_positions(node) and node.attributes["mode"] == "constant":
            least, most = self.of(node.operands[0])
            value = node.attributes["value"]
            return np.minimum(least, value), np.maximum(most, value)
        if is_pool(node):
            least, most = self.of(node.operands[0])
            count = int(np.prod(node.attributes["kernel"])) if node.op == "sum_pool" else 1
            return (least * count, most * count) if least.dtype == np.int64 else None
        if node.op == "reshape" and channels(node.operands[0]) == channels(node.output):
            return self.of(node.operands[0])
        return self._elementwise(node) if node.op in ELEMENTWISE else None

    def _product(self, node: Node) -> Range | None:
        x, weights = node.operands
        data = weights.data
        if data is None or x.dtype not in ("int8", "uint8", "int16") or channels(x) != _depth(node):
            return None
        taps = data.astype(np.int64).reshape(-1, *data.shape[-2:]).sum(0, where=data.reshape(-1, *data.shape[-2:]) > 0)
        under = data.astype(np.int64).reshape(-1, *data.shape[-2:]).sum(0, where=data.reshape(-1, *data.shape[-2:]) < 0)
        least, most = self.of(x)
        if is_depthwise(node):
            return least * taps[0] + most * under[0], most * taps[0] + least * under[0]
        return least @ taps + most @ under, most @ taps + least @ under

    def _elementwise(self, node: Node) -> Range | None:
        """The ends of what is monotone; else, what is made of one number by channel."""
        count = channels(node.output)
        given = [value for value in node.operands if not value.is_constant]
        if not given or any(channels(value) != count for value in given):
            return None
        constants = {value: _by_channel(value, count) for value in node.operands if value.is_constant}
        if any(array is None for array in constants.values()):
            return None
        if len(given) == 1 and given[0] is node.inputs[0] and _is_monotone(node, given[0]):
            least, most = self.of(given[0])
            if not node.inputs[1:] or np.isfinite(least).all():
                low, high = (_applied(node, {given[0]: end, **constants}) for end in (least, most))
                if low is not None and high is not None:
                    return _as_said(node, low, high)
        if node.op == "fixed_multiply":
            return None
        fixed = np.all([self.constant(value) for value in given], axis=0)
        if not fixed.any():
            return None
        arrays = {value: self.of(value)[0][fixed] for value in given}
        arrays |= {value: array[fixed] for value, array in constants.items() if array is not None}
        made = _applied(node, arrays)
        if made is None:
            return None
        least, most = (np.full(count, end) for end in _of_type(node.output.dtype))
        least[fixed] = most[fixed] = made
        return least, most


def _depth(node: Node) -> int:
    """Channels that a product reads."""
    return channels(node.operands[0]) if is_depthwise(node) else int(node.operands[1].shape[-2])


def _is_monotone(node: Node, x: Value) -> bool:
    """Whether a greater first operand never gives a smaller result, all others being constants."""
    others = [value.data for value in node.inputs[1:] if value is not None]
    integral = x.dtype in ("int8", "uint8", "int16", "int32")
    if node.op in ("add", "sub", "clip", "round_to_integer"):
        return True
    if node.op == "cast":
        return integral and node.output.dtype in ("int8", "uint8", "int16", "int32", "int64", "float32", "float64")
    if node.op == "fixed_multiply":
        return len(node.inputs) == 3 and others[0] is not None and bool((others[0] >= 0).all())
    if node.op == "mul":
        return not integral and others[0] is not None and bool((others[0] >= 0).all())
    return False


def _as_said(node: Node, least: Array, most: Array) -> Range:
    """The range of a scaled sum, of which maybe nothing matters below zero, so that it is not one number there."""
    if node.op != "fixed_multiply" or not node.attributes["range"].endswith("positive"):
        return least, most
    return np.where(least < 0, _FAR, least), np.maximum(most, 0)


def _applied(node: Node, arrays: Mapping[Value, Array | None]) -> Array | None:
    """The operator on one number by channel; None where integers overflow."""
    operands = [None if value is None else arrays[value] for value in node.inputs]
    kinds = [None if value is None else dtypes.to_numpy(value.dtype) for value in node.inputs]
    x, other = operands[0], operands[-1]
    assert x is not None
    assert other is not None
    if node.op in ("add", "sub", "mul") and np.issubdtype(x.dtype, np.integer):
        by = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[node.op]
        made = by(x, other)
        return made if _fits((made, made), node.output.dtype) else None
    if node.op == "cast" and not _fits((x, x), node.output.dtype):
        return None
    # What is known of a range is known of elements, and not of an interval's ends.
    attributes = {**node.attributes, "range": "any"} if node.op == "fixed_multiply" else node.attributes
    typed = [None if a is None else a.astype(kind) for a, kind in zip(operands, kinds, strict=True)]
    (result,) = evaluate(node.op, typed, attributes)
    return result.astype(np.int64) if np.issubdtype(result.dtype, np.integer) else result


def _by_channel(value: Value, count: int) -> Array | None:
    """A constant as one number for each channel; None where it differs from place to place."""
    data = value.data
    if data is None or (data.size != 1 and (data.size != count or data.shape[-1] != count)):
        return None
    return np.broadcast_to(data.reshape(-1), (count,))


def _of_type(dtype: str) -> tuple[float, float] | tuple[int, int]:
    kind = dtypes.to_numpy(dtype)
    if not np.issubdtype(kind, np.integer):
        return -np.inf, np.inf
    info = np.iinfo(kind)
    return int(info.min), min(int(info.max), int(np.iinfo(np.int64).max))


def _fits(found: Range, dtype: str) -> bool:
    least, most = _of_type(dtype)
    return bool((found[0] >= least).all() and (found[1] <= most).all())


def with_channels(data: Array, kept: Array, count: int) -> Array:
    """A constant's channels that are kept; one that is the same for all stays."""
    return data if not data.shape or data.shape[-1] != count else np.ascontiguousarray(data[..., kept])
