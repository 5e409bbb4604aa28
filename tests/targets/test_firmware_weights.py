"""Weights of firmware that are no array of C: in a file that the assembler takes in, or at an address of their own."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from sterna.api import compile_to
from sterna.cli import program
from sterna.errors import SternaError
from sterna.firmware.build import build, compiler_for, serving_program
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import MACHINES
from sterna.firmware.measure import measure
from sterna.firmware.remote import BoardFunctions
from sterna.package.firmware import KINDS, firmware_package
from sterna_runtime import library, load
from support import boards
from support.tools import need, run
from support.trained import trained

MODEL = "tflm_hello_world_int8"
BOARD = MACHINES["mps2-an386"]
#: Of a memory of the board that its linker script does not know: it stands for flash that is read in place.
APART = 0x21000000


@pytest.fixture
def tools() -> None:
    need("arm-none-eabi-gcc", "compiles for Cortex-M")
    need("qemu-system-arm", "emulates Cortex-M boards")


def bundle_of(tmp_path: Path, target: str = "cortex-m4", **options: object) -> Path:
    return compile_to(tmp_path / "bundle", trained(MODEL).file, target, name="hello", **options)  # type: ignore[arg-type]


def test_above_a_size_the_assembler_takes_the_file(tmp_path: Path) -> None:
    size = json.loads((bundle_of(tmp_path) / "firmware.json").read_text())["params_bytes"]
    for most, source in ((size, "params.c"), (size - 1, "params.S"), (0, "params.S")):
        place = bundle_of(tmp_path, weights_array=most)  # into the same directory: the other file is gone
        assert {each.name for each in place.glob("params.*")} == {source, "params.bin"}
        assert source in read_firmware(place).sources
    assert read_firmware(bundle_of(tmp_path / "any", "esp32")).sources[1] == "params.c"


@pytest.mark.parametrize(
    ("target", "compiler"), [("cortex-m4", "gcc"), ("cortex-m0plus", "zig"), ("riscv32imc", "zig")]
)
def test_a_program_with_the_file_computes_the_same(target: str, compiler: str, tmp_path: Path) -> None:
    case = trained(MODEL).cases[0]
    place = bundle_of(tmp_path, target, weights_array=0)
    firmware, params = read_firmware(place), tmp_path / "params.o"
    given = list(case.inputs.values()), list(case.outputs)
    for got, wanted in zip(boards.run_on_board(place, *given, compiler=compiler), given[1], strict=True):
        np.testing.assert_array_equal(got, wanted)
    # The bundle's own file, as a program of somebody else assembles it.
    words = [*compiler_for(firmware.processor, compiler), "-c", f"-I{place}", "-o", params]
    run(*words, place / "params.S", cwd=tmp_path)
    assert (place / "params.bin").read_bytes() in params.read_bytes()
    # A file of another model is noticed. (zig remembers what it made of a text, whatever that takes in.)
    (place / "params.bin").write_bytes(b"other")
    (place / "params.S").write_text((place / "params.S").read_text() + "/* again */\n")
    with pytest.raises(AssertionError, match="not the one that the model was compiled with"):
        run(*words, place / "params.S", cwd=tmp_path)


def image_of(place: Path, folder: Path) -> Path:
    """A program of the bundle's own files, and not those that the emulated board takes in their place."""
    firmware = read_firmware(place)
    folder.mkdir()
    files = [*firmware.linked(), *([place / firmware.script] if firmware.script else [])]
    flags = [f"-I{place}", *([f"-Wl,{firmware.link_option}"] if firmware.link_option else [])]
    return build(firmware, BOARD, folder, serving_program(firmware), model=files, compiler="gcc", flags=flags)


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("section", [None, ".xip"])
def test_weights_at_an_address(section: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program finds them where the linker is told: written there apart, or as a section of its own."""
    case = trained(MODEL).cases[0]
    place = bundle_of(tmp_path, weights_address=APART, weights_section=section)
    firmware = read_firmware(place)
    assert (firmware.script, firmware.weights_address) == ("" if section else "params.ld", APART)
    image = image_of(place, tmp_path / "program")
    rows = run("arm-none-eabi-nm", image, cwd=tmp_path).splitlines()
    (symbol,) = [row for row in rows if row.endswith("hello_params")]
    assert int(symbol.split()[0], 16) == APART
    assert ((place / "params.bin").read_bytes() in image.read_bytes()) == bool(section)
    monkeypatch.setattr("sterna.firmware.remote.build", lambda *_, **__: image)

    def computed(written: bool) -> np.ndarray:
        file = ["-device", f"loader,file={place / 'params.bin'},addr={APART:#x},force-raw=on"] if written else []
        with library.replaced_by(BoardFunctions(options=lambda _: file, nodes=False)), load(place) as model:
            (got,) = model.run(list(case.inputs.values())).values()
            return got.reshape(case.outputs[0].shape)

    np.testing.assert_array_equal(computed(written=not section), case.outputs[0])
    if not section:  # they are really read from there
        assert not np.array_equal(computed(written=False), case.outputs[0])


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("options", [{"weights_address": APART}, {"weights_section": ".xip"}, {"weights_array": 0}])
def test_what_is_measured_does_not_depend_on_it(options: dict[str, object], tmp_path: Path) -> None:
    """An emulated board has the weights among its constants, wherever the user's board has them."""
    sizes = []
    for name, given in (("plain", {}), ("other", options)):
        firmware = read_firmware(bundle_of(tmp_path / name, **given))
        (tmp_path / name / "build").mkdir()
        found = measure(firmware, BOARD, tmp_path / name / "build")
        sizes.append((found.weights, found.instructions, found.stack))
        assert 0 < found.code < 4096
    assert sizes[0] == sizes[1]


def test_weights_apart_are_not_of_the_budget(tmp_path: Path) -> None:
    kws = trained("mlperf_tiny_kws_int8")
    given = {"shapes": kws.shapes(), "max_flash": 16 << 10}
    with pytest.raises(SternaError, match="E0207"):
        compile_to(tmp_path / "no", kws.file, "cortex-m4", **given)
    place = compile_to(tmp_path / "yes", kws.file, "cortex-m4", weights_address=APART, **given)
    assert f"_PARAMS_ADDRESS {APART:#x}u" in (place / "model.h").read_text()
    assert (place / "params.bin").stat().st_size > 16 << 10


@pytest.mark.parametrize(
    "wrong", [{"weights_address": 3}, {"weights_address": 1 << 32}, {"weights_address": -8}, {"weights_array": -1}]
)
def test_places_that_are_none(wrong: dict[str, int], tmp_path: Path) -> None:
    for target in ("cortex-m4", "host"):
        with pytest.raises(SternaError, match="E0203"):
            bundle_of(tmp_path, target, **wrong)


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("options", [{"weights_array": 0}, {"weights_address": APART, "weights_section": ".xip"}])
def test_packages_bring_the_file(options: dict[str, object], tmp_path: Path) -> None:
    need("cmake", "builds the project")
    place = bundle_of(tmp_path, **options)
    for kind in KINDS:
        if "weights_address" in options and kind in ("arduino", "platformio", "cmsis-pack"):
            with pytest.raises(SternaError, match="E0203"):
                firmware_package(kind, place, tmp_path / kind)
            continue
        made = firmware_package(kind, place, tmp_path / kind)
        assert (made / "src" / "hello_params.bin").read_bytes() == (place / "params.bin").read_bytes()
        assert '.incbin "hello_params.bin"' in (made / "src" / "hello_params.S").read_text()
        if kind in ("zephyr", "esp-idf", "cmake"):
            text = (made / "CMakeLists.txt").read_text()
            assert (f"--section-start=.xip={APART:#x}" in text) == ("weights_address" in options)
    steps = [line.strip() for line in (tmp_path / "cmake" / "README.md").read_text().splitlines() if line[:4] == "    "]
    assert "done, class" in run("sh", "-ec", "{ " + "\n".join(steps) + "\n} 2>&1", cwd=tmp_path / "cmake")


#: Copies as DMA does, of which the core sees nothing before it waits, and everything too late if it never does.
DMA = """#include <stdint.h>
static volatile uint8_t *to;
static const uint8_t *from;
static uint32_t left, started;
void sterna_fetch_wait(void) {
  for (uint32_t i = 0; i < left; i++) to[i] = from[i];
  left = 0;
}
void sterna_fetch_start(void *place, const void *weights, uint32_t bytes) {
  if (left != 0 || bytes % 4 != 0 || (uintptr_t)place % 4 != 0 || (uintptr_t)weights % 4 != 0) for (;;) {}
  to = (volatile uint8_t *)place, from = (const uint8_t *)weights, left = bytes, started++;
  for (uint32_t i = 0; i < bytes; i++) to[i] = 0xa5;
}
"""
SLOW = {"weights_speed": 0.25}


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(
    "options", [SLOW, {**SLOW, "weights_dma": True}, {**SLOW, "pools": {"a": 6 << 10, "b": 32 << 10}}]
)
def test_panels_of_weights(options: dict[str, object], generator: str, tmp_path: Path, tools: None) -> None:
    """Weights come by panels into scratch; the answers are the same, and what is said of it is so."""
    found = trained("mlperf_tiny_resnet_int8" if "weights_dma" in options else "mlperf_tiny_kws_int8")
    bundle = compile_to(tmp_path / "b", found.file, "cortex-m4", generator=generator, name="kws", **options)  # type: ignore[arg-type]
    fetched = read_firmware(bundle).fetched
    assert fetched is not None
    assert 0 < fetched.scratch <= 8192
    assert fetched.fetched <= read_firmware(bundle).params_bytes
    assert fetched.asynchronous == ("weights_dma" in options)
    assert fetched.text in (bundle / "model.h").read_text()
    shown = CliRunner().invoke(program, ["inspect", str(bundle)])
    assert fetched.text in shown.output
    case = found.cases[0]
    got = boards.run_on_board(bundle, list(case.inputs.values()), case.outputs)
    for array, wanted in zip(got, case.outputs, strict=True):
        np.testing.assert_array_equal(array, wanted)


def test_a_program_fetches_by_itself(tmp_path: Path) -> None:
    """Its functions take the place of the weak ones; copies that end as late as they may change nothing."""
    gcc = need("gcc", "compiles the bundle's C for this machine")
    found = trained("mlperf_tiny_resnet_int8")
    # Without instructions that only its own compiler knows.
    bundle = compile_to(tmp_path / "b", found.file, "cortex-m3", name="ic", weights_dma=True, **SLOW)  # type: ignore[arg-type]
    header = (bundle / "model.h").read_text()
    (given,), (made,) = (re.findall(rf"struct ic_{kind} {{\n.* \*(\w+);", header) for kind in ("inputs", "outputs"))
    (tmp_path / "dma.c").write_text(DMA + "uint32_t fetches(void) { return started; }\n")
    (tmp_path / "main.c").write_text(
        f"""#include <stdio.h>
#include "model.h"
extern uint32_t fetches(void);
static _Alignas(8) uint8_t arena[IC_ARENA_BYTES];
int main(void) {{
  static ic_{given}_t in;
  static ic_{made}_t out;
  if (fread(in, sizeof in, 1, stdin) != 1) return 1;
  ic_inputs inputs = {{in}};
  ic_outputs outputs = {{out}};
  if (ic_run(&inputs, &outputs, arena, ic_params) != 0 || fetches() == 0) return 2;
  return fwrite(out, sizeof out, 1, stdout) != 1;
}}
"""
    )
    flags = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", f"-I{bundle}")
    sources = [
        tmp_path / "main.c",
        tmp_path / "dma.c",
        *(bundle / f"{name}.c" for name in ("model", "params", "kernels")),
    ]
    run(gcc, *flags, *sources, "-o", tmp_path / "program")
    case = found.cases[0]
    (image,), (expected,) = case.inputs.values(), case.outputs
    done = subprocess.run([tmp_path / "program"], input=image.tobytes(), capture_output=True, check=True)
    np.testing.assert_array_equal(np.frombuffer(done.stdout, expected.dtype), expected.reshape(-1))


@pytest.mark.parametrize("target", ["cortex-m0plus", "riscv32imc", "cortex-m55"])
def test_fetching_is_strict_c(target: str, tmp_path: Path) -> None:
    found = trained("mlperf_tiny_kws_int8")
    bundle = compile_to(tmp_path / "b", found.file, target, weights_dma=True, **SLOW)  # type: ignore[arg-type]
    assert read_firmware(bundle).fetched is not None

    strict = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-O1", "-ffreestanding")
    for source in ("kernels", "model"):
        command = [*compiler_for(read_firmware(bundle).processor, "zig"), *strict]
        run(*command, "-c", bundle / f"{source}.c", "-o", tmp_path / "object.o", cwd=tmp_path)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"weights_speed": 0}, "bytes in a cycle"), ({"weights_speed": "fast"}, "bytes in a cycle"),
     ({"weights_dma": True}, "--weights-speed")],
)  # fmt: skip
def test_speeds_that_are_none(wrong: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(SternaError, match="E0203") as found:
        bundle_of(tmp_path, **wrong)
    assert said.replace("--weights-speed", "weights_speed") in str(found.value).replace(
        "--weights-speed", "weights_speed"
    )
    with pytest.raises(SternaError, match="E0203"):
        bundle_of(tmp_path, "host", weights_speed=0.5)


def test_panels_give_way_to_the_budget(tmp_path: Path) -> None:
    """Memory for panels is what memory leaves."""
    found = trained("mlperf_tiny_kws_int8")
    given = {"generator": "llvm", **SLOW}
    roomy = read_firmware(compile_to(tmp_path / "a", found.file, "cortex-m4", **given))  # type: ignore[arg-type]
    plain = read_firmware(compile_to(tmp_path / "b", found.file, "cortex-m4", generator="llvm"))
    assert roomy.arena_bytes > plain.arena_bytes
    assert roomy.stack_bytes is not None
    for most, fewer in ((roomy.arena_bytes + roomy.stack_bytes, False), (plain.arena_bytes + 600, True)):
        tight = read_firmware(compile_to(tmp_path / "c", found.file, "cortex-m4", max_ram=most, **given))  # type: ignore[arg-type]
        assert tight.arena_bytes + (tight.stack_bytes or 0) <= most
        assert ("for panels of weights" in tight.fitted) == fewer
