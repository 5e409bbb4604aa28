"""Products by fragments whose depth fills no fragment, and whose rows are no whole sectors: rows of both matrices are
copied in runs and filled up by zeros, rows of the result are one task's. In random orders of threads, and counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sterna.codegen import ptx
from sterna.errors import SternaError
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.te.tensor import Kernel
from support.bound_axes import compare, results
from support.cuda_host import CUDA
from support.fragment_products import convolution, feeds, product, proposed, with_fragments
from support.grouped_convolutions import Layer, grouped

AMPERE = load_target("cuda-sm80")
LANGUAGE = replace(CUDA, target=replace(AMPERE, device=None))


def made(kernel: Kernel) -> P.Function:
    schedule = propose(kernel, Context(AMPERE))
    assert schedule is not None
    return finish(lower(schedule))


def filled(body: P.Stmt) -> bool:
    """Whether zeros take the place of copies."""
    return any(
        isinstance(s, P.If) and isinstance(s.then, P.Copy) and isinstance(s.otherwise, (P.For, P.Store))
        for s in P.walk(body)
    )


@pytest.mark.parametrize(
    "kernel",
    [
        product(40, 40, 24),
        product(20, 24, 40, ("row", "col")),
        product(33, 24, 24, ("col", "col")),
        product(17, 16, 12, dtype="tf32"),
        convolution(5, 40, 24, 3, 1),
        grouped((3, 4, 4, 8, 8, 3, 2), "float16"),
        convolution(5, 24, 3, 1, 1),
    ],
    ids=["rows", "columns on the right", "both", "TF32", "channels", "groups of few channels", "few columns"],
)
def test_results(kernel: Kernel, tmp_path: Path) -> None:
    s = proposed(kernel)
    program = finish(lower(s))
    assert with_fragments(program.body)
    assert filled(program.body)
    compare(s, None, tmp_path, tolerance=0, orders=2, language=LANGUAGE, feeds=feeds(kernel))


def test_what_lies_behind_a_row_is_no_part_of_it() -> None:
    """Zeros are multiplied in its place: a product of infinity and zero would be no number."""
    kernel = product(20, 16, 24)
    given = feeds(kernel)
    given["x"][7] = np.inf
    ((_, found),) = results(proposed(kernel), None, orders=1, feeds=given)
    rows = found["out"].reshape(20, 16)
    assert np.isfinite(np.delete(rows, 7, axis=0)).all()
    assert not np.isfinite(rows[7]).all()


@pytest.mark.parametrize(
    ("size", "channels", "outputs", "taps"),
    [(28, 24, 72, 1), (28, 40, 120, 1), (28, 120, 40, 1), (28, 40, 40, 3), (28, 24, 24, 3), (28, 96, 104, 1)],
)
def test_accesses_are_wide_and_whole_sectors(size: int, channels: int, outputs: int, taps: int) -> None:
    found = accesses(made(convolution(size, channels, outputs, taps, 1)), widths=ptx.widths(AMPERE))
    assert found.fragments >= size * size * channels * outputs * taps * taps
    assert found.wide_bytes == found.bytes
    assert found.coalesced >= 0.98 * found.accesses
    assert found.conflicts == 0


@pytest.mark.parametrize("columns", [2, 3, 4, 7])
def test_few_columns_are_on_fragments(columns: int) -> None:
    """Of an image or a mask; all that a task stores lies side by side."""
    found = accesses(made(convolution(64, 32, columns, 3, 1)), widths=ptx.widths(AMPERE))
    assert found.fragments
    assert found.coalesced == found.accesses
    assert found.conflicts == 0


def test_runs_divide_the_terms() -> None:
    s = Schedule(product(16, 16, 20))
    with pytest.raises(SternaError, match=r"E0302.*no runs of 8") as caught:
        s.as_matrices("acc", [], ["k"], 16, run=8)
    assert set(caught.value.codes) == {"E0302"}


@pytest.mark.parametrize(
    ("layer", "coalesced"),
    [((14, 14, 32, 8, 8, 3, 1), 1.0), ((14, 14, 8, 24, 24, 3, 1), 1.0), ((14, 14, 8, 8, 16, 3, 2), 0.99)],
)
def test_groups_side_by_side(layer: Layer, coalesced: float) -> None:
    """A group of 8 channels is half a sector of each position; a task has as many groups as are whole ones."""
    found = accesses(made(grouped(layer, "float16")), widths=ptx.widths(AMPERE))
    assert found.fragments
    assert found.coalesced >= coalesced * found.accesses
    assert found.conflicts == 0


@pytest.mark.parametrize("layer", [(3, 5, 4, 8, 8, 3, 1), (3, 6, 2, 24, 24, 1, 2), (4, 4, 6, 8, 16, 2, 1)])
def test_groups_in_random_orders(layer: Layer) -> None:
    kernel = grouped(layer, "float16")
    s = proposed(kernel)
    assert with_fragments(finish(lower(s)).body)
    compare(s, None, tolerance=0, orders=2, feeds=feeds(kernel))
