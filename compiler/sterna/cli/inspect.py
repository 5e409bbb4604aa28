"""`sterna inspect`."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from sterna.api import options_of
from sterna.bundle import cyclonedx
from sterna.cli.options import (
    dim_option,
    json_option,
    math_mode,
    shape_option,
    signature_option,
    weights_file_option,
)
from sterna.cli.output import console, files, print_json, table
from sterna.cli.output import signature as signature_text
from sterna.cli.roofline import print_roofline, roofline_json
from sterna.compiled import Measured
from sterna.debug.roofline import roofline
from sterna.debug.sbom import bundle_bill, installation_bill
from sterna.debug.totals import ModelFacts, model_facts
from sterna.errors import SternaError, error
from sterna.escape import rich as escape
from sterna.firmware.description import read_firmware
from sterna.frontends.formats import find
from sterna.options import Options
from sterna.targets.description import load_target
from sterna_runtime.cli import stay
from sterna_runtime.cli.reports import (
    Signature,
    bundle_json,
    calls_text,
    errors_json,
    number_of,
    size,
    tensor_signature,
)
from sterna_runtime.describe import (
    BundleFacts,
    Totals,
    bundle_totals,
    describe_bundle,
    dimension_text,
    place_names,
)

_SUPPORT = {
    "yes": "yes",
    "expanded": "yes, expanded into others",
    "folded": "where its condition is a constant",
    "unrolled": "where the number of its iterations is known",
    "no": "[bold red]no[/]",
}
#: Tensors of either side of the signature, files and operators that are shown unasked.
_TENSORS, _FILES, _OPERATORS = 3, 4, 12


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path), required=False)
@signature_option
@weights_file_option
@click.option("--nodes", is_flag=True, help="List all nodes and kernels of a bundle, all operators of a model.")
@click.option("--memory", is_flag=True, help="List what lies where in a bundle's arena.")
@click.option("--roofline", "counted", is_flag=True,
              help="Of a model for a target with groups of threads: what its kernels ask of memory.")  # fmt: skip
@click.option("--target", "-t", metavar="NAME|FILE", help="For --roofline.  [default: opencl]")
@click.option("--math", type=math_mode, metavar="exact|fast[=BOUND]",
              help="For --roofline: of the model as `compile --math` makes it.")  # fmt: skip
@shape_option
@dim_option
@click.option(
    "--sbom", is_flag=True, help="Print a bill of materials (CycloneDX JSON); without PATH, of Sterna itself."
)
@json_option
def command(
    path: Path | None,
    signature: str | None,
    weights_file: Path | None,
    nodes: bool,
    memory: bool,
    counted: bool,
    target: str | None,
    math: str | None,
    shapes: tuple[tuple[str, tuple[int, ...] | None], ...],
    dims: tuple[tuple[str, Any], ...],
    sbom: bool,
    as_json: bool,
) -> None:
    """Show what is in PATH: a bundle, for any machine, or a model of any format. --json has everything."""
    if not counted and (target or math or shapes or dims):
        title = "--target, --math, --shape and --dim are for --roofline"
        raise error("E0002", title, fix="add --roofline, or leave them out")
    if counted and (memory or sbom):
        shown = "--memory" if memory else "--sbom"
        raise error("E0002", f"{shown} and --roofline are two commands", fix="give one of them, then the other")
    if sbom:
        _print_bill(path)
    elif path is None:
        raise error("E0006", "there is no PATH", fix="give a bundle's directory or a model file")
    elif counted:
        sizes, mode = (dict(shapes), dict(dims)), math or "exact"
        made = options_of(target or "opencl", *sizes, math=mode, signature=signature, weights_file=weights_file)
        _print_roofline(path, made, nodes, as_json)
    elif path.is_dir() and find(path) is None:
        if signature is not None:
            raise error("E0002", f"{path} is a bundle, which has one signature", fix="leave --signature out")
        if weights_file is not None:
            raise error("E0002", f"{path} is a bundle, which has its weights", fix="leave --weights-file out")
        bundle = describe_bundle(path)
        try:
            if as_json:
                print_json(bundle_json(bundle))
            else:
                _print_bundle(bundle, nodes, memory)
        except (LookupError, TypeError, ValueError, AttributeError):  # the file is read here only, and checked nowhere
            raise error("E0504", "graph.json is malformed", str(path), fix="compile the model again") from None
    elif path.exists():
        if memory:
            raise error("E0002", f"{path} is a model, which has no arena", fix=f"sterna compile {path}, and its bundle")
        model = model_facts(path, signature, weights_file)
        if as_json:
            print_json(_model_json(model))
        else:
            _print_model(model, nodes)
    else:
        raise error("E0006", f"{path} does not exist", fix="give a bundle's directory or a model file")


def _print_roofline(path: Path, made: Options, nodes: bool, as_json: bool) -> None:
    if path.is_dir() and find(path) is None:
        raise error("E0002", f"{path} is a bundle, which has no loops to count in", fix="give the model, and --target")
    facts = roofline(path, made)
    if as_json:
        print_json(roofline_json(facts))
    else:
        print_roofline(facts, nodes)


def _print_bill(path: Path | None) -> None:
    if path is not None and path.is_file():
        raise error("E0006", f"{path} is not the directory of a bundle", fix="compile the model first")
    click.echo(cyclonedx.text(installation_bill() if path is None else bundle_bill(path)), nl=False)


# ---- Bundles ----


def _print_bundle(facts: BundleFacts, nodes: bool, memory: bool) -> None:
    out = console()
    graph = facts.graph
    if graph is None:
        out.print(
            f"[bold]{escape(facts.directory.name)}[/]: a bundle for firmware; model.h says what it takes and gives\n"
        )
        firmware = read_firmware(facts.directory)
        out.print(f"  arena {size(firmware.memory_bytes)}, weights {size(firmware.params_bytes)}\n")
        if firmware.fitted:
            out.print(f"  {escape(firmware.fitted)}\n", soft_wrap=True)
        if firmware.fetched is not None:
            out.print(f"  {escape(firmware.fetched.text)}\n", soft_wrap=True)
        out.print(files(facts.sizes))
        return
    target, totals = graph["target"], bundle_totals(graph)
    out.print(f"[bold]{escape(graph['model'])}[/] for {escape(target['name'])}, made by {escape(graph['producer'])}")
    needs = ", ".join(target.get("cpu_features", ())) or "nothing"
    settings = _settings(graph)
    machine = target["triple"] or "any processor"
    out.print(f"  {escape(machine)}; needs of the processor: {escape(needs)}")
    out.print(f"  {escape(settings)}\n")
    for number, device in enumerate(graph.get("devices", ()), 1):
        out.print(f"  {escape(_device(graph, device, number))}\n", soft_wrap=True)
    if (kind := _unused_device(graph)) is not None:
        out.print(f"  no node is on {kind}: all run on the CPU\n", soft_wrap=True)
    for line in _staying(graph):
        out.print(f"  {escape(line)}\n", soft_wrap=True)
    if (math := graph.get("math")) is not None:
        out.print(f"  {escape(_math(math))}\n", soft_wrap=True)
    out.print(_signature(graph))
    weights = graph["files"].get("params.bin", {}).get("bytes", 0)
    largest = sorted(facts.sizes, key=lambda name: -facts.sizes[name])[:_FILES]
    shown = f"; the {_FILES} largest" if len(largest) < len(facts.sizes) else ""
    out.print(
        f"\n  {calls_text(totals.nodes, len(graph['kernels']))}: {_multiply_adds(totals)}"
        f"\n  weights {size(weights)}, arena {size(totals.arena_bytes)} (live-set lower bound "
        f"{size(totals.live_bytes)}), scratch {size(graph['scratch_bytes'])} per thread"
        f"\n  {size(sum(facts.sizes.values()))} in {number_of(len(facts.sizes), 'file')}{shown}:",
        soft_wrap=True,
    )
    out.print(files({name: count for name, count in facts.sizes.items() if name in largest}))
    if nodes:
        out.print("", _kernels(graph), "", _nodes(graph), sep="\n")
        if stay.stays(graph["nodes"]):
            out.print("", _on_cpu(graph), sep="\n")
    if memory:
        out.print("", _memory(graph), sep="\n")
    if not facts.intact:
        out.print("[bold red]the files are damaged: a size or hash is not the one written when it was compiled[/]")
    elif not (nodes or memory):
        out.print("  --nodes lists nodes and kernels, --memory what lies where, --json everything")


def _settings(graph: dict[str, Any]) -> str:
    """How a bundle was compiled. Its generator is that of the kernels that run on the CPU, where there are any."""
    words = {key: f"{key} {str(value).lower()}" for key, value in graph.get("options", {}).items()}
    if graph.get("devices") and "generator" in words:
        words["generator"] += " on the CPU"
        if all("device" in kernel for kernel in graph["kernels"]):
            del words["generator"]
    return ", ".join(words.values())


def _unused_device(graph: dict[str, Any]) -> str | None:
    """The kind of device that a bundle's target has and no node of it needs; None where nothing says that."""
    try:
        device = load_target(graph["target"]["name"]).device
    except SternaError:  # a description of somebody's own
        return None
    return None if device is None or graph.get("devices") else device.kind


