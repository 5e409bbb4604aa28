"""Products of bytes by dot products of words, which threads of a GPU have: equal to the last bit to what tensor
expressions say, of any size and signs, by the interpreter, OpenCL, CUDA's text and PTX; none waits for a bank."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from sterna.codegen import ptx
from sterna.codegen.generators import KernelSet, source
from sterna.intrinsics import DOTS_OF_WORDS
from sterna.ir.integer import Int
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support import opencl_host, wgsl_host
from support.bound_axes import compare, memory_of
from support.cuda_host import METAL
from support.dot_products import arrays, product
from support.javascript import with_dots
from support.tools import need, run

BYTES = ("int8", "uint8")


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> opencl_host.Device:
    return opencl_host.Device(tmp_path_factory.mktemp("opencl"))


@pytest.fixture(scope="module")
def wgsl() -> wgsl_host.Device:
    return wgsl_host.Device()


def convolution(size: int, channels: int, outputs: int, taps: int, stride: int) -> Kernel:
    """Of an image that is padded already, with a bias; stored as int32."""
    length = (size - 1) * stride + taps
    x, w = (
        placeholder("x", (length, length, channels), "uint8"),
        placeholder("w", (taps, taps, channels, outputs), "int8"),
    )
    b, kh, kw, c = placeholder("b", (outputs,), "int32"), *map(reduce_axis, ("kh", "kw", "c"), (taps, taps, channels))

    def element(h: Int, v: Int, o: Int) -> E.Expr:
        left = x[h * stride + kh.var, v * stride + kw.var, c.var]
        return total(E.cast(left, "int32") * E.cast(w[kh.var, kw.var, c.var, o], "int32"), kh, kw, c)

    acc = compute("acc", (size, size, outputs), element, axes=("h", "v", "o"))
    out = compute("out", (size, size, outputs), lambda h, v, o: acc[h, v, o] + b[o])
    return Kernel("convolution", (x,), (w, b), (out,))


def first_layer(size: int, outputs: int, taps: int, stride: int) -> Kernel:
    """A convolution of three channels as it is computed: channels lie along the rows of the image, whose windows
    overlap and begin anywhere."""
    x = placeholder("x", ((size - 1) * stride + taps, 3 * ((size - 1) * stride + taps)), "int8")
    w = placeholder("w", (taps, 3 * taps, outputs), "int8")
    kh, k = reduce_axis("kh", taps), reduce_axis("k", 3 * taps)

    def element(h: Int, v: Int, o: Int) -> E.Expr:
        left = x[h * stride + kh.var, v * 3 * stride + k.var]
        return total(E.cast(left, "int32") * E.cast(w[kh.var, k.var, o], "int32"), kh, k)

    acc = compute("acc", (size, size, outputs), element, axes=("h", "v", "o"))
    return Kernel("first", (x,), (w,), (acc,))


def of_batches(m: int, n: int, depth: int) -> Kernel:
    """Products of two computed operands, the right one with its columns side by side."""
    x, w = placeholder("x", (2, m, depth), "int8"), placeholder("w", (2, depth, n), "int8")
    k = reduce_axis("k", depth)

    def element(z: Int, i: Int, j: Int) -> E.Expr:
        return total(E.cast(x[z, i, k.var], "int32") * E.cast(w[z, k.var, j], "int32"), k)

    return Kernel("batches", (x, w), (), (compute("out", (2, m, n), element, axes=("z", "i", "j")),))


def proposed(kernel: Kernel, target: str = "cuda") -> Schedule:
    """By the strategy, for the target without fragments of matrices."""
    found = load_target(target)
    assert found.threads is not None
    s = propose(kernel, Context(replace(found, threads=replace(found.threads, fragments=()))))
    assert s is not None
    return s


def has_dots(s: Schedule) -> bool:
    found = (value for stmt in P.walk(finish(lower(s)).body) if (value := stmt.computes()) is not None)
    return any(isinstance(e, P.Apply) and e.intrinsic.of_words for value in found for e in E.walk(value))


def given(s: Schedule, program: P.Function, seed: int = 3) -> dict[str, np.ndarray]:
    """Memory for a kernel: inputs, and constants as the schedule stores them."""
    feeds = arrays(s.kernel, seed)
    stored = s.stored([feeds[t.name] for t in s.kernel.params])
    return memory_of(program, feeds | {p.name: a for p, a in zip(program.params, stored, strict=True)})


KERNELS = {
    "columns of a vector": product(40, 32, 24, "int8"),
    "single columns": product(20, 7, 33, "uint8"),
    "few terms": product(16, 20, 3, "int8", "uint8"),
    "both without signs": product(17, 9, 18, "uint8", "uint8"),
    "windows": convolution(5, 16, 8, 3, 1),
    "windows of three channels": convolution(5, 3, 8, 3, 2),
    "a first layer": first_layer(5, 8, 3, 2),
    "batches": of_batches(10, 12, 20),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_products(kernel: Kernel, device: opencl_host.Device, tmp_path: Path) -> None:
    s = proposed(kernel)
    assert has_dots(s)
    compare(s, device, tmp_path, tolerance=0, orders=2, feeds=arrays(kernel, 3))


@pytest.mark.parametrize("packed", [False, True], ids=["words taken apart", "the language's own"])
def test_wgsl(packed: bool, wgsl: wgsl_host.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as the JavaScript runtime writes the text anew where a browser multiplies words."""
    written = wgsl_host.source

    def text(kernels: KernelSet, target: Target) -> str:
        plain = written(kernels, target)
        return plain if not packed else with_dots(plain)

    monkeypatch.setattr(wgsl_host, "source", text)
    for kernel in KERNELS.values():
        s = proposed(kernel, "webgpu")
        program = finish(lower(s))
        assert has_dots(s)
        memory = given(s, program)
        wgsl.run_function(program, memory, replace(load_target("webgpu"), device=None))
        for name, want in run_kernel(kernel, arrays(kernel, 3)).items():
            np.testing.assert_array_equal(memory[name].reshape(want.shape), want)


