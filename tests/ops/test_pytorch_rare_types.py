"""PyTorch's operators of element types and sizes that few models have: unsigned integers, scalars, empty matrices."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from sterna.debug.interpret import interpret
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


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_whole_spectra_of_integers(dtype: str) -> None:
    """Sizes and factors are those of floats."""
    x = np.arange(-5, 7).reshape(3, 4).astype(dtype)
    program = Program()
    program.tensor("z", "complex64", (3, 6))
    made = program.call("aten.fft_fft.default", "z", self=program.input("x", (3, 4), dtype), n=6, norm="ortho")
    program.output(program.call("aten.view_as_real.default", "y", self=made))
    with tempfile.TemporaryDirectory() as folder:
        (found,) = interpret(read_model(program.write(Path(folder) / "m.pt2")), {"x": x}).values()
    close(found.view(np.complex64)[..., 0], np.fft.fft(x, n=6, norm="ortho"))


@pytest.mark.parametrize("dtype", ["int16", "int32", "float32"])
def test_numbers_between_computed_ends(dtype: str) -> None:
    for start, end in ((50, 1), (1, 50), (-7, 6)):
        (found,) = called(
            "aten.linspace.Tensor_Tensor", start=np.array(start), end=np.array(end), steps=50, dtype=Type(dtype)
        )
        assert found.dtype == dtype
        close(found, np.linspace(start, end, 50, dtype=np.float32).astype(dtype))


def test_rows_outside_of_all_segments() -> None:
    """They are left out, before the first and behind the last segment."""
    d = np.array([[5], [1], [4], [9], [-8], [-9]], np.float32)
    settings = {"axis": 0, "unsafe": True}
    (found,) = called(
        "aten.segment_reduce.default", data=d, reduce="min", lengths=np.array([2, 0, 2]), initial=2.0, **settings
    )
    assert found[:, 0].tolist() == [1, 2, 2]
    (found,) = called("aten.segment_reduce.default", data=d, reduce="sum", offsets=np.array([1, 3, 3, 5]), **settings)
    assert found[:, 0].tolist() == [5, 0, 1]
    (found,) = called("aten.segment_reduce.default", data=d, reduce="mean", lengths=np.array([2, 1]), **settings)
    assert found[:, 0].tolist() == [3, 4]


def test_matrices_without_elements_are_solved() -> None:
    a = np.zeros((0, 0), np.float32)
    for target, name in (("cholesky_ex", "self"), ("inv_ex", "A")):
        program = Program()
        program.tensor("y", "float32", (0, 0))
        program.tensor("info", "int32", ())
        made = program.call(f"aten.linalg_{target}.default", "y", "info", **{name: program.input("x", (0, 0))})
        for value in made:
            program.output(value)
        with tempfile.TemporaryDirectory() as folder:
            y, info = interpret(read_model(program.write(Path(folder) / "m.pt2")), {"x": a}).values()
        assert y.shape == (0, 0)
        assert info == 0
    assert called("aten.linalg_norm.default", self=a, ord=2)[0] == 0


def test_similarity_of_numbers() -> None:
    (found,) = called(
        "aten.cosine_similarity.default", x1=np.float32([3])[0:1].reshape(()), x2=np.float32([-2]).reshape(()), dim=0
    )
    close(found, np.float32(-1))


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_sizes_of_bags_are_as_many_as_the_program_says(mode: int) -> None:
    rng = np.random.default_rng(5)
    w, i, ends = rng.standard_normal((6, 3)).astype(np.float32), np.array([0, 5, 2, 2]), np.array([0, 1, 4])
    program = Program()
    program.tensor("bags", "int64", (2,))
    names = (program.input("w", (6, 3)), program.input("i", (4,), "int64"), program.input("o", (3,), "int64"))
    for name in ("y", "own", "most"):
        program.tensor(name, "float32" if name == "y" else "int64", {"y": (2, 3), "own": (4,), "most": (2, 3)}[name])
    made = program.call(
        "aten.embedding_bag.padding_idx", "y", "own", "bags", "most", weight=names[0], indices=names[1],
        offsets=names[2], mode=mode, include_last_offset=True, padding_idx=2,
    )  # fmt: skip
    program.output(made[0])
    with tempfile.TemporaryDirectory() as folder:
        (found,) = interpret(read_model(program.write(Path(folder) / "m.pt2")), {"w": w, "i": i, "o": ends}).values()
    close(found, np.stack([w[0], w[5]]))
