"""Bundles for systems that open libraries, as packages need them: the files that a runtime reads, and the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sterna.codegen.render import resource
from sterna_runtime.advice import Advice, Option
from sterna_runtime.describe import dimension_text
from sterna_runtime.errors import error
from sterna_runtime.golden import NAMES
from sterna_runtime.reader import contents, read_graph
from sterna_runtime.recipe import SOURCES


@dataclass(frozen=True)
class Tensor:
    """An input or output as templates name it; `dims` as people write them."""

    name: str
    dtype: str
    dims: tuple[str, ...]


@dataclass(frozen=True)
class Native:
    """A bundle whose kernels are machine code or C.

    Args:
        files: what a runtime opens, golden sets, and where there is no library the kernels' source, by name.
    """

    graph: dict[str, Any]
    files: dict[str, bytes]

    @property
    def model(self) -> str:
        return str(self.graph["model"])

    @property
    def linked(self) -> bool:
        """Whether the kernels are source that a program is linked with."""
        return not self.graph.get("library")

    @property
    def triple(self) -> str:
        return str(self.graph["target"]["triple"])

    @property
    def machine(self) -> tuple[str, ...]:
        """How zig is told of the machine: of ARM's older processors a triple says too much."""
        if not self.triple:
            return ()
        old = self.triple.startswith("arm-") and "neon" not in self.graph["target"]["cpu_features"]
        return ("-target", self.triple, *(("-mcpu=arm1176jzf_s",) if old else ()))

    @property
    def files_of_bundle(self) -> dict[str, bytes]:
        return {f"model/{name}": data for name, data in self.files.items()}

    def signature(self, side: str) -> list[Tensor]:
        """The "inputs" or "outputs"."""
        symbols = self.graph.get("symbols", ())
        rows = [self.graph["values"][index] for index in self.graph[side]]
        return [
            Tensor(row["name"], row["dtype"], tuple(dimension_text(size, symbols) for size in row["dims"]))
            for row in rows
        ]


def read_native(bundle: str | os.PathLike[str]) -> Native:
    """A whole bundle that is not for browsers.

    Raises:
        SternaError: E0006 or E0503 to E0507, it is none.
    """
    place = Path(bundle)
    graph = read_graph(place)
    if graph["target"]["triple"].startswith("wasm"):
        fix = Advice("compile the model for it: ", Option("target", "raspberrypi4"))
        title = f"the bundle was compiled for {graph['target']['triple']}, which runs no programs of C"
        raise error("E0507", title, str(place), fix=fix)
    golden = [name for name in NAMES if name in graph["files"] and (place / name).exists()]
    more = [*golden, *(() if graph.get("library") else ("kernels.c",))]
    return Native(graph, contents(place, graph, more))


def runtime_sources() -> dict[str, bytes]:
    """The C runtime as files of a folder `runtime`, with what a program can be built of."""
    root = resource("runtime_c")
    sources = [root / "src" / f"{name}.c" for name in SOURCES]
    ports = [root / "port" / f"{name}.c" for name in ("posix", "windows")]
    headers = [path for name in ("include", "src", "port") for path in sorted((root / name).glob("*.h*"))]
    paths = [*sources, *ports, *headers]
    return {f"runtime/{path.relative_to(root).as_posix()}": path.read_bytes() for path in paths}
