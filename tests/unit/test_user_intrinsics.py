"""Intrinsics that a target's description declares: what a behaviour can say, what is refused, and where they fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.intrinsics import Form
from sterna.intrinsics.text import BehaviourError, parse_behaviour
from sterna.ir.integer import ZERO, as_int
from sterna.ir.memory import INPUT, OUTPUT, Memory
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.loops.verify import verify
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.targets.description import load_target
from sterna.targets.intrinsics import IntrinsicDeclaration, OperandDeclaration, declared_intrinsic
from sterna.te import expr as E
from sterna.te.interpreter import evaluate_stage, run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support.dot_products import arrays, product

BYTES = {"a": "int8", "b": "int8", "c": "int32"}


@pytest.mark.parametrize(
    ("text", "axes", "types", "wanted"),
    [
        (
            "c[i, j] += sum(int32(a[i, k]) * int32(b[k, j]), k)", {"i": 2, "j": 3, "k": 4}, BYTES,
            lambda a, b: a.astype(np.int32) @ b.astype(np.int32),
        ),
        ("y[i] = maximum(x[i], 0)", {"i": 8}, {"x": "float32", "y": "float32"}, lambda x: np.maximum(x, 0)),
        (
            "y[i] = select(x[i] > t, x[2 * i + 1 - 1], -x[i])", {"i": 4},
            {"x": "float32", "y": "float32", "t": "float32"},
            lambda x, t: np.where(x[:4] > t, x[0:8:2][:4], -x[:4]),
        ),
        (
            "y[i] = maximum(y[i], max(x[i + r], r))", {"i": 3, "r": 2}, {"x": "int16", "y": "int16"},
            lambda x: np.maximum(x[:3], x[1:]),
        ),
        (
            "y[i] = int8((x[i] >> 3) & 15)", {"i": 5}, {"x": "int32", "y": "int8"},
            lambda x: ((x >> 3) & 15).astype(np.int8),
        ),
        (
            "y[i] = min(x[i, k], k)", {"i": 2, "k": 3}, {"x": "float64", "y": "float64"}, lambda x: x.min(axis=1),
        ),
        (
            "y[i] *= prod(x[i, k], k)", {"i": 2, "k": 3}, {"x": "int32", "y": "int32"},
            lambda x: x.prod(axis=1, dtype=np.int32),
        ),
        (
            "y[i] = sqrt(abs(x[i])) / 2 + float32(3)", {"i": 3}, {"x": "float32", "y": "float32"},
            lambda x: np.sqrt(abs(x)) / 2 + 3,
        ),
    ],
)  # fmt: skip
def test_a_behaviour_is_what_its_text_says(text: str, axes: dict[str, int], types: dict[str, str], wanted: Any) -> None:
    found = parse_behaviour(text, axes, types)
    assert found.accumulates == (("+=" in text) or ("*=" in text) or ("maximum(y" in text))
    random = np.random.default_rng(5)
    feeds = {}
    for load in found.stage.reads():
        shape = [int(n) for n in load.tensor.shape]  # type: ignore[attr-defined]
        feeds[load.tensor.name] = random.integers(-50, 50, shape).astype(load.dtype)
    result = evaluate_stage(found.stage, feeds)
    np.testing.assert_array_equal(result, wanted(*(feeds[n] for n in types if n in feeds)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not one assignment"),
        ("c[i] = (", "no formula"),
        ("c[i] = a[i]; c[i] = a[i]", "not one assignment"),
        ("import os", "not one assignment"),
        ("c[i] = __import__('os').system('true')", "nothing that a behaviour can have"),
        ("c[i] = a[i].real", "nothing that a behaviour can have"),
        ("c[i] = [x for x in a]", "nothing that a behaviour can have"),
        ("c[i] = (lambda: a[i])()", "nothing that a behaviour can have"),
        ("c[i] = open(a[i])", "there is no open"),
        ("c[i] = a[i] if a[i] else b[i]", "nothing that a behaviour can have"),
        ("c[i] = 'text'", "nothing that a behaviour can have"),
        ("c[i] = True", "nothing that a behaviour can have"),
        ("c[i] = a[i]", "it computes int8, and the result c is int32"),
        ("c[i] = int32(a[i]) + b[i]", "two types"),
        ("c[i] = int32(a[i]) + 5000000000", "is no int32"),
        ("c[i] = int32(d[i])", "d is not among the operands"),
        ("d[i] = int32(a[i])", "the result d is not among"),
        ("c[i] = int32(a[j])", "j is no axis of the result"),
        ("c[i + 1] = int32(a[i])", "not different axes"),
        ("c[i, i] = int32(a[i])", "not different axes"),
        ("c[i] = int32(a[i - 1]) + int32(b[i])", "negative somewhere"),
        ("c[i] = int32(a[i * i]) + int32(b[i])", "no sum of axes"),
        ("c[i] = int32(a[i]) + int32(a[i, i]) + int32(b[i])", "1 indices in one place and 2"),
        ("c[i] = c[i] + int32(a[i]) + int32(b[i])", "reads its own result"),
        ("c[i] = int32(a[i])", "the operand b is not read"),
        ("c[i] += int32(a[i]) + int32(b[i])", "is no sum"),
        ("c[i] -= sum(int32(a[i]) + int32(b[i]), k)", "combined by += or *="),
        ("c[i] = 1 + sum(int32(a[i]) + int32(b[i]), k)", "whole right side only"),
        ("c[i] = sum(int32(a[i]) + int32(b[i]), i)", "both an index of the result and reduced"),
        ("c[i] = sum(int32(a[i]) + int32(b[i]), n)", "n is no axis"),
        ("c[i] = sum(int32(a[i]) + int32(b[i]))", "a reduction is of a value and of the axes"),
        ("c[i] = int32(a[i]) + int32(b[i])", "the axis k is neither"),
        ("c[i] = " + "(" * 900 + "1" + ")" * 900, "no formula"),
        ("c[i] = " + "-" * 1500 + "1", "it "),
        ("c[i] = " + "1 + " * 1000 + "1", "characters"),
        ("c[i]\0 = 1", "no formula"),
        ("c[i] = int32(1) / int32(0)", "cannot convert"),
        ("c[i] = 1 << 3", "nothing says which type"),
    ],
)
def test_what_is_no_behaviour(text: str, why: str) -> None:
    with pytest.raises(BehaviourError, match=re.escape(why)):
        parse_behaviour(text, {"i": 4, "k": 2}, BYTES)


MAC = """
extends = "x86-64-v3"

