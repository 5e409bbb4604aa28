"""Kernels of several reductions whose rows the threads of a task share: what the strategy proposes is proved free of
races, uses several threads, and gives what the tensor expressions say in random orders, by OpenCL and by the text of
CUDA and Metal."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.wide import Widths
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import load_target
from sterna.targets.target import Threads
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support import opencl_host
from support.bound_axes import barriers, compare, threads
from support.cuda_host import CUDA, METAL
from support.small_kernels import (
    log_sum_exp,
    mean_and_variance,
    normalized,
    over_axes,
    place_of_greatest,
    row_sums,
    softmax,
    span,
    times_vector,
)

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))
CLASS: dict[str, Kernel] = {
    "softmax": softmax((5, 37), 1),
    "softmax of two": softmax((33, 2), 1),
    "softmax of one row": softmax((10,), 0),
    "softmax of columns": softmax((3, 7, 40), 1),
    "long softmax": softmax((2, 1031), 1),
    "layer normalization": normalized((6, 64), (1,)),
    "layer normalization of two axes": normalized((3, 5, 13), (1, 2)),
    "instance normalization": normalized((2, 3, 7, 7), (2, 3)),
    "instance normalization, channels last": normalized((2, 7, 5, 19), (1, 2)),
    "all of it": normalized((11, 13), (0, 1)),
    "logsumexp": log_sum_exp(4, 101),
    "argmax": place_of_greatest(7, 53),
    "argmax of all": place_of_greatest(1, 257),
    "mean and variance": mean_and_variance((5, 83), 1),
    "mean and variance of columns, and elements": mean_and_variance((19, 33), 0, with_elements=True),
    "a maximum": row_sums(1, 1999, "max"),
    "products": row_sums(3, 67, "prod"),
    "two values that are read one by one": span(333),
    "sums over the first axis and the last": over_axes((33, 6, 11), (0, 2)),
    "maxima over all axes but one": over_axes((129, 3, 64, 2), (0, 2, 3), "max"),
}


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> opencl_host.Device:
    return opencl_host.Device(tmp_path_factory.mktemp("opencl"))


def context(most: int, subgroup: int = 1, access_bytes: int = 0) -> Context:
    target = opencl_host.opencl_target(groups=True)
    device = Threads(most, max(1, most // 2), subgroup=subgroup, access_bytes=access_bytes)
    return Context(replace(target, threads=device))


@pytest.mark.family("opencl")
@pytest.mark.parametrize("name", CLASS)
def test_rows_are_shared(name: str, device: opencl_host.Device, tmp_path: Path) -> None:
    s = propose(CLASS[name], context(64))
    assert 1 < threads(finish(lower(s))) <= 64
    if name in ("softmax", "instance normalization, channels last"):
        compare(s, device, tmp_path)
        compare(s, None, tmp_path / "..", orders=1, language=METAL)
    else:
        compare(s, device)


@pytest.mark.parametrize("name", CLASS)
def test_rows_are_shared_by_exchanges(name: str, tmp_path: Path) -> None:
    """Where threads of a subgroup reach one another's registers, fewer barriers are left; none where a subgroup has a
    row."""
    kernel = CLASS[name]
    s = propose(kernel, context(256, subgroup=32))
    program = finish(lower(s))
    before = finish(lower(propose(kernel, context(256))))
    if P.exchanged(program.body) > 1:
        assert barriers(program.body) < barriers(before.body)
    else:
        # Rows side by side, which several subgroups share, and few terms.
        assert "columns" in name or "channels last" in name or "of two" in name or "one by one" in name
    if name in ("long softmax", "argmax"):
        compare(s, None, tmp_path, orders=2, language=METAL if name == "argmax" else CUDA)
    else:
        compare(s, None, orders=2)


def test_a_row_of_one_subgroup_has_no_barrier() -> None:
    """Of rows enough for all multiprocessors each is one subgroup's: what others write nobody reads."""
    for kernel in (softmax((4096, 197), 1), normalized((4096, 384), (1,)), place_of_greatest(4096, 1000)):
        program = finish(lower(propose(kernel, context(256, subgroup=32))))
        assert P.exchanged(program.body) == 32
        assert barriers(program.body) == 0
        assert threads(program) == 128


