"""Kernels called without a bundle or a runtime: in this process, in an emulator, in Node."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sterna.codegen.llvm import emit_object, module_text
from sterna.loops import program as P
from sterna.runtime.programs import FLAGS, MACHINES
from sterna.targets.description import host
from sterna.targets.target import Target
from sterna.toolchain.compilers import run as run_compiler
from sterna.toolchain.link import link_library
from sterna.toolchain.zig import zig
from support.tools import ROOT


class CallRecord(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32), ("n_workers", ctypes.c_uint32), ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p), ("params", ctypes.c_void_p), ("scratch", ctypes.c_void_p),
        ("dims", ctypes.c_void_p), ("worker", ctypes.c_uint32), ("barrier", ctypes.c_void_p), ("pool", ctypes.c_void_p),
    )  # fmt: skip


class KernelEntry(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_void_p), ("n_tasks", ctypes.c_uint32), ("scratch_bytes", ctypes.c_uint32),
        ("flags", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
    )  # fmt: skip


class LibraryTable(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32), ("abi", ctypes.c_uint32), ("n_kernels", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32), ("kernels", ctypes.POINTER(KernelEntry)), ("features", ctypes.c_char_p),
    )  # fmt: skip


def aligned_bytes(size: int) -> np.ndarray:
    """Bytes at a 64-byte boundary."""
    block = np.zeros(size + 64, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + size]


def aligned_copy(array: np.ndarray) -> np.ndarray:
    block = aligned_bytes(array.nbytes)
    block[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return block


@dataclass
class Job:
    """A call of one kernel: its index, inputs, bytes of its outputs, params, tasks."""

    kernel: int
    inputs: Sequence[np.ndarray]
    output_bytes: Sequence[int]
    params: np.ndarray | None = None
    scratch_bytes: int = 0
    tasks: tuple[int, int] = (0, 1)


class Native:
    """Kernels loaded into this process."""

    def __init__(self, data: bytes, directory: Path):
        path = directory / f"library{len(list(directory.iterdir()))}.so"
        path.write_bytes(data)
        self.keep = ctypes.CDLL(str(path))
        entry = self.keep.sterna_m_library
        entry.restype = ctypes.POINTER(LibraryTable)
        self.table = entry().contents

    def call(
        self,
        kernel: int,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        tasks: tuple[int, int] = (0, 1),
        params: np.ndarray | None = None,
        scratch_bytes: int = 0,
    ) -> None:
        """Calls a kernel on arrays where they lie."""
        signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(CallRecord), ctypes.c_uint32, ctypes.c_uint32)
        scratch = aligned_bytes(scratch_bytes)
        ins, outs = (
            (ctypes.c_void_p * max(1, len(side)))(*(a.ctypes.data for a in side)) for side in (inputs, outputs)
        )
        call = CallRecord(
            ctypes.sizeof(CallRecord),
            1,
            ctypes.addressof(ins),
            ctypes.addressof(outs),
            None if params is None else params.ctypes.data,
            scratch.ctypes.data,
        )
        assert signature(self.table.kernels[kernel].function)(ctypes.byref(call), *tasks) == 0

    def run(self, job: Job) -> list[np.ndarray]:
        inputs = [aligned_copy(a) for a in job.inputs]
        outputs = [aligned_bytes(size + 64) for size in job.output_bytes]
        for output in outputs:
            output[:] = 0xA5
        params = None if job.params is None else aligned_copy(job.params)
        self.call(job.kernel, inputs, outputs, job.tasks, params, job.scratch_bytes)
        for output, size in zip(outputs, job.output_bytes, strict=True):
            assert (output[size:] == 0xA5).all(), "written past the end"
        return [o[:size] for o, size in zip(outputs, job.output_bytes, strict=True)]

    def run_all(self, jobs: Sequence[Job]) -> list[list[np.ndarray]]:
        return [self.run(job) for job in jobs]


_HOST_C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sterna_kernel.h"
const sterna_library *sterna_m_library(void);
static uint32_t word(FILE *f) { uint32_t n = 0; if (fread(&n, 4, 1, f) != 1) exit(2); return n; }
static void *memory(uint32_t n) { char *p = calloc(1, n + 128); return p + (64 - (uintptr_t)p % 64); }
int main(int argc, char **argv) {
  FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
  const sterna_library *library = sterna_m_library();
  if (argc != 3 || !in || !out || library->size != sizeof(*library) || library->abi != STERNA_ABI) return 3;
  for (uint32_t jobs = word(in); jobs; jobs--) {
    uint32_t kernel = word(in), n_in = word(in), n_out = word(in), size;
    const void *inputs[8]; void *outputs[8]; uint32_t sizes[8];
    for (uint32_t n = 0; n < n_in; n++) {
      void *p = memory(size = word(in));
      if (fread(p, 1, size, in) != size) return 4;
      inputs[n] = p;
    }
    for (uint32_t n = 0; n < n_out; n++) outputs[n] = memory(sizes[n] = word(in));
    sterna_call call = {sizeof(call), 1, inputs, outputs, 0, 0, 0, 0, 0, 0};
    if (library->kernels[kernel].function(&call, 0, library->kernels[kernel].n_tasks)) return 5;
    for (uint32_t n = 0; n < n_out; n++) fwrite(outputs[n], 1, sizes[n], out);
  }
  return fclose(out) ? 6 : 0;
}
"""


