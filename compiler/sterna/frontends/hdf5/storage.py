"""The bytes of an HDF5 file: bounded reads, and a cursor over a block of them."""

from __future__ import annotations

import io
from pathlib import Path

from sterna.errors import SternaError, error
from sterna.ir.graph import Array

#: What all blocks but weights may add up to: files times this, and never more than `MOST_STRUCTURE` of a large one. A
#: whole file reads each of its blocks once; only a damaged one refers to the same bytes again and again.
_STRUCTURE_TIMES, _LEAST_STRUCTURE = 32, 1 << 16
MOST_STRUCTURE = 256 << 20
#: What all weights may add up to, chunks counted beside the arrays that they go to. Deflate makes nothing smaller than
#: a 1032nd.
_DATA_TIMES, _LEAST_DATA = 2200, 1 << 20
MOST_DATA = 16 << 30
_EVERY_READ = 16  # bytes that a read counts in addition to those that it gives, as it takes time of its own


def damaged(reason: str) -> SternaError:
    """E0103 for a file that does not keep to the format."""
    return error("E0103", "the HDF5 file is damaged", reason, fix="copy the file again, or save the model anew")


def not_read(reason: str) -> SternaError:
    """E0103 for a part of the format that is not read."""
    title = "the HDF5 file is stored in a way that is not read"
    return error("E0103", title, reason, fix="save the model anew with Keras")


class Storage:
    """An open HDF5 file.

    Args:
        file: a path or the content.

    Attributes:
        size: of the file in bytes.
        offset_size, length_size: bytes of an address and of a length, as the superblock says.
    """

    def __init__(self, file: Path | bytes):
        self._file: io.BytesIO | io.BufferedReader = io.BytesIO(file) if isinstance(file, bytes) else file.open("rb")
        self.size = self._file.seek(0, io.SEEK_END)
        self.offset_size = self.length_size = 8
        self._structure = min(self.size * _STRUCTURE_TIMES, MOST_STRUCTURE) + _LEAST_STRUCTURE
        self._data = max(min(self.size * _DATA_TIMES, MOST_DATA), self.size * 4) + _LEAST_DATA

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def read(self, address: int, size: int) -> bytes:
        """A block of the file's structure.

        Raises:
            SternaError: E0103, it does not lie in the file, or more was read than the file can hold.
        """
        self._check(address, size)
        self.count(size + _EVERY_READ)
        self._file.seek(address)
        return self._file.read(size)

    def count(self, size: int) -> None:
        """Counts bytes of the file's structure that are about to be looked at.

        Raises:
            SternaError: E0103, they are more than the file can hold.
        """
        self._structure -= size
        if self._structure < 0:
            raise damaged("its blocks refer to each other without end")

    def cursor(self, address: int, size: int) -> Cursor:
        """A cursor over a block."""
        return Cursor(self, self.read(address, size))

    def block(self, address: int | None, signature: bytes, size: int) -> Cursor:
        """A cursor over a block, past the signature that it begins with.

        Args:
            size: of the block with its signature, as far as it is wanted; less is there at the end of the file.
        """
        if address is None:
            raise damaged(f"a block {signature.decode()} has no address")
        cursor = self.cursor(address, min(size, max(self.size - address, 0)))
        if cursor.take(len(signature)) != signature:
            raise damaged(f"no block {signature.decode()} is at {address}")
        return cursor

    def charge(self, size: int) -> None:
        """Counts bytes of weights that are about to be made.

        Raises:
            SternaError: E0103, they are more than the file can hold.
        """
        if size > self._data:
            raise damaged(f"{size} bytes of weights are announced in a file of {self.size} bytes")
        self._data -= size

    def read_data(self, address: int, size: int) -> bytes:
        """Stored weights, which `charge` counted."""
        self._check(address, size)
        self._file.seek(address)
        return self._file.read(size)

    def fill(self, array: Array, address: int) -> None:
        """Reads weights into an array of one dimension, without a copy."""
        self._check(address, array.nbytes)
        self._file.seek(address)
        target = memoryview(array.data).cast("B") if array.size else memoryview(b"")
        while target:
            count = self._file.readinto(target)
            if not count:
                raise damaged("it ends within its weights")
            target = target[count:]

    def _check(self, address: int, size: int) -> None:
        if address < 0 or size < 0 or address + size > self.size:
            raise damaged(f"{size} bytes at {address} lie past its end, at {self.size}")


class Cursor:
    """A place in a block.

    Args:
        storage: says how long addresses and lengths are.
    """

    def __init__(self, storage: Storage, data: bytes):
        self.storage, self.data, self.at = storage, data, 0

    @property
    def left(self) -> int:
        """Bytes after the place."""
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        """The next bytes.

        Raises:
            SternaError: E0103, the block ends before, or the size is negative.
        """
        if size < 0:
            raise damaged(f"a part of a block has {size} bytes")
        if size > self.left:
            raise damaged(f"a block ends {size - self.left} bytes too early")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        """An unsigned integer of that many bytes."""
        return int.from_bytes(self.take(size), "little")

    def address(self) -> int | None:
        """An address; None where nothing is stored."""
        size = self.storage.offset_size
        value = self.number(size)
        return None if value == (1 << (8 * size)) - 1 else value

    def length(self) -> int:
        """A length."""
        return self.number(self.storage.length_size)

    def within(self, size: int) -> Cursor:
        """A cursor over the next bytes, which this one passes."""
        return Cursor(self.storage, self.take(size))

    def align(self, size: int) -> None:
        """Passes padding up to a multiple of `size` from the block's beginning, as far as the block goes."""
        self.at = min(-(-self.at // size) * size, len(self.data))

    def text(self) -> str:
        """A text that ends in a zero, or with the block; past the zero."""
        end = self.data.find(b"\0", self.at)
        found = self.take((end if end >= 0 else len(self.data)) - self.at)
        self.at = min(self.at + 1, len(self.data))
        return decoded(found)


def decoded(text: bytes) -> str:
    """UTF-8 as a text, which a damaged file does not prevent."""
    return text.decode("utf-8", "replace")