SIZES = st.sampled_from([1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64, 97])
DRAWN: dict[str, Callable[[Any], Kernel]] = {
    "softmax": lambda draw: softmax(shape := drawn_shape(draw), draw(st.integers(0, len(shape) - 1))),
    "normalized": lambda draw: normalized(
        shape := drawn_shape(draw), tuple(sorted(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
    ),
    "log_sum_exp": lambda draw: log_sum_exp(draw(SIZES), draw(SIZES)),
    "place_of_greatest": lambda draw: place_of_greatest(draw(SIZES), draw(SIZES)),
    "mean_and_variance": lambda draw: mean_and_variance(
        shape := drawn_shape(draw), draw(st.integers(0, len(shape) - 1)), draw(st.booleans())
    ),
    "row_sums": lambda draw: row_sums(draw(SIZES), draw(SIZES), draw(st.sampled_from(["sum", "max", "min", "prod"]))),
    "row_sums, any type": lambda draw: row_sums(
        draw(SIZES),
        draw(SIZES),
        draw(st.sampled_from(["max", "min"])),
        draw(st.sampled_from(["float16", "int8", "int64"])),
    ),
    "over_axes": lambda draw: over_axes(
        shape := drawn_shape(draw),
        tuple(sorted(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))),
        draw(st.sampled_from(["sum", "max"])),
    ),
    "times_vector": lambda draw: times_vector(
        draw(SIZES), draw(SIZES), draw(st.sampled_from(["float32", "float16", "int8"])), draw(st.booleans())
    ),
}


WIDE: dict[str, tuple[Kernel, float]] = {
    "softmax": (softmax((5, 64), 1), 1),
    "softmax of halves of a row": (softmax((5, 66), 1), 1),
    "softmax of rows that begin anywhere": (softmax((5, 67), 1), 0),
    "softmax of columns": (softmax((3, 7, 40), 1), 1),
    "layer normalization": (normalized((6, 64), (1,)), 1),
    "layer normalization of two axes": (normalized((3, 5, 12), (1, 2)), 1),
    "instance normalization": (normalized((2, 3, 7, 8), (2, 3)), 1),
    "instance normalization, channels last": (normalized((2, 7, 5, 24), (1, 2)), 1),
    "all of it": (normalized((11, 12), (0, 1)), 1),
    "logsumexp": (log_sum_exp(4, 100), 0.9),
    "argmax": (place_of_greatest(7, 52), 0.9),
    "means": (mean_and_variance((5, 96), 1), 0.9),
    "means of columns": (mean_and_variance((19, 32), 0), 1),
    "a maximum": (row_sums(1, 2000, "max"), 0.9),
    "bytes": (row_sums(3, 96, "max", "int8"), 0.9),
    "halves": (row_sums(3, 96, "min", "float16"), 0.9),
    "a product with a vector": (times_vector(40, 96), 0.9),
    "a product with a vector, in float16": (times_vector(40, 96, "float16"), 0.9),
    "a vector by columns": (times_vector(40, 96, turned=True), 1),
    "a vector by columns, in int8": (times_vector(64, 96, "int8", turned=True), 0.2),
    "a vector by columns, in float16": (times_vector(64, 96, "float16", turned=True), 0.9),
    "a vector by columns that begin anywhere": (times_vector(41, 97, turned=True), 0),
    "a vector by columns that begin within sectors": (times_vector(36, 96, turned=True), 0),
}


@pytest.mark.family("opencl")
@pytest.mark.parametrize("subgroup", [1, 32])
@pytest.mark.parametrize("name", WIDE)
def test_rows_in_runs(name: str, subgroup: int, device: opencl_host.Device, tmp_path: Path) -> None:
    """Threads read and store runs of neighbours, of a row or of rows side by side, as far as that is one access."""
    kernel, share = WIDE[name]
    s, before = (propose(kernel, context(256, subgroup, wide)) for wide in (16, 0))
    found, narrow = (accesses(finish(lower(each)), 32, 1 << 20, Widths(16)) for each in (s, before))
    assert found.wide_bytes >= share * found.bytes
    assert found.wide_bytes == 0 or share > 0
    assert found.coalesced == found.accesses or narrow.coalesced < narrow.accesses
    assert found.requested_bytes <= narrow.requested_bytes
    assert found.conflicts <= narrow.conflicts
    assert found.groups >= min(narrow.groups, 16)
    exchanged = P.exchanged(finish(lower(s)).body) > 1  # by no driver of OpenCL here
    language = CUDA if len(name) % 2 else METAL
    compare(s, None if exchanged else device, tmp_path if subgroup > 1 else None, 1e-4, orders=1, language=language)


@pytest.mark.parametrize("turned", [False, True], ids=["by rows", "by columns"])
def test_a_vector_times_many_columns(turned: bool) -> None:
    """A multiprocessor waits for memory where few threads ask: the threads of a task share long sums, too, while there
    are fewer than it could hold threads for."""
    kernel = times_vector(4224, 256, turned=turned)
    for multiprocessors, several in ((108, True), (2, not turned)):
        device = load_target("cuda-sm80")
        assert device.threads is not None
        device = replace(device, device=None, threads=replace(device.threads, multiprocessors=multiprocessors))
        s = propose(kernel, Context(device))
        program = finish(lower(s))
        found = accesses(program, widths=Widths(16))
        assert (int(program.n_tasks) * threads(program) >= 4 * 4224) is several
        assert found.coalesced == found.accesses
        assert found.wide_bytes >= 0.8 * found.bytes


def test_few_rows_read_a_matrix_once() -> None:
    """Tasks that read the same columns follow one another, so that a cache of less than the matrix still has them."""
    x, w, k = placeholder("x", (4, 512)), placeholder("w", (512, 768)), reduce_axis("k", 512)
    y = compute("y", (4, 768), lambda i, j: total(x[i, k.var] * w[k.var, j], k))
    s = propose(Kernel("rows", (x, w), (), (y,)), Context(replace(load_target("cuda-sm80"), device=None)))
    found = accesses(finish(lower(s)), cache_bytes=512 * 768)
    assert sum(found.moved.values()) <= 1.05 * sum(found.least.values())
    compare(s, None, tolerance=1e-4, orders=1)


def drawn_shape(draw: Any) -> tuple[int, ...]:
    """Of at most 600 elements."""
    sizes: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        left = 600
        for size in sizes:
            left //= size
        sizes.append(min(draw(SIZES), max(1, left)))
    return tuple(sizes)


@pytest.mark.family("opencl")
@settings(
    max_examples=25 * MORE, deadline=None, derandomize=MORE == 1, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.data())
def test_rows_of_any_size(device: opencl_host.Device, data: Any) -> None:
    kernel = DRAWN[data.draw(st.sampled_from(sorted(DRAWN)))](data.draw)
    most, subgroup = data.draw(st.sampled_from([1, 2, 8, 32, 48, 128])), data.draw(st.sampled_from([1, 4, 32]))
    s = propose(kernel, context(most, subgroup, data.draw(st.sampled_from([0, 8, 16]))))
    if P.exchanged(lower(s).body) > 1:  # by no driver of OpenCL here
        compare(s, None, tolerance=1e-4, orders=2)
        return
    compare(s, device if data.draw(st.integers(0, 7)) == 0 else None, tolerance=1e-4, orders=2)
