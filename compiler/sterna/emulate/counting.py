"""Counts the instructions of bundles under qemu-user, by the plugin counter.c: the same each time, on a machine however
busy. Static programs of the C runtime (runner.c) run them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.runtime.programs import placed
from sterna.targets.target import Target
from sterna.toolchain.compilers import run
from sterna.toolchain.zig import zig

_HERE = Path(__file__).resolve().parent
#: By architecture, the number of getppid there.
MARKERS = {"aarch64": 173, "armv7": 64, "armv6": 64, "i686": 64, "riscv64": 173, "x86_64": 110}
SECONDS = 3600.0  # of a program, at most


@dataclass(frozen=True)
class Asked:
    """What is counted beside kinds of instructions.

    Args:
        caches: sizes of the target whose caches are modelled.
    """

    mnemonics: bool = False
    blocks: bool = False
    nodes: bool = False
    caches: Target | None = None

    @property
    def options(self) -> list[str]:
        """Of the plugin."""
        found = [name for name, on in (("hist=1", self.mnemonics), ("blocks=1", self.blocks)) if on]
        if (target := self.caches) is not None:
            found.append(f"l1={target.l1_bytes}:{target.l1_ways}:{target.line_bytes}")
            found.append(f"l2={target.l2_bytes}:{target.l2_ways}:{target.line_bytes}")
        return found


@dataclass
class Interval:
    """What was executed between two markers.

    Args:
        kinds: instructions by the plugin's names; mnemonics: by theirs.
        blocks: of every piece of straight code, its words, and how often it ran.
    """

    kinds: dict[str, int]
    mnemonics: dict[str, int] = field(default_factory=dict)
    blocks: dict[tuple[str, ...], int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.kinds["total"]


@dataclass(frozen=True)
class Counted:
    """Of one model: an inference, the nodes within it if they were asked for, and what was computed."""

    run: Interval
    nodes: list[tuple[str, str, Interval]]
    outputs: list[Any]


def read(path: Path) -> list[Interval]:
    """The intervals between a program's markers; what came before the first one is left out."""
    found: list[Interval] = []
    for line in path.read_text().splitlines():
        word, number, *rest = line.split(" ")
        if word == "MARK":
            found.append(Interval({name: int(n) for name, _, n in (part.partition("=") for part in rest)}))
        elif word == "HIST":
            found[int(number)].mnemonics[rest[0]] = int(rest[1])
        else:
            found[int(number)].blocks[tuple(rest[1:])] = int(rest[0])
    return found[1:]


def joined(intervals: Sequence[Interval]) -> Interval:
    """Several intervals as one."""
    kinds, mnemonics, blocks = (Counter[Any]() for _ in range(3))
    for each in intervals:
        kinds.update(each.kinds)
        mnemonics.update(each.mnemonics)
        blocks.update(each.blocks)
    return Interval(dict(kinds), dict(mnemonics), dict(blocks))


def steady(runs: Sequence[Interval]) -> Interval:
    """The shortest run but for the first: interpreters collect garbage now and then."""
    return min(runs[1:] or runs, key=lambda run: run.total)


class Machine:
    """The emulator with its plugin, which is built into `folder`, and the programs that run in it.

    Raises:
        SternaError: E0402, there is no zig; E0403, the plugin does not compile.
    """

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.plugin = folder / "counter.so"
        # What it calls is QEMU's, which loads it.
        words = zig("cc", "-O2", "-shared", "-fPIC", "-Wl,-z,undefs", "-o", str(self.plugin))
        run([*words, str(_HERE / "counter.c")], folder, "the plugin that counts")

    def bundle(
        self, bundle: Path, target: Target, inputs: Sequence[Any], work: Path, runs: int = 2, asked: Asked | None = None
    ) -> Counted:
        """Counts the shortest of some runs of a bundle; by node the last.

        Args:
            inputs: in the order of its signature.
            work: a folder for files.

        Raises:
            SternaError: E0004, qemu-user is not installed, or the program ended with an error; E0402, E0403, the
                program that runs bundles cannot be built; E0507, none is known for the target.
        """
        asked = asked or Asked()
        architecture = target.llvm_triple.split("-")[0]
        work.mkdir(parents=True, exist_ok=True)
        names = [str(work / f"in{n}.bin") for n in range(len(inputs))]
        for name, array in zip(names, inputs, strict=True):
            np.ascontiguousarray(array).tofile(name)
        settings = {"COUNT_NODES": "1"} if asked.nodes else {}
        program = [
            str(placed("runner", architecture, [_HERE / "runner.c"])),
            str(bundle),
            str(runs),
            str(work / "out"),
            *names,
        ]
        emulator = target.runs_on.split()
        intervals, said = self.count(emulator, program, work, MARKERS[architecture], asked, settings)
        files = sorted(work.glob("out*.bin"), key=lambda file: int(file.stem[3:]))
        outputs = [np.fromfile(file, np.uint8) for file in files]
        if not asked.nodes:
            return Counted(steady(intervals), [], outputs)
        rows = [line.split(" ") for line in said.splitlines()]
        rows = rows[len(rows) // runs * (runs - 1) :]
        last = intervals[-2 * len(rows) - 1 :]
        nodes = [(" ".join(row[1:-1]), row[-1], each) for row, each in zip(rows, last[::2], strict=False)]
        return Counted(joined(last[::2]), nodes, outputs)

    def count(
        self,
        emulator: Sequence[str],
        program: Sequence[str],
        work: Path,
        marker: int,
        asked: Asked,
        settings: Mapping[str, str],
    ) -> tuple[list[Interval], str]:
        """The intervals of a program and what it printed.

        Raises:
            SternaError: E0004, with its last words; it did not end.
        """
        for old in work.glob("out*"):
            old.unlink()
        counts = work / "counts.txt"
        options = ",".join([str(self.plugin), f"out={counts}", f"marker={marker}", *asked.options])
        if shutil.which(emulator[0]) is None:
            title = f"{emulator[0]} is not installed: it runs what is counted"
            raise error("E0004", title, fix="apt-get install qemu-user")
        try:
            done = subprocess.run(
                [*emulator, "-plugin", options, *program], capture_output=True, text=True, check=False, timeout=SECONDS,
                env={**os.environ, **settings},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            title = f"{Path(program[0]).name} under {emulator[0]} did not end in {SECONDS:g} s"
            raise error("E0004", title) from None
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
            raise error("E0004", f"{Path(program[0]).name} under {emulator[0]}: {said}"[:300])
        return read(counts), done.stdout