[[memories]]
name = "pad"
reach = "block"
bytes = 4096
access = "copy"

[[intrinsics]]
name = "toy.mac4"
behaviour = "c[i, j] += sum(int32(a[i, k]) * int32(b[k, j]), k)"
axes = { i = 4, j = 4, k = 4 }
c = "toy_mac4($c, $c_stride0, $a, $a_stride0, $b, $b_stride0);"
c_header = "toy.h"
cycles = 4

[intrinsics.operands]
a = { dtype = "int8", memory = "any", strides = ["any", 1] }
b = { dtype = "int8", memory = "any", strides = ["any", 1] }
c = { dtype = "int32", memory = "any", strides = ["any", 1] }
"""


A = 'a = { dtype = "int8", memory = "any", strides = ["any", 1] }'
C = 'c = { dtype = "int32", memory = "any", strides = ["any", 1] }'


def described(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(text)
    return path


def test_a_description_declares_intrinsics(tmp_path: Path) -> None:
    path = described(tmp_path, MAC)
    target = load_target(str(path))
    mac = target.known_intrinsics["toy.mac4"]
    assert mac is load_target(str(path)).known_intrinsics["toy.mac4"], "equal declarations are one intrinsic"
    assert target == load_target(str(path))
    assert hash(target) == hash(load_target(str(path)))
    assert (mac.form, mac.accumulates, mac.cycles, mac.vector_bits) == (Form.MEMORY, True, 4, 0)
    assert mac.places["a"].strides == (None, 1)
    assert [t.name for t in mac.inputs] == ["a", "b"]
    assert target.has(mac)
    assert not load_target("x86-64-v3").has(mac)
    child = described(tmp_path / "..", f'extends = "{path}"\n')
    try:
        assert load_target(str(child)).intrinsics == target.intrinsics
    finally:
        child.unlink()


@pytest.mark.parametrize(
    ("old", "new", "why", "key"),
    [
        ('name = "toy.mac4"', 'name = "toy mac"', "cannot be called that", "name"),
        ('name = "toy.mac4"', 'name = "toy..mac"', "cannot be called that", "name"),
        ('name = "toy.mac4"', 'name = "sdot.128"', "Sterna has one of that name", "name"),
        ('name = "toy.mac4"', "name = 4", "has a value of type int", "name"),
        ("cycles = 4", "cycles = -1", "cycles is -1", "cycles"),
        ("cycles = 4", "cycles = nan", "cycles is nan", "cycles"),
        ("cycles = 4", 'cycle = 4', "unknown key cycle", "cycle"),
        ("cycles = 4", 'needs = ["avx512f"]', "toy.mac4 needs avx512f", "intrinsics"),
        ("cycles = 4", 'needs = "avx2"', "has a value of type str", "needs"),
        ("cycles = 4", "needs = [4]", "has a value of type list", "needs"),
        ("i = 4, ", "i = 0, ", "the axis i has 0 positions", "axes"),
        ("i = 4, ", 'i = "4", ', "the axis i has '4' positions", "axes"),
        ("axes = {", "axes = { x = 4, ", "the axis x is neither", "behaviour"),
        ("i = 4, j = 4", "i = 1048576, j = 1048576", "more than 1048576 positions together", "axes"),
        ("+= sum", "+= max", "is no sum", "behaviour"),
        ('c_header = "toy.h"', 'c_header = "a>\\n#error"', "c_header is", "c_header"),
        ("$a, $a_stride0", "$a, $a_step", "c names $a_step", "c"),
        ("$a, $a_stride0", "$a, $", "names nothing", "c"),
        ("$a, $a_stride0", "$a", "a may have any strides, and c does not use $a_stride0", "c"),
        ("$a, $a_stride0", "$a_stride0", "c does not use $a", "c"),
        (A, 'a = { dtype = "int8", memory = "sram" }', "no memory sram", "operands"),
        (A, 'a = { dtype = "int9", memory = "any" }', "is 'int9'", "operands"),
        (A, 'a = { dtype = "int8", place = "any" }', "unknown key place", "operands"),
        (A, "a = 4", "a is no table", "operands"),
        (A, 'a = { dtype = "int8", memory = "any", strides = [1] }', "2 dimensions and 1", "operands"),
        (A, 'a = { dtype = "int8", memory = "any", strides = ["all"] }', "the strides of a", "operands"),
        (A, 'a = { dtype = "int8" }', "a has several elements and no memory", "operands"),
        (C, 'c = { dtype = "int32" }', "the result c is in registers", "operands"),
        ("a[i, k]", "int[i, k]", "int", "behaviour"),
        ("b = { dtype", "while = { dtype", "while is no name in C", "operands"),
        ('c = "toy_mac4($c, $c_stride0, $a, $a_stride0, $b, $b_stride0);"', "", "not say how a generator", "c"),
    ],
)  # fmt: skip
def test_what_a_description_may_not_say(old: str, new: str, why: str, key: str, tmp_path: Path) -> None:
    assert old in MAC
    path = described(tmp_path, MAC.replace(old, new, 1))
    with pytest.raises(SternaError) as caught:
        load_target(str(path))
    assert set(caught.value.codes) == {"E0202"}
    problem = next(d for d in caught.value.diagnostics if why in d.title)
    assert problem.fix
    assert problem.where[0].startswith(str(path))
    lines = path.read_text().splitlines()
    if (line := re.search(r"line (\d+)", problem.where[0])) is not None:
        assert lines[int(line[1]) - 1].lstrip(" [").startswith((key, *(["name"] if key == "intrinsics" else [])))


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    more = MAC[MAC.index("[[intrinsics]]") :]
    with pytest.raises(SternaError, match="two of that name"):
        load_target(str(described(tmp_path, MAC + more.replace("toy.mac4", "toy-mac4"))))
    both = load_target(str(described(tmp_path, MAC + more.replace("toy.mac4", "other"))))
    assert [d.name for d in both.intrinsics] == ["toy.mac4", "other"]


def test_memories_that_are_gone_are_missed(tmp_path: Path) -> None:
    """Who restates the memories of a target says which intrinsics lose theirs."""
    start = described(tmp_path, MAC.replace('memory = "any"', 'memory = "pad"', 1))
    assert load_target(str(start)).known_intrinsics["toy.mac4"].places["a"].memory == "pad"
    child = tmp_path / "child.toml"
    child.write_text(f'extends = "{start}"\n[[memories]]\nname = "other"\nreach = "block"\nbytes = 64\n')
    with pytest.raises(SternaError, match="has no memory pad, where a lies"):
        load_target(str(child))


def declared(
    text: str, axes: Mapping[str, int], *operands: OperandDeclaration, name: str = "toy", **more: Any
) -> dict[str, Any]:
    d = IntrinsicDeclaration(name, text, tuple(axes.items()), operands, c="toy();", **more)
    return {name: declared_intrinsic(d)}


def operand(name: str, dtype: str = "int8", memory: str = "any", strides: tuple[int | None, ...] = ()) -> Any:
    return OperandDeclaration(name, dtype, memory, strides)


def mac(*strides: tuple[int | None, ...]) -> dict[str, Any]:
    names = zip(("a", "b", "c"), strides or ((),) * 3, strict=True)
    operands = (operand(n, "int32" if n == "c" else "int8", "any", s) for n, s in names)
    return declared(
        "c[i, j] += sum(int32(a[i, k]) * int32(b[k, j]), k)", {"i": 4, "j": 4, "k": 4}, *operands, name="toy"
    )


def blocked(kernel: Kernel, intrinsics: Mapping[str, Any], *order: str) -> Schedule:
    """Blocks of 4 x 4 x 4 of a product by one instruction each."""
    s = Schedule(kernel, intrinsics)
    s.split("out", "i", 4)
    s.compute_at("acc", "out", "i.o", "stack")
    for axis in "ijk":
        s.split("acc", axis, 4)
    s.reorder("acc", "i.o", "j.o", "k.o", "i.i", "j.i", "k.i")
    s.tensorize("acc", *(order or ("i.i", "j.i", "k.i")), "toy")
    return s


def computed(schedule: Schedule, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the interpreter makes of a schedule's loops, finished or not, which is the same."""
    stored = schedule.stored([feeds[p.name] for p in schedule.kernel.params])
    results = []
    for program in (lower(schedule), finish(lower(schedule))):
        memory = {b.name: a.reshape(-1).copy() for b, a in zip(program.params, stored, strict=True)}
        memory |= {t.name: feeds[t.name].reshape(-1) for t in schedule.kernel.inputs}
        memory |= {b.name: np.zeros(b.elements, b.dtype) for b in program.outputs}
        run_function(program, memory)
        results.append({t.name: memory[t.name].reshape([int(n) for n in t.shape]) for t in schedule.kernel.outputs})
    first, second = results
    assert all((first[name] == second[name]).all() for name in first)
    return second


