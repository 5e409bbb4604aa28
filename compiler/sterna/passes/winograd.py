"""Convolutions by minimal filtering (Winograd): 2.25 to 5 times fewer products, rounded otherwise.

    conv  ->  winograd_input -> matmul -> winograd_output

One kernel transforms the tiles of all channels, the products of a tile's places are one batched matrix product, and
the last transform takes in what follows the convolution: bias, activation, a tensor that is added (`ops.winograd` has
the mathematics). Filters are transformed here, in double precision. Larger tiles save more products and round worse:
which convolutions get tiles, and of which size, is decided elsewhere (`sterna.fast`), by what `tile_choices` estimates
and by what they do to the model's outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np

from sterna.ir.graph import Array, Graph, Node, Value
from sterna.ops import winograd as minimal
from sterna.passes.context import PassContext
from sterna.passes.estimate import FAR_RATE, LEAST_GAIN, product_cycles
from sterna.passes.rewriting import Rewriting
from sterna.targets.target import Target

#: Outputs of a tile along a dimension, for a filter of so many taps there.
TILES = {1: (1,), 3: (2, 4, 6), 5: (2, 4)}
#: Places up to which a transform writes each to where it belongs at no further cost, and how many times as long it
#: takes with more: 64 of them are as many pages as a first-level TLB holds (measured: 6 x 6 takes longer than 4 x 4).
FEW_PLACES, FAR_APART = 48, 3
_FLOAT = 4  # bytes

Tile = tuple[int, ...]


@dataclass(frozen=True)
class TileChoice:
    """Tiles that a convolution may be computed by.

    Args:
        outputs: of a tile, per spatial dimension.
        cycles: estimated, of the convolution by such tiles.
    """

    outputs: Tile
    cycles: float


def applies(context: PassContext) -> bool:
    """Whether any convolution is to be computed by tiles."""
    return bool(context.options.tiles)


def winograd(graph: Graph, tiles: Mapping[str, Tile]) -> Graph:
    """The graph with convolutions by tiles.

    Args:
        tiles: outputs of a tile, by the name of the convolution's result.
    """
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        weights = filters(node)
        outputs = tiles.get(node.outputs[0].name) if weights is not None else None
        if weights is None or outputs is None:
            rewriting.keep(node)
        else:
            _by_tiles(rewriting, node, weights, outputs)
    return rewriting.finish()


def products_of(name: str) -> str:
    """The name of the products of tiles that a convolution becomes, by that of its result."""
    return f"{name}.products"


def filters(node: Node) -> Array | None:
    """The weights of a convolution that has a minimal form."""
    if node.op != "conv" or node.output.dtype != "float32" or not 3 <= node.output.type.rank <= 4:
        return None
    weights, settings = node.inputs[1], node.attributes
    if weights is None or weights.data is None or settings["groups"] != 1 or not node.output.type.is_static:
        return None
    taps = weights.data.shape[:-2]
    once = all(n == 1 for n in (*settings["strides"], *settings["dilations"]))
    if not once or not set(taps) <= set(TILES) or set(taps) == {1} or not np.isfinite(weights.data).all():
        return None
    return weights.data


def tile_choices(node: Node, target: Target, group: int = 1, least: float = LEAST_GAIN) -> tuple[TileChoice, ...]:
    """The tiles that are worth it, the smallest first; each of them faster than those before it.

    Args:
        group: of `product_cycles`, of the definition's products and of those of tiles.
        least: what each has to gain by the estimate; below 0, what it may lose.
    """
    weights = filters(node)
    if weights is None:
        return ()
    *taps, depth, channels = weights.shape
    batch, *sizes, _ = (int(n) for n in node.output.shape)
    lanes = target.lanes(32)
    definition = prod(taps) * product_cycles(depth, channels, batch * prod(sizes), target, prod(taps), group)
    found: list[TileChoice] = []
    largest = max(len(TILES[r]) for r in taps)
    for level in range(largest):
        outputs = tuple(TILES[r][min(level, len(TILES[r]) - 1)] for r in taps)
        count = batch * prod(ceil(n / m) for n, m in zip(sizes, outputs, strict=True))
        places = minimal.places(outputs, taps)
        cycles = places * product_cycles(depth, channels, count, target, places, group)
        cycles += count * (ceil(depth / lanes) + ceil(channels / lanes)) * _transform_cycles(outputs, taps, target)
        between = places * count * (depth / group + channels) * _FLOAT
        cycles += max(0.0, between - target.l2_bytes / 2) / FAR_RATE
        best = min([definition, *(choice.cycles for choice in found)])
        if cycles <= (1 - least) * best:
            found.append(TileChoice(outputs, cycles))
    return tuple(found)


def _transform_cycles(outputs: Tile, taps: list[int], target: Target) -> float:
    """Cycles that a transform of one tile takes for a vector of channels: sums along every dimension, loads and stores,
    more of them where registers do not hold all places."""
    inputs = [m + r - 1 for m, r in zip(outputs, taps, strict=True)]
    places = prod(inputs)
    sums = sum(places * max(0, n - 2) / 2 for n in inputs)
    moved = 2 * places * (2 if places > target.vector_registers else 1)
    return (sums / target.rate + moved) * (FAR_APART if places > FEW_PLACES else 1)


def _by_tiles(rewriting: Rewriting, node: Node, weights: Array, outputs: Tile) -> None:
    taps = weights.shape[:-2]
    settings: dict[str, Any] = {"outputs": outputs, "taps": taps}
    turned = minimal.filter_places(weights, outputs).astype(np.float32)
    builder = rewriting.builder
    x = _whole_tiles(rewriting, node, outputs)
    inputs = builder.add("winograd_input", x, sources=node.sources, **settings)
    filters_ = builder.constant(turned, f"{node.output.name}.places")
    products = builder.add("matmul", inputs, filters_, sources=node.sources, name=products_of(node.output.name))
    rewriting.emit(node, "winograd_output", products, sizes=node.output.shape[:-1], **settings)


def _whole_tiles(rewriting: Rewriting, node: Node, outputs: Tile) -> Value:
    """The input with further elements where the last tiles reach beyond it: nothing that is kept depends on them."""
    x = rewriting.operands(node)[0]
    assert x is not None
    sizes = [int(n) for n in node.output.shape[1:-1]]
    after = (0, *(-size % m for size, m in zip(sizes, outputs, strict=True)), 0)
    if not any(after):
        return x
    before: tuple[int, ...] = (0,) * len(after)
    inner = rewriting.made_by(x, "pad")
    settings = {} if inner is None else inner.attributes
    if inner is not None and settings["mode"] == "constant" and np.isfinite(settings["value"]):
        # One pad in place of two.
        (x,) = inner.operands
        before = settings["before"]
        after = tuple(a + b for a, b in zip(after, settings["after"], strict=True))
        value = settings["value"]
    else:
        value = 0.0
    return rewriting.builder.add("pad", x, before=before, after=after, mode="constant", value=value)
