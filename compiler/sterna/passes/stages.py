"""What the passes after those over graphs give each other: each record holds the one before, and its own results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sterna.ir import dtypes
from sterna.ir.graph import Graph
from sterna.ir.integer import ZERO, Int
from sterna.loops.program import Function
from sterna.passes.fuse import Group
from sterna.passes.kernels import CPU, Call
from sterna.passes.linearize import CallSequence
from sterna.passes.memory_plan import MemoryPlan
from sterna.passes.views import Views
from sterna.schedule.schedule import Schedule
from sterna.te.cost import multiply_adds
from sterna.te.layout import most_elements
from sterna.te.tensor import Kernel


@dataclass(frozen=True)
class Viewed:
    """An optimized graph, and which of its tensors lie within others."""

    graph: Graph
    views: Views


@dataclass(frozen=True)
class Grouped(Viewed):
    """The nodes of each kernel, for the graph and every region in it."""

    groups: Mapping[Graph, tuple[Group, ...]]


@dataclass(frozen=True)
class Sequenced(Viewed):
    """The calls of kernels, as tensor expressions, and control over them."""

    sequence: CallSequence

    @property
    def multiply_adds(self) -> Int:
        """Those of a run that reaches every node once."""
        return sum((call_multiply_adds(call) for call in self.sequence.calls), ZERO)


@dataclass(frozen=True)
class Outline(Sequenced):
    """A model as its bundle will run it, before its kernels are scheduled: what is called, in which memory."""

    plan: MemoryPlan


@dataclass(frozen=True)
class Scheduled(Outline):
    """A schedule for each distinct kernel, None for one that is a loop program already; which kernel each call has."""

    schedules: tuple[Schedule | None, ...]
    kernel_of: tuple[int, ...]

    @property
    def firsts(self) -> tuple[Call, ...]:
        """For each distinct kernel the first of its calls."""
        first = {k: call for call, k in reversed(list(zip(self.sequence.calls, self.kernel_of, strict=True)))}
        return tuple(first[n] for n in range(len(self.schedules)))


@dataclass(frozen=True)
class Lowered(Scheduled):
    """The loops of each distinct kernel, before vectors, unrolling and registers."""

    lowered: tuple[Function, ...]


@dataclass(frozen=True)
class Planned:
    """A kernel after scheduling, and the place of its calls; one that was written as a loop program has no schedule.

    Args:
        general: the program for several kernels that runs in its place, where one does; arguments: that make it this
            kernel, in the order of the program's `dims`.
        exchanging: programs that do the same by exchanges in subgroups, for devices that have these: each with the
            threads that a subgroup has at least, the most first (`passes.subgroup_variants`).
    """

    schedule: Schedule | None
    function: Function
    place: str = CPU
    general: Function | None = None
    arguments: tuple[int, ...] = ()
    exchanging: tuple[tuple[int, Function], ...] = ()

    @property
    def code(self) -> Function:
        """The program that generators render for it."""
        return self.function if self.general is None else self.general


def owners(kernels: Sequence[Planned]) -> tuple[Planned, ...]:
    """Of kernels that have one code the first."""
    return tuple({id(kernel.code): kernel for kernel in reversed(kernels)}.values())[::-1]


@dataclass(frozen=True)
class Finished(Outline):
    """The distinct kernels as generators render them; which of them each call has."""

    kernels: tuple[Planned, ...]
    kernel_of: tuple[int, ...]


@dataclass(frozen=True)
class Packed(Finished):
    """The weights as kernels read them.

    Args:
        params: contents of params.bin; params_at: (offset, size) of each call's block.
        states_at: the offset there of what each state holds first; None where that is zeros.
    """

    params: bytes
    params_at: tuple[tuple[int, int], ...]
    states_at: tuple[int | None, ...]


@dataclass(frozen=True)
class Written(Packed):
    """The source that the bundle keeps.

    Args:
        source: of the kernels on the CPU, or of all where that is the only place.
        comments: lines to stand above each rendered kernel: nodes of the source model.
        module: the kernels of the device, as its driver takes them.
    """

    source: str
    comments: tuple[tuple[str, ...], ...]
    module: str = ""


def call_multiply_adds(call: Call) -> Int:
    """The multiply-adds of a call; what is written as a loop program has none that count."""
    return multiply_adds(call.kernel) if isinstance(call.kernel, Kernel) else ZERO


def call_bytes(call: Call) -> int:
    """What a kernel reads and writes, each tensor once: of a border that is filled, not what lies within."""
    kernel = call.kernel
    moved = (*kernel.inputs, *kernel.outputs)
    return sum(most_elements(t.shape) * dtypes.size(t.dtype) for t in moved) + sum(
        int(a.nbytes) for a in call.constants
    )
