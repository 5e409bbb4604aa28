"""The C generator: the same text every time, readable, without warnings, right where C has traps."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sterna.api import compile_model, compile_to
from sterna.codegen import c
from sterna.codegen.dialects import dialect
from sterna.codegen.dialects.c99 import C99
from sterna.codegen.dialects.vector_c import VectorC
from sterna.codegen.printer import Printer
from sterna.debug.interpret import interpret
from sterna.driver import Compiled
from sterna.ir.extremum import minimum
from sterna.ir.graph import Graph
from sterna.ir.integer import Symbol, of
from sterna.ops import Builder
from sterna.targets.description import host, load_target
from sterna.targets.target import Target
from sterna.toolchain.check import read_elf
from sterna.toolchain.compilers import compile_c, compiler_command
from sterna_runtime import load
from support.compiling import build, check, compiled, input_value
from support.every_operator import every_operator
from support.tools import need, run
from support.trained import sample

#: A formula for every type asks of unsigned numbers, too, whether they are negative.
QUIET = ["-Wno-unused-function", "-Wno-type-limits"]
STRICT = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]


@pytest.fixture(scope="module")
def digits() -> Compiled:
    return compile_model(sample("digits").file, "x86-64-v3")


def test_the_same_text_every_time(digits: Compiled) -> None:
    functions = [k.function for k in digits.kernels]
    again, other = (
        c.generate(functions, digits.options.target, digits.model, [["a"]] * len(functions)) for _ in range(2)
    )
    assert again == other


def test_kernels_name_their_source(digits: Compiled) -> None:
    for node in ("conv1", "conv2", "dense", "softmax"):
        assert re.search(rf"/\* .*{node}.*\*/|/\* {node}\n", digits.source), node


def test_hot_loops_have_no_guard(digits: Compiled) -> None:
    kernel = digits.source.split("int32_t k4_")[1].split("\n}\n")[0]
    assert "if (" not in kernel
    assert "_fma" not in kernel
    assert len(re.findall(r"fma_f32x8\(", kernel)) >= 8
    assert "[64]" not in kernel, "accumulators are variables"


def test_names_cannot_break_out_of_comments() -> None:
    builder = Builder()
    x = np.ones(4, np.float32)
    value = input_value(builder, x, 'evil */ int main; /* "\\')
    y = builder.add("relu", value, sources=("*/ #error broken /*",))
    graph = Graph("g", (value,), (y,), tuple(builder.nodes))
    result = compiled(graph)
    assert "*/ #error" not in result.source
    assert result.library


@pytest.mark.parametrize("size", [1, 4000, 1 << 20])
def test_units_are_the_same_kernels(size: int, digits: Compiled) -> None:
    """Cut into several files the kernels are the same, each is compiled alone, and only one holds the table."""
    target = digits.options.target
    kernels = [k.function for k in digits.kernels]
    units = c.generate_units(kernels, target, digits.model, [["x"]] * len(kernels), size, size)
    assert len(units) == 1 if size == 1 << 20 else 1 < len(units) <= len(kernels)
    assert ["static const sterna_kernel kernels" in u for u in units] == [False] * (len(units) - 1) + [True]
    for kernel in kernels:
        bodies = sum(bool(re.search(rf"int32_t \w*{kernel.name}\([^)]*\) {{", u)) for u in units)
        assert bodies == 1
    objects = [read_elf(compile_c(u, target)) for u in units]
    defined = {symbol.name for o in objects for symbol in o.symbols if symbol.defined}
    assert {name for o in objects for name in o.undefined} <= defined


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_a_library_may_have_no_kernels(generator: str, tmp_path: Path) -> None:
    """Nothing to compute: the table is empty, but it is there."""
    builder = Builder()
    x = np.ones((0, 3), np.float32)
    value = input_value(builder, x)
    y = builder.add("relu", value)
    graph = Graph("g", (value,), (y,), tuple(builder.nodes))
    assert not compiled(graph, generator=generator).kernels
    with build(graph, tmp_path / "bundle", generator=generator) as bundle:
        (found,) = bundle.run({value.name: x}).values()
        assert found.shape == (0, 3)


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("kind", ["vector", "plain"])
def test_every_operator_without_warnings(kind: str, compiler: str, part: int, tmp_path: Path) -> None:
    need(compiler, "one of the compilers that generated C must be clean under")
    target = replace(host(), library="") if kind == "vector" else load_target("c99")
    graph, _, _ = every_operator(part=part, parts=2)
    source = tmp_path / "kernels.c"
    source.write_text(compiled(graph, target).source)
    if kind == "vector":
        command = [part for part in compiler_command(compiler, target) if not part.startswith("-Wno")]
    else:
        command = [compiler, "-std=c99", "-Wpedantic"]
    run(*command, *STRICT, *QUIET, "-fsyntax-only", source)


@pytest.mark.family("host-c")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_other_compilers_agree(compiler: str, tmp_path: Path) -> None:
    need(compiler, "an alternative compiler")
    model = sample("digits")
    case = model.cases[0]
    with load(compile_to(tmp_path / "bundle", model.file, compiler=compiler)) as bundle:
        for found, expected in zip(bundle.run(case.inputs).values(), case.outputs, strict=True):
            assert np.abs(found - expected).max() <= model.tolerance(expected)


@pytest.mark.parametrize(
    "dtype", [f"{sign}int{width}" for width in (8, 16, 32, 64) for sign in ("", "u")] + ["float16"]
)
@pytest.mark.parametrize("size", [3, 16, 197])
def test_integer_arithmetic_wraps_and_divides(dtype: str, size: int, tmp_path: Path) -> None:
    """Overflow wraps, a division by zero gives zero, also in lanes that are not there."""
    builder, random = Builder(), np.random.default_rng(size)
    if dtype.startswith("float"):
        a, b = (random.standard_normal(size).astype(dtype) for _ in "ab")
    else:
        info = np.iinfo(dtype)
        a = random.integers(info.min, info.max, size, dtype, endpoint=True)
        b = random.integers(info.min, info.max, size, dtype, endpoint=True)
        a[0], b[0], b[1], b[2] = info.min, (-1 if info.min else 1), 0, 1
    x, y = input_value(builder, a), input_value(builder, b)
    names = ("add", "sub", "mul", "maximum", "minimum") + (() if dtype.startswith("float") else ("div", "mod"))
    outputs = [builder.add(op, x, y) for op in names]
    if "mod" in names:
        outputs.append(builder.add("mod", x, y, truncated=True))
    outputs.append(builder.add("where", builder.add("less", x, y), x, y))
    graph = Graph("g", (x, y), tuple(outputs), tuple(builder.nodes))
    feeds = {x.name: a, y.name: b}
    with np.errstate(all="ignore"):
        expected = interpret(graph, feeds)
    for generator in ("c", "llvm"):
        with build(graph, tmp_path / generator, generator=generator) as bundle:
            check(bundle.run(feeds), expected, 2e-3)


def test_positions_as_text() -> None:
    plain = Printer(C99(load_target("c99")))
    i, j = Symbol("i", 0, 9), Symbol("j", 0, 4)
    assert plain.position(of(i) * 10 + of(j) - 3) == "i * 10 + j - 3"
    assert plain.position(of(i) // 3) == "((i) / 3)"
    assert plain.position(of(i) % 4) == "((i) % 4)"
    assert "index_min" in plain.position(minimum(of(i), of(j)))
    low = Symbol("k", -5, 5)
    assert "floor_mod" in plain.position(of(low) % 3), "C's remainder has the sign of the dividend"


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "float32", "0.1f"),
        (1e30, "float32", "1.0e+30f"),
        (float("-inf"), "float32", "-STERNA_INFINITY"),
        (float("nan"), "float64", "(double)STERNA_NAN"),
        (-(2**31), "int32", "INT32_MIN"),
        (-(2**63), "int64", "INT64_MIN"),
        (2**63, "uint64", "UINT64_C(9223372036854775808)"),
        (True, "bool", "1"),
        (1.0, "float16", "(uint16_t)15360"),
    ],
)
def test_constants(value: float, dtype: str, text: str) -> None:
    assert C99(load_target("c99")).const(value, dtype) == text


def test_a_target_chooses_its_dialect() -> None:
    assert type(dialect(load_target("c99"))) is C99
    assert type(dialect(load_target("arm64"))) is VectorC
    wide: Target = replace(load_target("arm64"), vector_bits=512)
    assert dialect(wide).helper("fma", "float32", 16) == "fma_f32x16"
