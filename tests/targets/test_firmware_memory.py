"""What firmware takes of a board's memory: plans of MLPerf Tiny's networks, and what bounds them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from sterna.api import compile_to
from sterna.bundle.firmware import _footprint
from sterna.driver import Options, outline_of, reading
from sterna.errors import SternaError
from sterna.firmware.remote import BoardFunctions, counted
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.passes.stages import Outline
from sterna.targets.description import load_target
from sterna.toolchain.frames import (
    ELSEWHERE_BYTES,
    THUMB_1,
    THUMB_2,
    Contents,
    Frame,
    contents,
    deepest,
    members,
)
from sterna_runtime import library, load
from support import boards
from support.tools import need, run
from support.trained import trained


def outline(model: str, target: str = "cortex-m4") -> Outline:
    options = Options(load_target(target))
    return outline_of(read_model(Source.of(trained(model).file), reading(options)), options)


#: Bytes of the arena without scratch.
PLANS = {"kws": 16000, "vww": 55296, "resnet": 34944, "ad": 256}


@pytest.mark.parametrize("model", PLANS)
def test_plans_reach_what_is_alive_at_one_time(model: str) -> None:
    plan = outline(f"mlperf_tiny_{model}_int8").plan
    assert plan.arena_bytes == plan.live_bytes <= PLANS[model]


@pytest.mark.parametrize(("model", "most"), [("kws", 17344), ("vww", 55360), ("resnet", 39296)])
def test_padded_rows_are_scratch_of_a_call(model: str, most: int, tmp_path: Path) -> None:
    """Convolutions pad a few rows at a time, in memory that lives as long as their call: no padded tensor is stored
    where that would take more. Rows that are widened for the multiplier are scratch, too."""
    found = trained(f"mlperf_tiny_{model}_int8")
    bundle = compile_to(tmp_path / "bundle", found.file, "cortex-m4", shapes=found.shapes(), generator="llvm")
    facts = json.loads((bundle / "firmware.json").read_text())
    assert facts["arena_bytes"] <= most


def test_padded_rows_are_copied_by_whole_registers(tmp_path: Path) -> None:
    """Sixteen bytes at a time, not as many as a register has sums."""
    found = trained("mlperf_tiny_kws_int8")
    bundle = compile_to(tmp_path / "bundle", found.file, "cortex-m55", shapes=found.shapes())
    borders = re.findall(r"splat_i8x(\d+)\(\(int8_t\)-128\)", (bundle / "kernels.c").read_text())
    assert set(borders) == {"16"}


def test_a_sum_of_two_layers_stores_bytes() -> None:
    """Of two integer convolutions that are added up, the one computed first stores what the model says, bytes, and not
    the 32-bit sums that those are made of."""
    found = outline("mlperf_tiny_resnet_int8")
    made = {value.dtype for call in found.sequence.calls for value in call.outputs}
    assert "int32" not in made


def test_firmware_aligns_for_its_core(tmp_path: Path) -> None:
    """One alignment of arena, weights and tables, that of the widest type; the header says it."""
    found = trained("mlperf_tiny_kws_int8")
    bundle = compile_to(tmp_path / "bundle", found.file, "cortex-m4", shapes=found.shapes())
    header, sources = (bundle / "model.h").read_text(), (bundle / "kernels.c").read_text()
    assert re.findall(r"_ALIGNMENT (\d+)", header) == ["8"]
    assert re.findall(r"aligned\((\d+)\)", sources) == ["8"]
    assert "64-byte" not in sources


@pytest.mark.parametrize(
    ("model", "target", "generator"),
    [
        ("mlperf_tiny_kws_int8", "cortex-m4", "c"),
        ("tflm_hello_world_int8", "cortex-m0plus", "c"),
        ("mlperf_tiny_ad_int8", "cortex-m55", "llvm"),
        ("lightgbm_wine", "cortex-m55", "c"),
        ("tflm_mnist_lstm_int8", "cortex-m4", "llvm"),
    ],
)
def test_the_stack_that_is_used(model: str, target: str, generator: str, tmp_path: Path) -> None:
    """What a run takes of the stack is at most what the header says, and 60 % of it or more."""
    found = trained(model)
    bundle = compile_to(
        tmp_path / "bundle", found.file, target, shapes=found.shapes(), generator=generator, name="tern"
    )
    said = json.loads((bundle / "firmware.json").read_text())["stack_bytes"]
    need("arm-none-eabi-gcc", "compiles for Cortex-M")
    need("qemu-system-arm", "emulates Cortex-M boards")
    how = BoardFunctions(None, nodes=False, compiler="gcc", library=True, flags=boards.STRICTLY)
    with library.replaced_by(how), load(bundle) as running:
        running.run({spec.name: np.zeros(spec.shape, spec.dtype) for spec in running.inputs})
        counts = counted(running)
    assert counts is not None
    assert 0.6 * said <= counts.stack <= said


def test_frames_are_what_compilers_say(tmp_path: Path) -> None:
    """Frames that are read from code are those that compilers report, of kernels and of a function with a large one."""
    found = trained("tflm_hello_world_int8")
    for target, machine in MACHINES.items():
        bundle = compile_to(tmp_path / target, found.file, target, shapes=found.shapes(), name="tern")
        (bundle / "large.c").write_text(LARGE)
        for source in ("kernels", "model", "large"):
            run(*machine, "-O2", "-ffreestanding", "-fstack-usage", "-c", f"{source}.c", "-o", "o.o", cwd=bundle)
            (usage,) = bundle.glob("*.su")
            rows = [line.split("\t") for line in usage.read_text().splitlines()]
            usage.unlink()
            frames = contents((bundle / "o.o").read_bytes()).frames
            said = {row[0].rpartition(":")[2]: int(row[1]) for row in rows if row[2] == "static"}
            assert said
            # A frame beyond what an immediate holds may be unknown, and is never another.
            unknown = {"larger"} if frames.get("larger") and frames["larger"].bytes is None else set()
            assert {name: frames[name].bytes for name in said if name not in unknown} == {
                name: size for name, size in said.items() if name not in unknown
            }


LARGE = """void use(char *);
void large(void); void larger(void);
void large(void) { char room[3000]; use(room); }
void larger(void) { char room[300000]; use(room); }
"""
MACHINES = {
    "cortex-m4": ["arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"],
    "cortex-m0plus": ["arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m0plus"],
    "riscv32imc": ["clang", "-target", "riscv32-none-elf", "-march=rv32imc"],
}


@pytest.mark.parametrize(
    ("core", "alignment", "further"),
    [("cortex-m55", 32, 28), ("cortex-m0plus", 16, 12), ("riscv32imc", 64, 48), ("riscv32imc", 16, 0)],
)
def test_frames_of_aligned_variables(core: str, alignment: int, further: int, tmp_path: Path) -> None:
    """What a function skips to align its variables further than calls leave the stack is part of its frame."""
    source = f"void use(char *);\nvoid aligned(void) {{ _Alignas({alignment}) char room[96]; use(room); }}\n"
    (tmp_path / "aligned.c").write_text(source)
    clang = need("clang", "compiles for microcontrollers")
    run(clang, *CLANG[core], "-O2", "-ffreestanding", "-fstack-usage", "-c", "aligned.c", cwd=tmp_path)
    said = int((tmp_path / "aligned.su").read_text().split("\t")[1])
    frame = contents((tmp_path / "aligned.o").read_bytes()).frames["aligned"].bytes
    assert frame == said + further


CLANG = {
    "cortex-m55": ["--target=thumbv8.1m.main-none-eabihf", "-mcpu=cortex-m55"],
    "cortex-m0plus": ["--target=thumbv6m-none-eabi", "-mcpu=cortex-m0plus"],
    "riscv32imc": MACHINES["riscv32imc"][1:],
}


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55"])
def test_functions_of_the_compiler_take_what_is_said(core: str) -> None:
    """The table holds for gcc's run-time library; with zig's it was made once."""
    gcc = need("arm-none-eabi-gcc", "brings a run-time library for Cortex-M")
    place = run(gcc, "-mthumb", f"-mcpu={core}", "-print-libgcc-file-name", cwd=Path.cwd()).strip()
    frames: dict[str, Frame] = {}
    for member in members(Path(place).read_bytes()):
        frames.update(contents(member).frames)
    instructions = THUMB_1 if core == "cortex-m0plus" else THUMB_2
    said = [n for n in frames if deepest({}, n, instructions) != ELSEWHERE_BYTES]
    assert len(said) > 80
    assert [n for n in said if (deepest(frames, n, instructions) or 0) > (deepest({}, n, instructions) or 0)] == []


def test_a_stack_of_functions_of_one_name() -> None:
    """Of local functions that two objects call alike, each is counted with the larger frame; a circle has no bound."""
    run_, call = Frame(16, frozenset({"one", "two"})), frozenset({"fill"})
    one = Contents({"run": run_, "one": Frame(8, call), "fill": Frame(400, frozenset())}, 0, 0)
    two = Contents({"two": Frame(8, call), "fill": Frame(4, frozenset())}, 0, 0)
    for parts in ([one, two], [two, one]):
        assert _footprint(parts, 0, 0, "run").stack == 16 + 8 + 400
    unknown = Contents({"two": Frame(8, call), "fill": Frame(None, frozenset())}, 0, 0)
    assert _footprint([unknown, one], 0, 0, "run").stack is None
    circle = {"run": Frame(8, frozenset({"one"})), "one": Frame(8, frozenset({"run"}))}
    assert deepest(circle, "run") is None


@pytest.mark.parametrize("budget", ["max_flash", "max_ram", "max_stack"])
def test_budgets(budget: str, tmp_path: Path) -> None:
    """A budget is met, or the model is refused with what it would take, which then is enough."""
    found = trained("tflm_hello_world_int8")
    with pytest.raises(SternaError) as refused:
        compile_to(tmp_path / "bundle", found.file, "cortex-m4", **{budget: 1})
    assert refused.value.codes == ("E0207",)
    assert not (tmp_path / "bundle").exists()
    (needed,) = re.findall(r"takes (\d+) bytes", str(refused.value))
    compile_to(tmp_path / "bundle", found.file, "cortex-m4", **{budget: int(needed)})
    with pytest.raises(SternaError, match="E0207"):
        compile_to(tmp_path / "bundle", found.file, "cortex-m4", **{budget: int(needed) - 1})
    with pytest.raises(SternaError, match="E0203"):
        compile_to(tmp_path / "bundle", found.file, "host", **{budget: 1 << 20})


def test_a_budget_of_what_is_not_known(tmp_path: Path) -> None:
    found = trained("tflm_hello_world_int8")
    with pytest.raises(SternaError, match="E0207"):
        compile_to(tmp_path / "bundle", found.file, "esp32", max_stack=1 << 20)


def test_pools_and_sections(tmp_path: Path) -> None:
    """Tensors that are touched most lie in the first pool; weights lie in the section that was asked for."""
    found = trained("mlperf_tiny_kws_int8")
    given = {"pools": {"dtcm": 9 << 10, "sram": 16 << 10}, "weights_section": ".xip"}
    bundle = compile_to(tmp_path / "bundle", found.file, "cortex-m7", shapes=found.shapes(), **given)
    facts = json.loads((bundle / "firmware.json").read_text())
    assert [pool["name"] for pool in facts["pools"]] == ["dtcm", "sram"]
    assert all(0 < pool["bytes"] <= given["pools"][pool["name"]] for pool in facts["pools"])
    params = next(each for each in boards.objects_of_gcc(bundle, tmp_path) if each.stem == "params")
    (line,) = [row for row in run("arm-none-eabi-size", "-A", params, cwd=tmp_path).splitlines() if ".xip" in row]
    assert int(line.split()[1]) == facts["params_bytes"]
    for wrong in ({"pools": {"sram": 4096}}, {"pools": {"a": 2048, "b": 2048}}):
        with pytest.raises(SternaError, match="E0206"):
            compile_to(tmp_path / "small", found.file, "cortex-m4", **wrong)
    sections = ('x"', "", ".bss.weights")
    wrongs = ({"pools": {"Fast!": 4096}}, {"pools": {"sram": 0}}, {"name": ""})
    for wrong in (*wrongs, *({"weights_section": section} for section in sections)):
        with pytest.raises(SternaError, match="E0203") as refused:
            compile_to(tmp_path / "small", found.file, "cortex-m4", **wrong)
        assert len(refused.value.diagnostics) == 1
