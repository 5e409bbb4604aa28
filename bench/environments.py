"""A virtual environment for every peer, made when it is first needed: their packages do not go together."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from peers import ENGINES
from sterna.errors import SternaError, error


class Environments:
    """Virtual environments below `folder`; Sterna is in the one that the benchmark runs in."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.refused: dict[str, SternaError] = {}

    def python(self, peer: str) -> str:
        return sys.executable if peer.startswith("sterna") else self._made(peer, ENGINES[peer].packages)

    def converter(self, peer: str) -> str:
        """The interpreter that converts models for the peer."""
        return self._made(f"{peer}-converter", ENGINES[peer].converter)

    def networks(self) -> str:
        """The interpreter that writes the benchmark's networks."""
        return self._made("networks", ("torch", "onnx", "numpy"))

    def exporter(self) -> str:
        """The interpreter that writes the networks of other packages."""
        packages = ("torch", "torchvision", "timm", "transformers", "onnx", "onnxscript", "numpy")
        return self._made("exporter", packages)

    def _made(self, name: str, packages: Sequence[str]) -> str:
        """Raises E0004 where the packages cannot be installed; it is tried once."""
        if name in self.refused:
            raise self.refused[name]
        place = self.folder / name
        python, done = place / "bin" / "python", place / "complete"
        if not done.exists():
            print(f"installing {', '.join(packages)} ...", file=sys.stderr, flush=True)
            venv.create(place, with_pip=True, clear=True)
            command = [str(python), "-m", "pip", "install", "--quiet", *packages]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                said = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
                title = f"{name}: {', '.join(packages)} cannot be installed: {said[-1]}"
                self.refused[name] = error("E0004", title, fix=" ".join(command))
                raise self.refused[name]
            done.touch()
        return str(python)
