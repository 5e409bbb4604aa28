"""How peers are timed on a machine that is never quite quiet.

* compile: in a process of its own, once per model, kept by the model's digest.
* load: a fresh process per peer, model and number of threads. The peer's library is imported first; then load, first
  inference and reading the outputs are timed as one: what a program that runs once pays. Memory is the peak of the
  process right after it, less what Python and NumPy had taken.
* check: the outputs against those of ONNX Runtime without graph optimization, or of LiteRT's reference kernels.
* time: the processes of all peers live at the same time, but only the one whose turn it is runs; the others are
  stopped, so that no spinning pool of threads robs another. Turns go round: A B C A B C. A turn is one call that does
  not count and then so many milliseconds of timed calls.

What the tables show is CPU time per call for one thread (the median over turns; it leaves out the time spent waiting
for a core, and equals wall time on a quiet machine), and the best decile of wall time for more (threads that spin make
CPU time useless there).
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
import select
import signal
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from environments import Environments
from peers import ENGINES

Record = dict[str, Any]
"""Of one peer on one model with one number of threads: what its worker said, and `us`, the figure of the tables."""

COMPILE_SECONDS, ANSWER_SECONDS = 300.0, 90.0


@dataclass(frozen=True)
class Settings:
    """Peers and numbers of threads to run; `rounds` of turns of `turn_ms` each; `least` timed calls in all."""

    peers: Sequence[str]
    threads: Sequence[int]
    rounds: int = 8
    turn_ms: float = 150.0
    least: int = 30


class Worker:
    """The process of one peer."""

    def __init__(self, python: str, peer: str, described: Path, log: Path, environment: Mapping[str, str]):
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [python, str(Path(__file__).with_name("worker.py")), peer, str(described)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def answer(self, seconds: float) -> Record:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not ready:
            self.kill()
            return {"failed": f"no answer in {seconds:.0f} s"}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"failed": f"ended with status {self.process.wait()}"}

    def turn(self, milliseconds: float) -> Record:
        """Lets it run for so long, alone."""
        assert self.process.stdin is not None
        self.signal(signal.SIGCONT)
        self.process.stdin.write(f"{milliseconds}\n")
        self.process.stdin.flush()
        said = self.answer(ANSWER_SECONDS)
        if self.process.poll() is None:
            self.signal(signal.SIGSTOP)
        return said

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
        self.process.wait()


class Bench:
    """Runs models by the protocol; `folder` keeps what was compiled, inputs and logs."""

    def __init__(self, folder: Path, environments: Environments, settings: Settings):
        self.folder, self.environments, self.settings = folder, environments, settings
        for name in ("arrays", "compiled", "logs", "tasks"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def measure(self, model: Path) -> dict[str, dict[str, Record]]:
        """Records by peer and then by stage: "compile", "1", "2" ..."""
        digest = hashlib.sha256(model.read_bytes()).hexdigest()[:12]
        arrays = self.folder / "arrays" / f"{model.stem}-{digest}.npz"
        if not arrays.exists():
            reference(model, arrays)
        records: dict[str, dict[str, Record]] = {}
        for peer in self.settings.peers:
            records[peer] = {"compile": self._compile(peer, model, digest, arrays)}
        for threads in self.settings.threads:
            workers: dict[str, Worker] = {}
            try:
                for peer in self.settings.peers:
                    if "failed" in records[peer]["compile"]:
                        continue
                    worker = self._start(peer, model, digest, arrays, threads, "load")
                    said = records[peer][str(threads)] = worker.answer(ANSWER_SECONDS)
                    if "failed" in said:
                        worker.kill()
                    else:
                        worker.signal(signal.SIGSTOP)
                        workers[peer] = worker
                self._turns(workers, {peer: records[peer][str(threads)] for peer in workers}, threads)
            finally:
                for worker in workers.values():
                    worker.kill()
        return records

    def _turns(self, workers: dict[str, Worker], records: dict[str, Record], threads: int) -> None:
        wall: dict[str, list[float]] = collections.defaultdict(list)
        cpu: dict[str, list[float]] = collections.defaultdict(list)
        alive = dict(workers)
        for turn in range(100):
            if turn >= self.settings.rounds and all(len(wall[peer]) >= self.settings.least for peer in alive):
                break
            for peer, worker in list(alive.items()):
                said = worker.turn(self.settings.turn_ms)
                if "failed" in said:
                    records[peer]["failed"] = said["failed"]
                    del alive[peer]
                else:
                    wall[peer] += said["us"]
                    cpu[peer].append(said["cpu_us"])
        for peer in alive:
            decile = float(np.percentile(wall[peer], 10))
            figure = statistics.median(cpu[peer]) if threads == 1 else decile
            records[peer].update(us=figure, median_us=statistics.median(wall[peer]), decile_us=decile)

    def _compile(self, peer: str, model: Path, digest: str, arrays: Path) -> Record:
        kept = self.folder / "compiled" / peer / f"{model.stem}-{digest}" / "compile.json"
        if not kept.exists() or peer.startswith("sterna"):  # the project's own compiler is what changes
            worker = self._start(peer, model, digest, arrays, 2, "compile")
            said = worker.answer(COMPILE_SECONDS)
            worker.kill()
            kept.write_text(json.dumps(said))
        found: Record = json.loads(kept.read_text())
        return found

    def _start(self, peer: str, model: Path, digest: str, arrays: Path, threads: int, stage: str) -> Worker:
        own = self.folder / "compiled" / peer / f"{model.stem}-{digest}"
        own.mkdir(parents=True, exist_ok=True)
        name = f"{peer}-{model.stem}-{threads}-{stage}"
        described = self.folder / "tasks" / f"{name}.json"
        task = {"onnx": model, "arrays": arrays, "folder": own, "threads": threads, "stage": stage}
        described.write_text(json.dumps(task, default=str))
        limits = dict.fromkeys(("OMP_NUM_THREADS", "TVM_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        converter = {"BENCH_CONVERTER": self.environments.converter(peer)} if ENGINES[peer].converter else {}
        python = self.environments.python(peer)
        return Worker(python, peer, described, self.folder / "logs" / f"{name}.txt", {**limits, **converter})


def reference(model: Path, target: Path) -> None:
    """Deterministic inputs, and what the format's own engine makes of them without optimizing."""
    run = _reference_tflite if model.suffix == ".tflite" else _reference_onnx
    inputs, outputs = run(model)
    found = {f"out:{n}": array for n, array in enumerate(outputs)}
    partial = target.with_suffix(".partial.npz")
    np.savez(partial, **{f"in:{name}": array for name, array in inputs.items()}, **found)
    partial.replace(target)


