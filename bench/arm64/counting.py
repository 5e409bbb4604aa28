"""Peers under qemu-user, counted as bundles are (`sterna.emulate.counting`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arm64.root import emulated
from sterna.emulate import counting
from sterna.emulate.counting import MARKERS, Asked, Counted, Interval, joined, read, steady

HERE = Path(__file__).resolve().parent


class Machine(counting.Machine):
    """One that runs peers, too."""

    def peer(
        self,
        peer: str,
        model: Path,
        inputs: Sequence[Any],
        emulator: str,
        root: Path,
        work: Path,
        runs: int,
        asked: Asked,
    ) -> Counted:
        """Counts the shortest of some runs of a peer, in a root of `root.make_root`.

        Args:
            emulator: of one of its processors.
        """
        work.mkdir(parents=True, exist_ok=True)
        arrays = work / "inputs.npz"
        np.savez(arrays, **{f"x{n}": array for n, array in enumerate(inputs)})
        python = [str(root / "base" / "usr" / "bin" / "python3.11"), str(HERE / "peer.py"), peer]
        program = [*python, str(model), str(arrays), str(runs), str(work / "out")]
        settings = {"PYTHONPATH": str(root / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
        words = [*emulator.split(), "-L", str(root / f"root.{emulated(emulator)}")]
        intervals, _ = self.count(words, program, work, MARKERS["aarch64"], asked, settings)
        files = sorted(work.glob("out*.npy"), key=lambda file: int(file.stem[3:]))
        return Counted(steady(intervals), [], [np.load(file) for file in files])


__all__ = ["Asked", "Counted", "Interval", "Machine", "joined", "read"]
