"""PyTorch's operators of element types and sizes that few models have: unsigned integers, scalars, empty matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sterna.frontends.formats import read_model
from support.exported_programs import Program, Type
from support.pytorch_calls import called, close


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_polygamma_of_negative_numbers(n: int) -> None:
    """By the recurrence from the numbers above 0, which SciPy has."""
    special = pytest.importorskip("scipy.special")
    x = np.array([-0.3, -1.75, -4.6, 0.4, 2.5])
    wanted = special.polygamma(n, x + 6)
    for k in range(6):
        wanted = wanted - (-1) ** n * special.factorial(n) / (x + k) ** (n + 1)
    for dtype, tolerance in (("float32", 2e-4), ("float64", 1e-9)):
        (found,) = called("aten.polygamma.default", n=n, self=x.astype(dtype))
        np.testing.assert_allclose(found, wanted, rtol=tolerance)
    (poles,) = called("aten.polygamma.default", n=n, self=np.array([0, -1, -3], np.float32))
    assert (poles == (np.inf if n % 2 else -np.inf)).all()


def test_areas_of_unsigned_integers_wrap() -> None:
    rng = np.random.default_rng(31)
    y, x = np.array([9, 200, 7, 3], np.uint8), np.array([5, 3, 10, 8], np.uint8)
    parts = ((y[1:] + y[:-1]) * (x[1:] - x[:-1])).astype(np.uint8).astype(np.float32) / 2
    (found,) = called("aten.trapezoid.x", y=y, x=x)
    assert found.dtype == np.float32
    close(found, parts.sum())
    close(called("aten.cumulative_trapezoid.x", y=y, x=x)[0], np.cumsum(parts))
    given = rng.standard_normal((3, 4)).astype(np.float32)
    areas = (given[:, 1:] + given[:, :-1]) * np.diff(given) / 2
    close(called("aten.trapz.x", y=given, x=given)[0], areas.sum(axis=1))


def test_losses_of_unsigned_integers() -> None:
    a, b, sign = (np.array(each, np.uint8) for each in ([[3, 9]], [[5, 4]], [[1, 2]]))
    gap = (np.negative(sign) * (a - b)).astype(np.uint8)
    (found,) = called("aten.margin_ranking_loss.default", input1=a, input2=b, target=sign, margin=0.5, reduction=0)
    close(found, gap.astype(np.float32) + 0.5)
    far = np.array([[1, 9]], np.uint8)
    (found,) = called("aten.triplet_margin_loss.default", anchor=a, positive=b, negative=far, reduction=0)
    near, away = (np.linalg.norm((a - each).astype(np.float32) + 1e-6, axis=1) for each in (b, far))
    close(found, np.maximum(near - away + 1, 0), 1e-4)


def test_margins_of_scalars_and_of_many_labels() -> None:
    rng = np.random.default_rng(31)
    score, target = np.array(0.7, np.float32), np.array(0, np.int64)
    assert called("aten.multi_margin_loss.default", self=score, target=target)[0].tolist() == 0
    x = rng.standard_normal((3, 4)).astype(np.float32)
    labels = np.array([[3, 0, -1, 1], [-1, 2, 2, 2], [0, 1, 2, 3]], np.int64)
    wanted = []
    for row, listed in zip(x, labels, strict=True):
        first = next((n for n, label in enumerate(listed) if label < 0), 4)
        names = set(listed[:first].tolist())
        others = [n for n in range(4) if n not in names]
        wanted.append(sum(max(0.0, 1 - row[n] + row[m]) for n in listed[:first] for m in others) / 4)
    found, hit = called("aten.multilabel_margin_loss_forward.default", "o", "t", self=x, target=labels, reduction=0)
    close(found, wanted)
    assert hit.tolist() == [[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]]
    mean = called("aten.multilabel_margin_loss.default", self=x[0], target=labels[0])[0]
    close(mean, wanted[0])


def test_soft_margins_overflow_as_powers_do() -> None:
    x, y = np.array([-20.0, 2.0], np.float16), np.array([1.0, 1.0], np.float16)
    (found,) = called("aten.soft_margin_loss.default", self=x, target=y, reduction=0)
    assert found[0] == np.inf
    close(found[1:], np.log1p(np.exp(-2.0, dtype=np.float32))[None], 2e-3)


@pytest.mark.parametrize("target", ["linalg_det.default", "logdet.default", "linalg_matrix_rank.default"])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_numbers_of_empty_matrices(target: str, lead: tuple[int, ...]) -> None:
    a = np.zeros((*lead, 0, 0), np.float32)
    (found,) = called(f"aten.{target}", **{"self" if target.startswith("logdet") else "A": a})
    np.testing.assert_array_equal(found, np.full(lead, 1.0 if "det." in target and "log" not in target else 0.0))


def test_scalars_among_ranks() -> None:
    one = np.array(4.0, np.float32)
    assert called("aten.quantile.scalar", self=one, q=0.3, dim=0, keepdim=True)[0].tolist() == 4
    both = called("aten.quantile.default", self=one, q=np.array([0.1, 0.9], np.float32), dim=-1)[0]
    assert both.tolist() == [4, 4]
    assert called("aten.linalg_vander.default", x=np.array(3, np.int64), N=3)[0].tolist() == [[1, 3, 9]]
    powers = called("aten.linalg_vander.default", x=np.array([5, 2], np.uint8), N=5)[0]
    assert (powers.dtype, powers[0, 4]) == (np.int64, 625)
    for target, name in (("nonzero_numpy", "self"), ("where", "condition")):
        assert called(f"aten.{target}.default", **{name: np.array(2.0, np.float32)})[0].tolist() == [0]
        assert called(f"aten.{target}.default", **{name: np.array(0.0, np.float32)})[0].tolist() == []


def test_ranges_of_integers_step_by_whole_numbers() -> None:
    (found,) = called("aten.arange.start_step", start=0.1, end=-7.9, step=-4.0, dtype=Type("int8"))
    assert (found.dtype, found.tolist()) == (np.int8, [0, -4])
    (found,) = called("aten.arange.start_step", start=0.1, end=-7.9, step=-4.0, dtype=Type("uint8"))
    assert found.tolist() == [0, 252]


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_halves_of_spectra_may_be_integers(dtype: str) -> None:
    rng = np.random.default_rng(31)
    x = rng.integers(0, 5, (3, 4)).astype(dtype)
    close(called("aten.fft_hfft.default", self=x)[0], np.fft.hfft(x), 1e-4)
    close(called("aten.fft_irfft.default", self=x, n=5)[0], np.fft.irfft(x, 5), 1e-4)


def test_sums_at_masked_places() -> None:
    x, values = np.zeros((3, 4), np.float32), np.array([1, 2, 4, 8], np.float32)
    rows, columns, mask = np.array([0, 9, 0, 2]), np.array([1, 9, 1, 3]), np.array([True, False, True, True])
    (found,) = called(
        "aten._unsafe_masked_index_put_accumulate.default", self=x, mask=mask, indices=[rows, columns], values=values
    )
    wanted = np.zeros((3, 4))
    wanted[0, 1], wanted[2, 3] = 5, 8
    np.testing.assert_array_equal(found, wanted)


def test_factors_of_a_known_and_an_open_size(tmp_path: Path) -> None:
    """20 times 0.9 is 18, and less in float32; the other size is not known when the graph is read."""
    program = Program()
    width = program.open("w", 2, 40)
    x = program.input("x", (1, 2, 20, width))
    program.output(program.call("aten.upsample_nearest2d.vec", input=x, output_size=None, scale_factors=[0.9, 0.5]))
    graph = read_model(program.write(tmp_path / "model.pt2"))
    height, columns = graph.outputs[0].type.shape[2:]
    assert (int(height), columns.is_const) == (18, False)
