"""Intrinsics of other machines compute what their declarations say, and integer kernels what the interpreter does, on
emulators."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.intrinsics import INTRINSICS
from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import load_target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder
from sterna_runtime import load
from support import boards, float_products, machines
from support.compiling import compiled, compiled_schedule, input_value
from support.dot_products import arrays, product, tiled
from support.idioms import kernel_of as idiom_kernel


def made(target: str, name: str, generator: str, folder: Path) -> tuple[Path, list[np.ndarray], list[np.ndarray]]:
    """A bundle of a product with every kind of tail, its inputs and what it must give."""
    intrinsic = INTRINSICS[name]
    kernel = product(3, 2 * intrinsic.lanes + 1, 38 if intrinsic.couples > 1 else 37, intrinsic.operands[0])
    feeds = arrays(kernel, 5, intrinsic)
    machine = load_target(target)
    assert name in machine.int_dot
    compiled = compiled_schedule(tiled(kernel, intrinsic), [feeds[p.name] for p in kernel.params], generator, machine)
    return write_bundle(compiled, folder / "bundle"), [feeds["x"]], [run_kernel(kernel, feeds)["out"]]


@pytest.mark.family("arm64")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("arm64", "smlal.128"),
        ("arm64-dotprod", "sdot.128"),
        *(("arm64-i8mm", n) for n in load_target("arm64-i8mm").int_dot),
    ],
)
def test_arm64(tmp_path: Path, arm64_host: Path, target: str, name: str, generator: str) -> None:
    bundle, inputs, outputs = made(target, name, generator, tmp_path)
    found = machines.run_arm64(arm64_host, bundle, inputs, outputs, tmp_path, cpu="max")
    np.testing.assert_array_equal(found[0], outputs[0])


@pytest.mark.family("armv7")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("name", load_target("armv7").int_dot)
def test_32_bit_arm(tmp_path: Path, name: str, generator: str) -> None:
    bundle, inputs, outputs = made("armv7", name, generator, tmp_path)
    host, runs_on = machines.arm_host("armv7", tmp_path), load_target("armv7").runs_on
    found = machines.run_emulated(host, bundle, inputs, outputs, tmp_path, runs_on)
    np.testing.assert_array_equal(found[0], outputs[0])


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(
    ("target", "name"), [(t, n) for t in ("cortex-m4", "cortex-m55") for n in load_target(t).int_dot]
)
def test_cortex_m(tmp_path: Path, target: str, name: str, generator: str) -> None:
    """The sources by gcc, and LLVM's archive, on a board."""
    bundle, inputs, outputs = made(target, name, generator, tmp_path)
    found = boards.run_on_board(bundle, inputs, outputs, library_of_kernels=generator == "llvm")
    np.testing.assert_array_equal(found[0], outputs[0])


@pytest.mark.family("arm64")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("numbers", float_products.RANGES)
@pytest.mark.parametrize("name", ["bfdot.128", "fmla.128"])
def test_every_bit_of_floats_on_arm64(
    tmp_path: Path, arm64_host: Path, name: str, numbers: str, generator: str
) -> None:
    intrinsic = INTRINSICS[name]
    kernel = float_products.product(3, 2 * intrinsic.lanes + 1, 37, intrinsic.operands[0], intrinsic.dtype)
    every_bit_on_arm64(tmp_path, arm64_host, tiled(kernel, intrinsic), numbers, generator)


@pytest.mark.family("arm64")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(("rows", "columns", "depth", "part"), [(9, 37, 64, 32), (1, 16, 75, 25), (30, 8, 24, 8)])
def test_every_bit_of_sums_in_parts_on_arm64(
    tmp_path: Path, arm64_host: Path, rows: int, columns: int, depth: int, part: int, generator: str
) -> None:
    kernel = float_products.parts(rows, columns, depth, part)
    schedule = propose(kernel, Context(load_target("arm64-bf16")))
    assert [s for s in schedule.steps if s.primitive == "tensorize" and s.arguments[-1] == "fmla.128"]
    every_bit_on_arm64(tmp_path, arm64_host, schedule, "ordinary", generator)


