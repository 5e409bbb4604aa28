"""Files of a bundle that are not kernels: the typed header, and the static form for firmware."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sterna.codegen.dialect import C_TYPE
from sterna.codegen.render import render_template
from sterna.driver import Compiled
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.te.layout import most_elements


@dataclass(frozen=True)
class _Tensor:
    """An input or output as the templates name it."""

    name: str
    identifier: str
    type: str
    dtype: str
    dims: tuple[str, ...]
    elements: int


def model_header(compiled: Compiled) -> str:
    """`model.h`: names, shapes and sizes of the signature."""
    return render_template("c/model.h.j2", **_names(compiled))


def static_model(compiled: Compiled) -> str:
    """`model.c`: the graph as calls of kernels; no JSON, no allocation, no globals."""
    calls: list[dict[str, Any]] = []
    for call, kernel, (at, size) in zip(compiled.calls, compiled.kernel_of, compiled.params_at, strict=True):
        function = compiled.kernels[kernel].function
        calls.append(
            {
                "name": re.sub(r"\*/|[^\x20-\x7e]", "?", ", ".join(call.sources) or call.name),
                "kernel": kernel,
                "inputs": [_address(compiled, v) for v in call.inputs],
                "outputs": [_address(compiled, v) for v in call.outputs],
                "params": f"params + {at}" if size else "0",
                "tasks": int(function.n_tasks),
            }
        )
    most = max((len(c["inputs"]) for c in calls), default=1) or 1
    most_out = max((len(c["outputs"]) for c in calls), default=1) or 1
    return render_template("c/model.c.j2", calls=calls, most_in=most, most_out=most_out, **_names(compiled))


def params_source(compiled: Compiled) -> str:
    """`params.c`: the weights as an array for flash."""
    data = compiled.params or b"\0"
    rows = [", ".join(str(b) for b in data[i : i + 32]) for i in range(0, len(data), 32)]
    return render_template("c/params.c.j2", rows=rows, **_names(compiled))


def _names(compiled: Compiled) -> dict[str, object]:
    graph = compiled.graph
    taken: set[str] = set()
    scratch = -(-max((k.function.scratch_bytes for k in compiled.kernels), default=0) // 64) * 64
    return {
        "model": compiled.model,
        "inputs": [_tensor(v, v.name, taken) for v in graph.inputs],
        "outputs": [_tensor(v, n, taken) for v, n in zip(graph.outputs, graph.output_names, strict=True)],
        "arena_bytes": compiled.plan.arena_bytes + scratch,
        "scratch_at": compiled.plan.arena_bytes,
        "params_bytes": max(len(compiled.params), 1),
        "static": compiled.options.target.static,
        "target": compiled.options.target,
    }


def _tensor(value: Value, name: str, taken: set[str]) -> _Tensor:
    identifier = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").lower() or "tensor"
    while identifier in taken or identifier[0].isdigit():
        identifier += "_" if not identifier[0].isdigit() else ""
        identifier = f"t_{identifier}" if identifier[0].isdigit() else identifier
    taken.add(identifier)
    return _Tensor(
        re.sub(r"\*/|[^\x20-\x7e]", "?", name),
        identifier,
        C_TYPE[dtypes.storage(value.dtype)],
        value.dtype,
        tuple(str(n) for n in value.shape),
        most_elements(value.shape),
    )


def _address(compiled: Compiled, value: Value) -> str:
    root = compiled.views.storage(value).root
    for kind, members in (("inputs", compiled.graph.inputs), ("outputs", compiled.graph.outputs)):
        if root in members:
            return f"{kind}->{_identifiers(compiled)[root]}"
    return f"arena + {compiled.plan.offsets[root]}"


def _identifiers(compiled: Compiled) -> dict[Value, str]:
    taken: set[str] = set()
    graph = compiled.graph
    pairs = [*((v, v.name) for v in graph.inputs), *zip(graph.outputs, graph.output_names, strict=True)]
    return {v: _tensor(v, name, taken).identifier for v, name in pairs}
