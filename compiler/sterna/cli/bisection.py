"""What `sterna verify --bisect` prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sterna.cli.failures import print_errors
from sterna.cli.output import console, print_json
from sterna.debug.bisect import Bisection, Fault
from sterna.errors import SternaError, error
from sterna.escape import rich as escape
from sterna_runtime.cli.reports import check_json, errors_json, number, number_of

#: What is to blame, by the stage of a fault; any other is a pass.
_BLAME = {
    "import": "the import of the model",
    "lower": "the schedule, or what lowers it to loops",
    "pack": "the packing of weights",
    "memory": "the memory plan: the fault is gone when no memory is reused",
    "runtime": "the runtime, or the files of the bundle: everything in them is right by itself",
}
#: What to do about a difference that is no bug.
BY_DESIGN = "this difference is by design: give a larger --tolerance"


def print_bisection(found: Bisection, model: Path, as_json: bool) -> int:
    """Prints it; returns the exit status."""
    mistake = None if found.fault is None else _mistake(found.fault, found.apart)
    if as_json:
        print_json({**_json(found), **({"errors": errors_json(mistake)} if mistake else {})})
    else:
        _print(found, model)
    if mistake is not None:
        print_errors(mistake)
    return 0 if mistake is None else 1


def _print(found: Bisection, model: Path) -> None:
    out = console()
    counts = f"{len(found.passes)} {'pass' if len(found.passes) == 1 else 'passes'} over the graph"
    if found.calls:
        kernels = f"{number_of(found.kernels, 'kernel')} in {number_of(found.calls, 'node')}"
        counts += f", {kernels}, by {' and '.join(found.generators)}"
    if found.fault is None:
        text = f"{escape(model.name)}: all agree with {escape(found.reference)}: {counts}, and the bundle"
        out.print(f"{text} (tolerance {found.tolerance:g})", soft_wrap=True)
    else:
        out.print(f"{escape(model.name)}: [bold red]{escape(blame(found.fault))}[/]", soft_wrap=True)
    for note in found.notes:
        out.print(f"  {escape(note)}", soft_wrap=True)


def blame(fault: Fault) -> str:
    """What is wrong, in words."""
    if fault.stage == "generator":
        return f"the code that the generator {' and '.join(fault.generators)} makes of a kernel is wrong"
    if fault.stage.startswith("loops/"):
        return f"the pass {fault.stage.removeprefix('loops/')} over a kernel's loops is wrong"
    if fault.stage in _BLAME:
        return f"what is wrong is {_BLAME[fault.stage]}"
    return f"the pass {fault.stage} is wrong"


def _mistake(fault: Fault, apart: tuple[str, ...]) -> SternaError:
    lines = []
    if (check := fault.check) is not None:
        lines.append(f'the first tensor that differs is "{check.name}", by {check.error:.1e} of its largest element')
        lines.append(f"at {list(check.at)} it is {number(check.got)} and should be {number(check.wanted)}")
    if fault.sources:
        lines.append(f"it comes from the model's {', '.join(fault.sources)}")
    if fault.kernel:
        lines.append(f'computed by kernel {fault.kernel} of node "{fault.node}"')
    elif fault.node:
        lines.append(f'made by the node "{fault.node}" of the graph')
    lines += [fault.problem] if fault.problem else []
    fix = BY_DESIGN if apart else "this is a bug in Sterna; please report it with the model"
    title = "the import of the model differs from its runtime by design" if apart else blame(fault)
    return error("E0008", title, *lines, *apart, fix=fix)


def _json(found: Bisection) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "ok": found.fault is None,
        "reference": found.reference,
        "tolerance": found.tolerance,
        "passes": list(found.passes),
        "kernels": found.kernels,
        "nodes": found.calls,
        "generators": list(found.generators),
        "notes": list(found.notes),
    }
    return {**facts, "fault": None if found.fault is None else _fault_json(found.fault)}


def _fault_json(fault: Fault) -> dict[str, Any]:
    return {
        "stage": fault.stage,
        "generators": list(fault.generators),
        "node": fault.node,
        "kernel": fault.kernel,
        "sources": list(fault.sources),
        "problem": fault.problem,
        "tensor": None if fault.check is None else check_json(fault.check),
    }
