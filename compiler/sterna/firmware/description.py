"""`firmware.json`: what a bundle for firmware says of itself."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.passes.stream_weights import Reads
from sterna_runtime.graph_file import FIRMWARE
from sterna_runtime.inputs import dtype_from_name

_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Tensor:
    """An input or output.

    Args:
        identifier: its name in C; type: that of its elements there.
    """

    name: str
    identifier: str
    type: str
    dtype: str
    dims: tuple[int, ...]
    elements: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]

    @property
    def numpy(self) -> np.dtype[Any]:
        return dtype_from_name(self.dtype)

    @property
    def bytes(self) -> int:
        return self.elements * self.numpy.itemsize


@dataclass(frozen=True)
class Pool:
    """A block of memory of a target that has several."""

    name: str
    identifier: str
    bytes: int
    alignment: int


@dataclass(frozen=True)
class Node:
    """A kernel's call. `sources` are the names of the model's nodes in it."""

    name: str
    kernel: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Processor:
    """How compilers are told of the machine; empty where a bundle is source for any."""

    triple: str
    cpu: str
    llvm_triple: str
    llvm_cpu: str
    features: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def has_fpu(self) -> bool:
        """Whether code may use registers of floats, which a system has to keep apart for its threads."""
        units = {"+vfp4d16sp", "+fp-armv8d16sp", "+fp-armv8d16", "+mve", "+mve.fp", "+f", "+d"}
        return not units.isdisjoint(self.features)


@dataclass(frozen=True)
class Firmware:
    """A bundle for firmware.

    Args:
        place: its directory.
        sources: of the model: the calls of its kernels, its weights, last its kernels; library: calls and kernels,
            compiled; empty where there is none.
        code_bytes, tables_bytes, stack_bytes: of the library, and the deepest stack of a run in it; None if unknown.
        script, link_option: an input and an option of the linker, which say where the weights lie; empty where nothing
            has to.
        weights_address: that they say; weights_section: of the weights; empty: among other constants.
        fitted: what was chosen to meet budgets, in words.
        fetched: what kernels fetch of the weights; None where they read all of them where they lie.
        resets: whether it has states and a function that resets them.
        graph: tensors, nodes and plan as graph.json has them; None in bundles of versions that did not write it.
    """

    place: Path
    model: str
    target: str
    processor: Processor
    header: str
    sources: tuple[str, ...]
    library: str
    script: str
    weights_address: int | None
    weights_section: str
    link_option: str
    params: str
    arena_bytes: int
    params_bytes: int
    alignment: int
    code_bytes: int | None
    tables_bytes: int | None
    stack_bytes: int | None
    fitted: str
    fetched: Reads | None
    resets: bool
    pools: tuple[Pool, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    graph: Mapping[str, Any] | None = None

    @property
    def memory_bytes(self) -> int:
        """Of the arena, or of all pools."""
        return sum(pool.bytes for pool in self.pools) if self.pools else self.arena_bytes

    def linked(self, library: bool = True, calls: bool = False) -> list[Path]:
        """The files that a program is compiled and linked of, `script` apart.

        Args:
            library: take what is compiled, where there is such a library.
            calls: but not the function that calls the kernels, whose source is taken: to count its nodes.
        """
        run, *params, _kernels = self.sources
        if not (library and self.library):
            names = list(self.sources)
        else:
            names = [*([run] if calls else []), *params, self.library]
        return [self.place / name for name in names]


def read_firmware(place: str | os.PathLike[str]) -> Firmware:
    """Reads the description of a bundle.

    Raises:
        SternaError: E0006 there is none; E0503 it cannot be read; E0504 it is malformed.
    """
    path = Path(place, FIRMWARE)
    if not path.is_file():
        fix = "sterna compile MODEL -t cortex-m4 -o DIRECTORY makes one"
        raise error("E0006", f"{place} is no bundle for firmware", f"it has no {FIRMWARE}", fix=fix)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError
        return _firmware(Path(place).resolve(), json.loads(path.read_bytes()))
    except OSError as problem:
        raise error("E0503", f"{path} cannot be read: {problem.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise error("E0504", f"{FIRMWARE} is malformed", str(place), fix="compile the model again") from None


def _firmware(place: Path, rows: dict[str, Any]) -> Firmware:
    if rows["sterna"] != 1:
        raise ValueError
    texts: dict[str, Any] = {key: str(rows[key]) for key in ("model", "target", "header", "library", "params")}
    numbers: dict[str, Any] = {key: int(rows[key]) for key in ("arena_bytes", "params_bytes", "alignment")}
    known = ("code_bytes", "tables_bytes", "stack_bytes")
    numbers |= {key: None if rows[key] is None else int(rows[key]) for key in known}
    sources = tuple(map(str, rows["sources"]))
    for name in (*sources, str(rows.get("script", "")), *(texts[key] for key in ("header", "library", "params"))):
        if Path(name).name != name:
            raise ValueError  # a bundle names its own files only
    return Firmware(
        place,
        processor=Processor(**_tuples(rows["processor"])),
        sources=sources,
        script=str(rows.get("script", "")),
        weights_address=None if rows.get("weights_address") is None else int(rows["weights_address"]),
        link_option=str(rows.get("link_option", "")),
        weights_section=str(rows.get("weights_section") or ""),
        fitted=str(rows.get("fitted", {}).get("text", "")),
        fetched=Reads(**rows["fetched"]) if "fetched" in rows else None,
        resets=bool(rows["resets"]),
        graph=rows.get("graph"),
        pools=tuple(Pool(**row) for row in rows["pools"]),
        inputs=tuple(Tensor(**_tuples(row)) for row in rows["inputs"]),
        outputs=tuple(Tensor(**_tuples(row)) for row in rows["outputs"]),
        nodes=tuple(Node(row["name"], row["kernel"], tuple(row["sources"])) for row in rows["nodes"]),
        **texts,
        **numbers,
    )


def _tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
