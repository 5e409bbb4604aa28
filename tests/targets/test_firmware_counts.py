"""What the small networks take of a microcontroller: bytes of flash and instructions of an inference, which are the
same every time. A few per cent above what was measured; less is taken over here."""

from __future__ import annotations

from pathlib import Path

import pytest

from sterna.api import compile_to
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import machine_for
from sterna.firmware.measure import How, Measured, measure
from support.tools import need
from support.trained import agree, trained


def taken(model: str, target: str, generator: str, how: How, folder: Path) -> Measured:
    """What a model takes on a board, its outputs being those of the reference."""
    need("qemu-system-arm", "emulates boards of microcontrollers")
    found = trained(model)
    bundle = compile_to(folder / "bundle", found.file, target, shapes=found.shapes(), generator=generator)
    firmware = read_firmware(bundle)
    program = folder / "program"
    program.mkdir()
    case = found.cases[0]
    measured = measure(firmware, machine_for(firmware), program, list(case.inputs.values()), how)
    agree(found, 0, [array.reshape(like.shape) for array, like in zip(measured.outputs, case.outputs, strict=True)])
    return measured


#: KB of flash and million instructions.
INTEGERS = [
    ("mlperf_tiny_kws_int8", "cortex-m4", "c", 34.7, 4.19),
    ("mlperf_tiny_vww_int8", "cortex-m4", "c", 62.3, 9.06),
    ("mlperf_tiny_resnet_int8", "cortex-m4", "c", 94.0, 17.6),
    ("mlperf_tiny_ad_int8", "cortex-m4", "c", 274.0, 0.366),
    ("mlperf_tiny_vww_int8", "cortex-m4", "llvm", 62.7, 8.72),
    ("mlperf_tiny_ad_int8", "cortex-m4", "llvm", 274.0, 0.390),
    ("mlperf_tiny_kws_int8", "cortex-m55", "llvm", 36.8, 0.975),
    ("mlperf_tiny_vww_int8", "cortex-m55", "llvm", 67.0, 2.02),
    ("mlperf_tiny_resnet_int8", "cortex-m55", "llvm", 95.0, 2.77),
    ("mlperf_tiny_ad_int8", "cortex-m55", "llvm", 275.0, 0.054),
]


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize(("model", "target", "generator", "flash", "millions"), INTEGERS)
def test_integers(model: str, target: str, generator: str, flash: float, millions: float, tmp_path: Path) -> None:
    found = taken(model, target, generator, How("auto", True, ("-O2",)), tmp_path)
    assert found.flash < flash * 1000
    assert found.instructions < millions * 1e6


@pytest.mark.family("cortex-m4")
@pytest.mark.parametrize(
    ("model", "code", "memory", "millions"),
    [
        ("mlperf_tiny_vww_f32", 13_000, 222_500, 19.6),
        ("mlperf_tiny_resnet_f32", 7_300, 150_000, 26.5),
        ("mlperf_tiny_ad_f32", 900, 700, 0.75),
    ],
)
def test_floats_by_gcc(model: str, code: int, memory: int, millions: float, tmp_path: Path) -> None:
    """onnx2c's by the same compiler: 21,480 bytes of code and 52.8 million instructions, 9,928 and 112.7, 1,188 and
    1.34."""
    need("arm-none-eabi-gcc", "compiles for Cortex-M")
    found = taken(model, "cortex-m4", "c", How("gcc", False, ("-O2",)), tmp_path)
    assert found.code < code
    assert found.memory < memory
    assert found.instructions < millions * 1e6


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize(
    ("how", "millions"), [(How("auto", True, ("-O2",)), 0.113), (How("gcc", False, ("-O2",)), 0.177)]
)
def test_floats_of_a_recurrence_with_helium(how: How, millions: float, tmp_path: Path) -> None:
    """In vectors, gates too; 0.284 and 0.309 one by one."""
    generator = "llvm" if how.library else "c"
    assert taken("tflm_mnist_lstm_f32", "cortex-m55", generator, how, tmp_path).instructions < millions * 1e6


@pytest.mark.family("cortex-m4")
def test_integers_by_gcc(tmp_path: Path) -> None:
    """Kernels share code; with every size a constant it was 23,792 bytes, for 11.55 million instructions."""
    need("arm-none-eabi-gcc", "compiles for Cortex-M")
    found = taken("mlperf_tiny_vww_int8", "cortex-m4", "c", How("gcc", False, ("-O2",)), tmp_path)
    assert found.code < 16_000
    assert found.instructions < 12e6
