"""Firmware on emulated boards: `run --on`, `verify -t`, what is counted and measured there, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

from sterna.api import compile_to
from sterna.cli import program
from sterna.errors import SternaError
from sterna.firmware.build import build, sections
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import MACHINES, machine_for
from sterna.firmware.remote import BoardFunctions, BoardModel, command_of, counted
from sterna_runtime import library, load
from support.tools import ROOT, need, run
from support.trained import trained

pytestmark = pytest.mark.family("cortex-m")


@pytest.fixture(scope="module", autouse=True)
def _emulator() -> None:
    need("qemu-system-arm", "emulates Cortex-M boards")


@pytest.fixture(scope="module")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("firmware") / "hello"
    return compile_to(place, trained("tflm_hello_world_int8").file, "cortex-m4")


def sterna(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


def test_a_run_counts_instructions_of_nodes_and_the_stack(hello: Path) -> None:
    done = sterna("run", hello, "--on", "qemu:mps2-an386", "--random", "--profile", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["board"] == "mps2-an386"
    assert 0 < found["stack_bytes"] < 1024
    nodes = [row["instructions"] for row in found["nodes"]]
    assert all(nodes)
    assert sum(nodes) == pytest.approx(found["instructions"], rel=0.1)
    assert found["nodes"][0]["sources"]
    again = json.loads(sterna("run", hello, "--on", "qemu:mps2-an386", "--random", "--profile", "--json").output)
    assert again["nodes"] == found["nodes"]
    text = sterna("run", hello, "--on", "qemu:cortex-m4", "--random", "--profile").output
    assert "instructions and a stack of" in text
    assert "Nodes by instructions" in text


def test_golden_sets_are_replayed_on_the_board(tmp_path: Path) -> None:
    model = trained("micro_wakeword_okay_nabu_int8").file  # with states
    assert sterna("compile", model, "-t", "cortex-m7", "-o", tmp_path / "b", "--golden", 2).exit_code == 0
    done = sterna("verify", tmp_path / "b", "--golden", "--on", "qemu:mps2-an500")
    assert done.exit_code == 0, done.output
    assert "agrees with" in done.output


def test_verify_runs_firmware_by_itself_with_zig_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no arm-none-eabi-gcc, zig builds the program."""
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if "none-eabi" in name else which(name, **more))
    done = sterna("verify", trained("tflm_hello_world_int8").file, "-t", "cortex-m33")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
def test_products_of_any_depth(target: str, tmp_path: Path) -> None:
    """Sums of one product to nine: less than what an instruction multiplies, as much, and more."""
    random = np.random.default_rng(3)
    nodes, fed, weights = [], [], []
    for depth in range(1, 10):
        weights.append(numpy_helper.from_array(random.integers(-8, 8, (depth, 5)).astype(np.int8), f"w{depth}"))
        nodes.append(helper.make_node("MatMulInteger", [f"x{depth}", f"w{depth}"], [f"y{depth}"]))
        fed.append(helper.make_tensor_value_info(f"x{depth}", TensorProto.UINT8, [7, depth]))
    made = [helper.make_tensor_value_info(f"y{depth}", TensorProto.INT32, [7, 5]) for depth in range(1, 10)]
    graph = helper.make_graph(nodes, "depths", fed, made, weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "depths.onnx"
    )
    done = sterna("verify", tmp_path / "depths.onnx", "-t", target)
    assert done.exit_code == 0, done.output


def test_the_clock_counts_what_a_plugin_counts(tmp_path: Path) -> None:
    need("gcc", "builds the plugin")
    need("arm-none-eabi-gcc", "compiles for Cortex-M")
    sys.path.append(str(ROOT / "bench"))
    try:
        from mcu.firmware import measure
    finally:
        sys.path.remove(str(ROOT / "bench"))
    for target in ("cortex-m3", "cortex-m55"):
        (tmp_path / target).mkdir()
        model = trained("mlperf_tiny_ad_int8")
        found = measure(model, target, "zig", tmp_path / target, by_mnemonic=True)
        assert sum(found.by_mnemonic.values()) == pytest.approx(found.measured.instructions, rel=2e-3)
        assert found.stack_is_as_said


_MAIN = """#include "board.h"
#include "%s"
static _Alignas(64) uint8_t arena[%d + 1], words[8];
int main(void) {
  static int8_t in[64], out[64];
  const model_inputs inputs = {in};
  const model_outputs outputs = {out};
  words[0] = (uint8_t)model_run(&inputs, &outputs, arena, model_params);
  if (words[0] != 0) return 1;
  if (%d > 1 && model_run(&inputs, &outputs, arena + 1, model_params) != -1) return 2;
  board_print("then\\n");
  return (int)*(volatile uint32_t *)(void *)(words + 1);
}
"""


