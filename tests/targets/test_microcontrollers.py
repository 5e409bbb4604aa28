"""Integer models on emulated boards of microcontrollers: bit for bit what the interpreter and TensorFlow Lite give."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from sterna.api import compile_to
from sterna.targets.description import load_target, target_names
from support import boards
from support.small_models import SmallModel
from support.trained import agree, trained

#: A small model for each core, each core with one of the generators; ci/bench-mcu has all of them.
SAMPLE = (
    ("cortex-m0plus", "tflm_hello_world_int8", "c"),
    ("cortex-m3", "mlperf_tiny_ad_int8", "llvm"),
    ("cortex-m4-nofpu", "mlperf_tiny_kws_int8", "c"),
    ("cortex-m7", "tflm_mnist_lstm_int8", "llvm"),
    ("cortex-m33", "tflm_micro_speech_int8", "c"),
    ("cortex-m55", "mlperf_tiny_kws_int8", "llvm"),
    ("cortex-m85", "micro_wakeword_okay_nabu_int8", "c"),
    ("riscv32imc", "mlperf_tiny_kws_int8", "llvm"),
    ("riscv32imafc", "tflm_hello_world_int8", "c"),
)


def test_every_microcontroller_has_a_board() -> None:
    assert {n for n in target_names() if n.startswith(("cortex-m", "riscv32"))} == set(boards.TARGETS)


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize(("name", "model", "generator"), SAMPLE)
def test_integers_on_a_board(name: str, model: str, generator: str, tmp_path: Path) -> None:
    found = trained(model)
    case = found.cases[0]
    bundle = compile_to(tmp_path / "bundle", found.file, name, shapes=found.shapes(), generator=generator)
    how = {"compiler": "zig" if name.startswith("riscv") else "gcc", "library_of_kernels": generator == "llvm"}
    agree(found, 0, boards.run_on_board(bundle, list(case.inputs.values()), case.outputs, **how))


@pytest.mark.family("cortex-m")
def test_floats_with_helium(tmp_path: Path) -> None:
    """gcc 12 compares one lane of vectors of floats: a model whose pooling and activations compare them."""
    found = trained("mnist_cntk_f32")
    case = found.cases[0]
    bundle = compile_to(tmp_path / "bundle", found.file, "cortex-m55", shapes=found.shapes(), generator="c")
    assert "vfmaq_f32" in (bundle / "kernels.c").read_text()
    given = list(case.inputs.values())
    agree(found, 0, boards.run_on_board(bundle, given, case.outputs, library_of_kernels=False))


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("batch", [1, 2])
def test_recurrences_with_helium(generator: str, batch: int, tmp_path: Path) -> None:
    """In vectors, though no vectors of floats are compared there: what limits gates are extrema."""
    m, steps, size = SmallModel(5, batch, 7), 5, 9
    x, wide = "x", 7
    for kind, gates, further in (("LSTM", 4, {"clip": 0.75}), ("GRU", 3, {"linear_before_reset": 1}), ("RNN", 1, {})):
        sizes = ((gates * size, wide), (gates * size, size), (2 * gates * size,))
        weights = [m.weight(2, *each, scale=0.4) for each in sizes]
        x = m(kind, x, *weights, hidden_size=size, direction="bidirectional", **further)
        wide = 2 * size
        x = m("Reshape", m("Transpose", x, perm=[0, 2, 1, 3]), m.constant([steps, batch, wide], np.int64))
    model, given = m.done(x), np.random.default_rng(3).standard_normal((steps, batch, 7)).astype(np.float32)
    bundle = compile_to(tmp_path / "bundle", model, "cortex-m55", generator=generator)
    kernels = (bundle / "kernels.c").read_text()
    assert all(name in kernels for name in ("fma_f32x4", "maximum_f32x4"))
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": given})
    (found,) = boards.run_on_board(bundle, [given], [want], library_of_kernels=generator == "llvm", stack=4096)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize(
    ("name", "model"),
    [("riscv32imc", "tflm_hello_world_f32"), ("cortex-m0plus", "tflm_hello_world_f32"), ("cortex-m4", "lightgbm_wine")],
)
def test_zig_alone_links_soft_floats(name: str, model: str, tmp_path: Path) -> None:
    """Floats on cores without an FPU, and float64 beside one of float32, are calls of the compiler's library."""
    found = trained(model)
    case = found.cases[0]
    bundle = compile_to(tmp_path / "bundle", found.file, name, shapes=found.shapes())
    agree(found, 0, boards.run_on_board(bundle, list(case.inputs.values()), case.outputs, compiler="zig"))


