"""Software bills of materials: of a bundle, and of this installation (`sterna inspect --sbom`)."""

from __future__ import annotations

import json
import os
import re
from importlib import metadata
from pathlib import Path
from typing import Any

from sterna.bundle import cyclonedx
from sterna.codegen.render import resource
from sterna.errors import SternaError, error
from sterna.version import __version__
from sterna_runtime import library
from sterna_runtime.describe import BundleFacts, describe_bundle

#: What a file of a bundle is.
_FILES = {
    "graph.json": "signature, plan and hashes",
    "firmware.json": "signature and sizes, for tools",
    "params.bin": "the model's weights as kernels read them",
    "kernels.c": "generated source of the kernels",
    "model.h": "generated C header of the signature",
    "model.c": "generated C source of the graph",
    "params.c": "the model's weights as a C array",
    "params.S": "assembler source that takes in the model's weights",
    "params.ld": "linker script with the address of the model's weights",
    "strings.json": "strings of the model",
    "golden.json": "test inputs and outputs: their shapes",
    "golden.bin": "test inputs and outputs",
}


def bundle_bill(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The bill of a bundle: its files, the model, the compiler and toolchain that made it, the runtime it needs.

    Raises:
        SternaError: as `describe_bundle`; E0505, a file is not the one that was compiled.
    """
    facts = describe_bundle(directory)
    try:
        return _bill(facts)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise error("E0504", "graph.json is malformed", str(directory), fix="compile the model again") from None


def _bill(facts: BundleFacts) -> dict[str, Any]:
    place, graph = facts.directory, facts.graph or {}
    if facts.intact is False:
        title = "the files are damaged: a size or hash is not the one written when it was compiled"
        raise error("E0505", title, str(place), fix="compile the model again")
    try:
        named = sorted({"graph.json", *graph["files"]} & facts.sizes.keys()) if graph else sorted(facts.sizes)
        files = [cyclonedx.file_component(n, (place / n).read_bytes(), _FILES.get(n, _kind(n))) for n in named]
    except OSError as problem:
        raise error("E0503", f"{problem.filename} cannot be read: {problem.strerror}") from None
    producer = str(graph.get("producer", "sterna"))
    made_by = _tool("sterna", producer.removeprefix("sterna").strip(), "the compiler that made the bundle")
    parts = [*files, made_by]
    subject: cyclonedx.Component = {
        "type": "machine-learning-model",
        "bom-ref": "bundle",
        "name": str(graph.get("model", place.resolve().name)),
    }
    if graph:
        target, options = graph["target"], graph.get("options", {})
        facts_of_it = {
            "sterna:target": target["name"],
            "sterna:triple": target["triple"],
            "sterna:abi": graph["abi"],
            "sterna:generator": options.get("generator", ""),
        }
        subject["properties"] = [{"name": name, "value": str(value)} for name, value in facts_of_it.items() if value]
        if isinstance(toolchain := options.get("toolchain"), str) and toolchain:
            name, _, version = toolchain.partition(" ")
            parts.append(_tool(name, version, "compiled the kernels"))
        parts.append(_runtime(made_by["version"]))
        subject["pedigree"] = {"ancestors": [_source(graph.get("source") or {})]}
    refs = [part["bom-ref"] for part in parts]
    return cyclonedx.document(subject, parts, {"bundle": refs}, __version__)


def _kind(name: str) -> str:
    return "compiled kernels" if name.endswith((".so", ".dylib", ".dll", ".a", ".lib", ".wasm")) else ""


def _tool(name: str, version: str, description: str) -> cyclonedx.Component:
    """What made a bundle and is not part of it."""
    part: cyclonedx.Component = {
        "type": "application",
        "bom-ref": f"made-by:{name}",
        "name": name,
        "version": version,
        "description": description,
        "scope": "excluded",
    }
    if name in ("sterna", "ziglang", "llvmlite"):
        part["purl"] = cyclonedx.package_url(name, version.partition(",")[0])
    if name == "sterna":
        part["licenses"] = cyclonedx.licenses(cyclonedx.LICENSE)
    return part


def _runtime(version: str) -> cyclonedx.Component:
    return {
        "type": "library",
        "bom-ref": "runtime",
        "name": "sterna runtime",
        "version": version,
        "description": "what loads the bundle, in C, Python or JavaScript; this version or a later one of the same ABI",
        "licenses": cyclonedx.licenses(cyclonedx.LICENSE),
        "scope": "required",
    }


def _source(source: dict[str, Any]) -> cyclonedx.Component:
    """The model that was compiled: what is known of it. Its licence is not, and also holds for the weights."""
    part: cyclonedx.Component = {"type": "machine-learning-model", "bom-ref": "source-model", "name": "source model"}
    if isinstance(digest := source.get("sha256"), str) and re.fullmatch("[0-9a-f]{64}", digest):
        part["hashes"] = [{"alg": "SHA-256", "content": digest}]
    if isinstance(kind := source.get("format"), str):
        part["properties"] = [{"name": "sterna:format", "value": kind}]
    return part


def installation_bill() -> dict[str, Any]:
    """The bill of the installed package: its parts, and its dependencies as they are installed, those of theirs too."""
    folders = {name: resource(name) for name in cyclonedx.VENDORED}
    try:
        compiled = [library.find()]
    except SternaError:  # not built yet, in a checkout
        compiled = []
    subject = cyclonedx.sterna_component(
        __version__, {name: folder for name, folder in folders.items() if folder.is_dir()}, compiled
    )
    parts: dict[str, cyclonedx.Component] = {}
    needs: dict[str, set[str]] = {}
    waiting = [("sterna", subject["bom-ref"])]
    while waiting:
        name, ref = waiting.pop()
        needs[ref] = set()
        for requirement in _requirements(name):
            needed = cyclonedx.requirement_name(requirement)
            try:
                found = metadata.distribution(needed) if needed is not None else None
            except metadata.PackageNotFoundError:
                continue  # of another system or Python
            if needed is None or found is None:
                continue
            part = _installed(found)
            needs[ref].add(part["bom-ref"])
            if part["bom-ref"] not in parts:
                parts[part["bom-ref"]] = part
                waiting.append((needed, part["bom-ref"]))
    return cyclonedx.document(subject, [parts[ref] for ref in sorted(parts)], needs, __version__)


def _requirements(name: str) -> list[str]:
    try:
        return metadata.distribution(name).requires or []
    except metadata.PackageNotFoundError:
        # A checkout that is not installed: what pyproject.toml says.
        project = Path(__file__).resolve().parents[3] / "pyproject.toml"
        return _project_requirements(project.read_text()) if name == "sterna" and project.is_file() else []


def _project_requirements(text: str) -> list[str]:
    """The list `dependencies` of pyproject.toml; Python 3.10 has no reader of TOML."""
    lines = text.partition("\ndependencies = [\n")[2].partition("\n]")[0].splitlines()
    return [json.loads(line.strip().rstrip(",")) for line in lines if line.strip().startswith('"')]


def _installed(found: metadata.Distribution) -> cyclonedx.Component:
    name, version = found.metadata["Name"], found.version
    part: cyclonedx.Component = {
        "type": "library",
        "bom-ref": cyclonedx.package_url(name, version),
        "name": name,
        "version": version,
        "scope": "required",
        "purl": cyclonedx.package_url(name, version),
    }
    if said := _license(found):
        part["licenses"] = cyclonedx.licenses(said)
    return part


def _license(found: metadata.Distribution) -> str:
    """What the package's metadata says: an SPDX expression, else its first line of words, else a classifier."""
    said = found.metadata.get_all("License-Expression") or found.metadata.get_all("License") or [""]
    first = str(said[0]).strip().partition("\n")[0].strip()
    if first and len(first) <= 80:
        return first
    classifiers = found.metadata.get_all("Classifier") or []
    return next((c.rsplit(" :: ", 1)[1] for c in classifiers if c.startswith("License :: ")), "")
