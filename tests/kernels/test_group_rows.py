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

from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.strategies import Context, propose
from sterna.targets.target import Threads
from sterna.te.tensor import Kernel
from support import opencl_host
from support.bound_axes import compare, threads
from support.cuda_host import METAL
from support.small_kernels import log_sum_exp, mean_and_variance, normalized, place_of_greatest, row_sums, softmax

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
}


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> opencl_host.Device:
    return opencl_host.Device(tmp_path_factory.mktemp("opencl"))


def context(most: int) -> Context:
    target = opencl_host.opencl_target(groups=True)
    return Context(replace(target, threads=Threads(most, max(1, most // 2))))


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
}


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
    s = propose(kernel, context(data.draw(st.sampled_from([1, 2, 8, 32, 48, 128]))))
    compare(s, device if data.draw(st.integers(0, 7)) == 0 else None, tolerance=1e-4, orders=2)
