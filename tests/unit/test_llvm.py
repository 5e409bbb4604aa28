"""The LLVM generator against the interpreter: every operation, every way to reach memory, several processors."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sterna.codegen.llvm import compile_module, emit_object, module_text
from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.integer import ONE, Int, Symbol, as_int, minimum, of
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.targets.target import Target, host, load_target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.position import position
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from sterna.toolchain.check import check_objects, read_elf
from sterna.toolchain.compilers import run as run_compiler
from sterna.toolchain.link import link_library
from sterna.toolchain.zig import zig

ROOT = Path(__file__).parents[2]


# ---------------------------------------------------------------- running kernels
class _Call(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32), ("n_workers", ctypes.c_uint32), ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p), ("params", ctypes.c_void_p), ("scratch", ctypes.c_void_p),
        ("dims", ctypes.c_void_p), ("worker", ctypes.c_uint32), ("barrier", ctypes.c_void_p), ("pool", ctypes.c_void_p),
    )  # fmt: skip


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_void_p), ("n_tasks", ctypes.c_uint32), ("scratch_bytes", ctypes.c_uint32),
        ("flags", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
    )  # fmt: skip


class _Library(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32), ("abi", ctypes.c_uint32), ("n_kernels", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32), ("kernels", ctypes.POINTER(_Kernel)), ("features", ctypes.c_char_p),
    )  # fmt: skip


def _memory(size: int) -> np.ndarray:
    """Bytes at a 64-byte boundary."""
    block = np.zeros(size + 64, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + size]


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
        entry.restype = ctypes.POINTER(_Library)
        self.table = entry().contents

    def run(self, job: Job) -> list[np.ndarray]:
        signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Call), ctypes.c_uint32, ctypes.c_uint32)
        function = signature(self.table.kernels[job.kernel].function)
        buffers = [_memory(a.nbytes) for a in job.inputs]
        for buffer, array in zip(buffers, job.inputs, strict=True):
            buffer[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        outputs = [_memory(size + 64) for size in job.output_bytes]
        for output in outputs:
            output[:] = 0xA5
        params = _memory(0 if job.params is None else job.params.nbytes)
        if job.params is not None:
            params[:] = job.params.view(np.uint8).reshape(-1)
        scratch = _memory(job.scratch_bytes)
        ins = (ctypes.c_void_p * max(1, len(buffers)))(*(b.ctypes.data for b in buffers))
        outs = (ctypes.c_void_p * len(outputs))(*(o.ctypes.data for o in outputs))
        call = _Call(
            ctypes.sizeof(_Call),
            1,
            ctypes.addressof(ins),
            ctypes.addressof(outs),
            params.ctypes.data,
            scratch.ctypes.data,
        )
        assert function(ctypes.byref(call), *job.tasks) == 0
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
    """Kernels linked into a static program that an emulator runs. Calls take no parameters and no scratch."""

    def __init__(self, data: bytes, directory: Path, triple: str, emulator: str):
        self.directory, self.command = directory, [emulator, "host", "in", "out"]
        (directory / "host.c").write_text(_HOST_C)
        (directory / "kernels.o").write_bytes(data)
        include = ROOT / "runtime_c" / "include"
        build = zig("cc", "-target", triple, "-O1", f"-I{include}", "-static", "host.c", "kernels.o", "-o", "host")
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


def _native_targets() -> list[str]:
    levels = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
    name = host().llvm_cpu
    return levels[: levels.index(name) + 1] if name in levels else ["host"]


# ---------------------------------------------------------------- small programs
def _buffer(name: str, dtype: str, elements: int, scope: str, slot: int = 0) -> P.Buffer:
    return P.Buffer(name, dtype, (as_int(elements),), (as_int(1),), elements, scope, 0, slot)  # type: ignore[arg-type]


def _elementwise(
    name: str, inputs: Sequence[str], out: str, n: int, lanes: int, value: Callable[..., E.Expr]
) -> P.Function:
    """out[i] = value(in0[i], in1[i] ...), `lanes` at a time."""
    sources = [_buffer(f"in{m}", dtype, n, "input", m) for m, dtype in enumerate(inputs)]
    sink = _buffer("out", out, n, "output")
    i = Symbol("i", 0, n // lanes - 1)
    at = of(i) * lanes
    loads = [E.Load(b.dtype, tensor=b, indices=(at,), lanes=lanes) for b in sources]
    body = P.For(i, as_int(n // lanes), "serial", P.Store(sink, at, value(*loads)))
    return P.Function(name, tuple(sources), (), (sink,), ONE, 0, body)


_FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, -3.7, 0.49999997, 127.5, 128.0, -128.5, 255.7, 256.0, -129.0,
    32768.0, -32769.0, 65519.0, 65520.0, 8388607.5, 8388609.0, 16777216.0, 2147483648.0, -2147483648.0, 2147483520.0,
    4294967296.0, 9.2233720368547758e18, -9.2233720368547758e18, 1.8446744073709552e19, 1e30, -1e30, 1e-40, -1e-40,
    6e-8, 5.96e-8, 1e-7, 6.1e-5, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip


def _samples(dtype: str, n: int, seed: int) -> np.ndarray:
    """Awkward and random values."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, n).astype(bool)
    if dtypes.is_float(dtype):
        values = np.concatenate([np.array(_FLOATS), random.normal(0, 3, n), random.normal(0, 1e6, n)])
        with np.errstate(all="ignore"):
            return random.permutation(values)[:n].astype(dtypes.to_numpy(dtype))
    least, greatest = dtypes.limits(dtype)
    edges = [0, 1, 2, 3, 7, least, greatest, greatest - 1, *([-1, -2, -7] if least else [])]
    values = np.array(edges * 3, dtype=dtype)
    drawn = random.integers(least, greatest, n, dtype=dtype, endpoint=True)
    small = random.integers(max(least, -9), 9, n).astype(dtype)
    return random.permutation(np.concatenate([values, drawn, small]))[:n]


