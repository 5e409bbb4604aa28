"""`sterna inspect --roofline` over the networks of ci/bench, or with `--models` over the float models of the
development sets, of all formats, all of whose nodes are on the device: totals of each, and the goals over all."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "compiler"), str(ROOT / "bench"), str(ROOT / "tests")]

from environments import Environments  # noqa: E402
from models import COUNTED, Models  # noqa: E402
from sterna.api import options_of  # noqa: E402
from sterna.debug.roofline import KernelAccesses, Roofline, roofline_of  # noqa: E402
from sterna.frontends.formats import read_model  # noqa: E402
from sterna.frontends.frontend import ReadOptions  # noqa: E402
from sterna.ir.graph import Graph  # noqa: E402
from sterna.targets.description import load_target  # noqa: E402
from sterna.toolchain import ptxas  # noqa: E402
from support.float_models import float_models  # noqa: E402
from support.retyped import in_halves  # noqa: E402

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
        f"{100 * share(facts.total('dots'), facts.total('multiply_adds')):.0f} % |{_registers(facts)}"
    )


def _registers(facts: Roofline) -> str:
    """What ptxas says: the most registers of a thread, and the share of a multiprocessor's threads that have room."""
    occupancy = facts.occupancy()
    if occupancy is None:
        return ""
    return f" {max(k.registers or 0 for k in facts.kernels)} | {100 * occupancy:.0f} % |"


def networks(names: Sequence[str], work: Path) -> Iterator[tuple[str, Graph]]:
    models = Models(work, Environments(work / "environments"))
    for model in models.find(names or COUNTED):
        yield model.label, read_model(model.file, ReadOptions())


def trained(names: Sequence[str]) -> Iterator[tuple[str, Graph]]:
    for name, model in float_models(names):
        yield name, read_model(model.file, ReadOptions(shapes=model.shapes(), values=model.values or None))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of networks or models; all, if none is named")
    parser.add_argument("--models", action="store_true", help="the development models, which need no torch")
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--half", action="store_true", help="in float16")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench", help="default: build/bench")
    arguments = parser.parse_args()
    target = load_target(arguments.target)
    compiled = target.llvm_cpu in ptxas.LIMITS and ptxas.find() is not None
    print(
        "| network | kernels | least, MB | moved | requested | coalesced | wide | busy | conflicts | multiply-adds, M "
        f"| fragments | dots |{' registers | occupancy |' if compiled else ''}"
    )
    print(f"| --- |{' --: |' * (13 if compiled else 11)}")
    device = target.device
    places = {"*": device.kind} if arguments.models and device is not None else {}
    moved, coalesced, waiting, spilling = [], [], [], []
    given = trained(arguments.names) if arguments.models else networks(arguments.names, arguments.work.resolve())
    for name, graph in given:
        options = options_of(arguments.target, device_for=places)
        facts = roofline_of(in_halves(graph).graph if arguments.half else graph, name, options)
        if not facts.kernels:
            print(f"{name}: all of it stays on the CPU", flush=True)
            continue
        print(line(name, facts), flush=True)
        moved.append(share(facts.total("moved_bytes"), facts.total("least_bytes")))
        coalesced.append(share(facts.total("coalesced"), facts.total("accesses")))
        if any(k.conflicts for k in products(facts)):
            waiting.append(name)
        spilling += [f"{k.name} of {name} ({k.spilled} bytes)" for k in facts.kernels if k.spilled]
    if not moved:
        print("nothing was counted")
        return 1
    mean = statistics.geometric_mean(moved)
    good = mean < MOST_MOVED and min(coalesced) > LEAST_COALESCED and not waiting and not spilling
    print(
        f"moved, geometric mean: {mean:.2f} (wanted: below {MOST_MOVED}); "
        f"coalesced, least: {100 * min(coalesced):.0f} % (above {100 * LEAST_COALESCED:.0f} %); "
        f"conflicts in products: {', '.join(waiting) or 'none'} (none)"
        + (f"; spilled registers: {', '.join(spilling) or 'none'} (none)" if compiled else "")
    )
    # The goals are those of the networks; of other models it is said how far they are.
    return 0 if good or arguments.models else 1


if __name__ == "__main__":
    sys.exit(main())
