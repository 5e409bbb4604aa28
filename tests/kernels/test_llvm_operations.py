"""Every operation of the LLVM generator against the interpreter: this processor's levels, other processors."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sterna.codegen.llvm import compile_module, emit_object, module_text
from sterna.ir import dtypes
from sterna.loops import program as P
from sterna.targets.description import host, load_target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder
from sterna.toolchain.check import check_objects, read_elf
from sterna.toolchain.link import link_library
from support.kernel_hosts import Emulated, Job, Native, Node, native_targets
from support.loop_programs import elementwise, samples

N = 48  # elements of each case: a multiple of every number of lanes
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
WIDE = ("float32", "float64")


@dataclass
class Case:
    name: str
    inputs: tuple[str, ...]
    out: str
    value: Callable[..., E.Expr]
    close: bool = False


def _cases() -> list[Case]:
    cases = []

    def add(op: str, inputs: Sequence[str], value: Callable[..., E.Expr], out: str, close: bool = False) -> None:
        cases.append(Case("_".join([op, *inputs, out]), tuple(inputs), out, value, close))

    for dtype in (*WIDE, "float16", "bfloat16"):
        for op in ("neg", "abs", "sign", "floor", "ceil", "rint", "trunc", "sqrt"):
            add(op, [dtype], lambda a, op=op: E.unary(op, a), dtype)
        for op in ("isnan", "isinf"):
            add(op, [dtype], lambda a, op=op: E.unary(op, a), "bool")
        for op in ("add", "sub", "mul", "div", "minimum", "maximum"):
            add(op, [dtype] * 2, lambda a, b, op=op: E.binary(op, a, b), dtype)
        add("relu", [dtype], lambda a: E.maximum(a, _like(0, a)), dtype)
        add("cap", [dtype], lambda a: E.minimum(_like(6, a), a), dtype)
    for dtype in INTEGERS:
        for op in ("abs", "sign", "invert", *(("neg",) if dtypes.is_signed(dtype) else ())):
            add(op, [dtype], lambda a, op=op: E.unary(op, a), dtype)
        binary = (
            "add",
            "sub",
            "mul",
            "div",
            "floor_div",
            "mod",
            "minimum",
            "maximum",
            "and",
            "or",
            "xor",
            "shift_left",
            "shift_right",
        )
        for op in binary:
            add(op, [dtype] * 2, lambda a, b, op=op: E.binary(op, a, b), dtype)
        for divisor in (3, 8, *((-5,) if dtypes.is_signed(dtype) else ())):
            for op in ("div", "floor_div", "mod"):
                name = f"{op}_by_{str(divisor).replace('-', 'minus')}"
                add(name, [dtype], lambda a, op=op, d=divisor: E.binary(op, a, _like(d, a)), dtype)
    for op in ("and", "or", "xor"):
        add(op, ["bool"] * 2, lambda a, b, op=op: E.binary(op, a, b), "bool")
    add("logical_not", ["bool"], lambda a: E.unary("logical_not", a), "bool")
    for dtype in (*WIDE, "float16", "bfloat16", "int8", "uint8", "int32", "uint64", "bool"):
        for op in E.COMPARE:
            if dtype != "bool" or op in ("eq", "ne"):
                add(op, [dtype] * 2, lambda a, b, op=op: E.compare(op, a, b), "bool")
        add("select", ["bool", dtype, dtype], E.select, dtype)
    for source in dtypes.ALL:
        for dtype in dtypes.ALL:
            if source != dtype:
                add("cast", [source], lambda a, d=dtype: E.cast(a, d), dtype)
    for source, dtype in (("float32", "int32"), ("uint32", "float32"), ("float64", "int64"), ("float16", "int16")):
        add("bitcast", [source], lambda a, d=dtype: E.bitcast(a, d), dtype)
    for dtype in WIDE:
        add("fma", [dtype] * 3, E.fma, dtype, close=True)
    return cases


def _like(value: float, other: E.Expr) -> E.Expr:
    constant = E.const(value, other.dtype)
    return E.Const(other.dtype, value=constant.value, lanes=other.lanes)


def _expected(case: Case, arrays: Sequence[np.ndarray]) -> np.ndarray:
    tensors = [placeholder(f"in{n}", (N,), dtype) for n, dtype in enumerate(case.inputs)]
    stage = compute("out", (N,), lambda i: case.value(*(t[i] for t in tensors)))
    kernel = Kernel("k", inputs=tuple(tensors), params=(), outputs=(stage,))
    return run_kernel(kernel, {f"in{n}": a for n, a in enumerate(arrays)})["out"]


CASES = _cases()
LANES = (1, 4, 16)


def _functions(cases: Sequence[Case], lanes: Sequence[int]) -> list[P.Function]:
    return [elementwise(f"{c.name}_{width}", c.inputs, c.out, N, width, c.value) for c in cases for width in lanes]


def _check_cases(
    runner: Native | Emulated, cases: Sequence[Case], lanes: Sequence[int], double_rounding: bool = True
) -> None:
    jobs, wanted = [], []
    for n, case in enumerate(cases):
        arrays = [samples(dtype, N, 7 * m + 1) for m, dtype in enumerate(case.inputs)]
        expected = _expected(case, arrays)
        for m, _ in enumerate(lanes):
            jobs.append(Job(n * len(lanes) + m, arrays, (expected.nbytes,)))
            wanted.append((case, expected, arrays))
    for (case, expected, arrays), (raw,) in zip(wanted, runner.run_all(jobs), strict=True):
        got = raw.copy().view(expected.dtype)
        if case.close:
            scale = np.abs(arrays[0] * arrays[1]) + np.abs(arrays[2])
            error = np.abs(got - expected)
            fine = (
                (got == expected)
                | (np.isnan(got) & np.isnan(expected))
                | (error <= 2 * np.finfo(got.dtype).eps * scale)
            )
            assert fine.all(), case.name
        else:
            wide = [a.astype(np.float64) if a.dtype == dtypes.to_numpy("bfloat16") else a for a in (got, expected)]
            np.testing.assert_array_equal(*wide, err_msg=case.name)


@pytest.mark.parametrize("name", native_targets())
def test_every_operation_native(name: str, tmp_path: Path) -> None:
    target = load_target(name)
    lanes = LANES if name == native_targets()[-1] else (4,)
    data = compile_module(_functions(CASES, lanes), target, "m")
    with np.errstate(all="ignore"):
        _check_cases(Native(link_library([data], target, "m"), tmp_path), CASES, lanes)


@pytest.mark.parametrize(
    ("name", "architecture", "emulator", "lanes"),
    [("arm64", "aarch64", "qemu-aarch64", (1, 4)), ("cortex-m4", "armv7", "qemu-arm", (1,))],
)
def test_every_operation_emulated(
    name: str, architecture: str, emulator: str, lanes: tuple[int, ...], tmp_path: Path
) -> None:
    """Cortex-M code runs in a program for a larger ARM, which has all of its instructions."""
    if shutil.which(emulator) is None:
        pytest.skip(f"{emulator} is not installed")
    data = compile_module(_functions(CASES, lanes), load_target(name), "m")
    with np.errstate(all="ignore"):
        _check_cases(Emulated(data, tmp_path, architecture, emulator), CASES, lanes)


@pytest.mark.parametrize("name", ["browser", "browser-relaxed"])
def test_every_operation_webassembly(name: str, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    target = load_target(name)
    data = compile_module(_functions(CASES, (1, 4)), target, "m")
    with np.errstate(all="ignore"):
        _check_cases(Node(link_library([data], target, "m"), tmp_path), CASES, (1, 4))


@pytest.mark.parametrize(
    "name", ["arm64", "raspberrypi4", "browser", "x86-64-v2", "x86-64-v3", "x86-64-v4", "cortex-m4"]
)
def test_objects_need_nothing(name: str) -> None:
    target = load_target(name)
    single = target.static  # a processor whose FPU has no double precision, and no 64-bit division
    cases = [c for c in CASES if not (single and ("64" in c.name))]
    data = compile_module(_functions(cases, (4,)), target, "m")
    check_objects([data], target)
    if single:
        assert read_elf(data).undefined == ()
    library = link_library([data], target, "m")
    assert len(library) > 1000
    assert compile_module(_functions(cases, (4,)), target, "m") == data


def test_the_same_programs_give_the_same_bytes() -> None:
    texts = [module_text(_functions(CASES[:40], (4,)), host(), "m", None) for _ in range(2)]
    assert texts[0] == texts[1]
    assert emit_object(texts[0], host()) == emit_object(texts[1], host())
