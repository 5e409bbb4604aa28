"""Kernels of products that compute with integers of 64 bits, for processors whose vectors have none."""

from __future__ import annotations

import pytest

from sterna.schedule.strategies import Context, propose
from sterna.targets.description import load_target
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total


def product(dtype: str) -> Kernel:
    """The product of two computed matrices of 16 bits."""
    a, b = placeholder("a", (4, 8), "int16"), placeholder("b", (8, 16), "int16")
    k = reduce_axis("k", 8)
    out = compute("out", (4, 16), lambda i, j: total(E.cast(a[i, k.var], dtype) * E.cast(b[k.var, j], dtype), k))
    return Kernel("product", (a, b), (), (out,))


def vectors(kernel: Kernel, target: str) -> bool:
    """Whether a schedule has loops over vectors of more than one lane."""
    schedule = propose(kernel, Context(load_target(target)))
    lanes = {axis: stage for stage in schedule.stages.values() for axis, kind in stage.annotations.items()
             if kind == "vectorized"}  # fmt: skip
    return any((stage.iterations(axis) or 1) > 1 for axis, stage in lanes.items())


@pytest.mark.parametrize(("target", "dtype", "wanted"), [
    ("cortex-m55", "int64", False),
    ("cortex-m55", "int32", True),
    ("x86-64-v3", "int64", True),
    ("cortex-m4", "int64", False),
])  # fmt: skip
def test_sums_of_64_bits(target: str, dtype: str, wanted: bool) -> None:
    assert vectors(product(dtype), target) == wanted


def test_what_only_widens_has_vectors() -> None:
    """A sum of one dimension, and a result that is widened, are no sums of products in 64 bits."""
    x = placeholder("x", (64,), "int32")
    out = compute("out", (64,), lambda i: E.cast(x[i] + 1, "int64"))
    assert vectors(Kernel("widened", (x,), (), (out,)), "cortex-m55")
