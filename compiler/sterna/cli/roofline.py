"""`sterna inspect --roofline`: what kernels ask of a device's memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from sterna.cli.output import console, table
from sterna.debug.roofline import KernelAccesses, Roofline
from sterna.escape import rich as escape
from sterna_runtime.cli.reports import number_of, size

#: Kernels that are shown unasked, those that move most.
_KERNELS = 20
#: Facts of a kernel that are not added up.
_OF_ONE = ("calls", "groups", "threads", "shared_bytes", "registers", "spilled")
_NOTE = (
    "  moved, requested: times the least, which is every element read or written once; moved is behind a cache of "
    "{cache} that all groups\n  share, requested what groups ask it for. coalesced: of the accesses of subgroups to "
    "memory. wide: of the bytes that threads move, those\n  by accesses of 64 bits and more. busy: multiprocessors "
    "that have a group, in the mean over waves of groups. conflicts: turns per\n  access to shared memory that wait "
    "for a bank. fragments: multiply-adds on fragments of matrices. dots: those of bytes, four by an instruction"
)
_OCCUPANCY = (
    "  occupancy: of the threads of a multiprocessor those that there is room for at a time, by the registers that "
    "ptxas gives a thread\n  and by shared memory"
)


def roofline_json(facts: Roofline) -> dict[str, Any]:
    """Everything; counts of kernels are of one call, totals of a run."""
    names = (
        [name for name, value in asdict(facts.kernels[0]).items() if isinstance(value, int)] if facts.kernels else []
    )
    totals = {name: facts.total(name) for name in names if name not in _OF_ONE}
    return {"kind": "roofline", **asdict(facts), "totals": totals}


def print_roofline(facts: Roofline, every: bool) -> None:
    """The totals and the kernels that move most, or all."""
    out = console()
    out.print(f"[bold]{escape(facts.model)}[/] for {escape(facts.target)}: {_total(facts)}", soft_wrap=True)
    if facts.elsewhere:
        out.print(f"  {facts.elsewhere:,} calls stay on the CPU, and are not counted")
    shown = sorted(facts.kernels, key=lambda k: -k.moved_bytes * k.calls)
    out.print("", _kernels(shown if every else shown[:_KERNELS]), sep="\n")
    if not every and len(shown) > _KERNELS:
        out.print(f"  and {len(shown) - _KERNELS} more: --nodes lists all")
    out.print(_NOTE.format(cache=size(facts.cache_bytes)), soft_wrap=True)
    if any(k.occupancy is not None for k in facts.kernels):
        out.print(_OCCUPANCY, soft_wrap=True)
    if facts.lacks:
        out.print(f"  not here: {facts.lacks}", soft_wrap=True)


def _total(facts: Roofline) -> str:
    least, moved, asked = (facts.total(name) for name in ("least_bytes", "moved_bytes", "requested_bytes"))
    waiting = facts.total("conflicts") / max(1, facts.total("shared_accesses"))
    work, fragments, dots = (facts.total(name) for name in ("multiply_adds", "fragments", "dots"))
    parts = [
        f"{number_of(sum(k.calls for k in facts.kernels), 'call')} of {number_of(len(facts.kernels), 'kernel')}",
        f"least {size(least)}, moved {_times(moved, least)}, requested {_times(asked, least)}",
        f"{_percent(facts.total('coalesced'), facts.total('accesses'))} of accesses coalesced",
        f"{_percent(facts.total('wide_bytes'), facts.total('thread_bytes'))} of bytes by accesses of 64 bits and more",
        f"{100 * facts.busy():.0f} % of {facts.multiprocessors} multiprocessors have a group",
        f"{waiting:.2f} conflicts per access to shared memory",
        f"{work:,} multiply-adds, {_percent(fragments, work)} on fragments, {_percent(dots, work)} by dot products",
    ]
    return "\n  ".join(parts)


def _kernels(kernels: list[KernelAccesses]) -> Table:
    known = any(k.occupancy is not None for k in kernels)
    rows = table(
        *("kernel", "nodes of the model", ">calls", ">groups", ">busy", ">threads", ">shared", ">least"),
        *(">moved", ">requested", ">coalesced", ">wide", ">conflicts", ">multiply-adds", ">fragments", ">dots"),
        *((">registers", ">occupancy") if known else ()),
        title="Kernels, of one call each",
    )
    for k in kernels:
        rows.add_row(
            escape(k.name),
            escape(k.sources[0] if k.sources else ""),
            *(str(k.calls), f"{k.groups:,}", f"{100 * k.busy:.0f} %", str(k.threads)),
            size(k.shared_bytes) if k.shared_bytes else "",
            *(size(k.least_bytes), _times(k.moved_bytes, k.least_bytes), _times(k.requested_bytes, k.least_bytes)),
            *(_percent(k.coalesced, k.accesses), _percent(k.wide_bytes, k.thread_bytes)),
            f"{k.conflicts / k.shared_accesses:.2f}" if k.shared_accesses else "",
            *_work(k),
            *((_registers(k), f"{100 * (k.occupancy or 0):.0f} %") if known else ()),
        )
    return rows


def _registers(k: KernelAccesses) -> str:
    return f"{k.registers}, {k.spilled} B spilled" if k.spilled else str(k.registers)


def _work(k: KernelAccesses) -> tuple[str, str, str]:
    """Multiply-adds, and the shares of those on fragments and by dot products."""
    work = k.multiply_adds
    return (f"{work:,}", _percent(k.fragments, work), _percent(k.dots, work)) if work else ("", "", "")


def _times(count: int, least: int) -> str:
    return f"{count / max(1, least):.2f}x"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} %"
