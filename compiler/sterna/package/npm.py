"""An npm package of one model: its bundle, the JavaScript runtime, and a wrapper with the names of the signature.

Nothing is built when it is installed, and it depends on nothing. With a second bundle of the model, for WebGPU, that
one runs where there is a GPU, and the first everywhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sterna.bundle.install import Files, install
from sterna.codegen.render import render_template, resource
from sterna.errors import error
from sterna.escape import javascript
from sterna.package.javascript import one_module
from sterna.package.placing import placing
from sterna.web.pairs import gpu_bundle, kinds_of
from sterna_runtime.advice import Advice, Option
from sterna_runtime.describe import dimension_text
from sterna_runtime.ownership import GRAPH
from sterna_runtime.reader import contents, read_graph, runtime_files

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


#: Beside the files of WebAssembly, in one folder: who copies that has both.
_GPU = "webgpu"


@dataclass(frozen=True)
class _Tensor:
    """An input or output as the templates name it; `dims` as people write them; `picture`: a GPU takes one for it."""

    name: str
    array: str
    dtype: str
    dims: list[str]
    picture: bool


@dataclass(frozen=True)
class _Package:
    """What a package is made of.

    Args:
        graph: of the bundle in WebAssembly, whose signature the package has; files: all that a runtime opens of it.
        gpu_graph, gpu_files: the same of the bundle for WebGPU; empty where there is none.
    """

    name: str
    version: str
    graph: dict[str, Any]
    files: dict[str, bytes]
    gpu_graph: dict[str, Any] = field(default_factory=dict)
    gpu_files: dict[str, bytes] = field(default_factory=dict)

    @property
    def inline(self) -> str | None:
        """The graph that stands in index.js: that which most pages open. What it names is then asked for at once."""
        text = (self.gpu_files or self.files).get(GRAPH)
        return None if text is None else text.decode()

    def model_files(self) -> dict[str, bytes]:
        """The files of the folder `model`."""
        own = {file: data for file, data in self.files.items() if self.gpu_files or file != GRAPH}
        gpu = {f"{_GPU}/{file}": data for file, data in self.gpu_files.items() if file != GRAPH}
        return {**own, **gpu}


def npm_package(
    bundle: str | os.PathLike[str],
    output: str | os.PathLike[str],
    name: str | None = None,
    version: str = "1.0.0",
    gpu: str | os.PathLike[str] | None = None,
) -> Path:
    """Writes the package into a new or empty directory.

    Args:
        name: of the package; by default the model's, as npm allows it.
        gpu: a bundle of the same model for WebGPU.

    Raises:
        SternaError: E0006 or E0503 to E0507, one is no whole bundle for browsers, or for WebGPU; E0002 they are not of
            one model; E0203 npm would refuse the name or version; E0204 the place is taken or cannot be written.
            Nothing was written then.
    """
    _check_runs_everywhere(bundle)
    graph, files = runtime_files(bundle)
    gpu_graph = gpu_bundle(gpu, graph, bundle) if gpu is not None else {}
    gpu_files = contents(Path(gpu), gpu_graph) if gpu is not None else {}
    name = name or graph["model"].replace("_", "-").lower().lstrip(".-")[:_MOST]
    if not _NAME.fullmatch(name):
        fix = Advice(Option("name", "my-model"), ", or ", Option("name", "@me/my-model"))
        raise error("E0203", f'npm does not take the name "{name}"', fix=fix)
    if not _VERSION.fullmatch(version):
        raise error("E0203", f'npm does not take the version "{version}"', fix=Advice(Option("version", "1.0.0")))
    place = Path(output)
    package = _Package(name, version, graph, files, gpu_graph, gpu_files)
    with placing(place):
        if place.is_dir() and any(place.iterdir()):
            raise error("E0204", "the output directory is not empty", str(place), fix="name a new directory")
        install(place, Files(_written(package), ("package.json",)))
    return place


def _check_runs_everywhere(bundle: str | os.PathLike[str]) -> None:
    """Raises E0507: a bundle for WebGPU runs in no page without it."""
    if "webgpu" in kinds_of(read_graph(bundle)):
        title = "the bundle runs on WebGPU alone; a package has one for WebAssembly, which runs everywhere, beside it"
        instead = Advice("name the model, with ", Option("target", "webgpu"))
        fix = Advice(instead, "; or a bundle for browsers, and this one with ", Option("gpu"))
        raise error("E0507", title, str(bundle), fix=fix)


def _written(package: _Package) -> dict[str, bytes]:
    """Every file of the package."""
    files = {f"model/{file}": data for file, data in package.model_files().items()}
    files["thread.js"] = one_module(_runtime(), "thread").text.encode()
    files["LICENSE"] = license_text()
    return files | {template: _render(template, package).encode() for template in _TEMPLATES}


def _runtime() -> Path:
    return resource("runtime_js") / "src"


def license_text() -> bytes:
    """The license of the runtimes; it goes wherever they go."""
    return resource("LICENSE").read_bytes()


def _render(template: str, package: _Package) -> str:
    graph, files = package.graph, package.files
    symbols = [symbol["name"] for symbol in graph.get("symbols", [])]
    return render_template(
        f"package/npm/{template}.j2",
        name=package.name,
        version=package.version,
        model=graph["model"],
        type="".join(part.capitalize() for part in graph["model"].split("_")) + "Model",
        files=[file for file in files if package.gpu_files or file != GRAPH],
        gpu={file: f"{_GPU}/{file}" for file in package.gpu_files if file != GRAPH},
        graph=package.inline,
        early=[f"{_GPU}/{package.gpu_graph['devices'][0]['module']}"] if package.gpu_files else _early(graph, files),
        runtime=one_module(_runtime(), "webgpu" if package.gpu_files else "index"),
        size=_size(graph, files),
        gpu_size=_size(package.gpu_graph, package.gpu_files),
        dims=" | ".join(javascript(symbol) for symbol in symbols) or "never",
        inputs=[_tensor(graph["values"][v], graph) for v in graph["inputs"]],
        outputs=[_tensor(graph["values"][v], graph) for v in graph["outputs"]],
    )


def _size(graph: dict[str, Any], files: Mapping[str, bytes]) -> str:
    """Of what a page loads, for people."""
    used = {GRAPH, "params.bin", graph.get("library", ""), *(each["module"] for each in graph.get("devices", ()))}
    return f"{sum(len(data) for file, data in files.items() if file in used) / 1e6:.1f} MB"


def _early(graph: dict[str, Any], files: Mapping[str, bytes]) -> list[str]:
    """The files that nearly every page opens: weights, and the best library that needs no thread."""
    variants = [v["library"] for v in graph.get("variants", ()) if "threads" not in v["cpu_features"]]
    wanted = (*variants[:1], graph.get("library", ""))[0], "params.bin"
    return [file for file in wanted if file in files]


def _tensor(value: dict[str, Any], graph: dict[str, Any]) -> _Tensor:
    sizes = [dimension_text(n, graph.get("symbols", ())) for n in value["dims"]]
    array = _ARRAYS.get(value["dtype"], "Uint8Array")
    return _Tensor(value["name"], array, value["dtype"], sizes, _is_picture(value["dtype"], sizes))


def _is_picture(dtype: str, sizes: list[str]) -> bool:
    """Whether `sterna/webgpu` takes a picture for it, at some sizes: see runtime_js/src/webgpu/image.js."""
    if dtype != "float32" or not 2 <= len(sizes) <= 4:
        return False
    whole = len(sizes) == 4
    channels = ["1"] if len(sizes) == 2 else [sizes[-1], sizes[1 if whole else 0]]
    return (not whole or _can_be(sizes[0], "1")) and any(_can_be(each, "1", "3", "4") for each in channels)


def _can_be(size: str, *wanted: str) -> bool:
    return not size.isdigit() or size in wanted
