"""What accesses know of where memory begins: no access is wider than that allows, and counts are of what is written."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.codegen.generators import KernelSet, module, source, widths
from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.extremum import minimum
from sterna.ir.integer import Int, Symbol, as_int, of
from sterna.ir.memory import INPUT, OUTPUT, PARAM, STACK, Memory, Scope
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.bodies import clamp_of
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.threads import run_threads
from sterna.loops.wide import Widths
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.tensor import Kernel
from support import cuda_host, opencl_host
from support.fragment_products import product, proposed
from support.small_kernels import arrays, matmul, pointwise

ALL = Widths(16, 0, 16, 16)
SCOPES = (
    INPUT,
    OUTPUT,
    PARAM,
    STACK,
    *(Memory("near", "block", bytes=4096, alignment=1 << n, address_space=3) for n in range(6)),
)


def aligned_at(alignment: int, target: Target) -> Target:
    """A target whose tasks' memory begins there."""
    return replace(target, memories=tuple(replace(m, alignment=alignment) for m in target.memories))


def kernel_for(target: Target, kernel: Kernel) -> P.Function:
    s = propose(kernel, Context(target))
    assert s is not None
    return finish(lower(s))


def printed(function: P.Function, target: Target, write: object = source) -> str:
    return write(KernelSet("kernel", [function], [()]), target)  # type: ignore[operator, no-any-return]


def begins(scope: Scope) -> int:
    """The least multiple at which runtimes and generators may place what lies there, and no greater one."""
    if isinstance(scope, Memory):
        return scope.alignment
    return {INPUT: 16, OUTPUT: 16, PARAM: 64}.get(scope, 1)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from(SCOPES), st.sampled_from(SCOPES), st.sampled_from(["int8", "float16", "float32", "float64"]),
    st.integers(0, 9), st.integers(0, 20), st.sampled_from([1, 2, 3, 4, 6, 8, 16]), st.integers(1, 24), st.booleans(),
)  # fmt: skip
def test_every_access_is_aligned(
    a: Scope, b: Scope, dtype: str, block: int, first: int, step: int, count: int, copied: bool
) -> None:
    """Wherever buffers begin, as far as their memory says, and for every value of a symbol."""
    size, i = dtypes.size(dtype), Symbol("i", 0, 3)
    slots = [0 if s in (INPUT, OUTPUT) else block * 8 for s in (a, b)]
    source, to = (
        P.dense_buffer(n, dtype, (as_int(99),), s, slot) for n, s, slot in zip("ab", (a, b), slots, strict=True)
    )
    at = of(i) * step + first
    if copied:
        each = ALL.copied_at_once(P.Copy(to, at, source, at, count, True, 0))
        assert count * size % each == 0
        places = list(zip((a, b), slots, strict=True))
    else:
        each = size * ALL.at_once(E.Load(dtype, lanes=count, tensor=source, indices=(at,)))
        assert each == size or not a.private
        places = [(a, slots[0])]
    for scope, slot in places if each > size else ():
        for n in range(4):
            assert (begins(scope) + slot + (n * step + first) * size) % each == 0


def test_matrices_in_memory_of_four_bytes(tmp_path: Path) -> None:
    """Threads read their operands 16 bytes at a time, and store them one by one."""
    target = aligned_at(4, cuda_host.cuda_target())
    kernel = matmul(64, 64, 64)
    function = kernel_for(target, kernel)
    text = printed(function, target)
    assert "*(const wide_f32x4 *)(x + " in text
    assert not re.search(r"\*\((const )?wide_\w+ \*\)\(\w+_local", text)
    assert re.search(r"\*\(wide_f32x4 \*\)\(x_local", printed(function_of_default(kernel), cuda_host.cuda_target()))
    given = arrays(kernel)
    memory = {name: a.reshape(-1).copy() for name, a in given.items()} | {"out": np.zeros(64 * 64, np.float32)}
    program = cuda_host.Program([function], text, tmp_path)
    program.run_function(function, memory, seed=2)
    wanted = np.maximum(given["x"] @ given["w"] + given["b"], 0)
    np.testing.assert_allclose(memory["out"].reshape(64, 64), wanted, 1e-4, 1e-4)


def function_of_default(kernel: Kernel) -> P.Function:
    return kernel_for(cuda_host.cuda_target(), kernel)


