"""HDF5 files: groups, attributes and arrays, with the names that h5py gives to what is asked of them.

file = File(path)
file.attrs.get("model_config")
file["layers/dense/vars/0"][()]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sterna.frontends.hdf5 import headers
from sterna.frontends.hdf5.datasets import Dataset
from sterna.frontends.hdf5.datatypes import Datatype, Kind, datatype
from sterna.frontends.hdf5.headers import Message, messages, shape_of, shared_body
from sterna.frontends.hdf5.heaps import FractalHeap, global_heap, local_heap
from sterna.frontends.hdf5.indexes import records, tree_children
from sterna.frontends.hdf5.storage import Cursor, Storage, damaged, decoded, not_read

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MOST_LINKS = 32  # symbolic links that a name may lead through
_MOST_FOLLOWED = 100_000  # names in all links that are followed, as one link may lead through several
_HARD, _SOFT = 0, 1
_LINK_NAMES, _ATTRIBUTE_NAMES = 5, 8  # kinds of records in B-trees


class _Objects:
    """The objects of a file by their addresses, each read once, with its heaps."""

    def __init__(self, storage: Storage):
        self.storage = storage
        self._found: dict[int, Group | Dataset | None] = {}
        self._heaps: dict[int, dict[int, bytes]] = {}
        self.top: Group | None = None
        self.followed = 0

    def at(self, address: int) -> Group | Dataset | None:
        """A group or a dataset; None for what is neither."""
        if address not in self._found:
            found = messages(self.storage, address)
            kinds = {message.kind for message in found}
            attrs = Attributes(self, found)
            made: Group | Dataset | None = None
            if headers.LAYOUT in kinds:
                made = Dataset(self.storage, found, attrs)
            elif kinds & {headers.SYMBOL_TABLE, headers.LINK_INFO, headers.LINK}:
                made = Group(self, address, found, attrs)
            self._found[address] = made
        return self._found[address]

    def text(self, reference: Cursor) -> bytes:
        """The text that an element of variable length refers to."""
        size, address, number = reference.number(4), reference.address(), reference.number(4)
        if size == 0 or not address:
            return b""
        if address not in self._heaps:
            self._heaps[address] = global_heap(self.storage, address)
        content = self._heaps[address].get(number)
        if content is None or len(content) < size:
            raise damaged("a text is not in its heap")
        self.storage.count(size)  # as many elements may refer to one text
        return content[:size]


class Attributes(Mapping[str, Any]):
    """Attributes of an object, decoded when they are asked for: a text as `str` if it is of variable length and as
    `bytes` else, an array of texts likewise, numbers as numpy's."""

    def __init__(self, objects: _Objects, found: list[Message]):
        self._objects, self._messages = objects, found
        self._known: dict[str, bytes] | None = None

    def _all(self) -> dict[str, bytes]:
        """The messages of attributes by name."""
        if self._known is None:
            storage, known = self._objects.storage, dict[str, bytes]()
            for message in self._messages:
                if message.kind == headers.ATTRIBUTE:
                    data = message.data
                    if message.shared:
                        data = shared_body(storage, message.kind, data).data
                    known[_attribute_name(Cursor(storage, data))] = data
                elif message.kind == headers.ATTRIBUTE_INFO:
                    for data in _dense(storage, message.data, 2, _ATTRIBUTE_NAMES):
                        known[_attribute_name(Cursor(storage, data))] = data
            self._known = known
        return self._known

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, name: str) -> Any:
        return _attribute(self._objects, self._all()[name])


