"""Kernels that differ only in sizes: one program with the sizes for arguments is each of them, in the interpreter and
as both generators write it."""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.bundle.writer import write_bundle
from sterna.codegen import c, llvm
from sterna.codegen.render import render_template
from sterna.driver import Options, compile_graph
from sterna.ir import dtypes
from sterna.ir.integer import symbol
from sterna.loops import program as P
from sterna.loops.arguments import choose_arguments
from sterna.loops.finish import finish
from sterna.loops.generalize import General, are_alike, generalize
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.loops.together import DiffersError
from sterna.passes.stages import owners
from sterna.schedule.schedule import Schedule
from sterna.targets.description import host, load_target
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder
from sterna_runtime.abi.records import CALL
from support.general_kernels import dense_layers, expected, given_memory, product, sums, windows
from support.tools import need, run

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))
fixed = settings(
    max_examples=25 * MORE, deadline=None, derandomize=MORE == 1, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
few = settings(fixed, max_examples=6 * MORE)
Array = np.ndarray[Any, Any]


def numbered(functions: Sequence[P.Function]) -> list[P.Function]:
    return [replace(f, name=f"k{n}") for n, f in enumerate(functions)]


@st.composite
def families(draw: Any) -> list[P.Function]:
    """Kernels of one kind and different sizes; those of more than one iteration, as loops of one are none."""
    kind, many = draw(st.sampled_from([product, windows, sums])), draw(st.integers(2, 5))
    some = st.integers(2, 9)
    if kind is product:
        functions = [product(draw(some), draw(some), draw(some)) for _ in range(many)]
    elif kind is windows:
        functions = [windows(draw(some), draw(some), draw(some)) for _ in range(many)]
    else:
        functions = [sums(draw(some), draw(some)) for _ in range(many)]
    return numbered(functions)


@given(families())
@fixed
def test_the_general_program_is_each_of_them(functions: list[P.Function]) -> None:
    general = generalize(functions)
    for function, arguments in zip(functions, general.arguments, strict=True):
        memory = given_memory(function, general.function)
        run_function(general.function, memory, {s: arguments[n] for s, n in general.function.dims})
        for buffer, wanted in zip(general.function.outputs, expected(function, general.function), strict=True):
            np.testing.assert_array_equal(memory[buffer.name], wanted)


def machine(dialect: str) -> Target:
    """This machine, as firmware is made for it."""
    return replace(host(), static=True, dialect=dialect, library="model.a", vector_bits=0)


def compiled(general: P.Function, generator: str, folder: Path) -> Any:
    """The kernel as a function of a call record."""
    target = machine("plain")
    if generator == "c":
        text = c.generate([general], target, "m")
        objects = []
    else:
        text = render_template("c/call.h.j2", target=target)
        (folder / "kernels.o").write_bytes(
            llvm.emit_object(llvm.module_text([general], target, "m", None, shared=True), target)
        )
        objects = ["kernels.o"]
    text += f"""
int32_t sterna_m_{general.name}(const sterna_call *call, uint32_t first_task, uint32_t last_task);
int32_t run(const sterna_call *call);
int32_t run(const sterna_call *call) {{ return sterna_m_{general.name}(call, 0, 1); }}
"""
    (folder / "kernels.c").write_text(text)
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffp-contract=off", "-fPIC", "-shared"]
    run("gcc", *flags, "kernels.c", *objects, "-o", "kernels.so", cwd=folder)
    return ctypes.CDLL(str(folder / "kernels.so")).run


class Call(ctypes.Structure):
    """`sterna_call` of sterna_kernel.h."""

    _fields_ = [
        (name, ctypes.c_uint32 if kind == "u32" else ctypes.c_void_p)
        for name, kind in ((m.name, m.kind) for m in CALL.members)
    ]


def call(kernel: Any, function: P.Function, general: General, arguments: Sequence[int]) -> list[Array]:
    """What compiled code leaves in the outputs of a kernel."""
    memory = given_memory(function, general.function)
    params = np.zeros(max((b.end for b in function.params), default=1), np.uint8)
    for own, buffer in zip(function.params, general.function.params, strict=True):
        params[own.slot : own.end] = memory[buffer.name][: own.elements].view(np.uint8)
    sides = [[memory[b.name].ctypes.data for b in side] for side in (general.function.inputs, general.function.outputs)]
    ins, outs = ((ctypes.c_void_p * len(side))(*side) for side in sides)
    scratch = np.zeros(general.function.scratch_bytes + 8, np.uint8)
    sizes = np.array(arguments, dtypes.to_numpy(general.function.dims_type))
    record = Call(size=ctypes.sizeof(Call), n_workers=1, params=params.ctypes.data, scratch=scratch.ctypes.data)
    setattr(record, "in", ctypes.addressof(ins))
    record.out, record.dims = ctypes.addressof(outs), sizes.ctypes.data
    assert kernel(ctypes.byref(record)) == 0
    return [memory[b.name] for b in general.function.outputs]


@pytest.mark.parametrize("generator", ["c", "llvm"])
@given(families())
@few
def test_generators_write_it(generator: str, functions: list[P.Function]) -> None:
    need("gcc", "compiles what is generated for this machine")
    general = generalize(functions)
    with tempfile.TemporaryDirectory() as folder:
        kernel = compiled(general.function, generator, Path(folder))
        for function, arguments in zip(functions, general.arguments, strict=True):
            found = call(kernel, function, general, arguments)
            for array, wanted in zip(found, expected(function, general.function), strict=True):
                np.testing.assert_array_equal(array, wanted)


@given(st.lists(st.tuples(*[st.integers(-2000, 40000)] * 3).filter(lambda v: len(set(v)) > 1), min_size=1, max_size=12))
@fixed
def test_every_number_follows_from_the_arguments(numbers: list[tuple[int, ...]]) -> None:
    chosen = choose_arguments(numbers)
    assert {each: chosen.sums[each].of(chosen.given) for each in numbers} == {each: each for each in numbers}
    assert len(chosen.given) <= len(set(numbers))


def test_no_sum_overflows_on_its_way() -> None:
    """24 times 10^8, less 2 * 10^9, would be a number of 32 bits by way of one that is not."""
    numbers = [(0, 800_000_000), (-2_000_000_000, 400_000_000)]
    chosen = choose_arguments(numbers)
    assert chosen.given == ((0, 100_000_000), (-250_000_000, 50_000_000))
    assert [chosen.sums[each].of(chosen.given) for each in numbers] == numbers


def test_offsets_of_a_window_follow_from_few() -> None:
    """The taps of a window over rows of R elements and C channels, in three kernels."""
    shapes = [(896, 64), (1008, 112), (288, 32)]
    taps = [
        tuple(r * row + c * column + n for r, c in shapes) for row in range(3) for column in range(4) for n in (0, 1)
    ]
    assert len(choose_arguments([each for each in taps if len(set(each)) > 1]).given) <= 5


def test_what_differs_in_more_than_numbers_is_not_shared() -> None:
    a, b = product(3, 3, 5), sums(3, 5)
    assert are_alike(a, product(2, 7, 9))
    assert not are_alike(a, b)
    with pytest.raises(DiffersError):
        generalize([a, b])
    open_rows = replace(a, dims=((symbol("n", 1, 4).symbols().pop(), 0),))
    assert not are_alike(open_rows, a)


def test_constants_of_values_are_arguments() -> None:
    """Zero points, multipliers and limits in float32, beside sizes."""

    def scaled(rows: int, factor: float, zero: int) -> P.Function:
        x = placeholder("x", (rows,))
        body = compute("y", (rows,), lambda i: E.cast(E.cast(x[i] * factor, "int32") + zero, "float32"))
        return finish(lower(Schedule(Kernel("scaled", (x,), (), (body,)))))

    functions = [scaled(3, 0.5, -128), scaled(9, 2.0, 40000), scaled(5, -1.5, 7)]
    general = generalize(functions)
    assert general.function.dims_type == "int32"
    for function, arguments in zip(functions, general.arguments, strict=True):
        memory = given_memory(function, general.function)
        run_function(general.function, memory, {s: arguments[n] for s, n in general.function.dims})
        (output,) = general.function.outputs
        np.testing.assert_array_equal(memory[output.name], expected(function, general.function)[0])


def test_firmware_names_one_owner(tmp_path: Path) -> None:
    """Nodes whose kernels share code name its owner, which firmware.json lists once."""
    made = compile_graph(dense_layers(64, 32, 48, 80, 96), "dense", Options(load_target("cortex-m4")))
    assert len(made.kernels) == 4
    assert len(owners(made.kernels)) == 1
    place = write_bundle(made, tmp_path / "dense")
    described = json.loads((place / "firmware.json").read_text())
    (owner,) = described["graph"]["kernels"]
    assert {node["kernel"] for node in described["nodes"]} == {owner["name"]}
    assert {node["kernel"] for node in described["graph"]["nodes"]} == {0}
    assert (place / "model.c").read_text().count("call.dims = sizes_") == 4
    assert (place / "kernels.c").read_text().count(f"int32_t sterna_dense_{owner['name']}(") == 2


def test_targets_with_a_runtime_share_nothing() -> None:
    made = compile_graph(dense_layers(64, 32, 48, 80), "dense", Options(load_target("x86-64-v3")))
    assert all(kernel.general is None for kernel in made.kernels)
