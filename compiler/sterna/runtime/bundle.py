"""A compiled model, loaded: run it, look into it, time it."""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, overload

import numpy as np

from sterna.errors import SternaError, error
from sterna.runtime import library
from sterna.runtime.inputs import Array, TensorSpec, as_array, dtype_from_name, match_inputs

_FIXES = {
    "E0503": "check the path; `sterna compile MODEL -o DIRECTORY` makes a bundle",
    "E0504": "compile the model again",
    "E0505": "copy the bundle again, or compile the model again",
    "E0506": "compile the model again with this version of sterna, or install the version that made the bundle",
    "E0507": "compile the model for this machine: --target host",
    "E0508": "compile the model again",
}


@dataclass(frozen=True)
class NodeTime:
    """Time of one node. `sources` are the names of the source model's nodes that were fused into it."""

    index: int
    name: str
    kernel: str
    sources: tuple[str, ...]
    tasks: int
    nanoseconds: int
    """median of all runs"""
    fastest: int
    """least of all runs, in nanoseconds"""


class _Handle:
    """Owns the C model. Every array that shows the runtime's memory holds it, so the memory outlives the array."""

    def __init__(self, directory: Path, threads: int) -> None:
        self.functions = library.load()
        self.pointer = ctypes.c_void_p()
        path = os.fsencode(directory) if os.name != "nt" else str(directory).encode("utf-8", "replace")
        if b"\0" in path:
            raise error("E0503", "the path of a bundle contains a zero character", repr(str(directory)))
        options = library.COptions(size=ctypes.sizeof(library.COptions), threads=threads)
        problem = library.CError()
        self.functions.sterna_load(path, options, ctypes.byref(self.pointer), problem)
        if not self.pointer:
            raise _c_error(self.functions, problem, directory)

    def __del__(self) -> None:
        if self.pointer:
            self.functions.sterna_unload(self.pointer)

    def memory(self, address: int | None, spec: TensorSpec) -> Array:
        """The runtime's memory at `address`, as an array."""
        if spec.nbytes == 0 or address is None:
            return np.empty(spec.shape, dtype=spec.dtype)
        buffer: Any = (ctypes.c_char * spec.nbytes).from_address(address)
        buffer._owner = self
        array: Array = np.frombuffer(buffer, dtype=spec.dtype).reshape(spec.shape)
        return array


def _c_error(functions: ctypes.CDLL, problem: library.CError, directory: Path) -> SternaError:
    code = functions.sterna_status_code(problem.status).decode()
    return error(code, problem.message.decode("utf-8", "replace"), str(directory), fix=_FIXES.get(code))


