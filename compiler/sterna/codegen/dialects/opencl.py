"""OpenCL C 1.2: scalars; each work-item runs a task or several, or, of a task of several threads, a work-group does
(`templates/opencl/kernels.cl.j2`)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from sterna.codegen.dialects.groups import GroupDialect
from sterna.ir.memory import Memory
from sterna.ir.threads import THREADS, ThreadAxis
from sterna.loops import program as P
from sterna.loops.program import Function
from sterna.targets.target import Target

#: OpenCL's names of the types that a value's bits are read as.
_AS = {
    "float32": "float", "float64": "double", "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort",
    "int32": "int", "uint32": "uint", "int64": "long", "uint64": "ulong", "float16": "ushort", "bfloat16": "ushort",
}  # fmt: skip


class OpenCL(GroupDialect):
    """Memory that the host hands over is `__global`, what the threads of a task share besides is `__local`; everything
    else is private to a work-item."""

    name = "opencl"
    functions: Mapping[str, str] = {**GroupDialect.functions, "isinf": "isinf"}
    far, near, alone = "__global ", "__local ", "restrict "
    group, thread_of_all, all_threads = "get_group_id(0)", "get_global_id(0)", "get_global_size(0)"

    def __init__(self, target: Target):
        super().__init__(target)
        #: Of a kernel whose threads exchange values: how many there are along each axis.
        self._numbered: dict[ThreadAxis, int] = {}

    def begin(self, function: Function) -> None:
        super().begin(function)
        self._numbered = P.thread_counts(function.body) if P.exchanged(function.body) > 1 else {}

    def memory(self, memory: Memory, nbytes: int) -> str:
        return f"__local uchar {memory.name}_memory[{nbytes}] __attribute__((aligned({memory.boundary})));"

    def thread(self, axis: ThreadAxis) -> str:
        if not self._numbered:
            return f"({self.index_type})get_local_id({THREADS.index(axis)})"
        # Which work-items are a subgroup is the implementation's choice: those with neighbouring numbers are to be.
        counts = [n for other, n in self._numbered.items() if THREADS.index(other) < THREADS.index(axis)]
        before = f" / {prod(counts)}u" if prod(counts) > 1 else ""
        return f"({self.index_type})(STERNA_THREAD{before} % {self._numbered[axis]}u)"

    def thread_barrier(self) -> str:
        return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"

    def exchange(self, dtype: str, a: str, distance: int) -> str:
        self.headers.add("subgroups")
        return f"STERNA_EXCHANGE({a}, {distance}u)"

    def fused(self, dtype: str) -> str:
        return "fma"

    def wide_type(self, dtype: str, lanes: int) -> str:
        return f"{_AS[dtype]}{lanes}"

    def wide_lane(self, name: str, lane: int, dtype: str, lanes: int) -> str:
        return f"{name}.s{lane:x}"

    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str:
        return f"as_{_AS[dtype]}({a})"
