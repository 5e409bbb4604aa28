"""The files of a bundle, and the bundle on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from sterna.bundle.c_files import firmware_json, model_header, static_model
from sterna.bundle.directory import write_files
from sterna.bundle.firmware import firmware_archive, hold
from sterna.bundle.graph_json import graph_json, graph_name
from sterna.bundle.weights import weights_files, weights_of
from sterna.bundle.widened import narrowed, widened_ranges
from sterna.compiled import Compiled
from sterna.ir import dtypes
from sterna.ir.graph import Graph
from sterna_runtime.graph_file import FIRMWARE
from sterna_runtime.ownership import GRAPH, HEADER, in_one_file, with_manifest
from sterna_runtime.strings import FILE as STRINGS


def strings_json(graph: Graph) -> bytes:
    """The strings of a model by number, and which tensors of its signature hold them."""
    outputs = zip(graph.output_names, graph.outputs, strict=True)
    members = {
        "strings": list(graph.strings),
        "inputs": [value.name for value in graph.inputs if value.dtype == dtypes.STRING],
        "outputs": [name for name, value in outputs if value.dtype == dtypes.STRING],
    }
    return json.dumps(members, ensure_ascii=False).encode()


def strings_files(graph: Graph) -> dict[str, bytes]:
    """The table of a model with tensors of strings, by its name; nothing for any other."""
    has = any(v.dtype == dtypes.STRING for v in (*graph.inputs, *graph.outputs))
    return {STRINGS: strings_json(graph)} if has else {}


def bundle_files(compiled: Compiled, golden: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
    """Every file of the bundle, by name; those of a golden set are given."""
    target = compiled.options.target
    files: dict[str, bytes] = (
        {"kernels.c": compiled.source.encode(), **(golden or {})} if compiled.source else {**(golden or {})}
    )
    if target.device is not None and compiled.module:
        files[target.device.module] = compiled.module.encode()
    files |= strings_files(compiled.graph)
    header = model_header(compiled).encode()
    if target.static:
        files["model.c"] = static_model(compiled).encode()
        files |= weights_files(compiled)
        archive, footprint = firmware_archive(compiled)
        hold(compiled.options, footprint)
        if archive:
            files[target.library] = archive
        header = model_header(compiled, asdict(footprint)).encode()
        how = weights_of(compiled.options, len(files["params.bin"]))
        sources = ("model.c", *([how.source] if how.source else []), "kernels.c")
        files[FIRMWARE] = firmware_json(compiled, sources, how, asdict(footprint))
        return {**files, HEADER: with_manifest(header, files)}
    files[HEADER] = header
    params = narrowed(compiled.params, widened_ranges(compiled))
    opened = {"params.bin": params, **{each.name: each.data for each in compiled.libraries}}
    for each in compiled.alternatives:
        (library,) = each.libraries
        name = each.options.target.name
        own = {"params.bin": each.params, library.name: library.data, f"kernels.{name}.c": each.source.encode()}
        opened |= {library.name: library.data, graph_name(each.options.target): graph_json(each, own)}
        files[f"kernels.{name}.c"] = own[f"kernels.{name}.c"]
    graph = graph_json(compiled, {**opened, **files})
    if compiled.options.single_file:
        return {**files, target.library: in_one_file(compiled.library, graph, params)}
    return {**files, **opened, GRAPH: graph}


def write_bundle(compiled: Compiled, directory: str | os.PathLike[str]) -> Path:
    """Writes the bundle; returns its directory. Errors and what else is in the directory: as `write_files`."""
    return write_files(bundle_files(compiled), directory).directory
