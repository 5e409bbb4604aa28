"""Groups of few channels: a tile has several that lie side by side, so that all threads access whole sectors. In the
interpreter, in random orders, against NumPy, and counted."""

from __future__ import annotations

import numpy as np
import pytest

from sterna.ir import dtypes
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.threads import run_threads
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.te.tensor import Kernel
from support.grouped_convolutions import Layer, grouped


def made(kernel: Kernel, target: str) -> P.Function:
    schedule = propose(kernel, Context(load_target(target)))
    assert schedule is not None
    return finish(lower(schedule))


@pytest.mark.parametrize(
    ("layer", "dtype", "least"),
    [
        ((12, 28, 32, 4, 4, 3, 1), "float32", 1.0),
        ((12, 28, 32, 4, 4, 3, 1), "float16", 1.0),
        ((14, 14, 32, 4, 4, 3, 2), "float16", 1.0),
        ((12, 28, 8, 5, 5, 3, 1), "float16", 0.9),
        ((12, 28, 32, 1, 2, 3, 1), "float32", 1.0),
        ((12, 28, 3, 12, 12, 3, 1), "float32", 1.0),
    ],
)
def test_accesses_are_whole_sectors(layer: Layer, dtype: str, least: float) -> None:
    counted = accesses(made(grouped(layer, dtype), "cuda-sm80"))
    assert counted.coalesced >= least * counted.accesses
    if 64 % layer[4] == 0:
        assert counted.conflicts == 0


@pytest.mark.parametrize(
    ("layer", "dtype"),
    [
        ((3, 5, 6, 4, 4, 3, 1), "float16"),
        ((3, 4, 9, 4, 4, 1, 2), "float32"),
        ((3, 5, 3, 5, 5, 2, 1), "float32"),
        ((2, 3, 20, 1, 2, 3, 1), "float16"),
        ((3, 4, 3, 6, 3, 2, 2), "float32"),
    ],
)
def test_results(layer: Layer, dtype: str) -> None:
    kernel, random = grouped(layer, dtype), np.random.default_rng(1)
    program = made(kernel, "cuda-sm80")
    given = {t.name: random.integers(-3, 4, [int(n) for n in t.shape]) for t in (*kernel.inputs, *kernel.params)}
    height, width, groups, deep, many, taps, stride = layer
    memory = {name: a.reshape(-1).astype(dtypes.to_numpy(dtype)) for name, a in given.items()}
    memory["out"] = np.zeros(height * width * groups * many, dtypes.to_numpy(dtype))
    run_threads(program, memory, order=np.random.default_rng(2))
    x = given["x"].reshape(*given["x"].shape[:2], groups, deep)
    wanted = np.zeros((height, width, groups, many), int) + given["b"]
    for i in range(taps):
        for j in range(taps):
            window = x[i : i + height * stride : stride, j : j + width * stride : stride][:height, :width]
            wanted += np.einsum("hwgk,kgc->hwgc", window, given["w"][i, j])
    np.testing.assert_array_equal(memory["out"].reshape(wanted.shape), wanted)
