"""Products of tiles: schedules, loop programs and machine code compute what the intrinsic's declaration says. The
machine code runs on any x86-64 Linux, by an emulator of the tile instructions."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.api import compile_to
from sterna.bundle.writer import write_bundle
from sterna.codegen import llvm
from sterna.debug.interpret import interpret
from sterna.debug.self_test import computes_products
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.intrinsics import TILES
from sterna.ir.graph import Graph
from sterna.ir.integer import Int
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.ops import Builder
from sterna.schedule import saved
from sterna.schedule.decisions import Step
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets import description as targets
from sterna.targets import self_test
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from sterna_runtime import cpu_has
from support.compiling import check, compiled, compiled_schedule, input_value, run_schedule
from support.dot_products import arrays, product
from support.tile_emulation import NATIVE, Tiles, emulated_target, emulated_tiles
from support.tools import need
from support.trained import trained

GENERATORS = [
    pytest.param("c", marks=pytest.mark.family("host-c")),
    pytest.param("llvm", marks=pytest.mark.family("host-llvm")),
]


@pytest.fixture
def tiles() -> Iterator[Tiles]:
    emulated_target()
    with emulated_tiles() as emulator:
        yield emulator


def blocked(kernel: Kernel, rows: int, block: tuple[int, int], step: int) -> Schedule:
    """Blocks of tiles of so many rows, products of so much depth."""
    x, w = kernel.inputs[0], kernel.params[0]
    intrinsic = next(i for i in TILES.values() if i.operands == (x.dtype, w.dtype))
    down, across = block
    s = Schedule(kernel)
    s.split("out", "j", across * 16)
    s.split("out", "j.i", 16)
    s.split("out", "i", down * rows)
    s.reorder("out", "j.o", "i.o", "i.i", "j.i.o", "j.i.i")
    s.unroll("out", "j.i.o")
    s.vectorize("out", "j.i.i", whole=True)
    s.compute_at("acc", "out", "i.o", "scratch")
    s.split("acc", "i", rows)
    s.split("acc", "j", 16)
    s.split("acc", "k", step)
    s.split("acc", "k.i", 4)
    s.reorder("acc", "k.o", "i.o", "j.o", "i.i", "j.i", "k.i.o", "k.i.i")
    s.unroll("acc", "i.o")
    s.unroll("acc", "j.o")
    s.tensorize("acc", "i.i", "j.i", "k.i.o", "k.i.i", intrinsic.name)
    s.pack("w", {1: across * 16, 0: 4}, [(1, "o"), (0, "o"), (1, "i"), (0, "i")])
    return s


def cases(count: int, seed: int) -> Iterator[tuple[Schedule, int]]:
    """Schedules of products of random sizes, types and blocks, with a seed for their arrays."""
    random = np.random.default_rng(seed)
    blocks = [(1, 1), (1, 2), (2, 2), (1, 4), (3, 1), (2, 1), (1, 6)]
    for n in range(count):
        rows = int(random.integers(1, 17))
        m = int(random.integers(max(rows, 2), 70))
        step = 4 * int(random.integers(1, 17))
        depth, columns = step * int(random.integers(1, 4)), int(random.integers(2, 100))
        left, right = (str(d) for d in random.choice(["int8", "uint8"], 2))
        kernel = product(m, columns, depth, left, right)
        yield blocked(kernel, rows, blocks[int(random.integers(len(blocks)))], step), n


def test_the_loop_interpreter_runs_tiles() -> None:
    """No machine needed: the loop program as lowered, and with its tiles in registers."""
    for schedule, seed in cases(20, 11):
        kernel = schedule.kernel
        feeds = arrays(kernel, seed)
        expected = run_kernel(kernel, feeds)["out"]
        stored = schedule.stored([feeds[p.name] for p in kernel.params])
        lowered = lower(schedule)
        for program in (lowered, finish(lowered)):
            memory = {b.name: a.reshape(-1) for b, a in zip(program.params, stored, strict=True)}
            memory |= {"x": feeds["x"].reshape(-1), "out": np.zeros(expected.size, np.int32)}
            run_function(program, memory)
            np.testing.assert_array_equal(memory["out"], expected.reshape(-1), err_msg=saved.to_json(schedule.steps))


@pytest.mark.parametrize("generator", GENERATORS)
def test_machine_code_computes_the_behaviour(tiles: Tiles, generator: str) -> None:
    target = emulated_target()
    for schedule, seed in cases(12, 12):
        kernel = schedule.kernel
        feeds = arrays(kernel, seed)
        weights = [feeds[p.name] for p in kernel.params]
        found = run_schedule(schedule, {"x": feeds["x"]}, weights, generator, target=target)
        expected = run_kernel(kernel, feeds)["out"]
        np.testing.assert_array_equal(found["out"], expected, err_msg=saved.to_json(schedule.steps))
        native = cpu_has("amx-int8") == 1
        assert native or tiles.counted().configured == 1


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize(
    ("left", "right"), [("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8")]
)
def test_strategies_take_tiles(tiles: Tiles, left: str, right: str, generator: str) -> None:
    """Blocks of two by two, a load for a product, and no change of sign for any types; rows and columns left over."""
    target = emulated_target()
    kernel = product(64, 64, 256, left, right)
    steps = propose(kernel, Context(target)).steps
    assert [s.arguments[-1] for s in steps if s.primitive == "tensorize"] == [
        next(i.name for i in TILES.values() if i.operands == (left, right))
    ]
    assert "offset" not in [s.primitive for s in steps]
    for m, n in ((64, 64), (57, 41)):
        kernel = product(m, n, 256, left, right)
        feeds = arrays(kernel, 4)
        weights = [feeds[p.name] for p in kernel.params]
        found = run_schedule(propose(kernel, Context(target)), {"x": feeds["x"]}, weights, generator, 2, target)
        np.testing.assert_array_equal(found["out"], run_kernel(kernel, feeds)["out"])
        counts = tiles.counted()
        if (m, n) == (64, 64) and cpu_has("amx-int8") != 1:
            assert counts.multiplied == counts.loaded == 4 * 4 * 4
            assert counts.stored == counts.zeroed == 4 * 4


def test_strategies_leave_what_tiles_do_not_do_well() -> None:
    """Few rows, depths that are no multiple of four or would need tiles much too small."""
    target = load_target(NATIVE)
    for kernel in (product(1, 64, 256, "uint8"), product(64, 64, 99, "uint8"), product(64, 64, 4 * 67, "uint8")):
        used = [s.arguments[-1] for s in propose(kernel, Context(target)).steps if s.primitive == "tensorize"]
        assert used == ["vpdpbusd.512"]


def convolution(random: np.random.Generator) -> tuple[Graph, np.ndarray]:
    """A convolution of bytes with a requantizing epilogue: kernels, strides and paddings of many kinds."""
    size, kernel = int(random.integers(5, 20)), int(random.choice([1, 2, 3, 5]))
    stride = int(random.integers(1, 3))
    channels, outputs = int(random.choice([32, 64, 96, 128])), int(random.integers(17, 70))
    before, after = (int(random.integers(0, kernel)) for _ in range(2))
    left, right = (np.dtype(d) for d in random.choice(["int8", "uint8"], 2))

    def values(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, endpoint=True).astype(dtype)

    x = values((1, size, size, channels), left)
    b = Builder()
    v = input_value(b, x)
    pads = (0, before, before, 0), (0, after, after, 0)
    padded = b.add("pad", v, before=pads[0], after=pads[1], value=0.0) if before or after else v
    weights = b.constant(values((kernel, kernel, channels, outputs), right))
    y = b.add("conv_integer", padded, weights, strides=(stride, stride), dilations=(1, 1), groups=1)
    factors = [
        b.constant(n.astype(np.int32)) for n in (random.integers(1 << 30, (1 << 31) - 1, outputs), np.full(outputs, -9))
    ]
    y = b.add("fixed_multiply", y, *factors)
    limits = [b.constant(np.array(n, np.int32)) for n in (-128, 127)]
    y = b.add("minimum", b.add("maximum", y, limits[0]), limits[1])
    return Graph("conv", (v,), (b.add("cast", y, to="int8"),), tuple(b.nodes), ("y",)), x


def test_an_operand_that_is_computed_is_no_tile() -> None:
    x, w = placeholder("x", (40, 64), "uint8"), placeholder("w", (64, 40), "int8")
    k = reduce_axis("k", 64)
    more = compute("more", (40, 64), lambda i, j: E.binary("add", x[i, j], E.const(1, "uint8")))

    def product_of(i: Int, j: Int) -> E.Expr:
        return total(E.cast(more[i, k.var], "int32") * E.cast(w[k.var, j], "int32"), k)

    kernel = Kernel("computed", (x,), (w,), (compute("y", (40, 40), product_of),))
    schedule = propose(kernel, Context(load_target(NATIVE)))
    assert [s.arguments[-1] for s in schedule.steps if s.primitive == "tensorize"] == ["vpdpbusd.512"]
    assert finish(lower(schedule)).body


def image(size: int, kernel: int, channels: int, outputs: int) -> Kernel:
    """A convolution of an image with its padding."""
    whole = size + kernel - 1
    x, w = (
        placeholder("x", (whole, whole, channels), "uint8"),
        placeholder("w", (kernel, kernel, channels, outputs), "int8"),
    )
    axes = h, v, c = reduce_axis("kh", kernel), reduce_axis("kw", kernel), reduce_axis("ci", channels)

    def element(i: Int, j: Int, o: Int) -> E.Expr:
        left, right = x[i + h.var, j + v.var, c.var], w[h.var, v.var, c.var, o]
        return total(E.cast(left, "int32") * E.cast(right, "int32"), *axes)

    return Kernel("image", (x,), (w,), (compute("y", (size, size, outputs), element, axes=("h", "w", "o")),))


@pytest.mark.parametrize(("size", "lines"), [(3, 3), (7, 7), (12, 6), (33, 1)])
def test_tiles_walk_through_short_lines(size: int, lines: int) -> None:
    """A line of 7 places would leave more than half of a tile's rows idle; with the padding between them, seven lines
    are 61 places, which four tiles hold."""
    kernel = image(size, 3, 64, 20)
    schedule = propose(kernel, Context(load_target(NATIVE)))
    steps = [(s.primitive, *s.arguments) for s in schedule.steps]
    assert [s[-1] for s in steps if s[0] == "fuse" and len(s) == 4] == ([size + 2] if lines > 1 else [])
    assert ("split", "h", lines) in steps or lines == 1
    feeds = arrays(kernel, size)
    (weights,) = schedule.stored([feeds["w"]])
    memory = {"x": feeds["x"].reshape(-1), "w_packed": weights.reshape(-1), "y": np.zeros(size * size * 20, np.int32)}
    run_function(finish(lower(schedule)), memory)
    np.testing.assert_array_equal(memory["y"], run_kernel(kernel, feeds)["y"].reshape(-1))


def test_a_pitch_is_refused_where_something_would_be_written_beyond() -> None:
    kernel = image(7, 3, 64, 20)
    inner = Schedule(kernel).cache_write("y")
    for stage, pitch in (("y", 9), (inner, 6)):
        s = Schedule(kernel)
        s.cache_write("y")
        with pytest.raises(SternaError, match="E0302"):
            s.fuse(stage, "h", "w", pitch)


@pytest.mark.parametrize("generator", GENERATORS)
def test_convolutions(tiles: Tiles, generator: str, tmp_path: Path) -> None:
    target, random, multiplied = emulated_target(), np.random.default_rng(13), 0
    for n in range(8):
        graph, x = convolution(random)
        with sterna.load(write_bundle(compiled(graph, target, generator), tmp_path / f"bundle{n}"), 2) as bundle:
            check(bundle.run({"x": x}), interpret(graph, {"x": x}))
        multiplied += tiles.counted().multiplied
    assert multiplied or cpu_has("amx-int8") == 1


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize(("name", "least"), [("mlperf_tiny_resnet_int8", 500), ("mlperf_tiny_vww_int8", 200)])
def test_trained_models(tiles: Tiles, name: str, least: int, generator: str, tmp_path: Path) -> None:
    """Bit for bit what the reference kernels give, in tiles. Most channels of the second model are dropped."""
    model, target = trained(name), emulated_target()
    place = compile_to(tmp_path / "bundle", model.file, target, generator=generator)
    for threads in (1, 2):
        with sterna.load(place, threads) as bundle:
            for case in model.cases:
                for found, expected in zip(bundle.run(case.inputs).values(), case.outputs, strict=True):
                    np.testing.assert_array_equal(found, expected)
                counts = tiles.counted()
                assert counts.multiplied >= least or cpu_has("amx-int8") == 1


def test_a_machine_without_tiles_refuses_the_bundle(tmp_path: Path) -> None:
    if cpu_has("amx-int8") != 0:
        pytest.skip("this machine has tiles, or is of another family")
    kernel = product(64, 64, 256, "uint8")
    feeds = arrays(kernel, 0)
    target = load_target(NATIVE)
    made = compiled_schedule(propose(kernel, Context(target)), [feeds[p.name] for p in kernel.params], "llvm", target)
    with pytest.raises(SternaError, match="E0507") as caught:
        sterna.load(write_bundle(made, tmp_path / "bundle"))
    assert "amx-tile" in str(caught.value) or "avx512" in str(caught.value)


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_other_compilers_have_the_intrinsics(tiles: Tiles, compiler: str, tmp_path: Path) -> None:
    need(compiler, "it compiles kernels")
    graph, x = convolution(np.random.default_rng(14))
    made = compile_graph(graph, "small", Options(emulated_target(), compiler=compiler))
    with sterna.load(write_bundle(made, tmp_path / "bundle")) as bundle:
        check(bundle.run({"x": x}), interpret(graph, {"x": x}))
    assert tiles.counted().multiplied or cpu_has("amx-int8") == 1


def test_configuration_and_registers() -> None:
    """One configuration at the kernel's entry: every register has one shape, and the operands that are loaded take
    turns in all that are left."""
    kernel = product(32, 32, 128, "uint8")
    body = finish(lower(propose(kernel, Context(load_target(NATIVE))))).body
    assert isinstance(body, P.Tiles)
    assert len(body.shapes) == 8
    assert sum(isinstance(s, P.Tiles) for s in P.walk(body)) == 1
    assert sorted(set(body.registers.values())) == list(range(8))
    data = body.intrinsic.tiles.configuration(((16, 64), (3, 8)))
    assert len(data) == 64
    assert (data[0], data[16:20], data[48:50]) == (1, bytes([64, 0, 8, 0]), bytes([16, 3]))
    assert not any(data[20:48])
    assert not any(data[50:])


def test_steps_are_data() -> None:
    schedule = blocked(product(40, 40, 128, "int8"), 16, (2, 2), 64)
    again = saved.apply(schedule.kernel, saved.from_json(saved.to_json(schedule.steps)))
    assert again.steps == schedule.steps
    assert print_function(lower(again)) == print_function(lower(schedule))
    assert "pitch" in print_function(finish(lower(again)))


def without(schedule: Schedule, *primitives: str) -> Schedule:
    kept = [s for s in schedule.steps if s.primitive not in primitives]
    return saved.apply(schedule.kernel, kept)


def test_what_is_refused() -> None:
    kernel = product(40, 40, 128, "int8")
    schedule = blocked(kernel, 16, (2, 2), 64)
    with pytest.raises(SternaError, match="E0303"):
        lower(without(schedule, "pack"))
    last = next(s for s in schedule.steps if s.primitive == "tensorize")

    def changed(**arguments: str) -> None:
        names = dict(zip(("row", "lane", "word", "group", "intrinsic"), last.arguments, strict=True)) | arguments
        steps = [Step("tensorize", "acc", tuple(names.values())) if s is last else s for s in schedule.steps]
        saved.apply(kernel, steps)

    with pytest.raises(SternaError, match="innermost"):
        changed(row="j.i", lane="i.i")
    with pytest.raises(SternaError, match="does not compute"):
        changed(intrinsic="tdpbusd")
    with pytest.raises(SternaError, match="innermost"):
        changed(intrinsic="vpdpbusd.512")
    with pytest.raises(SternaError, match="does not have 16 iterations"):
        blocked(kernel, 17, (1, 1), 64)
    with pytest.raises(SternaError, match="does not have 16 iterations"):
        blocked(kernel, 16, (1, 1), 128)
    with pytest.raises(SternaError, match="E0304"):
        finish(lower(blocked(product(64, 64, 128, "int8"), 16, (3, 3), 64)))


def lesser(target: Target) -> Target:
    return replace(target, name="lesser", int_tile=())


def test_a_variant_without_tiles_is_refused() -> None:
    """The kernels of a bundle's variants run the schedules of its main target."""
    target = load_target(NATIVE)
    functions = [finish(lower(propose(product(64, 64, 256, "uint8"), Context(target))))]
    with pytest.raises(SternaError, match="E0203"):
        llvm.module_text(functions, lesser(target), "m", None)