def _staying(graph: dict[str, Any]) -> list[str]:
    """Why nodes stay on the CPU, and what has them on the device."""
    kind = graph["devices"][0]["kind"] if graph.get("devices") else _unused_device(graph)
    return stay.lines(graph["nodes"], kind)


def _device(graph: dict[str, Any], device: dict[str, Any], number: int) -> str:
    """A device that a bundle runs on, and how much of it does."""
    own = sum(node.get("device") == number for node in graph["nodes"])
    copies = sum(node.get("op") == "copy" for node in graph["nodes"])
    needs = f", which must have {', '.join(device['needs'])}" if device["needs"] else ""
    rest = len(graph["nodes"]) - own - copies
    memory = (
        f"arena {size(device['arena_bytes'])}, weights {size(device['params'][1])}, "
        f"scratch {size(device['scratch_bytes'])}"
    )
    return (
        f"on {device['kind']}{needs}, by {device['module']}: {number_of(own, 'node')}, {rest:,} on the CPU, "
        f"{copies:,} {'copy' if copies == 1 else 'copies'} between; {memory}"
    )


def _math(math: dict[str, Any]) -> str:
    """What was traded for speed, and the error of every output."""
    tiles = tuple((row["layer"], tuple(row["taps"]), tuple(row["outputs"])) for row in math["tiles"])
    made, errors, halves = math["measured"], tuple(math["errors"].items()), tuple(math["halves"])
    narrow = tuple((row["layer"], row["dtype"]) for row in math.get("narrow", ()))
    measured = Measured(math["bound"], errors, tiles, halves, math["layers"], made["target"], made["sets"], narrow)
    if len(measured.errors) < 2 or not measured.error:
        return measured.text
    return f"{measured.text}: {', '.join(f'{name} {error:.1e}' for name, error in measured.errors)}"


