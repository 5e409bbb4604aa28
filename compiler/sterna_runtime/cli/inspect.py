"""`sterna-runtime inspect`."""

from __future__ import annotations

import argparse

from sterna_runtime.cli import stay
from sterna_runtime.cli.plain import echo, print_json, table
from sterna_runtime.cli.reports import bundle_json, number_of, size, tensor_signature
from sterna_runtime.describe import BundleFacts, as_calls, bundle_totals, describe_bundle, dimension_text
from sterna_runtime.errors import error

#: Tensors of either side of the signature that are shown.
_TENSORS = 8


def command(options: argparse.Namespace) -> int:
    """Shows what is in a bundle for any machine; returns the exit status."""
    if not options.bundle.is_dir():
        what = "a file, not a bundle" if options.bundle.exists() else "not there"
        raise error("E0006", f"{options.bundle} is {what}", fix="give the directory that compile wrote")
    facts = describe_bundle(options.bundle)
    if options.as_json:
        print_json(bundle_json(facts))
    else:
        _print(facts, options.nodes)
    return 0


def _print(facts: BundleFacts, nodes: bool) -> None:
    graph = facts.graph
    files = [[f"  {name}", size(count)] for name, count in facts.sizes.items()]
    if graph is None:
        echo(f"{facts.directory.name}: a bundle for firmware; model.h says what it takes and gives\n")
        echo(table(files, right=(1,)))
        return
    target, totals = graph["target"], bundle_totals(graph)
    echo(f"{graph['model']} for {target['name']}, made by {graph['producer']}")
    needs = ", ".join(target.get("cpu_features", ())) or "nothing"
    echo(f"  {target['triple'] or 'any processor'}; needs of the processor: {needs}\n")
    for device in graph.get("devices", ()):
        must = f", which must have {', '.join(device['needs'])}" if device["needs"] else ""
        echo(f"  on {device['kind']}{must}, by {device['module']}\n")
    if (kept := stay.summary(graph["nodes"])) is not None:
        echo(f"  {kept}\n")
    rows = []
    for side in ("inputs", "outputs"):
        tensors = [tensor_signature(graph["values"][index], graph) for index in graph[side]]
        rows += [[f"  {side[:-1]}", tensor.name, str(tensor), tensor.note] for tensor in tensors[:_TENSORS]]
        if len(tensors) > _TENSORS:
            rows.append([f"  {side}", f"and {len(tensors) - _TENSORS} more", "", ""])
    echo(table(rows))
    weights = graph["files"].get("params.bin", {}).get("bytes", 0)
    work = f"{number_of(totals.nodes, 'node')}, {number_of(totals.multiply_adds, 'multiply-add')}"
    echo(f"\n  {work}; weights {size(weights)}, arena "
         f"{size(totals.arena_bytes)}, scratch {size(graph['scratch_bytes'])} per thread")  # fmt: skip
    echo(table(files, right=(1,)))
    if nodes:
        told = bool(stay.stays(graph["nodes"]))
        symbols, calls = graph.get("symbols", ()), as_calls(graph)
        echo("\n" + table([
            ["#", "nodes of the model", "kernel", "tasks", *(["why on the CPU"] if told else [])],
            *([str(number), ", ".join(node.get("sources", ())) or node["name"],
               calls["kernels"][node["kernel"]]["name"], dimension_text(node["tasks"], symbols),
               *([stay.node_text(node["stay"]) if "stay" in node else ""] if told else [])]
              for number, node in enumerate(calls["nodes"])),
        ], right=(0, 3)))  # fmt: skip
    if not facts.intact:
        echo("the files are damaged: a size or hash is not the one written when it was compiled")
