"""MXNet's linear algebra and coordinates of elements, against NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.mxnet_symbols import parameters

RNG = np.random.default_rng(5)
SQUARE = RNG.normal(size=(2, 4, 4)).astype(np.float32)
POSITIVE = SQUARE @ SQUARE.transpose(0, 2, 1) + np.eye(4, dtype=np.float32)
FACTOR = np.linalg.cholesky(POSITIVE)


def result(folder: Path, op: str, *operands: np.ndarray, **said: Any) -> np.ndarray:
    nodes = [{"op": "null", "name": f"x{n}", "inputs": []} for n in range(len(operands))]
    attrs = {name: str(value) for name, value in said.items()}
    inputs = [[n, 0, 0] for n in range(len(operands))]
    nodes.append({"op": op, "name": "y", "attrs": attrs, "inputs": inputs})  # type: ignore[dict-item]
    symbol = {"nodes": nodes, "arg_nodes": [*range(len(operands))], "heads": [[len(operands), 0, 0]]}
    (folder / "model-symbol.json").write_text(json.dumps(symbol))
    (folder / "model-0000.params").write_bytes(parameters({"arg:unused": np.zeros(1, np.float32)}))
    feeds = {f"x{n}": x for n, x in enumerate(operands)}
    options = ReadOptions(shapes={name: x.shape for name, x in feeds.items()})
    (found,) = interpret(read_model(folder / "model-symbol.json", options), feeds).values()
    return found


@pytest.mark.parametrize("lower", [True, False])
def test_factors_and_inverses_of_them(tmp_path: Path, lower: bool) -> None:
    factor = FACTOR if lower else FACTOR.transpose(0, 2, 1)
    np.testing.assert_allclose(result(tmp_path, "_linalg_potrf", POSITIVE, lower=lower), factor, atol=1e-5)
    inverse = np.linalg.inv(POSITIVE)
    np.testing.assert_allclose(result(tmp_path, "_linalg_potri", factor, lower=lower), inverse, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("rightside", [True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_triangular_matrices(tmp_path: Path, transpose: bool, rightside: bool, lower: bool) -> None:
    """The other triangle is not read."""
    b = RNG.normal(size=(2, 3, 4) if rightside else (2, 4, 3)).astype(np.float32)
    a = np.tril(POSITIVE) if lower else np.triu(POSITIVE)
    a = a.transpose(0, 2, 1) if transpose else a
    said = {"transpose": transpose, "rightside": rightside, "lower": lower, "alpha": 1.5}
    wanted = 1.5 * (b @ a if rightside else a @ b)
    np.testing.assert_allclose(result(tmp_path, "_linalg_trmm", POSITIVE, b, **said), wanted, rtol=1e-4, atol=1e-5)
    inverse = np.linalg.inv(a)
    wanted = 1.5 * (b @ inverse if rightside else inverse @ b)
    np.testing.assert_allclose(result(tmp_path, "_linalg_trsm", POSITIVE, b, **said), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("offset", [0, 1, -2])
def test_diagonals(tmp_path: Path, offset: int) -> None:
    found = result(tmp_path, "_linalg_extractdiag", SQUARE, offset=offset)
    np.testing.assert_array_equal(found, np.diagonal(SQUARE, offset, 1, 2))
    made = result(tmp_path, "_linalg_makediag", found, offset=offset)
    np.testing.assert_array_equal(made, np.stack([np.diag(row, offset) for row in found]))


def test_coordinates_of_elements(tmp_path: Path) -> None:
    numbers = np.array([7, 59, 0, 33], np.float32)
    found = result(tmp_path, "_unravel_index", numbers, shape=(3, 4, 5))
    np.testing.assert_array_equal(found, np.unravel_index(numbers.astype(int), (3, 4, 5)))
    np.testing.assert_array_equal(result(tmp_path, "_ravel_multi_index", found, shape=(3, 4, 5)), numbers)


@pytest.mark.parametrize(
    ("op", "operand", "said", "code"),
    [
        ("_linalg_extractdiag", SQUARE, {"offset": 4}, "E0109"),
        ("_linalg_makediag", SQUARE[0], {"offset": 2**30}, "E0116"),
        ("_linalg_det", SQUARE[:, :3], {}, "E0108"),
        ("_unravel_index", SQUARE[0, 0], {"shape": (3, 0)}, "E0109"),
        ("_ravel_multi_index", SQUARE[0], {"shape": (3, 4)}, "E0108"),
    ],
)
def test_what_is_wrong_is_refused(
    tmp_path: Path, op: str, operand: np.ndarray, said: dict[str, Any], code: str
) -> None:
    with pytest.raises(SternaError, match=code):
        result(tmp_path, op, operand, **said)
