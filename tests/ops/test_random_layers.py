"""A sample of `ci/random-layers`: random networks of Keras on NumPy, beside Keras."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("KERAS_BACKEND", "numpy")
pytest.importorskip("keras", reason="keras is not installed")
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from random_layers.compare import difference, outcome_of
from random_layers.drawing import Draw
from random_layers.keras_layers import write

NUMBERS = range(2000, 2012)


@pytest.mark.parametrize("number", NUMBERS)
def test_random_networks_of_keras(number: int, tmp_path: Path) -> None:
    """All three kinds of files, by the number."""
    for attempt in range(40):
        said = write(Draw(1, number, attempt), tmp_path, number)
        if said is not None:
            break
        for file in tmp_path.iterdir():
            file.unlink()
    else:
        pytest.fail("Keras took no draw")
    (tmp_path / "layers.txt").write_text(said)
    outcome, why = outcome_of(tmp_path, compiled=number % 6 == 0)
    assert outcome == "agree", f"{why}: {said}"


def test_differences_are_seen() -> None:
    """Shapes, element types, elements, NaN: the comparison says which."""
    one = Draw(0).floats(2, 3)
    assert not difference([one], [one.copy()], halves=False)
    assert "shapes" in difference([one], [one[:1]], halves=False)
    assert "float64" in difference([one], [one.astype("float64")], halves=False)
    assert "by" in difference([one], [one + 1e-2], halves=False)
    other = one.copy()
    other[0, 0] = float("nan")
    assert "NaN" in difference([one], [other], halves=False)
