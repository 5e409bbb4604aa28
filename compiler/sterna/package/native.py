"""Bundles for systems that open libraries, as packages need them: the files that a runtime reads, and the machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sterna.codegen.render import resource
from sterna_runtime.advice import Advice, Option
from sterna_runtime.describe import dimension_text
from sterna_runtime.errors import error
from sterna_runtime.golden import NAMES
from sterna_runtime.reader import contents, read_graph
from sterna_runtime.recipe import DEVICES, SOURCES, devices_of


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
        return _has_source(self.graph)

    @property
    def devices(self) -> tuple[str, ...]:
        """The kinds of devices that its nodes run on."""
        return tuple(dict.fromkeys(str(device["kind"]) for device in self.graph.get("devices", ())))

    @property
    def has_machine_code(self) -> bool:
        """Whether it is for some processors alone; drivers compile kernels of devices on any."""
        return bool(self.graph.get("library")) or self.linked

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


def _has_source(graph: dict[str, Any]) -> bool:
    """Whether kernels of the CPU are in no library."""
    return not graph.get("library") and any("device" not in kernel for kernel in graph["kernels"])


def read_native(bundle: str | os.PathLike[str], system: str | None = None) -> Native:
    """A whole bundle that is not for browsers.

    Args:
        system: on which it is to run, as `platform.system()` names it; None: on any.

    Raises:
        SternaError: E0006 or E0503 to E0507, it is none.
    """
    place = Path(bundle)
    graph = read_graph(place)
    if graph["target"]["triple"].startswith("wasm"):
        fix = Advice("compile the model for it: ", Option("target", "raspberrypi4"))
        title = f"the bundle was compiled for {graph['target']['triple']}, which runs no programs of C"
        raise error("E0507", title, str(place), fix=fix)
    for device in graph.get("devices", ()):
        if device["kind"] not in (DEVICES if system is None else devices_of(system)):
            where = f" on {system}" if system else ""
            title = f"the bundle runs on {device['kind']}, which programs of C{where} do not drive"
            raise error(
                "E0507", title, str(place), fix=Advice("compile the model for the CPU: ", Option("target", "host"))
            )
    golden = [name for name in NAMES if name in graph["files"] and (place / name).exists()]
    more = [*golden, *(("kernels.c",) if _has_source(graph) else ())]
    return Native(graph, contents(place, graph, more))


def runtime_sources(devices: Sequence[str] = ()) -> dict[str, bytes]:
    """The C runtime as files of a folder `runtime`, with what a program can be built of, and what drives these kinds of
    devices."""
    root = resource("runtime_c")
    sources = [root / "src" / f"{name}.c" for name in SOURCES]
    ports = [root / "port" / f"{name}.c" for name in ("posix", "windows")]
    headers = [path for name in ("include", "src", "port") for path in sorted((root / name).glob("*.h*"))]
    drivers = [root / "devices" / f"{name}.c" for name in driver_files(devices)]
    drivers += sorted((root / "devices").glob("*.h")) if devices else []
    paths = [*sources, *ports, *headers, *drivers]
    return {f"runtime/{path.relative_to(root).as_posix()}": path.read_bytes() for path in paths}


def driver_files(devices: Sequence[str]) -> tuple[str, ...]:
    """What drives these kinds of devices, of runtime_c/devices."""
    return tuple(dict.fromkeys(name for kind in devices for name in DEVICES[kind]))
