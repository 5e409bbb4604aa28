"""Tunes kernels for a target whose description is wrong, and says how much of the right one's speed that recovers.

    ci/tune                       # half the vector registers, vectors half as wide, no caches
    ci/tune --trials 200 --kernels conv_3x3,matmul
    ci/tune --dask 2              # only: simulated devices that take 2 s for a kernel, 1, 2 and 4 of them

It ends with 1 where the geometric mean over the kernels is below 0.9, or four devices are not 3.5 times as fast as one.
`--examples N` first compiles random kernels of every family with N times as many random choices as the tests do, and
compares them with the interpreter.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from sterna.driver import reading
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.options import Options
from sterna.records import Database
from sterna.targets.description import host
from sterna.tuning import farm
from sterna.tuning.cluster import Cluster, local
from sterna.tuning.explorers import Random, Space
from sterna.tuning.measure import Local
from sterna.tuning.tuner import Tuner
from support.counted_kernels import KERNELS
from support.simulated_devices import opened
from support.wrong_description import task_of, wrong

LEAST, LEAST_SCALING = 0.9, 3.5
TURNS, FARM_TRIALS = 5, 32


def recovered(name: str, trials: int, seed: int, folder: Path) -> tuple[float, float, float]:
    """Seconds of a kernel by the right target's rules, by the wrong one's, and tuned for the wrong one."""
    options = Options(wrong(host()), "llvm")
    graph = read_model(Source.of(KERNELS[name]()), reading(options))
    with Database(folder / f"{name}.db") as records:
        tuner = Tuner(graph, options, records, seed=seed)
        tuner.run(trials)
        own = task_of(name, wrong(host()))
        best = next(p.choice for p in tuner.kernels if p.task.kernel == own.kernel) or {}
    costs: tuple[list[float], ...] = ([], [], [])
    with Local() as right, Local() as other:
        for _ in range(TURNS):
            costs[0].extend(right.measure(task_of(name, host()), {}).samples)
            costs[1].extend(other.measure(own, {}).samples)
            costs[2].extend(other.measure(own, best).samples)
    a, b, c = (statistics.median(each) for each in costs)
    return a, b, c


def scaling(latency: float) -> int:
    """Trials of one kernel by two builders and 1, 2 and 4 devices of a fixed latency; 0 where four are fast enough."""
    farm.EVERY = 1 << 30  # The reference kernel would run on each device.
    task, seconds = task_of("matmul", host()), list[float]()
    choices = Random(1).propose(Space(task.schedule), {}, FARM_TRIALS, None)
    for n in (1, 2, 4):
        devices = [f"slow-{latency}-{k}" for k in range(n)]
        with (
            local(devices, builders=2) as workers,
            closing(Cluster(workers)) as found,
            farm.Farm(found, devices, opener=opened) as measurer,
        ):
            measurer.measure(task, {})
            began = time.monotonic()
            trials = list(measurer.measure_all(task, choices))
            seconds.append(time.monotonic() - began)
        assert len(trials) == len(choices)
        print(f"{n} devices: {len(trials)} trials in {seconds[-1]:6.2f} s ({seconds[0] / seconds[-1]:.2f})", flush=True)
    return 0 if seconds[0] / seconds[-1] >= LEAST_SCALING else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=120, help="of each kernel")
    parser.add_argument("--kernels", default="conv_1x1,conv_3x3,matmul", help="of tests/support/counted_kernels.py")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=0, help="random choices of random kernels")
    parser.add_argument("--dask", type=float, metavar="SECONDS", help="only how simulated devices scale")
    asked = parser.parse_args()
    if asked.dask:
        return scaling(asked.dask)
    if asked.examples:
        tests = [f"tests/kernels/test_{name}.py" for name in ("choices", "group_choices")]
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *tests]
        subprocess.run(command, check=True, env={**os.environ, "STERNA_EXAMPLES": str(asked.examples)})
    shares = []
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.kernels.split(","):
            right, by_rule, tuned = recovered(name, asked.trials, asked.seed, Path(folder))
            shares.append(right / tuned)
            print(
                f"{name:16} right {right * 1e6:8.2f} us, wrong {by_rule * 1e6:8.2f} us ({right / by_rule:.2f}), "
                f"wrong and tuned {tuned * 1e6:8.2f} us ({right / tuned:.2f})",
                flush=True,
            )
    mean = statistics.geometric_mean(shares)
    print(f"recovered: {mean:.3f} of the right target's speed, {LEAST} is needed")
    return 0 if mean >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
