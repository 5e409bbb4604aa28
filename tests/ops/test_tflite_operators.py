"""Random TensorFlow Lite operators against the reference kernels: integers bit for bit.

All are interpreted as tensor expressions, which is what both generators are held to, and one in four is compiled; those
with a state are compiled and run twice.

    STERNA_CASES=2000 pytest tests/ops/test_tflite_operators.py      # that many cases, spread over the operators

Without it: a few of every operator. `STERNA_SEED` is where the numbers of the cases begin (0). What ever failed is kept
in FAILED.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.frontends import tflite
from sterna.targets.description import load_target
from sterna_runtime import load
from support.tflite_builder import RefusedError, reference
from support.tflite_nodes import MAKERS, model_of

COUNT = int(os.environ.get("STERNA_CASES", "0"))
EACH = max(1, round(COUNT / len(MAKERS))) if COUNT else 2
FIRST = int(os.environ.get("STERNA_SEED", "0"))
#: Operators and the numbers of cases that failed once.
FAILED: dict[str, tuple[int, ...]] = {
    "FLOOR_DIV": (2, 3), "LOCAL_RESPONSE_NORMALIZATION": (0, 2), "LOG": (1, 5), "RESIZE_BILINEAR": (3,),
    "REVERSE_SEQUENCE": (0, 4), "RSQRT": (1, 4, 106), "SUM": (17,), "TANH": (6010,),
}  # fmt: skip
#: Largest error of floats, of the largest element, where it is not 2e-6: functions that both sides approximate, sums
#: of products that may cancel.
LOOSE = dict.fromkeys(
    ("ATAN2", "BATCH_MATMUL", "CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED",
     "LOCAL_RESPONSE_NORMALIZATION", "POW", "TRANSPOSE_CONV"), 1e-5
)  # fmt: skip
RECURRENT = {name for name in MAKERS if name.endswith(("LSTM", "RNN", "SVDF"))}


def agree(found: list[np.ndarray], expected: list[np.ndarray], rate: float, what: str) -> None:
    for have, want in zip(found, expected, strict=True):
        assert have.shape == want.shape, what
        assert have.dtype == want.dtype, what
        if want.dtype.kind == "f":
            finite = np.isfinite(want)
            np.testing.assert_array_equal(have[~finite], want[~finite], what)
            size = float(np.abs(want[finite]).max(initial=1e-3))
            np.testing.assert_allclose(have[finite], want[finite], rtol=rate, atol=rate * size, err_msg=what)
        else:
            np.testing.assert_array_equal(have, want, what)


def check(operator: str, number: int, folder: Path, *, is_compiled: bool = True) -> bool:
    """Compares one case; whether the reference runtime takes it."""
    model, draw = model_of(operator, number)
    runs: list[Mapping[str, np.ndarray]] = [model.feeds]
    if operator in RECURRENT:
        runs.append({name: draw.random.permutation(x.reshape(-1)).reshape(x.shape) for name, x in model.feeds.items()})
    content = model.content()
    try:
        expected = reference(content, runs, operator)
    except RefusedError:
        return False
    file = folder / f"{operator}_{number}.tflite"
    file.write_bytes(content)
    graph = tflite.read(file)
    rate, what = LOOSE.get(operator, 2e-6), f"{operator} {number}"
    if operator not in RECURRENT:
        found = list(interpret(graph, model.feeds).values())
        agree(found, expected[0], rate, what)
        if not is_compiled:
            return True
    compiled = compile_graph(graph, "node", Options(load_target("host"), "llvm"))
    with load(write_bundle(compiled, folder / f"{operator}_{number}")) as bundle:
        for feeds, want in zip(runs, expected, strict=True):
            found = list(bundle.run(feeds).values())
            agree(found, want, rate, what)
    return True


@pytest.mark.parametrize("operator", MAKERS)
def test_operator(operator: str, tmp_path: Path) -> None:
    numbers = range(FIRST, FIRST + EACH)
    taken = [check(operator, number, tmp_path, is_compiled=number % 4 == FIRST % 4) for number in numbers]
    assert any(taken), "the reference runtime refuses all of these"


@pytest.mark.parametrize(("operator", "number"), [(name, n) for name, numbers in FAILED.items() for n in numbers])
def test_what_failed_once(operator: str, number: int, tmp_path: Path) -> None:
    assert check(operator, number, tmp_path)
