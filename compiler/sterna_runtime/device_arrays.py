"""Inputs and outputs in a device's memory, without copies: what DLPack gives is bound, outputs are given by it."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Iterable
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sterna_runtime.dlpack import KINDS, Borrowed, give, take
from sterna_runtime.errors import Diagnostic, SternaError
from sterna_runtime.inputs import Array, TensorSpec, dtype_from_name

if TYPE_CHECKING:
    from sterna_runtime.handle import Handle

_ALIGNMENT = 16
"""STERNA_DEVICE_ALIGNMENT"""
_NOT_AVAILABLE = -10
"""STERNA_NOT_AVAILABLE"""


class _Place(ctypes.Structure):
    """sterna_device_place"""

    _fields_ = (
        ("size", c_size_t),
        ("number", c_int32),
        ("reserved", c_uint32),
        ("queue", c_uint64),
        ("context", c_uint64),
    )


class _Memory(ctypes.Structure):
    """sterna_device_memory"""

    _fields_ = (("size", c_size_t), ("handle", c_uint64), ("first", c_uint64), ("bytes", c_uint64), ("own", c_void_p))


_BIND = CFUNCTYPE(c_int32, c_void_p, c_uint32, POINTER(_Memory))


class _Bindings(ctypes.Structure):
    """sterna_device_bindings"""

    _fields_ = (
        ("place", CFUNCTYPE(c_int32, c_void_p, POINTER(_Place))),
        ("bind_input", _BIND),
        ("bind_output", _BIND),
        ("allocate", CFUNCTYPE(c_int32, c_void_p, c_uint64, POINTER(_Memory))),
        ("release", CFUNCTYPE(None, c_void_p, POINTER(_Memory))),
        ("copy_out", CFUNCTYPE(c_int32, c_void_p, c_void_p, POINTER(_Memory), c_uint64)),
    )


class _Table(ctypes.Structure):
    """sterna_device_api"""

    _fields_ = (
        ("size", c_size_t),
        ("kind", c_char_p),
        *((name, c_void_p) for name in ("open", "close", "allocate", "copy_in", "copy_out", "launch", "wait")),
        ("support", c_void_p),
        *((name, c_void_p) for name in ("place", "adopt", "release", "handle_of")),
        ("bindings", POINTER(_Bindings)),
    )


@dataclass(frozen=True)
class Device:
    """Where a bundle runs, for other libraries that use the device.

    Args:
        kind: `cuda` or `opencl`.
        number: CUDA's of the device; 0 for OpenCL.
        queue: address of the CUDA stream (cudaStream_t) or OpenCL command queue that the bundle uses, in whose order it
            reads its inputs.
        context: address of the CUcontext or cl_context; memory of OpenCL has to be of this one.
    """

    kind: str
    number: int
    queue: int
    context: int


class DeviceArray:
    """An output in the memory of a device, C-contiguous: `torch.from_dlpack(array)` or `cupy.from_dlpack(array)` is the
    same memory. It is complete, and no later run changes it; its memory lives as long as somebody uses it."""

    def __init__(self, memory: _Allocated, spec: TensorSpec, device: Device) -> None:
        self._memory = memory
        self.name = spec.name
        self.dtype = spec.dtype
        self.shape = spec.sizes
        self.device = device

    def __repr__(self) -> str:
        return f"<DeviceArray {self.name} {self.dtype}{list(self.shape)} on {self.device.kind} {self.device.number}>"

    def __dlpack_device__(self) -> tuple[int, int]:
        return KINDS[self.device.kind], self.device.number

    def __dlpack__(
        self,
        *,
        stream: int | None = None,  # what wrote the array is done
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is on device {self.__dlpack_device__()}: use numpy() for a copy on the CPU")
        if copy:
            raise BufferError("the array is not copied: use numpy() for a copy on the CPU")
        return give(
            self._memory, self._memory.record.handle, self.dtype, self.shape, self.__dlpack_device__(), max_version
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """`numpy()`, for `numpy.asarray` and what calls it. Raises ValueError where no copy is allowed."""
        if copy is False:
            raise ValueError("the array is on a device, and NumPy reads no memory there without a copy: copy=None")
        return self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)

    def numpy(self) -> Array:
        """A copy in the CPU's memory."""
        result = np.empty(self.shape, self.dtype)
        self._memory.copy_to(result)
        return result


class _Allocated:
    """Memory of the device for an output; its end gives it back."""

    def __init__(self, shared: OnDevice, record: _Memory) -> None:
        self.shared, self.record = shared, record

    def copy_to(self, array: Array) -> None:
        shared = self.shared
        with shared.lock:
            address, bytes_ = array.__array_interface__["data"][0], array.nbytes
            shared.handle.check(
                shared.functions.copy_out(shared.handle.pointer, address, self.record, bytes_) if bytes_ else 0
            )

    def __del__(self) -> None:
        self.shared.give_back(self.record)


#: The memory that outputs are bound to, by number: the bundle's.
Held = dict[int, _Allocated]


