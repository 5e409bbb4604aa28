"""Every trained model on every target: compiled, and run where this machine can.

`check` compiles a model for a target and compares what it computes with the stored reference outputs: natively where
the processor has the features, ARM in qemu, WebAssembly in Node and wasmtime, Cortex-M4 in qemu if the model
fits the board, C99 by gcc. Where nothing can run the bundle, it says why and the compiling was the check.
`ci/all-models` goes over all of it, `test_matrix.py` over a sample.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import sterna
from sterna.api import compile_model, compile_to
from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna.targets.description import load_target, target_names
from sterna.targets.target import Target
from sterna_runtime.checks import compare
from sterna_runtime.library import cpu_has
from support import boards, machines, wine
from support.frontend_models import frontend_model, frontend_model_names
from support.trained import FOLDER, Trained, agree, trained

GENERATORS = ("c", "llvm")
FAMILIES = {
    "aarch64": "arm64", "arm64": "arm64", "armv7": "armv7", "armv6": "armv6", "wasm32": "wasm32",
    "riscv64": "riscv64", "thumbv7em": "cortex-m4", "x86_64": "host-c", "": "c99",
}  # fmt: skip
#: Targets under one name, for ci/all-models.
GROUPS = {
    "arm": ("arm64", "arm64-dotprod", "arm64-i8mm", "armv7", "armv6"),
    "formats": ("host", "arm64", "browser"),
    "boards": ("raspberrypi3", "raspberrypi5", "raspberrypi-32", "raspberrypi-zero", "riscv64", "riscv64-v"),
}
#: How far an emulated processor's floats may be from this one's, in parts of the largest of an output.
NEAR = 1e-5
#: What QEMU says that fails at correct vector instructions of RISC-V.
QEMU_1441 = "decode_save_opc: Assertion `ctx->insn_start != NULL' failed"
X86 = ("x86_64", "AMD64")


@dataclass(frozen=True)
class Pair:
    """A model on a target, by a generator.

    Args:
        math: "exact", or "fast" with a bound: then what is compared are the results of both.
    """

    model: str
    target: str
    generator: str
    math: str = "exact"

    def __str__(self) -> str:
        return " ".join((self.model, self.target, self.generator, *(() if self.math == "exact" else (self.math,))))


@dataclass(frozen=True)
class Place:
    """Where a pair is tried: an empty folder, and the folder of programs that pairs share."""

    work: Path
    shared: Path


def model_names() -> list[str]:
    """The development models, by name; none where their folder is not here."""
    return sorted(p.name for p in FOLDER.iterdir() if (p / "meta.json").is_file()) if FOLDER.is_dir() else []


def generators(target: Target) -> tuple[str, ...]:
    """Those that can compile for a target: one that is source alone has no machine code."""
    return GENERATORS if target.llvm_triple else ("c",)


def distinct_targets() -> list[str]:
    """Targets of which no two have the same instructions: of cores that differ in sizes and rates alone, the first. Of
    microcontrollers the Cortex-M4; ci/bench-mcu tries the others. Targets with a device are for ci/gpu-models and
    tests/targets/test_webgpu.py."""
    found: dict[object, str] = {}
    for name in target_names():
        target = load_target(name)
        if (target.static and name != "cortex-m4") or target.device is not None:
            continue
        machine = target.llvm_triple.split("-")[0]
        instructions = (target.cpu_features, target.vector_bits, target.dialect, target.library, target.static)
        found.setdefault(("host",) if name == "host" else (machine, target.runs_on == "wasmtime", *instructions), name)
    return list(found.values())


def pairs(math: str = "exact", targets: Sequence[str] = (), models: Sequence[str] | None = None) -> list[Pair]:
    """All of them, in a fixed order; for another arithmetic every model on this machine.

    Args:
        targets: in place of those of `distinct_targets`; models: in place of those of `model_names`.
    """
    models = model_names() if models is None else models
    if math != "exact":
        return [Pair(m, "host", "llvm", math) for m in models]
    able = [(name, generators(load_target(name))) for name in targets or distinct_targets()]
    return [Pair(m, name, g) for m in models for name, makes in able for g in makes]


def family(target: Target) -> str:
    """The kind of machine that a target is one of, as tests report it."""
    if target.library.endswith(".dll") and target.name != "host":
        return "windows"
    return FAMILIES[target.llvm_triple.split("-")[0]] if target.name != "host" else "host-c"


def check(pair: Pair, place: Place) -> str:
    """Compiles, runs and compares a pair; returns why it was not run, or an empty text.

    Raises:
        SternaError: it does not compile. AssertionError: it computes something else.
    """
    load = frontend_model if pair.model in frontend_model_names() else trained
    model, target = load(pair.model), load_target(pair.target)
    if pair.math != "exact":
        return check_fast(pair, model, place)
    asked = {"shapes": model.shapes(), "values": model.values, "generator": pair.generator}
    bundle = compile_to(place.work / "bundle", model.file, pair.target, **asked)
    run = _machine(target)
    try:
        found = run(bundle, target, model, place)
        for number, outputs in enumerate(found):
            agree(model, number, outputs)
    except NoMachineError as reason:
        return str(reason)
    return ""


def check_fast(pair: Pair, model: Trained, place: Place) -> str:
    """Compiles a model as it is and faster, and runs both on its own inputs, not the random ones that it was measured
    on: they must be as near as was asked for.

    Returns:
        What was traded, and the error on these inputs; an empty text where nothing was.
    """
    settings = {"shapes": model.shapes(), "generator": pair.generator}
    fast = compile_model(model.file, pair.target, math=pair.math, **settings)
    assert fast.math is not None
    if not fast.math.errors:
        return ""
    compile_to(place.work / "exact", model.file, pair.target, **settings)
    write_bundle(fast, place.work / "fast")
    runs = [list(_natively(place.work / name, load_target("host"), model, place)) for name in ("exact", "fast")]
    error = max(
        compare("", got, wanted).error
        for exact, quick in zip(*runs, strict=True)
        for wanted, got in zip(exact, quick, strict=True)
    )
    assert error <= fast.math.bound, f"an error of {error:.1e} where {fast.math.error:.1e} was measured"
    return f"{fast.math.text}; {error:.1e} on its own inputs"


class NoMachineError(Exception):
    """Nothing here runs the bundle; says why."""


Runs = Callable[[Path, Target, Trained, Place], Iterator[list[np.ndarray]]]


def _machine(target: Target) -> Runs:
    architecture = target.llvm_triple.split("-")[0]
    if target.name == "host":
        return _natively
    if target.runs_on == "wine64":
        return _in_wine
    if target.library.endswith((".dll", ".dylib")):
        return _nowhere
    if architecture == "x86_64" and platform.machine() in X86:
        return _natively
    if target.static:
        return _on_the_board
    if target.runs_on == "wasmtime":
        return _in_wasmtime
    return {"aarch64": _in_qemu, "arm64": _nowhere, "wasm32": _in_node, "": _as_c99}.get(architecture, _in_qemu)


def _natively(bundle: Path, target: Target, model: Trained, place: Place) -> Iterator[list[np.ndarray]]:
    """All cases of the first one's sizes."""
    if lacking := [name for name in target.cpu_features if not cpu_has(name)]:
        raise NoMachineError(f"this processor has no {', '.join(lacking)}")
    with sterna.load(bundle) as loaded:
        for number, case in enumerate(model.cases):
            if model.shapes(number) != model.shapes():
                break
            if not model.is_sequence:
                loaded.reset_state()
            yield list(loaded.run(case.inputs).values())


