"""Where a buffer of a kernel can lie: storage that every target has, or a memory that a target declares.

The passes and generators ask a scope what holds of it (who sees a buffer, whether loads and stores reach it); none of
them compares names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from sterna_runtime.abi import ALIGNMENT

#: Who sees the same bytes: one thread, the threads that run in lockstep, those of a task, all tasks of the device, or
#: programs of the host as well. Each sees what those before it see.
Reach = Literal["thread", "subgroup", "block", "device", "host"]
#: How elements move: by loads and stores of any expression, or only by `Copy` statements and by intrinsics that name
#: the memory.
Access = Literal["load", "copy"]
#: Where the bytes come from: the call record has their address; a recurrence has made room already; lowering chooses an
#: offset; the generator declares an array. Or there are no bytes, but named values, or tiles of the hardware, so that
#: every index is constant.
Kind = Literal["argument", "recurrence", "offset", "array", "variables", "tiles"]

#: Bytes that come from a GPU's memory together, and banks of the memory that the threads of a task share.
SECTOR, BANKS = 32, 32

REACHES: tuple[Reach, ...] = get_args(Reach)
ACCESSES: tuple[Access, ...] = get_args(Access)


@dataclass(frozen=True)
class Scope:
    """Where a buffer lies. `name` is how loop programs, schedules and descriptions of targets spell it."""

    name: str
    reach: Reach
    access: Access = "load"
    kind: Kind = "offset"

    @property
    def private(self) -> bool:
        """Whether only one thread sees a buffer; what is not private its neighbours see, too."""
        return self.reach == "thread"

    @property
    def across_tasks(self) -> bool:
        """Whether the tasks of a kernel see the same buffer, and not one each."""
        return self.reach in ("device", "host")

    @property
    def loadable(self) -> bool:
        """Whether expressions may load from it and stores write to it."""
        return self.access == "load"

    @property
    def is_allocated(self) -> bool:
        """Whether there is room already, so that no statement makes it."""
        return self.kind in ("argument", "recurrence")

    @property
    def has_offsets(self) -> bool:
        """Whether lowering chooses where in it a buffer lies."""
        return self.kind == "offset"

    @property
    def in_scratch(self) -> bool:
        """Whether those offsets are into the scratch of the worker."""
        return self.has_offsets

    @property
    def is_array(self) -> bool:
        """Whether a generator declares a buffer as an array of its own."""
        return self.kind == "array"

    @property
    def is_variables(self) -> bool:
        """Whether a buffer becomes named values, one for every index or vector of them."""
        return self.kind == "variables"

    @property
    def is_tiles(self) -> bool:
        """Whether a buffer becomes tiles of the hardware, one for every index."""
        return self.kind == "tiles"

    def __str__(self) -> str:
        return self.name


#: Memory of the call record.
INPUT = Scope("input", "host", kind="argument")
OUTPUT = Scope("output", "host", kind="argument")
PARAM = Scope("param", "host", kind="argument")
#: Per worker, so that the threads of a task share it; in a kernel with barriers of all workers, of all of them.
SCRATCH = Scope("scratch", "block")
#: An array of at most 1 KB.
STACK = Scope("stack", "thread", kind="array")
#: Named scalars or vectors.
REGISTER = Scope("register", "thread", kind="variables")
#: One tile of the hardware per index.
TILE = Scope("tile", "thread", kind="tiles")
#: One tile per index that the threads of a subgroup hold together.
FRAGMENT = Scope("fragment", "subgroup", kind="tiles")
#: Where the next state of a recurrence belongs, which outlives the step.
STATE = Scope("state", "block", kind="recurrence")

BUILT_IN: dict[str, Scope] = {
    s.name: s for s in (INPUT, OUTPUT, PARAM, SCRATCH, STACK, REGISTER, TILE, FRAGMENT, STATE)
}


#: Bytes of the widest element.
_ELEMENT = 8


@dataclass(frozen=True, kw_only=True)
class Memory(Scope):
    """A memory that a target declares, such as a microcontroller's SRAM, the shared memory of a GPU's thread block or
    the scratchpad of an accelerator.

    Args:
        bytes: how many there are, for everything that has to fit at one time: of reach "block", those of one task.
        asked_bytes: how many a task has that asks for them when it is launched, if that is more.
        together_bytes: of reach "block", of all tasks that run together on a multiprocessor, each of which takes
            `system_bytes` more than it has; 0: not known.
        alignment: of every buffer in it, a power of two; what is a part of the worker's scratch has at most 64.
        address_space: 0 where ordinary pointers reach it, else the number that LLVM gives to the address space.
        bytes_per_cycle: what it delivers in a cycle of the processor; of several memories, the one with more is faster.
    """

    bytes: int
    alignment: int = ALIGNMENT
    address_space: int = 0
    bytes_per_cycle: float = 4.0
    asked_bytes: int = 0
    together_bytes: int = 0
    system_bytes: int = 0

    @property
    def most(self) -> int:
        """The most bytes that there are, for who asks for them."""
        return max(self.bytes, self.asked_bytes)

    def share(self, tasks: int) -> int:
        """The bytes of each of so many tasks that run together on a multiprocessor; all that one may have where that is
        not known."""
        return min(self.most, self.together_bytes // tasks - self.system_bytes) if self.together_bytes else self.bytes

    @property
    def boundary(self) -> int:
        """What every buffer in it begins at a multiple of, and the memory itself: also a multiple of any element."""
        return max(self.alignment, _ELEMENT)

    @property
    def in_scratch(self) -> bool:
        """What ordinary pointers reach is a part of the worker's scratch."""
        return self.address_space == 0

    @property
    def holds_tensors(self) -> bool:
        """Whether tensors between kernels may live there: what a task leaves in it the next kernel finds."""
        return self.across_tasks and self.loadable and self.address_space == 0