@pytest.mark.family("cortex-m4")
@pytest.mark.parametrize("model", ["mlperf_tiny_ad_int8", "mlperf_tiny_kws_int8"])
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_nothing_of_a_library(model: str, generator: str, tmp_path: Path) -> None:
    """Objects of integer models need neither the compiler's doubles nor libc: those in the archive, and those that gcc
    makes of the sources at any level. ci/bench-mcu looks at every model."""
    found = trained(model)
    bundle = compile_to(tmp_path / "bundle", found.file, "cortex-m4", shapes=found.shapes(), generator=generator)
    assert boards.unresolved([bundle / "model.a"], tmp_path) == set()
    if generator == "c":
        for level in ("-Os", "-O2", "-O3"):
            objects = boards.objects_of_gcc(bundle, tmp_path, level)
            assert boards.unresolved(objects, tmp_path) == set()


@pytest.mark.family("cortex-m4")
def test_float64_is_not_fused(tmp_path: Path) -> None:
    """An FPU of single precision fuses no float64: a model that computes in it has no call of fma."""
    assert not load_target("cortex-m4").fuses(64, 1)
    assert load_target("cortex-m7").fuses(64, 1)
    found = trained("lightgbm_wine")
    bundle = compile_to(tmp_path / "bundle", found.file, "cortex-m4", shapes=found.shapes())
    case = found.cases[0]
    agree(found, 0, boards.run_on_board(bundle, list(case.inputs.values()), case.outputs))


@pytest.mark.parametrize("name", ["esp32", "esp32s3"])
def test_source_alone(name: str, tmp_path: Path) -> None:
    """C99 that a compiler of another vendor takes: gcc for 32 bits stands in for Xtensa's."""
    found = trained("tflm_hello_world_int8")
    bundle = compile_to(tmp_path / "bundle", found.file, name, shapes=found.shapes())
    assert not load_target(name).library
    case = found.cases[0]
    description = json.loads((bundle / "firmware.json").read_text())
    there = load_target("cortex-m4")
    description["processor"] |= {key: getattr(there, key) for key in ("triple", "cpu", "llvm_triple", "llvm_cpu")}
    description["processor"]["features"] = list(there.llvm_features)
    (bundle / "firmware.json").write_text(json.dumps(description))
    agree(found, 0, boards.run_on_board(bundle, list(case.inputs.values()), case.outputs, library_of_kernels=False))


WITHOUT_FPU = """extends = "cortex-m55"
description = "Cortex-M55 without FPU and Helium"
triple = "thumb-freestanding-eabi"
llvm_triple = "thumbv8.1m.main-none-eabi"
cpu = "cortex_m55"
llvm_features = ["-mve", "-mve.fp", "-fp-armv8d16", "-fp-armv8d16sp", "-vfp4d16sp", "-vfp3d16sp", "-vfp2sp", "-fpregs"]
cpu_features = []
int_dot = []
fma = false
fma_float64 = false
run_time_functions = true
dialect = "plain"
vector_registers = 8
"""


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize("model", ["lightgbm_wine", "mlperf_tiny_kws_hybrid"])
def test_a_core_that_may_have_an_fpu_and_has_none(model: str, tmp_path: Path) -> None:
    """Rounding and floats come from functions that are linked: nothing of them is left undefined."""
    (tmp_path / "soft.toml").write_text(WITHOUT_FPU)
    found = trained(model)
    bundle = compile_to(tmp_path / "bundle", found.file, str(tmp_path / "soft.toml"), shapes=found.shapes())
    case = found.cases[0]
    agree(found, 0, boards.run_on_board(bundle, list(case.inputs.values()), case.outputs))


@pytest.mark.family("cortex-m")
def test_helium_writes_nothing_behind_its_memory(tmp_path: Path) -> None:
    """The model with the largest tensors of those that vectors of Helium fill; the board's program has a guard behind
    the arena and every output, and its stack ends where its memory does."""
    found = trained("tflm_person_detect_int8")
    bundle = compile_to(tmp_path / "bundle", found.file, "cortex-m55", shapes=found.shapes(), generator="llvm")
    case = found.cases[0]
    agree(found, 0, boards.run_on_board(bundle, list(case.inputs.values()), case.outputs))
