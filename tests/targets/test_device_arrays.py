"""Inputs and outputs in a device's memory by DLPack: bound where they are, given back once, refused with a code.

CUDA is the test driver's (`support/cuda_driver.cpp`), whose streams do nothing before somebody waits, so that an order
that is missing is seen; OpenCL is PoCL, with buffers of pyopencl.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import sterna
from sterna.errors import SternaError
from sterna_runtime import Bundle, device_arrays, dlpack
from sterna_runtime.device_arrays import DeviceArray
from support.control_flow import numbers
from support.cuda_driver import Driver
from support.device_bundles import opencl
from support.device_tensors import (
    SHAPE,
    CudaTensor,
    Tensor,
    agree,
    functions_of,
    network,
    of_device,
    outputs_of,
    place_of,
)
from support.open_networks import rows
from support.tools import ROOT, need, run

# ---------------------------------------------------------------- CUDA


@pytest.fixture
def bundle(cuda: Driver) -> Iterator[Bundle]:
    cuda.reset()
    with sterna.compile(network(), "cuda") as loaded:
        yield loaded
    gc.collect()
    held = cuda.held, cuda.contexts
    cuda.reset()
    assert held == (0, 0)


@pytest.mark.family("cuda")
def test_cuda_in_and_out_without_copies(bundle: Bundle, cuda: Driver) -> None:
    """Neither copies for inputs nor for outputs, one wait; the array's user is asked to order the model's stream."""
    assert bundle.device is not None
    assert (bundle.device.kind, bundle.device.number) == ("cuda", 0)
    for versioned in (True, False):
        for number in range(5):
            x = numbers(*SHAPE) + number
            given = CudaTensor(cuda, x, first=32 if number == 1 else 0, versioned=versioned)
            copies = cuda.calls("cuMemcpyHtoDAsync"), cuda.calls("cuMemcpyDtoHAsync")
            waits = cuda.calls("cuStreamSynchronize")
            found = bundle.run_on_device({"x": given})
            # The one copy is that of the array's user.
            assert (cuda.calls("cuMemcpyHtoDAsync"), cuda.calls("cuMemcpyDtoHAsync")) == (copies[0] + 1, copies[1])
            assert cuda.calls("cuStreamSynchronize") <= waits + 1
            assert (given.streams, given.returned) == ([bundle.device.queue], 1)
            assert all(isinstance(array, DeviceArray) for array in found.values())
            agree(found, x)
            agree(bundle.run({"x": given}), x)
            assert given.returned == 2
            agree(bundle.run({"x": x}), x)
            given.free()


@pytest.mark.family("cuda")
def test_cuda_outputs_are_memory_of_their_own(bundle: Bundle, cuda: Driver) -> None:
    """A capsule keeps an output's memory, which no later run writes, and which serves again when all let go of it."""
    first, second = numbers(*SHAPE), numbers(*SHAPE) + 1
    kept = bundle.run_on_device({"x": first})
    borrowed = dlpack.Borrowed(kept["y"].__dlpack__(max_version=(1, 0)))
    other = bundle.run_on_device({"x": second})
    bundle.run({"x": second})
    bundle.profile()
    agree(kept, first)
    agree(other, second)
    address = borrowed.handle
    assert (borrowed.device, borrowed.shape, borrowed.type_name) == ((2, 0), SHAPE, "float32")
    assert borrowed.is_dense
    # It goes in again, as any other library's.
    agree(bundle.run({"x": kept["y"]}), -first)
    del kept, other
    held = bundle.run_on_device({"x": first})
    assert address not in {place_of(array) for array in held.values()}
    borrowed.release()
    borrowed.release()
    allocated = cuda.calls("cuMemAlloc")
    seen = {place_of(array) for _ in range(3) for array in bundle.run_on_device({"x": second}).values()}
    assert address in seen
    assert cuda.calls("cuMemAlloc") <= allocated + 1
    agree(held, first)
    memory = weakref.ref(of_device(held["y"])._memory)
    for version in (None, (1, 0)):
        capsule = of_device(held["y"]).__dlpack__(max_version=version)
        del capsule  # nobody has taken it
    # NumPy lets go of the capsule while its own error is on the way, which has to arrive.
    with pytest.raises((BufferError, RuntimeError), match="Unsupported device"):
        np.from_dlpack(held["y"])
    agree(held, first)
    del held
    assert memory() is None


