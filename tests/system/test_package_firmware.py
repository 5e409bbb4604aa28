"""`sterna package --for arduino` and its siblings: the rules of each ecosystem, and that every example compiles and,
with stand-ins of the ecosystem's functions, gives on an emulated board what was recorded.

Rules that are checked: Arduino library specification 1.5 (required fields, names, versions, category, layout);
PlatformIO's library.json (required fields, files that exist); Zephyr's modules (module.yml, Kconfig symbol, sources);
ESP-IDF's components (idf_component_register, idf_component.yml); Open-CMSIS-Pack (elements, attributes, files).
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner, Result
from onnx.numpy_helper import from_array
from onnx.parser import parse_model

from sterna.api import compile_to
from sterna.cli import program
from sterna.cli.package import _FIRMWARE
from sterna.errors import SternaError
from sterna.firmware.build import compiler_for, render_script
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import MACHINES
from sterna.firmware.remote import command_of
from sterna.package.firmware import KINDS, firmware_package
from support.tools import ROOT, need, run
from support.trained import trained

pytestmark = pytest.mark.family("cortex-m4")
BOARD = ROOT / "templates" / "firmware"
PRINT = """#include "board.h"
static void print_number(unsigned n) {
  char t[] = "00";
  t[0] = (char)('0' + n / 10 % 10);
  t[1] = (char)('0' + n % 10);
  board_print(t);
}
"""
#: What stands in for an ecosystem, as the header that its examples include.
ARDUINO = f"""extern "C" {{
{PRINT}
}}
#define LED_BUILTIN 13
enum {{ OUTPUT, LOW, HIGH }};
static unsigned blinks;
static void pinMode(int, int) {{}}
static void digitalWrite(int, int level) {{ blinks += level == HIGH; }}
static void delay(int ms) {{
  if (ms != 1000) return;
  board_print(" blinks ");
  print_number(blinks);
  board_exit(0);
}}
static struct {{
  void begin(int) {{}}
  void print(const char *t) {{ board_print(t); }}
  void println(unsigned n) {{ print_number(n); }}
}} Serial;
"""
PRINTING = """
static int {name}(const char *form, const char *text, unsigned n) {{
  (void)form;
  board_print(text);
  board_print(", class ");
  print_number(n);
  return 0;
}}
"""
STDIO = PRINT + PRINTING.format(name="printf")


def sterna(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


def said_by(commands: str, folder: Path) -> str:
    """What commands of a shell write; a board's print is QEMU's standard error."""
    return run("sh", "-ec", f"{{ {commands}\n}} 2>&1", cwd=folder)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind, of a bundle with a golden set."""
    place = tmp_path_factory.mktemp("packages")
    model = trained("tflm_hello_world_int8").file
    done = sterna("compile", model, "-t", "cortex-m4", "--name", "hello", "-o", place / "bundle", "--golden", 1)
    assert done.exit_code == 0, done.output
    for kind in KINDS:
        firmware_package(kind, place / "bundle", place / kind, "hello", "1.2.3", "Sterna Test <test@example.org>")
    return place


def test_kinds_of_the_command() -> None:
    assert list(_FIRMWARE) == list(KINDS)


def test_arduino_rules(packages: Path) -> None:
    place = packages / "arduino"
    rows = dict(line.split("=", 1) for line in (place / "library.properties").read_text().splitlines())
    required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert required <= rows.keys()
    assert all(rows.values())
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,62}", rows["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", rows["version"])
    assert rows["category"] == "Data Processing"
    assert rows["url"] == "https://example.com"  # must be there; which page it is only the publisher knows
    for header in rows["includes"].split(","):
        assert (place / "src" / header).is_file()
    for sketch in place.glob("examples/*/*.ino"):
        assert sketch.stem == sketch.parent.name
    assert {p.suffix for p in (place / "src").iterdir()} == {".c", ".h"}
    assert all(len(line.split("\t")) == 2 for line in (place / "keywords.txt").read_text().splitlines())


def test_platformio_rules(packages: Path) -> None:
    place = packages / "platformio"
    rows = json.loads((place / "library.json").read_text())
    assert {"name", "version", "description", "keywords", "authors", "frameworks", "platforms"} <= rows.keys()
    assert rows["authors"] == [{"name": "Sterna Test", "email": "test@example.org"}]
    assert "license" not in rows  # it would have to be one of SPDX's, and which one is the model's is not known
    assert (place / "include" / rows["headers"]).is_file()
    assert (place / rows["build"]["srcDir"]).is_dir()
    for example in rows["examples"]:
        assert all((place / example["base"] / file).is_file() for file in example["files"])


