"""The OpenCL dialect: what loop programs compute in OpenCL C, against the interpreter and trained models' references.

The dialect is one file of data and small methods; nothing in the printer knows of it. STERNA_OPENCL=all runs every
part of the operators.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from onnx import TensorProto, helper

from sterna.api import compile_model
from sterna.driver import Options, compile_graph
from support import opencl_host
from support.compiling import check
from support.every_operator import agree, every_operator
from support.trained import sample

pytestmark = pytest.mark.family("opencl")
PARTS = 8
SAMPLED = range(PARTS) if os.environ.get("STERNA_OPENCL") == "all" else (1, 6)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> opencl_host.Device:
    return opencl_host.Device(tmp_path_factory.mktemp("opencl"))


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("part", SAMPLED)
def test_every_operator(part: int, groups: bool, device: opencl_host.Device) -> None:
    graph, inputs, expected = every_operator(part=part, parts=PARTS)
    compiled = compile_graph(graph, "small", Options(opencl_host.opencl_target(groups)))
    assert any(kernel.function.has_threads for kernel in compiled.kernels) == groups
    agree(device.run(compiled, inputs), expected)


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("name", ["digits", "mlperf_tiny_kws_int8"])
def test_a_network(name: str, groups: bool, device: opencl_host.Device) -> None:
    model = sample(name)
    compiled = compile_model(model.file, opencl_host.opencl_target(groups), shapes=model.shapes())
    for case in model.cases[:2]:
        found = device.run(compiled, case.inputs)
        check(found, dict(zip(found, case.outputs, strict=True)), 1e-4)


def test_a_requirement_that_fails_is_reported(device: opencl_host.Device) -> None:
    """A `Require` sets the status that the host reads: here the input that decides a shape is another one."""
    fed = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
        helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
    ]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])]
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "shape"], ["y"])], "net", fed, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    compiled = compile_model(model, opencl_host.opencl_target())
    x = np.arange(4, dtype=np.float32)
    assert device.run(compiled, {"x": x, "shape": np.array([2, 2])})["y"].tolist() == [[0, 1], [2, 3]]
    with pytest.raises(opencl_host.KernelError):
        device.run(compiled, {"x": x, "shape": np.array([4, 1])})
