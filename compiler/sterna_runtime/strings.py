"""Tensors of strings: a bundle sees the number of every string, and `strings.json` says which string has which.

A string that the model does not know is given a number after those for one run, so that it can pass through.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from sterna_runtime.arguments import Arguments
from sterna_runtime.bundle import Bundle
from sterna_runtime.errors import SternaError, error
from sterna_runtime.inputs import Array, TensorSpec
from sterna_runtime.library import hash64

FILE = "strings.json"
TEXT = np.dtype(object)
_ATTEMPTS = 100  # to load a bundle that is replaced again and again


class Strings:
    """The numbers of the strings that a model knows.

    Args:
        known: strings, by number.
        inputs, outputs: names of those tensors of the signature that hold strings.
    """

    def __init__(self, known: Sequence[str], inputs: Sequence[str], outputs: Sequence[str]):
        self.known, self.inputs, self.outputs = tuple(known), frozenset(inputs), frozenset(outputs)
        self.numbers = {text: n for n, text in enumerate(self.known)}

    @staticmethod
    def of(directory: str | os.PathLike[str]) -> Strings | None:
        """Those of a bundle; None if its model has none.

        Raises:
            SternaError: E0505, the file is missing or not the one that was written when the bundle was compiled.
        """
        try:
            graph = Path(directory, "graph.json").read_bytes()
            # Every bundle passes here: most graphs are not parsed.
            entry = json.loads(graph)["files"].get(FILE) if f'"{FILE}"'.encode() in graph else None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None  # the runtime says what is wrong with it
        if entry is None:
            return None
        try:
            data = Path(directory, FILE).read_bytes()
            if [len(data), hash64(data)] == [entry["bytes"], entry["hash"]]:
                found = json.loads(data)
                return Strings(found["strings"], found["inputs"], found["outputs"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            pass
        raise error("E0505", f"{FILE} is damaged", str(directory), fix="compile the model again")

    def specs(self, specs: Sequence[TensorSpec], names: frozenset[str]) -> tuple[TensorSpec, ...]:
        """A signature as it is outside: strings are Python's, in arrays of objects."""
        return tuple(replace(spec, dtype=TEXT) if spec.name in names else spec for spec in specs)

    def numbered(self, specs: Sequence[TensorSpec], given: Any) -> tuple[Any, list[str]]:
        """Inputs as the bundle takes them, and the strings that were not known, by number from `len(known)` on.

        Raises:
            SternaError: E0603, an element is no string.
        """
        if not isinstance(given, Mapping):
            if not isinstance(given, Sequence) or len(given) > len(specs):
                return given, []  # what is wrong is said where all inputs are looked at
            given = dict(zip((spec.name for spec in specs), given, strict=False))
        new: dict[str, int] = {}

        def number(text: Any) -> int:
            if not isinstance(text, str):
                raise error("E0603", f'an element of the input "{name}" is a {type(text).__name__}, not a string')
            found = self.numbers.get(text)
            return found if found is not None else new.setdefault(text, len(self.known) + len(new))

        result = dict(given)
        for name in self.inputs & result.keys():
            array = np.asarray(result[name], TEXT)
            result[name] = np.array([number(t) for t in array.reshape(-1)], np.int64).reshape(array.shape)
        return result, list(new)

    def texts(self, arrays: dict[str, Array], new: Sequence[str] = ()) -> dict[str, Array]:
        """Outputs with their strings.

        Args:
            new: as `numbered` gave them; what has no number is the empty string.
        """
        words = [*self.known, *new]
        for name in self.outputs & arrays.keys():
            texts = [words[n] if 0 <= n < len(words) else "" for n in arrays[name].reshape(-1).tolist()]
            array = np.empty(len(texts), TEXT)
            array[:] = texts
            arrays[name] = array.reshape(arrays[name].shape)
        return arrays


class TextBundle(Bundle):
    """A bundle with tensors of strings: arrays of Python's `str`, of dtype object, where the kernels see numbers."""

    def __init__(self, directory: str | os.PathLike[str], threads: int, strings: Strings) -> None:
        super().__init__(directory, threads)
        self._strings = strings

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self._strings.specs(super().inputs, self._strings.inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self._strings.specs(super().outputs, self._strings.outputs)

    @overload
    def run(self) -> None: ...
    @overload
    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Array]: ...
    def run(self, inputs: Mapping[str, Any] | Sequence[Any] | None = None) -> dict[str, Array] | None:
        if inputs is None:
            super().run()
            return None
        numbered, new = self._strings.numbered(super().inputs, inputs)
        return self._strings.texts(super().run(numbered), new)

    def set_input(self, name: str, array: Any) -> None:
        """As `Bundle.set_input`, for strings that the model knows; others count as empty strings in `get_output`."""
        numbered, _ = self._strings.numbered(super().inputs, {name: array})
        super().set_input(name, numbered[name])

    def get_output(self, name: str) -> Array:
        """As `Bundle.get_output`; of strings a copy."""
        array = super().get_output(name)
        return self._strings.texts({name: array})[name] if name in self._strings.outputs else array


def load(directory: str | os.PathLike[str], threads: int = 1) -> Bundle:
    """Loads a bundle that `sterna compile` made. `threads` counts the caller: 1 makes no thread."""
    arguments = Arguments("E0501")
    arguments.path("directory", directory)
    arguments.done()
    place = os.fspath(directory)
    for _ in range(_ATTEMPTS):
        before = _version(place)
        try:
            strings = Strings.of(place)
            bundle = Bundle(place, threads) if strings is None else TextBundle(place, threads, strings)
        except SternaError:
            if _version(place) == before:
                raise
            continue
        if _version(place) == before:
            return bundle
        bundle.close()  # another one was written there meanwhile: its parts may be of both
    raise error("E0505", "the bundle is replaced again and again while it is loaded", place)


def _version(directory: str) -> tuple[int, ...]:
    """What tells the bundle that is there now from any other that was or will be."""
    try:
        status = os.stat(os.path.join(directory, "graph.json"))  # noqa: PTH116, PTH118 (every bundle: no Path)
    except (OSError, ValueError):
        return ()
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
