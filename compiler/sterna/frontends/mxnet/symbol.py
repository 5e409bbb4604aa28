"""The graph of an MXNet model, as `-symbol.json` holds it: the layouts of versions 0.x to 1.9.

Settings stand under `attrs` (1.x), `attr` with those of the user (0.8 to 0.12) or `param` (before); inputs are (node,
result) or (node, result, version).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sterna.errors import SternaError, error
from sterna.frontends.mxnet.settings import Settings
from sterna.frontends.source import json_fault

#: Bytes of a symbol, and nodes of it, beyond which something else is meant.
_LARGEST, _MOST_NODES = 1 << 28, 1 << 20
#: Graphs within graphs of control flow.
_DEEPEST = 16
VARIABLE = "null"


@dataclass(frozen=True)
class NodeInfo:
    """A node of a symbol: an operator, or a variable ("null").

    Args:
        inputs: (position of a node, which of its results).
        settings: of the operator.
        graphs: of its own, as control flow has them.
    """

    op: str
    name: str
    inputs: tuple[tuple[int, int], ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    graphs: tuple[SymbolInfo, ...] = ()

    @property
    def said(self) -> Settings:
        return Settings(self.op, self.settings)


@dataclass(frozen=True)
class SymbolInfo:
    """A symbol.

    Args:
        heads: its outputs: (position of a node, which of its results).
        version: of the MXNet that wrote it, where the file says so.
        is_numpy: shapes are NumPy's: a size of 0 is none, not an unknown one.
    """

    nodes: tuple[NodeInfo, ...]
    heads: tuple[tuple[int, int], ...]
    version: str = ""
    is_numpy: bool = False

    @property
    def variables(self) -> tuple[int, ...]:
        """Positions of the variables, in order: the operands of a graph that an operator has."""
        return tuple(n for n, node in enumerate(self.nodes) if node.op == VARIABLE)


def load_symbol(path: Path) -> SymbolInfo:
    """The symbol in a file.

    Raises:
        SternaError: E0101, it is no symbol; E0103, its nodes refer to what is not there.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise error("E0101", f"{path.name} is too large for a symbol of MXNet")
        content = json.loads(path.read_bytes())
    except OSError as problem:
        raise error("E0101", f"{path} cannot be read: {problem.strerror or problem}") from None
    except (ValueError, RecursionError) as problem:
        raise _broken(path.name, f"it is not JSON: {json_fault(problem)}") from None
    return symbol_of(content, path.name)


def symbol_of(content: Any, where: str, depth: int = 0) -> SymbolInfo:
    """The symbol that a JSON text holds; errors as of `load_symbol`.

    Args:
        depth: how many operators it is inside of.
    """
    rows = content.get("nodes") if isinstance(content, dict) else None
    heads = content.get("heads") if isinstance(content, dict) else None
    if not isinstance(rows, list) or not isinstance(heads, list) or not rows:
        raise _broken(where, "it has no list of nodes, or of heads")
    if not heads:
        raise _broken(where, "its list of heads, its results, is empty")
    if len(rows) > _MOST_NODES:
        raise _broken(where, f"it has {len(rows)} nodes")
    if depth > _DEEPEST:
        raise _broken(where, f"its control flow is nested more than {_DEEPEST} times")
    nodes = tuple(_node(row, n, where, depth) for n, row in enumerate(rows))
    said = content.get("attrs")
    said = said if isinstance(said, dict) else {}
    return SymbolInfo(
        nodes,
        _places(heads, len(nodes), where, "heads"),
        _version(said.get("mxnet_version")),
        _version(said.get("is_np_shape")) not in ("", "0.0.0"),
    )


def _node(row: Any, number: int, where: str, depth: int) -> NodeInfo:
    if not isinstance(row, dict) or not isinstance(row.get("op"), str) or not isinstance(row.get("name"), str):
        raise _broken(where, f"node {number} has no operator or no name")
    # Of a node at n, only nodes before it can be operands: the file is in that order.
    inputs = _places(row.get("inputs", []), number, where, f'node {number}, "{row["name"]}"')
    settings: dict[str, str] = {}
    for key in ("param", "attr", "attrs"):
        given = row.get(key)
        if isinstance(given, dict):
            settings |= {str(name): value if isinstance(value, str) else str(value) for name, value in given.items()}
    inside = row.get("subgraphs")
    inside = inside if isinstance(inside, list) else []
    graphs = tuple(symbol_of(each, f'{where}, "{row["name"]}"', depth + 1) for each in inside)
    return NodeInfo(row["op"], row["name"], inputs, settings, graphs)


def _places(rows: Any, count: int, where: str, what: str) -> tuple[tuple[int, int], ...]:
    found = []
    for row in rows if isinstance(rows, list) else (None,):
        # Very old files name a head by its node alone.
        pair = [row, 0] if isinstance(row, int) else row
        if not isinstance(pair, list) or len(pair) < 2 or not all(type(n) is int for n in pair[:2]):
            raise _broken(where, f"{what}: {str(row)[:40]} is not a result of a node")
        if not 0 <= pair[0] < count or pair[1] < 0:
            raise error("E0103", f"{where}, {what}: there is no result {pair[1]} of a node {pair[0]} before it")
        found.append((pair[0], pair[1]))
    return tuple(found)


def _version(value: Any) -> str:
    """1.9.1 of ["int", 10901]."""
    number = value[1] if isinstance(value, list) and len(value) == 2 else None
    if type(number) is not int or not 0 <= number < 1 << 31:
        return ""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _broken(where: str, why: str) -> SternaError:
    return error("E0101", f"{where} is not a symbol of MXNet", why, fix="copy it again, or export the model again")


def users(nodes: Iterable[NodeInfo]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Who takes a result: (node, position of the operand), in order."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, node in enumerate(nodes):
        for position, source in enumerate(node.inputs):
            found.setdefault(source, []).append((number, position))
    return found
