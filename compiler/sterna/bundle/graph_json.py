"""The contents of `graph.json` (docs/bundle.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sterna.bundle.devices_json import arena_bytes, device_number, device_rows, launch, stay_row, with_copies
from sterna.bundle.widened import widened_ranges
from sterna.compiled import Compiled, Measured
from sterna.errors import internal_error
from sterna.ir import dtypes
from sterna.ir.extremum import Extremum
from sterna.ir.graph import Value
from sterna.ir.integer import Atom, FloorDiv, Int, Mod, Monomial, Symbol
from sterna.ir.sizes import all_definitions, dimensions
from sterna.passes.kernels import CPU, Call
from sterna.passes.linearize import Choice, Control
from sterna.passes.stages import Planned, call_multiply_adds, owners
from sterna.targets.target import Target
from sterna.te.layout import most_elements
from sterna.toolchain.compilers import toolchain
from sterna.toolchain.wasm import exported_constant
from sterna.version import __version__
from sterna_runtime import hash64
from sterna_runtime.abi import (
    ABI,
    FORMAT_WITH_CONTROL,
    FORMAT_WITH_DEVICES,
    FORMAT_WITH_MEMORIES,
    FORMAT_WITH_WIDENED,
    OLDEST_FORMAT,
    aligned,
)
from sterna_runtime.ownership import entry


def graph_json(compiled: Compiled, files: Mapping[str, bytes]) -> bytes:
    """The file's bytes: the line with the hash, then the rest of the object.

    Args:
        files: contents of the bundle's other files.
    """
    members = _members(compiled, files)
    text = json.dumps(members, separators=(",", ":"), ensure_ascii=False)[1:]
    # Names are texts of C there. What a program names has none of this (driver.compile_graph); nodes and labels may.
    rest = re.sub(r"(?<!\\)((?:\\\\)*)\\u0000", "\\1\ufffd", text).encode("utf-8", "replace")
    version = FORMAT_WITH_CONTROL if compiled.control else OLDEST_FORMAT
    version = FORMAT_WITH_MEMORIES if len(compiled.plan.pools) > 1 else version
    version = FORMAT_WITH_WIDENED if "widened" in members else version
    version = FORMAT_WITH_DEVICES if "devices" in members else version
    return b'{"sterna":%d,"hash":"%s",\n' % (version, hash64(rest).encode()) + rest


def _members(compiled: Compiled, files: Mapping[str, bytes]) -> dict[str, Any]:
    graph, options, target = compiled.graph, compiled.options, compiled.options.target
    values = _Values(compiled)
    inputs = [values.index(v, v.name) for v in graph.arguments]
    outputs = [values.index(v, name) for v, name in zip(graph.results, graph.result_names, strict=True)]
    states = [
        {"value": values.index(v, v.name), **({} if at is None else {"initial_at": at}), **_on(compiled, place)}
        for v, at, place in zip(graph.live_in, compiled.states_at, _state_places(compiled), strict=True)
    ]
    nodes = []
    rendered = owners(compiled.kernels)
    number = {id(owner.code): n for n, owner in enumerate(rendered)}
    for call, kernel, (at, size) in zip(compiled.calls, compiled.kernel_of, compiled.params_at, strict=True):
        nodes.append(
            {
                "name": call.name,
                "kernel": number[id(compiled.kernels[kernel].code)],
                "in": [values.buffer(v) for v in call.inputs],
                "out": [values.buffer(v) for v in call.outputs],
                "params_at": at,
                "params_bytes": size,
                "tasks": values.expression(compiled.kernels[kernel].function.n_tasks),
                "sources": list(call.sources),
                **_exchanging(compiled.kernels[kernel], values),
                **_cost(call, values),
                **stay_row(call),
            }
        )
    control = [_control(c, values) for c in compiled.control]
    nodes, control = with_copies(compiled, nodes, control, values.buffer)
    devices = device_rows(compiled)
    computed = {s: values.buffer(node.output) for s, node in all_definitions(graph).items()}
    symbols = [
        {"name": s.name, "lo": s.lo, "hi": s.hi, **({"value": computed[s]} if s in computed else {})}
        for s in values.dims
    ]
    described = {name: _file(name, data) for name, data in files.items()}
    if ranges := widened_ranges(compiled):
        described["params.bin"]["static_bytes"] = len(compiled.params)
    scratch = max((k.function.scratch_bytes for k in compiled.kernels if k.place == CPU), default=0)
    machine = compiled.libraries[0].target if target.device is not None and compiled.libraries else target
    return {
        "abi": ABI,
        "producer": f"sterna {__version__}",
        "model": compiled.model,
        "target": {
            "name": target.name,
            "triple": machine.triple,
            "pointer_bits": machine.pointer_bits,
            "cpu_features": list(machine.cpu_features),
        },
        "options": {
            "generator": options.generator,
            "threads": options.threads,
            "debug": options.debug,
            **({"toolchain": toolchain(options.generator, options.compiler)} if compiled.libraries else {}),
        },
        **({"math": math_json(compiled.math)} if compiled.math is not None else {}),
        **({"tuning": tuning} if (tuning := tuning_json(compiled)) else {}),
        **({"source": vars(compiled.origin)} if compiled.origin is not None else {}),
        "files": described,
        **({"library": compiled.libraries[0].name} if compiled.libraries else {}),
        **({"variants": variants} if (variants := _variants(compiled)) else {}),
        **({"devices": devices} if devices else {}),
        "arena": {"bytes": arena_bytes(compiled, CPU), "live_bytes": compiled.plan.live_bytes},
        **({"arenas": _arenas(compiled)} if len(compiled.plan.pools) > 1 else {}),
        **({"widened": ranges} if ranges else {}),
        "scratch_bytes": aligned(scratch),
        **({"symbols": symbols} if symbols else {}),
        "kernels": [{"name": k.code.name, **launch(compiled, k)} for k in rendered],
        "values": values.rows,
        "inputs": inputs,
        "outputs": outputs,
        **({"states": states} if states else {}),
        "nodes": nodes,
        **({"control": control} if control else {}),
        **({"metadata": graph.metadata} if graph.metadata else {}),
    }


#: Members of graph.json that firmware.json has, too: for who looks into a bundle, not for runtimes.
_STRUCTURE = (
    "arena", "arenas", "scratch_bytes", "symbols", "kernels", "values", "inputs", "outputs", "states", "nodes",
    "control", "metadata",
)  # fmt: skip


def structure_json(compiled: Compiled) -> dict[str, Any]:
    """Tensors, nodes and memory of a bundle without graph.json, as that would have them; and of nodes whose scratch has
    a place in the arena: `scratch`, its pool, first byte and bytes."""
    members = _members(compiled, {})
    # Not planned: there is none.
    for row, k, place in zip(members["nodes"], compiled.kernel_of, compiled.plan.scratch, strict=False):
        if place is not None:
            row["scratch"] = [*place, compiled.kernels[k].function.scratch_bytes]
    return {name: members[name] for name in _STRUCTURE if name in members}


def _on(compiled: Compiled, place: str) -> dict[str, Any]:
    """The device that something is on; nothing for the CPU."""
    number = device_number(compiled, place)
    return {"device": number} if number else {}


def _state_places(compiled: Compiled) -> tuple[str, ...]:
    if compiled.placement is None:
        return (CPU,) * len(compiled.graph.live_in)
    return compiled.placement.states


def graph_name(target: Target) -> str:
    """The file of the graph of a variant that has one of its own."""
    return f"graph.{target.name}.json"


def tuning_json(compiled: Compiled) -> dict[str, Any]:
    """How many kernels are as they were tuned, about how many parts of the graph was decided what becomes a kernel, and
    the hash of what was chosen; nothing where all is by the rules."""
    tuning = compiled.options.tuning
    if tuning is None or not (tuning.kernels or tuning.parts):
        return {}
    parts = {"parts": tuning.parts} if tuning.parts else {}
    return {"snapshot": tuning.snapshot, "kernels": tuning.kernels, **parts}


def math_json(math: Measured) -> dict[str, Any]:
    """What was traded for speed, and what that cost."""
    tiles = [{"layer": layer, "taps": list(taps), "outputs": list(outputs)} for layer, taps, outputs in math.tiles]
    return {
        "bound": math.bound,
        "error": math.error,
        "errors": dict(math.errors),
        "measured": {"target": math.machine, "sets": math.sets, **({"data": math.data} if math.data else {})},
        **({"tuned": True} if math.tuned else {}),
        "layers": math.layers,
        "tiles": tiles,
        "halves": list(math.halves),
        "narrow": [{"layer": layer, "dtype": dtype} for layer, dtype in math.narrow],
    }


def _arenas(compiled: Compiled) -> list[dict[str, Any]]:
    """The blocks of memory that values lie in, where they are in several of the target's memories."""
    return [{"memory": p.name, "bytes": p.bytes, "alignment": p.alignment} for p in compiled.plan.pools]


