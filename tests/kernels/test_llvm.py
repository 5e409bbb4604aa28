"""The LLVM generator: every way to reach memory, positions, control flow and whole schedules."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sterna.codegen.llvm import compile_module, module_text
from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.extremum import minimum
from sterna.ir.integer import ONE, Int, Symbol, as_int, of
from sterna.ir.memory import INPUT, OUTPUT, SCRATCH, STACK
from sterna.loops import program as P
from sterna.loops.build import ProgramBuilder
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.schedule.schedule import Schedule
from sterna.targets.description import host, load_target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.position import position
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support.kernel_hosts import Emulated, Job, LibraryTable, Native, aligned_bytes, load_library, native_targets
from support.loop_programs import buffer, samples


@pytest.fixture(scope="module")
def scratch_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("llvm")


# ---------------------------------------------------------------- memory
@st.composite
def _copies(draw: st.DrawFn) -> tuple[str, int, int | None, int, int, int, int]:
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "int8", "uint8", "int16", "int64", "bool"]))
    lanes = draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
    active = draw(st.none() | st.integers(1, lanes)) if lanes > 1 else None
    strides = draw(st.sampled_from([1, 1, 1, 2, 3])), draw(st.sampled_from([1, 1, 1, 2, 5]))
    return dtype, lanes, active, *strides, draw(st.integers(0, 3)), draw(st.integers(0, 3))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(copy=_copies(), target=st.sampled_from(native_targets()), full_store=st.booleans())
def test_partial_and_strided_accesses(
    copy: tuple[str, int, int | None, int, int, int, int], target: str, full_store: bool, scratch_directory: Path
) -> None:
    """Lanes that are not active are read as zero and not written; nothing beyond the last active one is touched."""
    dtype, lanes, active, step_in, step_out, first_in, first_out = copy
    count = lanes if active is None else active
    written = lanes if full_store else count
    source = buffer("source", dtype, first_in + (count - 1) * step_in + 1, INPUT)
    sink = buffer("sink", dtype, first_out + (written - 1) * step_out + 1, OUTPUT)
    load = E.Load(dtype, tensor=source, indices=(as_int(first_in),), lanes=lanes, stride=step_in, active=active)
    store = P.Store(sink, as_int(first_out), load, step_out, None if full_store else active)
    program = P.Function("copy", (source,), (), (sink,), ONE, 0, store)
    array = samples(dtype, 256, lanes)[: source.elements]
    library = load_library([program], load_target(target), scratch_directory)
    (raw,) = library.run(Job(0, [array], (sink.elements * dtypes.size(dtype),)))
    expected = np.full(sink.elements * dtypes.size(dtype), 0xA5, np.uint8).view(
        dtypes.to_numpy(dtype).newbyteorder("=")
    )
    expected = expected.view(f"u{dtypes.size(dtype)}")
    bits = array.view(f"u{dtypes.size(dtype)}")
    for n in range(written):
        expected[first_out + n * step_out] = bits[first_in + n * step_in] if n < count else 0
    np.testing.assert_array_equal(raw.view(expected.dtype), expected)


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_index_values_blends_lanes_and_constants(lanes: int, scratch_directory: Path) -> None:
    i = Symbol("i", 0, 3)
    sink = buffer("sink", "int32", 8 * lanes * 4, OUTPUT)
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
    (raw,) = load_library([program], host(), scratch_directory).run(Job(0, [], (sink.elements * 4,)))
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
    table = buffer("table", "int64", 7, INPUT)
    gather = position(E.Load("int64", tensor=table, indices=(of(i),)), 5, from_end=True)
    shifted = of(i) * 5 - of(j) * 3 - 9
    positions: list[Int] = [
        shifted // 4, shifted % 4, (of(i) * 3 + of(j)) // 2, (of(i) * 3 + of(j)) % 5, minimum(of(i) * 2, of(j) * 3 + 1),
        of(i) * of(j) + 2, gather * 2 + of(j),
    ]  # fmt: skip
    count = len(positions)
    sink = buffer("sink", "int64", 7 * 5 * count, OUTPUT)
    stores = [
        P.Store(sink, of(i) * (5 * count) + of(j) * count + n, E.IndexValue("int64", index=p))
        for n, p in enumerate(positions)
    ]
    body = P.For(i, as_int(7), "serial", P.For(j, as_int(5), "serial", P.Seq(tuple(stores))))
    program = P.Function("k", (table,), (), (sink,), ONE, 0, body)
    indices = np.array([0, 4, -1, -5, 99, -99, 2], np.int64)
    if name == "host":
        runner: Native | Emulated = load_library([program], host(), scratch_directory)
    else:
        if shutil.which("qemu-arm") is None:
            pytest.skip("qemu-arm is not installed")
        data = compile_module([program], load_target(name), "m")
        directory = scratch_directory / name
        directory.mkdir()
        runner = Emulated(data, directory, "armv7", "qemu-arm")
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
    source, sink = buffer("source", "float32", 64, INPUT), buffer("sink", "float32", 8, OUTPUT)
    stack, scratch = buffer("stack", "float32", 8, STACK), buffer("spare", "float32", 8, SCRATCH, 128)
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
    library = load_library([program], host(), scratch_directory)
    assert (library.table.n_kernels, library.table.abi, library.table.size) == (1, 1, ctypes.sizeof(LibraryTable))
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
    source, sink = (replace(buffer(s.name, "float32", 64, s), may_alias=True) for s in (INPUT, OUTPUT))
    i = Symbol("i", 0, 15)
    value = E.Load("float32", tensor=source, indices=(of(i) * 4,), lanes=4)
    body = P.For(i, as_int(16), "serial", P.Store(sink, of(i) * 4, value + value))
    program = P.Function("k", (source,), (), (sink,), ONE, 0, body)
    library = load_library([program], host(), scratch_directory)
    memory = aligned_bytes(256).view(np.float32)
    memory[:] = np.arange(64)
    library.call(0, [memory], [memory])
    np.testing.assert_array_equal(memory, np.arange(64) * 2)


def test_loops_left_by_passes_are_refused() -> None:
    sink, i = buffer("sink", "float32", 4, OUTPUT), Symbol("i", 0, 3)
    store = P.Store(sink, of(i), E.const(0.0, "float32"))
    program = P.Function("k", (), (), (sink,), ONE, 0, P.For(i, as_int(4), "unrolled", store))
    with pytest.raises(SternaError, match="E0901"):
        module_text([program], host(), "m", None)


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
    target=st.sampled_from(native_targets()), seed=st.integers(0, 99),
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
    library = load_library([function], machine, scratch_directory)
    (raw,) = library.run(Job(0, [arrays["x"]], (4 * m * n,), params, tasks=(0, int(function.n_tasks))))
    expected = run_kernel(kernel, arrays)["out"]
    np.testing.assert_allclose(raw.view(np.float32).reshape(m, n), expected, rtol=1e-5, atol=1e-5)


def test_loops_whose_iterations_are_apart_are_vectors() -> None:
    """Rows that begin anywhere, in code whose vectors are otherwise written by hand."""

    def program(apart: bool) -> str:
        x, y = (P.dense_buffer(name, "float32", (as_int(40),), scope) for name, scope in (("x", INPUT), ("y", OUTPUT)))
        p = ProgramBuilder("k", (x,), (y,))
        p.copy(p.output, p.input(0))
        with p.loop(39, "row") as row, p.loop(40, "n", start=row + 1, apart=apart) as n:
            p.output[n] = p.output[n] * 0.5 + 1.0
        function = finish(p.function())
        assert ("(apart)" in print_function(function)) == apart
        return module_text([function], host(), "m", None)

    assert "llvm.loop.vectorize.enable" in program(True)
    assert "llvm.loop.vectorize.enable" not in program(False)