def _reference_tflite(model: Path) -> tuple[dict[str, Any], list[Any]]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    engine = Interpreter(model_path=str(model), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    engine.allocate_tensors()
    random = np.random.default_rng(3)
    inputs: dict[str, Any] = {}
    for given in sorted(engine.get_input_details(), key=lambda detail: detail["name"]):
        shape, kind = given["shape"], np.dtype(given["dtype"])
        whole = kind.kind in "iu"
        limits = (np.iinfo(kind).min, np.iinfo(kind).max) if whole else (-1, 1)
        array = random.integers(*limits, shape).astype(kind) if whole else random.standard_normal(shape, np.float32)
        inputs[given["name"]] = array
        engine.set_tensor(given["index"], array)
    engine.invoke()
    return inputs, [engine.get_tensor(detail["index"]) for detail in engine.get_output_details()]


def _reference_onnx(model: Path) -> tuple[dict[str, Any], list[Any]]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(3)
    inputs: dict[str, Any] = {}
    for given in session.get_inputs():
        # Of open sizes the first is a batch, the others are lengths.
        shape = [n if isinstance(n, int) and n > 0 else 128 if axis else 1 for axis, n in enumerate(given.shape)]
        if "int" in given.type:
            kind = np.int64 if "64" in given.type else np.int32
            constant = {"attention_mask": 1, "token_type_ids": 0}.get(given.name)
            inputs[given.name] = random.integers(1, 999, shape).astype(kind)
            if constant is not None:
                inputs[given.name] = np.full(shape, constant, kind)
        else:
            inputs[given.name] = random.standard_normal(shape, dtype=np.float32)
    return inputs, session.run(None, inputs)
