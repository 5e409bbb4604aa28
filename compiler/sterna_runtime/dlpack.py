"""DLPack's records through ctypes: memory of devices that others give, and that is given to them.

NumPy takes and gives capsules of the CPU's memory alone. The records are those of DLPack 1.1 (dlpack.h), and of
versions before 1.0, which have neither a version nor flags.
"""

from __future__ import annotations

import ctypes
import math
from ctypes import (
    CFUNCTYPE,
    POINTER,
    PYFUNCTYPE,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

import numpy as np

#: DLPack's numbers of devices, by the kinds that bundles name.
KINDS = {"cuda": 2, "opencl": 4}
_VERSION = (1, 1)

_CODES = {
    **{f"{sign}int{bits}": (number, bits) for number, sign in enumerate(("", "u")) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
    "bfloat16": (4, 16),
    "complex64": (5, 64),
    "complex128": (5, 128),
    "bool": (6, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
}
_NAMES = {code: name for name, code in _CODES.items()}


class _Device(ctypes.Structure):
    _fields_ = (("kind", c_int32), ("number", c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device", _Device),
        ("rank", c_int32),
        ("dtype", _Type),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("first", c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    )


_RECORDS = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}
_USED = {name: b"used_" + name for name in _RECORDS}
_DELETER = CFUNCTYPE(None, c_void_p)


def _python(name: str, result: Any, *arguments: Any) -> Any:
    return PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_capsule = _python("PyCapsule_IsValid", c_int, c_void_p, c_char_p)
_pointer_of = _python("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)
_rename = _python("PyCapsule_SetName", c_int, c_void_p, c_char_p)


class Borrowed:
    """Memory of a device that another library has, until `release`: its deleter is called once."""

    def __init__(self, capsule: Any) -> None:
        """Takes what a capsule holds, which is used up then. Raises BufferError for what is none of DLPack's."""
        name = next((name for name in _RECORDS if _is_capsule(id(capsule), name)), None)
        if name is None:
            raise BufferError("__dlpack__ gave no capsule that is fresh")
        record = _RECORDS[name]
        self._address: int | None = _pointer_of(id(capsule), name)
        _rename(id(capsule), _USED[name])
        managed = record.from_address(self._address)
        self._deleter: int | None = managed.deleter
        if record is _Versioned and managed.major != _VERSION[0]:
            self.release()
            raise BufferError(f"the capsule is of version {managed.major}.{managed.minor} of DLPack")
        tensor = managed.tensor
        self.device = tensor.device.kind, tensor.device.number
        self.handle, self.first = int(tensor.data or 0), int(tensor.first)
        self.shape = tuple(tensor.shape[: tensor.rank])
        self.type_name = _NAMES.get((tensor.dtype.code, tensor.dtype.bits)) if tensor.dtype.lanes == 1 else None
        #: Of this type here, once that is known.
        self.dtype: np.dtype[Any] | None = None
        self.code = tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes
        strides = tuple(tensor.strides[: tensor.rank]) if tensor.strides else None
        self.is_dense = strides is None or _is_dense(self.shape, strides)

    @property
    def nbytes(self) -> int:
        elements: int = math.prod(self.shape)
        return elements * int(self.code[1]) // 8

    def release(self) -> None:
        """Gives the memory back. Runs that read it are over."""
        address, self._address = self._address, None
        if address is not None and self._deleter:
            _DELETER(self._deleter)(address)

    def __del__(self) -> None:
        if getattr(self, "_address", None) is not None:
            self.release()


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return math.prod(shape) == 0
        step *= size
    return True


def take(given: Any, stream: int | None) -> Borrowed:
    """The memory of an object with `__dlpack__`, which has what it still does there done before what `stream` does."""
    try:
        capsule = given.__dlpack__(stream=stream, max_version=_VERSION)
    except TypeError:  # it is older than this argument
        capsule = given.__dlpack__(stream=stream)
    return Borrowed(capsule)


def give(
    owner: object,
    handle: int,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    device: tuple[int, int],
    version: tuple[int, int] | None,
) -> Any:
    """A capsule that shows memory of a device, which `owner` keeps until the capsule's user is done with it.

    The capsule is NumPy's, of an array that nobody reads, changed to show the device's memory. So what gives it back
    is machine code, which may be called without Python's lock, while an exception is on its way (when a library
    refuses the capsule), and when Python ends. A function of ctypes would lose the exception.

    Raises BufferError for a type of elements that DLPack has not.
    """
    if dtype.name not in _CODES:
        raise BufferError(f"DLPack has no {dtype}")
    memory: Any = (ctypes.c_char * max(1, math.prod(shape) * dtype.itemsize)).from_address(handle)
    memory._owner = owner
    like = np.dtype(f"u{dtype.itemsize}" if dtype.itemsize <= 8 else "c16")
    array: Any = np.ndarray(shape, like, memory)
    if version is None or version[0] < _VERSION[0]:
        capsule = array.__dlpack__()
    else:
        try:
            capsule = array.__dlpack__(max_version=version)
        except TypeError:  # NumPy before 2.1 has only capsules without a version, which every user takes
            capsule = array.__dlpack__()
    name = next(name for name in _RECORDS if _is_capsule(id(capsule), name))
    tensor = _RECORDS[name].from_address(_pointer_of(id(capsule), name)).tensor
    code, bits = _CODES[dtype.name]
    tensor.data, tensor.first, tensor.dtype = handle, 0, _Type(code, bits, 1)
    tensor.device = _Device(*device)
    return capsule
