"""One peer in a process of its own: `worker.py PEER TASK.json`; answers are lines of JSON on standard output.

"compile": one answer, when the files to ship are written. "load": one answer after the first inference, then one for
every line on standard input, which says how many milliseconds to run for: of CPU time, for devices of wall time. Of a
peer in Node, node_worker.mjs gives these.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import gpu.engines  # noqa: F401 (its peers are among ENGINES)
from peers import ENGINES, Task


def memory(key: str) -> float:
    """Megabytes, from /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def deviation(found: list[Any], wanted: list[Any]) -> float:
    """The largest error of any output, in parts of the largest element of that output; infinite for a wrong shape."""
    worst = 0.0
    for have, want in zip(found, wanted, strict=False):
        a, b = np.asarray(have, np.float64).ravel(), np.asarray(want, np.float64).ravel()
        if a.size != b.size or not np.isfinite(a).all():
            return float("inf")
        worst = max(worst, float(np.abs(a - b).max(initial=0)) / (float(np.abs(b).max(initial=0)) or 1.0))
    return worst if found else float("inf")


def work(name: str, task: Task, wanted: list[Any], answers: TextIO) -> None:
    def say(**answer: Any) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    clock, cpu = time.perf_counter, time.process_time
    before = memory("VmRSS")
    start = clock()
    stages: Iterator[Any] = ENGINES[name].run(task)
    next(stages)
    imported = (clock() - start) * 1e3
    if task.stage == "compile":
        start = clock()
        sizes = {Path(file).name: Path(file).stat().st_size for file in next(stages)}
        say(seconds=clock() - start, bytes=sum(sizes.values()), files=sizes)
        return
    start, begun = clock(), cpu()
    bind, step, fetch = next(stages)
    bind([array for _, array in task.inputs])
    step()
    found = fetch()
    first = {"first_ms": (clock() - start) * 1e3, "first_cpu_ms": (cpu() - begun) * 1e3}
    say(import_ms=imported, **first, memory_mb=memory("VmHWM") - before, error=deviation(found, wanted))
    spent = clock if task.target else cpu  # the CPU may have little to do
    begun = spent()
    step()
    one = max(spent() - begun, 1e-7)
    for line in sys.stdin:
        step()  # caches are warm again after a turn of somebody else
        count = int(min(300, max(3, float(line) / 1e3 / one)))
        times = [0.0] * count
        begun = cpu()
        for i in range(count):
            start = clock()
            taken = step()
            times[i] = taken / 1e6 if task.kernel else clock() - start
        say(us=[round(t * 1e6, 2) for t in times], cpu_us=(cpu() - begun) / count * 1e6)


def become_node(name: str, described: Path, task: Task, wanted: list[Any], answers: int) -> None:
    """Goes on as node_worker.mjs, which is given the arrays as one file of bytes with a description."""
    tensors: dict[str, list[Any]] = {"inputs": [], "wanted": []}
    named = [("", array) for array in wanted]
    data = b""
    for kind, arrays in (("inputs", task.inputs), ("wanted", named)):
        for label, array in arrays:
            found = {"name": label, "dtype": str(array.dtype), "dims": array.shape, "at": len(data)}
            tensors[kind].append({**found, "size": array.size})
            data += array.tobytes() + bytes(-array.nbytes % 8)
    place = described.with_suffix(".node")
    place.with_suffix(".bin").write_bytes(data)
    text = {"peer": name, "onnx": str(task.onnx), "folder": str(task.folder), "threads": task.threads, **tensors}
    place.write_text(json.dumps(text))
    os.set_inheritable(answers, True)
    script = Path(__file__).with_name("node_worker.mjs")
    flags = "--experimental-wasm-relaxed-simd", "--no-warnings"
    os.execvp("node", ["node", *flags, str(script), str(place), str(answers)])


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # peers may print
    name, described = sys.argv[1:]
    given = json.loads(Path(described).read_text())
    with np.load(given["arrays"]) as arrays:
        inputs = [(key[3:], arrays[key]) for key in arrays.files if key.startswith("in:")]
        wanted = [arrays[key] for key in arrays.files if key.startswith("out:")]
    paths = {key: Path(value) for key, value in given.items() if key in ("onnx", "folder", "program") and value}
    task = Task(inputs=inputs, **{key: value for key, value in given.items() if key != "arrays"} | paths)
    try:
        if ENGINES[name].node and task.stage == "load":
            become_node(name, Path(described), task, wanted, answers.fileno())
        work(name, task, wanted, answers)
    except BaseException as reason:
        traceback.print_exc()
        text = str(reason).strip().splitlines()
        answers.write(json.dumps({"failed": f"{type(reason).__name__}: {text[0] if text else ''}"[:200]}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
