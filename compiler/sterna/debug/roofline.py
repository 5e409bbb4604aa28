"""What the kernels of a model ask of a device's memory, counted from their loops (`sterna inspect --roofline`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sterna.codegen.generators import KernelSet, module, widths
from sterna.driver import Options, reading
from sterna.errors import error
from sterna.fast import decide
from sterna.frontends.formats import Model, read_model, source_of
from sterna.ir.graph import Graph
from sterna.loops import program as P
from sterna.loops.accesses import SUBGROUP, Accesses, accesses
from sterna.passes.context import context_of
from sterna.passes.kernels import CPU
from sterna.passes.plan_kernels import comments_of
from sterna.passes.stages import Finished, call_multiply_adds
from sterna.pipeline import walk
from sterna.targets.target import Target, Threads
from sterna.toolchain import ptxas
from sterna_runtime.advice import Advice, Option
from sterna_runtime.names import model_name


@dataclass(frozen=True)
class KernelAccesses:
    """A kernel of a device; everything is of one call.

    Args:
        calls: of a run; sources: nodes of the model that it computes, of some of its calls.
        multiply_adds: as `inspect` counts them; fragments: those by instructions over fragments of matrices, without
            what fills fragments up; dots: those by dot products of words of bytes, without what fills words up.
        least_bytes: what it reads and writes, every element once; requested_bytes: of the sectors that its subgroups
            ask for, without any cache; moved_bytes: behind a cache that all groups share.
        busy: the share of the device's multiprocessors that have a group, in the mean over waves of groups.
        accesses, coalesced: of subgroups to the device's memory; shared_accesses, conflicts: to shared memory, and the
            turns that they wait for banks.
        thread_bytes: that threads read and write of the device's memory; wide_bytes: those by accesses of 8 bytes and
            more.
        registers, spilled, occupancy: registers of a thread, bytes that it stores and loads for want of them, and the
            share of a multiprocessor's threads that there is room for at a time, as NVIDIA's ptxas says; None where it
            does not.
    """

    name: str
    sources: tuple[str, ...]
    calls: int
    groups: int
    busy: float
    threads: int
    shared_bytes: int
    multiply_adds: int
    fragments: int
    dots: int
    least_bytes: int
    requested_bytes: int
    moved_bytes: int
    accesses: int
    coalesced: int
    shared_accesses: int
    conflicts: int
    thread_bytes: int
    wide_bytes: int
    registers: int | None = None
    spilled: int | None = None
    occupancy: float | None = None


@dataclass(frozen=True)
class Roofline:
    """A model for a target with groups of threads.

    Args:
        elsewhere: calls that stay on the CPU, which are not counted.
        lacks: what would say more, and is not installed.
    """

    model: str
    target: str
    cache_bytes: int
    multiprocessors: int
    kernels: tuple[KernelAccesses, ...]
    elsewhere: int
    lacks: str = ""

    def total(self, name: str) -> int:
        """One of the counts, of a run."""
        return sum(int(getattr(kernel, name)) * kernel.calls for kernel in self.kernels)

    def busy(self) -> float:
        """The share of multiprocessors that have a group, in the mean over bytes that kernels read or write."""
        return self._over_bytes([kernel.busy for kernel in self.kernels])

    def occupancy(self) -> float | None:
        """The share of a multiprocessor's threads that there is room for, likewise; None where ptxas does not say."""
        shares = [kernel.occupancy for kernel in self.kernels if kernel.occupancy is not None]
        return self._over_bytes(shares) if len(shares) == len(self.kernels) else None

    def _over_bytes(self, shares: Sequence[float]) -> float:
        """The mean of what is known of each kernel, over bytes that kernels read or write."""
        weights = [kernel.least_bytes * kernel.calls for kernel in self.kernels]
        whole = sum(weights)
        return sum(share * weight for share, weight in zip(shares, weights, strict=True)) / whole if whole else 0.0


