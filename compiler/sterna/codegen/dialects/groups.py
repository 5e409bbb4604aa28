"""What the languages of devices share that run tasks by groups of threads: scalars, and the frame of a kernel whose
buffers, open sizes, scratch and status are its parameters.

A thread runs a task or several; where several threads run a task, a group of them does, one task each. Threads cannot
wait for those of other groups: targets of these dialects have no barriers of the device.
"""

from __future__ import annotations

from collections.abc import Mapping

from sterna.codegen.dialects.c_family import C_TYPE, CFamily
from sterna.ir import dtypes
from sterna.ir.memory import INPUT, OUTPUT, PARAM, Memory
from sterna.loops.program import KERNEL_FAILED, Buffer
from sterna.loops.wide import Widths

#: LLVM's number of the address space that the threads of a group share.
SHARED = 3


class GroupDialect(CFamily):
    """A dialect gives the words."""

    vectors = False
    threads = True
    arguments = ("int64",)
    address_spaces = (0, SHARED)

    #: Qualifiers of pointers to the memory of the device and to that of a group; of what no other pointer reaches.
    far: str
    near: str
    alone: str
    #: The language's functions of floats, by operation.
    functions: Mapping[str, str] = {
        "abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
    }  # fmt: skip
    #: The number of the group; that of the thread among all, and how many those are.
    group: str
    thread_of_all: str
    all_threads: str

    # -- the frame of a kernel
    def bind(self, buffer: Buffer, begin: str) -> str:
        address = {
            INPUT: f"in{begin}",
            PARAM: f"(params + {begin})",
            OUTPUT: f"out{begin}",
        }[buffer.scope]
        return self._pointer(buffer, "" if buffer.scope is OUTPUT else "const ", address, buffer.may_alias)

    def dimension(self, slot: int, dtype: str) -> str:
        return f"({self.index_type})dims[{slot}]"

    def allocate(self, buffer: Buffer, begin: str, shared: bool) -> str:
        if buffer.scope.in_scratch:
            return self._pointer(buffer, "", f"(scratch + {begin})", shared)
        if isinstance(buffer.scope, Memory):
            t = f"{self.near}{C_TYPE[buffer.dtype]} *"
            return f"{t}{buffer.name} = ({t})({buffer.scope.name}_memory + {begin});"
        return super().allocate(buffer, begin, shared)

    def tasks(self, name: str, threaded: bool) -> str:
        t = self.index_type
        if threaded:
            return f"if ({self.group} < n_tasks) {{ const {t} {name} = ({t}){self.group};"
        first, step = self.thread_of_all, self.all_threads
        return f"for ({t} {name} = ({t}){first}; {name} < ({t})n_tasks; {name} += ({t}){step}) {{"

    def require(self, condition: str) -> str:
        return f"if (!{condition}) {{ *status = {KERNEL_FAILED}; return; }}"

    def _pointer(self, buffer: Buffer, qualifier: str, address: str, may_alias: bool) -> str:
        pointer = f"{self.far}{qualifier}{C_TYPE[buffer.dtype]} *"
        return f"{pointer}{'' if may_alias else self.alone}{buffer.name} = ({pointer}){address};"

    # -- wide accesses
    @property
    def widths(self) -> Widths:
        return Widths() if self.target.threads is None else Widths(self.target.threads.access_bytes)

    def wide_place(self, buffer: Buffer, dtype: str, index: str, lanes: int) -> str:
        space = self.near if isinstance(buffer.scope, Memory) else self.far
        const = "const " if buffer.scope in (INPUT, PARAM) else ""
        type_ = self.type(dtype) if lanes == 1 else self.wide_type(dtype, lanes)
        return f"*({space}{const}{type_} *)({buffer.name} + ({index}))"

    # -- values
    def unary(self, op: str, dtype: str, a: str, lanes: int) -> str:
        if op in self.functions and dtypes.is_float(dtype):
            return f"{self.functions[op]}{self.suffix(dtype)}({a})"
        return super().unary(op, dtype, a, lanes)

    def suffix(self, dtype: str) -> str:
        """What the names of functions of a float end in."""
        return ""

    def fma(self, dtype: str, a: str, b: str, c: str, lanes: int) -> str:
        if not self.target.fuses(dtypes.bits(dtype), 1):
            return super().fma(dtype, a, b, c, lanes)
        return f"{self.fused(dtype)}({a}, {b}, {c})"

    def fused(self, dtype: str) -> str:
        """The language's function of a fused multiply-add."""
        raise NotImplementedError
