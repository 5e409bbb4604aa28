"""Models of MXNet of one operator, and what they give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.mxnet_symbols import parameters

_DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")


def results(
    folder: Path,
    op: str,
    *operands: np.ndarray,
    count: int = 1,
    held: tuple[int, ...] = (),
    numpy: bool = True,
    **said: Any,
) -> list[np.ndarray]:
    """Operands at `held` are weights, which are known while compiling."""
    nodes: list[dict[str, Any]] = [
        {"op": "null", "name": f"x{n}", "attrs": {"__dtype__": str(_DTYPES.index(x.dtype.name))}, "inputs": []}
        for n, x in enumerate(operands)
    ]
    attrs = {name: str(value) for name, value in said.items()}
    nodes.append({"op": op, "name": "y", "attrs": attrs, "inputs": [[n, 0, 0] for n in range(len(operands))]})
    symbol = {
        "nodes": nodes, "arg_nodes": [*range(len(operands))], "heads": [[len(operands), n, 0] for n in range(count)],
        "attrs": {"is_np_shape": ["int", int(numpy)]},
    }  # fmt: skip
    (folder / "model-symbol.json").write_text(json.dumps(symbol))
    weights = {f"arg:x{n}": x for n, x in enumerate(operands) if n in held}
    (folder / "model-0000.params").write_bytes(parameters(weights or {"arg:unused": np.zeros(1, np.float32)}))
    feeds = {f"x{n}": x for n, x in enumerate(operands) if n not in held}
    options = ReadOptions(shapes={name: x.shape for name, x in feeds.items()})
    return [*interpret(read_model(folder / "model-symbol.json", options), feeds).values()]