@pytest.mark.parametrize(("target", "status"), [("cortex-m0plus", 99), ("cortex-m3", 0)])
def test_a_stand_in_for_the_smallest_core_refuses_unaligned_addresses(target: str, status: int, tmp_path: Path) -> None:
    """As a Cortex-M0+ does, and the model before it did not; an arena that is not aligned is refused by the model."""
    bundle = compile_to(tmp_path / "model", trained("tflm_hello_world_int8").file, target)
    firmware = read_firmware(bundle)
    machine = machine_for(firmware)
    main = _MAIN % (firmware.header, firmware.arena_bytes, firmware.alignment)
    main = main.replace("model_", f"{firmware.model}_")
    image = build(firmware, machine, tmp_path, main, flags=("-O0",))
    words = [*command_of(machine, image)]
    if status:
        with pytest.raises(AssertionError, match="fault"):
            run(*words, cwd=tmp_path)
    else:
        run(*words, cwd=tmp_path)


def test_a_model_that_writes_behind_its_arena_is_found_out(hello: Path, tmp_path: Path) -> None:
    """firmware.json that claims a smaller arena than the model uses stands in for a model that writes too far."""
    wrong = tmp_path / "wrong"
    shutil.copytree(hello, wrong)
    rows = json.loads((wrong / "firmware.json").read_text())
    rows["arena_bytes"] = 0
    (wrong / "firmware.json").write_text(json.dumps(rows))
    done = sterna("run", wrong, "--on", "qemu:mps2-an386", "--random")
    assert "wrote behind its memory" in done.output


def test_refusals(hello: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = ("--random", "--on")
    assert "E0501" in sterna("run", hello, *there, "qemu:mps2-an386", "--threads", 2).output
    assert "E0507" in sterna("run", hello, *there, "qemu:mps2-an505").output
    assert "did you mean mps2-an386" in sterna("run", hello, *there, "qemu:mps2-an38").output
    assert "E0006" in sterna("run", tmp_path, *there, "qemu:mps2-an386").output
    esp = compile_to(tmp_path / "esp", trained("tflm_hello_world_int8").file, "esp32")
    assert "E0507" in sterna("run", esp, *there, "qemu:esp32").output
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "firmware.json").write_text('{"sterna": 1, "model": "../x"}')
    assert "E0504" in sterna("run", tmp_path / "bad", *there, "qemu:mps2-an386").output
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "qemu-system-arm is not installed" in sterna("run", hello, *there, "qemu:mps2-an386").output


def test_what_does_not_fit_says_which_memory_lacks_how_much(tmp_path: Path) -> None:
    bundle = compile_to(tmp_path / "b", trained("tflm_hello_world_int8").file, "cortex-m55")
    rows = json.loads((bundle / "firmware.json").read_text())
    rows["arena_bytes"] = 700 << 10
    (bundle / "firmware.json").write_text(json.dumps(rows))
    with (
        pytest.raises(SternaError, match=r"E0405[^$]*RAM has 524.3 kB, and lacks") as caught,
        library.replaced_by(BoardFunctions("mps3-an547")),
    ):
        load(bundle)
    assert "arena" in str(caught.value)


def test_inputs_and_outputs_of_every_kind(tmp_path: Path) -> None:
    """Several inputs, floats, and a loop whose states stand in the arena between runs."""
    model = trained("tflm_mnist_lstm_int8")
    bundle = compile_to(tmp_path / "b", model.file, "cortex-m4", shapes=model.shapes())
    with library.replaced_by(BoardFunctions()), load(bundle) as there:
        first = there.run(list(model.cases[0].inputs.values()))
        assert counted(there) is not None
        assert there.memory()["params"] > 0
        there.reset_state()
        for name, array in there.run(list(model.cases[0].inputs.values())).items():
            np.testing.assert_array_equal(array, first[name])


def test_sizes_of_a_program(hello: Path, tmp_path: Path) -> None:
    firmware = read_firmware(hello)
    image = build(firmware, MACHINES["mps2-an386"], tmp_path, "int main(void); int main(void) { return 0; }\n")
    found = sections(image)
    assert found[".stack"] == 32768
    assert 0 < found[".text"] < 4096


def test_a_program_is_gone_with_its_model(hello: Path) -> None:
    functions = BoardFunctions()
    with library.replaced_by(functions), load(hello):
        (model,) = functions._models.values()
        assert isinstance(model, BoardModel)
        assert model.folder is not None
        assert Path(model.folder.name, "firmware.elf").is_file()
    assert not Path(model.folder.name).exists()