def _in_qemu(bundle: Path, target: Target, model: Trained, place: Place) -> Iterator[list[np.ndarray]]:
    case, host = model.cases[0], machines.arm_host(target.llvm_triple.split("-")[0], place.shared)
    try:
        found = machines.run_emulated(host, bundle, in_order(bundle, model), case.outputs, place.work, target.runs_on)
    except AssertionError as failure:
        if QEMU_1441 in str(failure):
            reason = "this qemu-riscv64 stops at vector instructions that it knows (its issue 1441, mended in 8.1)"
            raise NoMachineError(reason) from None
        raise
    near_this_machine(found, model, place)
    yield found


def near_this_machine(found: Sequence[np.ndarray], model: Trained, place: Place) -> float:
    """Compares what an emulated processor computes with what this one does: floats within NEAR, unless the reference
    runtimes are further apart themselves; everything else is compared with the reference bit for bit anyway.

    Two processors round sums in other orders, and a network may be off by more than NEAR on each of them. Where they
    differ, exact sums decide (the interpreter's): the emulated one may be off by NEAR more than this one is.

    Returns:
        How far the two are apart, in parts of the largest of an output.

    Raises:
        AssertionError: they differ.
    """
    bundle = place.shared / f"{model.name}-host"
    if not bundle.is_dir():
        compile_to(bundle, model.file, "host", shapes=model.shapes(), values=model.values, generator="llvm")
    with sterna.load(bundle) as loaded:
        here = list(loaded.run(model.cases[0].inputs).values())
    near = [NEAR * float(np.abs(want).max(initial=0)) for want in here]
    apart = [_apart(have, want) for have, want in zip(found, here, strict=True)]
    error = max((NEAR * each / limit for each, limit in zip(apart, near, strict=True) if limit), default=0.0)
    if all(each <= max(limit, model.spread) for each, limit in zip(apart, near, strict=True)):
        return error
    graph = read_model(model.file, ReadOptions(shapes=model.shapes(), values=model.values or None))
    exact = list(interpret(graph, model.cases[0].inputs).values())[: len(here)]  # states come after the outputs
    for number, (have, want, sums, limit) in enumerate(zip(found, here, exact, near, strict=True)):
        there, own = _apart(have, sums), _apart(want, sums)
        assert there <= own + limit, f"output {number} is off by {there:.1e} of exact sums, this machine by {own:.1e}"
    return error


