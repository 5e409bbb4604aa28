"""Finds what one attention kernel computes (`schedule.strategies.attention`).

matmul, scale, mask -> softmax -> matmul

Softmax may be followed by a guard, `where(is_nan(y), 0, y)`, of rows of which nothing is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from sterna.ir.graph import Node, Value
from sterna.ops.formulas import HALF
from sterna.passes.decisions import Decide, by_rule
from sterna.passes.fuse import Group
from sterna.passes.partition import Partition
from sterna.passes.rewriting import splat
from sterna.passes.views import Views
from sterna.schedule.strategies.attention import LEAST_ROWS, block_rows
from sterna.schedule.strategies.group_attention import group_of
from sterna.schedule.strategies.group_attention_fragments import keys_of
from sterna.targets.target import Target
from sterna.te.layout import most_elements

_FLOAT = 4  # bytes
#: The share of L2 that scores must take to be worth one kernel: less than that stays there between kernels.
SHARE_THAT_STAYS = 0.5


def find_attention(partition: Partition, target: Target, decide: Decide = by_rule) -> tuple[tuple[Node, ...], ...]:
    """The nodes of each such kernel, in order."""
    if not any(node.op == "softmax" for node in partition.graph.nodes):
        return ()
    found: tuple[tuple[Node, ...], ...] = ()
    for group in partition.made.values():
        product = _product(group, partition.views)
        middle = partition.alone(product.inputs[0], product) if product is not None else None
        if product is None or middle is None or not _softmax(middle.nodes):
            continue
        softmax = middle.nodes[0]
        first = partition.alone(softmax.inputs[0], softmax)
        scores = _product(first, partition.views) if first is not None else None
        if first is None or scores is None or not _can(scores, product, target):
            continue
        chain = partition.in_order((*first.nodes, *middle.nodes, *group.nodes))
        if decide("joined", chain, (True, False), _pays(scores.output, target)):
            found += (chain,)
    return found


def _product(group: Group, views: Views) -> Node | None:
    """The matrix product of a group that has nothing else but element-wise nodes after it: of two computed matrices
    per batch, the second of which has its columns side by side."""
    node = group.nodes[0]
    if node.op != "matmul" or [n.op for n in group.nodes].count("matmul") != 1:
        return None
    left, right = node.operands
    if left.is_constant or right.is_constant or not left.shape[:-2] == right.shape[:-2] == node.output.shape[:-2]:
        return None
    if any(n == 1 for n in (*left.shape[-2:], right.shape[-1])):
        return None
    return node if views.storage(right).strides[-1] == 1 else None


def _softmax(nodes: Sequence[Node]) -> bool:
    """Whether nodes are softmax of rows, maybe with zeros in the place of what is no number."""
    node, *guard = nodes
    if node.op != "softmax" or node.attributes["axis"] % node.output.type.rank != node.output.type.rank - 1:
        return False
    if not guard:
        return True
    if [each.op for each in guard] != ["is_nan", "where"]:
        return False
    missing, chosen = guard
    condition, zero, otherwise = chosen.operands
    asked = missing.operands[0] is node.output and condition is missing.output and otherwise is node.output
    return asked and chosen.output.shape == node.output.shape and splat(zero) == 0


def _can(product: Node, values: Node, target: Target) -> bool:
    """Whether blocks of rows of the scores stay in L2; groups of threads have no scores to store, of open sizes
    neither, and compute in 16 bits on fragments of matrices."""
    scores, depth, width = product.output, product.operands[0].shape[-1], values.output.shape[-1]
    if scores.dtype != values.output.dtype or scores.dtype not in ("float32", *HALF):
        return False
    known = all(n.is_const for node in (product, values) for each in node.operands for n in each.shape)
    if not known and (target.threads is None or not (depth.is_const and width.is_const)):
        return False
    columns = int(width)
    if scores.dtype in HALF:
        return keys_of(int(depth), columns, scores.dtype, target) > 0
    if target.threads is not None:
        return group_of(columns, target) is not None
    return block_rows(int(scores.shape[-1]), target, _FLOAT) >= LEAST_ROWS


def _pays(scores: Value, target: Target) -> bool:
    """Whether all of the scores do not stay there."""
    return target.threads is not None or most_elements(scores.shape) * _FLOAT > SHARE_THAT_STAYS * target.l2_bytes


__all__ = ["find_attention"]
