"""Metal's language: scalars; each thread runs a task or several, or, of a task of several threads, a threadgroup does
(`templates/metal/kernels.metal.j2`). It has no float64."""

from __future__ import annotations

from collections.abc import Sequence

from sterna.codegen.dialects.c_family import C_TYPE
from sterna.codegen.dialects.groups import GroupDialect
from sterna.ir import dtypes
from sterna.ir.memory import Memory
from sterna.ir.threads import ThreadAxis

#: Elements of the language's longest vectors, and what the names of vectors begin with.
MOST_LANES = 4
#: The elements of those that hold more elements of fewer bits.
WORD = "uint32"
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

    # -- vectors of the language, or of words where it has none as long
    def wide_type(self, dtype: str, lanes: int) -> str:
        if lanes > MOST_LANES:
            return f"{_VECTORS[WORD]}{lanes * dtypes.bits(dtype) // dtypes.bits(WORD)}"
        return f"{_VECTORS[dtype]}{lanes}"

    def wide_lane(self, name: str, lane: int, dtype: str, lanes: int) -> str:
        if lanes <= MOST_LANES:
            return f"{name}[{lane}]"
        bits = dtypes.bits(dtype)
        word, first = divmod(lane * bits, dtypes.bits(WORD))
        return f"({C_TYPE[dtype]})({name}[{word}] >> {first})"

    def wide_value(self, name: str, dtype: str, values: Sequence[str]) -> list[str]:
        if len(values) <= MOST_LANES:
            return super().wide_value(name, dtype, values)
        bits = dtypes.bits(dtype)
        each, word, part = dtypes.bits(WORD) // bits, C_TYPE[WORD], C_TYPE[f"uint{bits}"]
        # No sign of a part reaches the next one.
        parts = [f"({word})({part})({value}) << {n % each * bits}" for n, value in enumerate(values)]
        lines = [self.variable(self.wide_type(dtype, len(values)), name)]
        for n in range(len(values) // each):
            lines.append(f"{name}[{n}] = {' | '.join(parts[n * each : (n + 1) * each])};")
        return lines

    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str:
        return f"as_type<{C_TYPE[dtype]}>({a})"
