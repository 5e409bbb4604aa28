"""The document that the page draws: what `sterna report --json` prints (docs/report.md, schema.json)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sterna.bundle.roles import file_role
from sterna.errors import error
from sterna.passes.stages import owners
from sterna.report.layout import lay_out
from sterna.report.limits import Limits
from sterna.report.links import Link, links
from sterna.report.memory import memory_of
from sterna.report.roofline import NO_RATES, rates
from sterna.report.sections import code_bytes
from sterna.report.source import kernels_of
from sterna.report.subject import Subject
from sterna.report.words import in_words
from sterna.version import __version__
from sterna_runtime.cli.reports import tensor_signature
from sterna_runtime.cli.stay import node_text
from sterna_runtime.describe import bundle_totals, dimension_text

#: Of the document. A number more where what was there means something else; new members do not count.
VERSION = 1
#: Characters of a kernel's C and lines of a node's sources in the picture that are kept.
_MOST_C, _LINES = 60_000, 4
#: Of a node's box in the picture.
_WIDTH, _LINE, _HEAD = 220.0, 15.0, 44.0


def document(
    subjects: Sequence[Mapping[str, Any]],
    comparison: Mapping[str, Any] | None = None,
    boards: Sequence[Mapping[str, Any]] = (),
    targets: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The whole of it.

    Args:
        subjects: one or two, as `describe` gives them; comparison: of the two.
        boards, targets: rows of the model on several of them.
    """
    return {
        "report": VERSION,
        "producer": f"sterna {__version__}",
        "subjects": list(subjects),
        "comparison": comparison,
        "boards": list(boards),
        "targets": list(targets),
    }