N = 48  # elements of each case: a multiple of every number of lanes
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
WIDE = ("float32", "float64")


@dataclass
class Case:
    name: str
    inputs: tuple[str, ...]
    out: str
    value: Callable[..., E.Expr]
    close: bool = False


def _cases() -> list[Case]:
    cases = []

    def add(op: str, inputs: Sequence[str], value: Callable[..., E.Expr], out: str, close: bool = False) -> None:
        cases.append(Case("_".join([op, *inputs, out]), tuple(inputs), out, value, close))

    for dtype in (*WIDE, "float16", "bfloat16"):
        for op in ("neg", "abs", "sign", "floor", "ceil", "rint", "trunc", "sqrt"):
            add(op, [dtype], lambda a, op=op: E.unary(op, a), dtype)
        for op in ("isnan", "isinf"):
            add(op, [dtype], lambda a, op=op: E.unary(op, a), "bool")
        for op in ("add", "sub", "mul", "div", "minimum", "maximum"):
            add(op, [dtype] * 2, lambda a, b, op=op: E.binary(op, a, b), dtype)
        add("relu", [dtype], lambda a: E.maximum(a, _like(0, a)), dtype)
        add("cap", [dtype], lambda a: E.minimum(_like(6, a), a), dtype)
    for dtype in INTEGERS:
        for op in ("abs", "sign", "invert", *(("neg",) if dtypes.is_signed(dtype) else ())):
            add(op, [dtype], lambda a, op=op: E.unary(op, a), dtype)
        binary = (
            "add",
            "sub",
            "mul",
            "div",
            "floor_div",
            "mod",
            "minimum",
            "maximum",
            "and",
            "or",
            "xor",
            "shift_left",
            "shift_right",
        )
        for op in binary:
            add(op, [dtype] * 2, lambda a, b, op=op: E.binary(op, a, b), dtype)
        for divisor in (3, 8, *((-5,) if dtypes.is_signed(dtype) else ())):
            for op in ("div", "floor_div", "mod"):
                name = f"{op}_by_{str(divisor).replace('-', 'minus')}"
                add(name, [dtype], lambda a, op=op, d=divisor: E.binary(op, a, _like(d, a)), dtype)
    for op in ("and", "or", "xor"):
        add(op, ["bool"] * 2, lambda a, b, op=op: E.binary(op, a, b), "bool")
    add("logical_not", ["bool"], lambda a: E.unary("logical_not", a), "bool")
    for dtype in (*WIDE, "float16", "bfloat16", "int8", "uint8", "int32", "uint64", "bool"):
        for op in E.COMPARE:
            if dtype != "bool" or op in ("eq", "ne"):
                add(op, [dtype] * 2, lambda a, b, op=op: E.compare(op, a, b), "bool")
        add("select", ["bool", dtype, dtype], E.select, dtype)
    for source in dtypes.ALL:
        for dtype in dtypes.ALL:
            if source != dtype:
                add("cast", [source], lambda a, d=dtype: E.cast(a, d), dtype)
    for source, dtype in (("float32", "int32"), ("uint32", "float32"), ("float64", "int64"), ("float16", "int16")):
        add("bitcast", [source], lambda a, d=dtype: E.bitcast(a, d), dtype)
    for dtype in WIDE:
        add("fma", [dtype] * 3, E.fma, dtype, close=True)
    return cases