@pytest.mark.parametrize("shape", [(8, 12, 16), (4, 4, 4), (4, 8, 4)])
def test_a_product_in_memory(shape: tuple[int, int, int]) -> None:
    kernel = product(*shape, "int8")
    schedule = blocked(kernel, mac())
    feeds = arrays(kernel, 1)
    np.testing.assert_array_equal(computed(schedule, feeds)["out"], run_kernel(kernel, feeds)["out"])
    text = print_function(finish(lower(schedule)))
    assert "= toy(x[" in text
    again = saved.apply(kernel, saved.from_json(saved.to_json(schedule.steps)), mac())
    assert print_function(finish(lower(again))) == text


def test_a_convolution_moves_along_two_axes() -> None:
    """An operand whose index is a sum of axes: the same stage, whatever the strides and where a row begins."""
    x, w = placeholder("x", (3, 19), "int16"), placeholder("w", (4,), "int16")
    r = reduce_axis("r", 4)
    y = compute("y", (3, 8), lambda n, i: total(x[n, 2 * i + r.var] * w[r.var], r))
    kernel = Kernel("conv", (x, w), (), (y,))
    types = {"axes": {"i": 8, "r": 4}, "text": "c[i] += sum(a[2 * i + r] * b[r], r)"}
    known = declared(types["text"], types["axes"], *(operand(n, "int16") for n in "abc"))
    s = Schedule(kernel, known)
    s.tensorize("y", "i", "r", "toy")
    random = np.random.default_rng(3)
    feeds = {t.name: random.integers(-99, 99, [int(n) for n in t.shape]).astype(np.int16) for t in (x, w)}
    np.testing.assert_array_equal(computed(s, feeds)["y"], run_kernel(kernel, feeds)["y"])
    # One place every two elements is not what an instruction with neighbours does.
    close = declared("c[i] += sum(a[i + r] * b[r], r)", types["axes"], *(operand(n, "int16") for n in "abc"))
    s = Schedule(kernel, close)
    s.tensorize("y", "i", "r", "toy")
    with pytest.raises(SternaError, match="does not lie in constant steps") as caught:
        lower(s)
    assert caught.value.codes == ("E0303",)


