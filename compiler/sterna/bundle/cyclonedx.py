"""Parts of a software bill of materials in CycloneDX 1.7 JSON (https://cyclonedx.org/docs/1.7/json/).

Nothing of Sterna is imported here: the build of the wheel uses this file too, and has not its dependencies.
The same contents give the same document: the serial number follows from them, and there is a time only where
SOURCE_DATE_EPOCH says which.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

SPEC_VERSION = "1.7"
LICENSE = "Apache-2.0"
REPOSITORY = "https://pypi.org/project/sterna/"

Component = dict[str, Any]

#: What the wheel holds besides the Python package: where it is in a checkout, and what it is.
VENDORED = {
    "runtime_c": "Sterna's C runtime: sources, and for other machines its build files",
    "runtime_js/src": "Sterna's JavaScript runtime; hash-module.js is runtime_js/hash/hash.c compiled to WebAssembly",
    "templates": "Jinja templates of generated sources and packages",
    "examples/browser": "pages of `sterna serve`",
}


def package_url(name: str, version: str | None = None) -> str:
    """The purl of a package of PyPI."""
    plain = re.sub(r"[-_.]+", "-", name).lower()
    return f"pkg:pypi/{plain}" + (f"@{version}" if version else "")


def licenses(expression: str) -> list[dict[str, Any]]:
    """The licences of a component, by an SPDX expression or else by name."""
    if re.fullmatch(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*", expression):
        return [{"expression": expression}]
    return [{"license": {"name": expression}}]


def file_component(name: str, data: bytes, description: str = "") -> Component:
    """A file with its size and SHA-256."""
    component: Component = {"type": "file", "bom-ref": f"file:{name}", "name": name}
    if description:
        component["description"] = description
    component["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]
    component["properties"] = [{"name": "sterna:bytes", "value": str(len(data))}]
    return component


def tree_component(name: str, version: str, folder: Path, description: str) -> Component:
    """A part of Sterna with all of its files; their names are relative to the folder's parent."""
    paths = sorted(
        path for path in folder.rglob("*") if path.is_file() and not {"__pycache__", "node_modules"} & set(path.parts)
    )
    parts = [file_component(f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes()) for path in paths]
    return {
        "type": "library",
        "bom-ref": f"sterna/{name}",
        "name": f"sterna {name}",
        "version": version,
        "description": description,
        "licenses": licenses(LICENSE),
        "components": parts,
    }


def sterna_component(version: str, resources: Mapping[str, Path], libraries: Iterable[Path] = ()) -> Component:
    """The package itself, with what lies in it that is no Python.

    Args:
        resources: folders of VENDORED, by their names there; libraries: compiled ones.
    """
    inside = [tree_component(name, version, resources[name], VENDORED[name]) for name in VENDORED if name in resources]
    inside += [file_component(path.name, path.read_bytes(), "the C runtime, compiled") for path in libraries]
    return {
        "type": "application",
        "bom-ref": package_url("sterna", version),
        "name": "sterna",
        "version": version,
        "description": "Ahead-of-time deployment packager for machine-learning models",
        "licenses": licenses(LICENSE),
        "purl": package_url("sterna", version),
        "components": inside,
    }


def document(
    subject: Component, components: Iterable[Component], needs: Mapping[str, Iterable[str]], tool_version: str
) -> dict[str, Any]:
    """The bill.

    Args:
        subject: what it is of; components: what that consists of or needs.
        needs: bom-refs of what each bom-ref needs.
        tool_version: of the Sterna that writes it.
    """
    tool = {
        "type": "application",
        "name": "sterna",
        "version": tool_version,
        "purl": package_url("sterna", tool_version),
    }
    metadata: dict[str, Any] = {"tools": {"components": [tool]}, "component": subject}
    rest = {
        "components": list(components),
        "dependencies": [{"ref": ref, "dependsOn": sorted(of)} for ref, of in sorted(needs.items())],
    }
    digest = hashlib.sha256(json.dumps([subject, rest], sort_keys=True).encode()).hexdigest()
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        metadata["timestamp"] = datetime.fromtimestamp(int(epoch), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, REPOSITORY + digest)}",
        "version": 1,
        "metadata": metadata,
        **rest,
    }


def requirement_name(requirement: str) -> str | None:
    """The name in a requirement of a package's metadata; None for one of an extra."""
    before, _, marker = requirement.partition(";")
    found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", before)
    return None if found is None or re.search(r"\bextra\b", marker) else found[1]


def declared(requirement: str) -> Component:
    """A dependency as a package declares it, without a version: which one is there is decided by who installs it."""
    name = requirement_name(requirement)
    assert name is not None, requirement
    return {
        "type": "library",
        "bom-ref": package_url(name),
        "name": name,
        "scope": "optional" if ";" in requirement else "required",
        "purl": package_url(name),
        "properties": [{"name": "sterna:requirement", "value": requirement}],
    }


def wheel_document(
    version: str, resources: Mapping[str, Path], libraries: Iterable[Path], requirements: Iterable[str]
) -> dict[str, Any]:
    """The bill that lies in the wheel: its own parts, and the dependencies that it declares."""
    subject = sterna_component(version, resources, libraries)
    parts = [declared(requirement) for requirement in requirements]
    return document(subject, parts, {subject["bom-ref"]: [part["bom-ref"] for part in parts]}, version)


def text(bill: Mapping[str, Any]) -> str:
    """The document as it is printed and kept: ASCII, since terminals obey some of the names that a bundle may have."""
    return json.dumps(bill, indent=2) + "\n"
