"""Kernels over open dimensions run by groups of threads: several open axes are one, and taken apart by their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sterna
from sterna.api import compile_model
from sterna.ir.integer import Symbol, as_int, of, symbol
from sterna.ir.remainders import rejoined
from sterna.loops.prove import Range, at_least_zero
from sterna.te.position import is_rest, quotient
from support import device_bundles
from support.compiling import check
from support.open_networks import encoder, images, pyramid, rows

DIMS = {"batch": (1, 8), "seq": (1, 48)}


def test_what_is_known_of_a_quotient_by_a_size() -> None:
    rows_, length = symbol("rows", 1, 4), symbol("length", 2, 40)
    task, thread = Symbol("task", 0, 1), Symbol("thread", 0, 127)
    position = of(task) * 128 + of(thread)
    ranges = {task: Range(as_int(0), (rows_ * length + 127) // 128 - 1), thread: Range(as_int(0), as_int(127))}
    first = quotient(position, length)
    rest = position - first * length
    assert is_rest(rest)
    assert not is_rest(rest + 1)
    assert first * length + rest == position
    for value, shown in ((rest, True), (length - 1 - rest, True), (length - 2 - rest, False), (first, True)):
        assert at_least_zero(value, ranges) == shown
    inside = [rows_ * length - 1 - position]
    assert at_least_zero(rows_ - 1 - first, ranges, inside)
    assert not at_least_zero(rows_ - 1 - first, ranges)
    assert quotient(position, as_int(4)) == position // 4
    assert rejoined((first // 4) * length * 4 + (first % 4) * length) == first * length


def test_kernels_over_open_dimensions_have_groups() -> None:
    open_rows, open_batch = {"batch": (1, 4), "length": (2, 40)}, {"batch": (1, 8)}
    sides = {"batch": 1, "height": (8, 64, 4), "width": (8, 64, 4)}
    for network, dims in ((rows(), open_rows), (encoder(), DIMS), (images(), open_batch), (pyramid(), sides)):
        kernels = compile_model(network, "opencl", None, dims).kernels
        alone = [k.function.name for k in kernels if k.place == "opencl" and not k.function.has_threads]
        assert alone == []
        assert all(kernel.place == "opencl" for kernel in kernels)


@pytest.mark.family("opencl")
def test_an_open_batch_of_images(tmp_path: Any) -> None:
    dims, everywhere, random = {"batch": (1, 8)}, {"*": "opencl"}, np.random.default_rng(0)
    with (
        device_bundles.opencl(tmp_path),
        sterna.compile(images(), "opencl", dims=dims, device_for=everywhere) as there,
        sterna.compile(images(), dims=dims, generator="llvm") as here,
    ):
        for batch in (1, 5, 8):
            given_ = {"x": random.standard_normal((batch, 3, 22, 22)).astype(np.float32)}
            check(there.run(given_), here.run(given_), 1e-4)


@pytest.mark.family("opencl")
def test_an_open_height_and_width(tmp_path: Any) -> None:
    dims, random = {"batch": (1, 2), "height": (8, 64, 4), "width": (8, 64, 4)}, np.random.default_rng(1)
    with (
        device_bundles.opencl(tmp_path),
        sterna.compile(pyramid(), "opencl", dims=dims, device_for={"*": "opencl"}) as there,
        sterna.compile(pyramid(), dims=dims, generator="llvm") as here,
    ):
        for batch, height, width in ((1, 8, 8), (2, 64, 36), (1, 12, 64)):
            given_ = {"image": random.standard_normal((batch, 3, height, width)).astype(np.float32)}
            check(there.run(given_), here.run(given_), 1e-4)


@pytest.mark.family("opencl")
def test_an_encoder_at_all_sizes(tmp_path: Any) -> None:
    names = [i.name for i in encoder().graph.input]
    with (
        device_bundles.opencl(tmp_path),
        sterna.compile(encoder(layers=1), "opencl", dims=DIMS) as there,
        sterna.compile(encoder(layers=1), dims=DIMS) as here,
    ):

        @settings(max_examples=12, deadline=None, derandomize=True, database=None)
        @given(st.integers(1, 8), st.integers(1, 48), st.integers(0, 2**32 - 1))
        def agrees(batch: int, length: int, seed: int) -> None:
            draw = np.random.default_rng(seed)
            tokens = draw.integers(0, 2, (batch, length))
            tokens[:, 0] = 1
            given_ = dict.fromkeys(names, tokens)
            check(there.run(given_), here.run(given_), 1e-4)

        agrees()