def test_element_wise_with_a_value() -> None:
    """No reduction, three operands, one of them a value in a register."""
    x, z, t = placeholder("x", (6, 16)), placeholder("z", (6, 16)), placeholder("t", (6,))
    y = compute("y", (6, 16), lambda n, i: E.maximum(x[n, i] + z[n, i] * t[n], 0.0))
    kernel = Kernel("scaled", (x, z, t), (), (y,))
    operands = (operand(n, "float32", "register" if n == "s" else "any") for n in "absc")
    known = declared("c[i] = maximum(a[i] + b[i] * s, 0)", {"i": 16}, *operands)
    s = Schedule(kernel, known)
    s.unroll("y", "n")
    s.tensorize("y", "i", "toy")
    random = np.random.default_rng(3)
    feeds = {t.name: random.normal(size=[int(n) for n in t.shape]).astype(np.float32) for t in (x, z, t)}
    np.testing.assert_array_equal(computed(s, feeds)["y"], run_kernel(kernel, feeds)["y"])
    assert "toy(x[16 : 16 by 1], z[16 : 16 by 1], y_s" in print_function(finish(lower(s)))


def refusal(kernel: Kernel, known: Mapping[str, Any], *order: str) -> str:
    with pytest.raises(SternaError) as caught:
        lower(blocked(kernel, known, *order))
    (problem,) = caught.value.diagnostics
    assert problem.code in ("E0302", "E0303")
    assert problem.fix
    return f"{problem.code} {problem.title}"


