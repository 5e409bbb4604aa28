"""Products of numbers of 16 bits in tiles without fragments: operands are widened on their way to shared memory."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.ir import dtypes
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.strategies import Context, propose
from sterna.schedule.strategies.group_tiles import SHARE
from sterna.targets.description import load_target
from sterna.targets.target import Target
from support.bound_axes import compare
from support.float_products import product

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))


def target(asynchronous: int = 0) -> Target:
    """Groups of threads without fragments."""
    known = load_target("opencl")
    assert known.threads is not None
    return replace(known, threads=replace(known.threads, asynchronous_bytes=asynchronous))


def shared(program: P.Function) -> set[str]:
    """The types of what the threads of a task share."""
    allocated = (s.buffer for s in P.walk(program.body) if isinstance(s, P.Alloc))
    return {b.dtype for b in allocated if b.scope.reach == "block"}


@settings(max_examples=6 * MORE, deadline=None, derandomize=MORE == 1, database=None)
@given(
    st.integers(8, 90), st.integers(2, 80), st.integers(1, 70), st.sampled_from(["float16", "bfloat16"]),
    st.integers(0, 5),
)  # fmt: skip
def test_any_product(
    tmp_path_factory: pytest.TempPathFactory, m: int, n: int, depth: int, dtype: str, way: int
) -> None:
    s = propose(product(m, n, depth, dtype), Context(target()))
    random, feeds = np.random.default_rng(m + n), dict[str, np.ndarray]()
    for each in (*s.kernel.inputs, *s.kernel.params):
        drawn = random.standard_normal([int(e) for e in each.shape])
        feeds[each.name] = drawn.astype(dtypes.to_numpy(each.dtype))
    compare(s, None, tmp_path_factory.mktemp("cuda") if way == 0 else None, 1e-4, 2, feeds=feeds)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_operands_are_wide_in_shared_memory(dtype: str) -> None:
    kernel = product(64, 64, 64, dtype)
    assert shared(finish(lower(propose(kernel, Context(target()))))) == {"float32"}
    # What is copied while threads compute is copied as it is.
    assert shared(finish(lower(propose(kernel, Context(target(16)))))) == {dtype}


@pytest.mark.parametrize("asynchronous", [0, 16])
def test_tiles_fit_by_what_they_take(asynchronous: int) -> None:
    """As large in shared memory that has no byte to spare for what is kept in parts."""
    kernel, known = product(64, 64, 64, "float16"), target(asynchronous)

    def taken(bytes_: int) -> int:
        memories = tuple(replace(m, bytes=bytes_) for m in known.memories)
        program = finish(lower(propose(kernel, Context(replace(known, memories=memories)))))
        allocated = (s.buffer for s in P.walk(program.body) if isinstance(s, P.Alloc))
        return sum(b.elements * dtypes.size(b.dtype) for b in allocated if b.scope.reach == "block")

    most = taken(32 << 10)
    assert taken(int(most / SHARE)) == most
