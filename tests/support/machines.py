"""The foreign machines that bundles are run on: emulated ARM, WebAssembly in Node and wasmtime; `boards` has more."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from sterna.runtime import programs
from support.tools import ROOT, need, run

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


STRICT = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]
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
