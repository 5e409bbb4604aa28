"""The model that the C runtime holds: its life, its memory, its errors."""

from __future__ import annotations

import ctypes
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from sterna_runtime import devices, library
from sterna_runtime.advice import Advice, Option
from sterna_runtime.dims import Bounds
from sterna_runtime.errors import SternaError, error
from sterna_runtime.graph_file import FIRMWARE
from sterna_runtime.inputs import Array, TensorSpec, dtype_from_name
from sterna_runtime.refusals import OF_DEVICES, advised


class Handle:
    """Owns the C model. Every array that shows the runtime's memory holds it, so the memory outlives the array."""

    def __init__(self, directory: str, threads: int) -> None:
        self.pointer = ctypes.c_void_p()
        self.functions = library.load()
        self._directory = directory
        path = os.fsencode(directory) if os.name != "nt" else directory.encode("utf-8", "replace")
        #: Of the bundle's device: the address of its library's table, and its kind; 0 where it has none.
        self.table, self.kind = 0, ""
        options = library.COptions(size=ctypes.sizeof(library.COptions), threads=threads)
        if not library.is_replaced() and (kinds := devices.needed(directory)):
            tables = devices.drivers(kinds)
            self.table, self.kind = (tables[0] or 0, kinds[0]) if tables else (0, "")
            options.devices, options.n_devices = ctypes.addressof(tables), len(tables)
            options.device_cache = devices.cache()
        problem = library.CError()
        self.functions.sterna_load(path, options, ctypes.byref(self.pointer), problem)
        if not self.pointer:
            raise _no_graph(directory) or c_error(self.functions, problem, directory)

    def __del__(self) -> None:
        pointer, self.pointer = self.pointer, ctypes.c_void_p()  # finalizers of a cycle come in any order
        if pointer:
            self.functions.sterna_unload(pointer)

    def check(self, status: int) -> None:
        """Raises what a function has said, if it was an error."""
        if status != 0:
            raise self.last_error()

    def last_error(self) -> SternaError:
        """What went wrong at last."""
        return c_error(self.functions, self.functions.sterna_last_error(self.pointer).contents, self._directory)

    def dims(self) -> tuple[dict[str, Bounds], dict[str, Bounds]]:
        """The dimensions of open size, by name: those that a caller sets, and those that the model computes."""
        given, computed = dict[str, Bounds](), dict[str, Bounds]()
        for number in range(self.functions.sterna_dim_count(self.pointer)):
            dim = library.CDim()
            self.check(self.functions.sterna_dim_info(self.pointer, number, dim))
            (computed if dim.computed else given)[text(dim.name)] = Bounds(dim.lo, dim.hi)
        return given, computed

    def tensor(self, info: Any, number: int) -> library.CTensor:
        """What is known of an input, output or value; `info` says which of these."""
        tensor = library.CTensor()
        self.check(info(self.pointer, number, tensor))
        return tensor

    def specs(self, count: Any, info: Any) -> list[TensorSpec]:
        """All inputs, outputs or values, with the greatest sizes of open dimensions."""
        tensors = (self.tensor(info, number) for number in range(count(self.pointer)))
        return [
            TensorSpec(text(each.name), dtype_from_name(text(each.dtype)), tuple(each.dims[: each.rank]))
            for each in tensors
        ]

    def memory(self, address: int | None, spec: TensorSpec) -> Array:
        """The runtime's memory at `address`, as an array."""
        sizes = spec.sizes
        size = math.prod(sizes) * spec.dtype.itemsize
        if size == 0 or address is None:
            return np.empty(sizes, dtype=spec.dtype)
        buffer: Any = (ctypes.c_char * size).from_address(address)
        buffer._owner = self
        array: Array = np.ndarray(sizes, spec.dtype, buffer)
        return array


def text(characters: bytes | None) -> str:
    """A text of the C runtime's."""
    return (characters or b"").decode("utf-8", "replace")


def _no_graph(directory: str) -> SternaError | None:
    """What is in a directory without graph.json, where that can be said: why nothing can be loaded from it."""
    place = Path(directory)
    if (place / "graph.json").exists() or not place.is_dir():
        return None
    fix = Advice("for this machine, compile the model with ", Option("target", "host"))
    if (place / FIRMWARE).is_file():
        title = "this is a bundle for firmware: C sources that are compiled into a program, and nothing to load here"
        board = "sterna run --on qemu:mps2-an386, or another board of its processor, runs it in an emulator"
        return error("E0507", title, directory, "its header declares what the program calls", board, fix=fix)
    if (place / "model.wasm").is_file():
        title = "this is a bundle of one file for WebAssembly; the JavaScript runtime loads it"
        return error("E0507", title, directory, fix=fix)
    return None


def c_error(functions: Any, problem: library.CError, directory: str) -> SternaError:
    """What went wrong in the C runtime, as an error with its code and the way to mend it."""
    code = functions.sterna_status_code(problem.status).decode()
    said = problem.message.decode("utf-8", "replace")
    kinds = devices.needed(directory) if code in OF_DEVICES else ()
    title, fix = advised(code, said, kinds, getattr(functions, "place", None))
    return error(code, title, directory, fix=fix)