@pytest.mark.family("cuda")
def test_cuda_many_outputs_of_one_size(cuda: Driver) -> None:
    """They have the places of the run before the last one again, so that two graphs serve all runs, and the device is
    waited for once for all of them."""
    cuda.reset()
    count = 6
    fed = [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)]
    made = [helper.make_tensor_value_info(f"y{n}", TensorProto.FLOAT, SHAPE) for n in range(count)]
    added = [helper.make_tensor(f"c{n}", TensorProto.FLOAT, [1], [float(n)]) for n in range(1, count + 1)]
    nodes = [helper.make_node("Add", ["x", f"c{n + 1}"], [f"y{n}"]) for n in range(count)]
    graph = helper.make_graph(nodes, "net", fed, made, added)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = numbers(*SHAPE)
    with sterna.compile(source, "cuda") as loaded:
        found = {}
        for run in range(12):
            before = cuda.calls("cuGraphLaunch"), cuda.calls("cuCtxSynchronize")
            found = loaded.run_on_device({"x": x})
            for n in range(count):
                np.testing.assert_array_equal(of_device(found[f"y{n}"]).numpy(), x + np.float32(n + 1))
            launched, waited = cuda.calls("cuGraphLaunch") - before[0], cuda.calls("cuCtxSynchronize") - before[1]
            assert waited <= 1
            assert run < 6 or launched == 1, run
        assert cuda.calls("cuGraphInstantiate") <= 3
        del found
    gc.collect()


@pytest.mark.family("cuda")
def test_cuda_inputs_that_stay(bundle: Bundle, cuda: Driver) -> None:
    """`set_input` reads an array on the device at every run, keeps it, and gives it back once when another is set."""
    x = numbers(*SHAPE)
    given = CudaTensor(cuda, x)
    bundle.set_input("x", given)
    for scale in (1, 2):
        given.array = x * scale
        given.before(bundle.device.queue if bundle.device else None)
        bundle.run()
        agree({name: bundle.get_output(name) for name in ("y", "z")}, x * scale)
    agree(bundle.run({"x": x}), x)
    bundle.run()
    agree({name: bundle.get_output(name) for name in ("y", "z")}, x * 2)
    assert given.returned == 0
    bundle.set_input("x", x)
    assert given.returned == 1
    bundle.run()
    agree({name: bundle.get_output(name) for name in ("y", "z")}, x)
    bundle.run_on_device({"x": x + 1})
    np.testing.assert_allclose(bundle.intermediate("y"), -x - 1)
    given.free()


@pytest.mark.family("cuda")
def test_cuda_refused(bundle: Bundle, cuda: Driver) -> None:
    x = numbers(*SHAPE)
    whole = x.size
    cases: list[tuple[dict[str, Any], np.ndarray[Any, Any], str, str]] = [
        ({"device": (2, 3)}, x, "E0606", "device 3"),
        ({"device": (4, 0)}, x, "E0606", "another kind of device"),
        ({"strides": (1, SHAPE[0])}, x, "E0605", "not C-contiguous"),
        ({"offset": 4}, x, "E0605", "not aligned to 16 bytes"),
        ({"first": 8}, x, "E0605", "not aligned to 16 bytes"),
        ({"lanes": 4}, x, "E0603", "type (2, 32, 4) of DLPack"),
        ({}, x.astype(np.float64), "E0603", "dtype float64"),
        ({"shape": (whole,)}, x, "E0604", f"shape [{whole}]"),
    ]
    set_before = x + 3
    kept = weakref.ref(set_before)
    bundle.set_input("x", set_before)
    del set_before
    for other, array, code, says in cases:
        given = CudaTensor(cuda, array, **other)
        for use in (
            lambda a: bundle.run({"x": a}),
            lambda a: bundle.run_on_device([a]),
            lambda a: bundle.set_input("x", a),
        ):
            with pytest.raises(SternaError) as caught:
                use(given)
            assert caught.value.codes == (code,)
            assert says in str(caught.value)
            assert "astype" not in str(caught.value)
            assert kept() is not None
            agree(outputs_of(bundle), x + 3)
        del caught
        gc.collect()
        assert given.returned == len(given.streams)
        given.free()
    nowhere = CudaTensor(cuda, x)
    nowhere.is_written = True
    nowhere.handle = x.ctypes.data + -x.ctypes.data % 16
    with pytest.raises(SternaError, match="is not of this device, number 0"):
        bundle.run({"x": nowhere})
    there = CudaTensor(cuda, x + 4)
    for before in (x + 3, there):
        bundle.set_input("x", before)
        with pytest.raises(SternaError, match="is not of this device, number 0"):
            bundle.set_input("x", nowhere)
        agree(outputs_of(bundle), before if isinstance(before, np.ndarray) else x + 4)
        agree(bundle.run({"x": x}), x)
        agree(outputs_of(bundle), before if isinstance(before, np.ndarray) else x + 4)
    assert there.returned == 0
    bundle.set_input("x", x)
    assert there.returned == 1
    there.free()
    nowhere.free()
    agree(bundle.run({"x": x}), x)
    with pytest.raises(BufferError, match="use numpy"):
        of_device(bundle.run_on_device({"x": x})["y"]).__dlpack__(dl_device=(1, 0))


