"""An npm package of one model: its bundle, the JavaScript runtime, and a wrapper with the names of the signature.

Nothing is built when it is installed, and it depends on nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sterna.bundle.install import Files, install
from sterna.codegen.render import render_template, resource
from sterna.errors import error
from sterna.escape import javascript
from sterna.package.javascript import one_module
from sterna.package.placing import placing
from sterna_runtime.advice import Advice, Option
from sterna_runtime.describe import dimension_text
from sterna_runtime.ownership import GRAPH
from sterna_runtime.reader import runtime_files

_ARRAYS = {
    "float32": "Float32Array", "float64": "Float64Array", "float16": "Uint16Array", "bfloat16": "Uint16Array",
    "int8": "Int8Array", "int16": "Int16Array", "int32": "Int32Array", "int64": "BigInt64Array",
    "uint16": "Uint16Array", "uint32": "Uint32Array", "uint64": "BigUint64Array",
}  # fmt: skip
_MOST = 214
#: https://docs.npmjs.com/cli/configuring-npm/package-json: lower case, URL-safe, perhaps in a scope, at most 214.
_NAME = re.compile(rf"(?=.{{1,{_MOST}}}$)(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*")
_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", re.ASCII)
_TEMPLATES = ("package.json", "index.js", "index.d.ts", "preload.html", "README.md")


@dataclass(frozen=True)
class _Tensor:
    """An input or output as the templates name it; `dims` as people write them."""

    name: str
    array: str
    dtype: str
    dims: list[str]


def npm_package(
    bundle: str | os.PathLike[str], output: str | os.PathLike[str], name: str | None = None, version: str = "1.0.0"
) -> Path:
    """Writes the package into a new or empty directory.

    Args:
        name: of the package; by default the model's, as npm allows it.

    Raises:
        SternaError: E0006 or E0503 to E0507, it is no whole bundle for browsers; E0203 npm would refuse the name or
            version; E0204 the place is taken or cannot be written. Nothing was written then.
    """
    graph, contents = runtime_files(bundle)
    name = name or graph["model"].replace("_", "-").lower().lstrip(".-")[:_MOST]
    if not _NAME.fullmatch(name):
        fix = Advice(Option("name", "my-model"), ", or ", Option("name", "@me/my-model"))
        raise error("E0203", f'npm does not take the name "{name}"', fix=fix)
    if not _VERSION.fullmatch(version):
        raise error("E0203", f'npm does not take the version "{version}"', fix=Advice(Option("version", "1.0.0")))
    place = Path(output)
    # The graph stands in index.js: what it names is then asked for at once.
    files = {f"model/{file}": data for file, data in contents.items() if file != GRAPH}
    with placing(place):
        if place.is_dir() and any(place.iterdir()):
            raise error("E0204", "the output directory is not empty", str(place), fix="name a new directory")
        files["thread.js"] = one_module(_runtime(), "thread").encode()
        files["LICENSE"] = license_text()
        files |= {file: _render(file, graph, contents, name, version).encode() for file in _TEMPLATES}
        install(place, Files(files, ("package.json",)))
    return place


def _runtime() -> Path:
    return resource("runtime_js") / "src"


def license_text() -> bytes:
    """The license of the runtimes; it goes wherever they go."""
    return resource("LICENSE").read_bytes()


def _render(template: str, graph: dict[str, Any], contents: Mapping[str, bytes], name: str, version: str) -> str:
    symbols = [symbol["name"] for symbol in graph.get("symbols", [])]
    used = {"graph.json", "params.bin", graph.get("library", "")}
    size = sum(len(data) for file, data in contents.items() if file in used)
    return render_template(
        f"package/npm/{template}.j2",
        name=name,
        version=version,
        model=graph["model"],
        type="".join(part.capitalize() for part in graph["model"].split("_")) + "Model",
        files=[file for file in contents if file != GRAPH],
        graph=contents[GRAPH].decode() if GRAPH in contents else None,
        early=_early(graph, contents),
        runtime=one_module(_runtime(), "index"),
        size=f"{size / 1e6:.1f} MB",
        dims=" | ".join(javascript(symbol) for symbol in symbols) or "never",
        inputs=[_tensor(graph["values"][v], graph) for v in graph["inputs"]],
        outputs=[_tensor(graph["values"][v], graph) for v in graph["outputs"]],
    )


def _early(graph: dict[str, Any], contents: Mapping[str, bytes]) -> list[str]:
    """The files that nearly every page opens: weights, and the best library that needs no thread."""
    variants = [v["library"] for v in graph.get("variants", ()) if "threads" not in v["cpu_features"]]
    wanted = (*variants[:1], graph.get("library", ""))[0], "params.bin"
    return [file for file in wanted if file in contents]


def _tensor(value: dict[str, Any], graph: dict[str, Any]) -> _Tensor:
    sizes = [dimension_text(n, graph.get("symbols", ())) for n in value["dims"]]
    return _Tensor(value["name"], _ARRAYS.get(value["dtype"], "Uint8Array"), value["dtype"], sizes)