def test_zephyr_rules(packages: Path) -> None:
    place = packages / "zephyr"
    assert "name: hello\nbuild:\n  cmake: .\n  kconfig: Kconfig\n" in (place / "zephyr" / "module.yml").read_text()
    (symbol,) = re.findall(r"^config (\w+)$", (place / "Kconfig").read_text(), re.M)
    text = (place / "CMakeLists.txt").read_text()
    assert symbol == "STERNA_HELLO"
    assert f"if(CONFIG_{symbol})" in text
    (sources,) = re.findall(r"zephyr_library_sources\((.*)\)", text)
    assert all((place / name).is_file() for name in sources.split())
    assert f"CONFIG_{symbol}=y" in (place / "samples" / "run" / "prj.conf").read_text()
    assert "find_package(Zephyr REQUIRED" in (place / "samples" / "run" / "CMakeLists.txt").read_text()


@pytest.mark.parametrize(("target", "has"), [("cortex-m4", True), ("cortex-m55", True), ("cortex-m3", False)])
def test_zephyr_keeps_registers_of_floats_apart(target: str, has: bool, tmp_path: Path) -> None:
    """A thread that uses them is announced; a core that has none knows no such setting."""
    bundle = compile_to(tmp_path / "bundle", trained("tflm_hello_world_int8").file, target)
    place = firmware_package("zephyr", bundle, tmp_path / "p")
    assert ("CONFIG_FPU=y\n" in (place / "samples" / "run" / "prj.conf").read_text()) == has


def test_examples_have_the_stack_that_a_model_needs(packages: Path, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(packages / "bundle", tmp_path / "bundle"))
    text = (bundle / "firmware.json").read_text()
    for taken, given, on_esp in (("100", 4096, 8192), ("9001", 11072, 13120), ("null", 8192, 16384)):
        changed, count = re.subn(r'"stack_bytes": \d+', f'"stack_bytes": {taken}', text)
        assert count == 1
        (bundle / "firmware.json").write_text(changed)
        place = firmware_package("zephyr", bundle, tmp_path / taken)
        assert f"CONFIG_MAIN_STACK_SIZE={given}\n" in (place / "samples" / "run" / "prj.conf").read_text()
        place = firmware_package("esp-idf", bundle, tmp_path / f"{taken}-esp")
        settings = (place / "examples" / "run" / "sdkconfig.defaults").read_text()
        assert settings == f"CONFIG_ESP_MAIN_TASK_STACK_SIZE={on_esp}\n"


def test_esp_idf_rules(packages: Path) -> None:
    place = packages / "esp-idf"
    text = (place / "CMakeLists.txt").read_text()
    assert text.startswith("idf_component_register(SRCS ")
    assert all((place / name).is_file() for name in re.findall(r'"(src/[^"]+)"', text))
    component = (place / "idf_component.yml").read_text()
    assert 'version: "1.2.3"' in component
    assert "url:" not in component  # optional, and no page is known
    main = place / "examples" / "run" / "main"
    (override,) = re.findall(r'override_path: "(.*)"', (main / "idf_component.yml").read_text())
    assert (main / override).resolve() == place.resolve()
    assert "void app_main(void)" in (main / "main.c").read_text()


def test_cmsis_pack_rules(packages: Path) -> None:
    place = packages / "cmsis-pack"
    root = ElementTree.parse(place / "Sterna.hello.pdsc").getroot()
    assert root.tag == "package"
    order = ["vendor", "name", "description", "url", "license", "releases", "keywords", "conditions", "components"]
    assert [child.tag for child in root] == order  # the schema's sequence
    assert (root.findtext("vendor"), root.findtext("name")) == ("Sterna", "hello")
    assert root.findall("releases/release")[0].attrib["version"] == "1.2.3"
    (component,) = root.findall("components/component")
    assert {"Cclass", "Cgroup", "Csub", "Cversion", "condition"} <= component.attrib.keys()
    assert component.attrib["condition"] in [each.attrib["id"] for each in root.findall("conditions/condition")]
    for file in component.findall("files/file"):
        assert (place / file.attrib["name"]).exists()
        assert file.attrib["category"] in ("include", "header", "source", "doc")
    with zipfile.ZipFile(place / "Sterna.hello.1.2.3.pack") as pack:
        names = pack.namelist()
    assert "Sterna.hello.pdsc" in names
    assert {file.attrib["name"] for file in component.findall("files/file")} - {"include/"} <= set(names)