def _like(value: float, other: E.Expr) -> E.Expr:
    constant = E.const(value, other.dtype)
    return E.Const(other.dtype, value=constant.value, lanes=other.lanes)


def _expected(case: Case, arrays: Sequence[np.ndarray]) -> np.ndarray:
    tensors = [placeholder(f"in{n}", (N,), dtype) for n, dtype in enumerate(case.inputs)]
    stage = compute("out", (N,), lambda i: case.value(*(t[i] for t in tensors)))
    kernel = Kernel("k", inputs=tuple(tensors), params=(), outputs=(stage,))
    return run_kernel(kernel, {f"in{n}": a for n, a in enumerate(arrays)})["out"]


CASES = _cases()
LANES = (1, 4, 16)


def _functions(cases: Sequence[Case], lanes: Sequence[int]) -> list[P.Function]:
    return [_elementwise(f"{c.name}_{width}", c.inputs, c.out, N, width, c.value) for c in cases for width in lanes]


def _check_cases(
    runner: Native | Emulated, cases: Sequence[Case], lanes: Sequence[int], double_rounding: bool = True
) -> None:
    jobs, wanted = [], []
    for n, case in enumerate(cases):
        arrays = [_samples(dtype, N, 7 * m + 1) for m, dtype in enumerate(case.inputs)]
        expected = _expected(case, arrays)
        for m, _ in enumerate(lanes):
            jobs.append(Job(n * len(lanes) + m, arrays, (expected.nbytes,)))
            wanted.append((case, expected, arrays))
    for (case, expected, arrays), (raw,) in zip(wanted, runner.run_all(jobs), strict=True):
        got = raw.copy().view(expected.dtype)
        if case.close:
            scale = np.abs(arrays[0] * arrays[1]) + np.abs(arrays[2])
            error = np.abs(got - expected)
            fine = (
                (got == expected)
                | (np.isnan(got) & np.isnan(expected))
                | (error <= 2 * np.finfo(got.dtype).eps * scale)
            )
            assert fine.all(), case.name
        else:
            wide = [a.astype(np.float64) if a.dtype == dtypes.to_numpy("bfloat16") else a for a in (got, expected)]
            np.testing.assert_array_equal(*wide, err_msg=case.name)


@pytest.fixture(scope="module")
def scratch_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("llvm")


@pytest.mark.parametrize("name", _native_targets())
def test_every_operation_native(name: str, scratch_directory: Path) -> None:
    target = load_target(name)
    lanes = LANES if name == _native_targets()[-1] else (4,)
    data = compile_module(_functions(CASES, lanes), target, "m")
    with np.errstate(all="ignore"):
        _check_cases(Native(link_library([data], target, "m"), scratch_directory), CASES, lanes)