def every_bit_on_arm64(folder: Path, host: Path, schedule: Schedule, numbers: str, generator: str) -> None:
    """What a processor with arithmetic of 16-bit floats computes is what the loop program says."""
    kernel, machine = schedule.kernel, load_target("arm64-bf16")
    feeds = float_products.feeds_of(kernel, 6, numbers)
    compiled = compiled_schedule(schedule, [feeds[p.name] for p in kernel.params], generator, machine)
    bundle, want = write_bundle(compiled, folder / "bundle"), float_products.interpreted(schedule, feeds)
    (found,) = machines.run_arm64(host, bundle, [feeds["x"]], [want], folder, cpu="max")
    np.testing.assert_array_equal(found, want)


@pytest.mark.family("wasm32")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("name", ["i32x4.dot_i16x8_s.128.u8", "i32x4.dot_i16x8_s.128.s8"])
def test_webassembly(tmp_path: Path, name: str, generator: str) -> None:
    bundle, inputs, outputs = made("browser", name, generator, tmp_path)
    found = machines.run_wasm(bundle, inputs, outputs, tmp_path)
    np.testing.assert_array_equal(found[0], outputs[0])


def depthwise(target: str, generator: str, folder: Path) -> tuple[Path, list[np.ndarray], list[np.ndarray]]:
    """A depthwise convolution of bytes in fixed point: short products, high products and shifts by several counts, of
    whole vectors and of a tail."""
    random = np.random.default_rng(7)
    x = random.integers(-128, 128, (1, 6, 6, 21)).astype(np.int8)
    b = Builder()
    v = input_value(b, x)
    weights = b.constant(random.integers(-128, 128, (3, 3, 1, 21)).astype(np.int8))
    y = b.add("conv_integer", v, weights, strides=(1, 1), dilations=(1, 1), groups=21)
    factors = [b.constant(n.astype(np.int32)) for n in (random.integers(1 << 30, (1 << 31) - 1, 21), np.arange(21))]
    y = b.add("fixed_multiply", y, *factors)
    few = [b.constant(np.array(n, np.int32)) for n in (1518500250, 1)]
    y = b.add("fixed_multiply", y, *few, range="small")
    graph = Graph("g", (v,), (y,), tuple(b.nodes), ("y",))
    return write_bundle(compiled(graph, target, generator), folder / "bundle"), [x], [interpret(graph, {"x": x})["y"]]


@pytest.mark.family("arm64")
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_fixed_point_on_arm64(tmp_path: Path, arm64_host: Path, generator: str) -> None:
    bundle, inputs, outputs = depthwise("arm64", generator, tmp_path)
    found = machines.run_arm64(arm64_host, bundle, inputs, outputs, tmp_path, cpu="max")
    np.testing.assert_array_equal(found[0], outputs[0])


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_fixed_point_with_helium(tmp_path: Path, generator: str) -> None:
    bundle, inputs, outputs = depthwise("cortex-m55", generator, tmp_path)
    np.testing.assert_array_equal(
        boards.run_on_board(bundle, inputs, outputs, library_of_kernels=generator == "llvm")[0], outputs[0]
    )


@pytest.mark.family("wasm32")
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_fixed_point_in_webassembly(tmp_path: Path, generator: str) -> None:
    bundle, inputs, outputs = depthwise("browser", generator, tmp_path)
    found = machines.run_wasm(bundle, inputs, outputs, tmp_path)
    np.testing.assert_array_equal(found[0], outputs[0])


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
def test_fixed_point_on_lesser_machines(tmp_path: Path, target: str, generator: str) -> None:
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("not an x86-64 machine")
    bundle, (x,), (want,) = depthwise(target, generator, tmp_path)
    with load(bundle) as opened:
        np.testing.assert_array_equal(opened.run({"x": x})["y"], want)


