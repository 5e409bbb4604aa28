"""A compiled model, loaded: run it, look into it, time it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np

from sterna_runtime import library
from sterna_runtime.abi import MAX_THREADS
from sterna_runtime.arguments import Arguments
from sterna_runtime.dims import assignments, check_sizes
from sterna_runtime.errors import SternaError, error
from sterna_runtime.graph_file import GraphFile
from sterna_runtime.handle import Handle, text
from sterna_runtime.inputs import (
    Array,
    TensorSpec,
    address_of,
    array_to_keep,
    in_place,
    match_inputs,
    match_open_inputs,
    names_of,
    stale_inputs,
)
from sterna_runtime.meaning import Quantization
from sterna_runtime.notebook import Shown
from sterna_runtime.profile import NodeTime, measure, node_times

if TYPE_CHECKING:
    from sterna_runtime.device_arrays import Device, DeviceArray, Held, OnDevice
    from sterna_runtime.dlpack import Borrowed
    from sterna_runtime.golden import Replay


class Bundle(Shown):
    """A compiled model, ready to run. Made by `sterna.load` and `sterna.compile`.

    One call at a time runs on a bundle; calls from several threads wait for one another. Load the bundle twice to run
    it twice at once: the weights are shared by the operating system.
    """

    def __init__(self, directory: str | os.PathLike[str], threads: int = 1) -> None:
        """Loads the bundle in `directory`; `threads` counts the caller, so 1 makes none.

        Raises E0503 to E0508 for a bundle that is missing, damaged or made for another machine.
        """
        arguments = Arguments("E0501")
        arguments.path("directory", directory)
        threads = arguments.integer("threads", threads, 1, MAX_THREADS)
        arguments.done()
        self._directory = os.fspath(directory)
        self._kept: object = None
        self._file = GraphFile(self._directory)
        self._open: Handle | None = Handle(self._directory, min(threads, 2**32 - 1))
        functions = self._open.functions
        self._functions = functions
        self._run_bound: Callable[[ctypes.c_void_p], int] = functions.sterna_run
        self._run: Callable[[ctypes.c_void_p], int] = self._run_bound
        self._lock = threading.Lock()
        self._on_device: OnDevice | None = None
        if self._open.table:
            from sterna_runtime.device_arrays import on_device  # noqa: PLC0415 (most bundles never need it)

            self._on_device = on_device(self._open, self._lock)
        self._borrow = None if self._on_device is None else self._on_device.borrow
        self._held: Held = {}
        self._bound: dict[int, Array | Borrowed] = {}
        self._bounds, self._computed = self._open.dims()
        self._sizes = {name: bounds.hi for name, bounds in self._bounds.items()}
        self._found = {name: bounds.hi for name, bounds in self._computed.items()}
        self._inputs = self._specs("inputs", functions.sterna_input_count, functions.sterna_input_info)
        self._outputs = self._specs("outputs", functions.sterna_output_count, functions.sterna_output_info)
        self._at_present = self._inputs
        self._input_numbers = {spec.name: i for i, spec in enumerate(self._inputs)}
        self._output_arrays: dict[str, Array] = {}
        self._show()
        self._values: dict[str, tuple[int, TensorSpec]] | None = None
        if self._computed:
            self._run_bound = self._run_and_measure
            self._run = self._run_bound

    def keep(self, resource: object) -> Bundle:
        """Holds something (a temporary directory) for as long as this object lives; returns itself."""
        self._kept = resource
        return self

    # ---- What it is ----

    @property
    def directory(self) -> Path:
        """Where the bundle's files lie."""
        return Path(self._directory)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every input, in the model's order."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every output, in the model's order.

        A size that depends on the data, such as the number of boxes found, is shown as its bounds: `0..100`. The array
        that a run returns has the actual size.
        """
        return self._outputs

    @property
    def dims(self) -> dict[str, tuple[int, int]]:
        """The dimensions whose sizes are open until the model runs: least and greatest size by name."""
        return {name: (bounds.lo, bounds.hi) for name, bounds in self._bounds.items()}

    @property
    def dim_sizes(self) -> dict[str, int]:
        """The current size of every dimension of `dims`: the greatest, until a run or `set_dims` changes it."""
        return dict(self._sizes)

    @property
    def values(self) -> tuple[TensorSpec, ...]:
        """Every tensor of the compiled model, including those that are overwritten and `intermediate` cannot show."""
        return tuple(spec for _, spec in self._value_table().values())

    @property
    def device(self) -> Device | None:
        """The device that the bundle runs on, as other libraries name it; None for the CPU alone, and for Metal."""
        return None if self._on_device is None else self._on_device.device

    def sizes(self) -> dict[str, int]:
        """Bytes of every file of the bundle, by name; of those that the runtime does not need, if they are there."""
        return self._file.sizes()

    def memory(self) -> dict[str, int]:
        """Bytes in use: `arena`, `scratch` (of one worker), `signature` (inputs and outputs) and `params`."""
        info = library.CMemory()
        self._functions.sterna_memory_info(self._handle().pointer, info)
        return {"arena": info.arena, "scratch": info.scratch, "signature": info.signature, "params": info.params}

    def __repr__(self) -> str:
        state = ", closed" if self._open is None else ""
        sides = [", ".join(str(spec) for spec in specs) for specs in (self._inputs, self._outputs)]
        return f"<sterna.Bundle {self._directory!r}: {sides[0]} -> {sides[1]}{state}>"

    # ---- Running ----

    @overload
    def run(self) -> None: ...
    @overload
    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Array]: ...
    def run(self, inputs: Mapping[str, Any] | Sequence[Any] | None = None) -> dict[str, Array] | None:
        """Runs the model.

        With `inputs` (by name, or in the model's order; arrays or anything with `__dlpack__`, also in the memory of the
        bundle's device), returns new arrays by name in the order of the outputs. The inputs are read in place if their
        layout allows it. Their shapes decide the sizes of open dimensions, which stay set as after `set_dims`. Raises
        E0601 to E0606, all problems of all inputs at once.

        Without `inputs`, runs on what `set_input` set and returns nothing; `get_output` has the results.
        """
        handle = self._open
        if handle is None:
            self._refuse_closed()
        if inputs is None:
            with self._lock:
                self._leave_outputs()
                if self._run(handle.pointer) != 0:
                    raise handle.last_error()
            return None
        with self._given(handle, inputs):
            self._leave_outputs()
            self._check(self._run_bound(handle.pointer))
            return {name: view.copy() for name, view in self._output_arrays.items()}

    def run_on_device(self, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, DeviceArray | Array]:
        """Runs the model as `run` does; outputs that the device computes are new arrays in its memory.

        Empty ones and those of nodes on the CPU are NumPy's. `get_output` shows what `run` wrote, `intermediate` these.
        """
        handle = self._handle()
        with self._given(handle, inputs):
            there: dict[str, DeviceArray | Array] = {}
            if self._on_device is not None:
                most = {**self._sizes, **{name: bounds.hi for name, bounds in self._computed.items()}}
                self._on_device.take_outputs((spec.at(most) for spec in self._outputs), self._held)
            self._check(self._run_bound(handle.pointer))
            if self._on_device is not None:
                there |= self._on_device.outputs((spec.at(self._all_sizes()) for spec in self._outputs), self._held)
            return {name: there[name] if name in there else view.copy() for name, view in self._output_arrays.items()}

    def _leave_outputs(self) -> None:
        if self._on_device is not None:
            self._on_device.leave_outputs(self._held)

    @contextlib.contextmanager
    def _given(self, handle: Handle, inputs: Mapping[str, Any] | Sequence[Any]) -> Iterator[None]:
        """Within it, these are the model's inputs, and the lock is held."""
        sizes = self._sizes
        if sizes:
            arrays, sizes = match_open_inputs(self._inputs, inputs, self._bounds, sizes, self._at_present, self._borrow)
        else:
            arrays = match_inputs(self._inputs, inputs, self._borrow)
        arrays = [in_place(array) for array in arrays]
        with self._lock:
            if sizes != self._sizes:
                self._resize(handle, sizes)
            try:
                for number, array in enumerate(arrays):
                    self._bind(handle, number, array)
                yield
            finally:
                self._bind_again(handle, arrays)

    def _bind(self, handle: Handle, number: int, array: Array | Borrowed | None) -> None:
        """Makes runs read an input there; None: in the model's own memory. Where that is refused, nothing changes."""
        there = None if isinstance(array, np.ndarray) else array
        if isinstance(array, np.ndarray):
            self._check(self._functions.sterna_bind_input(handle.pointer, number, address_of(array)))
        if self._on_device is not None:
            self._on_device.bind_input(number, self._inputs[number], there)
        if not isinstance(array, np.ndarray):
            self._check(self._functions.sterna_bind_input(handle.pointer, number, None))

    def _bind_again(self, handle: Handle, arrays: list[Array | Borrowed]) -> None:
        """Binds what `set_input` set in place of these, and lets all of these go before it raises an error."""
        problems = []
        for number, array in enumerate(arrays):
            try:
                self._bind(handle, number, self._set_array(number) if self._bound else None)
            except SternaError as problem:
                problems.append(problem)
                self._bind(handle, number, None)
            if not isinstance(array, np.ndarray):
                array.release()
        if problems:
            raise problems[0]

    def set_dims(self, **sizes: int) -> None:
        """Sets the sizes of open dimensions, before `set_input`; those that are not named keep theirs.

        Shapes of inputs and outputs change with them. If the shape of an array from `set_input` no longer fits, another
        one must be set; until then `run()` raises E0604. Raises E0501 for an unknown dimension or a size out of bounds.
        """
        handle = self._handle()
        check_sizes(self._bounds, sizes)
        with self._lock:
            self._resize(handle, {**self._sizes, **{name: int(size) for name, size in sizes.items()}})

    def reset_state(self) -> None:
        """Resets recurrent states and caches to what they are after loading. Does nothing to a model without states."""
        with self._lock:
            self._check(self._functions.sterna_reset_state(self._handle().pointer))

    def set_input(self, name: str, array: Any) -> None:
        """Makes every following `run()` read this array, without a copy: later changes of its elements have an effect.

        The bundle keeps a reference to it. Raises E0602 to E0606: the array must have the input's dtype and shape, and
        must be C-contiguous (E0605), because anything else would need a hidden copy.
        """
        handle = self._handle()
        if name not in self._input_numbers:
            raise error("E0602", f'the model has no input "{name}"', f"it has: {names_of(self._inputs)}")
        spec = self._at_present[number := self._input_numbers[name]]
        dims = assignments(self._sizes) if spec.shape != self._inputs[number].shape else None
        checked = array_to_keep(spec, array, self._borrow, dims)
        with self._lock:
            self._bind(handle, number, checked if checked.shape == self._at_present[number].shape else None)
            self._bound[number] = checked  # what was bound before is let go only now
            self._choose_run()

    def get_output(self, name: str) -> Array:
        """The output as a read-only view of the runtime's memory, without a copy: the next run changes it."""
        self._handle()
        try:
            return self._output_arrays[name]
        except KeyError:
            title = f'the model has no output "{name}"'
            raise error("E0509", title, f"it has: {names_of(self._outputs)}") from None

    # ---- Looking into it ----

    def intermediate(self, name: str) -> Array:
        """A copy of any tensor of the compiled model, after the latest run.

        Raises E0509 for an unknown name and E0510 for a tensor whose memory has been used again: a bundle compiled
        with `debug=True` keeps all tensors.
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
        with self._lock:
            result = np.empty(spec.at(self._all_sizes()).sizes, dtype=spec.dtype)
            address = address_of(result)
            self._check(self._functions.sterna_value_copy(handle.pointer, number, address, result.nbytes))
        return result

    def profile(self, repeat: int = 1) -> list[NodeTime]:
        """Runs the model `repeat` times on its current inputs; returns the time of every node, in execution order."""
        handle = self._handle()
        arguments = Arguments("E0501")
        repeat = arguments.integer("repeat", repeat, 1)
        arguments.done()
        with self._lock:
            self._leave_outputs()
            times, calls = measure(handle, repeat, lambda: self._check(self._run(handle.pointer)))
        return node_times(handle, times, calls, self._file.sources())

    def verify_golden(self, tolerance: float | None = None) -> Replay:
        """Runs the golden sets that `sterna compile --golden N` put into the bundle, and compares every output.

        Args:
            tolerance: of floats, relative to the output's largest magnitude; None: what the sets say.

        Raises E0503 if there are none, E0504 or E0505 if they are malformed or damaged.
        """
        from sterna_runtime.golden import replay  # noqa: PLC0415 (most programs never need it)

        return replay(self, tolerance)

    # ---- The end ----

    def close(self) -> None:
        """Frees the model as soon as no array of `get_output` is in use. Further calls raise E0520."""
        with self._lock:
            if self._on_device is not None and self._open is not None:
                self._leave_outputs()
                for number in self._bound:
                    self._on_device.bind_input(number, self._inputs[number], None)
            self._open = None
            self._on_device = self._borrow = None
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

    def of_runtime(self) -> tuple[Any, Any]:
        """The functions that this bundle calls and the model it gives them, for who put others in their place."""
        return self._functions, self._handle().pointer

    def _handle(self) -> Handle:
        if self._open is None:
            self._refuse_closed()
        return self._open

    def _refuse_closed(self) -> NoReturn:
        raise error("E0520", "the bundle has been closed", self._directory, fix="load it again")

    def _check(self, status: int) -> None:
        if status != 0:
            raise self._handle().last_error()

    def _fits(self, number: int) -> bool:
        return self._bound[number].shape == self._at_present[number].shape

    def _set_array(self, number: int) -> Array | Borrowed | None:
        """The array that `set_input` set; None, for the model's own memory, if there is none that fits."""
        return self._bound[number] if number in self._bound and self._fits(number) else None

    def _settle(self, handle: Handle) -> None:
        """Binds what `set_input` set and still fits. `run()` then has nothing to check: it calls the right function."""
        for number in self._bound:
            self._bind(handle, number, self._set_array(number))
        self._choose_run()

    def _choose_run(self) -> None:
        self._run = self._run_bound if all(map(self._fits, self._bound)) else self._refuse_stale

    def _refuse_stale(self, _model: object) -> NoReturn:
        raise stale_inputs(self._at_present, self._bound, assignments(self._sizes))

    def _resize(self, handle: Handle, sizes: dict[str, int]) -> None:
        """Gives the dimensions these sizes, in the model's order. The lock is held."""
        if sizes == self._sizes:
            return
        values = (ctypes.c_int64 * len(sizes))(*sizes.values())
        self._check(self._functions.sterna_set_dims(handle.pointer, values, len(sizes)))
        self._sizes = sizes
        self._found = {name: bounds.hi for name, bounds in self._computed.items()}
        self._show()
        self._settle(handle)

    def _run_and_measure(self, pointer: ctypes.c_void_p) -> int:
        """Runs a model that computes sizes; the arrays of its outputs follow them."""
        status: int = self._functions.sterna_run(pointer)
        found, dim = {}, library.CDim()
        for number, name in enumerate(self._computed, len(self._bounds)):
            self._check(self._functions.sterna_dim_info(pointer, number, dim))
            found[name] = int(dim.size)
        if found != self._found:
            self._found = found
            self._show()
        return status

    def _all_sizes(self) -> dict[str, int]:
        return {**self._sizes, **self._found}

    def _show(self) -> None:
        """Makes what is as large as the present sizes say: the inputs' shapes, the arrays that `get_output` returns."""
        handle = self._handle()
        sizes = self._all_sizes()
        self._at_present = tuple(spec.at(sizes) for spec in self._inputs)
        self._output_arrays = {
            spec.name: handle.memory(self._functions.sterna_output_buffer(handle.pointer, i), spec.at(sizes))
            for i, spec in enumerate(self._outputs)
        }
        for view in self._output_arrays.values():
            view.flags.writeable = False

    def _specs(self, side: str | None, count: Any, info: Any) -> tuple[TensorSpec, ...]:
        """All inputs, outputs or (`side` is None) values; sizes that are open come from graph.json."""
        specs = self._handle().specs(count, info)
        return self._opened(specs, side) if self._bounds or self._computed else tuple(specs)

    def _opened(self, specs: list[TensorSpec], side: str | None) -> tuple[TensorSpec, ...]:
        """The tensors with open sizes, where they are those that the C runtime has read."""
        shapes = self._file.shapes(side, {**self._bounds, **self._computed}, self._computed)
        opened = [replace(spec, shape=shape) for spec, shape in zip(specs, shapes, strict=False)]
        try:
            agrees = len(shapes) == len(specs) and [spec.at(self._all_sizes()) for spec in opened] == specs
        except (ValueError, LookupError, TypeError):
            agrees = False
        if not agrees:
            raise self._file.changed()
        return tuple(opened)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the source model says about its inputs and outputs (docs/bundle.md): labels, normalization of images."""
        return self._file.metadata()

    def quantization(self, name: str) -> Quantization | None:
        """Scale and zero point of the integers of an input or output; None if it is not quantized.

        Raises E0509 for an unknown name.
        """
        tensor = self._tensor(name)
        count = tensor.n_scales
        if count == 0:
            return None
        axis = tensor.axis if count > 1 else None
        return Quantization(tuple(tensor.scales[:count]), tuple(tensor.zero_points[:count]), axis)

    def labels(self, name: str) -> tuple[str, ...]:
        """The meaning of each element of an output, such as names of classes; empty if the model does not say.

        Raises E0509 for an unknown name.
        """
        tensor = self._tensor(name)
        return tuple(text(tensor.labels[i]) for i in range(tensor.n_labels))

    def _tensor(self, name: str) -> library.CTensor:
        """What the C runtime knows of an input or output."""
        handle, functions = self._handle(), self._functions
        sides = ((self._inputs, functions.sterna_input_info), (self._outputs, functions.sterna_output_info))
        for specs, info in sides:
            for number, spec in enumerate(specs):
                if spec.name == name:
                    return handle.tensor(info, number)
        where = f"it has: {names_of((*self._inputs, *self._outputs))}"
        raise error("E0509", f'the model has no input or output "{name}"', where)

    def _value_table(self) -> dict[str, tuple[int, TensorSpec]]:
        if self._values is None:
            functions = self._functions
            specs = self._specs(None, functions.sterna_value_count, functions.sterna_value_info)
            self._values = {spec.name: (i, spec) for i, spec in enumerate(specs)}
        return self._values
