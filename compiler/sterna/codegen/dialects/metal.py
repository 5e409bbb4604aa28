"""Metal's language: scalars; each thread runs a task or several, or, of a task of several threads, a threadgroup does
(`templates/metal/kernels.metal.j2`). It has no float64."""

from __future__ import annotations

from dataclasses import replace

from sterna.codegen.dialects.c_family import C_TYPE
from sterna.codegen.dialects.groups import GroupDialect
from sterna.ir import dtypes
from sterna.ir.memory import Memory
from sterna.ir.threads import ThreadAxis
from sterna.loops.wide import Widths

#: Elements of the language's longest vectors, and what the names of vectors begin with.
MOST_LANES = 4
_VECTORS = {
    "float32": "float", "float16": "ushort", "bfloat16": "ushort", "int8": "char", "uint8": "uchar", "int16": "short",
    "uint16": "ushort", "int32": "int", "uint32": "uint", "int64": "long", "uint64": "ulong",
}  # fmt: skip


class Metal(GroupDialect):
    """Memory that the host hands over is `device`, what the threads of a task share besides is `threadgroup`; all else
    is private to a thread."""

    name = "metal"
    lacks = frozenset(("float64",))
    far, near, alone = "device ", "threadgroup ", ""
    group = "group_at.x"
    thread_of_all, all_threads = "(group_at.x * group_size.x + thread_at.x)", "(group_count.x * group_size.x)"

    def memory(self, memory: Memory, nbytes: int) -> str:
        return f"STERNA_SHARED({memory.name}_memory, {nbytes}, {memory.boundary});"

    def thread(self, axis: ThreadAxis) -> str:
        return f"({self.index_type})thread_at.{axis[-1]}"

    def thread_barrier(self) -> str:
        return "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);"

    def exchange(self, dtype: str, a: str, distance: int) -> str:
        if dtypes.bits(dtype) == 64:
            return f"as_type<{C_TYPE[dtype]}>(simd_shuffle_xor(as_type<uint2>({a}), {distance}))"
        return f"simd_shuffle_xor({a}, {distance})"

    def fused(self, dtype: str) -> str:
        return "fma"

    @property
    def widths(self) -> Widths:
        return replace(super().widths, lanes=MOST_LANES)

    def wide_type(self, dtype: str, lanes: int) -> str:
        return f"{_VECTORS[dtype]}{lanes}"

    def wide_lane(self, name: str, lane: int, dtype: str) -> str:
        return f"{name}[{lane}]"

    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str:
        return f"as_type<{C_TYPE[dtype]}>({a})"