def describe(
    subject: Subject, time: Mapping[str, Any] | None = None, numbers: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A bundle as the document has it.

    Args:
        time: as `timing.time_of` gives it; numbers: as `numbers.numbers_of` does.

    Raises:
        SternaError: E0504, the bundle's graph is malformed.
    """
    try:
        return _described(subject, time, numbers)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):  # a hash says nothing of firmware.json
        raise error("E0504", "the graph is malformed", str(subject.place), fix="compile the model again") from None


def _described(subject: Subject, time: Mapping[str, Any] | None, numbers: Mapping[str, Any] | None) -> dict[str, Any]:
    graph = subject.graph
    found = [] if graph is None else links(graph)
    names = _kernel_names(subject)
    code = _code(subject, names)
    tensors = [] if graph is None else [_tensor(subject, value) for value in graph["values"]]
    nodes = _nodes(subject, code)
    return {
        **_head(subject, code),
        "signature": _signature(subject),
        "tensors": tensors,
        "nodes": nodes,
        "links": [[link.source, link.target, link.value, int(link.back)] for link in found],
        "control": [] if graph is None else [_control(row) for row in graph.get("control", ())],
        "kernels": _kernels(subject, names, code),
        "picture": _picture(subject, found),
        "memory": None if graph is None else memory_of(subject, found),
        "time": None if time is None else _with_rates(time, nodes, tensors),
        "numbers": numbers,
    }


def _with_rates(
    time: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], tensors: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Instructions have none."""
    if time["unit"] != "ns":
        return {**time, "rates": [NO_RATES] * len(nodes)}
    known = time["limits"]
    limits = None if known is None else Limits(known["gflops"], known["gops"], tuple(map(tuple, known["reading"])))
    return {**time, "rates": rates(nodes, tensors, time["nodes"], time["calls"], limits)}


def _head(subject: Subject, code: Mapping[str, int]) -> dict[str, Any]:
    facts, graph, firmware = subject.facts, subject.graph, subject.firmware
    whole: Mapping[str, Any] = facts.graph or {}
    target = whole.get("target", {})
    weights = facts.sizes.get("params.bin") or whole.get("files", {}).get("params.bin", {}).get("bytes", 0)
    row: dict[str, Any] = {
        "kind": "bundle" if firmware is None else "firmware",
        "name": whole["model"] if firmware is None else firmware.model,
        "directory": facts.directory.name if subject.source is None else None,
        "model": None if subject.source is None else subject.source.name,
        "command": subject.command or None,
        "producer": whole.get("producer"),
        "source": whole.get("source"),
        "hash": whole.get("hash"),
        "target": {
            "name": target.get("name") if firmware is None else firmware.target,
            "triple": target.get("triple") if firmware is None else firmware.processor.triple,
            "cpu_features": list(target.get("cpu_features", ()) if firmware is None else firmware.processor.features),
        },
        "options": whole.get("options", {}),
        "math": whole.get("math"),
        "tuning": whole.get("tuning"),
        "fitted": firmware.fitted if firmware is not None and firmware.fitted else None,
        "files": [
            {
                "name": name,
                "bytes": count,
                "role": file_role(name),
                "hash": whole.get("files", {}).get(name, {}).get("hash"),
            }
            for name, count in facts.sizes.items()
        ],
        "bytes": sum(facts.sizes.values()),
        "weights_bytes": weights,
        "code_bytes": sum(code.values()) if code else None,
        "symbols": [] if graph is None else [dict(row) for row in graph.get("symbols", ())],
        "totals": None,
        "flash": _flash(subject, code),
    }
    if graph is not None:
        row["totals"] = dataclasses.asdict(bundle_totals(graph))
    return row


def _flash(subject: Subject, code: Mapping[str, int]) -> list[dict[str, Any]]:
    """What a program of firmware holds, section by section."""
    firmware = subject.firmware
    if firmware is None:
        return []
    rows = [{"section": ".text", "what": name, "bytes": count} for name, count in code.items()]
    if firmware.code_bytes is not None and (rest := firmware.code_bytes - sum(code.values())) > 0:
        rows.append({"section": ".text", "what": "the function that calls the kernels, helpers", "bytes": rest})
    if firmware.tables_bytes:
        rows.append({"section": ".rodata", "what": "tables", "bytes": firmware.tables_bytes})
    section = firmware.weights_section or ".rodata"
    return [*rows, {"section": section, "what": "weights", "bytes": firmware.params_bytes}]


def _signature(subject: Subject) -> dict[str, Any]:
    graph, firmware = subject.graph, subject.firmware
    if graph is None:
        assert firmware is not None
        return {
            side: [{"name": t.name, "dtype": t.dtype, "shape": list(t.dims), "note": "", "labels": []} for t in tensors]
            for side, tensors in (("inputs", firmware.inputs), ("outputs", firmware.outputs))
        }
    labels = graph.get("metadata", {}).get("labels", {})
    return {side: [_io(graph, index, labels) for index in graph[side]] for side in ("inputs", "outputs")}


def _io(graph: Mapping[str, Any], index: int, labels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    value = graph["values"][index]
    shown = tensor_signature(value, dict(graph))
    return {**shown.json(), "note": shown.note, "labels": list(labels.get(value["name"], ()))}


def _tensor(subject: Subject, value: Mapping[str, Any]) -> dict[str, Any]:
    assert subject.graph is not None
    storage, symbols = value["storage"], subject.graph.get("symbols", ())
    return {
        "name": value["name"],
        "dtype": value["dtype"],
        "shape": [dimension_text(n, symbols) if isinstance(n, list) else n for n in value["dims"]],
        "class": storage["class"],
        "pool": storage.get("arena", 0),
        "offset": storage["offset"],
        "bytes": subject.bytes_of(value),
    }


def _kernel_names(subject: Subject) -> list[str]:
    if subject.graph is not None:
        return [row["name"] for row in subject.graph["kernels"]]
    assert subject.firmware is not None
    return list(dict.fromkeys(node.kernel for node in subject.firmware.nodes))


def _code(subject: Subject, names: Sequence[str]) -> dict[str, int]:
    firmware = subject.firmware
    library = (subject.facts.graph or {}).get("library", "") if firmware is None else firmware.library
    path = subject.place / library
    if not library or not path.is_file():
        return {}
    return code_bytes(path.read_bytes(), names)


def _nodes(subject: Subject, code: Mapping[str, int]) -> list[dict[str, Any]]:
    graph = subject.graph
    if graph is None:
        assert subject.firmware is not None
        names = _kernel_names(subject)
        return [
            {"name": node.name, "kernel": names.index(node.kernel), "sources": list(node.sources), "inputs": [],
             "outputs": [], "tasks": "1", "multiply_adds": None, "weights_bytes": None, "moved_bytes": None,
             "code_bytes": code.get(node.kernel), "device": None}
            for node in subject.firmware.nodes
        ]  # fmt: skip
    rows, values = [], graph["values"]
    for node in graph["nodes"]:
        inputs, outputs = list(dict.fromkeys(node["in"])), list(dict.fromkeys(node["out"]))
        weights = node.get("params_bytes", 0)
        rows.append(
            {
                "name": node["name"],
                "kernel": node["kernel"],
                "sources": list(node.get("sources", ())),
                "inputs": inputs,
                "outputs": outputs,
                "tasks": dimension_text(node["tasks"], graph.get("symbols", ())),
                "multiply_adds": subject.at(node.get("multiply_adds", 0)),
                "weights_bytes": weights,
                "moved_bytes": weights + sum(subject.bytes_of(values[v]) for v in (*inputs, *outputs)),
                "code_bytes": code.get(graph["kernels"][node["kernel"]]["name"]),
                "device": node.get("device"),
                **({"stay": node_text(node["stay"])} if "stay" in node else {}),
            }
        )
    return rows


def _control(row: Mapping[str, Any]) -> dict[str, Any]:
    """`exact` says whether a loop always makes all its `count` iterations."""
    shown = {key: row[key] for key in ("op", "name", "nodes", "count", "limit") if key in row}
    return {**shown, "exact": "count" in row and "condition" not in row} if row["op"] == "loop" else shown


def _kernels(subject: Subject, names: Sequence[str], code: Mapping[str, int]) -> list[dict[str, Any]]:
    sources = kernels_of(subject.place, names)
    known = () if subject.compiled is None else owners(subject.compiled.kernels)
    rows: list[dict[str, Any]] = []
    for n, name in enumerate(names):
        text = sources.get(name)
        steps: list[dict[str, str]] | None = None
        if n < len(known):  # a copy is none of them
            schedule = known[n].schedule
            steps = [] if schedule is None else [{"step": str(s), "words": in_words(s)} for s in schedule.steps]
        cut = text is not None and len(text) > _MOST_C
        rows.append(
            {
                "name": name,
                "code_bytes": code.get(name),
                "source": f"{text[:_MOST_C]}\n/* {len(text) - _MOST_C:,} characters more: kernels.c */"
                if text and cut
                else text,
                "schedule": steps,
            }
        )
    return rows


def _picture(subject: Subject, found: Sequence[Link]) -> dict[str, Any]:
    """Where the boxes of the nodes stand. Without links they follow each other."""
    graph = subject.graph
    count = len(graph["nodes"]) if graph is not None else len(subject.firmware.nodes) if subject.firmware else 0
    sources = [node.get("sources", ()) for node in graph["nodes"]] if graph is not None else [()] * count
    sizes = [(_WIDTH, _HEAD + _LINE * min(max(len(each), 1), _LINES + 1)) for each in sources]
    forward = [link for link in found if not link.back]
    edges = (
        [(link.source, link.target) for link in forward]
        if graph is not None
        else [(n, n + 1) for n in range(count - 1)]
    )
    apart = [] if graph is None else [(row["nodes"][0], row["nodes"][-1]) for row in graph.get("control", ())]
    made = lay_out(sizes, edges, apart)
    return {
        "width": made.width,
        "height": made.height,
        "nodes": [[*at, *size] for at, size in zip(made.nodes, sizes, strict=True)],
        "edges": [list(map(list, points)) for points in made.edges],
    }
