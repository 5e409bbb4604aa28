"""The foreign machines that bundles are run on: emulated ARM, WebAssembly in Node and wasmtime, Cortex-M4."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from sterna.emulate import programs
from support.tools import ROOT, ZIG, need, run

HERE = ROOT / "tests" / "support"
RUNTIME = ROOT / "runtime_c"
Arrays = Sequence[np.ndarray]


def write_inputs(directory: Path, inputs: Arrays) -> list[str]:
    """Input files by their names within the directory."""
    names = [f"in{n}.bin" for n in range(len(inputs))]
    for name, array in zip(names, inputs, strict=True):
        np.ascontiguousarray(array).tofile(directory / name)
    return names


def read_outputs(directory: Path, like: Arrays) -> list[np.ndarray]:
    return [np.fromfile(directory / f"out{n}.bin", a.dtype).reshape(a.shape) for n, a in enumerate(like)]


@lru_cache
def arm_host(architecture: str, directory: Path) -> Path:
    """sterna_run with the C runtime as a static program for another processor that can still open kernel libraries."""
    program = directory / f"sterna_run_{architecture}"
    run(*programs.command(architecture, [RUNTIME / "tools" / "sterna_run.c"], program), cwd=directory)
    return program


def run_emulated(
    host: Path,
    bundle: Path,
    inputs: Arrays,
    outputs: Arrays,
    directory: Path,
    command: str,
    threads: int = 1,
) -> list[np.ndarray]:
    """Runs a bundle in a program of `arm_host`.

    Args:
        command: a program of qemu-user and its options, as `Target.runs_on` has it.
    """
    qemu, *options = command.split()
    files = write_inputs(directory, inputs)
    emulator = [need(qemu, "runs programs for ARM"), *options]
    run(*emulator, host, bundle, "--threads", str(threads), *files, "--out", "out", cwd=directory)
    return read_outputs(directory, outputs)


def run_arm64(
    host: Path,
    bundle: Path,
    inputs: Arrays,
    outputs: Arrays,
    directory: Path,
    threads: int = 1,
    cpu: str = "cortex-a72",
) -> list[np.ndarray]:
    """Runs a bundle under qemu-aarch64, if not told otherwise as the processor of a Raspberry Pi 4, which refuses newer
    instructions."""
    return run_emulated(host, bundle, inputs, outputs, directory, f"qemu-aarch64 -cpu {cpu}", threads)


def run_wasm(bundle: Path, inputs: Arrays, outputs: Arrays, directory: Path, threads: int = 1) -> list[np.ndarray]:
    """Runs a bundle in Node, by the JavaScript runtime."""
    command = [need("node", "runs WebAssembly"), "--experimental-wasm-relaxed-simd", HERE / "run_wasm.mjs"]
    run(*command, bundle, str(threads), *write_inputs(directory, inputs), "out", cwd=directory)
    return read_outputs(directory, outputs)


def run_wasmtime(bundle: Path, inputs: Arrays) -> list[np.ndarray]:
    """Runs a bundle for WASI in wasmtime: the host lays out the module's own memory and calls kernels by its table."""
    wasmtime = pytest.importorskip("wasmtime")
    graph = json.loads((bundle / "graph.json").read_text())
    store = wasmtime.Store()
    module = wasmtime.Module.from_file(store.engine, str(bundle / graph["library"]))
    assert [str(i.module) for i in module.imports] == []
    exports = wasmtime.Instance(store, module, []).exports(store)
    memory, table = exports["memory"], exports["__indirect_function_table"]
    end = exports["__heap_base"].value(store)

    def take(data: bytes) -> int:
        nonlocal end
        at = -(-end // 64) * 64
        end = at + len(data)
        if (missing := end - memory.data_len(store)) > 0:
            memory.grow(store, -(-missing // 65536))
        memory.write(store, data, at)
        return at

    def words(values: Sequence[int]) -> int:
        return take(struct.pack(f"<{len(values)}I", *values))

    params = (bundle / "params.bin").read_bytes()
    place = {"param": take(params), "arena": take(bytes(graph["arena"]["bytes"]))}
    place["state"] = place["arena"]
    for state in graph.get("states", ()):
        storage, at = graph["values"][state["value"]]["storage"], state.get("initial_at")
        if at is not None:
            first = params[at : at + storage["bytes"]]
            memory.write(store, first, place["arena"] + storage["offset"])
    scratch = take(bytes(graph["scratch_bytes"]))
    values = graph["values"]
    signature = {v: take(np.ascontiguousarray(a).tobytes()) for v, a in zip(graph["inputs"], inputs, strict=True)}
    signature |= {v: take(bytes(values[v]["storage"]["bytes"])) for v in graph["outputs"]}

    def address(v: int) -> int:
        storage = values[v]["storage"]
        return signature[v] if v in signature else place[storage["class"]] + storage["offset"]

    record = exports[f"sterna_{graph['model']}_library"](store)
    (kernels,) = struct.unpack("<I", memory.read(store, record + 16, record + 20))
    for node in graph["nodes"]:
        params = place["param"] + node["params_at"] if node["params_bytes"] else 0
        buffers = [words([address(v) for v in node[side]]) for side in ("in", "out")]
        call = words([40, 1, *buffers, params, scratch, 0, 0, 0, 0])
        at = kernels + 20 * node["kernel"]
        (function,) = struct.unpack("<I", memory.read(store, at, at + 4))
        assert table.get(store, function)(store, call, 0, node["tasks"]) == 0
    results = []
    for v in graph["outputs"]:
        data = memory.read(store, signature[v], signature[v] + values[v]["storage"]["bytes"])
        results.append(np.frombuffer(bytes(data), values[v]["dtype"]).reshape(values[v]["dims"]))
    return results


MAIN = """#include "board.h"
#include "model.h"

static _Alignas({MODEL}_ALIGNMENT) uint8_t arena[{MODEL}_ARENA_BYTES];
{buffers}
int main(void) {{
  const {model}_inputs inputs = {{{inputs}}};
  const {model}_outputs outputs = {{{outputs}}};
  if ({read}) return 2;
  for (unsigned i = 0; i < sizeof arena; i++) arena[i] = 0xA5;
{reset}  board_paint_stack();
  const int status = {model}_run(&inputs, &outputs, arena, {model}_params);
  if (status != 0) return 3;
  if (board_stack_used() > {stack}) return 4;
  if ({model}_run(&inputs, &outputs, arena + 1, {model}_params) != -1) return 6;
  /* Once more in the used arena: nothing may be left from the run before, once states are forgotten. */
{reset}  if ({model}_run(&inputs, &outputs, arena, {model}_params) != 0) return 3;
  return {write} ? 5 : 0;
}}
"""


def firmware_main(bundle: Path, stack: int) -> str:
    """The program around a static bundle, from the names in its header."""
    header = (bundle / "model.h").read_text()
    model = re.findall(r"typedef struct (\w+)_inputs", header)[0]
    given = re.findall(r"^  const (\w+) \*(\w+);", header, re.M)
    made = re.findall(r"^  (\w+) \*(\w+); /\*", header, re.M)
    size = {name: f"{model.upper()}_{name.upper()}_ELEMENTS" for _, name in (*given, *made)}
    files = [(f"in{n}.bin", name) for n, (_, name) in enumerate(given)]
    results = [(f"out{n}.bin", name) for n, (_, name) in enumerate(made)]
    return MAIN.format(
        model=model,
        MODEL=model.upper(),
        buffers="".join(f"static {kind} {name}_buffer[{size[name]}];\n" for kind, name in (*given, *made)),
        inputs=", ".join(f"{name}_buffer" for _, name in given),
        outputs=", ".join(f"{name}_buffer" for _, name in made),
        read=" || ".join(f'!board_read("{f}", {len(f)}, {n}_buffer, sizeof {n}_buffer)' for f, n in files),
        write=" || ".join(f'!board_write("{f}", {len(f)}, {n}_buffer, sizeof {n}_buffer)' for f, n in results),
        stack=stack,
        reset=f"  {model}_reset_state(arena, {model}_params);\n" if f" {model}_reset_state(" in header else "",
    )


M4_GCC = ["-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
CORTEX_M4 = {
    "zig": [*ZIG, "cc", "-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp", "-fno-sanitize=all"],
    "gcc": ["arm-none-eabi-gcc", *M4_GCC],
}
FREESTANDING = ["-std=c99", "-O2", "-g0", "-ffp-contract=off", "-fno-math-errno", "-ffreestanding", "-nostdlib"]
STRICT = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]


def build_firmware(compiler: str, bundle: Path, directory: Path, library: bool, stack: int = 2048) -> Path:
    """A program for the board: the sources of the bundle, or its model.a in place of kernels.c."""
    board = HERE / "cortex_m"
    (directory / "main.c").write_text(firmware_main(bundle, stack))
    command = CORTEX_M4[compiler]
    if compiler == "gcc":
        command = [need(command[0], "compiles for Cortex-M"), *command[1:]]
    kernels = bundle / ("model.a" if library else "kernels.c")
    sources = [directory / "main.c", board / "startup.c", bundle / "model.c", bundle / "params.c", kernels]
    image = directory / "firmware.elf"
    flags = [*FREESTANDING, *STRICT, "-fno-builtin", f"-I{board}", f"-I{bundle}"]
    link = [f"-Wl,-T,{board / 'mps2_an386.ld'}", *(["-lgcc"] if compiler == "gcc" else []), "-o", image]
    run(*command, *sources, *flags, *link, cwd=directory)
    return image


def run_cortex_m4(image: Path, inputs: Arrays, outputs: Arrays, directory: Path) -> list[np.ndarray]:
    """Runs firmware in qemu-system-arm."""
    qemu = need("qemu-system-arm", "emulates Cortex-M boards")
    write_inputs(directory, inputs)
    quiet = ["-nographic", "-monitor", "none", "-serial", "none"]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    run(qemu, "-M", "mps2-an386", *quiet, *semihosting, "-kernel", image, cwd=directory)
    return read_outputs(directory, outputs)


#: Bytes of the board's two memories, less what the program around the model takes.
BOARD = {"params": (4 << 20) - (256 << 10), "ram": (4 << 20) - (64 << 10)}


def too_large_for_the_board(bundle: Path) -> str:
    """Why a static bundle cannot run on the emulated board; empty if it can."""
    header = (bundle / "model.h").read_text()
    sizes = {n.lower(): int(v) for n, v in re.findall(r"#define \w+?_(ARENA_BYTES|PARAMS_BYTES) (\d+)", header)}
    for name, limit in (("params_bytes", BOARD["params"]), ("arena_bytes", BOARD["ram"])):
        if sizes[name] > limit:
            return f"{name} {sizes[name]:,} do not fit the board's {limit:,}"
    return ""


C99_STRICT = [*STRICT, "-std=c99", "-O1", "-ffp-contract=off"]


def build_c99(bundle: Path, directory: Path) -> Path:
    """Sources alone, strictly C99, linked with the C runtime into one program."""
    gcc = need("gcc", "compiles plain C99")
    text = (bundle / "kernels.c").read_text()
    model = next(line.split('"')[1] for line in text.splitlines() if 'model "' in line)
    sources = [RUNTIME / "tools" / "sterna_run.c", *sorted((RUNTIME / "src").glob("*.c")), RUNTIME / "port" / "posix.c"]
    flags = [*C99_STRICT, f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'src'}", f"-DSTERNA_LINKED=sterna_{model}_library"]
    program = directory / "program"
    run(gcc, *flags, *sources, bundle / "kernels.c", "-o", program, "-lpthread", "-ldl", "-lm")
    return program


def run_c99(program: Path, bundle: Path, inputs: Arrays, outputs: Arrays, directory: Path) -> list[np.ndarray]:
    """Runs a program of `build_c99`."""
    run(program, bundle, *write_inputs(directory, inputs), "--out", "out", cwd=directory)
    return read_outputs(directory, outputs)
