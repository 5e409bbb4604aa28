"""Threads that read and store several neighbours at once: the loop program says it with vectors. In the interpreter in
random orders and against NumPy, and in every language of devices; where neighbours do not lie at multiples of their
bytes nothing is wide."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.integer import as_int
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.threads import run_threads
from sterna.loops.wide import Widths
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.targets.target import Threads
from sterna.te import expr as E
from sterna.te.layout import Layout
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support import cuda_host, opencl_host
from support.every_operator import agree, every_operator, without_float64
from support.small_kernels import arrays, matmul, row_sums
from support.thread_programs import WIDE, with_wide

PARTS = 16
SIXTEEN = Widths(16)


def context(threads: Threads = WIDE, **given: object) -> Context:
    target = replace(opencl_host.opencl_target(groups=True), threads=threads)
    return Context(target, **given)  # type: ignore[arg-type]


def vectors(program: P.Function) -> list[int]:
    """Bytes of each access to the device's memory that takes several elements."""
    found = []
    for s in P.walk(program.body):
        for access in (*P.own_loads(s), *([s] if isinstance(s, P.Store) else [])):
            buffer = access.tensor if isinstance(access, E.Load) else access.buffer
            assert isinstance(buffer, P.Buffer)
            if (many := SIXTEEN.at_once(access)) > 1:
                found.append(many * dtypes.size(buffer.dtype))
    return found


def scaled(rows: int, columns: int, dtype: str = "float32") -> Kernel:
    """y[i, j] = x[i, j] * b[j] + j."""
    x, b = placeholder("x", (rows, columns), dtype), placeholder("b", (columns,), dtype)
    y = compute("y", (rows, columns), lambda i, j: x[i, j] * b[j] + E.IndexValue(dtype, index=j))
    return Kernel("scaled", (x, b), (), (y,))


def depthwise(size: int, channels: int) -> Kernel:
    """Three taps for each channel."""
    x, w = placeholder("x", (size + 2, channels)), placeholder("w", (3, channels))
    k = reduce_axis("k", 3)
    y = compute("y", (size, channels), lambda i, c: total(x[i + k.var, c] * w[k.var, c], k))
    return Kernel("depthwise", (x, w), (), (y,))


def computed(program: P.Function, given: dict[str, np.ndarray], out: str, shape: tuple[int, ...]) -> np.ndarray:
    """What the threads of every task compute, in a random order."""
    memory = {name: a.reshape(-1).copy() for name, a in given.items()}
    memory[out] = np.zeros(int(np.prod(shape)), next(b.dtype for b in program.outputs))
    run_threads(program, memory, order=np.random.default_rng(3))
    return memory[out].reshape(shape)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 9), st.integers(1, 40), st.sampled_from(["float32", "float16", "int8", "float64"]))
def test_elements(rows: int, columns: int, dtype: str) -> None:
    """Neighbours along the last axis together, where its extent is a multiple of their number."""
    program = finish(lower(propose(scaled(rows, columns, dtype), context())))
    random = np.random.default_rng(1)
    x, b = (random.integers(-5, 6, shape).astype(dtype) for shape in ((rows, columns), (columns,)))
    np.testing.assert_array_equal(
        computed(program, {"x": x, "b": b}, "y", (rows, columns)), x * b + np.arange(columns, dtype=dtype)
    )
    found, size = vectors(program), dtypes.size(dtype)
    most = max((n for n in (8, 4, 2) if columns % n == 0 and n * size <= 16 and rows * columns >= 2 * n), default=1)
    assert max(found, default=size) == most * size


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 12), st.integers(1, 40))
def test_sums_of_neighbours(size: int, channels: int) -> None:
    kernel = depthwise(size, channels)
    program = finish(lower(propose(kernel, context())))
    given = arrays(kernel)
    wanted = sum(given["x"][k : k + size] * given["w"][k] for k in range(3))
    np.testing.assert_allclose(computed(program, given, "y", (size, channels)), wanted, 1e-5, 1e-6)
    assert (16 in vectors(program)) == (channels % 4 == 0 and size * channels >= 8)