def test_what_does_not_fit_is_refused() -> None:
    kernel = product(8, 8, 8, "int8")
    assert "E0302" in refusal(kernel, mac(), "j.i", "i.i", "k.i")
    assert "E0302" in refusal(product(8, 8, 8, "uint8"), mac())
    assert "what stands for its operand a is uint8, not int8" in refusal(product(8, 8, 8, "uint8"), mac())
    assert "10 iterations" not in refusal(product(10, 8, 8, "int8"), mac())
    assert "has 2 iterations, not 4" in refusal(product(10, 8, 8, "int8"), mac())
    assert "needs a step of 4 along dimension 0, and x has 8" in refusal(kernel, mac((4, 1), (None, 1), (None, 1)))
    assert "E0303" in refusal(kernel, mac((None, 2), (None, 1), (None, 1)))
    types = {"i": 4, "j": 4, "k": 4}
    operands = [operand(n, "int32" if n == "c" else "int8") for n in "abc"]
    widest = declared("c[i, j] = maximum(c[i, j], max(int32(a[i, k]) * int32(b[k, j]), k))", types, *operands)
    assert "it is a sum, not a max" in refusal(kernel, widest)
    summed = declared("c[i, j] += sum(int32(a[i, k]) + int32(b[k, j]), k)", types, *operands)
    assert "does not compute" in refusal(kernel, summed)
    alone = declared("c[i, j] = sum(int32(a[i, k]) * int32(b[k, j]), k)", types, *operands)
    assert "does not add to what is there" in refusal(kernel, alone)
    turned = declared("c[i, j] += sum(int32(a[i, k]) * int32(b[k, i]), k)", types, *operands)
    assert "depends on its axis j, too" in refusal(kernel, turned)


