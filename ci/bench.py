"""Latency, compile time and size of models compiled by Sterna (C and LLVM generators) and run by ONNX Runtime.

    ci/bench                             # MobileNetV2, ResNet-18, ResNet-50
    ci/bench mobilenet_v2 mnist_cntk_f32 model.onnx --threads 1 2 --seconds 3

A model is one of the three networks, a folder of ../shared/models, or an ONNX file of constant shapes. Runs of the
engines are interleaved, so that a change of the machine's speed meets all of them; the figures are medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from rich.console import Console
from rich.table import Table

import sterna
from models.networks import NETWORKS
from sterna.api import compile_to
from trained import FOLDER, sample

GENERATORS = ("c", "llvm")


def find_model(name: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model and inputs for it."""
    random = np.random.default_rng(0)
    if name in NETWORKS:
        return NETWORKS[name](), {"image": random.standard_normal((1, 3, 224, 224)).astype(np.float32)}
    if not name.endswith(".onnx"):
        if name != "digits" and not (FOLDER / name).is_dir():
            raise SystemExit(f"{name}: neither a network of this benchmark nor a folder of {FOLDER}")
        known = sample(name)
        return onnx.load(known.file), known.cases[0].inputs
    model = onnx.load(name)
    inputs = {}
    for given in onnxruntime.InferenceSession(name).get_inputs():
        shape = [n if isinstance(n, int) else 1 for n in given.shape]
        inputs[given.name] = random.standard_normal(shape).astype(np.float32)
    return model, inputs


def compile_times(model: onnx.ModelProto, shapes: dict[str, Any], generator: str, place: Path) -> tuple[float, float]:
    """Seconds with an empty cache and with a warm one; the bundle stays in `place`."""
    seconds = []
    with tempfile.TemporaryDirectory() as cache:
        before = os.environ.get("STERNA_CACHE_DIR")
        os.environ["STERNA_CACHE_DIR"] = cache
        try:
            for _ in range(2):
                start = time.perf_counter()
                compile_to(place, model, shapes=shapes, generator=generator)
                seconds.append(time.perf_counter() - start)
        finally:
            os.environ.pop("STERNA_CACHE_DIR") if before is None else os.environ.update(STERNA_CACHE_DIR=before)
    return seconds[0], seconds[1]


def session(model: onnx.ModelProto, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def interleaved(engines: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Median milliseconds of each."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    for run in engines.values():
        run()
    end = time.perf_counter() + seconds * len(engines)
    while time.perf_counter() < end or len(times[next(iter(times))]) < 5:
        for name, run in engines.items():
            start = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def measure(name: str, threads: list[int], seconds: float, latency: Table, building: Table) -> None:
    model, inputs = find_model(name)
    shapes = {key: array.shape for key, array in inputs.items()}
    with tempfile.TemporaryDirectory() as folder:
        places = {g: Path(folder) / g for g in GENERATORS}
        for generator, place in places.items():
            cold, warm = compile_times(model, shapes, generator, place)
            sizes = sterna.load(place).sizes()
            library = sum(n for file, n in sizes.items() if file.startswith("model.") and file != "model.h")
            size = (f"{library / 1e3:.1f} kB", f"{sizes['params.bin'] / 1e6:.2f} MB")
            building.add_row(name, generator, f"{cold:.2f} s", f"{warm:.2f} s", *size)
        for count in threads:
            bundles = {g: sterna.load(place, count) for g, place in places.items()}
            reference = session(model, count)
            expected = reference.run(None, inputs)
            error = 0.0
            for bundle in bundles.values():
                for found, want in zip(bundle.run(inputs).values(), expected, strict=True):
                    error = max(error, float(np.abs(found - want).max() / max(1e-30, np.abs(want).max())))
            engines: dict[str, Callable[[], object]] = {g: bundle.run for g, bundle in bundles.items()}
            binding = reference.io_binding()
            for key, array in inputs.items():
                binding.bind_cpu_input(key, array)
            for output in reference.get_outputs():
                binding.bind_output(output.name)
            engines["ort"] = lambda r=reference, b=binding: r.run_with_iobinding(b)
            ms = interleaved(engines, seconds)
            ratio = f"{min(ms[g] for g in GENERATORS) / ms['ort']:.2f}"
            latency.add_row(name, str(count), *(f"{ms[e]:.3f}" for e in ("c", "llvm", "ort")), ratio, f"{error:.1e}")
            for bundle in bundles.values():
                bundle.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(NETWORKS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=3.0, help="per engine")
    arguments = parser.parse_args()
    columns = ("Sterna C", "Sterna LLVM", f"ONNX Runtime {onnxruntime.__version__}")
    latency = Table("model", "threads", *columns, "best / ORT", "error", title="median ms of a run")
    building = Table("model", "generator", "compiled", "again, cached", "kernels", "weights", title="compilation")
    for name in arguments.models:
        measure(name, arguments.threads, arguments.seconds, latency, building)
    console = Console(width=110)
    console.print(latency)
    console.print(building)


if __name__ == "__main__":
    main()