def loaded(program: P.Function, least: int = 2) -> set[str]:
    """What is read so many neighbours at once at least."""
    wide = (load for load in P.loads(program.body) if SIXTEEN.at_once(load) >= least)
    return {load.tensor.name for load in wide}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("depth", "columns"), [(16, 64), (20, 64), (16, 18), (7, 68), (16, 63)])
def test_operands_of_products(depth: int, columns: int) -> None:
    """Threads bring operands to shared memory some neighbours at a time, also where tiles reach beyond the tensor, as
    long as it has whole runs of them."""
    kernel = matmul(32, columns, depth)
    program = finish(lower(propose(kernel, context(Threads(access_bytes=16)))))
    given = arrays(kernel)
    wanted = np.maximum(given["x"] @ given["w"] + given["b"], 0)
    np.testing.assert_allclose(computed(program, given, "out", (32, columns)), wanted, 1e-4, 1e-4)
    assert ("w" in loaded(program, 4)) == (columns % 4 == 0)
    assert ("w" in loaded(program)) == (columns % 2 == 0)
    assert ("x" in loaded(program)) == (depth % 2 == 0)


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(st.integers(8, 40), st.integers(2, 40), st.integers(1, 20))
def test_results_of_products(rows: int, columns: int, depth: int) -> None:
    """A thread has neighbouring columns where they are one access to all that it reads with them and stores."""
    kernel = matmul(rows, columns, depth)
    program = finish(lower(propose(kernel, context(Threads(access_bytes=16)))))
    given = arrays(kernel)
    wanted = np.maximum(given["x"] @ given["w"] + given["b"], 0)
    np.testing.assert_allclose(computed(program, given, "out", (rows, columns)), wanted, 1e-4, 1e-4)
    stored = {SIXTEEN.at_once(s) for s in P.walk(program.body) if isinstance(s, P.Store) and s.buffer.name == "out"}
    assert stored == {next(n for n in (4, 2, 1) if columns % n == 0)}
    assert ("b" in loaded(program)) == (columns % 2 == 0)


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(st.integers(8, 20), st.integers(60, 90), st.integers(9, 18))
def test_rows_of_weights(rows: int, columns: int, depth: int) -> None:
    """Rows of constants begin at multiples of a sector, with zeros behind each where that adds little."""
    kernel = matmul(rows, columns, depth, constant=True)
    schedule = propose(kernel, context(Threads(access_bytes=16)))
    program, given = finish(lower(schedule)), arrays(kernel)
    stored = schedule.stored([given["w"], given["b"]])
    memory = {"x": given["x"], **{b.name: a for b, a in zip(program.params, stored, strict=True)}}
    wanted = np.maximum(given["x"] @ given["w"] + given["b"], 0)
    np.testing.assert_allclose(computed(program, memory, "out", (rows, columns)), wanted, 1e-4, 1e-4)
    more = -columns % 8
    weights = next(b for b in program.params if b.name.startswith("w"))
    assert int(weights.shape[-1]) == columns + (more if 8 * more <= columns else 0)
    assert (weights.name in loaded(program, 4)) == (int(weights.shape[-1]) % 4 == 0)


def test_what_is_not_aligned_is_read_one_by_one() -> None:
    kernel = scaled(8, 32)
    assert vectors(finish(lower(propose(kernel, context()))))
    for origin, pitch in ((1, 32), (0, 33), (2, 34)):
        given = context(strides={"x": (as_int(pitch), as_int(1))}, origins={"x": as_int(origin)})
        layout = {"x": Layout((as_int(pitch), as_int(1)), as_int(origin), as_int(8 * 34 + 2))}
        program = finish(lower(propose(kernel, given), layout))
        found = vectors(program)
        assert all(n <= 8 for n in found)
        assert bool(found) == (origin == 2)
        assert accesses(program).coalesced == accesses(program).accesses


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 80), st.sampled_from([4, 8, 63, 128, 130]))
def test_few_elements_are_spread(rows: int, columns: int) -> None:
    """No multiprocessor is left without a task for the sake of wide accesses: tasks have fewer threads instead, as many
    as access memory together."""
    many = Threads(multiprocessors=16, access_bytes=16)
    wide, narrow = (
        finish(lower(propose(scaled(rows, columns), context(each)))) for each in (many, replace(many, access_bytes=0))
    )
    assert not vectors(narrow)
    assert bool(vectors(wide)) == (columns % 2 == 0 and rows * columns > 32)
    assert many.busy(int(wide.n_tasks)) >= many.busy(int(narrow.n_tasks)) or int(wide.n_tasks) >= 16


