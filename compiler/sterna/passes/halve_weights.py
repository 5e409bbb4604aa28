"""Weights of products that wait for them, rounded to float16: half of what memory has to deliver.

Of products with few rows, as dense layers of one row, reading the weights takes longer than multiplying by them. What
is rounded here loses nothing where it is stored in 16 bits, so that kernels read it in those (`plan_kernels`). Which
products that are is decided elsewhere (`sterna.fast`), by what `reads_half` estimates and by what it does to the
model's outputs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

import numpy as np

from sterna.ir.graph import Array, Graph, Node, Value
from sterna.passes.context import PassContext
from sterna.passes.estimate import FAR_RATE
from sterna.passes.plan_kernels import LARGE
from sterna.passes.rewriting import Rewriting
from sterna.schedule.strategies.weights import DEPTH
from sterna.targets.target import Target

#: Of the time of a product, the most that its arithmetic may take: widening comes on top.
MOST_ARITHMETIC = 0.6


def applies(context: PassContext) -> bool:
    """Whether any weights are to be rounded."""
    return bool(context.options.halves)


def halve_weights(graph: Graph, names: Collection[str]) -> Graph:
    """The graph with the weights of some products rounded.

    Args:
        names: of the products' results.
    """
    rewriting, rounded = Rewriting(graph), False
    for node in graph.nodes:
        weights = _weights(node) if node.outputs[0].name in names else None
        if weights is None:
            rewriting.keep(node)
            continue
        with np.errstate(over="ignore"):
            data = weights.astype(np.float16).astype(np.float32)
        constant = rewriting.builder.constant(data, f"{node.output.name}.halves")
        x: Value | None = rewriting.operands(node)[0]
        rewriting.emit(node, node.op, x, constant, **node.attributes)
        rounded = True
    made = rewriting.finish()
    return replace(made, halves=made.halves | {"float16"}) if rounded else made


def reads_half(node: Node, target: Target) -> bool:
    """Whether a product waits for its weights so much that half of them is worth the rounding."""
    weights = _weights(node)
    if weights is None or not node.output.type.is_static or weights.nbytes <= target.l2_bytes:
        return False
    *outer, depth, _ = weights.shape
    inner = depth if node.op == "matmul" else prod(outer) * depth
    if inner < DEPTH or weights.size < LARGE:
        return False
    multiply_adds = int(node.output.type.elements) * inner
    arithmetic = multiply_adds / (target.lanes(32) * target.rate)
    return bool(arithmetic <= MOST_ARITHMETIC * weights.nbytes / FAR_RATE)


def _weights(node: Node) -> Array | None:
    """The constant factor of a product."""
    if node.op not in ("matmul", "conv") or node.output.dtype != "float32":
        return None
    return node.operands[1].data