def _apart(have: np.ndarray, want: np.ndarray) -> float:
    """The largest difference of two outputs; 0 of such that are no floats."""
    return float(np.abs(have.astype(np.float64) - want).max(initial=0)) if want.dtype.kind == "f" else 0.0


def _nowhere(bundle: Path, target: Target, model: Trained, place: Place) -> Iterator[list[np.ndarray]]:
    raise NoMachineError(f"nothing here runs {target.library} of {target.llvm_triple}")
    yield []


def _in_wine(bundle: Path, target: Target, model: Trained, place: Place) -> Iterator[list[np.ndarray]]:
    wine.need()
    case = model.cases[0]
    program = wine.shared_runtime(place.shared)
    files = machines.write_inputs(place.work, in_order(bundle, model))
    wine.run(program, bundle, "--threads", "2", *files, "--out", "out", cwd=place.work, timeout=300)
    # The reference decides, as for all x86 targets: this machine's own kernels round otherwise (fused multiply-adds).
    yield machines.read_outputs(place.work, case.outputs)


def _in_node(bundle: Path, target: Target, model: Trained, place: Place) -> Iterator[list[np.ndarray]]:
    threads = 2 if "threads" in target.cpu_features else 1
    yield machines.run_wasm(bundle, in_order(bundle, model), model.cases[0].outputs, place.work, threads)


def _in_wasmtime(bundle: Path, target: Target, model: Trained, place: Place) -> Iterator[list[np.ndarray]]:
    graph = json.loads((bundle / "graph.json").read_text())
    if graph.get("control"):
        raise NoMachineError("the host of these tests has no control flow")
    yield machines.run_wasmtime(bundle, in_order(bundle, model))


def _on_the_board(bundle: Path, target: Target, model: Trained, place: Place) -> Iterator[list[np.ndarray]]:
    too_large = boards.too_large_for_the_board(bundle)
    if too_large:
        raise NoMachineError(too_large)
    case = model.cases[0]
    yield boards.run_on_board(bundle, list(case.inputs.values()), case.outputs)


def _as_c99(bundle: Path, target: Target, model: Trained, place: Place) -> Iterator[list[np.ndarray]]:
    program = machines.build_c99(bundle, place.work)
    yield machines.run_c99(program, bundle, in_order(bundle, model), model.cases[0].outputs, place.work)


def in_order(bundle: Path, model: Trained) -> list[np.ndarray]:
    """The inputs of the first case in the order of the bundle's signature."""
    graph = json.loads((bundle / "graph.json").read_text())
    return [model.cases[0].inputs[graph["values"][v]["name"]] for v in graph["inputs"]]