def idioms(target: str, generator: str, folder: Path) -> tuple[Path, list[np.ndarray], list[np.ndarray]]:
    """Every operation for which the target has a way of its own."""
    schedule, feeds = idiom_kernel(load_target(target))
    bundle = write_bundle(compiled_schedule(schedule, (), generator, load_target(target)), folder / "bundle")
    with np.errstate(all="ignore"):
        return bundle, list(feeds.values()), list(run_kernel(schedule.kernel, feeds).values())


@pytest.mark.family("arm64")
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_idioms_of_arm64(tmp_path: Path, arm64_host: Path, generator: str) -> None:
    bundle, inputs, outputs = idioms("arm64", generator, tmp_path)
    for found, want in zip(machines.run_arm64(arm64_host, bundle, inputs, outputs, tmp_path), outputs, strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.family("wasm32")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("target", ["browser", "browser-relaxed"])
def test_idioms_of_webassembly(tmp_path: Path, target: str, generator: str) -> None:
    bundle, inputs, outputs = idioms(target, generator, tmp_path)
    for found, want in zip(machines.run_wasm(bundle, inputs, outputs, tmp_path), outputs, strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.family("wasm32")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_long_integers_of_webassembly(tmp_path: Path, source: str, generator: str) -> None:
    """Vectors of floats as integers of 64 bits, which it has no instruction for."""
    x = np.array([2.0**n * sign for n in range(66) for sign in (0.9999999, -0.9999999, 1, -1)], source)
    x[:8] = np.nan, np.inf, -np.inf, -0.0, 0.99, -0.99, 1e30, -1e30
    given = placeholder("x", x.shape, source)
    outputs = tuple(compute(to, x.shape, lambda i, to=to: E.cast(given[i], to)) for to in ("int64", "uint64"))
    schedule = Schedule(Kernel("k", (given,), (), outputs))
    for output in outputs:
        (axis,) = schedule.stages[output.name].leaves
        schedule.split(output.name, axis, 4)
        schedule.vectorize(output.name, f"{axis}.i")
    bundle = write_bundle(compiled_schedule(schedule, (), generator, load_target("browser")), tmp_path / "bundle")
    wanted = list(run_kernel(schedule.kernel, {"x": x}).values())
    for found, want in zip(machines.run_wasm(bundle, [x], wanted, tmp_path), wanted, strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_idioms_of_helium(tmp_path: Path, generator: str) -> None:
    bundle, inputs, outputs = idioms("cortex-m55", generator, tmp_path)
    results = boards.run_on_board(bundle, inputs, outputs, library_of_kernels=generator == "llvm")
    for found, want in zip(results, outputs, strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize("library", [False, True])
def test_sums_of_bytes_with_helium(tmp_path: Path, library: bool) -> None:
    """Tiles of sums that are single numbers, scaled as vectors: columns and rows of every kind of remainder, depths
    that are not whole vectors."""
    random = np.random.default_rng(11)
    b = Builder()
    x = random.integers(-128, 128, (1, 3, 5, 27)).astype(np.int8)
    v = input_value(b, x)
    y = b.add(
        "conv_integer",
        v,
        b.constant(random.integers(-128, 128, (1, 2, 27, 11)).astype(np.int8)),
        strides=(1, 1),
        dilations=(1, 1),
    )
    factors = [b.constant(n.astype(np.int32)) for n in (random.integers(1 << 30, (1 << 31) - 1, 11), np.arange(5, 16))]
    y = b.add("cast", b.add("clip", b.add("fixed_multiply", y, *factors, range="small"), min=-128, max=127), to="int8")
    graph = Graph("g", (v,), (y,), tuple(b.nodes), ("y",))
    want = interpret(graph, {"x": x})["y"]
    bundle = write_bundle(compiled(graph, "cortex-m55", "llvm" if library else "c"), tmp_path / "bundle")
    np.testing.assert_array_equal(boards.run_on_board(bundle, [x], [want], library_of_kernels=library)[0], want)
