"""`sterna inspect --roofline` over the networks of ci/bench: totals of each, and the goals over all."""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "compiler"), str(ROOT / "bench"), str(ROOT / "tests")]

import onnx  # noqa: E402

from environments import Environments  # noqa: E402
from models import COUNTED, Models  # noqa: E402
from sterna.api import options_of  # noqa: E402
from sterna.debug.roofline import KernelAccesses, Roofline, roofline  # noqa: E402
from support.halves import in_halves  # noqa: E402

#: What is wanted over the networks: bytes moved over the least, and accesses that are coalesced.
MOST_MOVED, LEAST_COALESCED = 1.25, 0.95


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def products(facts: Roofline) -> list[KernelAccesses]:
    """The kernels that multiply and keep operands in shared memory."""
    return [k for k in facts.kernels if k.multiply_adds and k.shared_accesses]


def line(name: str, facts: Roofline) -> str:
    least = facts.total("least_bytes")
    waiting = sum(k.conflicts * k.calls for k in products(facts))
    asked = sum(k.shared_accesses * k.calls for k in products(facts))
    return (
        f"| {name} | {len(facts.kernels)} | {least / 1e6:.1f} | {share(facts.total('moved_bytes'), least):.2f} | "
        f"{share(facts.total('requested_bytes'), least):.2f} | "
        f"{100 * share(facts.total('coalesced'), facts.total('accesses')):.0f} % | "
        f"{100 * share(facts.total('wide_bytes'), facts.total('thread_bytes')):.0f} % | {100 * facts.busy():.0f} % | "
        f"{share(waiting, asked):.2f} | "
        f"{facts.total('multiply_adds') / 1e6:.0f} | "
        f"{100 * share(facts.total('fragments'), facts.total('multiply_adds')):.0f} % | "
        f"{100 * share(facts.total('dots'), facts.total('multiply_adds')):.0f} % |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=COUNTED)
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--half", action="store_true", help="the networks in float16")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench", help="default: build/bench")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    models = Models(work, Environments(work / "environments"))
    print(
        "| network | kernels | least, MB | moved | requested | coalesced | wide | busy | conflicts | multiply-adds, M "
        "| fragments | dots |"
    )
    print("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
    moved, coalesced, clean = [], [], True
    for model in models.find(arguments.networks):
        given = in_halves(onnx.load(model.file)) if arguments.half else model.file
        facts = roofline(given, options_of(arguments.target))
        print(line(model.label, facts), flush=True)
        moved.append(share(facts.total("moved_bytes"), facts.total("least_bytes")))
        coalesced.append(share(facts.total("coalesced"), facts.total("accesses")))
        clean = clean and not any(k.conflicts for k in products(facts))
    mean = statistics.geometric_mean(moved)
    good = mean < MOST_MOVED and min(coalesced) > LEAST_COALESCED and clean
    print(
        f"moved, geometric mean: {mean:.2f} (wanted: below {MOST_MOVED}); "
        f"coalesced, least: {100 * min(coalesced):.0f} % (above {100 * LEAST_COALESCED:.0f} %); "
        f"conflicts in products: {'none' if clean else 'some'} (none)"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
