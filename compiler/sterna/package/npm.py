"""An npm package of one model: its bundle, the JavaScript runtime, and a wrapper with the names of the signature.

Nothing is built when it is installed, and it depends on nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sterna.advice import Advice, Option
from sterna.bundle.reader import bundle_of_browser, opened_files
from sterna.codegen.render import render_template, resource_directory
from sterna.errors import error

_ARRAYS = {
    "float32": "Float32Array", "float64": "Float64Array", "float16": "Uint16Array", "bfloat16": "Uint16Array",
    "int8": "Int8Array", "int16": "Int16Array", "int32": "Int32Array", "int64": "BigInt64Array",
    "uint16": "Uint16Array", "uint32": "Uint32Array", "uint64": "BigUint64Array",
}  # fmt: skip
#: https://docs.npmjs.com/cli/configuring-npm/package-json: lower case, URL-safe, perhaps in a scope, at most 214.
_NAME = re.compile(r"(?=.{1,214}$)(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*")
_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_TEMPLATES = ("package.json", "index.js", "index.d.ts", "README.md")


@dataclass(frozen=True)
class _Tensor:
    """An input or output as the templates name it."""

    name: str
    array: str
    shape: str
    elements: str
    comment: str


def npm_package(
    bundle: str | os.PathLike[str], output: str | os.PathLike[str], name: str | None = None, version: str = "1.0.0"
) -> Path:
    """Writes the package into a new or empty directory.

    Args:
        name: of the package; by default the model's, as npm allows it.

    Raises:
        SternaError: E0006 or E0507, it is not a bundle for browsers; E0203 npm would refuse the name or version; E0204
            the place is taken or cannot be written.
    """
    graph = bundle_of_browser(bundle)
    name = name or str(graph["model"]).replace("_", "-").lower().lstrip(".-")
    if not _NAME.fullmatch(name):
        raise error(
            "E0203",
            f'npm does not take the name "{name}"',
            fix=Advice(Option("name", "my-model"), ", or ", Option("name", "@me/my-model")),
        )
    if not _VERSION.fullmatch(version):
        raise error("E0203", f'npm does not take the version "{version}"', fix=Advice(Option("version", "1.0.0")))
    place, source = Path(output), Path(bundle)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise error("E0204", "the output directory is not empty", str(place), fix="name a new directory")
    files = opened_files(graph, bundle)
    try:
        (place / "model").mkdir(parents=True)
        for file in files:
            shutil.copyfile(source / file, place / "model" / file)
        shutil.copytree(resource_directory("runtime_js") / "src", place / "runtime")
        for file in _TEMPLATES:
            (place / file).write_text(_render(file, graph, files, source, name, version), "utf-8")
    except OSError as problem:
        raise error("E0204", f"the package cannot be written: {problem}", str(place)) from None
    return place


def _render(template: str, graph: dict[str, Any], files: list[str], source: Path, name: str, version: str) -> str:
    symbols = [str(s["name"]) for s in graph.get("symbols", [])]
    used = {"graph.json", "params.bin", graph["library"]}
    size = sum((source / file).stat().st_size for file in files if file in used)
    return render_template(
        f"package/npm/{template}.j2",
        name=name,
        version=version,
        model=graph["model"],
        type="".join(part.capitalize() for part in str(graph["model"]).split("_")) + "Model",
        files=files,
        size=f"{size / 1e6:.1f} MB",
        dims=" | ".join(f'"{s}"' for s in symbols) or "never",
        inputs=[_tensor(graph["values"][v], symbols) for v in graph["inputs"]],
        outputs=[_tensor(graph["values"][v], symbols) for v in graph["outputs"]],
    )


def _tensor(value: dict[str, Any], symbols: list[str]) -> _Tensor:
    sizes = [_size(n, symbols) for n in value["dims"]]
    shape = f"[{', '.join(sizes)}]"
    array = _ARRAYS.get(value["dtype"], "Uint8Array")
    return _Tensor(
        value["name"], array, shape, " * ".join(sizes) or "1", f"{value['dtype']}{shape}".replace("*/", "* /")
    )


def _size(expression: Any, symbols: list[str]) -> str:
    """A dimension expression of graph.json as people write it."""
    if not isinstance(expression, list):
        return str(expression)
    operator, *operands = expression
    if operator == "d":
        return symbols[operands[0]]
    texts = [_size(e, symbols) for e in operands]
    if operator in ("min", "max"):
        return f"{operator}({', '.join(texts)})"
    return f"({f' {operator} '.join(texts)})"
