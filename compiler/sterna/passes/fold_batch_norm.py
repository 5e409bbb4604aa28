"""Folds scales and shifts by constants into the contraction they follow: what is left of a batch normalization."""

from __future__ import annotations

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, Value
from sterna.passes.rewriting import Rewriting

CONTRACTIONS = ("conv", "conv_transpose", "matmul")


def fold_batch_norm(graph: Graph) -> Graph:
    """Multiplies per-channel factors into weights and adds up shifts: (x W + b) f + s becomes x (W f) + (b f + s).

    Only where nothing else reads the values in between, so that no work is done twice.
    """
    rewriting = Rewriting(graph)
    users = graph.users()
    outputs = set(graph.outputs)

    def alone(value: Value) -> bool:
        return value not in outputs and len(users.get(value, ())) == 1

    for node in graph.nodes:
        split = _scale_or_shift(rewriting, node)
        if split is None or not alone(split[0]) or not _fold(rewriting, node, *split, alone):
            rewriting.keep(node)
    return rewriting.finish()


def _scale_or_shift(r: Rewriting, node: Node) -> tuple[Value, Array] | None:
    """The operand and the constant of a node that scales or shifts the last dimension."""
    if node.op not in ("mul", "add", "sub"):
        return None
    a, b = r.operands(node)
    if a is not None and a.data is not None and node.op != "sub":
        a, b = b, a
    if a is None or b is None or a.data is not None or b.data is None:
        return None
    if a.type != node.output.type or not dtypes.is_float(a.dtype) or any(size != 1 for size in b.data.shape[:-1]):
        return None
    return a, b.data.reshape(-1)


def _fold(r: Rewriting, node: Node, x: Value, c: Array, alone: object) -> bool:
    assert callable(alone)
    inner = r.made_by(x, *CONTRACTIONS, "add")
    if inner is None:
        return False
    if inner.op == "add":
        shifted = _scale_or_shift(r, inner)
        if shifted is None:
            return False
        y, b = shifted
        if node.op != "mul":
            total = b + c if node.op == "add" else b - c
            r.emit(node, "add", y, r.builder.constant(total, f"{node.name}/shift"), joined=inner)
            return True
        contraction = r.made_by(y, *CONTRACTIONS)
        if contraction is None or not alone(y):
            return False
        scaled = _scaled(r, contraction, c)
        if scaled is None:
            return False
        r.emit(node, "add", scaled, r.builder.constant(b * c, f"{node.name}/shift"), joined=inner)
        return True
    if node.op != "mul":
        return False
    scaled = _scaled(r, inner, c, node)
    return scaled is not None


def _scaled(r: Rewriting, contraction: Node, c: Array, place: Node | None = None) -> Value | None:
    """The contraction with its output channels (its weight's last dimension) scaled; None if the weight varies."""
    x, w = contraction.inputs
    if w is None or w.data is None:
        return None
    product = (w.data * c).astype(w.data.dtype, copy=False)
    if product.shape != w.data.shape:
        return None
    weight = r.builder.constant(np.asarray(product), w.name)
    if place is not None:
        return r.emit(place, contraction.op, x, weight, joined=contraction, **contraction.attributes)
    return r.builder.add(
        contraction.op, x, weight, sources=contraction.sources, name=contraction.name, **contraction.attributes
    )
