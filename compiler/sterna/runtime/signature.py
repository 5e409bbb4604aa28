"""What a caller gives for a model that is not compiled yet."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Graph
from sterna.ir.integer import Atom, Int, as_int
from sterna_runtime.inputs import TensorSpec


def specs_of(graph: Graph, sizes: Mapping[str, int] | None = None) -> list[TensorSpec]:
    """The inputs of a graph; `sizes`: of its open dimensions, by name."""
    symbols = {s for value in graph.arguments for n in value.shape for s in n.symbols()}
    given: dict[Atom, Int] = {symbol: as_int((sizes or {})[symbol.name]) for symbol in symbols}
    return [
        TensorSpec(
            value.name,
            np.dtype(object) if value.dtype == dtypes.STRING else dtypes.to_numpy(value.dtype),
            tuple(int(n.substitute(given)) for n in value.shape),
        )
        for value in graph.arguments
    ]
