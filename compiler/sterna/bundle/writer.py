"""Writes a bundle: everything into a temporary directory beside its place, then one rename."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from sterna.bundle.c_files import model_header, params_source, static_model
from sterna.bundle.graph_json import graph_json
from sterna.driver import Compiled
from sterna.errors import error
from sterna.ir import dtypes
from sterna.ir.graph import Graph
from sterna.runtime.strings import FILE as STRINGS
from sterna.toolchain.wasm import with_custom_section

#: Where graph.json stands in a bundle of one file.
GRAPH_SECTION = "sterna.graph"


def strings_json(graph: Graph) -> bytes:
    """The strings of a model by number, and which tensors of its signature hold them."""
    outputs = zip(graph.output_names, graph.outputs, strict=True)
    members = {
        "strings": list(graph.strings),
        "inputs": [value.name for value in graph.inputs if value.dtype == dtypes.STRING],
        "outputs": [name for name, value in outputs if value.dtype == dtypes.STRING],
    }
    return json.dumps(members, ensure_ascii=False).encode()


def bundle_files(compiled: Compiled) -> dict[str, bytes]:
    """Every file of the bundle, by name."""
    target = compiled.options.target
    files: dict[str, bytes] = {"kernels.c": compiled.source.encode()}
    if target.static:
        files["model.c"] = static_model(compiled).encode()
        files["params.c"] = params_source(compiled).encode()
        files["params.bin"] = compiled.params
        if compiled.library:
            files[target.library] = compiled.library
    else:
        opened = {"params.bin": compiled.params, **{each.name: each.data for each in compiled.libraries}}
        graph = graph_json(compiled, opened)
        if compiled.options.single_file:
            files[target.library] = with_custom_section(compiled.library, GRAPH_SECTION, graph)
        else:
            files.update(opened)
            files["graph.json"] = graph
    if any(v.dtype == dtypes.STRING for v in (*compiled.graph.inputs, *compiled.graph.outputs)):
        files[STRINGS] = strings_json(compiled.graph)
    files["model.h"] = model_header(compiled).encode()
    return files


def write_bundle(compiled: Compiled, directory: str | os.PathLike[str]) -> Path:
    """Writes the bundle; an older bundle in the same place is replaced, anything else is left alone.

    Raises:
        SternaError: E0204, the place is taken by something else or cannot be written.
    """
    place = Path(directory)
    if place.exists() and not _is_bundle(place):
        raise error(
            "E0204",
            "the output directory holds something that is not a bundle",
            str(place),
            fix="name a new directory, or empty this one",
        )
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    except OSError as e:
        raise error(
            "E0204",
            f"the output directory cannot be made: {e.strerror}",
            str(place),
            fix="name a directory that you may write",
        ) from None
    try:
        for name, data in bundle_files(compiled).items():
            (temporary / name).write_bytes(data)
        temporary.chmod(0o755)
        old = None
        if place.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent)) / "old"
            place.rename(old)
        temporary.rename(place)
        if old is not None:
            shutil.rmtree(old.parent, ignore_errors=True)
    except OSError as e:
        shutil.rmtree(temporary, ignore_errors=True)
        raise error(
            "E0204", f"the bundle cannot be written: {e.strerror}", str(place), fix="check free space and permissions"
        ) from None
    return place


def _is_bundle(place: Path) -> bool:
    if not place.is_dir():
        return False
    names = {p.name for p in place.iterdir()}
    return not names or ("kernels.c" in names and "model.h" in names)