@pytest.mark.family("cuda")
def test_cuda_nodes_on_the_cpu(cuda: Driver) -> None:
    """An input that the CPU reads is refused there; an output that it computes is NumPy's."""
    cuda.reset()
    x = numbers(*SHAPE)
    with sterna.compile(network(), "cuda", device_for={"*negate*": "cpu"}) as loaded:
        found = loaded.run_on_device({"x": x})
        assert isinstance(found["y"], np.ndarray)
        assert isinstance(found["z"], DeviceArray)
        agree(found, x)
        given = CudaTensor(cuda, x)
        with pytest.raises(SternaError, match=r"E0606.*nodes on the CPU read it"):
            loaded.run({"x": given})
        assert given.returned == 1
        zeroed = cuda.calls("cuMemsetD8Async")
        loaded.run_on_device({"x": x})
        assert cuda.calls("cuMemsetD8Async") == zeroed + 1  # for z alone
        set_before = x + 1
        kept = weakref.ref(set_before)
        loaded.set_input("x", set_before)
        del set_before
        with pytest.raises(SternaError, match=r"E0606.*nodes on the CPU read it"):
            loaded.set_input("x", given)
        assert kept() is not None
        agree(outputs_of(loaded), x + 1)
        agree(loaded.run({"x": x}), x)
        agree(outputs_of(loaded), x + 1)
        given.free()
    with sterna.compile(network()) as here:
        assert here.device is None
        agree(here.run_on_device({"x": x}), x)


@pytest.mark.family("cuda")
def test_cuda_open_sizes(cuda: Driver) -> None:
    cuda.reset()
    dims = {"batch": (1, 4), "length": (2, 40)}
    with sterna.compile(rows(), "cuda", dims=dims) as there, sterna.compile(rows(), dims=dims) as here:
        for batch, length in ((4, 40), (1, 4), (3, 17)):
            x = numbers(batch, length)
            given = CudaTensor(cuda, x)
            found = there.run_on_device({"x": given})
            for name, wanted in here.run({"x": x}).items():
                array = found[name]
                assert array.shape == wanted.shape
                taken = np.asarray(array)
                assert taken.dtype == wanted.dtype
                if isinstance(array, DeviceArray):
                    assert np.array_equal(taken, array.numpy())
                    with pytest.raises(ValueError, match="no memory there without a copy"):
                        array.__array__(copy=False)
                np.testing.assert_allclose(taken, wanted, 1e-4, 1e-5)
            given.free()
        # Memory that is bound and too small for later sizes, which the device knows already.
        small, large = {"batch": 1, "length": 4}, {"batch": 4, "length": 40}
        functions, model = functions_of(there)
        there.run({"x": numbers(*large.values())})
        there.set_dims(**small)
        x = numbers(*small.values())
        given = CudaTensor(cuda, x)
        given.before(there.device.queue if there.device else None)
        record = device_arrays._Memory(ctypes.sizeof(device_arrays._Memory), given.handle, 0, x.nbytes, None)
        assert functions.bind_input(model, 0, record) == 0
        there.set_dims(**large)
        for use in (there.run, lambda: there.intermediate("x")):
            with pytest.raises(SternaError, match='"x" has 640 bytes; the memory has 16'):
                use()
        there.set_dims(**small)
        there.run()
        np.testing.assert_allclose(there.get_output("most"), np.tanh(x).max(0), 1e-5)
        assert functions.bind_input(model, 0, None) == 0
        given.free()


@pytest.mark.family("cuda")
def test_arrays_outlive_the_bundle(cuda: Driver) -> None:
    cuda.reset()
    x = numbers(*SHAPE)
    with sterna.compile(network(), "cuda") as loaded:
        found = loaded.run_on_device({"x": x})
        again = of_device(found["y"]).__dlpack__()
    agree(found, x)
    del found
    gc.collect()
    assert cuda.held > 0
    del again
    gc.collect()
    assert cuda.held == 0