class Emulated:
    """Kernels linked into a static program that an emulator runs. Calls take no parameters and no scratch.

    It is built as those of `sterna.runtime.programs`, whose C library zig has built already.
    """

    def __init__(self, data: bytes, directory: Path, architecture: str, emulator: str):
        self.directory, self.command = directory, [emulator, "host", "in", "out"]
        (directory / "host.c").write_text(_HOST_C)
        (directory / "kernels.o").write_bytes(data)
        include = ROOT / "runtime_c" / "include"
        flags = *MACHINES[architecture], *FLAGS, "-static", f"-I{include}"
        build = zig("cc", *flags, "host.c", "kernels.o", "-o", "host")
        run_compiler(build, directory, "the test host")

    def run_all(self, jobs: Sequence[Job]) -> list[list[np.ndarray]]:
        words = [struct.pack("<I", len(jobs))]
        for job in jobs:
            words.append(struct.pack("<III", job.kernel, len(job.inputs), len(job.output_bytes)))
            for array in job.inputs:
                words.append(struct.pack("<I", array.nbytes) + array.tobytes())
            words += [struct.pack("<I", size) for size in job.output_bytes]
        (self.directory / "in").write_bytes(b"".join(words))
        subprocess.run(self.command, cwd=self.directory, check=True, timeout=120)
        data = np.frombuffer((self.directory / "out").read_bytes(), np.uint8)
        results, at = [], 0
        for job in jobs:
            results.append([])
            for size in job.output_bytes:
                results[-1].append(data[at : at + size])
                at += size
        return results


_HOST_JS = r"""
import { readFileSync, writeFileSync } from "node:fs";
const memory = new WebAssembly.Memory({ initial: 16 });
const { instance } = await WebAssembly.instantiate(readFileSync("library.wasm"), { env: { memory } });
const { sterna_m_library, __heap_base, __indirect_function_table: table } = instance.exports;
const jobs = readFileSync("in"), parts = [];
let at = 0, heap = __heap_base.value;
const word = () => { at += 4; return jobs.readUInt32LE(at - 4); };
const reserve = (bytes) => {
  const start = (heap + 63) & ~63;
  heap = start + bytes;
  if (heap > memory.buffer.byteLength) memory.grow(Math.ceil((heap - memory.buffer.byteLength) / 65536));
  return start;
};
const kernels = new DataView(memory.buffer).getUint32(sterna_m_library() + 16, true);
for (let left = word(); left; left--) {
  heap = __heap_base.value;
  const kernel = word(), counts = [word(), word()], ins = [], outs = [];
  for (let n = 0; n < counts[0]; n++) {
    const size = word(), p = reserve(size);
    new Uint8Array(memory.buffer, p, size).set(jobs.subarray(at, at + size));
    at += size;
    ins.push(p);
  }
  for (let n = 0; n < counts[1]; n++) { const size = word(); outs.push([reserve(size), size]); }
  const call = reserve(40), inputs = reserve(32), outputs = reserve(32), view = new DataView(memory.buffer);
  ins.forEach((p, n) => view.setUint32(inputs + 4 * n, p, true));
  outs.forEach(([p], n) => view.setUint32(outputs + 4 * n, p, true));
  [40, 1, inputs, outputs, 0, 0, 0, 0, 0, 0].forEach((value, n) => view.setUint32(call + 4 * n, value, true));
  const record = kernels + 20 * kernel;
  if (table.get(view.getUint32(record, true))(call, 0, view.getUint32(record + 4, true))) throw new Error("failed");
  for (const [p, size] of outs) parts.push(Buffer.from(memory.buffer.slice(p, p + size)));
}
writeFileSync("out", Buffer.concat(parts));
"""


class Node(Emulated):
    """Kernels of a WebAssembly module, run by Node."""

    def __init__(self, library: bytes, directory: Path):
        self.directory, self.command = directory, ["node", "--experimental-wasm-relaxed-simd", "host.mjs"]
        (directory / "library.wasm").write_bytes(library)
        (directory / "host.mjs").write_text(_HOST_JS)


def native_targets() -> list[str]:
    levels = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
    name = host().llvm_cpu
    return levels[: levels.index(name) + 1] if name in levels else ["host"]


def load_library(functions: Sequence[P.Function], target: Target, directory: Path) -> Native:
    data = emit_object(module_text(functions, target, "m", functions), target)
    return Native(link_library([data], target, "m"), directory)