@pytest.mark.parametrize(
    ("name", "triple", "emulator", "lanes"),
    [("arm64", "aarch64-linux-musl", "qemu-aarch64", (1, 4)), ("cortex-m4", "arm-linux-musleabihf", "qemu-arm", (1,))],
)
def test_every_operation_emulated(
    name: str, triple: str, emulator: str, lanes: tuple[int, ...], tmp_path: Path
) -> None:
    """Cortex-M code runs in a program for a larger ARM, which has all of its instructions."""
    if shutil.which(emulator) is None:
        pytest.skip(f"{emulator} is not installed")
    data = compile_module(_functions(CASES, lanes), load_target(name), "m")
    with np.errstate(all="ignore"):
        _check_cases(Emulated(data, tmp_path, triple, emulator), CASES, lanes)


@pytest.mark.parametrize("name", ["browser", "browser-relaxed"])
def test_every_operation_webassembly(name: str, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    target = load_target(name)
    data = compile_module(_functions(CASES, (1, 4)), target, "m")
    with np.errstate(all="ignore"):
        _check_cases(Node(link_library([data], target, "m"), tmp_path), CASES, (1, 4))


# ---------------------------------------------------------------- memory
@st.composite
def _copies(draw: st.DrawFn) -> tuple[str, int, int | None, int, int, int, int]:
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "int8", "uint8", "int16", "int64", "bool"]))
    lanes = draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
    active = draw(st.none() | st.integers(1, lanes)) if lanes > 1 else None
    strides = draw(st.sampled_from([1, 1, 1, 2, 3])), draw(st.sampled_from([1, 1, 1, 2, 5]))
    return dtype, lanes, active, *strides, draw(st.integers(0, 3)), draw(st.integers(0, 3))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(copy=_copies(), target=st.sampled_from(_native_targets()), full_store=st.booleans())
def test_partial_and_strided_accesses(
    copy: tuple[str, int, int | None, int, int, int, int], target: str, full_store: bool, scratch_directory: Path
) -> None:
    """Lanes that are not active are read as zero and not written; nothing beyond the last active one is touched."""
    dtype, lanes, active, step_in, step_out, first_in, first_out = copy
    count = lanes if active is None else active
    written = lanes if full_store else count
    source = _buffer("source", dtype, first_in + (count - 1) * step_in + 1, "input")
    sink = _buffer("sink", dtype, first_out + (written - 1) * step_out + 1, "output")
    load = E.Load(dtype, tensor=source, indices=(as_int(first_in),), lanes=lanes, stride=step_in, active=active)
    store = P.Store(sink, as_int(first_out), load, step_out, None if full_store else active)
    program = P.Function("copy", (source,), (), (sink,), ONE, 0, store)
    array = _samples(dtype, 256, lanes)[: source.elements]
    library = _library([program], load_target(target), scratch_directory)
    (raw,) = library.run(Job(0, [array], (sink.elements * dtypes.size(dtype),)))
    expected = np.full(sink.elements * dtypes.size(dtype), 0xA5, np.uint8).view(
        dtypes.to_numpy(dtype).newbyteorder("=")
    )
    expected = expected.view(f"u{dtypes.size(dtype)}")
    bits = array.view(f"u{dtypes.size(dtype)}")
    for n in range(written):
        expected[first_out + n * step_out] = bits[first_in + n * step_in] if n < count else 0
    np.testing.assert_array_equal(raw.view(expected.dtype), expected)


