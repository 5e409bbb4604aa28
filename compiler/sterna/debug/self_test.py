"""`python -m sterna.debug.self_test TARGET`: integer products compiled for a target, run here and compared with NumPy.

Ends with 0 where all are equal. `sterna.targets.self_test` asks it before it takes this machine for one with tiles.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sterna.bundle.writer import write_bundle
from sterna.driver import Options, compile_graph
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.scratch import temporary_directory
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna_runtime import load

#: Rows, columns and depth: several blocks of tiles, with some of everything left over.
SIZES = (57, 41, 192)


def computes_products(target: Target) -> bool:
    """Whether products of bytes of all signednesses, compiled for a target, are exact on this machine, by one thread
    and by two.

    Raises:
        SternaError: they cannot be compiled or loaded.
    """
    random = np.random.default_rng(0)
    rows, columns, depth = SIZES
    b = Builder()
    inputs, results, feeds, expected = [], [], {}, []
    for left in ("int8", "uint8"):
        for right in ("int8", "uint8"):
            x, w = (
                random.integers(np.iinfo(t).min, np.iinfo(t).max, shape, endpoint=True).astype(t)
                for t, shape in ((left, (rows, depth)), (right, (depth, columns)))
            )
            value = Value(b.name(f"x_{left}_{right}"), tensor_type(left, x.shape))
            inputs.append(value)
            results.append(b.add("matmul_integer", value, b.constant(w)))
            feeds[value.name] = x
            expected.append(x.astype(np.int32) @ w.astype(np.int32))
    graph = Graph(
        "self_test", tuple(inputs), tuple(results), tuple(b.nodes), tuple(f"y{n}" for n in range(len(results)))
    )
    compiled = compile_graph(graph, "self_test", Options(target, "llvm"))
    with temporary_directory("self-test") as folder:
        place = write_bundle(compiled, Path(folder) / "bundle")
        for threads in (1, 2):
            with load(place, threads) as bundle:
                found = bundle.run(feeds).values()
                if not all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True)):
                    return False
    return True


def main(arguments: Sequence[str]) -> int:
    """The command; arguments are those after its name."""
    (name,) = arguments
    return 0 if computes_products(load_target(name)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
