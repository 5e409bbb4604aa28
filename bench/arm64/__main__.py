"""Instructions of an inference on 64-bit ARM, one thread, beside ONNX Runtime and LiteRT; no ARM machine is needed.

    ci/bench-arm64                                  # both tables: fp32, twelve networks; int8, seven on three levels
    ci/bench-arm64 fp32 --models lstm,gru           # one table, some of its networks
    ci/bench-arm64 fp32 --models mobilenet_v2 --nodes --histogram      # by node and by mnemonic, Sterna alone
    ci/bench-arm64 fp32 --cycles --caches cortex-a53                   # with llvm-mca's cycles; with a model of caches
    ci/bench-arm64 --on armv7 --models mlperf_tiny_kws_int8            # on another target that qemu-user runs

Everything runs under qemu-user with a plugin that counts (sterna.emulate.counting): exact and the same every time,
whatever else the machine does; instructions, not cycles. Peers are their arm64 wheels in an arm64 Python, downloaded
once (apt-get, pip); what they took is kept in the work folder. docs/performance.md says how to read the tables.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from arm64.cases import TABLES, Level
from arm64.counting import Asked, Counted, Interval, Machine
from arm64.cycles import CORES, estimate
from arm64.cycles import version as estimator
from arm64.root import emulated, make_root, versions
from environments import Environments, add_work
from models import Model, Models
from peers import ENGINES, Task
from protocol import WRONG, WRONG_INTEGER
from sterna.api import compile_to
from sterna.cli.interrupts import orderly
from sterna.codegen.generators import GENERATORS
from sterna.errors import Diagnostic, SternaError, error
from sterna.targets.description import load_target
from sterna.targets.target import Target

PEERS = ("onnxruntime", "litert")
WIDTH = 140
RUNS = 2
PEER_RUNS = 5


@dataclass(frozen=True)
class Figure:
    """What one engine took for one inference.

    Args:
        error: of its outputs, in parts of the largest; cycles: by core.
    """

    count: Interval
    error: float
    cycles: Mapping[str, float]

    @property
    def record(self) -> dict[str, Any]:
        return {**self.count.kinds, "error": self.error, "cycles": dict(self.cycles)}


class Bench:
    """Counts models; everything that is made is kept in `folder`."""

    def __init__(self, folder: Path, root: Path, asked: Asked, generators: Sequence[str], peers: Sequence[str]):
        self.folder, self.root, self.asked, self.generators, self.peers = folder, root, asked, generators, peers
        self.environments = Environments(folder / "environments", peers)
        self.models = Models(folder, self.environments)
        self.machine = Machine(folder / "arm64")
        self.problems: list[str] = []

    def figures(self, model: Model, target: Target) -> dict[str, Figure]:
        """By engine; those that failed or were wrong are in `problems`. Peers have no root for other processors."""
        found: dict[str, Figure] = {}
        with np.load(self.models.arrays(model)) as arrays:
            inputs = {key[3:]: arrays[key] for key in arrays.files if key.startswith("in:")}
            wanted = [arrays[key] for key in arrays.files if key.startswith("out:")]
        for engine in (*self.generators, *(self.peers if emulated(target.runs_on) else ())):
            try:
                figure = (self._own if engine in self.generators else self._peer)(engine, model, target, inputs, wanted)
            except SternaError as problem:
                self.problems.append(f"{model.label}, {engine}, {target.name}: {problem.diagnostics[0].title}")
                continue
            if figure is None:
                continue
            least = WRONG_INTEGER if model.label.endswith(("_int8", "_u8")) else WRONG
            if not figure.error < max(least, model.spread):
                self.problems.append(f"{model.label}, {engine}, {target.name}: wrong by {figure.error:.1e}")
                continue
            found[engine] = figure
        return found

    def counted(self, model: Model, target: Target, generator: str) -> Counted:
        """A run of a bundle, with nodes if they were asked for."""
        inputs = self.models.inputs(model)
        bundle = self.folder / "arm64" / "bundles" / f"{model.label}-{target.name}-{generator}"
        shapes = {name: array.shape for name, array in inputs.items()}
        compile_to(bundle, str(model.file), target.name, shapes, generator=generator)
        graph = json.loads((bundle / "graph.json").read_text())
        given = [inputs[graph["values"][v]["name"]] for v in graph["inputs"]]
        return self.machine.bundle(bundle, target, given, self.folder / "arm64" / "run", RUNS, self.asked)

    def _own(
        self, generator: str, model: Model, target: Target, inputs: Mapping[str, Any], wanted: Sequence[Any]
    ) -> Figure:
        counted = self.counted(model, target, generator)
        outputs = [raw.view(w.dtype).reshape(w.shape) for raw, w in zip(counted.outputs, wanted, strict=True)]
        return Figure(counted.run, _deviation(outputs, wanted), self._cycles(counted.run))

    def _peer(
        self, peer: str, model: Model, target: Target, inputs: Mapping[str, Any], wanted: Sequence[Any]
    ) -> Figure | None:
        """None where the peer does not read the model's format."""
        kept = self.folder / "arm64" / "peers" / f"{peer}-{model.label}-{model.digest}-{target.name}.json"
        made_by = versions(self.root)
        known = json.loads(kept.read_text()) if kept.exists() else {}
        if (
            known.get("versions") == made_by
            and (not self.asked.blocks or known.get("estimator") == estimator())
            and self.asked.caches is None
        ):
            kinds = {key: n for key, n in known.items() if key not in ("versions", "estimator", "error", "cycles")}
            return Figure(Interval(kinds), known["error"], known["cycles"] if self.asked.blocks else {})
        file = self._file_for(peer, model, inputs)
        if file is None:
            return None
        make_root(self.root)
        asked = Asked(blocks=self.asked.blocks, caches=self.asked.caches)
        arrays = list(inputs.values()) if peer != "litert" else [inputs[name] for name in sorted(inputs)]
        work = self.folder / "arm64" / "run"
        counted = self.machine.peer(peer, file, arrays, target.runs_on, self.root, work, PEER_RUNS, asked)
        figure = Figure(counted.run, _deviation(counted.outputs, wanted), self._cycles(counted.run))
        if self.asked.caches is None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            whole = kept.with_suffix(".new")  # renamed, so that a run that is broken off leaves no half of a file
            made = {"versions": versions(self.root), "estimator": estimator() if self.asked.blocks else ""}
            whole.write_text(json.dumps({**made, **figure.record}))
            whole.replace(kept)
        return figure

    def _file_for(self, peer: str, model: Model, inputs: Mapping[str, Any]) -> Path | None:
        """The model in the peer's format, converted once where there is a converter for it."""
        if (model.file.suffix == ".tflite") == (peer == "litert"):
            return model.file
        if peer != "litert" or not model.file.with_suffix(".pt2").exists():
            return None
        place = self.folder / "compiled" / peer / f"{model.label}-{model.digest}"
        if not (place / "model.tflite").exists():
            place.mkdir(parents=True, exist_ok=True)
            os.environ["BENCH_CONVERTER"] = self.environments.converter(peer)
            stages = ENGINES[peer].run(Task(model.file, list(inputs.items()), place, 1, "compile"))
            next(stages)
            try:
                next(stages)
            except Exception as problem:
                raise error("E0004", f"it cannot be converted: {problem}"[:200]) from None
        return place / "model.tflite"

    def _cycles(self, count: Interval) -> dict[str, float]:
        return estimate(count.blocks) if self.asked.blocks else {}


