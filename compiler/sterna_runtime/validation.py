"""What Python's tools rely on in graph.json, checked: names, numbers, lists and indices (docs/bundle.md).

The runtimes check more, since they call code with it: buffers, strides, the order of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from sterna_runtime.abi import ABI, DTYPES, MAX_NESTED, MAX_TERMS
from sterna_runtime.names import is_file_name, is_identifier

_HASH = re.compile("[0-9a-f]{16}")
_ELEMENTS = frozenset(name for name, _, _ in DTYPES)
_CLASSES = ("input", "output", "arena", "param", "state")
_OPERATORS = ("+", "*", "min", "max")
_LONGEST = 1 << 16  # of a text: nobody names things so, and messages quote them

Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def is_count(value: Any) -> bool:
    """An integer that is not negative and fits 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def check_graph(graph: Any) -> None:
    """Raises ValueError, with what is wrong, for contents of graph.json that are not as the format wants them."""
    _need("the file", graph, {
        "model": is_identifier, "producer": is_text, "target": _is_target, "files": _is_files, "arena": _is_arena,
        "scratch_bytes": is_count, "kernels": _list_of(_is_named), "values": _list_of(_is_named),
        "inputs": _list_of(is_count), "outputs": _list_of(is_count), "nodes": _list_of(_is_named),
    })  # fmt: skip
    _may("the file", graph, {
        "devices": _list_of(_is_device), "arenas": _list_of(_is_pool), "widened": _list_of(_list_of(is_count)),
        "abi": lambda v: v == ABI, "options": _is_options, "library": is_file_name,
        "variants": _list_of(_is_variant), "symbols": _list_of(_is_symbol), "metadata": _is_metadata,
        "control": _list_of(_is_named), "states": _list_of(lambda v: isinstance(v, dict)),
    })  # fmt: skip
    variants = [v.get("graph") or v["library"] for v in graph.get("variants", ())]
    libraries = [*filter(None, [graph.get("library")]), *variants]
    modules = [device["module"] for device in graph.get("devices", ())]
    for name in ("params.bin", *libraries, *modules):
        if name not in graph["files"]:
            raise ValueError(f"files has no {name}")
    _check_values(graph)
    _check_nodes(graph)


def _need(what: str, members: Any, checks: dict[str, Check]) -> None:
    if not isinstance(members, dict):
        raise ValueError(f"{what} is no object")
    for name, good in checks.items():
        if name not in members or not good(members[name]):
            raise ValueError(f"{name} of {what} is missing or wrong")


def _may(what: str, members: dict[str, Any], checks: dict[str, Check]) -> None:
    for name, good in checks.items():
        if name in members and not good(members[name]):
            raise ValueError(f"{name} of {what} is wrong")


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and is_text(value.get("name"))


def _is_target(target: Any) -> bool:
    texts = _list_of(is_text)
    return _is_named(target) and is_text(target.get("triple")) and texts(target.get("cpu_features", []))


def _is_files(files: Any) -> bool:
    return isinstance(files, dict) and all(is_file_name(name) and _is_entry(row) for name, row in files.items())


def _is_entry(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and is_count(row.get("bytes"))
        and isinstance(row.get("hash"), str)
        and bool(_HASH.fullmatch(row["hash"]))
    )


def _is_arena(arena: Any) -> bool:
    return isinstance(arena, dict) and is_count(arena.get("bytes")) and is_count(arena.get("live_bytes", 0))


def _is_pool(pool: Any) -> bool:
    return isinstance(pool, dict) and is_text(pool.get("memory")) and is_count(pool.get("bytes"))


def _is_device(device: Any) -> bool:
    return (
        _is_named(device)
        and is_text(device.get("kind"))
        and is_file_name(device.get("module"))
        and _list_of(is_text)(device.get("needs"))
        and all(is_count(device.get(key)) for key in ("arena_bytes", "scratch_bytes"))
        and _list_of(is_count)(device.get("params"))
        and len(device["params"]) == 2
    )


def _is_options(options: Any) -> bool:
    return isinstance(options, dict) and all(
        is_text(v) or _is_number(v) or isinstance(v, bool) for v in options.values()
    )


def _is_variant(variant: Any) -> bool:
    return (
        isinstance(variant, dict)
        and is_file_name(variant.get("graph", variant.get("library")))
        and is_text(variant.get("target", ""))
        and _list_of(is_text)(variant.get("cpu_features"))
    )


def _is_symbol(symbol: Any) -> bool:
    return _is_named(symbol) and is_count(symbol.get("lo")) and is_count(symbol.get("hi"))


def _is_metadata(metadata: Any) -> bool:
    if not isinstance(metadata, dict):
        return False
    labels, normalization = metadata.get("labels", {}), metadata.get("normalization", {})
    return (
        isinstance(labels, dict)
        and all(map(_list_of(is_text), labels.values()))
        and isinstance(normalization, dict)
        and all(
            isinstance(row, dict) and all(_list_of(_is_number)(row.get(key)) for key in ("mean", "std"))
            for row in normalization.values()
        )
        and ("detections" not in metadata or _is_detections(metadata["detections"]))
    )


