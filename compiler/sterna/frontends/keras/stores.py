"""Variables of Keras layers, whatever the file calls them.

The native format numbers a layer's variables in the order of their creation, in groups by attribute
(`layers/dense_1/vars/0`); HDF5 files of Keras 2 and TensorFlow.js name them (`block/dense/kernel:0`). A translation
asks for names in the order of creation, and either is found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sterna.errors import error
from sterna.ir.graph import Array

_DEEPEST = 64  # groups within groups


class Store(Protocol):
    """Variables of a layer, and of the layers within it."""

    def child(self, attribute: str, number: int | None = None, name: str = "", kind: str = "") -> Store:
        """Those of a layer within.

        Args:
            attribute: of the outer layer, which holds it (`cell`, `forward_layer`, `layers`).
            number: where the attribute is a list, its place among the layers of its class (`places`).
            name, kind: the layer's name and class.
        """
        ...

    def variables(self, names: Sequence[str]) -> list[Array]:
        """The layer's own variables, which are created in this order.

        Raises:
            SternaError: E0103, they are not there.
        """
        ...

    def count(self) -> int:
        """How many variables the layer itself has, as far as that is known."""
        ...

    def named(self, name: str) -> Array | None:
        """A variable by its name, where the file has names."""
        ...


def places(kinds: Sequence[str]) -> list[int]:
    """How many of the same class come before each of the layers of a list: the numbers that `Store.child` takes."""
    counts = dict.fromkeys(kinds, 0)
    numbers = []
    for kind in kinds:
        numbers.append(counts[kind])
        counts[kind] += 1
    return numbers


def snake_case(name: str) -> str:
    """`MultiHeadAttention` as `multi_head_attention`: what the native format calls layers of a class."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


class NumberedStore:
    """A group of the native format: `vars/0`, `vars/1` ..., and groups for the layers within.

    Args:
        group: of an HDF5 file, or a `Group`; None where the file has none.
        where: for messages.
        top: the file's outermost group.
    """

    def __init__(self, group: Any, where: str, top: Any = None):
        self.group, self.where, self.top = group, where, group if top is None else top

    def child(self, attribute: str, number: int | None = None, name: str = "", kind: str = "") -> NumberedStore:
        outer = _group(self.group, attribute)
        if outer is None and attribute.startswith("_"):
            outer = _group(self.group, attribute[1:])
        if number is None:
            return NumberedStore(outer, f"{self.where}/{attribute}", self.top)
        found = _member(outer, name, kind, number)
        found = _shared(self.top, name) if found is None else found
        return NumberedStore(found, f"{self.where}/{name or attribute}", self.top)

    def variables(self, names: Sequence[str]) -> list[Array]:
        found = _group(self.group, "vars")
        missing = [name for n, name in enumerate(names) if found is None or str(n) not in found]
        if missing:
            raise error("E0103", f"the weights of {self.where} lack {', '.join(missing)}")
        return [_array(found[str(n)], f"{self.where}, {name}") for n, name in enumerate(names)]

    def count(self) -> int:
        found = _group(self.group, "vars")
        return 0 if found is None else len(found)

    def named(self, _: str) -> Array | None:
        return None


def _group(group: Any, name: str) -> Any:
    """A group within; None if it is not there."""
    found = group.get(name) if group is not None else None
    return found if hasattr(found, "keys") else None


def _member(outer: Any, name: str, kind: str, number: int) -> Any:
    """One layer of a list: by the name that its group tells, else by its class and how many of it come before.

    `number` counts the layers of the same class.
    """
    if outer is None:
        return None
    for group in outer.values():
        told = group.attrs.get("name") if hasattr(group, "keys") else None
        if name and isinstance(told, (str, bytes)) and told in (name, name.encode()):
            return group
    base = snake_case(kind)
    return _group(outer, f"{base}_{number}" if number else base) or _group(outer, name)


def _shared(group: Any, name: str, depth: int = 0) -> Any:
    """The group of a layer that several models have: it stands where the first of them does, with the layer's name."""
    found = _group(group, "vars")
    if found is not None and depth and found.attrs.get("name") in (name, name.encode()):
        return group
    inner = () if group is None or depth > _DEEPEST else group.items()
    for key, each in inner:
        if key == "vars" or not hasattr(each, "keys"):
            continue
        if (known := _shared(each, name, depth + 1)) is not None:
            return known
    return None


def _array(data: Any, what: str) -> Array:
    """A dataset as an array."""
    if not hasattr(data, "shape") or data.dtype.kind not in "fiub" or data.dtype.itemsize > 8:
        raise error("E0103", f"{what} is not an array of numbers")
    if data.is_virtual or data.external:
        raise error("E0103", f"{what} lies in another file")
    return np.asarray(data[()])


class NamedStore:
    """Variables with paths as names; those within a layer are the ones whose path goes through it."""

    def __init__(self, arrays: Mapping[str, Any], where: str):
        self.arrays, self.where = arrays, where

    def child(self, attribute: str, number: int | None = None, name: str = "", kind: str = "") -> NamedStore:
        words = {
            "forward_layer": ("forward_",), "backward_layer": ("backward_",), "_query_dense": ("query",),
            "_key_dense": ("key",), "_value_dense": ("value",), "_output_dense": ("attention_output",),
            "_gate_dense": ("gate",),
        }.get(attribute)  # fmt: skip
        if words is not None:
            found = {k: v for k, v in self.arrays.items() if any(p.startswith(words) for p in k.split("/")[:-1])}
        else:
            found = {}
        # A backward layer of its own keeps its name.
        found = found or {k: v for k, v in self.arrays.items() if name and name in k.split("/")[:-1]}
        return NamedStore(found or self.arrays, f"{self.where}/{name or attribute}")

    def variables(self, names: Sequence[str]) -> list[Array]:
        by_end = {key.split("/")[-1].split(":")[0]: value for key, value in self.arrays.items()}
        if len(by_end) == len(self.arrays) and all(name in by_end for name in names):
            return [_array(by_end[name], f"{self.where}, {name}") for name in names]
        if len(self.arrays) != len(names):
            there = ", ".join(list(self.arrays)[:8]) or "none"
            raise error("E0103", f"the weights of {self.where} should be {', '.join(names)}; there are {there}")
        return [_array(value, f"{self.where}, {key}") for key, value in self.arrays.items()]

    def count(self) -> int:
        return len(self.arrays)

    def named(self, name: str) -> Array | None:
        found = [key for key in self.arrays if key.split("/")[-1].split(":")[0] == name]
        return _array(self.arrays[found[0]], f"{self.where}, {name}") if len(found) == 1 else None


class Group(dict[str, Any]):
    """Arrays and groups by name, with what is asked of a group of an HDF5 file."""

    def __init__(self) -> None:
        super().__init__()
        self.attrs: dict[str, Any] = {}

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Group:
        """A group from arrays by their paths.

        Raises:
            SternaError: E0103, a path goes through an array.
        """
        top = cls()
        for path, array in arrays.items():
            *outer, last = path.split("/")
            at: Any = top
            for name in outer:
                at = at.setdefault(name, cls())
                if not isinstance(at, Group):
                    raise error("E0103", f"the weight {path} lies within another one")
            at[last] = array
        return top


class InMemory:
    """An array that is there already, with what `_array` asks of a dataset."""

    is_virtual, external = False, None

    def __init__(self, data: Array):
        self.data, self.shape, self.dtype = data, data.shape, data.dtype

    def __getitem__(self, _: Any) -> Array:
        return self.data
