"""Where the elements of stages are kept: registers, arrays of the stack, scratch memory, the target's own memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from sterna.errors import error
from sterna.ir import dtypes
from sterna.ir.division import ceil_div
from sterna.ir.integer import ZERO, Int, as_int
from sterna.ir.memory import SCRATCH, Memory, Scope
from sterna.ir.remainders import remainders
from sterna.loops.bodies import Bodies
from sterna.loops.nest import Region
from sterna.loops.pipelines import Ring
from sterna.loops.program import Buffer
from sterna.schedule.decisions import StageSchedule
from sterna.schedule.schedule import Schedule
from sterna.te.layout import dense_strides, most_elements
from sterna_runtime.abi import aligned

STACK_LIMIT = 1024  # bytes of one stack array; larger ones go to scratch


class Storage(Bodies):
    """Gives stages their storage.

    Attributes:
        scratch: bytes of storage there, so far.
        taken: bytes of the target's memories, where the nest stands.
        shared: whether workers share each nest, so that no stage inside of one can lie in scratch.
    """

    def __init__(self, schedule: Schedule):
        super().__init__(schedule)
        self.scratch = 0
        self.taken: dict[Memory, int] = {}
        self.shared = False

    def allocated(self, s: StageSchedule, region: Region, blocks: Sequence[tuple[int, int]]) -> Buffer:
        """The storage of a stage that is placed inside a nest."""
        assert s.scope is not None
        if s.keeps_tiles and (s.tensorized is None or s.tensorized.row is None):
            self.refuse(f"{s.name} is no product of tiles", f"place it in another scope than {s.scope}")
        sizes = dict(blocks)
        extent = list(region.extent)
        padding, row = s.padded or (0, 1)
        if row == 1:
            extent[-1] = extent[-1] + padding
        elif blocks:
            self.refuse(f"{s.name} lies in blocks", "pad rows of one dimension")
        if s.turned and not (len(extent) > 1 and extent[-1].is_const):
            self.refuse(f"rows of {s.name} have no constant length", "swizzle what has rows of constant tiles")
        if s.turned and blocks:
            self.refuse(f"{s.name} lies in blocks", "swizzle what lies in rows")
        shape = [*(ceil_div(n, sizes.get(d, 1)) for d, n in enumerate(extent)), *(as_int(size) for _, size in blocks)]
        stored = shape if row == 1 else [*shape[:-row], shape[-row] * dense_strides(shape[-row:])[0] + padding]
        buffer = self.storage(s.name, s.tensor.dtype, stored, s.scope)
        if row > 1:
            strides = (*buffer.strides[:-1], *dense_strides(shape[-row:]))
            buffer = replace(buffer, shape=tuple(shape), strides=strides)
        if self.shared and buffer.scope.has_offsets:
            self.refuse(f"stage {s.name} has no storage of its own for each worker", "place it in registers")
        return replace(buffer, vector=prod(sizes.values())) if blocks else buffer

    def storage(self, name: str, dtype: str, shape: Sequence[Int], scope: Scope) -> Buffer:
        """A buffer of the most that dimensions with bounds need; in scratch if it is too large for the stack."""
        try:
            elements = most_elements([remainders(n) for n in shape])
        except ValueError as problem:
            self.refuse(f"{name} has no greatest size: {problem}", "give the dimension a bound")
        nbytes, slot = elements * dtypes.size(dtype), 0
        if scope.is_array and nbytes > STACK_LIMIT:
            scope = SCRATCH
        if isinstance(scope, Memory):
            slot = self._taken(name, nbytes, scope)
        if scope.in_scratch:
            slot = self.scratch
            self.scratch += aligned(nbytes)
        return Buffer(self.unique(name), dtype, tuple(shape), dense_strides(shape), elements, scope, ZERO, slot)

    def rings(self, buffers: Sequence[Buffer], depth: int, others: Sequence[Buffer]) -> list[Ring]:
        """Room for so many of each buffer, one after the other, in their place: behind all others in their memory."""
        outer = dict(self.taken)
        for memory in {b.scope for b in buffers if isinstance(b.scope, Memory)}:
            self.taken[memory] = max([outer.get(memory, 0), *(b.end for b in others if b.scope == memory)])
        found = list[Ring]()
        for b in buffers:
            each = aligned(b.elements * dtypes.size(b.dtype)) // dtypes.size(b.dtype)
            found.append(Ring(self.storage(b.name, b.dtype, (as_int(depth * each),), b.scope), each))
        self.taken = outer
        return found

    def _taken(self, name: str, nbytes: int, memory: Memory) -> int:
        """The offset of a buffer in one of the target's memories, where nothing else is that lives at the same time."""
        at = -(-self.taken.get(memory, 0) // memory.boundary) * memory.boundary
        self.taken[memory] = at + nbytes
        if at + nbytes > memory.most:
            title = f"kernel {self.kernel.name}: {name} does not fit into the memory {memory.name}"
            where = f"it has {nbytes} bytes, and of the {memory.most} of {memory.name}, {at} are taken"
            raise error(
                "E0307", title, where, fix=f"smaller tiles, or place it further inside, or outside {memory.name}"
            )
        return at
