"""Compiles kernels for CUDA with NVIDIA's ptxas and nvcc, and counts what spills; see ci/gpu-compile."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "compiler"), str(ROOT / "tests")]

from sterna.api import compile_model  # noqa: E402
from sterna.compiled import Compiled  # noqa: E402
from sterna.driver import Options, compile_graph  # noqa: E402
from sterna.targets.description import load_target  # noqa: E402
from support.convolutions import network  # noqa: E402
from support.every_operator import every_operator  # noqa: E402
from support.half_networks import half_network  # noqa: E402
from support.trained import FOLDER, sample  # noqa: E402

#: By compute capability, the target whose kernels are compiled for it.
TARGETS = {"75": "cuda-sm75", "80": "cuda-sm80", "90": "cuda-sm90"}
PARTS = 4
#: Compiled where no names are given.
MODELS = ("mlperf_tiny_kws_int8", "mlperf_tiny_ad_f32", "mlperf_tiny_resnet_f32", "silero_vad_16k_f32")
OPERATORS, HALF, TF32 = "operators", "half", "tf32"


def compiled(name: str, target: str, text: str) -> Iterator[Compiled]:
    """What is compiled under a name; as `text` "ptx" or CUDA's "cu"."""
    machine = load_target(target)
    if text == "cu":
        machine = replace(machine, device=None)
    if name == OPERATORS:
        for part in range(PARTS):
            graph, _, _ = every_operator(part=part, parts=PARTS)
            host = load_target("host")
            yield compile_graph(graph, OPERATORS, Options(machine, host=host if text == "ptx" else None))
    elif name == HALF:
        yield compile_model(half_network(), machine)
    elif name == TF32:
        yield compile_model(network(), machine, math="fast=0.05")
    else:
        model = sample(name)
        yield compile_model(model.file, machine, shapes=model.shapes())


def spilled(tools: Path, capability: str, made: Compiled, text: str, folder: Path) -> tuple[int, int, int]:
    """Kernels, those that spill, and the most registers.

    Raises:
        RuntimeError: the compiler refused the text.
    """
    programs = next(tools.glob("nvidia/*/bin"))
    file = folder / f"{capability}-{id(made)}.{text}"
    file.write_text(made.module if text == "ptx" else made.source)
    output = file.with_suffix(".cubin")
    if text == "ptx":
        command = [programs / "ptxas", f"-arch=sm_{capability}", "-v", file, "-o", output]
    else:
        command = [programs / "nvcc", f"-arch=sm_{capability}", "-cubin", "-fmad=false", "-Xptxas", "-v", file]
        command += ["-o", output]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode != 0:
        raise RuntimeError("\n".join(line for line in said.splitlines() if "rror" in line)[:2000] or said[:2000])
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", said)]
    return len(registers), sum(pair != ("0", "0") for pair in spills), max(registers, default=0)


def main(tools: Path, names: list[str]) -> int:
    """The exit status: 1 if a kernel is refused or spills, 2 if a model is not there."""
    names = names or ["digits", OPERATORS, HALF, TF32, *MODELS]
    missing = [name for name in names if name not in ("digits", OPERATORS, HALF, TF32) and not (FOLDER / name).is_dir()]
    if missing:
        print(f"not in {FOLDER}: {', '.join(missing)}", file=sys.stderr)
        return 2
    failed = False
    print(f"{'model':24} {'text':4} {'sm':>3} {'kernels':>8} {'spill':>6} {'registers':>10}")
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor() as pool:
        for name in names:
            for text in ("ptx", "cu"):
                work = [(sm, made) for sm, target in TARGETS.items() for made in compiled(name, target, text)]
                jobs = [pool.submit(spilled, tools, sm, made, text, Path(scratch)) for sm, made in work]
                for sm in TARGETS:
                    rows = [job.result() for job, (of, _) in zip(jobs, work, strict=True) if of == sm]
                    kernels, spills = (sum(row[n] for row in rows) for n in (0, 1))
                    registers = max(row[2] for row in rows)
                    print(f"{name:24} {text:4} {sm:>3} {kernels:8} {spills:6} {registers:10}", flush=True)
                    failed = failed or spills > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