class OnDevice:
    """A bundle's inputs and outputs on its device. Its functions are called with the bundle's lock held, unless they
    say otherwise."""

    def __init__(self, handle: Handle, bindings: Any, kind: str, lock: threading.Lock) -> None:
        self.handle, self.functions, self.lock = handle, bindings.contents, lock
        self._bindings = bindings
        place = _Place(size=ctypes.sizeof(_Place))
        handle.check(self.functions.place(handle.pointer, place))
        self.device = Device(kind, place.number, place.queue, place.context)
        self._inputs: set[int] = set()
        #: Where outputs are bound, by number. Who holds the memory is the bundle: this object would be part of a cycle.
        self._outputs: dict[int, int] = {}
        self._of_cpu: set[int] = set()
        self._given_back: deque[_Memory] = deque()

    def borrow(self, spec: TensorSpec, given: Any) -> Borrowed | list[Diagnostic]:
        """What an object with `__dlpack__` has in the device's memory, or why it cannot be read there.

        Needs no lock.
        """
        own = self.device
        where = f"the model expects {spec}, and runs on {own.kind} {own.number}"
        kind, number = (int(part) for part in given.__dlpack_device__())
        if kind != KINDS[own.kind]:
            title = f'input "{spec.name}" lies in the memory of another kind of device ({kind} of DLPack)'
            return [Diagnostic("E0606", title, (where,), "a copy in the CPU's memory, such as tensor.cpu()")]
        if number != own.number:
            title = f'input "{spec.name}" lies in the memory of device {number}'
            variable = f"STERNA_{own.kind.upper()}_DEVICE"
            fix = f'tensor.to("{own.kind}:{own.number}"), or {variable}={number} when the bundle is loaded'
            return [Diagnostic("E0606", title, (where,), fix)]
        borrowed = take(given, own.queue if own.kind == "cuda" else None)
        name = borrowed.type_name
        if name is None:
            title = f'input "{spec.name}" has elements that have no name here: type {borrowed.code} of DLPack'
            return [Diagnostic("E0603", title, (where,), f"an array of {spec.dtype}")]
        borrowed.dtype = dtype_from_name(name)
        aligned = borrowed.first % _ALIGNMENT == 0 and (own.kind != "cuda" or borrowed.handle % _ALIGNMENT == 0)
        if not borrowed.is_dense or not (aligned or borrowed.nbytes == 0):
            lacks = "C-contiguous" if not borrowed.is_dense else f"aligned to {_ALIGNMENT} bytes"
            title = f'input "{spec.name}" cannot be read in place: the array is not {lacks}'
            return [
                Diagnostic("E0605", title, (where,), "tensor.contiguous(), or tensor.clone() of a part of a tensor")
            ]
        return borrowed

    def bind_input(self, number: int, spec: TensorSpec, value: Borrowed | None) -> None:
        """The input is there; None: it is in the CPU's memory. If it is refused, it stays where it was."""
        if value is None or value.nbytes == 0:
            if number in self._inputs:
                self.handle.check(self.functions.bind_input(self.handle.pointer, number, None))
                self._inputs.remove(number)
            return
        record = _Memory(ctypes.sizeof(_Memory), value.handle, value.first, value.nbytes, None)
        status = self.functions.bind_input(self.handle.pointer, number, record)
        if status == _NOT_AVAILABLE:
            title = f'input "{spec.name}" lies in the memory of a device, and nodes on the CPU read it'
            fix = "a copy in the CPU's memory, such as tensor.cpu()"
            raise SternaError(Diagnostic("E0606", title, (f"the model expects {spec}",), fix))
        self.handle.check(status)
        self._inputs.add(number)

    def take_outputs(self, specs: Iterable[TensorSpec], held: Held) -> None:
        """The next run writes its outputs to fresh memory of the device, where nodes of the device compute them."""
        self.leave_outputs(held)
        for number, spec in enumerate(specs):
            if spec.nbytes == 0 or number in self._of_cpu:
                continue
            record = _Memory(size=ctypes.sizeof(_Memory))
            self.handle.check(self.functions.allocate(self.handle.pointer, spec.nbytes, record))
            memory = _Allocated(self, record)
            status = self.functions.bind_output(self.handle.pointer, number, record)
            if status == _NOT_AVAILABLE:
                self._of_cpu.add(number)
                continue
            self.handle.check(status)
            held[number], self._outputs[number] = memory, record.own

    def outputs(self, specs: Iterable[TensorSpec], held: Held) -> dict[str, DeviceArray]:
        """What the run has written on the device."""
        return {
            spec.name: DeviceArray(held[number], spec, self.device)
            for number, spec in enumerate(specs)
            if number in held
        }

    def leave_outputs(self, held: Held) -> None:
        """The next run writes its outputs to the CPU's memory."""
        for number in self._outputs:
            self.functions.bind_output(self.handle.pointer, number, None)
        self._outputs.clear()
        held.clear()
        self._drain()

    def give_back(self, record: _Memory) -> None:
        """Memory that nobody uses any more. Any thread calls it, with or without the lock, at any time."""
        self._given_back.append(record)
        if self.lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self.lock.release()

    def _drain(self) -> None:
        while self._given_back and self.handle.pointer:
            record = self._given_back.popleft()
            for number in [number for number, own in self._outputs.items() if own == record.own]:
                self.functions.bind_output(self.handle.pointer, number, None)  # the bundle is no more
                del self._outputs[number]
            self.functions.release(self.handle.pointer, record)


def on_device(handle: Handle, lock: threading.Lock) -> OnDevice | None:
    """What binds memory of a bundle's device; None if its library binds none. `lock` is held while the model runs."""
    found = _Table.from_address(handle.table)
    bindings = found.bindings if found.size >= ctypes.sizeof(_Table) and handle.kind in KINDS else None
    return OnDevice(handle, bindings, handle.kind, lock) if bindings else None