def _is_detections(said: Any) -> bool:
    corners = {"left", "top", "right", "bottom"}
    if not isinstance(said, dict) or not isinstance(said.get("columns"), dict):
        return False
    needed = corners | {"class", "score"} if "table" in said else corners
    outputs = ("table",) if "table" in said else ("boxes", "classes", "scores")
    return (
        needed <= set(said["columns"])
        and all(map(is_count, said["columns"].values()))
        and all(is_text(said.get(key)) for key in outputs)
        and is_text(said.get("count", ""))
        and _list_of(is_text)(said.get("labels"))
    )


def _check_values(graph: dict[str, Any]) -> None:
    symbols = len(graph.get("symbols", ()))

    def size(value: Any) -> bool:
        return _parts(value, symbols) <= MAX_TERMS

    for number, value in enumerate(graph["values"]):
        what = f"value {number}"
        _need(
            what,
            value,
            {"dtype": lambda v: v in _ELEMENTS, "dims": _list_of(size), "storage": _is_storage},
        )
        _may(what, value, {"quantization": _is_quantization, "fleeting": lambda v: isinstance(v, bool)})
        _need(f"storage of {what}", value["storage"], {"strides": _list_of(size), "origin": size})
    for side in ("inputs", "outputs"):
        if any(index >= len(graph["values"]) for index in graph[side]) or len(set(graph[side])) != len(graph[side]):
            raise ValueError(f"{side} names no values, or one twice")


def _is_storage(storage: Any) -> bool:
    return (
        isinstance(storage, dict)
        and storage.get("class") in _CLASSES
        and is_count(storage.get("offset"))
        and is_count(storage.get("bytes"))
        and is_count(storage.get("arena", 0))
    )


def _is_quantization(row: Any) -> bool:
    numbers = _list_of(_is_number)
    return isinstance(row, dict) and numbers(row.get("scale")) and numbers(row.get("zero_point"))


def _check_nodes(graph: dict[str, Any]) -> None:
    values, kernels, symbols = len(graph["values"]), len(graph["kernels"]), len(graph.get("symbols", ()))
    indices = _list_of(lambda v: is_count(v) and v < values)
    devices = len(graph.get("devices", ()))

    def places(value: Any) -> bool:
        return is_count(value) and bool(value <= devices)

    for number, node in enumerate(graph["nodes"]):
        what = f"node {number}"
        if node.get("op") == "copy":
            _need(what, node, {"value": lambda v: is_count(v) and v < values, "from": places, "to": places})
            continue
        _may(what, node, {"device": places})
        _need(what, node, {
            "kernel": lambda v: is_count(v) and v < kernels, "in": indices, "out": indices,
            "tasks": lambda v: _parts(v, symbols) <= MAX_TERMS,
        })  # fmt: skip
        _may(what, node, {
            "sources": _list_of(is_text), "params_at": is_count, "params_bytes": is_count, "stay": _is_stay,
        })  # fmt: skip


def _is_stay(stay: Any) -> bool:
    """Why a node is on the CPU; there may be other reasons, and more may be told."""
    texts = _list_of(is_text)
    facts: dict[str, Check] = dict.fromkeys(("cpu_ns", "device_ns", "buffers", "most"), is_count)
    facts |= dict.fromkeys(("dims", "computed", "types"), texts) | dict.fromkeys(
        ("pattern", "problem", "code"), is_text
    )
    return (
        isinstance(stay, dict)
        and is_text(stay.get("reason"))
        and all(good(stay[name]) for name, good in facts.items() if name in stay)
    )


def _parts(expression: Any, symbols: int, depth: int = 0) -> int:
    """How many numbers, symbols and operations an expression has; more than are allowed where it is none."""
    if isinstance(expression, int) and not isinstance(expression, bool):
        return 1 if abs(expression) < 1 << 63 else MAX_TERMS + 1
    if not isinstance(expression, list) or len(expression) < 2 or depth > MAX_NESTED:
        return MAX_TERMS + 1
    operator, *operands = expression
    if operator == "d":
        return 1 if len(operands) == 1 and is_count(operands[0]) and operands[0] < symbols else MAX_TERMS + 1
    if operator in ("/", "%"):
        good = len(operands) == 2 and is_count(operands[1]) and operands[1] > 0
        return 2 + _parts(operands[0], symbols, depth + 1) if good else MAX_TERMS + 1
    if operator not in _OPERATORS:
        return MAX_TERMS + 1
    return 1 + _sum(operands, symbols, depth + 1)


def _sum(operands: Sequence[Any], symbols: int, depth: int) -> int:
    total = 0
    for operand in operands:
        total += _parts(operand, symbols, depth)
        if total > MAX_TERMS:
            break
    return total