def _library(functions: Sequence[P.Function], target: Target, directory: Path) -> Native:
    data = emit_object(module_text(functions, target, "m"), target)
    return Native(link_library([data], target, "m"), directory)


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_index_values_blends_lanes_and_constants(lanes: int, scratch_directory: Path) -> None:
    i = Symbol("i", 0, 3)
    sink = _buffer("sink", "int32", 8 * lanes * 4, "output")
    index = E.IndexValue("int32", index=of(i) * 10 - 7, lanes=lanes, stride=3 if lanes > 1 else 0)
    seven = E.Const("int32", value=7, lanes=lanes)
    stores = [P.Store(sink, of(i) * (8 * lanes), index), P.Store(sink, of(i) * (8 * lanes) + lanes, seven)]
    if lanes > 1:
        last = P.Lane("int32", a=index, lane=lanes - 1)
        stores += [
            P.Store(sink, of(i) * (8 * lanes) + 2 * lanes, P.Blend("int32", a=index, b=seven, active=3, lanes=lanes)),
            P.Store(sink, of(i) * (8 * lanes) + 3 * lanes, P.Broadcast("int32", a=last, lanes=lanes)),
        ]
    program = P.Function("k", (), (), (sink,), ONE, 0, P.For(i, as_int(4), "serial", P.Seq(tuple(stores))))
    (raw,) = _library([program], host(), scratch_directory).run(Job(0, [], (sink.elements * 4,)))
    got = raw.view(np.int32).reshape(4, 8, lanes)
    for row in range(4):
        values = row * 10 - 7 + 3 * np.arange(lanes)
        np.testing.assert_array_equal(got[row, 0], values)
        np.testing.assert_array_equal(got[row, 1], 7)
        if lanes > 1:
            np.testing.assert_array_equal(got[row, 2], np.where(np.arange(lanes) < 3, values, 7))
            np.testing.assert_array_equal(got[row, 3], values[-1])


