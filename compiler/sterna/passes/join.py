"""Joins groups that one kernel computes better than several: what they hand each other is never stored.

A recognizer finds the nodes of such kernels and decides whether that pays on the target. What it finds replaces the
groups; pads among them are no matter of storage any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sterna.ir.graph import Graph, Node
from sterna.passes.attention import find_attention
from sterna.passes.context import PassContext
from sterna.passes.decisions import Decide
from sterna.passes.fuse import Group
from sterna.passes.im2col import find_im2col
from sterna.passes.normalized_rows import find_normalized_rows
from sterna.passes.padded import find_padded
from sterna.passes.padded_windows import find_padded_windows
from sterna.passes.partition import Partition
from sterna.passes.separable import find_separable
from sterna.passes.stages import Grouped
from sterna.targets.target import Target

Chains = tuple[tuple[Node, ...], ...]

#: What finds the nodes of kernels, in order and disjoint, in one graph; those of its regions are asked for apart. What
#: one has found is left alone by those after it.
RECOGNIZERS: tuple[Callable[[Partition, Target, Decide], Chains], ...] = (
    find_separable,
    find_attention,
    find_padded,
    find_padded_windows,
    find_im2col,
)


#: Those of kernels that groups of threads run; chains are a pass of their own (`passes.chains`).
GROUPS: tuple[Callable[[Partition, Target, Decide], Chains], ...] = (find_attention, find_normalized_rows)
#: Those whose kernels may be parts of larger ones, as softmax may.
PARTS = (find_normalized_rows,)


def join(grouped: Grouped, context: PassContext) -> Grouped:
    """The groups, with those of one kernel as one."""
    decide = context.decide
    groups: dict[Graph, tuple[Group, ...]] = {}
    computed: set[Node] = set()
    for graph, apart in grouped.groups.items():
        partition = Partition(graph, grouped.views, apart)
        chains: Chains = ()
        plain: set[tuple[Node, ...]] = set()
        for find in RECOGNIZERS if context.target.threads is None else GROUPS:
            taken = {node for chain in chains for node in chain}
            found = tuple(chain for chain in find(partition, context.target, decide) if taken.isdisjoint(chain))
            chains += found
            plain.update(found if find in PARTS else ())
        made = partition.joined(chains) if chains else apart
        groups[graph] = tuple(replace(group, joined=False) if group.nodes in plain else group for group in made)
        views = grouped.views
        computed |= {n for chain in chains for n in chain if n in views.written or n in views.removed}
    views = grouped.views.computing(computed) if computed else grouped.views
    return Grouped(grouped.graph, views, groups)
