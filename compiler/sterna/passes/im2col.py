"""Convolutions of few channels whose windows are laid out as rows of a matrix (im2col) before they are multiplied.

A dot product into one sum takes neighbours in memory, sixteen bytes of them on Helium. Of an image with one channel
neighbours are one row of a window, four bytes say, and the rest of the instruction multiplies nothing. Laid out, a
window of ten such rows is forty neighbours: three instructions instead of ten for every column. One kernel does both, a
tile of positions at a time (`find_im2col`, `schedule.strategies.dot`), so that no matrix of all windows is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sterna.intrinsics import Intrinsic
from sterna.ir import dtypes
from sterna.ir.graph import Graph, Node
from sterna.passes.decisions import Decide, by_rule
from sterna.passes.partition import Partition
from sterna.passes.rewriting import Rewriting, constant_data
from sterna.schedule.products import contains
from sterna.targets.target import Target

#: Instructions of a step for each column, with its loads, and to copy a vector of a window, with its loop.
_STEP, _COPY = 1.75, 4
#: The least gain, of the instructions that a copy takes.
_LEAST = 3


def applies(target: Target) -> bool:
    """Whether the target has dot products of vectors of bytes into one sum."""
    return target.lanes(8) > 1 and bool(_products(target))


def _products(target: Target) -> list[Intrinsic]:
    known = target.known_intrinsics
    return [known[name] for name in target.int_dot if known[name].lanes == 1]


def im2col(graph: Graph, target: Target) -> Graph:
    """The graph with such convolutions as products of the windows, laid out, by matrices of weights."""
    products = _products(target)
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if not _pays(node, products, target):
            rewriting.keep(node)
            continue
        x, w = rewriting.operands(node)
        weights = constant_data(node.inputs[1])
        assert x is not None
        assert w is not None
        assert weights is not None
        kernel, ones = weights.shape[:-2], (1,) * (weights.ndim - 2)
        builder, settings = rewriting.builder, node.attributes
        rows = builder.add(
            "im2col", x, kernel=kernel, strides=tuple(settings["strides"]), dilations=tuple(settings["dilations"]),
            sources=node.sources, name=f"{node.name}/im2col",
        )  # fmt: skip
        matrix = builder.constant(weights.reshape(*ones, -1, weights.shape[-1]), w.name)
        rewriting.emit(node, "conv_integer", rows, matrix, strides=ones, dilations=ones, groups=1)
    return rewriting.finish()


def _pays(node: Node, products: Sequence[Intrinsic], target: Target) -> bool:
    """Whether a convolution takes fewer instructions so."""
    if node.op != "conv_integer" or node.attributes["groups"] != 1 or not node.operands[0].type.is_static:
        return False
    x, w = node.operands
    group = next((each.group for each in products if _takes(each, x.dtype, w.dtype)), 0)
    if not group or constant_data(w) is None:
        return False
    *kernel, channels, columns = (int(n) for n in w.shape)
    if columns == 1 or prod(int(n) for n in node.output.shape[:-1]) == 1:
        return False
    # Rows of a window lie side by side where its elements are neighbours.
    beside = channels * (kernel[-1] if node.attributes["dilations"][-1] == 1 else 1)
    runs = prod(kernel) * channels // beside
    saved = runs * -(-beside // group) - -(-runs * beside // group)
    copied = runs * -(-beside // target.lanes(dtypes.bits(x.dtype)))
    return saved * columns * _STEP >= _LEAST * copied * _COPY


def _takes(product: Intrinsic, left: str, right: str) -> bool:
    """Whether a dot product takes operands of these types: the left one as it is, the right one widened maybe."""
    return product.operands[0] == left and contains(product.operands[1], right)


def find_im2col(partition: Partition, target: Target, decide: Decide = by_rule) -> tuple[tuple[Node, ...], ...]:
    """The nodes of each kernel that lays out windows and multiplies them, in order: no matter of choice, since a matrix
    of all windows is what the layout of a window avoids."""
    found = []
    for group in partition.groups:
        for node in group.nodes:
            rows = partition.producers.get(node.operands[0]) if node.op == "conv_integer" else None
            if rows is not None and rows.op == "im2col" and partition.alone(rows.output, node) is not None:
                found.append(partition.in_order((rows, *group.nodes)))
    return tuple(found)


__all__ = ["applies", "find_im2col", "im2col"]
