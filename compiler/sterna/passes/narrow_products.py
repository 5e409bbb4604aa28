"""Products whose factors are rounded where the machine multiplies those faster: to 16 bits, added up in float32, or in
float16 for as long as that loses little; to TF32 for fragments of matrices.

    matmul  ->  cast -> matmul_widening        pad -> conv  ->  cast -> pad -> conv_widening

The cast joins what makes the factor, and what lies between takes half of the memory. Weights are rounded here. Factors
in TF32 stay float32 in memory, and are rounded where they are multiplied (`ops.contraction.FACTORS`). Which products
that are is decided elsewhere (`sterna.fast`), by what `narrow_choices` estimates and by what it does to the model's
outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf, prod

import numpy as np

from sterna.intrinsics import FRAGMENTS
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, Value
from sterna.passes.context import PassContext
from sterna.passes.estimate import LEAST_GAIN, product_cycles
from sterna.passes.rewriting import Rewriting
from sterna.schedule.strategies.fragment_plan import FEW
from sterna.targets.target import Target

#: Of products of float16 that are added up in float16, the most. Measured on a convolution of random numbers (3 x 3,
#: 128 channels): by parts of 128 it is off by 1.8e-3 of the largest element, of 64 1.4e-3, of 32 8.3e-4, and 64-bit ARM
#: takes 0.53, 0.56, 0.61 of float32's instructions.
MOST_OF_A_PART = 32
#: And the least: beyond that, what is done for a part takes as long as its products.
_LEAST_OF_A_PART = 8
#: What factors of fragments of float32 are rounded to.
TF32 = "tf32"
#: Cycles to round a vector of float32 numbers that nothing else is done with, and to store it.
_ROUNDING = 6.0


@dataclass(frozen=True)
class NarrowChoice:
    """Factors that a product may be computed of.

    Args:
        dtype: that they are rounded to, or TF32.
        group: how many times as many of them as of float32 an instruction multiplies.
        cycles: estimated, of the product; exact: of the product as it is.
        many: whether it serves many products side by side, as tiles of a convolution are.
    """

    dtype: str
    group: int
    many: bool
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
        if dtype == TF32:
            operands = rewriting.operands(node)
            rewriting.emit(node, f"{node.op}_widening", *operands, factors=TF32, **node.attributes)
            continue
        with np.errstate(over="ignore"):
            data = weights.astype(dtypes.to_numpy(dtype))
        constant = rewriting.builder.constant(data, f"{node.output.name}.{dtype}")
        x = _rounded(rewriting, node, dtype, rounded)
        chunk = part_of(weights.shape[-2]) if dtype == "float16" else 0
        rewriting.emit(node, f"{node.op}_widening", x, constant, chunk=chunk, **node.attributes)
    return rewriting.finish()


def narrow_choices(node: Node, target: Target, least: float = LEAST_GAIN) -> tuple[NarrowChoice, ...]:
    """What the factors of a product may be rounded to where that is worth it, what rounds least first; each faster than
    those before it.

    Args:
        least: what each has to gain by the estimate; below 0, what it may lose.
    """
    weights = _weights(node)
    if weights is None or not node.output.type.is_static or not np.isfinite(weights).all():
        return ()
    if node.op == "conv" and node.attributes["groups"] != 1:
        return ()
    *outer, depth, columns = weights.shape
    many, taps = (prod(outer), 1) if node.op == "matmul" else (1, prod(outer))
    rows = int(node.output.type.elements) // (columns * many)

    def estimate(group: int) -> float:
        return many * taps * product_cycles(depth, columns, rows, target, many * taps, group)

    rounding = _ROUNDING * ceil(int(node.operands[0].type.elements) / target.lanes(32))
    exact, found = estimate(1), list[NarrowChoice]()
    share = _by_fragments(node, (rows, prod(outer) * depth if node.op == "conv" else depth, columns), target)
    if share <= 1 - least:
        found.append(NarrowChoice(TF32, 1, False, share * exact, exact))
    for dtype, group, whole in _ways(target):
        if depth < group or (many > 1 and not whole) or not (whole or (part := part_of(depth))):
            continue
        cycles = estimate(group) + rounding
        if not whole:
            # The sums of a part are widened and added to those in float32.
            cycles += 2 * taps * (depth / part) * rows * ceil(columns / target.lanes(32)) / target.rate
        if cycles <= (1 - least) * min([exact, *(choice.cycles for choice in found)]):
            found.append(NarrowChoice(dtype, group, whole, cycles, exact))
    return tuple(found)


def _by_fragments(node: Node, sizes: tuple[int, int, int], target: Target) -> float:
    """Of what a product takes on a device, the share that it takes on fragments of TF32; infinite where there are none,
    or they would be mostly empty.

    Args:
        sizes: rows, depth and columns.
    """
    device, rounded = target.device, {FRAGMENTS[name].settings["rounding"] for name in target.fragments}
    if device is None or min(sizes) < FEW or TF32 not in rounded:
        return inf
    work = int(node.output.type.elements) * sizes[1]
    moved = sum(int(value.type.elements) * dtypes.size(value.dtype) for value in (*node.operands, node.output))
    by_threads, by_fragments = work / device.multiply_adds_per_ns, work / device.fragment_rate(dtypes.bits("float32"))
    return max(by_fragments, moved / device.bytes_per_ns) / max(by_threads, moved / device.bytes_per_ns)


def part_of(depth: int) -> int:
    """How many products of float16 are added up in float16, of so many; 0: no such number divides them."""
    most = max(n for n in range(1, MOST_OF_A_PART + 1) if depth % n == 0)
    eights = max((n for n in range(8, MOST_OF_A_PART + 1, 8) if depth % n == 0), default=0)
    found = eights if 2 * eights >= most else most
    return found if found >= _LEAST_OF_A_PART else 0


def _ways(target: Target) -> list[tuple[str, int, bool]]:
    """The types that a target multiplies faster than float32, what rounds least first: how many times as many numbers,
    and whether sums are in float32."""
    found: dict[tuple[str, int, bool], None] = {}
    for intrinsic in target.dot_products:
        left, right = intrinsic.operands
        if left == right and intrinsic.dtype == "float32":
            found[left, intrinsic.group, True] = None
        elif left == right == intrinsic.dtype == "float16" and intrinsic.group == 1:
            found[left, intrinsic.lanes // target.lanes(32), False] = None
    return sorted(found, key=lambda way: way[0] != "float16")


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
