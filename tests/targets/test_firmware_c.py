"""The C of a firmware bundle: what it calls, what of it is linked, and two models in one program."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from sterna.api import compile_to
from sterna.errors import SternaError
from sterna.firmware.build import build, compiler_for
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import MACHINES
from sterna.firmware.remote import command_of
from sterna.toolchain.check import read_elf
from support import boards
from support.tools import need, run
from support.trained import Trained, trained

TARGET, BOARD = "cortex-m4", "mps2-an386"
pytestmark = pytest.mark.family(TARGET)

TWO = """#include "board.h"
#include "first/model.h"
#include "second/model.h"

static _Alignas(FIRST_ALIGNMENT) uint8_t one[FIRST_ARENA_BYTES], other[FIRST_ARENA_BYTES];
static _Alignas(SECOND_ALIGNMENT) uint8_t more[SECOND_ARENA_BYTES];

int main(void) {
  int8_t in[2] = {0, 0}, out[2] = {0, 0};
  float x = 0, y = 0;
  if (!board_read("a", 1, &in[0], 1) || !board_read("b", 1, &in[1], 1) || !board_read("x", 1, &x, 4)) return 2;
  const first_inputs a = {&in[0]}, b = {&in[1]};
  const first_outputs to_a = {&out[0]}, to_b = {&out[1]};
  const second_inputs c = {&x};
  const second_outputs to_c = {&y};
  if (first_run(&a, &to_a, one, first_params) || second_run(&c, &to_c, more, second_params)) return 3;
  if (first_run(&b, &to_b, other, first_params)) return 3;
  return board_write("out", 3, out, 2) && board_write("y", 1, &y, 4) ? 0 : 5;
}
"""
ONE = """#include "board.h"
#include "first/model.h"
int main(void) {
  static _Alignas(FIRST_ALIGNMENT) uint8_t arena[FIRST_ARENA_BYTES];
  int8_t in = 0, out = 0;
  const first_inputs inputs = {&in};
  const first_outputs outputs = {&out};
  return first_run(&inputs, &outputs, arena, first_params);
}
"""


def bundles(folder: Path, generator: str) -> None:
    """Two models whose files have the same name."""
    for name, model in (("first", "tflm_hello_world_int8"), ("second", "tflm_hello_world_f32")):
        found = trained(model)
        file = folder / f"{name}-file" / "model.tflite"
        file.parent.mkdir()
        shutil.copy(found.file, file)
        compile_to(folder / name, file, TARGET, shapes=found.shapes(), generator=generator, name=name)


def program(folder: Path, main: str, library: bool) -> Path:
    """A program around both bundles."""
    need("arm-none-eabi-gcc", "compiles for Cortex-M")
    both = [read_firmware(folder / name) for name in ("first", "second")]
    model = [path for each in both for path in each.linked(library)]
    place = folder / "program"
    place.mkdir(exist_ok=True)
    return build(both[0], MACHINES[BOARD], place, main, model=model, flags=(*boards.STRICTLY, f"-I{folder}"))


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_two_models_in_a_program(generator: str, tmp_path: Path) -> None:
    """Two files of the same name have nothing in common; one of them runs in two arenas; what is not called is not
    linked, and nothing of a model is a variable."""
    bundles(tmp_path, generator)
    image = program(tmp_path, TWO, generator == "llvm")
    integers, floats = trained("tflm_hello_world_int8"), trained("tflm_hello_world_f32")
    given = [next(iter(integers.cases[n].inputs.values())) for n in range(2)]
    for name, array in (("a", given[0]), ("b", given[1]), ("x", next(iter(floats.cases[0].inputs.values())))):
        np.ascontiguousarray(array).tofile(tmp_path / name)
    need("qemu-system-arm", "emulates Cortex-M boards")
    run(*command_of(MACHINES[BOARD], image), cwd=tmp_path)
    expected = [_only(integers, n) for n in range(2)]
    assert np.fromfile(tmp_path / "out", np.int8).tolist() == [int(each) for each in expected]
    assert np.allclose(np.fromfile(tmp_path / "y", np.float32), _only(floats, 0), atol=1e-5)

    alone = run("arm-none-eabi-nm", program(tmp_path, ONE, generator == "llvm"), cwd=tmp_path)
    assert "first_run" in alone
    assert "second" not in alone
    assert "_library" not in alone


def _only(model: Trained, case: int) -> np.float64:
    (output,) = model.cases[case].outputs
    return np.float64(np.asarray(output).reshape(()))


@pytest.mark.parametrize("model", ["tflm_hello_world_int8", "micro_wakeword_okay_nabu_int8"])
def test_no_variable_and_no_name_but_its_own(model: str, tmp_path: Path) -> None:
    """Objects have no writable section, not even that of a state; every symbol they define has the model's name."""
    found = trained(model)
    bundle = compile_to(tmp_path / "bundle", found.file, TARGET, shapes=found.shapes(), name="tern")
    for file in boards.objects_of_gcc(bundle, tmp_path):
        elf = read_elf(file.read_bytes())
        assert not elf.writable
        assert [s for s in elf.symbols if s.defined and s.exported and "tern_" not in s.name] == []


def test_names_that_are_none(tmp_path: Path) -> None:
    found = trained("tflm_hello_world_int8")
    for name in ("Kws", "int", "9lives", "a-b", "sterna_x"):
        with pytest.raises(SternaError) as problem:
            compile_to(tmp_path / "bundle", found.file, TARGET, name=name)
        assert problem.value.codes == ("E0203",)


WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror"]


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("mlperf_tiny_resnet_int8", "cortex-m4"),
        ("tflm_mnist_lstm_int8", "cortex-m0plus"),
        ("lightgbm_wine", "cortex-m7"),
    ],
)
def test_no_compiler_has_a_word_to_say(model: str, target: str, compiler: str, tmp_path: Path) -> None:
    """Strictly C99, without a warning of what compilers know."""
    found = trained(model)
    bundle = compile_to(tmp_path / "bundle", found.file, target, shapes=found.shapes())
    strict = "-Wcast-align=strict" if compiler == "gcc" else "-Wcast-align"
    if compiler == "gcc":
        need("arm-none-eabi-gcc", "compiles for Cortex-M")
    processor = read_firmware(bundle).processor
    for source in ("kernels", "model", "params"):
        command = [*compiler_for(processor, compiler), "-std=c99", "-O1", "-ffreestanding", *WARNINGS, strict]
        run(*command, "-c", bundle / f"{source}.c", "-o", tmp_path / "object.o", cwd=tmp_path)