def test_metal(tmp_path: Path) -> None:
    kernel = KERNELS["columns of a vector"]
    compare(proposed(kernel, "metal"), None, tmp_path, tolerance=0, orders=1, language=METAL, feeds=arrays(kernel, 5))


@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@drawn(st.integers(8, 40), st.integers(2, 40), st.integers(1, 70), st.sampled_from(BYTES), st.sampled_from(BYTES))
def test_any_size(m: int, n: int, depth: int, left: str, right: str) -> None:
    kernel = product(m, n, depth, left, right)
    s = proposed(kernel)
    assert has_dots(s) == (depth > 1)
    compare(s, None, tolerance=0, orders=2, feeds=arrays(kernel, depth))


@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_no_conflicts(taps: int, stride: int) -> None:
    for size, channels, outputs in ((14, 16, 8), (7, 64, 16), (9, 24, 40), (8, 3, 24), (16, 32, 64)):
        counted = accesses(finish(lower(proposed(convolution(size, channels, outputs, taps, stride)))))
        assert counted.conflicts == 0, (size, channels, outputs)
        work = size * size * outputs * channels * taps * taps
        assert counted.dots >= work
        assert (taps, stride) != (1, 1) or counted.coalesced > 0.9 * counted.accesses


@pytest.mark.parametrize("depth", [9, 24, 70, 100])
def test_no_conflicts_of_products(depth: int) -> None:
    for columns in (2, 7, 12, 16, 40):
        assert accesses(finish(lower(proposed(product(100, columns, depth, "int8"))))).conflicts == 0, columns


def words(name: str) -> str:
    return str(DOTS_OF_WORDS[name].settings["words"])


@pytest.mark.parametrize("name", [n for n in DOTS_OF_WORDS if DOTS_OF_WORDS[n].lanes == 1])
def test_every_intrinsic_in_every_language(name: str) -> None:
    """PTX's own instruction, and functions that have the language's own one where it is."""
    program = finish(lower(proposed(product(16, 16, 16, *DOTS_OF_WORDS[name].operands))))
    kernels = KernelSet("model", [program], [()])
    left, right = (f"{sign[0]}32" for sign in words(name).split("_"))
    assert f"dp4a.{left}.{right}" in ptx.source(kernels, load_target("cuda"))
    for target, own in (
        ("cuda", f"dp4a.{left}.{right}"),
        ("opencl", "cl_khr_integer_dot_product"),
        ("metal", "int8_t"),
    ):
        text = source(kernels, replace(load_target(target), device=None))
        assert own in text
        assert f"dot4_{words(name)}_i32(" in text


@pytest.mark.parametrize("extended", [False, True], ids=["OpenCL C 1.2", "with the extension"])
def test_a_compiler_of_opencl_takes_the_text(extended: bool, tmp_path: Path) -> None:
    """As clang declares the functions of the extension, which PoCL does not have."""
    signs = [(left, right) for left in BYTES for right in BYTES]
    kernels = [replace(product(16, 16, 16, *types), name="_".join(types)) for types in signs]
    programs = [finish(lower(proposed(kernel, "opencl"))) for kernel in kernels]
    file = tmp_path / "kernels.cl"
    file.write_text(source(KernelSet("m", programs, [()] * 4), replace(load_target("opencl"), device=None)))
    feature = "__opencl_c_integer_dot_product_input_4x8bit_packed"
    has = ("-cl-std=CL3.0", "-Dcl_khr_integer_dot_product=1", f"-D{feature}=1") if extended else ("-cl-std=CL1.2",)
    clang = need("clang", "compiles OpenCL C")
    run(clang, "-x", "cl", *has, "-target", "spir64", "-Xclang", "-finclude-default-header", "-fsyntax-only", file)