# ---------------------------------------------------------------- positions and control flow
@pytest.mark.parametrize("name", ["host", "cortex-m4"])
def test_positions(name: str, scratch_directory: Path) -> None:
    """Floor divisions and remainders of negative values, extrema, products of symbols, positions that are loaded."""
    i, j = Symbol("i", 0, 6), Symbol("j", 0, 4)
    table = _buffer("table", "int64", 7, "input")
    gather = position(E.Load("int64", tensor=table, indices=(of(i),)), 5, from_end=True)
    shifted = of(i) * 5 - of(j) * 3 - 9
    positions: list[Int] = [
        shifted // 4, shifted % 4, (of(i) * 3 + of(j)) // 2, (of(i) * 3 + of(j)) % 5, minimum(of(i) * 2, of(j) * 3 + 1),
        of(i) * of(j) + 2, gather * 2 + of(j),
    ]  # fmt: skip
    count = len(positions)
    sink = _buffer("sink", "int64", 7 * 5 * count, "output")
    stores = [
        P.Store(sink, of(i) * (5 * count) + of(j) * count + n, E.IndexValue("int64", index=p))
        for n, p in enumerate(positions)
    ]
    body = P.For(i, as_int(7), "serial", P.For(j, as_int(5), "serial", P.Seq(tuple(stores))))
    program = P.Function("k", (table,), (), (sink,), ONE, 0, body)
    indices = np.array([0, 4, -1, -5, 99, -99, 2], np.int64)
    if name == "host":
        runner: Native | Emulated = _library([program], host(), scratch_directory)
    else:
        if shutil.which("qemu-arm") is None:
            pytest.skip("qemu-arm is not installed")
        data = compile_module([program], load_target(name), "m")
        directory = scratch_directory / name
        directory.mkdir()
        runner = Emulated(data, directory, "arm-linux-musleabihf", "qemu-arm")
    ((raw,),) = runner.run_all([Job(0, [indices], (sink.elements * 8,))])
    got = raw.copy().view(np.int64).reshape(7, 5, count)
    for a in range(7):
        for b in range(5):
            s, g = a * 5 - b * 3 - 9, int(indices[a])
            at = min(max(g + 5 if g < 0 else g, 0), 4)
            wanted = [s // 4, s % 4, (a * 3 + b) // 2, (a * 3 + b) % 5, min(a * 2, b * 3 + 1), a * b + 2, at * 2 + b]
            assert got[a, b].tolist() == wanted


def test_statements(scratch_directory: Path) -> None:
    """Variables, branches, named positions, stack and scratch storage, empty loops, parts of the tasks."""
    source, sink = _buffer("source", "float32", 64, "input"), _buffer("sink", "float32", 8, "output")
    stack, scratch = _buffer("stack", "float32", 8, "stack"), _buffer("spare", "float32", 8, "scratch", 128)
    t, k, z, row = Symbol("t", 0, 7), Symbol("k", 0, 7), Symbol("z", 0, 7), Symbol("row", 0, 56)
    total_, read = P.Variable("total", "float32", 1), P.Variable("read", "float32", 1)

    def value(v: P.Variable) -> E.Expr:
        return P.Read(v.dtype, variable=v, lanes=v.lanes)

    def load(buffer: P.Buffer, index: Int) -> E.Expr:
        return E.Load(buffer.dtype, tensor=buffer, indices=(index,))

    body = P.Seq(
        (
            P.LetIndex(row, of(t) * 8),
            P.Alloc(stack),
            P.Alloc(scratch),
            P.Declare(total_),
            P.Assign(total_, E.const(0.0, "float32")),
            P.For(
                k,
                as_int(8),
                "serial",
                P.Seq(
                    (
                        P.Let(read, load(source, of(row) + of(k))),
                        P.Store(stack, of(k), value(read)),
                        P.Store(scratch, as_int(7) - of(k), value(read) * 2.0),
                        P.If(of(k), as_int(4), P.Assign(total_, value(total_) + value(read))),
                    )
                ),
            ),
            P.For(z, of(t) // 8, "serial", P.Assign(total_, E.const(-1.0, "float32"))),
            P.If(
                of(t),
                as_int(3),
                P.Store(sink, of(t), value(total_) + load(stack, of(t))),
                P.Store(sink, of(t), value(total_) + load(scratch, of(t))),
            ),
        )
    )
    program = P.Function("k", (source,), (), (sink,), as_int(8), 256, P.For(t, as_int(8), "parallel", body))
    library = _library([program], host(), scratch_directory)
    assert (library.table.n_kernels, library.table.abi, library.table.size) == (1, 1, ctypes.sizeof(_Library))
    assert (library.table.kernels[0].n_tasks, library.table.kernels[0].scratch_bytes) == (8, 256)
    assert library.table.features.decode() == " ".join(host().cpu_features)
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    for first, last in ((0, 8), (2, 5), (4, 4)):
        (raw,) = library.run(Job(0, [x], (32,), scratch_bytes=256, tasks=(first, last)))
        got = raw.view(np.float32)
        for n in range(8):
            wanted = x[n, :4].sum() + (x[n, n] if n < 3 else 2 * x[n, 7 - n])
            assert (got[n] == wanted) == (first <= n < last)


def test_outputs_may_lie_over_inputs(scratch_directory: Path) -> None:
    """The plan places results over operands: accesses to inputs and outputs keep their order."""
    source, sink = (replace(_buffer(n, "float32", 64, n), may_alias=True) for n in ("input", "output"))
    i = Symbol("i", 0, 15)
    value = E.Load("float32", tensor=source, indices=(of(i) * 4,), lanes=4)
    body = P.For(i, as_int(16), "serial", P.Store(sink, of(i) * 4, value + value))
    program = P.Function("k", (source,), (), (sink,), ONE, 0, body)
    library = _library([program], host(), scratch_directory)
    memory = _memory(256).view(np.float32)
    memory[:] = np.arange(64)
    pointers = (ctypes.c_void_p * 1)(memory.ctypes.data)
    call = _Call(ctypes.sizeof(_Call), 1, ctypes.addressof(pointers), ctypes.addressof(pointers))
    signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Call), ctypes.c_uint32, ctypes.c_uint32)
    assert signature(library.table.kernels[0].function)(ctypes.byref(call), 0, 1) == 0
    np.testing.assert_array_equal(memory, np.arange(64) * 2)


def test_loops_left_by_passes_are_refused() -> None:
    sink, i = _buffer("sink", "float32", 4, "output"), Symbol("i", 0, 3)
    store = P.Store(sink, of(i), E.const(0.0, "float32"))
    program = P.Function("k", (), (), (sink,), ONE, 0, P.For(i, as_int(4), "unrolled", store))
    with pytest.raises(SternaError, match="E0901"):
        module_text([program], host(), "m")