def _cost(call: Call, values: _Values) -> dict[str, Any]:
    """What a node costs, for who looks into the bundle."""
    count = call_multiply_adds(call)
    return {"multiply_adds": values.expression(count)} if count != 0 else {}


def _exchanging(kernel: Planned, values: _Values) -> dict[str, Any]:
    """The tasks of a node for every program that its kernel has for devices with subgroups."""
    tasks = [values.expression(function.n_tasks) for _, function in kernel.exchanging]
    return {"exchanging_tasks": tasks} if tasks else {}


def _file(name: str, data: bytes) -> dict[str, Any]:
    row = entry(data)
    if name.endswith(".wasm"):
        row["static_bytes"] = exported_constant(data, "__heap_base")
    return row


def _variants(compiled: Compiled) -> list[dict[str, Any]]:
    """What else the bundle can run as, and what that needs, best first."""
    if compiled.alternatives:
        targets = [each.options.target for each in compiled.alternatives]
        return [{"graph": graph_name(t), "target": t.name, "cpu_features": list(t.cpu_features)} for t in targets]
    of = {each.target.name: each for each in compiled.libraries}
    return [
        {"library": of[v.name].name, "target": v.name, "cpu_features": list(v.cpu_features)}
        for v in compiled.options.variants
    ]


def _control(control: Control, values: _Values) -> dict[str, Any]:
    """One entry of the list of control: nodes are named by position, values by index."""
    if isinstance(control, Choice):
        nodes = [control.first, control.middle, control.last]
        return {"op": "if", "name": control.name, "nodes": nodes, "condition": values.buffer(control.condition)}
    entry: dict[str, Any] = {"op": "loop", "name": control.name, "nodes": [control.first, control.last]}
    if control.count is not None:
        entry["count"] = control.count
    for key, value in (("trips", control.trips), ("condition", control.condition), ("number", control.number)):
        if value is not None:
            entry[key] = values.buffer(value)
    return {**entry, "limit": control.limit}


