"""verify --bisect for devices: kernels by themselves on the device, those of which the last tasks add up parts, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from sterna import libraries
from sterna.api import options_of
from sterna.debug.bisect import Bisection
from sterna.debug.verify import bisect_model
from sterna.passes.stages import Lowered, Sequenced
from support import device_bundles
from support.cuda_driver import Driver
from support.planted import least_in_place_of_greatest, plant

ROWS, DEPTH, COLUMNS = 1, 512, 64


def product() -> onnx.ModelProto:
    """A product with one row, so that its sums are in parts, and a kernel that is kept on the CPU."""
    w = np.sin(np.arange(DEPTH * COLUMNS, dtype=np.float32)).reshape(DEPTH, COLUMNS)
    found = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> net (float[{ROWS},{DEPTH}] x) => (float[{ROWS},{COLUMNS}] z) '
        "{ m = MatMul(x, w) y = Relu(m) z = Softmax(y) }"
    )
    found.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return found


def bisected(target: str) -> Bisection:
    options = options_of(target, device_for={"softmax": "cpu"}, generator="llvm")
    return bisect_model(product(), options, against="interpreter")


@pytest.mark.family("cuda")
@pytest.mark.usefixtures("fresh_cuda")
def test_sums_in_parts_at_once(monkeypatch: pytest.MonkeyPatch, cuda: Driver) -> None:
    """The counters are zeros when the kernels by themselves begin, and no outputs."""
    found = bisected("cuda")
    assert (found.fault, found.kernels, found.calls) == (None, 2, 2)
    assert found.generators == ("llvm", "c", "cuda")
    real = libraries.module
    monkeypatch.setattr(libraries, "module", lambda *given: real(*given).replace("add.rn.f32", "sub.rn.f32"))
    fault = bisected("cuda").fault
    assert fault is not None
    assert (fault.stage, fault.generators, fault.kernel) == ("generator", ("cuda",), "k1_matmul_relu_parts_total")


@pytest.mark.family("opencl")
def test_a_wrong_lowering(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def lowering(lowered: Lowered) -> Lowered:
        bodies = (replace(f, body=least_in_place_of_greatest(f.body)) for f in lowered.lowered)
        return replace(lowered, lowered=tuple(bodies))

    with device_bundles.opencl(tmp_path):
        plant(monkeypatch, "lower", lowering)
        fault = bisected("opencl").fault
    assert fault is not None
    assert (fault.stage, fault.kernel) == ("loops", "k2_matmul_relu_total")
    assert "schedule" in fault.problem


@pytest.mark.family("opencl")
def test_wrong_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def doubled(sequenced: Sequenced) -> Sequenced:
        calls = (replace(c, constants=tuple(a * 2 for a in c.constants)) for c in sequenced.sequence.calls)
        return replace(sequenced, sequence=replace(sequenced.sequence, calls=tuple(calls)))

    plant(monkeypatch, "split-sums", doubled)
    with device_bundles.opencl(tmp_path):
        fault = bisected("opencl").fault
    assert fault is not None
    assert fault.stage == "split-sums"