# ---------------------------------------------------------------- OpenCL


@pytest.mark.family("opencl")
def test_opencl_in_and_out_without_copies(tmp_path: Path) -> None:
    """Buffers of pyopencl in the model's context, a part of one, and one of another context, which is refused."""
    cl = pytest.importorskip("pyopencl", reason="another library with OpenCL's memory")
    with opencl(tmp_path), sterna.compile(network(), "opencl") as loaded:
        assert loaded.device is not None
        context = cl.Context.from_int_ptr(loaded.device.context)
        queue = cl.CommandQueue.from_int_ptr(loaded.device.queue)
        x = numbers(*SHAPE)
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, x.nbytes + 64)
        for number in range(3):
            first = 64 if number == 1 else 0
            cl.enqueue_copy(queue, buffer, x + number, dst_offset=first, is_blocking=False)
            given = Tensor(x, buffer.int_ptr, (4, 0), first=first)
            found = loaded.run_on_device({"x": given})
            assert (given.streams, given.returned) == ([None], 1)
            agree(found, x + number)
            agree(loaded.run({"x": given}), x + number)
            shown = dlpack.Borrowed(of_device(found["y"]).__dlpack__())
            seen = np.empty(SHAPE, np.float32)
            cl.enqueue_copy(queue, seen, cl.Buffer.from_int_ptr(shown.handle))
            np.testing.assert_array_equal(seen, -(x + number))
            shown.release()
        short = Tensor(x, buffer.int_ptr, (4, 0), first=128)
        with pytest.raises(SternaError, match=f"the memory has {x.nbytes + 64} bytes"):
            loaded.run({"x": short})
        stranger = cl.Context(context.devices)
        foreign = cl.Buffer(stranger, cl.mem_flags.READ_WRITE, x.nbytes)
        with pytest.raises(SternaError, match="the memory is of another context"):
            loaded.run({"x": Tensor(x, foreign.int_ptr, (4, 0))})
        agree(loaded.run({"x": x}), x)


@pytest.mark.family("opencl")
def test_a_capsule_at_the_end_of_python(tmp_path: Path) -> None:
    """What nobody has given back when Python ends does not crash it."""
    with opencl(tmp_path):
        place = tmp_path / "bundle"
        sterna.compile(network(), "opencl", output=place).close()
        program = (
            "import sys, numpy as np, sterna_runtime\n"
            "from sterna_runtime import dlpack\n"
            "bundle = sterna_runtime.load(sys.argv[1])\n"
            f"found = bundle.run_on_device({{'x': np.zeros({SHAPE}, np.float32)}})\n"
            "capsule, taken = found['y'].__dlpack__(), dlpack.Borrowed(found['z'].__dlpack__())\n"
            "sys.keep = capsule, taken, found, bundle\n"
            "print('end')\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler"), "POCL_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", program, str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_records_are_those_of_the_header(tmp_path: Path) -> None:
    """Python's layouts of sterna_device.h, and the alignment, against the C compiler's."""
    records = {
        "sterna_device_place": device_arrays._Place,
        "sterna_device_memory": device_arrays._Memory,
        "sterna_device_bindings": device_arrays._Bindings,
        "sterna_device_api": device_arrays._Table,
    }
    members = [(record, name) for record, layout in records.items() for name, *_ in layout._fields_]
    source = tmp_path / "records.c"
    source.write_text(
        '#include <stddef.h>\n#include <stdio.h>\n#include "sterna_device.h"\n'
        'int main(void) {\n  printf("%d ", STERNA_DEVICE_ALIGNMENT);\n'
        + "".join(f'  printf("%zu ", sizeof({record}));\n' for record in records)
        + "".join(f'  printf("%zu ", offsetof({record}, {name}));\n' for record, name in members)
        + "  return 0;\n}\n"
    )
    gcc = need("gcc", "prints the layout of records")
    run(gcc, "-std=c99", f"-I{ROOT / 'runtime_c' / 'include'}", source, "-o", tmp_path / "records")
    wanted = [device_arrays._ALIGNMENT, *(ctypes.sizeof(layout) for layout in records.values())]
    wanted += [getattr(records[record], name).offset for record, name in members]
    assert [int(word) for word in run(tmp_path / "records").split()] == wanted
