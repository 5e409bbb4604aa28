"""Damaged HDF5 files are refused with a code: read in a process of its own, so that a crash is a failure."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zlib
from pathlib import Path
from random import Random

import h5py
import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.frontends.hdf5.file import File
from sterna.frontends.hdf5.storage import Cursor
from support.tools import ROOT

#: Reads everything of each file in a folder; prints how many could be read and how many were refused.
READ_ALL = """
import sys
from pathlib import Path
from sterna.errors import SternaError
from sterna.frontends.hdf5.file import File

def read(thing):
    for name in thing.attrs:
        thing.attrs[name]
    if not hasattr(thing, "keys"):
        thing[()]

whole = refused = 0
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        file = File(path.read_bytes())
        read(file)
        file.visititems(lambda _, thing: read(thing))
        whole += 1
    except SternaError as mistake:
        assert mistake.codes == ("E0103",) and all(d.fix for d in mistake.diagnostics), mistake
        refused += 1
print(whole, refused)
"""
COUNT = 150


def model(form: str) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w", libver=form) as made:
        made.attrs["model_config"] = '{"class_name": "Sequential"}' * 20
        for n in range(12):
            made.attrs[f"layer_names{n}"] = [b"dense", b"other"]
            group = made.create_group(f"model_weights/dense_{n}")
            group.attrs["weight_names"] = np.array([b"kernel:0", b"bias:0"])
        group["kernel:0"] = np.arange(12, dtype=np.float32).reshape(3, 4)
        group.create_dataset("bias:0", data=np.arange(64.0), chunks=(4,), compression="gzip", shuffle=True)
        group["soft"] = h5py.SoftLink("kernel:0")
    return file.getvalue()


@pytest.mark.parametrize("form", ["earliest", "latest"])
def test_damaged_files_are_refused_or_read(form: str, tmp_path: Path) -> None:
    whole = model(form)
    random = Random(f"hdf5:{form}")
    places = [n for n, byte in enumerate(whole) if byte]  # most of a file is padding
    for number in range(COUNT):
        content = bytearray(whole)
        for _ in range(random.choice((1, 2, 8))):
            content[random.choice(places)] = random.choice((0, 1, 0x7F, 0xFF, random.randrange(256)))
        if number % 10 == 0:
            del content[random.randrange(len(content)) :]
        (tmp_path / f"{number:03}.h5").write_bytes(content)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    command = [sys.executable, "-c", READ_ALL, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read, refused = map(int, done.stdout.split())
    assert read + refused == COUNT
    assert read
    assert refused


def test_more_weights_than_a_file_can_hold_are_refused() -> None:
    """No memory is asked for: neither for what is stored nowhere, nor for what a few bytes would unpack to."""
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        made.create_dataset("nothing", (10**5, 10**5, 10**5), "f4")
        made.create_dataset("chunks", (10**15,), "f4", chunks=(10**6,), compression="gzip")
        made.create_dataset("stored", data=np.ones(4))
    held = File(file.getvalue())
    for name in ("nothing", "chunks"):
        assert held[name].nbytes == 4 * 10**15
        with pytest.raises(SternaError, match="bytes of weights are announced"):
            held[name][()]
    np.testing.assert_array_equal(held["stored"][()], np.ones(4))


def test_a_chunk_that_unpacks_to_more_than_it_may_is_refused() -> None:
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        array = made.create_dataset("a", (8,), "f4", chunks=(8,), compression="gzip")
        array.id.write_direct_chunk((0,), zlib.compress(bytes(10**7)))
    with pytest.raises(SternaError, match="a chunk has 36 bytes instead of 32"):
        File(file.getvalue())["a"][()]


@pytest.mark.parametrize("case", ["zeros", "ones", "counted"])
def test_a_chunk_whose_checksum_does_not_match_is_refused(case: str) -> None:
    numbers = {"zeros": np.zeros(64, np.uint8), "ones": np.full(63, 255, np.uint8)}.get(case)
    numbers = np.arange(99_999).astype(np.uint8) if numbers is None else numbers
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        array = made.create_dataset("a", data=numbers, chunks=numbers.shape, fletcher32=True)
        place = array.id.get_chunk_info(0).byte_offset
    content = bytearray(file.getvalue())
    np.testing.assert_array_equal(File(bytes(content))["a"][()], numbers)
    content[place + 7] ^= 16
    with pytest.raises(SternaError, match="checksum") as refusal:
        File(bytes(content))["a"][()]
    assert refusal.value.codes == ("E0103",)


def test_other_compressions_are_refused() -> None:
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        made.create_dataset("a", data=np.zeros(1000), chunks=(1000,), compression="lzf")
    with pytest.raises(SternaError, match="filter 32000") as refusal:
        File(file.getvalue())["a"][()]
    assert refusal.value.codes == ("E0103",)


def replaced(content: bytes, before: bytes, after: bytes) -> bytes:
    """The file with those bytes changed wherever they are."""
    assert before in content
    assert len(before) == len(after)
    return content.replace(before, after)


@pytest.mark.parametrize("form", ["earliest", "latest"])
def test_sizes_beyond_any_array_beside_zero_are_refused(form: str) -> None:
    file = io.BytesIO()
    with h5py.File(file, "w", libver=form) as made:
        made.create_dataset("a", (0, 0x11223344), "f4")
        made.attrs["b"] = np.zeros((0, 0x55667788), np.float32)
    content = file.getvalue()
    for size in (0x11223344, 0x55667788):
        content = replaced(content, size.to_bytes(8, "little"), (1 << 63).to_bytes(8, "little"))
    held = File(content)
    for read in (lambda: held["a"], lambda: held.attrs["b"]):
        with pytest.raises(SternaError, match="an array without elements has the shape"):
            read()


def test_chunks_of_a_number_without_dimensions_are_refused() -> None:
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        made.create_dataset("a", data=np.ones(77, np.float32), chunks=(77,))
    content = replaced(file.getvalue(), b"\x01\x01\x01" + bytes(5) + b"\x4d", b"\x01\x00\x01" + bytes(5) + b"\x4d")
    content = replaced(content, b"\x03\x02\x02", b"\x03\x02\x01")
    with pytest.raises(SternaError, match="has chunks of another shape"):
        File(content)["a"][()]


def test_a_text_that_many_elements_refer_to_is_refused() -> None:
    """No file can make itself many times as large by it."""
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        made.attrs["a"] = ["q" * 100_000, *[""] * 2000]
    content = file.getvalue()
    begin = content.index((100_000).to_bytes(4, "little"))
    content = content[:begin] + content[begin : begin + 16] * 2001 + content[begin + 16 * 2001 :]
    with pytest.raises(SternaError, match="refer to each other without end"):
        File(content).attrs["a"]


def test_a_part_of_a_negative_size_is_refused() -> None:
    content = io.BytesIO()
    h5py.File(content, "w").close()
    cursor = Cursor(File(content.getvalue()).storage, b"1234")
    with pytest.raises(SternaError, match="has -2 bytes"):
        cursor.take(-2)
    with pytest.raises(SternaError, match="ends 3 bytes too early"):
        cursor.take(7)


def test_links_through_many_names_are_bounded() -> None:
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        made["a"] = h5py.SoftLink("./" * 30_000)
        made["b"] = h5py.SoftLink("/a" + "/a" * 1000)
    with pytest.raises(SternaError, match="its links lead back to themselves"):
        File(file.getvalue())["b"]
