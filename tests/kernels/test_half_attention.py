"""Attention of 16-bit floats on fragments of matrices: no further from exact than the model's own roundings are, of all
sizes, with masks; scores stay in shared memory."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.driver import compile_graph
from sterna.frontends.onnx import read
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.options import Options
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, groups
from sterna.schedule.strategies.group_attention_fragments import keys_of
from sterna.targets.description import load_target
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel
from support.bound_axes import results, threads
from support.cuda_host import CUDA
from support.fragment_products import with_fragments
from support.half_attention import feeds, half_attention, in_float64
from support.half_networks import half_network
from support.opencl_host import opencl_target

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))
AMPERE = replace(load_target("cuda-sm80"), device=None)


def scheduled(kernel: Kernel) -> Schedule:
    s = groups.propose(kernel, Context(AMPERE))
    assert s is not None
    return s


def holds(kernel: Kernel, folder: Path | None = None, causal: bool = False, orders: int = 1) -> None:
    """Every way is as near to exact as twice the error of the model's own roundings."""
    given = feeds(kernel)
    exact, (own,) = in_float64(given, causal), run_kernel(kernel, given).values()
    allowed = 2 * np.abs(own.astype(np.float64) - exact).max()
    assert 0 < allowed < 0.1
    language = replace(CUDA, target=AMPERE)
    for way, found in results(scheduled(kernel), None, folder, orders, language, given):
        off = np.abs(found["out"].reshape(exact.shape).astype(np.float64) - exact)
        assert off.max() <= allowed, way


@pytest.mark.parametrize(
    ("sizes", "mask"),
    [
        ((1, 33, 37, 20, 24), ""),
        ((2, 32, 64, 16, 16), "added"),
        ((1, 40, 40, 8, 40), "causal"),
        ((1, 33, 19, 96, 90), ""),
    ],
    ids=["odd sizes", "masked", "causal", "wide"],
)
def test_attention(sizes: tuple[int, int, int, int, int], mask: str, tmp_path: Path) -> None:
    holds(half_attention(*sizes, mask), tmp_path, mask == "causal")


def test_bfloat16(tmp_path: Path) -> None:
    holds(half_attention(1, 34, 48, 32, 32, dtype="bfloat16"), tmp_path)


@pytest.mark.parametrize("size", [64, 128])
def test_usual_heads(size: int) -> None:
    holds(half_attention(1, 32, 32, size, size))


@settings(max_examples=2 * MORE, deadline=None, derandomize=True, database=None)
@given(*(st.integers(2, 70) for _ in range(2)), *(st.integers(9, 48) for _ in range(2)))
def test_any_size(queries: int, keys: int, depth: int, columns: int) -> None:
    holds(half_attention(1, queries, keys, depth, columns))


@pytest.mark.parametrize("last", [np.inf, -np.inf])
def test_an_infinite_value_of_the_last_key(last: float) -> None:
    """What is beyond the keys and columns of the last matrices has no part in the result."""
    kernel = half_attention(1, 9, 37, 16, 20)
    given = feeds(kernel)
    given["v"][:, -1, ::2] = last
    ((_, found),) = results(scheduled(kernel), None, orders=1, feeds=given)
    out = found["out"].reshape(1, 9, 20)
    assert (out[..., ::2] == last).all()
    assert np.isfinite(out[..., 1::2]).all()


def test_rows_of_which_no_key_is_seen() -> None:
    """Of a block, that is: the greatest score is -infinity there."""
    kernel = half_attention(1, 32, 70, 16, 16, "added")
    given = feeds(kernel)
    given["mask"][:, :40] = -np.inf
    given["mask"][1::2, 64:] = -np.inf
    ((_, found),) = results(scheduled(kernel), None, orders=1, feeds=given)
    np.testing.assert_allclose(found["out"].reshape(1, 32, 16).astype(np.float64), in_float64(given), 0, 4e-3)


def test_zeros_for_what_is_no_number() -> None:
    """In rows of which no key of any block is seen, or of which a score is none."""
    kernel = half_attention(1, 32, 70, 16, 16, "added", guarded=True)
    given = feeds(kernel)
    given["mask"][::2] = -np.inf
    given["mask"][1, 50] = np.nan
    ((_, found),) = results(scheduled(kernel), None, orders=1, feeds=given)
    out = found["out"].reshape(1, 32, 16).astype(np.float64)
    assert (out[:, ::2] == 0).all()
    assert (out[:, 1] == 0).all()
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(out[:, 3::2], in_float64(given)[:, 3::2], 0, 4e-3)


@pytest.mark.parametrize("size", [32, 48, 64, 80, 96, 128])
def test_what_it_asks_of_memory(size: int) -> None:
    """Queries, keys, values and the result once, and no score; every product on fragments."""
    program = finish(lower(scheduled(half_attention(2, 64, 128, size, size))))
    assert threads(program) == 128
    found = accesses(program)
    assert found.fragments == 2 * 2 * 64 * 128 * size
    assert found.moved_bytes == found.least_bytes == 2 * 2 * size * 2 * (64 + 128)
    assert found.coalesced == found.accesses
    assert found.conflicts == 0
    assert found.shared_bytes <= 49152


def test_softmax_off_by_one_is_no_softmax() -> None:
    """exp(s - max) / (sum + 1) between two products: another strategy has the kernel, or none."""
    for dtype in ("float16", "bfloat16"):
        s = groups.propose(half_attention(1, 64, 256, 64, 64, dtype=dtype, more=1.0), Context(AMPERE))
        assert s is None or not any(step.primitive == "online_in_matrices" for step in s.steps)


def test_what_is_declined() -> None:
    for sizes in ((1, 32, 32, 16, 160), (1, 32, 32, 4, 16), (1, 32, 32, 16, 4)):
        kernel = half_attention(*sizes)
        s = groups.propose(kernel, Context(AMPERE))
        assert s is None or not with_fragments(finish(lower(s)).body)
    assert keys_of(64, 64, "float16", AMPERE) == 32
    assert keys_of(128, 128, "float16", AMPERE) == 16
    assert keys_of(64, 64, "float32", AMPERE) == 0, "fragments of float32 are of TF32"
    assert keys_of(64, 64, "bfloat16", load_target("cuda")) == 0
    assert keys_of(64, 64, "float16", opencl_target(groups=True)) == 0


def test_one_kernel_of_a_model() -> None:
    kernels = compile_graph(read(half_network()), "half", Options(load_target("cuda-sm80"))).kernels
    joined = [k.function.name for k in kernels if "softmax" in k.function.name]
    assert len(joined) == 1
    assert "matmul" in joined[0]