def test_elements_in_memory_of_one_byte() -> None:
    """Whatever the alignment, every element lies at a multiple of its size."""
    near = Memory("near", "block", bytes=4096, alignment=1, address_space=3)
    s = Schedule(pointwise(6, 5), memories=(near,))
    s.compute_at("mid", "out", "i0", near)
    s.compute_at(s.cache_read("y", "mid"), "out", "i0", near)
    s.compute_at(s.cache_read("x", "mid"), "out", "i0", near)
    function = finish(lower(s))
    slots = [each.buffer.slot for each in P.walk(function.body) if isinstance(each, P.Alloc)]
    assert len(slots) == 3
    assert all(slot % 8 == 0 for slot in slots)
    given = arrays(s.kernel)
    memory = {name: a.reshape(-1).copy() for name, a in given.items()} | {"out": np.zeros(30, np.float32)}
    run_threads(function, memory)
    mid = given["x"] * 2 + given["y"]
    np.testing.assert_allclose(memory["out"].reshape(6, 5), mid * mid - given["x"], 1e-6)


@pytest.mark.parametrize("alignment", [4, 16])
def test_fragments_begin_at_32_bytes(alignment: int) -> None:
    """CUDA, `load_matrix_sync`: other memory has no tiles, neither by choice nor by a schedule that asks for them."""
    target = load_target("cuda-sm80")
    assert target.fragments
    assert not aligned_at(alignment, target).fragments
    s = proposed(product(64, 64, 64))
    near = replace(target.memories[0], alignment=alignment)
    with pytest.raises(SternaError) as caught:
        lower(saved.apply(s.kernel, saved.from_json(saved.to_json(s.steps)), target.known_intrinsics, memories=(near,)))
    assert set(caught.value.codes) == {"E0303"}


WIDE = re.compile(
    r"\*\((?:__global |device )?(?:const )?(?:wide_\w+|[a-z]+\d+) \*\)\((?!\w+_local)|ld\.global[.\w]*\.v|cp\.async\.c"
)


@pytest.mark.parametrize("kind", ["opencl", "metal", "cuda", "ptx"])
@pytest.mark.parametrize("access_bytes", [0, 16])
@pytest.mark.parametrize("name", ["matrices", "elements", "halves"])
def test_wide_bytes_are_those_of_the_text(kind: str, access_bytes: int, name: str) -> None:
    """Of the same loop programs each generator writes as much as its language and target have."""
    target = {
        "opencl": lambda: opencl_host.opencl_target(groups=True),
        "metal": cuda_host.metal_target,
        "cuda": lambda: replace(load_target("cuda-sm80"), device=None),
        "ptx": lambda: load_target("cuda-sm80"),
    }[kind]()
    assert target.threads is not None
    kernel = {"matrices": matmul(64, 64, 64), "elements": pointwise(512, 128), "halves": product(64, 64, 64)}[name]
    target = replace(target, threads=replace(target.threads, access_bytes=access_bytes, multiprocessors=1))
    function = kernel_for(target, kernel)
    text = printed(function, target, module if kind == "ptx" else source)
    found = accesses(function, widths=widths(target))
    assert (found.wide_bytes > 0) == bool(WIDE.search(text))
    assert found.wide_bytes <= found.bytes


def test_eight_halves_are_one_access() -> None:
    """Of Metal, whose vectors have four elements at most, as words."""
    i = Symbol("i", 0, 3)
    buffer = P.dense_buffer("x", "float16", (as_int(64),), INPUT)
    eight = E.Load("float16", lanes=8, tensor=buffer, indices=(of(i) * 8,))
    for target in (cuda_host.metal_target(), opencl_host.opencl_target(groups=True)):
        assert widths(target).at_once(eight) == 8


def test_clamps() -> None:
    """A position stands for its clamp only where clamping made one atom that is the whole of it."""
    i, n = Symbol("i", 0, 20), Symbol("n", 1, 9)

    def clamp(index: Int, size: int, run: tuple[Symbol, int] | None = None) -> tuple[str, str] | None:
        found = clamp_of(index, as_int(size), run)
        return None if found is None else (str(found[0]), str(found[1]))

    assert clamp(of(i), 10) == ("min(i, 9)", "i")
    smaller = minimum(of(i), of(n))
    for index, size in ((smaller, 10), (smaller + 3, 20), (smaller * 2 + of(i), 60)):
        assert clamp(index, size) is None
    for index, size in ((smaller, 4), (smaller + 3, 6), (smaller * 2, 5)):
        assert clamp(index, size) == (f"min({index}, {size - 1})", str(index))
    # Of four neighbours that are one access the number of the access is clamped, if the dimension has whole ones.
    lane = Symbol("lane", 0, 3)
    assert clamp(of(i) * 4 + of(lane), 40, (lane, 4)) == ("min(i, 9)", "i")
    assert clamp(of(i) * 4 + of(lane), 42, (lane, 4)) == ("min(i*4 + lane, 41)", "i*4 + lane")