def _multiply_adds(totals: Totals) -> str:
    at = ", ".join(f"{name} = {size_}" for name, size_ in totals.sizes.items())
    return f"{totals.multiply_adds:,} multiply-adds{f' at {escape(at)}' if at else ''}"


def _signature(graph: dict[str, Any]) -> Table:
    inputs, outputs = (
        [tensor_signature(graph["values"][index], graph) for index in graph[kind]] for kind in ("inputs", "outputs")
    )
    return signature_text(inputs, outputs, _TENSORS)


def _kernels(graph: dict[str, Any]) -> Table:
    uses = Counter(node["kernel"] for node in graph["nodes"] if "kernel" in node)
    rows = table(">#", "kernel", ">nodes", title="Kernels")
    for index, kernel in enumerate(graph["kernels"]):
        rows.add_row(str(index), escape(kernel["name"]), str(uses[index]))
    return rows


def _nodes(graph: dict[str, Any]) -> Table:
    places = place_names(graph)
    on = ["on"] if len(places) > 1 else []
    rows = table(">#", "nodes of the model", *on, ">kernel", ">tasks", ">weights", "writes", title="Nodes")
    for index, node in enumerate(graph["nodes"]):
        if node.get("op") == "copy":
            way = f"{places[node['from']]} to {places[node['to']]}"
            rows.add_row(str(index), "copy", escape(way), "", "", "", escape(graph["values"][node["value"]]["name"]))
            continue
        written = ", ".join(dict.fromkeys(graph["values"][v]["name"] for v in node["out"]))
        sources = ", ".join(node.get("sources", ())) or node["name"]
        weights = size(node["params_bytes"]) if node.get("params_bytes") else ""
        rows.add_row(
            str(index),
            escape(sources),
            *([escape(places[node.get("device", 0)])] if on else []),
            str(node["kernel"]),
            dimension_text(node["tasks"], graph.get("symbols", ())),
            weights,
            escape(written),
        )
    return rows


