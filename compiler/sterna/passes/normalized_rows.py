"""Finds rows that are divided by, or otherwise combined with, what a reduction makes of them (`strategies/group_rows`).

x -> x * x, mean, 1 / sqrt(mean + epsilon) -> x * that, times weights

Root mean square normalization and division by a norm are such. By groups of threads it is one launch, as softmax and
layer normalization are, whose threads read x again while it is in the cache of their multiprocessor.
"""

from __future__ import annotations

from math import prod

from sterna.ir import dtypes
from sterna.ir.graph import Node, Value
from sterna.ops import operator
from sterna.ops.operator import Fusion
from sterna.passes.decisions import Decide, by_rule
from sterna.passes.fuse import LIMIT, Group
from sterna.passes.partition import Partition
from sterna.targets.target import Target

#: Bytes of the longest row of which one group has all where not every multiprocessor has a row: longer ones are better
#: spread over all of them, once it is known what the rows are combined with.
LONGEST = 32 << 10


def find_normalized_rows(
    partition: Partition, target: Target, decide: Decide = by_rule
) -> tuple[tuple[Node, ...], ...]:
    """The nodes of each such kernel, in order."""
    found: list[tuple[Node, ...]] = []
    for group in partition.made.values():
        if not _is_elementwise(group):
            continue
        reduced = _reduced(partition, group, target)
        if reduced is None or len(reduced.nodes) + len(group.nodes) > LIMIT:
            continue
        chain = partition.in_order((*reduced.nodes, *group.nodes))
        if decide("joined", chain, (True, False), True):
            found.append(chain)
    return tuple(found)


def _is_elementwise(group: Group) -> bool:
    shape = group.outputs[0].shape
    return len(group.outputs) == 1 and all(
        not n.regions and operator(n.op).fusion is Fusion.BROADCAST and n.output.shape == shape for n in group.nodes
    )


def _reduced(partition: Partition, group: Group, target: Target) -> Group | None:
    """The group that makes of the rows of a tensor what an element-wise group combines with the same rows."""
    inside = {value for node in group.nodes for value in node.outputs}
    read = [(value, node) for node in group.nodes for value in node.operands if value not in inside]
    rows = [value for value, _ in read if not value.is_constant and value.shape == group.outputs[0].shape]
    for value, node in read:
        made = partition.alone(value, node) if not value.is_constant and value not in rows else None
        if made is not None and len(made.outputs) == 1 and any(_reduces(made, x, target) for x in rows):
            return made
    return None


def _reduces(group: Group, x: Value, target: Target) -> bool:
    """Whether a group reads a tensor, and reduces its rows, of known length: the last axes, which stay as ones."""
    if not any(value is x for node in group.nodes for value in node.operands):
        return False
    reductions = [node for node in group.nodes if operator(node.op).fusion is not Fusion.BROADCAST]
    if len(reductions) != 1 or "reduction" not in operator(reductions[0].op).tags:
        return False
    (node,) = reductions
    rank, axes = x.type.rank, node.attributes.get("axes", ())
    last = {axis % rank for axis in axes} == {*range(rank - len(axes), rank)}
    kept = node.attributes.get("keep_dims", False) and node.operands[0].shape == x.shape
    first = rank - len(axes)
    if not (axes and last and kept and all(size.is_const for size in x.shape[first:])):
        return False
    row = prod(map(int, x.shape[first:])) * dtypes.size(x.dtype)
    if row <= LONGEST or target.threads is None:
        return True
    known = all(size.is_const for size in x.shape[:first])
    return known and prod(map(int, x.shape[:first])) >= target.threads.multiprocessors
