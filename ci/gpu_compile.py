"""Compiles kernels for CUDA with NVIDIA's ptxas and nvcc, and counts what spills; see ci/gpu-compile."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import prod
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "compiler"), str(ROOT / "tests")]

from sterna.api import compile_model  # noqa: E402
from sterna.compiled import Compiled  # noqa: E402
from sterna.driver import Options, compile_graph  # noqa: E402
from sterna.loops import program as P  # noqa: E402
from sterna.targets.description import load_target  # noqa: E402
from sterna.toolchain import ptxas  # noqa: E402
from support.convolutions import network  # noqa: E402
from support.every_operator import every_operator  # noqa: E402
from support.half_networks import half_network  # noqa: E402
from support.trained import FOLDER, sample  # noqa: E402

#: By compute capability, the target whose kernels are compiled for it; and what CUDA C++ has no words for.
TARGETS = {"75": "cuda-sm75", "80": "cuda-sm80", "90": "cuda-sm90", "90a": "cuda-sm90a"}
PTX_ALONE = ("90a",)
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


def registers(tools: Path, capability: str, made: Compiled, text: str, folder: Path) -> list[tuple[int, int, float]]:
    """Of every kernel the registers, bytes that spill, and the occupancy.

    Raises:
        RuntimeError: the compiler refused the text.
    """
    programs = next(tools.glob("nvidia/*/bin"))
    threads = {k.function.name: prod(P.thread_counts(k.function.body).values()) for k in made.kernels}
    if text == "ptx":
        found = ptxas.registers_of(made.module, f"sm_{capability}", programs / "ptxas")
    else:
        file = folder / f"{capability}-{id(made)}.cu"
        file.write_text(made.source)
        found = ptxas.said_of(ptxas.nvcc(programs / "ptxas", f"sm_{capability}", file))
    groups = {name: threads.get(name) or ptxas.WARP for name in found}
    return [(k.registers, k.spilled, k.occupancy(f"sm_{capability}", groups[k.name])) for k in found.values()]


def main(tools: Path, names: list[str]) -> int:
    """The exit status: 1 if a kernel is refused or spills, 2 if a model is not there."""
    names = names or ["digits", OPERATORS, HALF, TF32, *MODELS]
    missing = [name for name in names if name not in ("digits", OPERATORS, HALF, TF32) and not (FOLDER / name).is_dir()]
    if missing:
        print(f"not in {FOLDER}: {', '.join(missing)}", file=sys.stderr)
        return 2
    failed = False
    print(f"{'model':24} {'text':4} {'sm':>3} {'kernels':>8} {'spill':>6} {'registers':>10} {'occupancy, mean':>16}")
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor() as pool:
        for name in names:
            for text in ("ptx", "cu"):
                targets = {sm: of for sm, of in TARGETS.items() if text == "ptx" or sm not in PTX_ALONE}
                work = [(sm, made) for sm, target in targets.items() for made in compiled(name, target, text)]
                jobs = [pool.submit(registers, tools, sm, made, text, Path(scratch)) for sm, made in work]
                for sm in targets:
                    done = [job.result() for job, (of, _) in zip(jobs, work, strict=True) if of == sm]
                    rows = [row for kernels in done for row in kernels]
                    spills, most = sum(row[1] > 0 for row in rows), max((row[0] for row in rows), default=0)
                    mean = sum(row[2] for row in rows) / max(1, len(rows))
                    print(f"{name:24} {text:4} {sm:>3} {len(rows):8} {spills:6} {most:10} {mean:15.0%}", flush=True)
                    failed = failed or spills > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