@pytest.mark.parametrize(
    ("kind", "example", "header", "stand_in"),
    [
        ("arduino", "examples/Run/Run.ino", "Arduino.h", ARDUINO),
        ("platformio", "examples/run/main.c", "stdio.h", STDIO),
        ("zephyr", "samples/run/src/main.c", "zephyr/kernel.h", PRINT + PRINTING.format(name="printk")),
        ("esp-idf", "examples/run/main/main.c", "stdio.h", STDIO),
        ("cmsis-pack", "examples/run/main.c", "stdio.h", STDIO),
    ],
)
def test_every_example_gives_what_was_recorded(
    packages: Path, kind: str, example: str, header: str, stand_in: str, tmp_path: Path
) -> None:
    need("arm-none-eabi-gcc", "compiles for Cortex-M")
    need("qemu-system-arm", "emulates Cortex-M boards")
    place, machine = packages / kind, MACHINES["mps2-an386"]
    (tmp_path / header).parent.mkdir(exist_ok=True)
    (tmp_path / header).write_text(stand_in)
    gcc = compiler_for(read_firmware(packages / "bundle").processor, "gcc")
    folders = [f"-I{tmp_path}", f"-I{place / 'src'}", f"-I{place / 'include'}", f"-I{BOARD}"]
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused"]
    flags = ["-O2", *warnings, "-ffreestanding", "-fno-builtin", "-DBOARD_TIMER=0x40000000u", *folders]
    main = place / example
    if kind == "arduino":  # what the IDE does to a sketch
        text = f'#include "Arduino.h"\n{main.read_text()}\nint main() {{ setup(); for (;;) loop(); }}\n'
        main = main.with_name("Run.cpp")
        main.write_text(text)
    elif kind == "esp-idf":
        (tmp_path / "entry.c").write_text("void app_main(void);\nint main(void) { app_main(); return 0; }\n")
    sources = [*sorted((place / "src").glob("*.c")), BOARD / "common.c", BOARD / machine.start, main]
    objects = []
    for source in [*sources, *tmp_path.glob("entry.c")]:
        objects.append(tmp_path / f"{source.name}.o")
        words = ["-std=gnu11"] if source.suffix == ".c" else ["-std=gnu++11", "-fno-exceptions"]
        run(*gcc, *words, *flags, f"-I{main.parent}", "-c", source, "-o", objects[-1], cwd=tmp_path)
    (tmp_path / "board.ld").write_text(render_script(machine))
    image = tmp_path / "run.elf"
    run(*gcc, *objects, "-nostdlib", "-lgcc", f"-Wl,-T,{tmp_path / 'board.ld'}", "-o", image, cwd=tmp_path)
    said = said_by(shlex.join(command_of(machine, image)), tmp_path)
    assert said.startswith("as recorded, class 00")
    assert kind != "arduino" or said.endswith("blinks 01")


def test_the_cmake_project_runs_as_its_readme_says(packages: Path, tmp_path: Path) -> None:
    for tool in ("cmake", "arm-none-eabi-gcc", "qemu-system-arm"):
        need(tool, "builds and runs the project")
    text = (packages / "cmake" / "README.md").read_text()
    steps = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert len(steps) == 2
    assert said_by("\n".join(steps), packages / "cmake").endswith("as recorded, class 0\n")
    # The comparison can fail: another recorded result is noticed.
    sample = packages / "cmake" / "example" / "sample.h"
    changed = re.sub(r"(expected_\w+\[\] = \{\n\s+)(-?\d+)", lambda m: f"{m[1]}{int(m[2]) + 1}", sample.read_text())
    assert changed != sample.read_text()
    sample.write_text(changed)
    with pytest.raises(AssertionError, match="not as recorded"):
        said_by("\n".join(steps), packages / "cmake")


