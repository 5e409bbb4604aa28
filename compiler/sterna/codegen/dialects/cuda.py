"""CUDA C++: scalars; each thread runs a task or several, or, of a task of several threads, a block does
(`templates/cuda/kernels.cu.j2`). Nothing of a toolkit's headers is needed."""

from __future__ import annotations

from sterna.codegen.dialects.groups import GroupDialect
from sterna.ir import dtypes
from sterna.ir.memory import Memory
from sterna.ir.threads import ThreadAxis


class Cuda(GroupDialect):
    """Memory that the host hands over is reached by ordinary pointers, and so is `__shared__` memory."""

    name = "cuda"
    far, near, alone = "", "", "__restrict__ "
    group = "blockIdx.x"
    thread_of_all, all_threads = "(blockIdx.x * blockDim.x + threadIdx.x)", "(gridDim.x * blockDim.x)"

    def memory(self, memory: Memory, nbytes: int) -> str:
        return f"__shared__ __align__({memory.alignment}) unsigned char {memory.name}_memory[{nbytes}];"

    def thread(self, axis: ThreadAxis) -> str:
        return f"({self.index_type})threadIdx.{axis[-1]}"

    def thread_barrier(self) -> str:
        return "__syncthreads();"

    def table(self, name: str, data: bytes) -> str:
        return f"const uint8_t {name}[{len(data)}] = {{{', '.join(map(str, data))}}};"

    def fused(self, dtype: str) -> str:
        return "fma" + self.suffix(dtype)

    def suffix(self, dtype: str) -> str:
        return "f" if dtypes.bits(dtype) == 32 else ""
