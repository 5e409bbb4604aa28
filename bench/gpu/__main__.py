"""Sterna on a GPU beside its peers there, and the goals that it has. docs/gpu.md says how to read the tables.

    ci/bench-gpu                                # all of it: an hour or more, most of it in peers' compilers
    ci/bench-gpu --list                         # what that is; needs no GPU
    ci/bench-gpu mobilenet_v2 resnet50_b8 start # some of it
    ci/bench-gpu --engines sterna-device,torch-compile --python torch-compile=/opt/torch/bin/python mlp
    ci/bench-gpu --minutes 9 --json a.json mlp  # what can be measured in that time
    ci/bench-gpu --read a.json --read b.json    # the tables of what earlier runs on this device wrote
    ci/bench-gpu --target opencl mlp product    # the benchmark itself, without a GPU: on PoCL, peers on the CPU

It ends with status 1 if a goal is missed, a result is wrong or Sterna fails, with 2 if there is no such device or if an
option or a name is wrong. Engines that cannot be installed are reported. A run that is ended shows what it has found.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from environments import Environments, add_work
from gpu import tables
from gpu.bench import FIRST, OPENED, DeviceBench, Pair
from gpu.device import TARGETS, Device, find
from gpu.goals import NOTHING, START, goals
from gpu.kernels import MEMORY, SIZES
from gpu.kernels import PRODUCT as PRODUCT_KERNEL
from gpu.results import Results, Row, read
from gpu.workloads import BANDWIDTH, GROUPS, PRECISIONS, PRODUCT, Workload, Workloads, names_of
from gpu.workloads import START as START_PART
from models import Models, check
from peers import ENGINES
from protocol import Record, Settings
from sterna.errors import Diagnostic, SternaError, error

#: By the kind of device: engines of networks, and of kernels.
USUAL = {
    "cuda": (
        (*("sterna-device", FIRST, "onnxruntime-gpu", "onnxruntime-graph"),
         *("tensorrt", "tensorrt-graph", "torch-compile", "tvm")),
        ("sterna-device", "torch-eager"),
    ),
    "opencl": (
        ("sterna-device", FIRST, "onnxruntime", "torch-compile", "tvm"),
        ("sterna-device", "torch-eager"),
    ),
}  # fmt: skip
PARTS = (PRODUCT, BANDWIDTH, START_PART)
WIDTH = 120


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ci/bench-gpu",
        description=__doc__,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=WIDTH),
    )
    names = f"networks of ci/bench, NAME_b8 with batch 8; {', '.join((*GROUPS, *PARTS))}; files *.onnx; all by default"
    parser.add_argument("names", nargs="*", help=names)
    parser.add_argument("--target", choices=TARGETS, default="cuda", help="cuda: the newest one that the GPU can do")
    parser.add_argument("--precisions", metavar="A,B", help=f"of {', '.join(PRECISIONS)}; all that the device has")
    every = dict.fromkeys(name for kind in USUAL for name in _engines(kind))
    parser.add_argument("--engines", metavar="A,B", help=f"of {', '.join(every)}; all of the device's by default")
    parser.add_argument(
        "--python", action="append", default=[], metavar="NAME=FILE",
        help="an interpreter that has an engine's packages (networks: torch and onnx): nothing is installed for it",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=8, metavar="N", help="turns of every engine: 8")
    parser.add_argument("--turn-ms", type=float, default=150.0, metavar="MS", help="of a turn: 150")
    parser.add_argument("--starts", type=int, default=5, metavar="N", help="processes that time the first result: 5")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="N", help="begin nothing after that time")
    parser.add_argument("--bound", type=float, default=0.02, metavar="E", help="of --math fast=E, for tf32: 0.02")
    parser.add_argument("--sizes", choices=SIZES, help="of kernels; full with CUDA, small without")
    add_work(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, all samples too")
    parser.add_argument("--read", action="append", type=Path, metavar="FILE", help="measure nothing: show these files")
    parser.add_argument("--list", action="store_true", help="say what would run, and measure nothing")
    return parser


def _wrong(arguments: argparse.Namespace) -> list[Diagnostic]:
    """E0002 for every option that no run can be made of."""
    wrong = []
    engines = _engines(arguments.target.partition("-")[0])
    for option, known in (("precisions", PRECISIONS), ("engines", engines)):
        given = getattr(arguments, option)
        for name in () if given is None else given.split(","):
            if name not in known:
                fix = f"of {', '.join(known)}"
                wrong.append(Diagnostic("E0002", f'--{option} has "{name}", which is none', fix=fix))
    for given in arguments.python:
        name, _, file = given.partition("=")
        if name not in (*ENGINES, "networks") or not Path(file).is_file():
            wrong.append(Diagnostic("E0002", f'--python is "{given}"', fix="ENGINE=FILE, the file of an interpreter"))
    for option in ("rounds", "starts"):
        if getattr(arguments, option) < 1:
            wrong.append(Diagnostic("E0002", f"--{option} is {getattr(arguments, option)}; it must be at least 1"))
    if arguments.json is not None and not arguments.json.resolve().parent.is_dir():
        wrong.append(Diagnostic("E0002", f"--json is {arguments.json}", fix="a file in a folder that exists"))
    if not arguments.minutes > 0:
        wrong.append(Diagnostic("E0002", f"--minutes is {arguments.minutes:g}; it must be above 0"))
    if not arguments.turn_ms > 0:
        wrong.append(Diagnostic("E0002", f"--turn-ms is {arguments.turn_ms:g}; it must be above 0"))
    if not 0 < arguments.bound < 1:
        wrong.append(Diagnostic("E0002", f"--bound is {arguments.bound:g}; it must be between 0 and 1"))
    return wrong


def _engines(kind: str) -> list[str]:
    """Of networks and of kernels."""
    return list(dict.fromkeys(name for usual in USUAL[kind] for name in usual))


class Ended(BaseException):
    """Somebody wants this process to end: what it has found is shown."""


class Plan:
    """What runs, of the options and the kind of device, which has these precisions.

    Raises:
        SternaError: E0002, a precision is asked for that it has not; E0006, a name is none.
    """

    def __init__(self, arguments: argparse.Namespace, kind: str, precisions: Sequence[str]) -> None:
        names = names_of(arguments.names)
        self.networks = check([name for name in names if name not in PARTS])
        self.parts = [name for name in names if name in PARTS]
        chosen = _engines(kind) if arguments.engines is None else list(dict.fromkeys(arguments.engines.split(",")))
        #: An engine of kernels alone, torch's operators, has no networks.
        self.of_kernels = [name for name in chosen if name in USUAL[kind][1]]
        self.of_networks = [name for name in chosen if name not in USUAL[kind][1] or name in USUAL[kind][0]]
        asked = precisions if arguments.precisions is None else arguments.precisions.split(",")
        if absent := [each for each in asked if each not in precisions]:
            title = f"--precisions has {', '.join(absent)}, which the device has not"
            raise error("E0002", title, fix=f"of {', '.join(precisions)}")
        self.precisions = [each for each in PRECISIONS if each in asked]
        self.sizes = arguments.sizes or ("full" if kind == "cuda" else "small")

    def lines(self) -> list[str]:
        """For --list."""
        sizes = SIZES[self.sizes]
        lines = []
        if self.networks:
            lines += [
                f"networks: {', '.join(self.networks)}",
                f"in: {', '.join(self.precisions)}",
                f"by: {', '.join(self.of_networks)}",
            ]
        if PRODUCT in self.parts:
            lines.append(f"product: {sizes.side}^3 in fp16, by {', '.join(self.of_kernels)}")
        if BANDWIDTH in self.parts:
            shape = f"{sizes.rows} x {sizes.columns}"
            lines.append(f"bandwidth: {', '.join(MEMORY)} of {shape}, by {', '.join(self.of_kernels)}")
        if START_PART in self.parts:
            lines.append(f"start: the first result of {START} and {NOTHING}, by {OPENED} and {FIRST}")
        return lines


def _measure(arguments: argparse.Namespace, device: Device, plan: Plan) -> tuple[Results, int]:
    """What was found, and with which status the run was ended from outside; 0: it was not."""
    folder = arguments.work.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    engines = [*plan.of_networks, *plan.of_kernels]
    given = dict(each.split("=", 1) for each in arguments.python)
    environments = Environments(folder / "environments", engines, given)
    models = Models(folder, environments)
    threads = len(os.sched_getaffinity(0))
    patience = {"compile_seconds": 1800.0, "answer_seconds": 600.0}
    settings = Settings(engines, [threads], arguments.rounds, arguments.turn_ms, **patience)
    bench = DeviceBench(models, environments, settings, device, arguments.bound, 60 * arguments.minutes)
    workloads = Workloads(models)
    about = {"kind": device.kind, "target": device.target, "name": device.name, "is_judged": device.is_judged}
    results = Results(about, plan.sizes, states=bench.states, unwritten=workloads.failed)
    ended = 0
    try:
        for what, measure in _steps(plan, bench, workloads, results, arguments.starts):
            if bench.is_over:
                results.unwritten[what] = "not measured: the time is up"
                continue
            print(f"{what} ...", file=sys.stderr, flush=True)
            measure()
            if arguments.json is not None:
                results.write(arguments.json)
    except (Ended, KeyboardInterrupt) as end:
        ended = 143 if isinstance(end, Ended) else 130
        results.unwritten["the rest"] = "not measured: the run was ended"
    if arguments.json is not None:
        results.write(arguments.json)
    return results, ended


def _steps(
    plan: Plan, bench: DeviceBench, workloads: Workloads, results: Results, starts: int
) -> Iterator[tuple[str, Callable[[], None]]]:
    """All that is measured, by its name, and what does it."""

    def networks(workload: Workload) -> None:
        results.networks += _rows(bench.measure_pairs([(workload, name) for name in plan.of_networks]))

    def kernels(names: Sequence[str]) -> None:
        found = workloads.kernels(names, SIZES[plan.sizes])
        results.kernels += _rows(bench.measure_pairs([(each, name) for each in found for name in plan.of_kernels]))

    def start(workload: Workload) -> None:
        results.starts[workload.label] = bench.starts(workload, starts)

    for workload in workloads.find(plan.networks, plan.precisions):
        yield workload.label, partial(networks, workload)
    for part, names in ((PRODUCT, (PRODUCT_KERNEL,)), (BANDWIDTH, MEMORY)):
        if part in plan.parts:
            yield part, partial(kernels, names)
    if START_PART in plan.parts:
        for workload in workloads.find((START, NOTHING), ("fp32",)):
            yield f"the first result of {workload.label}", partial(start, workload)


def _rows(measured: Sequence[tuple[Pair, dict[str, Record]]]) -> list[Row]:
    """A row of every workload, with the records of its engines."""
    by_workload: dict[str, tuple[Workload, dict[str, dict[str, Record]]]] = {}
    for (workload, engine), records in measured:
        by_workload.setdefault(workload.label, (workload, {}))[1][engine] = records
    return [
        Row(label, workload.network, workload.batch, workload.precision, records)
        for label, (workload, records) in by_workload.items()
    ]


def _show(results: Results) -> int:
    """Prints all tables; the status to end with."""
    console = Console(width=max(WIDTH, 40 + 16 * (len(results.engines) + 3)))
    console.print(f"{results.device['name']}: {results.device['target']}", markup=False)
    for table in (*tables.latencies(results), tables.kernels(results), tables.first(results), tables.states(results)):
        if table is not None and table.rows:
            console.print(table)
    defects = 0
    for line, is_defect in results.problems():
        defects += is_defect
        console.print(f"{'defect: ' if is_defect else ''}{line}", markup=False)
    found = goals(results)
    console.print(tables.judgement(found, results.is_judged))
    missed = sum(goal.is_met is False for goal in found) if results.is_judged else 0
    nothing = not (results.networks or results.kernels or results.starts)
    return int(bool(defects or missed or nothing))


def _run(arguments: argparse.Namespace) -> int:
    if wrong := _wrong(arguments):
        raise SternaError(wrong)
    if arguments.read:
        return _show(read(arguments.read))
    kind = arguments.target.partition("-")[0]
    if arguments.list:
        plan = Plan(arguments, kind, PRECISIONS if kind == "cuda" else ("fp32", "fp16"))
        print("\n".join(plan.lines()))
        return 0
    device = find(arguments.target)
    results, ended = _measure(arguments, device, Plan(arguments, kind, device.precisions))
    status = _show(results)
    return ended or status


def _end(*_: object) -> None:
    raise Ended


def main() -> None:
    # So that no engine's process is left, with the GPU's memory, and what was found is told.
    signal.signal(signal.SIGTERM, _end)
    arguments = _parser().parse_args()
    try:
        status = _run(arguments)
        sys.stdout.flush()
        sys.exit(status)
    except Ended:
        sys.exit(143)
    except BrokenPipeError:  # who reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except SternaError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2 if {"E0002", "E0006", "E0507", "E0521", "E0401"} & {*problem.codes} else 1)


if __name__ == "__main__":
    main()
