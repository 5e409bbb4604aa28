"""How samples are arranged, and what is said of those that do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.quantize.samples import Input, read_samples

IMAGE = Input("image", "float32", (1, 3, 4))
OPEN = Input("x", "float32", (None, 5))
LENGTH = Input("length", "int64", ())


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def shapes(data: object, *inputs: Input) -> list[dict[str, tuple[int, ...]]]:
    samples = read_samples(data, inputs)  # type: ignore[arg-type]
    return [{name: array.shape for name, array in feed.items()} for feed in samples.feeds]


def fails(data: object, *inputs: Input) -> tuple[str, ...]:
    with pytest.raises(SternaError) as caught:
        read_samples(data, inputs)  # type: ignore[arg-type]
    return caught.value.codes


def test_samples_lie_along_the_first_dimension() -> None:
    assert shapes({"image": zeros(6, 3, 4)}, IMAGE) == [{"image": (1, 3, 4)}] * 6
    assert shapes({"image": zeros(6, 1, 3, 4)}, IMAGE) == [{"image": (1, 3, 4)}] * 6
    assert shapes({"x": zeros(6, 5)}, OPEN) == [{"x": (1, 5)}] * 6
    assert shapes({"x": zeros(2, 6, 5)}, OPEN) == [{"x": (6, 5)}] * 2
    assert shapes({"image": zeros(6, 3, 4)}, Input("image", "float32", (2, 3, 4))) == [{"image": (2, 3, 4)}] * 3
    lengths = read_samples({"length": np.array([3, 5])}, (LENGTH,)).feeds
    assert [(type(feed["length"]), feed["length"].tolist()) for feed in lengths] == [(np.ndarray, 3), (np.ndarray, 5)]
    data = {"x": np.arange(10, dtype=np.float32).reshape(2, 5)}
    assert [feed["x"].tolist() for feed in read_samples(data, (OPEN,)).feeds] == [[[0, 1, 2, 3, 4]], [[5, 6, 7, 8, 9]]]


def test_single_arrays_may_differ_and_are_in_the_order_of_their_numbers() -> None:
    free = Input("x", "float32", (1, None))
    data = {"x.10": zeros(1, 7), "x.9": zeros(1, 3)}
    assert shapes(data, free) == [{"x": (1, 3)}, {"x": (1, 7)}]


def test_an_input_with_one_sample_has_it_for_all() -> None:
    data = {"image": zeros(3, 3, 4), "length": np.array(7)}
    samples = read_samples(data, (IMAGE, LENGTH))
    assert [int(feed["length"]) for feed in samples.feeds] == [7, 7, 7]
    data["length"] = np.arange(3)
    assert [int(feed["length"]) for feed in read_samples(data, (IMAGE, LENGTH)).feeds] == [0, 1, 2]


def test_files_and_folders(tmp_path: Path) -> None:
    for n, name in enumerate("ba"):
        np.savez(tmp_path / f"{name}.npz", image=np.full((2, 3, 4), n, np.float32), labels=np.array([n, n + 5]))
    one = read_samples(tmp_path / "a.npz", (IMAGE,))
    assert len(one) == 2
    both = read_samples(tmp_path, (IMAGE,))
    assert [feed["image"].max() for feed in both.feeds] == [1, 1, 0, 0]
    assert both.labels is not None
    assert both.labels.tolist() == [1, 6, 0, 5]


def test_what_does_not_fit() -> None:
    assert fails({}, IMAGE) == ("E0601",)
    assert fails({"image": zeros(1, 3, 4), "extra": zeros(1)}, IMAGE) == ("E0602",)
    assert fails({"image": zeros(1, 3, 4).astype(np.float64)}, IMAGE) == ("E0603",)
    assert fails({"image": zeros(2, 3, 5)}, IMAGE) == ("E0604",)
    assert fails({"image": zeros(2, 1, 3, 5)}, IMAGE) == ("E0604",)
    assert fails({"image": zeros(2)}, IMAGE) == ("E0604",)
    assert fails({"image": zeros(5, 3, 4)}, Input("image", "float32", (2, 3, 4))) == ("E0604",)
    assert fails({"image": zeros(2, 3, 4), "x": zeros(3, 5)}, IMAGE, OPEN) == ("E0604",)
    assert fails({"image": zeros(0, 3, 4)}, IMAGE) == ("E0702",)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(value: float) -> None:
    image = zeros(2, 3, 4)
    image[1, 2, 3] = value
    assert fails({"image": image}, IMAGE) == ("E0703",)


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", image=zeros(2, 3, 5), what=zeros(1))
    np.savez(tmp_path / "b.npz", image=np.full((1, 3, 4), np.nan, np.float32))
    assert fails(tmp_path, IMAGE, OPEN) == ("E0602", "E0604", "E0601", "E0703", "E0601")


def test_files_that_are_none(tmp_path: Path) -> None:
    assert fails(tmp_path / "missing.npz", IMAGE) == ("E0003",)
    assert fails(tmp_path, IMAGE) == ("E0702",)
    np.save(tmp_path / "one.npy", zeros(1, 3, 4))
    assert fails(tmp_path / "one.npy", IMAGE) == ("E0003",)
    (tmp_path / "text.npz").write_text("no archive")
    assert fails(tmp_path, IMAGE) == ("E0003",)
