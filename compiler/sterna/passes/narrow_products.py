"""Products whose factors are rounded to 16 bits, added up in float32, where the processor multiplies those faster.

    matmul  ->  cast -> matmul_widening        pad -> conv  ->  cast -> pad -> conv_widening

The cast joins what makes the factor, and what lies between takes half of the memory. Weights are rounded here. Which
products that are is decided elsewhere (`sterna.fast`), by what `narrow_choice` estimates and by what it does to the
model's outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, Value
from sterna.passes.context import PassContext
from sterna.passes.estimate import LEAST_GAIN, product_cycles
from sterna.passes.rewriting import Rewriting
from sterna.targets.target import Target

#: Cycles to round a vector of float32 numbers that nothing else is done with, and to store it.
_ROUNDING = 6.0


@dataclass(frozen=True)
class NarrowChoice:
    """Factors that a product may be computed of.

    Args:
        dtype: that they are rounded to.
        group: of them that one instruction adds up per lane.
        cycles: estimated, of the product; exact: of the product as it is.
    """

    dtype: str
    group: int
    cycles: float
    exact: float


def applies(context: PassContext) -> bool:
    """Whether any factors are to be rounded."""
    return bool(context.options.narrow)


def narrow_products(graph: Graph, narrow: Mapping[str, str]) -> Graph:
    """The graph with the factors of some products rounded.

    Args:
        narrow: the type that they are rounded to, by the name of the product's result.
    """
    rewriting = Rewriting(graph)
    rounded: dict[tuple[Value, str], Value] = {}
    for node in graph.nodes:
        dtype = narrow.get(node.outputs[0].name, "")
        weights = _weights(node) if dtype else None
        if weights is None:
            rewriting.keep(node)
            continue
        with np.errstate(over="ignore"):
            data = weights.astype(dtypes.to_numpy(dtype))
        constant = rewriting.builder.constant(data, f"{node.output.name}.{dtype}")
        x = _rounded(rewriting, node, dtype, rounded)
        rewriting.emit(node, f"{node.op}_widening", x, constant, **node.attributes)
    return rewriting.finish()


def narrow_choice(node: Node, target: Target) -> NarrowChoice | None:
    """What the factors of a product may be rounded to, if that is worth it."""
    weights = _weights(node)
    if weights is None or not node.output.type.is_static or not np.isfinite(weights).all():
        return None
    *outer, depth, columns = weights.shape
    if node.op == "conv" and node.attributes["groups"] != 1:
        return None
    batch, taps = (prod(outer), 1) if node.op == "matmul" else (1, prod(outer))
    rows = int(node.output.type.elements) // (columns * batch)
    found = None
    for intrinsic in target.dot_products:
        left, right = intrinsic.operands
        if intrinsic.dtype != "float32" or left != right or depth < intrinsic.group:
            continue
        exact, cycles = (
            batch * taps * product_cycles(depth, columns, rows, target, batch * taps, group)
            for group in (1, intrinsic.group)
        )
        cycles += _ROUNDING * ceil(int(node.operands[0].type.elements) / target.lanes(32))
        if cycles <= (1 - LEAST_GAIN) * min(exact, found.cycles if found is not None else exact):
            found = NarrowChoice(left, intrinsic.group, cycles, exact)
    return found


def _weights(node: Node) -> Array | None:
    """The constant factor of a product that float32 numbers are multiplied by."""
    if node.op not in ("matmul", "conv") or node.output.dtype != "float32":
        return None
    return node.operands[1].data if node.operands[0].data is None else None


def _rounded(rewriting: Rewriting, node: Node, dtype: str, known: dict[tuple[Value, str], Value]) -> Value:
    """The other factor in another type: rounded once, and before it is padded."""
    x = rewriting.operands(node)[0]
    assert x is not None
    if (x, dtype) in known:
        return known[x, dtype]
    pad = rewriting.made_by(x, "pad")
    if pad is not None and pad.attributes["mode"] == "constant":
        (inner,) = pad.operands
        given = _cast(rewriting, node, inner, dtype, known)
        found = rewriting.builder.add("pad", given, sources=node.sources, **pad.attributes)
        known[x, dtype] = found
        return found
    return _cast(rewriting, node, x, dtype, known)


def _cast(rewriting: Rewriting, node: Node, x: Value, dtype: str, known: dict[tuple[Value, str], Value]) -> Value:
    if (x, dtype) not in known:
        name = f"{x.name}.{dtype}"
        known[x, dtype] = rewriting.builder.add("cast", x, sources=node.sources, name=name, to=dtype)
    return known[x, dtype]
