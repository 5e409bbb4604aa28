"""Gives every output of the graph storage of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value
from sterna.passes.rewriting import Rewriting

#: Elements of a constant from which on it is made of the number that most of them are: its bytes are neither kept nor
#: read then.
LARGE = 1024
#: The greatest share of elements that are something else.
OTHERS = 1 / 16


def materialize_outputs(graph: Graph) -> Graph:
    """Copies outputs that are inputs, constants or another output, so that each is the result of a node of its own.

    Constants that are one number but for a few elements are not copied but made.
    """
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        rewriting.keep(node)
    seen: set[Value] = set(graph.inputs)
    outputs = []
    for name, value in zip(graph.output_names, graph.outputs, strict=True):
        result = value
        if value.is_constant or value in seen:
            made = _scattered(rewriting, value, f"{name}/copy")
            result = rewriting.builder.add("identity", value, name=f"{name}/copy") if made is None else made
        seen.add(result)
        outputs.append(result)
    return replace(graph, nodes=tuple(rewriting.builder.nodes), outputs=tuple(outputs))


def _scattered(rewriting: Rewriting, value: Value, name: str) -> Value | None:
    """A large constant that is one number nearly everywhere, as that number and the few others."""
    data, b = value.data, rewriting.builder
    if data is None or data.size < LARGE or data.dtype.itemsize not in _BITS or dtypes.bits(value.dtype) < 8:
        return None
    bits = np.ascontiguousarray(data).view(_BITS[data.dtype.itemsize])
    found, counts = np.unique(bits.reshape(-1)[:: data.size // LARGE], return_counts=True)
    usual = found[counts.argmax()]
    others = bits != usual
    if np.count_nonzero(others) > data.size * OTHERS:
        return None
    number = b.constant(np.array(usual).view(data.dtype), value.dtype)
    if not others.any():
        return b.add("expand", number, shape=value.shape, name=name)
    places = b.constant(np.argwhere(others).astype(np.int32))
    return b.add("scattered", number, places, b.constant(data[others], value.dtype), shape=value.shape, name=name)


#: Integers that hold the bits of an element, by its bytes: there is one 0 among them, and every NaN equals itself.
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
