"""graph.json of a loaded bundle, for what the C runtime has no use for: files, open sizes, sources, metadata.

It is read when somebody asks. By then another bundle may have been written to the directory: the first line, which has
the hash of the rest, tells them apart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sterna_runtime.dims import Bounds, Dimension
from sterna_runtime.errors import SternaError, error
from sterna_runtime.library import cpu_has

#: What a bundle for firmware has in place of graph.json; it runs on emulated boards.
FIRMWARE = "firmware.json"

Shape = tuple["int | Dimension", ...]


class GraphFile:
    """The file as it was when the bundle was loaded."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._name = "graph.json"
        self._line = _first_line(directory, self._name)
        if not self._line:
            self._name = FIRMWARE
            self._line = _first_line(directory, self._name)

    def changed(self) -> SternaError:
        """E0505, for who cannot do without what stood there."""
        return error("E0505", "graph.json has changed since it was loaded", self._directory, fix="load it again")

    def sizes(self) -> dict[str, int]:
        """Bytes of every file of the bundle that is there, by name; raises `changed`."""
        try:
            paths = [Path(self._directory, name) for name in sorted([self._name, *self._read()["files"]])]
            return {path.name: path.stat().st_size for path in paths if path.is_file()}
        except (OSError, ValueError, LookupError, TypeError):
            raise self.changed() from None

    def shapes(self, side: str | None, bounds: Mapping[str, Bounds], computed: Mapping[str, Bounds]) -> list[Shape]:
        """Shapes of all "inputs", "outputs" or (None) values, with open dimensions of these bounds; raises `changed`.

        Args:
            computed: those of the dimensions whose sizes the model computes.
        """
        try:
            graph = self._chosen()
            rows = graph["values"] if side is None else [graph["values"][index] for index in graph[side]]
            return [
                tuple(d if isinstance(d, int) else Dimension.of(d, bounds, computed) for d in row["dims"])
                for row in rows
            ]
        except (OSError, ValueError, LookupError, TypeError):
            raise self.changed() from None

    def metadata(self) -> Mapping[str, Any]:
        """What the source model says about its inputs and outputs; empty where that cannot be read."""
        try:
            found = self._read().get("metadata", {})
        except (OSError, ValueError, AttributeError):
            return {}
        return found if isinstance(found, dict) else {}

    def sources(self) -> list[tuple[str, ...]]:
        """The source model's names of every node; empty where they cannot be read."""
        try:
            nodes = self._chosen()["nodes"]
            return [tuple(str(source) for source in node.get("sources", ())) for node in nodes]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return []

    def _chosen(self) -> Any:
        """The graph that the runtime runs here: that of the first variant whose features this machine has, if any."""
        import json  # noqa: PLC0415

        graph = self._read()
        for variant in graph.get("variants", ()):
            if "graph" in variant and all(cpu_has(name) is True for name in variant["cpu_features"]):
                return json.loads(Path(self._directory, variant["graph"]).read_bytes())
        return graph

    def _read(self) -> Any:
        """The whole file; ValueError if another one has been written since."""
        import json  # noqa: PLC0415 (most programs that run a bundle never need it)

        text = Path(self._directory, self._name).read_bytes()
        if not text.startswith(self._line):
            raise ValueError("another bundle has been written there")
        return json.loads(text)


def _first_line(directory: str, name: str) -> bytes:
    """The line of the file that tells it from every other: it has the hash of the rest. Empty where there is none."""
    try:
        with open(os.path.join(directory, name), "rb") as file:  # noqa: PTH118, PTH123 (every bundle: no Path)
            return file.read(64)
    except (OSError, ValueError):
        return b""
