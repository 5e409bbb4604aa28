"""Sterna beside its peers, by the protocol of bench/protocol.py. docs/performance.md says how to read the tables.

    ci/bench                                    # thirteen networks, 1 and 2 threads: Sterna, ONNX Runtime, OpenVINO
    ci/bench --peers all mobilenet_v2 null      # every peer; those that cannot be installed here are reported
    ci/bench --layers resnet50 model.onnx       # Sterna alone, by kernel
    ci/bench --compile mobilenet_v2             # how long compiling takes, without caches, and how much memory
    ci/bench --int8                             # integer networks, LiteRT too
    ci/bench --architectures                    # over a hundred networks of torchvision, timm and transformers; an hour
    ci/bench architectures-int8                 # six of them, quantized
    ci/bench --operators                        # one operator a model, at sizes that networks have; an hour or two
    ci/bench operators-grouped operators-grid   # families of those
    ci/bench --operators --on node              # the same as WebAssembly, beside onnxruntime-web, one thread
    ci/bench --peers sterna,litert trained      # a group of models

Peers live in virtual environments below the work folder, made when they are first needed; "networks" needs torch, and
"architectures" the packages whose networks they are.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from architectures import ARCHITECTURES, ARCHITECTURES_INT8
from compiling import COLUMNS, ROUNDS, compilation, rows
from environments import Environments, add_work
from integers import INTEGERS
from layers import measure
from machine import describe, limits
from models import COUNTED, NETWORKS, Model, Models, groups
from operators import OPERATORS
from peers import ENGINES
from protocol import WRONG, WRONG_INTEGER, Bench, Settings
from sterna.codegen.generators import GENERATORS
from sterna.errors import Diagnostic, SternaError
from tables import behind, by_family, by_layer, latency, problems, start

DEFAULT = ("sterna", "sterna-llvm", "onnxruntime", "openvino")
WIDTH = 120


def _named() -> str:
    """What can be named, for --help."""
    trained = groups()["trained"]
    lines = (
        f"networks: {', '.join(NETWORKS)}; NAME_int8, quantized; NAME_b8, with batch 8",
        f"trained models: {', '.join(trained) if trained else 'none beside this checkout'}; and those of integers",
        f"groups of them: {', '.join(groups())}",
        "files: *.onnx, *.tflite",
    )
    return "models:\n" + "\n".join(
        textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="    ") for line in lines
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ci/bench",
        description=__doc__,
        epilog=_named(),
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=WIDTH),
    )
    parser.add_argument("models", nargs="*", help="see below; the thirteen and null where none is named")
    parser.add_argument("--int8", action="store_true", help="integer networks; rates in parts of the dot products'")
    parser.add_argument(
        "--operators", action="store_true", help="one operator a model, where a single layer is a cliff"
    )
    parser.add_argument(
        "--architectures", action="store_true", help="networks of torchvision, timm and transformers, random weights"
    )
    parser.add_argument("--on", choices=("here", "node"), default="here", help="node: as WebAssembly, one thread")
    parser.add_argument("--peers", help=f"of {', '.join(ENGINES)}; or all", metavar="A,B")
    parser.add_argument("--threads", metavar="N,N", help="1,2; 1 in Node")
    parser.add_argument("--rounds", type=int, default=8, metavar="N", help="turns of every peer: 8")
    parser.add_argument("--turn-ms", type=float, default=150.0, metavar="MS", help="of a turn: 150")
    parser.add_argument("--layers", action="store_true", help="Sterna alone, a table of the kernels of each model")
    parser.add_argument("--compile", action="store_true", help="how long compiling takes, by generator, and memory")
    add_work(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the records there, too")
    return parser


def _peers(given: str | None, usual: Sequence[str]) -> Sequence[str]:
    if given is None:
        return usual
    native = [peer for peer, engine in ENGINES.items() if not engine.node]
    return native if given == "all" else list(dict.fromkeys(given.split(",")))


def _settings(arguments: argparse.Namespace) -> Settings:
    """Raises E0002 for every option that no run can be made of."""
    usual: Sequence[str]
    if arguments.on == "node":
        usual = [peer for peer, engine in ENGINES.items() if engine.node]
    elif arguments.int8:
        usual = (*DEFAULT, "litert")
    elif arguments.architectures:
        usual = ("sterna", "onnxruntime", "openvino")
    else:
        usual = ("sterna", "onnxruntime", "openvino", "litert") if arguments.operators else DEFAULT
    peers = _peers(arguments.peers, usual)
    wrong = [
        Diagnostic("E0002", f'there is no peer "{peer}"', fix=f"of {', '.join(ENGINES)}; or all")
        for peer in peers
        if peer not in ENGINES
    ]
    given = arguments.threads or ("1" if arguments.on == "node" else "1,2")
    threads = [int(n) if n.isdecimal() else 0 for n in given.split(",")]
    if min(threads) < 1:
        title = f'--threads is "{given}"; numbers of threads are at least 1'
        wrong.append(Diagnostic("E0002", title, fix="--threads 1,2"))
    if arguments.rounds < 1:
        wrong.append(Diagnostic("E0002", f"--rounds is {arguments.rounds}; it must be at least 1"))
    if not arguments.turn_ms > 0:
        wrong.append(Diagnostic("E0002", f"--turn-ms is {arguments.turn_ms:g}; it must be above 0"))
    if wrong:
        raise SternaError(wrong)
    limit = WRONG_INTEGER if arguments.int8 else WRONG
    return Settings(peers, threads, arguments.rounds, arguments.turn_ms, wrong=limit)


def _usual(arguments: argparse.Namespace) -> Sequence[str]:
    """The models where none is named."""
    if arguments.operators:
        return tuple(OPERATORS)
    if arguments.architectures:
        return tuple(ARCHITECTURES)
    return INTEGERS if arguments.int8 else (*COUNTED, "null")


def _run(arguments: argparse.Namespace) -> None:
    settings = _settings(arguments)
    folder = arguments.work.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environments = Environments(folder / "environments", settings.peers)
    models = Models(folder, environments)
    found = models.find(arguments.models or _usual(arguments))
    console = Console(width=max(WIDTH, 26 + 14 * (len(settings.peers) + 2)))
    one = limits(1)
    rates = f"{one.gflops:.0f} GFLOP/s, {one.gops:.0f} GOP/s of bytes, {one.gbytes:.0f} GB/s"
    console.print(f"{describe()}: {rates} on one core")
    if arguments.layers:
        for model in found:
            for threads in settings.threads:
                layers = measure(model.file, models.inputs(model), threads)
                console.print(by_layer(model.label, layers, limits(threads)))
        return
    if arguments.compile:
        _compile(found, console, arguments)
        return
    _compare(found, Bench(folder, environments, models, settings), console, arguments)


def _compare(found: Sequence[Model], bench: Bench, console: Console, arguments: argparse.Namespace) -> None:
    """Times the models on all peers and prints the tables."""
    rows = [model.label for model in found if model.label in OPERATORS]
    architectures = [model.label for model in found if model.label in (*ARCHITECTURES, *ARCHITECTURES_INT8)]
    counted = rows or architectures or (INTEGERS if arguments.int8 else COUNTED)
    results, work = {}, {}
    for model in found:
        print(f"{model.label} ...", file=sys.stderr, flush=True)
        results[model.label] = bench.measure(model)
        if arguments.on == "here":  # what this machine can do at most says nothing elsewhere
            with contextlib.suppress(SternaError):  # the records say that it cannot be compiled
                layers = measure(model.file, bench.models.inputs(model), 1, repeat=1)
                work[model.label] = sum(layer.multiply_adds for layer in layers)
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(results, indent=1))
    for threads in bench.settings.threads:
        peak = limits(threads).gops if arguments.int8 else limits(threads).gflops
        console.print(latency(results, threads, work, peak, counted))
        if rows:
            console.print(by_family(results, threads))
        if architectures:
            console.print(behind(results, threads), markup=False)
    if not rows:
        console.print(start(results))
    unwritten = [f"{name}: {why}" for name, why in bench.models.failed.items()]
    for line in (*unwritten, *problems(results)):
        console.print(line, markup=False)


def _compile(found: Sequence[Model], console: Console, arguments: argparse.Namespace) -> None:
    """Compiles the models by both generators and prints the table."""
    results = []
    for model in found:
        for generator in GENERATORS:
            print(f"{model.label} by {generator} ...", file=sys.stderr, flush=True)
            results.append((model.label, generator, compilation(model.file, generator)))
            if arguments.json is not None:
                records = [
                    (label, name, each if isinstance(each, str) else vars(each)) for label, name, each in results
                ]
                arguments.json.write_text(json.dumps(records, indent=1))
    table = Table(*COLUMNS, title=f"compiling without caches, the fastest of {ROUNDS}")
    for row in rows(results):
        table.add_row(*row)
    console.print(table)


def main() -> None:
    arguments = _parser().parse_args()
    try:
        _run(arguments)
    except SternaError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2 if "E0002" in problem.codes else 1)


if __name__ == "__main__":
    main()