# ---------------------------------------------------------------- whole schedules
def _dense(m: int, n: int, k: int, rows: int, vectors: int, lanes: int) -> tuple[Kernel, P.Function]:
    x, w, b = placeholder("x", (m, k)), placeholder("w", (k, n)), placeholder("b", (n,))
    axis = reduce_axis("k", k)
    acc = compute("acc", (m, n), lambda i, j: total(x[i, axis] * w[axis, j], axis))
    out = compute("out", (m, n), lambda i, j: E.maximum(acc[i, j] + b[j], 0))
    kernel = Kernel("dense", inputs=(x,), params=(w, b), outputs=(out,))
    s = Schedule(kernel)
    s.pack("w", {1: vectors * lanes}, [(1, "o"), (0, ""), (1, "i")])
    panel, column = s.split("out", "j", vectors * lanes)
    vector, lane = s.split("out", column, lanes)
    tile, row = s.split("out", "i", rows)
    s.reorder("out", panel, tile, row, vector, lane)
    task = s.fuse("out", panel, tile)
    s.parallel("out", task)
    s.unroll("out", row)
    s.unroll("out", vector)
    s.vectorize("out", lane)
    s.compute_at("acc", "out", task, "register")
    vector, lane = s.split("acc", "j", lanes)
    s.reorder("acc", "k", "i", vector, lane)
    s.unroll("acc", "i")
    s.unroll("acc", vector)
    s.vectorize("acc", lane)
    return kernel, finish(lower(s))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    m=st.integers(1, 31), n=st.integers(1, 70), k=st.integers(1, 9), rows=st.integers(1, 6), vectors=st.integers(1, 3),
    target=st.sampled_from(_native_targets()), seed=st.integers(0, 99),
)  # fmt: skip
def test_dense_with_tails(
    m: int, n: int, k: int, rows: int, vectors: int, target: str, seed: int, scratch_directory: Path
) -> None:
    machine = load_target(target)
    lanes = machine.lanes(32)
    assume(rows <= m and vectors * lanes <= max(n, lanes))
    try:
        kernel, function = _dense(m, n, k, rows, vectors, lanes)
    except SternaError as refused:
        assume("E030" not in str(refused))
        raise
    random = np.random.default_rng(seed)
    arrays = {
        t.name: random.standard_normal(tuple(map(int, t.shape))).astype(np.float32)
        for t in (*kernel.inputs, *kernel.params)
    }
    panels, width = -(-n // (vectors * lanes)), vectors * lanes
    padded = np.zeros((k, panels * width), np.float32)
    padded[:, :n] = arrays["w"]
    weights, bias = function.params
    params = np.zeros(bias.slot + 4 * n, np.uint8)
    packed = np.ascontiguousarray(padded.reshape(k, panels, width).transpose(1, 0, 2))
    params[weights.slot : weights.slot + packed.nbytes] = packed.reshape(-1).view(np.uint8)
    params[bias.slot :] = arrays["b"].view(np.uint8)
    library = _library([function], machine, scratch_directory)
    (raw,) = library.run(Job(0, [arrays["x"]], (4 * m * n,), params, tasks=(0, int(function.n_tasks))))
    expected = run_kernel(kernel, arrays)["out"]
    np.testing.assert_allclose(raw.view(np.float32).reshape(m, n), expected, rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- objects
@pytest.mark.parametrize(
    "name", ["arm64", "raspberrypi4", "browser", "x86-64-v2", "x86-64-v3", "x86-64-v4", "cortex-m4"]
)
def test_objects_need_nothing(name: str) -> None:
    target = load_target(name)
    single = target.static  # a processor whose FPU has no double precision, and no 64-bit division
    cases = [c for c in CASES if not (single and ("64" in c.name))]
    data = compile_module(_functions(cases, (4,)), target, "m")
    check_objects([data], target)
    if single:
        assert read_elf(data).undefined == ()
    library = link_library([data], target, "m")
    assert len(library) > 1000
    assert compile_module(_functions(cases, (4,)), target, "m") == data


def test_the_same_programs_give_the_same_bytes() -> None:
    texts = [module_text(_functions(CASES[:40], (4,)), host(), "m") for _ in range(2)]
    assert texts[0] == texts[1]
    assert emit_object(texts[0], host()) == emit_object(texts[1], host())