def _on_cpu(graph: dict[str, Any]) -> Table:
    """Which nodes are on the CPU, and why: a table of its own, since the one of all nodes is wide."""
    rows = table(">#", "nodes of the model", "why on the CPU", title="Nodes on the CPU")
    for index, node in enumerate(graph["nodes"]):
        if "stay" in node:
            sources = ", ".join(node.get("sources", ())) or node["name"]
            rows.add_row(str(index), escape(sources), escape(stay.node_text(node["stay"])))
    return rows


def _memory(graph: dict[str, Any]) -> Table:
    arenas = [arena["memory"] for arena in graph.get("arenas", ())]
    rows = table(*(["memory"] if arenas else []), ">offset", ">bytes", "tensor", "type", "", title="Arena")
    values = [v for v in graph["values"] if v["storage"]["class"] == "arena"]
    for value in sorted(values, key=lambda v: (v["storage"].get("arena", 0), v["storage"]["offset"], v["name"])):
        storage = value["storage"]
        note = "reused" if value.get("fleeting") else ""
        rows.add_row(
            *([escape(arenas[storage.get("arena", 0)])] if arenas else []),
            f"{storage['offset']:,}",
            f"{storage['bytes']:,}",
            escape(value["name"]),
            escape(str(tensor_signature(value, graph))),
            note,
        )
    return rows


# ---- Models ----


def _print_model(facts: ModelFacts, nodes: bool) -> None:
    out = console()
    versions = ", ".join(f"{domain} {version}" for domain, version in facts.opsets.items())
    kind = f"{facts.format} with {versions}" if versions else facts.format
    made = f", written by {facts.producer}" if facts.producer else ""
    out.print(f"[bold]{escape(facts.file)}[/]: {escape(kind)}{escape(made)}\n")
    inputs, outputs = ([Signature(t.name, t.dtype, t.dims) for t in side] for side in (facts.inputs, facts.outputs))
    out.print(signature_text(inputs, outputs, _TENSORS))
    out.print(
        f"\n  {number_of(facts.nodes, 'node')}, {number_of(facts.weights, 'weight')} ({size(facts.weight_bytes)}) "
        f"in a file of {size(facts.file_bytes)}"
    )
    if facts.totals is not None:
        out.print(
            f"  compiled for this machine: {number_of(facts.totals.nodes, 'node')}, "
            f"arena {size(facts.totals.arena_bytes)}, {_multiply_adds(facts.totals)}",
            soft_wrap=True,
        )
    if facts.signatures:
        out.print(f"  signatures: {escape(', '.join(facts.signatures))}")
    if facts.open_inputs:
        dims = " ".join(f"--dim {name}=SIZE" for name in facts.open_dims)
        shapes = " ".join(f"--shape {name}=SIZES" for name in facts.open_inputs)
        must = "that can be given" if facts.sizes_ready else "to give"
        out.print(
            f"  sizes {must} when compiling: {escape(f'{dims}  or  {shapes}' if dims else shapes)}", soft_wrap=True
        )
    if nodes:
        rows = table("operator", ">nodes", "supported")
        for use in facts.operators:
            rows.add_row(escape(use.name), str(use.nodes), _SUPPORT[use.support])
        out.print(rows)
    else:
        out.print(f"  operators: {_operators(facts)}", soft_wrap=True)
    if facts.problems:
        out.print("This version cannot compile it:\n")
        for diagnostic in facts.problems:
            click.echo(f"{diagnostic.text('cli')}\n")


def _operators(facts: ModelFacts) -> str:
    """The operators in a line: those that are not supported, then the most frequent ones."""
    uses = sorted(facts.operators, key=lambda use: (use.support != "no", -use.nodes))
    shown = [
        f"{escape(use.name)} {use.nodes}" + (" [bold red](not supported)[/]" if use.support == "no" else "")
        for use in uses[:_OPERATORS]
    ]
    more = [f"and {len(uses) - _OPERATORS} others (--nodes lists all)"] if len(uses) > _OPERATORS else []
    return ", ".join(shown + more)


def _model_json(facts: ModelFacts) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "model", **dataclasses.asdict(facts)}
    row["open_dims"] = list(facts.open_dims)
    row["open_inputs"] = list(facts.open_inputs)
    row["problems"] = errors_json(SternaError(facts.problems)) if facts.problems else []
    return row