def _deviation(found: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest difference, in parts of the largest magnitude of each output."""
    worst = 0.0
    for have, want in zip(found, wanted, strict=True):
        if have.shape != want.shape:
            return math.inf
        a, b = have.astype(np.float64), want.astype(np.float64)
        worst = max(worst, float(np.abs(a - b).max(initial=0)) / (float(np.abs(b).max(initial=0)) or 1.0))
    return worst


def ratios(found: Mapping[str, Figure], own: str, peers: Sequence[str]) -> dict[str, float]:
    """Ours by the best peer's: instructions, and cycles by core; below 1 is ahead."""
    others = [found[peer] for peer in peers if peer in found]
    if own not in found or not others:
        return {}
    result = {"instructions": found[own].count.total / min(other.count.total for other in others)}
    for core, cycles in found[own].cycles.items():
        if theirs := [other.cycles[core] for other in others if core in other.cycles]:
            result[core] = cycles / min(theirs)
    return result


def _mean(numbers: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def table(title: str, rows: Mapping[str, Mapping[str, Figure]], own: Sequence[str], peers: Sequence[str]) -> Table:
    """Millions of instructions of every engine, and the ratios of the first generator."""
    engines = (*own, *peers)
    cores = [c for c in CORES if any(c in figure.cycles for found in rows.values() for figure in found.values())]
    heads = [engine if engine in peers else f"sterna, {engine}" for engine in engines]
    shown = Table("model", *heads, "x best peer", *(f"{core} cycles x" for core in cores), "error", title=title)
    every: dict[str, list[float]] = {}
    for name, found in rows.items():
        factors = ratios(found, own[0], peers)
        for key, factor in factors.items():
            every.setdefault(key, []).append(factor)
        cells = [f"{found[e].count.total / 1e6:.3f}" if e in found else "-" for e in engines]
        cells += [f"{factors[key]:.2f}" if key in factors else "-" for key in ("instructions", *cores)]
        shown.add_row(name, *cells, f"{found[own[0]].error:.1e}" if own[0] in found else "-")
    if every:
        means = [f"{_mean(every[key]):.3f}" if key in every else "-" for key in ("instructions", *cores)]
        worst = f"most {max(every['instructions']):.2f}"
        shown.add_row(f"geometric mean of {len(every['instructions'])}", *("" for _ in engines), *means, worst)
    return shown


def traffic(title: str, rows: Mapping[str, Mapping[str, Figure]], line: int) -> Table:
    """Megabytes that went between the caches, and from memory, by the model of caches."""
    engines = list(dict.fromkeys(engine for found in rows.values() for engine in found))
    shown = Table("model", *engines, title=f"{title}: MB into L1; into L2; written back from it")
    for name, found in rows.items():
        cells = []
        for engine in engines:
            kinds = found[engine].count.kinds if engine in found else {}
            sizes = [kinds.get(key, 0) * line / 1e6 for key in ("l1", "l2", "back")]
            cells.append("; ".join(f"{size:.2f}" for size in sizes) if kinds else "-")
        shown.add_row(name, *cells)
    return shown


def by_node(counted: Counted, least: float = 0.01) -> Table:
    """Nodes that take at least that part of a network, the largest first."""
    shown = Table("node", "kernel", "thousands", "%", "multiply-adds %", "memory %", "mnemonics")
    for name, kernel, each in sorted(counted.nodes, key=lambda node: -node[2].total):
        if each.total < least * counted.run.total:
            break
        parts = (f"{100 * each.kinds[kind] / each.total:.0f}" for kind in ("vmac", "mem"))
        share = f"{100 * each.total / counted.run.total:.1f}"
        shown.add_row(name[-40:], kernel, f"{each.total / 1e3:.1f}", share, *parts, _histogram(each, 6))
    return shown


def _histogram(interval: Interval, most: int) -> str:
    rows = sorted(interval.mnemonics.items(), key=lambda row: -row[1])[:most]
    return ", ".join(f"{name} {100 * count / interval.total:.0f} %" for name, count in rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ci/bench-arm64",
        description=__doc__,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=WIDTH),
    )
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(TABLES)}; both where none is named")
    parser.add_argument("--models", metavar="A,B", help="some of a table's networks, or others that ci/bench knows")
    parser.add_argument("--on", metavar="TARGET", help="in place of the tables' processors")
    parser.add_argument("--generator", default="c", metavar="A,B", help=f"of {', '.join(GENERATORS)}")
    parser.add_argument("--peers", default=",".join(PEERS), metavar="A,B", help=f"of {', '.join(PEERS)}; none")
    parser.add_argument("--nodes", action="store_true", help="Sterna alone, by node")
    parser.add_argument("--histogram", action="store_true", help="Sterna alone, by mnemonic")
    parser.add_argument("--cycles", action="store_true", help="with cycles by llvm-mca")
    parser.add_argument("--caches", metavar="TARGET", help="with traffic between caches of that target's sizes")
    parser.add_argument("--root", type=Path, metavar="FOLDER", help="the peers' arm64 Python: WORK/arm64/root")
    add_work(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the records there, too")
    return parser


def _words(option: str, given: str, known: Sequence[str]) -> list[str]:
    """Raises E0002 for a word that is none of those known."""
    words = list(dict.fromkeys(given.split(",")))
    if wrong := [word for word in words if word not in known]:
        raise SternaError(
            Diagnostic("E0002", f'{option}: there is no "{word}"', fix=f"of {', '.join(known)}") for word in wrong
        )
    return words


def _levels(arguments: argparse.Namespace) -> Iterator[tuple[Level, Sequence[str]]]:
    """The tables that were asked for: a processor and its networks."""
    names = _words("tables", ",".join(arguments.tables), tuple(TABLES)) if arguments.tables else list(TABLES)
    chosen = arguments.models.split(",") if arguments.models else None
    known = {model for rows in TABLES.values() for _, models in rows for model in models}
    strange = [model for model in chosen or () if model not in known]
    for name in names:
        levels = TABLES[name][:1] if arguments.on else TABLES[name]
        for level, models in levels:
            here = Level(f"{name}, {arguments.on}", arguments.on) if arguments.on else level
            kept = models if chosen is None else [m for m in (*models, *strange) if m in chosen]
            if kept:
                yield here, kept


def _run(arguments: argparse.Namespace) -> int:
    generators = _words("--generator", arguments.generator, tuple(GENERATORS))
    peers = _words("--peers", arguments.peers, PEERS) if arguments.peers != "none" else []
    alone = arguments.nodes or arguments.histogram
    caches = load_target(arguments.caches) if arguments.caches else None
    asked = Asked(arguments.histogram, arguments.cycles, arguments.nodes, caches)
    folder = arguments.work.resolve()
    root = (arguments.root or folder / "arm64" / "root").resolve()
    bench = Bench(folder, root, asked, generators, peers)
    console, records = Console(width=WIDTH), {}
    for level, names in _levels(arguments):
        target = load_target(level.target)
        if "-cpu" not in target.runs_on:
            raise error(
                "E0002", f"qemu-user does not run {target.name}", fix="a target whose runs_on names a processor"
            )
        rows: dict[str, dict[str, Figure]] = {}
        for model in bench.models.find(names):
            print(f"{model.label} on {target.name} ...", file=sys.stderr, flush=True)
            if alone:
                _print_alone(bench, model, target, generators[0], console)
                continue
            rows[model.label] = bench.figures(model, target)
            records[f"{model.label}, {target.name}"] = {e: f.record for e, f in rows[model.label].items()}
            if arguments.json is not None:
                arguments.json.write_text(json.dumps(records, indent=1))
        if rows:
            console.print(table(f"{level.title}: millions of instructions", rows, generators, peers))
        if rows and caches is not None:
            console.print(traffic(f"{level.title}, caches of {caches.name}", rows, caches.line_bytes))
    for line in bench.problems:
        console.print(line, markup=False)
    return int(bool(bench.problems))


def _print_alone(bench: Bench, model: Model, target: Target, generator: str, console: Console) -> None:
    counted = bench.counted(model, target, generator)
    console.print(f"{model.label}: {counted.run.total / 1e6:.3f} million instructions", markup=False)
    if bench.asked.mnemonics:
        console.print(_histogram(counted.run, 24), markup=False)
    if bench.asked.nodes:
        console.print(by_node(counted))


def main() -> None:
    arguments = _parser().parse_args()
    try:
        with orderly():  # the emulator ends with it
            sys.exit(_run(arguments))
    except KeyboardInterrupt:
        sys.exit(130)
    except SternaError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2 if "E0002" in problem.codes else 1)


if __name__ == "__main__":
    main()
