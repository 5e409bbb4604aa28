"""Attention over open sizes as one kernel of groups of threads: in the interpreter, in random orders, against NumPy;
networks on a device against kernels of the CPU. One program for all sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sterna.api import compile_model
from sterna.ir.integer import symbol
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.strategies import Context, group_attention
from sterna.schedule.strategies import attention as on_cpu
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.targets.target import Threads
from support import device_bundles, opencl_host
from support.bound_axes import SHARED
from support.half_attention import half_attention, in_float64
from support.open_attention import NETWORKS, agrees
from support.open_kernels import computed, program_of
from support.small_kernels import attention
from support.thread_programs import WIDE

AMPERE = replace(load_target("cuda-sm80"), device=None)
#: Lengths beside and at multiples of a block.
LENGTHS = (0, 1, 31, 32, 33, 70)
BATCH = symbol("batch", 1, 3)


@cache
def program(depth: int, columns: int, mask: str, least: int) -> P.Function:
    queries, keys = symbol("queries", least, 70), symbol("keys", least, 70)
    kernel = attention(BATCH, queries, keys, depth, columns, mask == "added", mask == "causal")
    return program_of(kernel, Threads(access_bytes=WIDE.access_bytes))


def expected(arrays: Mapping[str, np.ndarray], causal: bool) -> np.ndarray:
    q, k, v = (arrays[name] for name in "qkv")
    scores = q @ k / np.float32(np.sqrt(q.shape[-1])) + arrays.get("mask", np.float32(0))
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, np.float32(-np.inf))
    powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return powers / powers.sum(-1, keepdims=True) @ v


def drawn(batch: int, queries: int, keys: int, depth: int, columns: int, mask: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(queries + 100 * keys)
    shapes = {"q": (batch, queries, depth), "k": (batch, depth, keys), "v": (batch, keys, columns)}
    shapes |= {"mask": (queries, keys)} if mask == "added" else {}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@settings(max_examples=3, deadline=None, derandomize=True, database=None)
@given(
    st.integers(1, 2),
    st.sampled_from(LENGTHS[1:]),
    st.sampled_from(LENGTHS[1:]),
    st.sampled_from([(9, 17, "added"), (16, 9, "causal"), (12, 33, "")]),
)
@example(3, 33, 31, (9, 17, "added"))
@example(1, 31, 33, (16, 9, "causal"))
def test_attention_of_open_sizes(batch: int, queries: int, keys: int, kind: tuple[int, int, str]) -> None:
    _, columns, mask = kind
    arrays = drawn(batch, queries, keys, *kind)
    sizes = {"batch": batch, "queries": queries, "keys": keys}
    found = computed(program(*kind, 1), sizes, (batch, queries, columns), **arrays)
    np.testing.assert_allclose(found, expected(arrays, mask == "causal"), 1e-4, 1e-5)


@pytest.mark.parametrize(("queries", "keys"), [(0, 0), (0, 33), (33, 0), (1, 1), (32, 70)])
def test_no_queries_and_no_keys(queries: int, keys: int) -> None:
    """Of no keys the result is 0, as it is of a product with a matrix of no rows."""
    arrays = drawn(2, queries, keys, 16, 16, "")
    sizes = {"batch": 2, "queries": queries, "keys": keys}
    found = computed(program(16, 16, "", 0), sizes, (2, queries, 16), **arrays)
    np.testing.assert_allclose(found, expected(arrays, False), 1e-4, 1e-5)


def test_a_mask_of_no_queries_and_no_keys() -> None:
    """Both its sizes may be 0, which took half a minute to prove right."""
    for queries, keys in ((0, 0), (33, 31)):
        arrays = drawn(1, queries, keys, 12, 9, "added")
        sizes = {"batch": 1, "queries": queries, "keys": keys}
        found = computed(program(12, 9, "added", 0), sizes, (1, queries, 9), **arrays)
        np.testing.assert_allclose(found, expected(arrays, False), 1e-4, 1e-5)


@pytest.mark.parametrize("columns", [64, 128])
def test_usual_heads(columns: int) -> None:
    arrays = drawn(1, 5, 33, 64, columns, "causal")
    found = computed(
        program(64, columns, "causal", 1), {"batch": 1, "queries": 5, "keys": 33}, (1, 5, columns), **arrays
    )
    np.testing.assert_allclose(found, expected(arrays, True), 1e-4, 1e-5)


def test_an_infinite_value_of_the_last_key() -> None:
    """What lies beyond the keys is no number, and has no part in the result; what is infinite among them has."""
    arrays = drawn(1, 9, 37, 16, 16, "")
    arrays["v"][:, -1, ::2] = np.inf
    sizes = {"batch": 1, "queries": 9, "keys": 37}
    found = computed(program(16, 16, "", 0), sizes, (1, 9, 16), **arrays)
    np.testing.assert_allclose(found, expected(arrays, False), 1e-4, 1e-5)


def test_what_other_strategies_decline() -> None:
    """Kernels of the CPU keep whole rows of scores; heads are of known sizes."""
    length, size = symbol("length", 1, 70), symbol("size", 9, 64)
    context = Context(opencl_host.opencl_target(groups=True))
    assert group_attention.propose(attention(BATCH, length, length, 16, 16), context, SHARED) is not None
    assert group_attention.propose(attention(BATCH, length, length, 16, size), context, SHARED) is None
    assert on_cpu.propose(attention(BATCH, length, length, 16, 16), context) is None


@cache
def on_fragments(depth: int, columns: int, mask: str) -> P.Function:
    queries, keys = symbol("queries", 1, 70), symbol("keys", 1, 70)
    schedule = propose(half_attention(BATCH, queries, keys, depth, columns, mask), Context(AMPERE))
    assert any(step.primitive == "online_in_matrices" for step in schedule.steps)
    return finish(lower(schedule))


@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(
    st.integers(1, 2),
    st.sampled_from(LENGTHS[1:]),
    st.sampled_from(LENGTHS[1:]),
    st.sampled_from([(20, 24, "causal"), (16, 16, "added"), (32, 40, "")]),
)
@example(3, 33, 31, (16, 16, "added"))
@example(1, 31, 70, (20, 24, "causal"))
def test_float16_on_fragments(batch: int, queries: int, keys: int, kind: tuple[int, int, str]) -> None:
    """What the last block has beyond the keys is zeros in shared memory, whatever lies there."""
    _, columns, mask = kind
    arrays = {name: a.astype(np.float16) for name, a in drawn(batch, queries, keys, *kind).items()}
    sizes = {"batch": batch, "queries": queries, "keys": keys}
    found = computed(on_fragments(*kind), sizes, (batch, queries, columns), **arrays)
    np.testing.assert_allclose(found.astype(np.float64), in_float64(arrays, mask == "causal"), 0, 4e-3)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_have_one_kernel(name: str) -> None:
    network, dims = NETWORKS[name]
    for target, one in {"opencl": True, "host": False}.items():
        kernels = [k.function.name for k in compile_model(network(), target, None, dims).kernels]
        softmax = [kernel for kernel in kernels if "softmax" in kernel]
        assert softmax
        assert all(("matmul" in kernel) == one for kernel in softmax)


@pytest.mark.family("opencl")
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_on_opencl(name: str, tmp_path: Path) -> None:
    with device_bundles.opencl(tmp_path):
        agrees("opencl", name)