def test_what_overwrites_needs_no_first_value() -> None:
    types = {"i": 4, "j": 4, "k": 4}
    operands = [operand(n, "int32" if n == "c" else "int8") for n in "abc"]
    alone = declared("c[i, j] = sum(int32(a[i, k]) * int32(b[k, j]), k)", types, *operands)
    kernel = product(8, 4, 4, "int8")
    s = Schedule(kernel, alone)
    s.split("out", "i", 4)
    s.compute_at("acc", "out", "i.o", "stack")
    s.split("acc", "i", 4)
    s.tensorize("acc", "i.i", "j", "k", "toy")
    feeds = arrays(kernel, 4)
    np.testing.assert_array_equal(computed(s, feeds)["out"], run_kernel(kernel, feeds)["out"])
    assert "= 0:int32" not in print_function(lower(s))


def instruction(start: int, strides: tuple[int, int], memory: str = "any") -> P.Function:
    """An instruction on an input of 32 elements."""
    known = declared("y[i, j] = abs(a[i, j])", {"i": 4, "j": 4}, operand("a", "int8", memory), operand("y"))
    a, y = (P.dense_buffer(name, "int8", (as_int(32),), scope) for name, scope in (("a", INPUT), ("y", OUTPUT)))
    s = P.Instruction(
        known["toy"], P.Slice(y, ZERO, (4, 1), (4, 4)), (P.Slice(a, as_int(start), strides, (4, 4)),)
    )  # fmt: skip
    return P.Function("absolute", (a,), (), (y,), as_int(1), 0, s)


def test_operands_are_proved_in_bounds() -> None:
    verify(instruction(0, (8, 2)))
    verify(instruction(31, (-8, -2)))
    for start, strides in ((2, (8, 2)), (0, (10, 1)), (29, (-8, -2)), (0, (8, -1))):
        with pytest.raises(SternaError) as caught:
            verify(instruction(start, strides))
        assert caught.value.codes == ("E0305",)


def test_negative_steps() -> None:
    memory = {"a": np.arange(-16, 16, dtype=np.int8), "y": np.zeros(32, np.int8)}
    run_function(instruction(31, (-8, -2)), memory)
    rows = memory["a"][::-1].reshape(4, 8)[:, ::2]
    np.testing.assert_array_equal(memory["y"][:16].reshape(4, 4), abs(rows))


def test_operands_are_proved_in_their_memory() -> None:
    with pytest.raises(SternaError) as caught:
        verify(instruction(0, (4, 1), "pad"))
    assert caught.value.codes == ("E0309",)
    assert "a lies in input, and toy takes a from pad" in str(caught.value)
    program = instruction(0, (4, 1), "pad")
    body = program.body
    assert isinstance(body, P.Instruction)
    pad = P.dense_buffer("a_pad", "int8", (as_int(32),), Memory("pad", "block", bytes=32))
    moved = replace(body, operands=(replace(body.operands[0], buffer=pad),))  # type: ignore[type-var]
    verify(replace(program, body=P.seq(P.Alloc(pad), moved)))