def test_an_output_of_many_classes_and_an_infinity(tmp_path: Path) -> None:
    """A class is said with all its digits; an infinity is as recorded, and its neighbours are compared as closely."""
    for tool in ("cmake", "arm-none-eabi-gcc", "qemu-system-arm"):
        need(tool, "builds and runs the project")
    model = parse_model('<ir_version: 8, opset_import: ["" : 13]> g (float[150] x) => (float[150] y) { y = Add(x, c) }')
    added = np.arange(150, dtype=np.float32)
    added[120] = np.inf
    model.graph.initializer.append(from_array(added, "c"))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    done = sterna("package", tmp_path / "model.onnx", "--for", "cmake", "--name", "many", "-o", tmp_path / "many")
    assert done.exit_code == 0, done.output
    steps = [line.strip() for line in (tmp_path / "many" / "README.md").read_text().splitlines() if line[:4] == "    "]
    assert said_by("\n".join(steps), tmp_path / "many").endswith("\nas recorded, class 120\n")
    sample = (tmp_path / "many" / "example" / "sample.h").read_text()
    assert 0 < float(re.findall(r"most = (\S+)f;", sample)[0]) < 1


def test_nothing_recorded_is_not_as_recorded(tmp_path: Path) -> None:
    """An example of a bundle without a golden set compares nothing, and says so."""
    model = trained("tflm_hello_world_int8").file
    assert sterna("compile", model, "-t", "cortex-m55", "-o", tmp_path / "bundle").exit_code == 0
    for kind in KINDS:
        place = firmware_package(kind, tmp_path / "bundle", tmp_path / kind, "hello")
        texts = {path.name: path.read_text() for path in place.rglob("*") if path.suffix != ".pack" and path.is_file()}
        assert not [name for name, text in texts.items() if "recorded" in text]
    assert '- "^done"' in (tmp_path / "zephyr" / "samples" / "run" / "sample.yaml").read_text()


@pytest.mark.parametrize(
    ("target", "board"),
    [("cortex-m0plus", "mps2/an385"), ("cortex-m55", "mps3/corstone300/an547"), ("cortex-m85", None)],
)
def test_zephyr_runs_the_sample_on_a_board_of_its_core(target: str, board: str | None, tmp_path: Path) -> None:
    model = trained("tflm_hello_world_int8").file
    done = sterna("package", model, "--for", "zephyr", "-t", target, "-o", tmp_path / "p")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "p" / "samples" / "run" / "sample.yaml").read_text()
    assert re.findall(r"platform_allow: (.*)", text) == ([] if board is None else [board])
    assert ("build_only: true" in text) == (board is None)


@pytest.mark.parametrize("name", ["string", "sample", "run", "board"])
def test_a_model_whose_files_would_hide_others(name: str, tmp_path: Path) -> None:
    """In a package a model's header and target have its name: that of C's header or of the example is refused."""
    model = trained("tflm_hello_world_int8").file
    done = sterna("package", model, "--for", "cmake", "--name", name, "-o", tmp_path / "p")
    assert "E0203" in done.output
    assert f"--name {name}_model" in done.output
    assert not (tmp_path / "p").exists()


def test_a_model_of_several_memories(tmp_path: Path) -> None:
    model = trained("tflm_micro_speech_int8").file
    pools = ["--pool", "dtcm=1K", "--pool", "sram=256K"]
    assert sterna("compile", model, "-t", "cortex-m4", *pools, "-o", tmp_path / "bundle").exit_code == 0
    done = sterna("package", tmp_path / "bundle", "--for", "arduino", "-o", tmp_path / "p")
    assert "E0203" in done.output
    assert "(dtcm, sram)" in done.output
    assert "without --pool" in done.output


def test_refusals(packages: Path, tmp_path: Path) -> None:
    bundle = packages / "bundle"
    wrong = (("arduino", "Arduino-hello", "1.0.0"), ("zephyr", "a b", "1.0.0"), ("cmake", "x", "1.0"))
    for kind, name, version in wrong:
        with pytest.raises(SternaError, match="E0203"):
            firmware_package(kind, bundle, tmp_path / "p", name, version)
        assert not (tmp_path / "p").exists()
    with pytest.raises(SternaError, match="E0204"):
        firmware_package("cmake", bundle, packages / "cmake")
    model = trained("tflm_hello_world_int8").file
    done = sterna("package", model, "--for", "cmsis-pack", "-t", "riscv32imc", "-o", tmp_path / "p")
    assert "E0203" in done.output
    assert "E0006" in sterna("package", packages / "cmake", "--for", "arduino", "-o", tmp_path / "p").output
    done = sterna("package", model, "--for", "esp-idf", "--name", "hello-esp", "-o", tmp_path / "p")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "p" / "include" / "hello_esp.h").is_file()
