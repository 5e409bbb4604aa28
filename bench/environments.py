"""A virtual environment for every peer, made when it is first needed: their packages do not go together.

Peers that run in Node have a folder of npm's instead.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from peers import ENGINES, NETWORKS
from sterna.errors import SternaError, error


def add_work(parser: argparse.ArgumentParser) -> None:
    """The option for the folder that benchmarks keep networks, environments and programs in."""
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(os.environ.get("STERNA_BENCH", "build/bench")),
        metavar="FOLDER",
        help="where everything is kept: $STERNA_BENCH or build/bench",
    )


class Environments:
    """Virtual environments below `folder`; Sterna is in the one that the benchmark runs in.

    Args:
        peers: those that will be needed. If the environment or the converter of one has what writes networks, it does
            both: torch takes five gigabytes and more.
        given: interpreters that are there already, by the name of an environment: nothing is installed in its place.
    """

    def __init__(self, folder: Path, peers: Sequence[str] = (), given: Mapping[str, str] | None = None):
        self.folder, self.peers, self.given = folder, peers, given or {}
        self.refused: dict[str, SternaError] = {}

    def python(self, peer: str) -> str:
        if peer.startswith("sterna") or ENGINES[peer].node:
            return sys.executable
        home = ENGINES[peer].shares or peer
        return self._made(home, ENGINES[home].packages)

    def modules(self, peer: str) -> Path:
        """The folder of the packages of a peer that runs in Node."""
        place, packages = self.folder / peer, ENGINES[peer].packages

        def install() -> list[str]:
            place.mkdir(parents=True, exist_ok=True)
            (place / "package.json").write_text("{}")
            return ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(place), *packages]

        if packages:
            self._installed(peer, packages, install)
        return place / "node_modules"

    def converter(self, peer: str) -> str:
        """The interpreter that converts models for the peer."""
        return self._made(f"{peer}-converter", ENGINES[peer].converter)

    def networks(self) -> str:
        """The interpreter that writes the benchmark's networks."""
        if "networks" not in self.given:
            for peer in (peer for peer in self.peers if peer in ENGINES):
                if set(NETWORKS) <= {*ENGINES[peer].packages}:
                    return self.python(peer)
                if set(NETWORKS) <= {*ENGINES[peer].converter}:
                    return self.converter(peer)
        return self._made("networks", NETWORKS)

    def exporter(self) -> str:
        """The interpreter that writes the networks of other packages."""
        packages = ("torch", "torchvision", "timm", "transformers", "onnx", "onnxscript", "numpy")
        return self._made("exporter", packages)

    def _made(self, name: str, packages: Sequence[str]) -> str:
        if name in self.given:
            return self.given[name]
        place = self.folder / name
        python = place / "bin" / "python"

        def install() -> list[str]:
            venv.create(place, with_pip=True, clear=True)
            # What is installed once is not kept in pip's cache as well.
            return [str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", *packages]

        self._installed(name, packages, install)
        return str(python)

    def _installed(self, name: str, packages: Sequence[str], install: Callable[[], list[str]]) -> None:
        """Runs the command that `install` prepares, unless it was run before.

        Raises:
            SternaError: E0004 the packages cannot be installed; it is tried once.
        """
        if name in self.refused:
            raise self.refused[name]
        done, wanted = self.folder / name / "complete", " ".join(packages)
        if done.exists() and done.read_text() == wanted:
            return
        print(f"installing {', '.join(packages)} ...", file=sys.stderr, flush=True)
        command = install()
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            said = [line for line in result.stderr.splitlines() if line.lower().startswith(("error", "npm err"))]
            title = f"{name}: {', '.join(packages)} cannot be installed: {[*said, 'no reason given'][0]}"
            self.refused[name] = error("E0004", title, fix=" ".join(command))
            raise self.refused[name]
        done.write_text(wanted)
