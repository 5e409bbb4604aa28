"""The half of bench/sweep.py that needs PyTorch: writes cases, and times Sterna, PyTorch and ONNX Runtime in turns.

python bench/sweep_peers.py write FOLDER [PATTERN ...]
python bench/sweep_peers.py time FOLDER [PATTERN ...]
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

import sterna_runtime
import sweep_cases
import sweep_data

ROUNDS, TURN_SECONDS, LEAST_CALLS = 12, 0.004, 3


def cases() -> Iterator[sweep_cases.Case]:
    yield from sweep_cases.families()
    yield from sweep_data.families()


def chosen(patterns: Sequence[str]) -> Iterator[tuple[str, torch.nn.Module, tuple[torch.Tensor, ...]]]:
    """Modules and inputs of the cases; the same numbers in every process."""
    for name, module, inputs in cases():
        if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            torch.manual_seed(0)
            yield name, module().eval(), inputs()


def flat(outputs: Any) -> list[torch.Tensor]:
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return [tensor for part in outputs for tensor in flat(part)]


def write(folder: Path, patterns: Sequence[str]) -> None:
    """NAME.pt2 and NAME.npz of every case, and NAME.onnx where PyTorch's exporter has it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, module, inputs in chosen(patterns):
        file = folder / f"{name}.pt2"
        if file.exists() or file.with_suffix(".txt").exists():
            continue
        try:
            with torch.no_grad():
                program = torch.export.export(module, inputs)
                arrays = {f"in{n}": tensor.numpy() for n, tensor in enumerate(inputs)}
                arrays |= {f"out{n}": tensor.numpy() for n, tensor in enumerate(flat(module(*inputs)))}
            torch.export.save(program, file)
            np.savez(file.with_suffix(".npz"), **arrays)
        except Exception as problem:  # whatever the exporter dislikes of one case
            file.with_suffix(".txt").write_text(str(problem)[:500])
            print(f"{name}: not exported: {str(problem).strip().splitlines()[0][:160]}", flush=True)
            continue
        with contextlib.suppress(Exception):  # a case that ONNX does not have has one peer less
            file = str(folder / f"{name}.onnx")
            torch.onnx.export(program, f=file, dynamo=True, external_data=False, verbose=False)


def of_sterna(folder: Path, name: str, arrays: list[Any]) -> Callable[[], Any] | None:
    if not (folder / name / "graph.json").exists():
        return None
    loaded = sterna_runtime.load(folder / name)
    for spec, array in zip(loaded.inputs, arrays, strict=False):
        loaded.set_input(spec.name, array)
    return loaded.run


def of_onnxruntime(file: Path, arrays: list[Any]) -> Callable[[], Any] | None:
    if not file.exists():
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for given, array in zip(session.get_inputs(), arrays, strict=True):
            binding.bind_ortvalue_input(given.name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        for output in session.get_outputs():
            binding.bind_output(output.name)
        session.run_with_iobinding(binding)
    except Exception:  # the exporter writes models that it refuses
        return None
    return lambda: session.run_with_iobinding(binding)


def measured(steps: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """CPU time of a call in microseconds: the least of turns that all take."""
    best = dict.fromkeys(steps, float("inf"))
    counts = {}
    for name, step in steps.items():
        step()
        began = time.process_time()
        step()
        counts[name] = max(LEAST_CALLS, min(2000, int(TURN_SECONDS / max(time.process_time() - began, 1e-6))))
    for _ in range(ROUNDS):
        for name, step in steps.items():
            step()
            began = time.process_time()
            for _ in range(counts[name]):
                step()
            best[name] = min(best[name], (time.process_time() - began) / counts[name] * 1e6)
    return best


def timed(folder: Path, patterns: Sequence[str]) -> None:
    """A line of JSON for every case."""
    for name, module, inputs in chosen(patterns):
        arrays = [np.ascontiguousarray(tensor.numpy()) for tensor in inputs]
        ours = of_sterna(folder, name, arrays)
        if ours is None:
            continue
        steps: dict[str, Callable[[], Any]] = {"sterna": ours}
        with torch.inference_mode():
            steps["torch"] = lambda module=module, inputs=inputs: module(*inputs)
            peer = of_onnxruntime(folder / f"{name}.onnx", arrays)
            if peer is not None:
                steps["onnxruntime"] = peer
            print(json.dumps({"name": name, **measured(steps)}), flush=True)


def main() -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    stage, folder, patterns = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    (write if stage == "write" else timed)(folder, patterns)


if __name__ == "__main__":
    main()