class Group(Mapping[str, Any]):
    """Groups and datasets by name, in the order of the names; a path of names leads to those within.

    What is neither, and what a link to another file or to nothing leads to, is None among the values.
    """

    def __init__(self, objects: _Objects, address: int, found: list[Message], attrs: Attributes):
        self._objects, self.address, self._messages, self.attrs = objects, address, found, attrs
        self._known: dict[str, int | str | None] | None = None

    def _links(self) -> dict[str, int | str | None]:
        """Addresses of objects by name; of symbolic links, the path that they lead to."""
        if self._known is None:
            storage, links = self._objects.storage, dict[str, int | str | None]()
            for message in self._messages:
                if message.kind == headers.SYMBOL_TABLE:
                    links.update(_symbols(storage, message.data))
                elif message.kind == headers.LINK:
                    links.update([_link(Cursor(storage, message.data))])
                elif message.kind == headers.LINK_INFO:
                    links.update(_link(Cursor(storage, data)) for data in _dense(storage, message.data, 8, _LINK_NAMES))
            self._known = dict(sorted(links.items()))
        return self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._links())

    def __len__(self) -> int:
        return len(self._links())

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._find(path, 0) is not None

    def __getitem__(self, path: str) -> Any:
        found = self._find(path, 0)
        if found is None:
            raise KeyError(path)
        return found

    def items(self) -> Any:
        """Names and what they lead to."""
        return [(name, self._find(name, 0)) for name in self._links()]

    def values(self) -> Any:
        """What the names lead to."""
        return [found for _, found in self.items()]

    def _find(self, path: str, links: int) -> Group | Dataset | None:
        at: Group | Dataset | None = self._objects.top if path.startswith("/") else self
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if not isinstance(at, Group):
                return None
            leads = at._links().get(name)
            if isinstance(leads, str):
                self._objects.followed += 1 + leads.count("/")
                if links >= _MOST_LINKS or self._objects.followed > _MOST_FOLLOWED:
                    raise damaged("its links lead back to themselves")
                at = at._find(leads, links + 1)
            else:
                at = None if leads is None else self._objects.at(leads)
        return at

    def visititems(self, visit: Callable[[str, Any], None]) -> None:
        """Calls `visit` with the path and the object of everything within, once each, without symbolic links."""
        waiting: list[tuple[str, Group]] = [("", self)]
        seen = {self.address}
        while waiting:
            path, group = waiting.pop()
            inner = []
            for name, address in group._links().items():
                if not isinstance(address, int) or address in seen:
                    continue
                seen.add(address)
                found = self._objects.at(address)
                if found is not None:
                    visit(path + name, found)
                if isinstance(found, Group):
                    inner.append((f"{path}{name}/", found))
            waiting += reversed(inner)


class File(Group):
    """A file, which is its root group.

    Args:
        file: a path or the content.

    Raises:
        SternaError: E0103, it is no HDF5 file, or damaged.
        OSError: it cannot be opened.
    """

    def __init__(self, file: Path | bytes):
        self.storage = Storage(file)
        try:
            objects = _Objects(self.storage)
            address = _root(self.storage)
            found = messages(self.storage, address)
            super().__init__(objects, address, found, Attributes(objects, found))
            objects.top = self
        except BaseException:
            self.storage.close()
            raise

    def close(self) -> None:
        """Closes the file; arrays that were read stay."""
        self.storage.close()


def _root(storage: Storage) -> int:
    """The address of the root group, which the superblock tells; sets the sizes of addresses and lengths."""
    head = storage.cursor(0, min(128, storage.size))
    if head.take(8) != _SIGNATURE:
        raise damaged("it does not begin as HDF5 does")
    version = head.number(1)
    if version > 3:
        raise not_read(f"its superblock is of version {version}")
    if version < 2:
        head.take(4)
    storage.offset_size, storage.length_size = head.number(1), head.number(1)
    if not {storage.offset_size, storage.length_size} <= {2, 4, 8}:
        raise damaged("its addresses have a wrong size")
    head.take((9 if version == 0 else 13) if version < 2 else 1)
    base = head.address()
    if base != 0:
        raise not_read("its addresses do not count from its beginning")
    for _ in range(3 if version < 2 else 2):
        head.address()
    if version < 2:
        head.address()  # of the root's name
    address = head.address()
    if address is None:
        raise damaged("it has no root")
    return address


