"""The reader of HDF5 files reads what h5py writes, in the older and in the newer form of the format."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.frontends.hdf5.file import File, Group

FORMS = ("earliest", "latest")
TYPES = ("f2", "<f4", ">f4", "f8", "i1", "u2", ">i4", "u8", "?", "S5")


def written(write: Callable[[Any], None], form: str, **options: Any) -> bytes:
    """The content of a file."""
    file = io.BytesIO()
    with h5py.File(file, "w", libver=form, **options) as made:
        write(made)
    return file.getvalue()


def compare(reference: Any, ours: Any) -> None:
    """Asserts that an object has the same attributes and content for both readers."""
    assert sorted(ours.attrs) == sorted(reference.attrs)
    for name, value in reference.attrs.items():
        same(value, ours.attrs[name])
    if isinstance(reference, h5py.Dataset):
        assert (ours.shape, ours.dtype) == (reference.shape, reference.dtype.newbyteorder("="))
        same(reference[()], ours[()])
        return
    assert isinstance(ours, Group)
    assert list(ours) == sorted(reference)
    for name, value in reference.items():
        compare(value, ours[name])


def same(wanted: Any, got: Any) -> None:
    wanted, got = np.asarray(wanted), np.asarray(got)
    assert wanted.shape == got.shape
    if wanted.dtype.kind not in "OS":  # a single text has a dtype of its own length
        assert wanted.dtype.newbyteorder("=") == got.dtype
    np.testing.assert_array_equal(wanted, got)


def agree(content: bytes) -> None:
    with h5py.File(io.BytesIO(content), "r") as reference:
        compare(reference, File(content))


@st.composite
def datasets(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """An array and how it is stored."""
    shape = tuple(draw(st.lists(st.integers(0, 7), max_size=4)))
    kind = np.dtype(draw(st.sampled_from(TYPES)))
    numbers = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    options: dict[str, Any] = {}
    if shape and 0 not in shape and draw(st.booleans()):
        options["chunks"] = tuple(draw(st.integers(1, length)) for length in shape)
        options["compression"] = draw(st.sampled_from([None, "gzip"]))
        options["shuffle"] = draw(st.booleans())
        options["fletcher32"] = draw(st.booleans()) and kind.kind != "S"
    return numbers.astype(kind), options


@given(stored=st.lists(datasets(), min_size=1, max_size=3), form=st.sampled_from(FORMS))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_arrays(stored: list[tuple[np.ndarray[Any, Any], dict[str, Any]]], form: str) -> None:
    def write(made: Any) -> None:
        for n, (array, options) in enumerate(stored):
            made.create_dataset(f"a/b{n}", data=array, **options)

    agree(written(write, form))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("count", "ordered"), [(0, False), (1, True), (9, False), (300, True), (300, False)])
def test_groups_of_any_size(form: str, count: int, ordered: bool) -> None:
    """The newer form keeps many links in a heap, the older one in a tree."""

    def write(made: Any) -> None:
        outer = made.create_group("outer", track_order=ordered)
        for n in range(count):
            outer.create_group(f"layer_{n * 7919 % 1000}_{'n' * (n % 50)}").attrs["name"] = f"layer {n}"

    agree(written(write, form))


@pytest.mark.parametrize("form", FORMS)
def test_attributes(form: str) -> None:
    """Texts and arrays of texts, fixed and variable; many attributes, and large ones."""

    def write(made: Any) -> None:
        values: dict[str, Any] = {
            "text": "Ünïcode", "bytes": b"abc", "empty": "", "fixed": np.bytes_(b"fixed"), "number": 3,
            "half": np.float16(0.5), "truth": True, "numbers": np.arange(6).reshape(2, 3), "texts": ["a", "bcd", ""],
            "names": [b"k:0", b"b:0"],
            "fixed_texts": np.array([b"kernel:0", b"bias:0"]), "none": np.zeros((0, 2), np.float32),
            "config": "{" + "x" * 300_000 + "}",
        }  # fmt: skip
        made.attrs.update(values)
        group = made.create_group("many")
        for n in range(200):
            group.attrs[f"weight_names{n}"] = np.array([b"n" * (n * 13 % 5000 + 1)])
        for n in range(3):
            made.create_dataset(f"array{n}", data=np.ones(2)).attrs.update(values)
        if form == "latest":
            made.attrs["large"] = np.arange(40_000)

    agree(written(write, form))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(40, 60), (3000,), (5, 6, 7)])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_many_chunks(form: str, shape: tuple[int, ...], compression: str | None) -> None:
    """More of them than a node of an index, or a page, holds; some were never written."""

    def write(made: Any) -> None:
        array = made.create_dataset("a", shape, "f4", chunks=(2,) * len(shape), compression=compression, fillvalue=3)
        array[: shape[0] // 2] = 5.0
        grows = made.create_dataset("b", shape, "i2", chunks=(3,) * len(shape), maxshape=(None,) * len(shape))
        if form == "latest" and len(shape) == 1:  # the one index that is not read
            del made["b"]
        else:
            grows[...] = np.arange(np.prod(shape)).reshape(shape)
        made.create_dataset("c", shape, "f4", fillvalue=2)  # nothing is stored

    agree(written(write, form))


def test_an_array_that_grows_in_the_newest_form_is_refused() -> None:
    content = written(lambda made: made.create_dataset("a", data=np.ones(50), chunks=(2,), maxshape=(None,)), "latest")
    with pytest.raises(SternaError, match="array that can grow") as refusal:
        File(content)["a"][()]
    assert refusal.value.codes == ("E0103",)


@pytest.mark.parametrize("form", FORMS)
def test_links(form: str, tmp_path: Path) -> None:
    """Symbolic ones lead on within the file; those to nothing, in a circle or to another file lead nowhere."""

    def write(made: Any) -> None:
        made["a/b"] = np.ones(3)
        made["a/same"] = made["a/b"]
        made["soft"], made["far"] = h5py.SoftLink("/a/b"), h5py.ExternalLink("x.h5", "/a")
        made["lost"] = h5py.SoftLink("no")
        made["circle"], made["a/up"] = h5py.SoftLink("/circle"), made["/"]
        made["type"] = np.dtype("f4")
        made.create_dataset("typed", data=np.ones(2, np.float32), dtype=made["type"])

    path = tmp_path / "links.h5"
    path.write_bytes(written(write, form))
    file = File(path)
    np.testing.assert_array_equal(file["soft"][()], np.ones(3))
    np.testing.assert_array_equal(file["a/up/a/same"][()], np.ones(3))
    np.testing.assert_array_equal(file["typed"][()], np.ones(2))
    assert [file.get(name) for name in ("far", "lost", "type", "a/b/c", "nothing")] == [None] * 5
    seen: list[str] = []
    file.visititems(lambda name, _: seen.append(name))
    assert sorted(name.split("/")[-1] for name in seen) == ["a", "b", "typed"]
    with pytest.raises(SternaError, match="lead back"):
        file["circle"]
    file.close()


def test_bfloat16_is_widened() -> None:
    """As HDF5 itself describes it: no numpy dtype has these bits."""

    def write(made: Any) -> None:
        kind = h5py.h5t.IEEE_F32LE.copy()
        kind.set_fields(15, 7, 8, 0, 7)
        kind.set_size(2)
        kind.set_ebias(127)
        space = h5py.h5s.create_simple((4,))
        array = h5py.h5d.create(made.id, b"a", kind, space)
        array.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([1.0, -2.5, 0.0, 3e38], np.float32))

    got = File(written(write, "earliest"))["a"][()]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, [1.0, -2.5, 0.0, 3e38], rtol=1 / 128)


def test_what_is_no_number_is_known_by_its_size() -> None:
    pair = np.dtype([("x", "f4"), ("y", "i8")])
    content = written(lambda made: made.create_dataset("a", data=np.zeros(3, pair)), "earliest")
    assert File(content)["a"].dtype == np.dtype("V12")