class Bundle:
    """A compiled model, ready to run. Made by `sterna.load` and `sterna.compile`.

    One call at a time runs on a bundle; calls from several threads wait for one another. Load the bundle twice to run
    it twice at once: the weights are shared by the operating system.
    """

    def __init__(self, directory: str | os.PathLike[str], threads: int = 1) -> None:
        """Loads the bundle in `directory`; `threads` counts the caller, so 1 makes none.

        Raises E0503 to E0508 for a bundle that is missing, damaged or made for another machine.
        """
        if not isinstance(threads, int) or threads < 1:
            raise error("E0501", f"threads is {threads!r}; it must be at least 1")
        self._directory = Path(directory)
        self._kept: object = None
        self._open: _Handle | None = _Handle(self._directory, min(threads, 2**32 - 1))
        functions, pointer = self._open.functions, self._open.pointer
        self._functions = functions
        self._run = functions.sterna_run
        self._lock = threading.Lock()
        self._bound: dict[int, Array] = {}
        self._inputs = self._specs(functions.sterna_input_count, functions.sterna_input_info)
        self._outputs = self._specs(functions.sterna_output_count, functions.sterna_output_info)
        self._input_numbers = {spec.name: i for i, spec in enumerate(self._inputs)}
        self._output_arrays = {
            spec.name: self._open.memory(functions.sterna_output_buffer(pointer, i), spec)
            for i, spec in enumerate(self._outputs)
        }
        for view in self._output_arrays.values():
            view.flags.writeable = False
        self._values: dict[str, tuple[int, TensorSpec]] | None = None

    def keep(self, resource: object) -> Bundle:
        """Holds something (a temporary directory) for as long as this object lives; returns itself."""
        self._kept = resource
        return self

    # ---- What it is ----

    @property
    def directory(self) -> Path:
        """Where the bundle's files lie."""
        return self._directory

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every input, in the model's order."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every output, in the model's order."""
        return self._outputs

    @property
    def values(self) -> tuple[TensorSpec, ...]:
        """Every tensor of the compiled model, those that `intermediate` can show and those that are overwritten."""
        return tuple(spec for _, spec in self._value_table().values())

    def sizes(self) -> dict[str, int]:
        """Bytes of every file of the bundle, by name."""
        files = (path for path in self._directory.iterdir() if path.is_file())
        return {path.name: path.stat().st_size for path in sorted(files)}

    def memory(self) -> dict[str, int]:
        """Bytes in use: `arena`, `scratch` (of one worker), `signature` (inputs and outputs) and `params`."""
        info = library.CMemory()
        self._functions.sterna_memory_info(self._handle().pointer, info)
        return {"arena": info.arena, "scratch": info.scratch, "signature": info.signature, "params": info.params}

    def __repr__(self) -> str:
        state = ", closed" if self._open is None else ""
        sides = [", ".join(str(spec) for spec in specs) for specs in (self._inputs, self._outputs)]
        return f"<sterna.Bundle {str(self._directory)!r}: {sides[0]} -> {sides[1]}{state}>"

    # ---- Running ----

    @overload
    def run(self) -> None: ...
    @overload
    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Array]: ...
    def run(self, inputs: Mapping[str, Any] | Sequence[Any] | None = None) -> dict[str, Array] | None:
        """Runs the model.

        With `inputs` (by name, or in the model's order; arrays or anything with `__dlpack__`), returns new arrays by
        name in the order of the outputs. The inputs are read in place where their layout allows it. Raises E0601 to
        E0606, all problems of all inputs at once.

        Without, runs on what `set_input` set and returns nothing; `get_output` has the results.
        """
        handle = self._open
        if handle is None:
            self._refuse_closed()
        if inputs is None:
            with self._lock:
                if self._run(handle.pointer) != 0:
                    raise self._last_error()
            return None
        arrays = [_in_place(array) for array in match_inputs(self._inputs, inputs)]
        with self._lock:
            try:
                for number, array in enumerate(arrays):
                    self._check(self._functions.sterna_bind_input(handle.pointer, number, _address(array)))
                self._check(self._run(handle.pointer))
                return {name: view.copy() for name, view in self._output_arrays.items()}
            finally:
                for number in range(len(arrays)):
                    earlier = self._bound.get(number)
                    address = _address(earlier) if earlier is not None else None
                    self._functions.sterna_bind_input(handle.pointer, number, address)

    def set_input(self, name: str, array: Any) -> None:
        """Lets every following `run()` read this array, without a copy: later changes of its elements are seen.

        The bundle keeps a reference to it. Raises E0602 to E0606: the array must have the input's dtype and shape, and
        must be C-contiguous (E0605), since anything else would need a copy that the caller does not see.
        """
        handle = self._handle()
        if name not in self._input_numbers:
            raise error("E0602", f'the model has no input "{name}"', f"it has: {_names(self._inputs)}")
        number = self._input_numbers[name]
        checked = as_array(self._inputs[number], array)
        if not isinstance(checked, np.ndarray):
            raise SternaError(checked)
        if not (checked.flags.c_contiguous and checked.flags.aligned):
            raise error(
                "E0605",
                f'input "{name}" cannot be read in place: the array is not C-contiguous and aligned',
                f"shape {checked.shape}, strides {checked.strides} bytes",
                fix=f'set_input("{name}", numpy.require(array, requirements="CA"))',
            )
        with self._lock:
            self._check(self._functions.sterna_bind_input(handle.pointer, number, _address(checked)))
            self._bound[number] = checked

    def get_output(self, name: str) -> Array:
        """The output as a read-only view of the runtime's memory, without a copy: the next run changes it."""
        self._handle()
        try:
            return self._output_arrays[name]
        except KeyError:
            title = f'the model has no output "{name}"'
            raise error("E0509", title, f"it has: {_names(self._outputs)}") from None

    # ---- Looking into it ----

    def intermediate(self, name: str) -> Array:
        """A copy of any tensor of the compiled model as the latest run left it.

        Raises E0509 for an unknown name and E0510 for a tensor that does not outlive its last use: a bundle compiled
        with `debug=True` keeps all of them.
        """
        handle = self._handle()
        table = self._value_table()
        if name not in table:
            raise error(
                "E0509",
                f'the bundle has no tensor "{name}"',
                f"it has {len(table)}; Bundle.values lists them",
                fix="a tensor that was fused into a kernel exists only in a bundle compiled with debug=True",
            )
        number, spec = table[name]
        result = np.empty(spec.shape, dtype=spec.dtype)
        with self._lock:
            address = _address(result)
            self._check(self._functions.sterna_value_copy(handle.pointer, number, address, result.nbytes))
        return result

    def profile(self, repeat: int = 1) -> list[NodeTime]:
        """Runs the model `repeat` times on its current inputs; the time of every node, in execution order."""
        handle = self._handle()
        if repeat < 1:
            raise error("E0501", f"repeat is {repeat}; it must be at least 1")
        times: list[list[int]] = [[] for _ in range(self._functions.sterna_node_count(handle.pointer))]

        def on_node(_user: int | None, node: int, _name: bytes, nanoseconds: int) -> None:
            times[node].append(nanoseconds)

        callback = library.ON_NODE(on_node)
        with self._lock:
            self._functions.sterna_set_on_node(handle.pointer, ctypes.cast(callback, ctypes.c_void_p), None)
            try:
                for _ in range(repeat):
                    self._check(self._run(handle.pointer))
            finally:
                self._functions.sterna_set_on_node(handle.pointer, None, None)
        sources = self._sources()
        result = []
        for index, measured in enumerate(times):
            info = library.CNode()
            self._check(self._functions.sterna_node_info(handle.pointer, index, info))
            result.append(
                NodeTime(
                    index,
                    _text(info.name),
                    _text(info.kernel),
                    sources[index] if index < len(sources) else (),
                    info.tasks,
                    int(statistics.median(measured)),
                    min(measured),
                )
            )
        return result

    # ---- The end ----

    def close(self) -> None:
        """Gives the model back as soon as no array of `get_output` is alive. Further calls raise E0520."""
        with self._lock:
            self._open = None
            self._bound.clear()
            self._output_arrays = {}

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._open is None

    def __enter__(self) -> Bundle:
        self._handle()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a Bundle cannot be pickled; send its directory, {self._directory}, and load it there")

    # ---- Within ----

    def _handle(self) -> _Handle:
        if self._open is None:
            self._refuse_closed()
        return self._open

    def _refuse_closed(self) -> NoReturn:
        raise error("E0520", "the bundle has been closed", str(self._directory), fix="load it again")

    def _last_error(self) -> SternaError:
        problem = self._functions.sterna_last_error(self._handle().pointer).contents
        return _c_error(self._functions, problem, self._directory)

    def _check(self, status: int) -> None:
        if status != 0:
            raise self._last_error()

    def _specs(self, count: Any, info: Any) -> tuple[TensorSpec, ...]:
        pointer = self._handle().pointer
        specs = []
        for i in range(count(pointer)):
            tensor = library.CTensor()
            self._check(info(pointer, i, tensor))
            shape = tuple(tensor.dims[axis] for axis in range(tensor.rank))
            specs.append(TensorSpec(_text(tensor.name), dtype_from_name(_text(tensor.dtype)), shape))
        return tuple(specs)

    def _value_table(self) -> dict[str, tuple[int, TensorSpec]]:
        if self._values is None:
            functions = self._functions
            specs = self._specs(functions.sterna_value_count, functions.sterna_value_info)
            self._values = {spec.name: (i, spec) for i, spec in enumerate(specs)}
        return self._values

    def _sources(self) -> list[tuple[str, ...]]:
        """The source model's names of every node; the C runtime has no use for them, so they are read here."""
        try:
            nodes = json.loads((self._directory / "graph.json").read_bytes())["nodes"]
            return [tuple(str(source) for source in node.get("sources", ())) for node in nodes]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return []  # the files have changed since they were loaded


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]  # a third of the time of array.ctypes.data
    return address


def _in_place(array: Array) -> Array:
    """The array, or a copy if the kernels cannot read it where it is."""
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.require(array, requirements=["C", "A"])


def _text(characters: bytes | None) -> str:
    return (characters or b"").decode("utf-8", "replace")


def _names(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f'"{spec.name}"' for spec in specs) or "none"


def load(directory: str | os.PathLike[str], threads: int = 1) -> Bundle:
    """Loads a bundle that `sterna compile` made. `threads` counts the caller: 1 makes no thread."""
    return Bundle(directory, threads)
