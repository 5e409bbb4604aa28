"""Products of two matrices of bytes that are both computed: attention of quantized models.

Dot products add up neighbouring bytes, so that a constant right operand is packed with groups of its rows side by side.
One that is computed is written in that order by a kernel of its own, which takes a small part of the product's time.
"""

from __future__ import annotations

from typing import Any

from sterna.ir.graph import Graph, Node, Value
from sterna.passes.context import PassContext
from sterna.passes.rewriting import Rewriting

#: What a byte of the other signedness is less, or more.
_OFFSET = 128


def applies(context: PassContext) -> bool:
    """Whether the target has dot products of bytes."""
    return bool(context.target.int_dot)


def group_operands(graph: Graph, context: PassContext) -> Graph:
    """The graph with such products on right operands in the order of dot products."""
    known = [context.target.known_intrinsics[name] for name in context.target.int_dot]
    found = [each for each in known if each.operands[1] == "int8" and each.plain]
    chosen = {node for node in graph.nodes if _fits(node)} if found else set()
    if not chosen:
        return graph
    lefts = {each.operands[0] for each in found}
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if node in chosen:
            _replace(node, rewriting, found[0].group, max(each.lanes for each in found), lefts)
        else:
            rewriting.keep(node)
    return rewriting.finish()


def _fits(node: Node) -> bool:
    """Whether a product is worth the copy: of bytes, signed on the right, several rows and columns, not shallow."""
    if node.op != "matmul_integer" or any(value.is_constant for value in node.operands):
        return False
    a, b = node.operands
    rows, (depth, columns) = a.shape[-2], b.shape[-2:]
    known = b.type.is_static and a.shape[:-2] == b.shape[:-2]
    wide = known and int(depth) >= 8 and int(columns) >= 4 and (not rows.is_const or int(rows) >= 4)
    return wide and b.dtype == "int8" and a.dtype in ("int8", "uint8")


def _replace(node: Node, rewriting: Rewriting, group: int, lanes: int, lefts: set[str]) -> None:
    a, b = rewriting.operands(node)
    assert a is not None
    assert b is not None
    columns = int(b.shape[-1])
    builder = rewriting.builder

    def add(op: str, *inputs: Value, **attributes: Any) -> Value:
        return builder.add(op, *inputs, sources=node.sources, name=f"{node.name}/{op}", **attributes)

    left, excess = a, None
    if a.dtype not in lefts:
        # The left operand with the other signedness; what that makes the sums larger is taken off again.
        more = _OFFSET if a.dtype == "int8" else -_OFFSET
        wide = add("add", add("cast", a, to="int32"), builder.constant(more, "offset", "int32"))
        left = add("cast", wide, to="uint8" if a.dtype == "int8" else "int8")
        total = add("reduce_sum", add("cast", b, to="int32"), axes=(b.type.rank - 2,), keep_dims=True)
        excess = add("mul", total, builder.constant(more, "offset", "int32"))
    packed = add("group_rows", b, group=group, columns=lanes)
    if excess is None:
        rewriting.emit(node, "matmul_grouped", left, packed, columns=columns)
    else:
        rewriting.emit(node, "sub", add("matmul_grouped", left, packed, columns=columns), excess)
