"""Memory of a device that programs bind: each tensor alone, given back when it ends, in parts of one allocation."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest
from onnx import helper

import sterna
from sterna.errors import SternaError
from sterna_runtime import device_arrays, inputs
from support.control_flow import numbers
from support.cuda_driver import Driver
from support.device_tensors import FLOAT, SHAPE, CudaTensor, functions_of, network, of_device, outputs_of


def two_inputs() -> Any:
    """y = -x and z = |w|."""
    tensors = [helper.make_tensor_value_info(name, FLOAT, SHAPE) for name in ("x", "w", "y", "z")]
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["w"], ["z"])]
    return helper.make_model(
        helper.make_graph(nodes, "net", tensors[:2], tensors[2:]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


@pytest.mark.family("cuda")
def test_cuda_inputs_in_one_memory(cuda: Driver) -> None:
    """Two inputs, and an output, in parts of one memory of the model's: each moves alone. Records have their size."""
    cuda.reset()
    x, w = numbers(*SHAPE), numbers(*SHAPE) - 5
    with sterna.compile(two_inputs(), "cuda") as loaded:
        functions, model = functions_of(loaded)
        size = ctypes.sizeof(device_arrays._Memory)
        assert functions.allocate(model, 3 * x.nbytes, device_arrays._Memory()) != 0
        assert "sizeof(sterna_device_memory)" in str(loaded._handle().last_error())
        assert functions.place(model, device_arrays._Place()) != 0
        assert "sizeof(sterna_device_place)" in str(loaded._handle().last_error())
        record = device_arrays._Memory(size)
        assert functions.allocate(model, 3 * x.nbytes, record) == 0
        parts = [
            device_arrays._Memory(size, record.handle, k * x.nbytes, (3 - k) * x.nbytes, record.own) for k in range(3)
        ]
        assert functions.bind_output(model, 0, parts[2]) == 0
        pad = CudaTensor(cuda, x)  # which enters the device's context
        for number, array in enumerate((x, w)):
            there, here = ctypes.c_uint64(record.handle + number * x.nbytes), ctypes.c_void_p(array.ctypes.data)
            queue = ctypes.c_void_p(loaded.device.queue if loaded.device else None)
            assert cuda.library.cuMemcpyHtoDAsync_v2(there, here, ctypes.c_size_t(x.nbytes), queue) == 0
            assert functions.bind_input(model, number, parts[number]) == 0
        loaded.run()
        np.testing.assert_allclose(loaded.intermediate("y"), -x)
        np.testing.assert_allclose(loaded.get_output("z"), abs(w))
        for number, (first, second) in enumerate(((x + 1, w), (x + 1, w + 1))):
            assert functions.bind_input(model, number, None) == 0
            loaded.set_input("x" if number == 0 else "w", first if number == 0 else second)
            loaded.run()
            np.testing.assert_allclose(loaded.intermediate("y"), -first)
            np.testing.assert_allclose(loaded.get_output("z"), abs(second))
        assert functions.copy_out(model, x.ctypes.data, parts[2], 4 * x.nbytes) != 0
        assert functions.bind_output(model, 0, None) == 0
        functions.release(model, record)
        pad.free()


@pytest.mark.family("cuda")
def test_cuda_every_input_is_let_go(cuda: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a run all inputs are what they were, also where one of them fails to be."""
    cuda.reset()
    x, w = numbers(*SHAPE), numbers(*SHAPE) - 5
    with sterna.compile(two_inputs(), "cuda") as loaded:
        loaded.set_input("x", x)
        loaded.set_input("w", w)
        given = [CudaTensor(cuda, x + 1), CudaTensor(cuda, w + 1)]
        bind, failed = device_arrays.OnDevice.bind_input, []

        def fails(self: Any, number: int, spec: Any, value: Any) -> None:
            if number == 0 and value is None and not failed:
                failed.append(number)
                raise SternaError([sterna.errors.Diagnostic("E0501", "not now")])
            bind(self, number, spec, value)

        with monkeypatch.context() as patch:
            patch.setattr(device_arrays.OnDevice, "bind_input", fails)
            with pytest.raises(SternaError, match="not now"):
                loaded.run(given)
        assert [each.returned for each in given] == [1, 1]
        queue = loaded.device.queue if loaded.device else None
        for each in given:  # what was theirs has other values now
            each.array = each.array + 7
            each.before(queue)
        np.testing.assert_allclose(outputs_of(loaded)["z"], abs(w))
        loaded.run([x, w])
        np.testing.assert_allclose(outputs_of(loaded)["y"], -x)
        for each in given:
            each.free()


@pytest.mark.family("cuda")
def test_cuda_memory_ends_with_the_bundle(cuda: Driver) -> None:
    """Nothing of a bundle waits for the collector of cycles, outputs on the device included."""
    cuda.reset()
    x = numbers(*SHAPE)
    loaded = sterna.compile(network(), "cuda")
    gc.collect()
    gc.disable()
    try:
        found = loaded.run_on_device({"x": x})
        kept = found.pop("y")
        del found, loaded
        np.testing.assert_allclose(of_device(kept).numpy(), -x)
        del kept
        held = cuda.held
    finally:
        gc.enable()
    assert held == 0


@pytest.mark.parametrize("method", ["astype", "to", None])
def test_the_way_to_another_dtype(method: str | None) -> None:
    """What is advised is a method that the object has."""
    kind = type("Kind", (), {"__array__": lambda self, **_: np.zeros(2), **({method: None} if method else {})})
    advice = {"astype": 'array.astype("float32")', "to": "tensor.to(torch.float32)", None: "an array of float32"}
    found = inputs.as_array(inputs.TensorSpec("x", np.dtype(np.float32), (2,)), kind())
    assert isinstance(found, list)
    assert [problem.fix for problem in found] == [advice[method]]