def roofline(model: Model, options: Options) -> Roofline:
    """Compiles a model as far as its loop programs and counts; with `options.math`, what that leads to.

    Raises:
        SternaError: E0203, the target has no groups of threads; else as `compile`.
    """
    device = options.target.threads
    if device is None:
        title = f"the target {options.target.name} runs no groups of threads, whose accesses could be counted"
        raise error("E0203", title, fix=Advice(Option("target", "opencl")))
    source = source_of(model)
    graph, name = read_model(source, reading(options)), source.path.name if source.path is not None else ""
    if options.math:
        options = decide(graph, model_name(name or graph.name), options).options
    return roofline_of(graph, name, options)


def roofline_of(graph: Graph, name: str, options: Options) -> Roofline:
    """The same of an imported graph."""
    finished = walk(graph, context_of(options), "loops")
    assert isinstance(finished, Finished)
    return with_registers(counted(finished, name, options.target), finished, options.target)


def counted(finished: Finished, model: str, target: Target) -> Roofline:
    """The counts of a model whose loops are there, for a target with groups of threads."""
    assert target.threads is not None
    device, wide = target.threads, widths(target)
    calls = Counter(finished.kernel_of)
    work = {k: P.most(call_multiply_adds(c)) for k, c in zip(finished.kernel_of, finished.sequence.calls, strict=True)}
    sources = comments_of(finished.sequence.calls, finished.kernel_of, len(finished.kernels))
    there = [n for n, kernel in enumerate(finished.kernels) if kernel.place != CPU]
    rows = [
        _row(
            finished.kernels[n].function.name,
            sources[n],
            calls[n],
            work[n],
            accesses(finished.kernels[n].function, SUBGROUP, device.cache_bytes, wide),
            device,
        )
        for n in there
    ]
    elsewhere = sum(calls[n] for n in calls if n not in there)
    return Roofline(model, target.name, device.cache_bytes, device.multiprocessors, tuple(rows), elsewhere)


def with_registers(facts: Roofline, finished: Finished, target: Target) -> Roofline:
    """The same with what NVIDIA's ptxas says of the registers of a target's kernels, if it is for one of theirs."""
    capability, program = target.llvm_cpu, ptxas.find()
    if capability not in ptxas.LIMITS or not facts.kernels:
        return facts
    if program is None:
        return replace(facts, lacks="ptxas, which says registers and occupancy: pip install nvidia-cuda-nvcc")
    functions = [kernel.function for kernel in finished.kernels if kernel.place != CPU]
    text = module(KernelSet("kernels", functions, [()] * len(functions)), target)
    try:
        found = ptxas.registers_of(text, capability, program)
    except RuntimeError as problem:  # an old one knows neither this capability nor this version of PTX
        said = str(problem).split("\n", 1)[0]
        return replace(facts, lacks=f"registers and occupancy, since {program} refuses the kernels: {said}")
    rows = [
        replace(
            row,
            registers=own.registers,
            spilled=own.spilled,
            # What a launch asks for is not the kernel's own.
            occupancy=own.occupancy(capability, row.threads, row.shared_bytes),
        )
        for row, own in ((row, found[row.name]) for row in facts.kernels)
    ]
    return replace(facts, kernels=tuple(rows))


def _row(name: str, sources: Sequence[str], calls: int, work: int, found: Accesses, device: Threads) -> KernelAccesses:
    return KernelAccesses(
        name,
        tuple(sources),
        calls,
        found.groups,
        device.busy(found.groups),
        found.threads,
        found.shared_bytes,
        work,
        min(round(found.fragments), work),
        min(round(found.dots), work),
        round(found.least_bytes),
        round(found.requested_bytes),
        round(found.moved_bytes),
        round(found.accesses),
        round(found.coalesced),
        round(found.shared_accesses),
        round(found.conflicts),
        round(found.bytes),
        round(found.wide_bytes),
    )