class _Values:
    """The table of tensors that the nodes and the signature refer to."""

    def __init__(self, compiled: Compiled):
        self.compiled = compiled
        self.rows: list[dict[str, Any]] = []
        self.known: dict[Value, int] = {}
        graph = compiled.graph
        self.inputs = set(graph.arguments)
        self.outputs = set(graph.results)
        self.states = set(graph.live_in)
        self.dims = dimensions(graph)

    def index(self, value: Value, name: str | None = None) -> int:
        if value not in self.known:
            self.known[value] = len(self.rows)
            self.rows.append(self._row(value, name or value.name))
        return self.known[value]

    def buffer(self, value: Value) -> int:
        """The index of the value, or of the input or output in whose memory it lies."""
        root = self.compiled.plan.owner(self.compiled.views.storage(value).root)
        return self.index(root if root in self.inputs or root in self.outputs or root in self.states else value)

    def _row(self, value: Value, name: str) -> dict[str, Any]:
        place = self.compiled.views.storage(value)
        root = place.root
        kind = "input" if root in self.inputs else "output" if root in self.outputs else "arena"
        if root in self.states:
            kind = "state"
        elements = 0 if kind != "arena" and root.type.elements == 0 else most_elements(root.shape)
        nbytes = elements * dtypes.size(root.dtype)
        storage: dict[str, Any] = {
            "class": kind,
            "offset": self.compiled.plan.offsets[root] if kind in ("arena", "state") else 0,
            "bytes": nbytes,
            "origin": self.expression(place.origin),
            "strides": [self.expression(s) for s in place.strides],
        }
        if kind in ("arena", "state") and (pool := self.compiled.plan.pool_of[root]):
            storage["arena"] = pool
        row: dict[str, Any] = {
            "name": name,
            "dtype": "int64" if value.dtype == dtypes.STRING else value.dtype,
            "dims": [self.expression(n) for n in value.shape],
            "storage": storage,
        }
        if kind in ("input", "output") and (known := self.compiled.graph.quantization.get(name)) is not None:
            row["quantization"] = {"scale": list(known.scales), "zero_point": list(known.zero_points)}
            if len(known.scales) > 1:
                row["quantization"]["axis"] = known.axis
        if kind == "arena" and not self.compiled.plan.survives(root):
            row["fleeting"] = True
        if kind in ("arena", "state") and self.compiled.placement is not None:
            row |= _on(self.compiled, self.compiled.placement.homes.get(root, CPU))
        return row

    def expression(self, value: Int) -> Any:
        """A dimension expression: a number, or operators in front of their operands."""
        terms = [self._term(monomial, coefficient) for monomial, coefficient in value.terms.items()]
        if value.const or not terms:
            terms.append(value.const)
        return terms[0] if len(terms) == 1 else ["+", *terms]

    def _term(self, monomial: Monomial, coefficient: int) -> Any:
        factors = [self._atom(atom) for atom in monomial]
        if coefficient != 1:
            factors.append(coefficient)
        return factors[0] if len(factors) == 1 else ["*", *factors]

    def _atom(self, atom: Atom) -> Any:
        if isinstance(atom, Symbol):
            return ["d", self.dims.index(atom)]
        if isinstance(atom, (FloorDiv, Mod)):
            return ["/" if isinstance(atom, FloorDiv) else "%", self.expression(atom.value), atom.divisor]
        if isinstance(atom, Extremum):
            return [atom.kind, *(self.expression(operand) for operand in atom.operands)]
        raise internal_error(f"a size depends on {atom}, which no runtime can know")
