"""OpenCL C 1.2: scalars; each work-item runs a task or several, or, of a task of several threads, a work-group does.

A kernel's buffers, open sizes and scratch are its parameters (`templates/opencl/kernels.cl.j2`), and so is the status
that a `Require` sets. Work-items cannot wait for all others: targets of this dialect have no barriers of the device.
"""

from __future__ import annotations

from sterna.codegen.dialects.c_family import C_TYPE, CFamily
from sterna.ir import dtypes
from sterna.ir.memory import INPUT, OUTPUT, PARAM, Memory
from sterna.ir.threads import THREADS, ThreadAxis
from sterna.loops.program import KERNEL_FAILED, Buffer

#: LLVM's number of the address space that OpenCL calls local.
LOCAL = 3
#: OpenCL's own functions of floats, by operation.
_FUNCTIONS = {
    "abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "isinf": "isinf",
}  # fmt: skip
#: OpenCL's names of the types that a value's bits are read as.
_AS = {
    "float32": "float", "float64": "double", "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort",
    "int32": "int", "uint32": "uint", "int64": "long", "uint64": "ulong", "float16": "ushort", "bfloat16": "ushort",
}  # fmt: skip


class OpenCL(CFamily):
    """Memory that the host hands over is `__global`, what the threads of a task share besides is `__local`; everything
    else is private to a work-item."""

    name = "opencl"
    vectors = False
    threads = True
    address_spaces = (0, LOCAL)

    # -- the frame of a kernel
    def bind(self, buffer: Buffer) -> str:
        address = {
            INPUT: f"in{buffer.slot}",
            PARAM: f"(params + {buffer.slot})",
            OUTPUT: f"out{buffer.slot}",
        }[buffer.scope]
        return self._pointer(buffer, "" if buffer.scope is OUTPUT else "const ", address, buffer.may_alias)

    def dimension(self, slot: int) -> str:
        return f"({self.index_type})dims[{slot}]"

    def allocate(self, buffer: Buffer, shared: bool) -> str:
        if buffer.scope.in_scratch:
            return self._pointer(buffer, "", f"(scratch + {buffer.slot})", shared)
        if isinstance(buffer.scope, Memory):
            t = C_TYPE[buffer.dtype]
            return f"__local {t} *{buffer.name} = (__local {t} *)({buffer.scope.name}_memory + {buffer.slot});"
        return super().allocate(buffer, shared)

    def memory(self, memory: Memory, nbytes: int) -> str:
        return f"__local uchar {memory.name}_memory[{nbytes}] __attribute__((aligned({memory.alignment})));"

    def thread(self, axis: ThreadAxis) -> str:
        return f"({self.index_type})get_local_id({THREADS.index(axis)})"

    def thread_barrier(self) -> str:
        return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"

    def tasks(self, name: str, threaded: bool) -> str:
        t = self.index_type
        if threaded:
            return f"if (get_group_id(0) < n_tasks) {{ const {t} {name} = ({t})get_group_id(0);"
        return f"for ({t} {name} = ({t})get_global_id(0); {name} < ({t})n_tasks; {name} += ({t})get_global_size(0)) {{"

    def require(self, condition: str) -> str:
        return f"if (!{condition}) {{ *status = {KERNEL_FAILED}; return; }}"

    def _pointer(self, buffer: Buffer, qualifier: str, address: str, may_alias: bool) -> str:
        pointer = f"__global {qualifier}{C_TYPE[buffer.dtype]} *"
        return f"{pointer}{'' if may_alias else 'restrict '}{buffer.name} = ({pointer}){address};"

    # -- values
    def unary(self, op: str, dtype: str, a: str, lanes: int) -> str:
        if op in _FUNCTIONS and dtypes.is_float(dtype):
            return f"{_FUNCTIONS[op]}({a})"
        return super().unary(op, dtype, a, lanes)

    def fma(self, dtype: str, a: str, b: str, c: str, lanes: int) -> str:
        return f"fma({a}, {b}, {c})" if self.target.fuses(dtypes.bits(dtype), 1) else super().fma(dtype, a, b, c, lanes)

    def bitcast(self, source: str, dtype: str, a: str, lanes: int) -> str:
        return f"as_{_AS[dtype]}({a})"