@pytest.mark.parametrize("shape", [(128,), (3, 64)])
def test_totals_of_parts(shape: tuple[int, ...]) -> None:
    """Each thread adds up the parts of neighbouring elements, of one dimension or more."""
    x, k = placeholder("x", (5, *shape)), reduce_axis("k", 5)
    y = compute("y", shape, lambda *own: total(x[(k.var, *own)], k))
    kernel = Kernel("total", (x,), (), (y,))
    program, given = finish(lower(propose(kernel, context(Threads(access_bytes=16))))), arrays(kernel)
    np.testing.assert_allclose(computed(program, given, "y", shape), given["x"].sum(0), 1e-5, 1e-5)
    assert set(vectors(program)) == {16}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("depth", "columns"), [(80, 4096), (131, 4100), (64, 8200)])
def test_long_sums_of_neighbours(depth: int, columns: int, dtype: str) -> None:
    """Each thread has parts of the sums of neighbouring columns."""
    x, k = placeholder("x", (depth, columns), dtype), reduce_axis("k", depth)
    y = compute("y", (columns,), lambda i: total(E.cast(x[k.var, i], "float32"), k))
    kernel = Kernel("sums", (x,), (), (y,))
    program, given = finish(lower(propose(kernel, context(Threads(access_bytes=16))))), arrays(kernel)
    wanted = given["x"].astype(np.float64).sum(0)
    np.testing.assert_allclose(computed(program, given, "y", (columns,)), wanted, 1e-5, 1e-5)
    found = accesses(program, 32, 1 << 20, SIXTEEN)
    assert found.wide_bytes == found.bytes
    assert found.coalesced == found.accesses


@pytest.mark.parametrize(("rows", "length", "subgroup"), [(4096, 96, 32), (4200, 17, 1), (5000, 64, 32)])
def test_many_rows_are_read_in_runs(rows: int, length: int, subgroup: int) -> None:
    """Several threads have a row, also of so many rows that each thread could have one: what threads side by side read
    lies side by side."""
    kernel = row_sums(rows, length, "max")
    given = arrays(kernel)
    threads = Threads(access_bytes=16, subgroup=subgroup)
    program = finish(lower(propose(kernel, context(threads))))
    found = accesses(program, 32, 1 << 20, SIXTEEN)
    assert found.coalesced > 0.9 * found.accesses
    assert found.requested_bytes < (2 if length % 2 else 1.3) * found.least_bytes
    assert (found.wide_bytes > 0.8 * found.bytes) == (length % 2 == 0)
    np.testing.assert_array_equal(computed(program, given, "out", (rows,)), given["x"].max(1))


@pytest.mark.parametrize(("parts", "terms"), [(4, 16), (2, 20), (3, 7)])
def test_parts_of_products(parts: int, terms: int) -> None:
    """The left operand of a product in parts, each of which begins at a multiple of its terms."""
    x, w = placeholder("x", (32, parts * terms)), placeholder("w", (parts * terms, 64))
    k = reduce_axis("k", terms)
    y = compute("y", (parts, 32, 64), lambda p, i, j: total(x[i, p * terms + k.var] * w[p * terms + k.var, j], k))
    kernel = Kernel("parts", (x, w), (), (y,))
    program, given = finish(lower(propose(kernel, context(Threads(access_bytes=16))))), arrays(kernel)
    apart = given["x"].reshape(32, parts, terms).swapaxes(0, 1), given["w"].reshape(parts, terms, 64)
    np.testing.assert_allclose(computed(program, given, "y", (parts, 32, 64)), apart[0] @ apart[1], 1e-4, 1e-4)
    assert ("x" in loaded(program, 4)) == (terms % 4 == 0)


