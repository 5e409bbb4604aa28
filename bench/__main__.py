"""Sterna beside its peers, by the protocol of bench/protocol.py. docs/performance.md says how to read the tables.

    ci/bench                                    # thirteen networks, 1 and 2 threads: Sterna, ONNX Runtime, OpenVINO
    ci/bench --peers all mobilenet_v2 null      # every peer; those that cannot be installed here are reported
    ci/bench --layers resnet50 model.onnx       # Sterna alone, by kernel

A model is a network of bench/networks.py, a folder of ../shared/models, or an ONNX file of constant shapes. Peers live
in virtual environments below the work folder, made when they are first needed; "networks" needs torch.
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
from layers import measure
from machine import describe, limits
from peers import ENGINES
from protocol import Bench, Settings, reference
from tables import COUNTED, by_layer, latency, problems, start

TRAINED = Path(__file__).resolve().parents[2] / "shared" / "models"
DEFAULT = ("sterna", "sterna-llvm", "onnxruntime", "openvino")


def find_model(name: str, folder: Path, environments: Environments) -> Path:
    """The file of a model. Networks are written once."""
    if name.endswith(".onnx"):
        return Path(name).resolve()
    if (TRAINED / name / "model.onnx").is_file():
        return TRAINED / name / "model.onnx"
    target = folder / "networks" / f"{name}.onnx"
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
    parser.add_argument("models", nargs="*", default=[*COUNTED, "null"])
    parser.add_argument("--peers", default=",".join(DEFAULT), help=f"of {', '.join(ENGINES)}; or all")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=8, help="turns of every peer")
    parser.add_argument("--turn-ms", type=float, default=150.0)
    parser.add_argument("--layers", action="store_true", help="Sterna alone, a table of the kernels of each model")
    parser.add_argument("--work", type=Path, default=Path(os.environ.get("STERNA_BENCH", "build/bench")))
    parser.add_argument("--json", type=Path, help="write the records there, too")
    arguments = parser.parse_args()
    peers = list(ENGINES) if arguments.peers == "all" else arguments.peers.split(",")
    if unknown := [peer for peer in peers if peer not in ENGINES]:
        parser.error(f"no peer {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    folder = arguments.work.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environments = Environments(folder / "environments")
    console = Console(width=max(120, 26 + 14 * (len(peers) + 2)))
    console.print(f"{describe()}: {limits(1).gflops:.0f} GFLOP/s, {limits(1).gbytes:.0f} GB/s on one core")
    models = {name if not name.endswith(".onnx") else Path(name).stem: name for name in arguments.models}
    files = {label: find_model(name, folder, environments) for label, name in models.items()}
    if arguments.layers:
        for label, file in files.items():
            for threads in arguments.threads:
                console.print(by_layer(label, measure(file, arrays(file, folder), threads), limits(threads)))
        return
    bench = Bench(folder, environments, Settings(peers, arguments.threads, arguments.rounds, arguments.turn_ms))
    results, work = {}, {}
    for label, file in files.items():
        print(f"{label} ...", file=sys.stderr, flush=True)
        results[label] = bench.measure(file)
        work[label] = sum(layer.multiply_adds for layer in measure(file, arrays(file, folder), 1, repeat=1))
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(results, indent=1))
    for threads in arguments.threads:
        console.print(latency(results, threads, work, limits(threads)))
    console.print(start(results))
    for line in problems(results):
        console.print(line)


if __name__ == "__main__":
    main()
