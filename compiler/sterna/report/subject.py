"""The bundle that a report is about: its files, its graph, and what the compiler knows if it has just made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sterna.compiled import Compiled
from sterna.errors import error
from sterna.firmware.description import Firmware, read_firmware
from sterna_runtime.describe import BundleFacts, as_calls, describe_bundle
from sterna_runtime.dims import Dimension
from sterna_runtime.inputs import dtype_from_name


@dataclass(frozen=True)
class Subject:
    """A bundle to report on.

    Args:
        graph: graph.json, or for firmware the members of `graph` in firmware.json; None in old firmware without them.
        firmware: what firmware.json says; None of other bundles.
        compiled: what the bundle was written from, if that was just done.
        source: the model file then; command: how to make the same again.
        choices: what else would give less memory, as rows of `memory.choices`.
    """

    facts: BundleFacts
    graph: Mapping[str, Any] | None
    firmware: Firmware | None = None
    compiled: Compiled | None = None
    source: Path | None = None
    command: str = ""
    choices: tuple[Mapping[str, Any], ...] = ()

    @property
    def place(self) -> Path:
        return self.facts.directory

    @property
    def symbols(self) -> dict[str, int]:
        """Open dimensions, each at its largest size."""
        return {} if self.graph is None else {row["name"]: row["hi"] for row in self.graph.get("symbols", ())}

    def at(self, expression: Any) -> int:
        """A size of graph.json, open dimensions at their largest."""
        return (
            expression if isinstance(expression, int) else Dimension(expression, tuple(self.symbols)).at(self.symbols)
        )

    def bytes_of(self, value: Mapping[str, Any]) -> int:
        """Of a tensor's own elements, without padding."""
        count = 1
        for size in value["dims"]:
            count *= self.at(size)
        return int(count * np.dtype(dtype_from_name(value["dtype"])).itemsize)


def subject_of(directory: Path) -> Subject:
    """A bundle on disk.

    Raises:
        SternaError: E0006 the directory is no bundle; E0503 to E0506, it cannot be read.
    """
    facts = describe_bundle(directory)
    if facts.intact is False:
        title = "the files are damaged: a size or hash is not the one written when it was compiled"
        raise error("E0505", title, str(directory), fix="compile the model again")
    if facts.graph is not None:
        return Subject(facts, as_calls(facts.graph))
    firmware = read_firmware(directory)
    return Subject(facts, firmware.graph, firmware)
