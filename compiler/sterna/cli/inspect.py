"""`sterna inspect`."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from sterna.bundle import cyclonedx
from sterna.bundle.sbom import bundle_bill, installation_bill
from sterna.cli.failures import errors_json
from sterna.cli.options import json_option, signature_option
from sterna.cli.output import Signature, console, files, print_json, size, table
from sterna.cli.output import signature as signature_text
from sterna.debug.describe import BundleFacts, ModelFacts, describe_bundle, describe_model, dimension_text
from sterna.debug.describe_boosted import describe_boosted
from sterna.debug.describe_tflite import describe_tflite
from sterna.errors import SternaError, error
from sterna.frontends.formats import format_of

_SUPPORT = {
    "yes": "yes",
    "expanded": "yes, expanded into others",
    "folded": "where its condition is a constant",
    "unrolled": "where the number of its iterations is known",
    "no": "[bold red]no[/]",
}
_DESCRIBED = {
    "onnx": describe_model, "tflite": describe_tflite, "xgboost": describe_boosted, "lightgbm": describe_boosted,
}  # fmt: skip


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path), required=False)
@signature_option
@click.option(
    "--sbom", is_flag=True, help="Print a bill of materials (CycloneDX JSON); without PATH, of Sterna itself."
)
@json_option
def command(path: Path | None, signature: str | None, sbom: bool, as_json: bool) -> None:
    """Show what is in PATH: a bundle, for any machine, or a model of any format."""
    if sbom:
        _print_bill(path)
    elif path is None:
        raise error("E0006", "there is no PATH", fix="give a bundle's directory or a model file")
    elif path.is_dir():
        bundle = describe_bundle(path)
        if as_json:
            print_json(_bundle_json(bundle))
        else:
            _print_bundle(bundle)
    elif path.exists():
        model = _described(path, signature)
        if as_json:
            print_json(_model_json(model))
        else:
            _print_model(model)
    else:
        raise error("E0006", f"{path} does not exist", fix="give a bundle's directory or a model file")


def _print_bill(path: Path | None) -> None:
    if path is not None and path.is_file():
        raise error("E0006", f"{path} is not the directory of a bundle", fix="compile the model first")
    click.echo(cyclonedx.text(installation_bill() if path is None else bundle_bill(path)), nl=False)


def _described(path: Path, signature: str | None) -> ModelFacts:
    kind = format_of(path)
    if signature is None:
        return _DESCRIBED[kind](path)
    if kind != "tflite":
        raise error("E0106", f'the model has no signature "{signature}"', fix="leave --signature out")
    return describe_tflite(path, signature)


# ---- Bundles ----


def _print_bundle(facts: BundleFacts) -> None:
    out = console()
    graph = facts.graph
    if graph is None:
        out.print(
            f"[bold]{escape(facts.directory.name)}[/]: a bundle for firmware; model.h says what it takes and gives\n"
        )
        out.print(files(facts.sizes))
        return
    target = graph["target"]
    out.print(f"[bold]{escape(graph['model'])}[/] for {escape(target['name'])}, made by {escape(graph['producer'])}")
    needs = ", ".join(target.get("cpu_features", ())) or "nothing"
    settings = ", ".join(f"{key} {str(value).lower()}" for key, value in graph.get("options", {}).items())
    out.print(f"  {escape(target['triple'])}; needs of the processor: {escape(needs)}")
    out.print(f"  {escape(settings)}\n")
    out.print(_signature(graph))
    arena, live = graph["arena"]["bytes"], graph["arena"].get("live_bytes", 0)
    scratch = size(graph["scratch_bytes"])
    out.print(f"\n  arena {size(arena)} (live-set lower bound {size(live)}), scratch {scratch} per thread")
    out.print()
    out.print(files(facts.sizes))
    out.print()
    out.print(_kernels(graph))
    out.print()
    out.print(_nodes(graph))
    out.print()
    out.print(_memory(graph))
    if not facts.intact:
        out.print("[bold red]the files are damaged: a size or hash is not the one written when it was compiled[/]")


def _signature(graph: dict[str, Any]) -> Table:
    inputs, outputs = (
        [_tensor(graph["values"][index], graph) for index in graph[kind]] for kind in ("inputs", "outputs")
    )
    return signature_text(inputs, outputs)


def _tensor(value: dict[str, Any], graph: dict[str, Any]) -> Signature:
    symbols = graph.get("symbols", ())
    return Signature(value["name"], value["dtype"], tuple(dimension_text(n, symbols) for n in value["dims"]))


def _kernels(graph: dict[str, Any]) -> Table:
    uses = Counter(node["kernel"] for node in graph["nodes"])
    rows = table(">#", "kernel", ">nodes", title="Kernels")
    for index, kernel in enumerate(graph["kernels"]):
        rows.add_row(str(index), escape(kernel["name"]), str(uses[index]))
    return rows


def _nodes(graph: dict[str, Any]) -> Table:
    rows = table(">#", "nodes of the model", ">kernel", ">tasks", ">weights", "writes", title="Nodes")
    for index, node in enumerate(graph["nodes"]):
        written = ", ".join(dict.fromkeys(graph["values"][v]["name"] for v in node["out"]))
        sources = ", ".join(node.get("sources", ())) or node["name"]
        weights = size(node["params_bytes"]) if node.get("params_bytes") else ""
        rows.add_row(
            str(index),
            escape(sources),
            str(node["kernel"]),
            dimension_text(node["tasks"], graph.get("symbols", ())),
            weights,
            escape(written),
        )
    return rows


def _memory(graph: dict[str, Any]) -> Table:
    rows = table(">offset", ">bytes", "tensor", "type", "", title="Arena")
    values = [v for v in graph["values"] if v["storage"]["class"] == "arena"]
    for value in sorted(values, key=lambda v: (v["storage"]["offset"], v["name"])):
        storage = value["storage"]
        note = "reused" if value.get("fleeting") else ""
        rows.add_row(
            f"{storage['offset']:,}",
            f"{storage['bytes']:,}",
            escape(value["name"]),
            escape(str(_tensor(value, graph))),
            note,
        )
    return rows


def _bundle_json(facts: BundleFacts) -> dict[str, Any]:
    return {
        "kind": "bundle",
        "directory": str(facts.directory),
        "intact": facts.intact,
        "sizes": facts.sizes,
        "graph": facts.graph,
    }


# ---- Models ----


def _print_model(facts: ModelFacts) -> None:
    out = console()
    versions = ", ".join(f"{domain} {version}" for domain, version in facts.opsets.items())
    kind = f"{facts.format} with {versions}" if versions else facts.format
    made = f", written by {facts.producer}" if facts.producer else ""
    out.print(f"[bold]{escape(facts.file)}[/]: {escape(kind)}{escape(made)}\n")
    grid = Table.grid(padding=(0, 2))
    for kind, tensors in (("input", facts.inputs), ("output", facts.outputs)):
        for tensor in tensors:
            grid.add_row(f"  {kind}", f"[bold]{escape(tensor.name)}[/]", escape(str(tensor)))
    out.print(grid)
    out.print(f"\n  {facts.nodes:,} nodes, {facts.weights:,} weights ({size(facts.weight_bytes)})")
    if facts.signatures:
        out.print(f"  signatures: {escape(', '.join(facts.signatures))}")
    if facts.open_inputs:
        dims = " ".join(f"--dim {name}=SIZE" for name in facts.open_dims)
        shapes = " ".join(f"--shape {name}=SIZES" for name in facts.open_inputs)
        must = "to give" if facts.format == "ONNX" else "that can be given"  # else those the file stands ready with
        out.print(
            f"  sizes {must} when compiling: {escape(f'{dims}  or  {shapes}' if dims else shapes)}", soft_wrap=True
        )
    rows = table("operator", ">nodes", "supported")
    for use in facts.operators:
        rows.add_row(escape(use.name), str(use.nodes), _SUPPORT[use.support])
    out.print(rows)
    if facts.problems:
        out.print("This version cannot compile it:\n")
        for diagnostic in facts.problems:
            click.echo(f"{diagnostic.text('cli')}\n")


def _model_json(facts: ModelFacts) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "model", **dataclasses.asdict(facts)}
    row["open_dims"] = list(facts.open_dims)
    row["open_inputs"] = list(facts.open_inputs)
    row["problems"] = errors_json(SternaError(facts.problems)) if facts.problems else []
    return row
