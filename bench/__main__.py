"""Sterna beside its peers, by the protocol of bench/protocol.py. docs/performance.md says how to read the tables.

    ci/bench                                    # thirteen networks, 1 and 2 threads: Sterna, ONNX Runtime, OpenVINO
    ci/bench --peers all mobilenet_v2 null      # every peer; those that cannot be installed here are reported
    ci/bench --layers resnet50 model.onnx       # Sterna alone, by kernel
    ci/bench --int8                             # integer networks, LiteRT too

A model is a network of bench/networks.py (NAME_int8: quantized), a folder of ../shared/models, or a file. Peers live in
virtual environments below the work folder, made when they are first needed; "networks" needs torch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from environments import Environments
from integers import INTEGERS, quantize
from layers import measure
from machine import describe, limits
from peers import ENGINES
from protocol import Bench, Settings, reference
from tables import COUNTED, WRONG, WRONG_INTEGER, by_layer, latency, problems, start

TRAINED = Path(__file__).resolve().parents[2] / "shared" / "models"
DEFAULT = ("sterna", "sterna-llvm", "onnxruntime", "openvino")
SUFFIXES = (".onnx", ".tflite")


def find_model(name: str, folder: Path, environments: Environments) -> Path:
    """The file of a model. Networks are written once."""
    if name.endswith(SUFFIXES):
        return Path(name).resolve()
    for suffix in SUFFIXES:
        if (TRAINED / name / f"model{suffix}").is_file():
            return TRAINED / name / f"model{suffix}"
    target = folder / "networks" / f"{name}.onnx"
    if name.endswith("_int8"):
        if not target.exists():
            quantize(find_model(name.removesuffix("_int8"), folder, environments), target)
        return target
    if not target.with_suffix(".pt").exists():
        script = Path(__file__).with_name("networks.py")
        subprocess.run([environments.networks(), str(script), str(target.parent), name], check=True)
    return target


def arrays(model: Path, folder: Path) -> dict[str, Any]:
    """Inputs for a model."""
    kept = folder / f"{model.stem}-layers.npz"
    reference(model, kept)
    with np.load(kept) as found:
        return {key[3:]: found[key] for key in found.files if key.startswith("in:")}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="ci/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*")
    parser.add_argument("--int8", action="store_true", help="integer networks; rates in parts of the dot products'")
    parser.add_argument("--peers", help=f"of {', '.join(ENGINES)}; or all")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=8, help="turns of every peer")
    parser.add_argument("--turn-ms", type=float, default=150.0)
    parser.add_argument("--layers", action="store_true", help="Sterna alone, a table of the kernels of each model")
    parser.add_argument("--work", type=Path, default=Path(os.environ.get("STERNA_BENCH", "build/bench")))
    parser.add_argument("--json", type=Path, help="write the records there, too")
    arguments = parser.parse_args()
    usual = (*DEFAULT, "litert") if arguments.int8 else DEFAULT
    peers = list(ENGINES) if arguments.peers == "all" else arguments.peers.split(",") if arguments.peers else usual
    names = arguments.models or (INTEGERS if arguments.int8 else [*COUNTED, "null"])
    counted, wrong = (INTEGERS, WRONG_INTEGER) if arguments.int8 else (COUNTED, WRONG)
    if unknown := [peer for peer in peers if peer not in ENGINES]:
        parser.error(f"no peer {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    folder = arguments.work.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environments = Environments(folder / "environments")
    console = Console(width=max(120, 26 + 14 * (len(peers) + 2)))
    one = limits(1)
    rates = f"{one.gflops:.0f} GFLOP/s, {one.gops:.0f} GOP/s of bytes, {one.gbytes:.0f} GB/s"
    console.print(f"{describe()}: {rates} on one core")
    models = {Path(name).stem if name.endswith(SUFFIXES) else name: name for name in names}
    files = {label: find_model(name, folder, environments) for label, name in models.items()}
    if arguments.layers:
        for label, file in files.items():
            for threads in arguments.threads:
                console.print(by_layer(label, measure(file, arrays(file, folder), threads), limits(threads)))
        return
    settings = Settings(peers, arguments.threads, arguments.rounds, arguments.turn_ms)
    bench = Bench(folder, environments, settings)
    results, work = {}, {}
    for label, file in files.items():
        print(f"{label} ...", file=sys.stderr, flush=True)
        results[label] = bench.measure(file)
        work[label] = sum(layer.multiply_adds for layer in measure(file, arrays(file, folder), 1, repeat=1))
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(results, indent=1))
    for threads in arguments.threads:
        peak = limits(threads).gops if arguments.int8 else limits(threads).gflops
        console.print(latency(results, threads, work, peak, counted, wrong))
    console.print(start(results))
    for line in problems(results, wrong):
        console.print(line)


if __name__ == "__main__":
    main()
