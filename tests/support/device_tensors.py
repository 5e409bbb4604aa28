"""Arrays that other libraries have in a device's memory, for tests of inputs and outputs there."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from sterna_runtime import Bundle, dlpack
from sterna_runtime.device_arrays import DeviceArray
from support.cuda_driver import Driver

SHAPE = (6, 40)
FLOAT = TensorProto.FLOAT


def network() -> Any:
    """y = -x, and z = x + 1 of another node."""
    fed = [helper.make_tensor_value_info("x", FLOAT, SHAPE)]
    made = [helper.make_tensor_value_info(name, FLOAT, SHAPE) for name in ("y", "z")]
    nodes = [
        helper.make_node("Neg", ["x"], ["y"], name="negate"),
        helper.make_node("Softmax", ["x"], ["z"], name="soften"),
    ]
    return helper.make_model(
        helper.make_graph(nodes, "net", fed, made), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


def expected(x: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    powers = np.exp(x - x.max(1, keepdims=True))
    return {"y": -x, "z": powers / powers.sum(1, keepdims=True)}


def agree(found: dict[str, Any], x: np.ndarray[Any, Any]) -> None:
    for name, wanted in expected(x).items():
        array = found[name].numpy() if isinstance(found[name], DeviceArray) else found[name]
        np.testing.assert_allclose(array, wanted, 1e-6, 1e-6)


def of_device(array: Any) -> DeviceArray:
    assert isinstance(array, DeviceArray)
    return array


def place_of(array: Any) -> int:
    return int(of_device(array)._memory.record.handle)


new_capsule = dlpack._python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


def outputs_of(bundle: Bundle) -> dict[str, np.ndarray[Any, Any]]:
    """What `run()` gives for what is set."""
    bundle.run()
    return {spec.name: bundle.get_output(spec.name) for spec in bundle.outputs}


def functions_of(bundle: Bundle) -> tuple[Any, Any]:
    """The functions of sterna_device_bindings, and the model that they take."""
    assert bundle._on_device is not None
    return bundle._on_device.functions, bundle._on_device.handle.pointer


class Tensor:
    """An array that another library has in a device's memory; `given` counts capsules, `returned` their deleters."""

    def __init__(self, array: np.ndarray[Any, Any], handle: int, device: tuple[int, int], **other: Any) -> None:
        self.array, self.handle, self.device = array, handle, device
        self.shape = other.get("shape", array.shape)
        self.strides = other.get("strides")
        self.first = other.get("first", 0)
        self.versioned = other.get("versioned", True)
        self.lanes = other.get("lanes", 1)
        self.streams: list[int | None] = []
        self.returned = 0
        self._kept: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, stream: int | None = None, **options: Any) -> Any:
        if options and not self.versioned:
            raise TypeError("unexpected keyword argument")
        self.before(stream)
        self.streams.append(stream)
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        record = dlpack._RECORDS[name]()

        def delete(_address: int) -> None:
            self.returned += 1

        deleter = dlpack._DELETER(delete)
        shape = (ctypes.c_int64 * max(1, len(self.shape)))(*self.shape)
        strides = None if self.strides is None else (ctypes.c_int64 * len(self.strides))(*self.strides)
        code, bits = dlpack._CODES[self.array.dtype.name]
        record.tensor = dlpack._Tensor(
            self.handle, dlpack._Device(*self.device), len(self.shape), dlpack._Type(code, bits, self.lanes), shape,
            strides, self.first,
        )  # fmt: skip
        record.deleter = ctypes.cast(deleter, ctypes.c_void_p)
        if self.versioned:
            record.major, record.minor = 1, 1
        self._kept.append((record, deleter, shape, strides, name))
        return new_capsule(ctypes.addressof(record), name, None)

    def before(self, stream: int | None) -> None:
        """What is done on a stream so that what follows there sees the array."""


class CudaTensor(Tensor):
    """Its elements are written by a copy on the stream that asks for it, and so by nobody if that is another one."""

    def __init__(self, cuda: Driver, array: np.ndarray[Any, Any], offset: int = 0, **other: Any) -> None:
        self.cuda = cuda.library
        context, address = ctypes.c_void_p(), ctypes.c_uint64()
        assert self.cuda.cuInit(0) == 0
        self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        self.cuda.cuCtxPushCurrent_v2(context)
        assert self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(array.nbytes + 64)) == 0
        self.base, self.is_written = address.value, False
        super().__init__(array, address.value + offset, other.pop("device", (2, 0)), **other)

    def before(self, stream: int | None) -> None:
        if self.is_written:
            return
        here, size = self.array.ctypes.data, ctypes.c_size_t(self.array.nbytes)
        there = ctypes.c_uint64(self.handle + self.first)
        assert self.cuda.cuMemcpyHtoDAsync_v2(there, ctypes.c_void_p(here), size, ctypes.c_void_p(stream)) == 0

    def free(self) -> None:
        self.cuda.cuCtxSynchronize()
        self.cuda.cuMemFree_v2(ctypes.c_uint64(self.base))
        self.cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        self.cuda.cuDevicePrimaryCtxRelease_v2(0)
