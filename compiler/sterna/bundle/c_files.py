"""Files of a bundle that are not kernels: the typed header, and the static form for firmware."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from sterna.bundle.graph_json import structure_json
from sterna.bundle.weights import Weights, weights_of
from sterna.codegen.dialects.c_family import C_TYPE
from sterna.codegen.render import render_template
from sterna.compiled import Compiled
from sterna.escape import comment
from sterna.ir import dtypes
from sterna.ir.graph import Graph, Quantized, Value
from sterna.loops.program import Function, Require, walk
from sterna.passes.linearize import Choice, Repeat
from sterna.passes.stream_weights import Reads, reads_of
from sterna.te.layout import most_elements
from sterna_runtime.abi import aligned
from sterna_runtime.names import identifiers
from sterna_runtime.ownership import HEADER


@dataclass(frozen=True)
class _Tensor:
    """An input or output as the templates name it; `scale` is a literal of C, empty without quantization."""

    name: str
    identifier: str
    type: str
    dtype: str
    dims: tuple[str, ...]
    elements: int
    scale: str = ""
    zero_point: int = 0


def model_header(compiled: Compiled, footprint: Mapping[str, int | None] | None = None) -> str:
    """`model.h`: names, shapes and sizes of the signature.

    Args:
        footprint: `code`, `tables` and `stack` of firmware, in bytes, as far as they are known.
    """
    known = {"code": None, "tables": None, "stack": None, **(footprint or {})}
    return render_template("c/model.h.j2", footprint=known, **_names(compiled))


def arena_bytes(compiled: Compiled) -> int:
    """What the model needs to work in: the arena or all pools, and scratch, which has its places there in firmware."""
    plan = compiled.plan
    if compiled.options.target.static:
        return plan.arena_bytes
    return plan.arena_bytes + aligned(max((k.function.scratch_bytes for k in compiled.kernels), default=0))


@dataclass(frozen=True)
class _Call:
    """A kernel's call in `model.c`; everything is text of C.

    Args:
        number: of the node, in execution order; sizes: the array of the kernel's arguments, where it has some.
    """

    number: int
    name: str
    kernel: str
    may_fail: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: str
    scratch: str
    sizes: str
    tasks: int


@dataclass(frozen=True)
class _Sizes:
    """The arguments of a kernel that shares its code, as an array of C."""

    name: str
    type: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class _If:
    name: str
    condition: str
    then: tuple[_Statement, ...]
    otherwise: tuple[_Statement, ...]


@dataclass(frozen=True)
class _Loop:
    """A loop: how many times (`trips`, "" where only the condition ends it), while what, and where its number goes."""

    name: str
    depth: int
    trips: str
    condition: str
    number: str
    limit: int
    body: tuple[_Statement, ...]


_Statement = _Call | _If | _Loop


def static_model(compiled: Compiled) -> str:
    """`model.c`: the graph as calls of kernels; no JSON, no allocation, no globals."""
    calls = [
        _Call(
            number,
            comment(", ".join(call.sources) or call.name),
            compiled.kernels[kernel].code.name,
            _may_fail(compiled.kernels[kernel].function),
            tuple(_address(compiled, v) for v in call.inputs),
            tuple(_address(compiled, v) for v in call.outputs),
            f"params + {at}" if size else "0",
            _scratch(compiled, number),
            f"sizes_{compiled.kernels[kernel].function.name}" if compiled.kernels[kernel].arguments else "",
            int(compiled.kernels[kernel].function.n_tasks),
        )
        for number, (call, kernel, (at, size)) in enumerate(
            zip(compiled.calls, compiled.kernel_of, compiled.params_at, strict=True)
        )
    ]
    most = max((len(c.inputs) for c in calls), default=1) or 1
    most_out = max((len(c.outputs) for c in calls), default=1) or 1
    statements = _Nesting(compiled, calls).statements(0, len(calls))
    return render_template(
        "c/model.c.j2",
        statements=statements,
        called=dict.fromkeys(call.kernel for call in calls),
        sizes=[
            _Sizes(f"sizes_{k.function.name}", C_TYPE[k.code.dims_type], k.arguments)
            for k in compiled.kernels
            if k.arguments
        ],
        most_in=most,
        most_out=most_out,
        **_names(compiled),
    )


def _may_fail(function: Function) -> bool:
    """Whether a kernel tests what it was given."""
    return any(isinstance(s, Require) for s in walk(function.body))


class _Nesting:
    """Makes a tree of the flat list of control."""

    def __init__(self, compiled: Compiled, calls: list[_Call]):
        self.compiled, self.calls, self.waiting = compiled, calls, list(compiled.control)
        self.depth = 0

    def statements(self, first: int, last: int) -> tuple[_Statement, ...]:
        made: list[_Statement] = []
        while first < last:
            if not self.waiting or self.waiting[0].first != first:
                made.append(self.calls[first])
                first += 1
                continue
            control = self.waiting.pop(0)
            made.append(self.choice(control) if isinstance(control, Choice) else self.loop(control))
            first = control.last
        return tuple(made)

    def choice(self, control: Choice) -> _If:
        condition = self.element(control.condition, "uint8_t")
        then = self.statements(control.first, control.middle)
        return _If(comment(control.name), condition, then, self.statements(control.middle, control.last))

    def loop(self, control: Repeat) -> _Loop:
        self.depth += 1
        trips = "" if control.count is None else f"INT64_C({control.count})"
        made = _Loop(
            comment(control.name),
            self.depth,
            trips if control.trips is None else self.element(control.trips, "int64_t"),
            "" if control.condition is None else self.element(control.condition, "uint8_t"),
            "" if control.number is None else self.element(control.number, "int64_t", const=False),
            control.limit,
            self.statements(control.first, control.last),
        )
        self.depth -= 1
        return made

    def element(self, value: Value, kind: str, const: bool = True) -> str:
        pointer = f"(const {kind} *)(const void *)" if const else f"({kind} *)(void *)"
        return f"*{pointer}({_address(self.compiled, value)})"


def firmware_json(
    compiled: Compiled, sources: Sequence[str], how: Weights, footprint: Mapping[str, int | None]
) -> bytes:
    """`firmware.json`: what the header says, for programs that build, measure or package firmware.

    Args:
        sources: names of the files that are compiled where there is no library, in which kernels come last.
        how: the weights come into a program.
        footprint: `code`, `tables` and `stack`, in bytes; null in the file where they are not known.
    """
    names, graph, target = _names(compiled), compiled.graph, compiled.options.target
    rows = [
        _row(tensor, value, name, graph.quantization.get(name))
        for tensor, (value, name) in zip(_tensors(graph), _signature(graph), strict=True)
    ]
    functions = [compiled.kernels[kernel].code for kernel in compiled.kernel_of]
    members = {
        "sterna": 1,
        "model": compiled.model,
        "target": target.name,
        "processor": {
            **{key: getattr(target, key) for key in ("triple", "cpu", "llvm_triple", "llvm_cpu")},
            "features": list(target.llvm_features),
            "flags": list(target.c_flags),
        },
        **({} if compiled.fitted is None else {"fitted": compiled.fitted.json()}),
        "header": HEADER,
        "sources": list(sources),
        "library": target.library if compiled.library else "",
        "script": how.script,
        "weights_address": how.address,
        "weights_section": how.section,
        "link_option": how.option,
        "params": "params.bin",
        **{key: names[key] for key in ("arena_bytes", "params_bytes", "alignment")},
        **{f"{key}_bytes": footprint[key] for key in ("code", "tables", "stack")},
        "pools": [{key: value for key, value in asdict(pool).items() if key != "share"} for pool in _pools(compiled)],
        **({} if (fetched := fetched_of(compiled)) is None else {"fetched": asdict(fetched)}),
        "resets": bool(names["states"]),
        "inputs": rows[: len(graph.arguments)],
        "outputs": rows[len(graph.arguments) :],
        "nodes": [
            {"name": call.name, "kernel": function.name, "sources": list(call.sources)}
            for call, function in zip(compiled.calls, functions, strict=True)
        ],
        "graph": structure_json(compiled),
    }
    return (json.dumps(members, indent=1) + "\n").encode()


def _row(tensor: _Tensor, value: Value, name: str, known: Quantized | None) -> dict[str, object]:
    """An input or output as firmware.json has it."""
    scales, zero_points = ((), ()) if known is None else (known.scales, known.zero_points)
    return {
        "name": name,
        "identifier": tensor.identifier,
        "type": tensor.type,
        "dtype": value.dtype,
        "dims": [int(size) for size in value.shape],
        "elements": tensor.elements,
        "scales": [float(scale) for scale in scales],
        "zero_points": [int(zero) for zero in zero_points],
    }


def _names(compiled: Compiled) -> dict[str, object]:
    graph, tensors = compiled.graph, _tensors(compiled.graph)
    plan = compiled.plan
    return {
        "model": compiled.model,
        "inputs": tensors[: len(graph.arguments)],
        "outputs": tensors[len(graph.arguments) :],
        "arena_bytes": arena_bytes(compiled),
        "pools": _pools(compiled),
        "params_bytes": (size := max(len(compiled.params), 1)),
        "weights": weights_of(compiled.options, size),
        "alignment": compiled.options.target.alignment,
        "states": [
            {
                "start": _start(compiled, plan.pool_of[v]),
                "at": plan.offsets[v],
                "bytes": most_elements(v.shape) * dtypes.size(v.dtype),
                "initial": at,
            }
            for v, at in zip(graph.live_in, compiled.states_at, strict=True)
        ],
        "static": compiled.options.target.static,
        "fetched": fetched_of(compiled),
        "target": compiled.options.target,
    }


def fetched_of(compiled: Compiled) -> Reads | None:
    """What kernels fetch of the weights; None where they read all of them where they lie."""
    reads = reads_of(compiled.kernels, compiled.kernel_of)
    return reads if reads.kernels else None


def _signature(graph: Graph) -> list[tuple[Value, str]]:
    """Inputs and then outputs, with their names in the model."""
    return [*((v, v.name) for v in graph.arguments), *zip(graph.results, graph.result_names, strict=True)]


def _tensors(graph: Graph) -> list[_Tensor]:
    named = _signature(graph)
    identified = zip(named, identifiers([name for _, name in named]), strict=True)
    return [_tensor(v, name, identifier, graph.quantization) for (v, name), identifier in identified]


def _tensor(value: Value, name: str, identifier: str, quantization: Mapping[str, Quantized]) -> _Tensor:
    known = quantization.get(name)
    whole = known if known is not None and len(known.scales) == 1 else None
    return _Tensor(
        comment(name),
        identifier,
        C_TYPE[dtypes.storage(value.dtype)],
        value.dtype,
        tuple(str(n) for n in value.shape),
        most_elements(value.shape),
        "" if whole is None else f"{whole.scales[0]!r}f",
        0 if whole is None else whole.zero_points[0],
    )


def _address(compiled: Compiled, value: Value) -> str:
    root = compiled.plan.owner(compiled.views.storage(value).root)
    for kind, members in (("inputs", compiled.graph.arguments), ("outputs", compiled.graph.results)):
        if root in members:
            return f"{kind}->{_identifiers(compiled)[root]}"
    return _placed(compiled, root)


def _placed(compiled: Compiled, root: Value) -> str:
    """The address of a buffer of the plan."""
    plan = compiled.plan
    return f"{_start(compiled, plan.pool_of[root])} + {plan.offsets[root]}"


def _start(compiled: Compiled, pool: int) -> str:
    """The address of a pool: a parameter, or one of several in a record."""
    pools = _pools(compiled)
    return f"memory->{pools[pool].identifier}" if pools else "arena"


def _scratch(compiled: Compiled, call: int) -> str:
    """The address of a call's scratch; empty if it needs none."""
    place = compiled.plan.scratch[call]
    return "" if place is None else f"{_start(compiled, place[0])} + {place[1]}"


@dataclass(frozen=True)
class _Pool:
    """A block of the caller's memory, as the templates name it."""

    name: str
    identifier: str
    bytes: int
    alignment: int
    share: int


def _pools(compiled: Compiled) -> list[_Pool]:
    """The blocks of a target that may have several; none where there is just the arena."""
    if len(compiled.options.target.tensor_memories) < 2 or not compiled.options.target.static:
        return []
    pools = compiled.plan.pools
    names = identifiers([pool.name for pool in pools])
    words = compiled.plan.words or (0,) * len(pools)
    shares = [round(100 * each / max(1, sum(words))) for each in words]
    return [
        _Pool(p.name, name, max(p.bytes, 1), p.alignment, share)
        for p, name, share in zip(pools, names, shares, strict=True)
    ]


def _identifiers(compiled: Compiled) -> dict[Value, str]:
    graph = compiled.graph
    names = identifiers([*(v.name for v in graph.arguments), *graph.result_names])
    return dict(zip((*graph.arguments, *graph.results), names, strict=True))