def _dense(storage: Storage, info: bytes, order_size: int, kind: int) -> Iterator[bytes]:
    """Links or attributes that are not in the header, as messages.

    Args:
        info: the message that says where they are.
        order_size: bytes of the number that the next one gets.
        kind: of the records in the B-tree of their names: `_LINK_NAMES` or `_ATTRIBUTE_NAMES`.
    """
    cursor = Cursor(storage, info)
    cursor.take(1)
    if cursor.number(1) & 1:
        cursor.take(order_size)
    heap_address, names = cursor.address(), cursor.address()
    if heap_address is None or names is None:
        return
    heap = FractalHeap(storage, heap_address)
    for record in records(storage, names, kind):
        if kind == _LINK_NAMES:
            record.take(4)  # a hash of the name
            yield heap[record.take(record.left)]
        else:
            identifier, flags = record.take(8), record.number(1)
            if flags & 2:
                raise not_read("an attribute is in the table of shared messages")
            yield heap[identifier]


def _symbols(storage: Storage, message: bytes) -> Iterator[tuple[str, int | str | None]]:
    """The names of a group in the older form."""
    cursor = Cursor(storage, message)
    tree, heap = cursor.address(), Cursor(storage, local_heap(storage, cursor.address()))
    entry_size = 2 * storage.offset_size + 24

    def named(offset: int) -> str:
        if offset >= len(heap.data):
            raise damaged("a name is not in its heap")
        heap.at = offset
        return heap.text()

    for _, child in tree_children(storage, tree, 0, storage.length_size):
        head = storage.block(child, b"SNOD", 8)
        head.take(2)
        entries = storage.cursor(child + 8, head.number(2) * entry_size)
        while entries.left:
            entry = entries.within(entry_size)
            name, address, cached = named(entry.number(storage.offset_size)), entry.address(), entry.number(4)
            entry.take(4)
            yield name, named(entry.number(4)) if cached == 2 else address


def _link(cursor: Cursor) -> tuple[str, int | str | None]:
    """A link's name and what it leads to: an address, a path, or None for another file."""
    cursor.take(1)
    flags = cursor.number(1)
    kind = cursor.number(1) if flags & 8 else _HARD
    cursor.take((8 if flags & 4 else 0) + (1 if flags & 16 else 0))
    name = decoded(cursor.take(cursor.number(1 << (flags & 3))))
    if kind == _HARD:
        return name, cursor.address()
    return name, decoded(cursor.take(cursor.number(2))) if kind == _SOFT else None


def _attribute_name(cursor: Cursor) -> str:
    return decoded(_attribute_parts(cursor)[0].rstrip(b"\0"))


def _attribute_parts(cursor: Cursor) -> tuple[bytes, int, bytes, bytes, Cursor]:
    """An attribute's name, flags, datatype, dataspace and value."""
    version, flags = cursor.number(1), cursor.number(1)
    if version not in (1, 2, 3):
        raise damaged(f"an attribute is of version {version}")
    sizes = [cursor.number(2) for _ in range(3)]
    cursor.take(version == 3)
    parts = []
    for size in sizes:
        parts.append(cursor.take(size))
        if version == 1:
            cursor.align(8)
    return parts[0], flags if version > 1 else 0, parts[1], parts[2], cursor


def _attribute(objects: _Objects, data: bytes) -> Any:
    storage = objects.storage
    _, flags, kind, space, value = _attribute_parts(Cursor(storage, data))
    type_ = datatype(shared_body(storage, headers.DATATYPE, kind) if flags & 1 else Cursor(storage, kind))
    shape = shape_of(shared_body(storage, headers.DATASPACE, space) if flags & 2 else Cursor(storage, space))
    if shape is None:
        return None
    count = 1
    for length in shape:
        count *= length
        if count * type_.stored.itemsize > value.left:
            raise damaged("an attribute is shorter than its shape")
    elements = value.within(count * type_.stored.itemsize)
    if type_.kind is Kind.VARIABLE_TEXT:
        return _texts(objects, elements, type_, shape)
    array = type_.converted(np.frombuffer(elements.data, type_.stored, count).reshape(shape))
    return array[()] if shape == () else array


def _texts(objects: _Objects, elements: Cursor, type_: Datatype, shape: tuple[int, ...]) -> Any:
    texts = []
    while elements.left:
        texts.append(decoded(objects.text(elements.within(type_.stored.itemsize))))
    if shape == ():
        return texts[0]
    array = np.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)