def test_unknown_tiles_are_refused(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text(f'extends = "{NATIVE}"\nint_tile = ["vpdpbusd.512"]\n')
    with pytest.raises(SternaError, match="E0202"):
        load_target(str(tmp_path / "odd.toml"))


def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that says it has tiles."""
    everything = {name: True for _, needed in targets._LEVELS for name in needed}
    monkeypatch.setattr(targets.llvm, "get_host_cpu_features", lambda: everything)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    targets.host.cache_clear()


@pytest.mark.parametrize(("passed", "level"), [(True, NATIVE), (False, "x86-64-v4-bf16")])
def test_a_host_has_tiles_if_they_pass_their_test(monkeypatch: pytest.MonkeyPatch, passed: bool, level: str) -> None:
    asked = []

    def answer(name: str) -> bool:
        asked.append(name)
        return passed

    pretend(monkeypatch)
    monkeypatch.setattr(targets, "passes_self_test", answer)
    try:
        found = targets.host()
        assert (found.int_tile, found.llvm_features) == (load_target(level).int_tile, load_target(level).llvm_features)
        assert asked == [NATIVE]
    finally:
        targets.host.cache_clear()


def test_a_processor_that_only_says_so_falls_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The test is run, fails here, and its answer is kept."""
    if cpu_has("amx-int8") != 0:
        pytest.skip("this machine has tiles, or is of another family")
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path))
    pretend(monkeypatch)
    self_test.passes_self_test.cache_clear()
    try:
        assert targets.host().int_dot == load_target("x86-64-v4-vnni").int_dot
        assert not targets.host().int_tile
        assert [p for p in (tmp_path / "self-tests").glob("*/*") if p.read_bytes().endswith(b"failed")]
        self_test.passes_self_test.cache_clear()
        monkeypatch.setattr(self_test, "run_self_test", lambda _: pytest.fail("it is not run again"))
        assert not self_test.passes_self_test(NATIVE)
    finally:
        targets.host.cache_clear()
        self_test.passes_self_test.cache_clear()


def test_the_self_test(tiles: Tiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes where tiles are right, in another process too, and fails where they are not."""
    assert computes_products(emulated_target())
    assert tiles.counted().multiplied or cpu_has("amx-int8") == 1
    assert self_test.run_self_test("host")
    assert not self_test.run_self_test("no-such-target")
    monkeypatch.setattr(self_test, "SECONDS", 0.01)
    assert not self_test.run_self_test("host")
    with tiles.wrong():
        assert cpu_has("amx-int8") == 1 or not computes_products(emulated_target())
