"""CUDA C++: scalars; each thread runs a task or several, or, of a task of several threads, a block does
(`templates/cuda/kernels.cu.j2`). Nothing of a toolkit's headers is needed but for fragments of matrices (`mma.h`)."""

from __future__ import annotations

from math import prod

from sterna.codegen.dialects.groups import GroupDialect
from sterna.codegen.tiles import TileOperation
from sterna.ir import dtypes
from sterna.ir.memory import Memory
from sterna.ir.threads import ThreadAxis
from sterna.loops.program import Function, thread_counts
from sterna.loops.statements import Tiles

#: Threads of a warp.
WARP = 32

_WMMA = "nvcuda::wmma::"
#: The types of elements in `mma.h`.
_ELEMENTS = {
    "float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float",
    "int8": "signed char", "uint8": "unsigned char", "int32": "int",
}  # fmt: skip


class Cuda(GroupDialect):
    """Memory that the host hands over is reached by ordinary pointers, and so is `__shared__` memory."""

    name = "cuda"
    fragments = WARP
    last_tasks = True
    rolled = '_Pragma("unroll 1") '
    far, near, alone = "", "", "__restrict__ "
    group = "blockIdx.x"
    thread_of_all, all_threads = "(blockIdx.x * blockDim.x + threadIdx.x)", "(gridDim.x * blockDim.x)"

    def memory(self, memory: Memory, nbytes: int) -> str:
        if nbytes > memory.bytes:
            return f"STERNA_ASKED({memory.name}_memory, {memory.boundary});"
        return f"__shared__ __align__({memory.boundary}) unsigned char {memory.name}_memory[{nbytes}];"

    def thread(self, axis: ThreadAxis) -> str:
        return f"({self.index_type})threadIdx.{axis[-1]}"

    def thread_barrier(self) -> str:
        return "__syncthreads();"

    def last_task(self, counter: str, count: int) -> str:
        return f"last_task({counter}, {count}u)"

    def begin(self, function: Function) -> None:
        super().begin(function)
        # A block of less than a warp has the first threads of it.
        block = prod(thread_counts(function.body).values())
        self.warp = "0xffffffffu" if block >= WARP else f"{(1 << block) - 1:#x}u"

    def exchange(self, dtype: str, a: str, distance: int) -> str:
        return f"__shfl_xor_sync({self.warp}, {a}, {distance})"

    def wide_type(self, dtype: str, lanes: int) -> str:
        return self.helper("wide", dtype, lanes)

    def wide_lane(self, name: str, lane: int, dtype: str, lanes: int) -> str:
        return f"{name}.lane[{lane}]"

    # -- fragments, which are variables
    def tile_frame(self, s: Tiles) -> tuple[list[str], list[str]]:
        return [f"{self._fragment(s, operand)} fragment{n};" for n, operand in enumerate(s.operands)], []

    def tile(self, held: Tiles, call: TileOperation, address: str) -> str:
        first, *factors = (f"fragment{n}" for n in call.tiles)
        if call.operation == "zero":
            return f"{_WMMA}fill_fragment({first}, {_ELEMENTS[held.intrinsic.dtype]}(0));"
        if call.operation == "multiply":
            return f"{_WMMA}mma_sync({first}, {', '.join(factors)}, {first});"
        assert call.memory is not None
        dtype = call.memory[0].dtype
        stride = call.stride // dtypes.size(dtype)
        if call.operation == "load":
            loaded = f"{_WMMA}load_matrix_sync({first}, (const {_ELEMENTS[dtype]} *)({address}), {stride});"
            if not held.intrinsic.settings["rounding"]:
                return loaded
            rounded = f"{first}.x[part] = {_WMMA}__float_to_tf32({first}.x[part])"
            return f"{loaded} for (int part = 0; part < {first}.num_elements; part++) {rounded};"
        return f"{_WMMA}store_matrix_sync({address}, {first}, {stride}, {_WMMA}mem_row_major);"

    def _fragment(self, s: Tiles, operand: int) -> str:
        """The type of a fragment of an operand of the intrinsic; 0: its accumulators."""
        sizes = ", ".join(str(s.intrinsic.size(axis)) for axis in ("row", "lane", "w"))
        if not operand:
            return f"{_WMMA}fragment<{_WMMA}accumulator, {sizes}, {_ELEMENTS[s.intrinsic.dtype]}>"
        order, element = s.intrinsic.settings["orders"][operand - 1], _ELEMENTS[s.intrinsic.operands[operand - 1]]
        if s.intrinsic.settings["rounding"]:
            element = f"{_WMMA}precision::{s.intrinsic.settings['rounding']}"
        return f"{_WMMA}fragment<{_WMMA}matrix_{'ab'[operand - 1]}, {sizes}, {element}, {_WMMA}{order}_major>"

    def table(self, name: str, data: bytes) -> str:
        return f"const uint8_t {name}[{len(data)}] = {{{', '.join(map(str, data))}}};"

    def fused(self, dtype: str) -> str:
        return "fma" + self.suffix(dtype)

    def suffix(self, dtype: str) -> str:
        return "f" if dtypes.bits(dtype) == 32 else ""