@pytest.mark.parametrize(("side", "channels"), [(2, 32), (1, 32), (2, 20), (3, 44)])
def test_parts_of_convolutions(side: int, channels: int) -> None:
    """The last runs of terms of a window are those of some threads only: what the condition leaves of their range
    shows that they stay within the image."""
    parts, columns = 4, 32
    x = placeholder("x", (side + 2, side + 2, parts * channels))
    w = placeholder("w", (3, 3, parts * channels, columns))
    kh, kw, ci = reduce_axis("kh", 3), reduce_axis("kw", 3), reduce_axis("ci", channels)

    def window(p: E.Expr, h: E.Expr, q: E.Expr, co: E.Expr) -> E.Expr:
        channel = p * channels + ci.var
        return total(x[h + kh.var, q + kw.var, channel] * w[kh.var, kw.var, channel, co], kh, kw, ci)

    shape = (parts, side, side, columns)
    kernel = Kernel("parts", (x, w), (), (compute("y", shape, window),))
    program, given = finish(lower(propose(kernel, context(Threads(access_bytes=16))))), arrays(kernel)
    windows = np.lib.stride_tricks.sliding_window_view(given["x"], (3, 3), (0, 1))
    terms = windows.reshape(side, side, parts, channels, 3, 3), given["w"].reshape(3, 3, parts, channels, columns)
    wanted = np.einsum("hqpcab,abpco->phqo", *terms)
    np.testing.assert_allclose(computed(program, given, "y", shape), wanted, 1e-4, 1e-4)


@pytest.mark.family("opencl")
@pytest.mark.parametrize("part", [3])
def test_every_operator_in_opencl(part: int, tmp_path: Path) -> None:
    graph, inputs, expected = every_operator(part=part, parts=PARTS)
    compiled = compile_graph(graph, "small", Options(with_wide(opencl_host.opencl_target(groups=True))))
    assert sum(bool(vectors(kernel.function)) for kernel in compiled.kernels) > 10
    agree(opencl_host.Device(tmp_path).run(compiled, inputs), expected)


@pytest.mark.parametrize("part", [9])
def test_every_operator_in_cuda(part: int, tmp_path: Path) -> None:
    graph, inputs, expected = every_operator(part=part, parts=PARTS)
    compiled = compile_graph(graph, "small", Options(with_wide(cuda_host.cuda_target())))
    assert "alignas(16) wide_f32x4" in compiled.source
    agree(cuda_host.run_model(compiled, inputs, tmp_path, 1), expected)


@pytest.mark.parametrize("part", [12])
def test_every_operator_in_metal(part: int, tmp_path: Path) -> None:
    graph, inputs, expected = every_operator(without_float64, part, PARTS)
    compiled = compile_graph(graph, "small", Options(with_wide(cuda_host.METAL.target)))
    assert "*(device const float4 *)" in compiled.source
    agree(cuda_host.run_model(compiled, inputs, tmp_path, 1, cuda_host.METAL), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16"])
def test_more_than_four_elements_in_metal(dtype: str, tmp_path: Path) -> None:
    """They are words, as the language has no such vectors; the signs of one element are not another one's."""
    target = with_wide(cuda_host.METAL.target)
    program = finish(lower(propose(scaled(9, 32, dtype), Context(target))))
    random = np.random.default_rng(1)
    x, b = (random.integers(-5, 6, shape).astype(dtype) for shape in ((9, 32), (32,)))
    memory = {"x": x.reshape(-1), "b": b, "y": np.zeros(9 * 32, dtype)}
    made = cuda_host.Program.of(program, tmp_path, cuda_host.METAL)
    assert re.search(r"\*\(device uint[24] \*\)", next(tmp_path.glob("*.cu")).read_text())
    made.run_function(program, memory, 1)
    np.testing.assert_array_equal(memory["y"].reshape(9, 32), x * b + np.arange(32, dtype=dtype))


def test_a_width_that_no_access_has(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text('extends = "opencl"\n[threads]\naccess_bytes = 12\n')
    with pytest.raises(SternaError, match="access_bytes is 12"):
        load_target(str(tmp_path / "wrong.toml"))
