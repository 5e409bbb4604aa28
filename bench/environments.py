"""A virtual environment for every peer, made when it is first needed: their packages do not go together."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from peers import ENGINES


class Environments:
    """Virtual environments below `folder`; Sterna and ONNX Runtime are in the one that the benchmark runs in."""

    def __init__(self, folder: Path):
        self.folder = folder

    def python(self, peer: str) -> str:
        return sys.executable if peer.startswith("sterna") else self._made(peer, ENGINES[peer].packages)

    def converter(self, peer: str) -> str:
        """The interpreter that converts models for the peer."""
        return self._made(f"{peer}-converter", ENGINES[peer].converter)

    def networks(self) -> str:
        """The interpreter that writes the benchmark's networks."""
        return self._made("networks", ("torch", "onnx", "numpy"))

    def _made(self, name: str, packages: Sequence[str]) -> str:
        place = self.folder / name
        python, done = place / "bin" / "python", place / "complete"
        if not done.exists():
            print(f"installing {', '.join(packages)} ...", file=sys.stderr, flush=True)
            venv.create(place, with_pip=True, clear=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
            done.touch()
        return str(python)
