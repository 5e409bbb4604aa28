"""Random kernels of every family, compiled as the strategies propose and compared with the interpreter.

Each example is one graph of a single node (or a node and element-wise ones that fuse into it) of random shape and
attributes; several examples share a compilation by being outputs of one graph.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph, Value
from sterna.ir.memory import STACK
from sterna.loops import program as P
from sterna.ops import Builder
from sterna.passes.widen_halves import widen_halves
from sterna.schedule.strategies.register_tile import room, tile_shape
from sterna.schedule.strategies.tasks import even_group
from sterna.targets.description import host, load_target
from sterna.targets.target import Target
from sterna.toolchain.compilers import compiler_command
from support.compiling import build, check, compiled, input_value
from support.random_kernels import FAMILIES, Kernels, graph_of

TARGETS: dict[str, tuple[str, Target]] = {
    "c": ("c", host()),
    "llvm": ("llvm", host()),
    "narrow": ("llvm", replace(host(), vector_bits=128, vector_registers=16)),
    "by lane": ("llvm", replace(host(), vector_bits=128, vector_registers=32, by_lane=True, unrolled_products=192)),
    "plain": ("c", replace(host(), dialect="plain", vector_bits=0)),
    "shared": ("llvm", replace(host(), cores=4, share_cycles=1)),
}
EXAMPLES = {"c": 2, "llvm": 5, "narrow": 3, "by lane": 3, "plain": 1, "shared": 3}
#: More examples than the suite has time for, different ones in every run.
MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=pytest.mark.family("host-c" if TARGETS[k][0] == "c" else "host-llvm")) for k in TARGETS],
)
def test_compiled_equals_interpreted(kind: str, family: Callable[[Kernels], Value]) -> None:
    generator, target = TARGETS[kind]

    @settings(
        max_examples=EXAMPLES[kind] * MORE, deadline=None, derandomize=MORE == 1, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(st.data())
    def run(data: st.DataObject) -> None:
        graph, feeds = graph_of(data.draw, family, 3)
        expected = interpret(widen_halves(graph), feeds)  # Networks of halves are rounded where this pass says.
        with tempfile.TemporaryDirectory() as folder:
            for threads in (1, 2) if data.draw(st.booleans()) else (1,):
                with build(graph, Path(folder) / f"bundle{threads}", target, generator, threads) as bundle:
                    check(bundle.run(feeds), expected)

    run()


def test_where_no_load_repeats_an_element_a_tile_has_few_rows() -> None:
    """Each row then costs a shuffle a step, which takes as long as a multiply-add."""
    sizes = ((128,), 16, 576, 16, 1.0, 2.0, 4, (64, 8))
    assert tile_shape(*sizes)[:2] == (8, 1)
    assert tile_shape(*sizes, splat_loads=False)[:2] == (2, 4)
    assert not load_target("x86-64-v2").splat_loads
    assert load_target("x86-64-v3").splat_loads


def test_a_tile_has_more_sums_than_just_hide_the_latency_of_one() -> None:
    """Each of eight sums would have to begin in the very cycle in which its last product ends."""
    for rows in (49, 128, 196, 784):
        mr, nv, _ = tile_shape((rows,), 48, 384, 16, 2.0, 2.0, 8, (1 << 30, 48))
        assert mr * nv > 8


def test_tiles_fill_the_registers_where_compilers_keep_the_order_of_loads() -> None:
    """Twelve sums, three vectors and a repeated element are sixteen."""
    target = load_target("x86-64-v3")
    assert tile_shape((128,), 48, 384, room(target, "float32"), 2.0, 2.0, 8, (1 << 30, 48))[:2] == (4, 3)
    assert "-enable-misched=false" in compiler_command("zig", target, ordered=target.fills_registers)
    assert "-enable-misched=false" not in compiler_command("zig", target)
    wide = load_target("x86-64-v4")
    assert room(wide, "float32") == wide.registers("float32") == 32


def test_sums_that_wait_for_additions_alone_need_no_others() -> None:
    assert load_target("x86-64-v3").known_intrinsics["pmaddwd.256.u8"].latency == 1
    found = [tile_shape((9,), 4, 64, 12, 2.0, 2.0, 8, (9, 4), latency=cycles)[:2] for cycles in (1.0, 4.0)]
    assert found == [(3, 2), (9, 1)]


def test_tiles_whose_operands_are_loaded_first_fit_the_registers_with_them() -> None:
    """Ten sums, two vectors and five broadcast elements are more than the registers that V8 hands out; so are nine,
    three and three beside a product."""
    assert tile_shape((112,), 16, 576, 14, 1.5, 1.0, 4, (16, 16))[:2] == (5, 2)
    assert tile_shape((111,), 15, 576, 13, 1.5, 1.0, 4, (16, 16), together=15)[:2] == (3, 3)
    for rows in range(1, 60):
        for vectors in range(1, 20):
            mr, nv, _ = tile_shape((rows,), vectors, 576, 13, 1.5, 1.0, 4, (16, 16), together=15)
            assert mr * nv + mr + nv <= 15
    target = load_target("browser")
    assert tile_shape((112,), 16, 576, 13, 1.5, 1.0, 4, (16, 16), together=target.tile_registers)[:2] in (
        (4, 2),
        (2, 4),
    )


def test_of_one_row_registers_hold_sums_and_not_the_vectors_that_are_multiplied_once() -> None:
    assert tile_shape((1,), 64, 512, 16, 1.0, 2.0, 4, (1, 64))[:2] == (1, 8)
    for rows in range(1, 20):
        for vectors in range(1, 20):
            mr, nv, _ = tile_shape((rows,), vectors, 512, 16, 1.0, 2.0, 4, (rows, vectors))
            assert mr * nv + (nv if mr > 1 else 1) + 1 < 16


def test_bodies_of_a_tile_together_hold_the_products_that_a_target_says() -> None:
    """Partial tiles are code of their own: without a limit the fastest tile may have three of them."""
    assert tile_shape((6,), 8, 64, 24, 1.0, 1.0, 1, (6, 8))[:2] == (6, 3)
    for rows in range(1, 24):
        for vectors in range(1, 24):
            mr, nv, _ = tile_shape((rows,), vectors, 64, 24, 1.0, 1.0, 1, (24, 24), written=16)
            assert (mr + rows % mr) * (nv + vectors % nv) <= 16 or mr == nv == 1
    assert tile_shape((6,), 8, 64, 24, 1.0, 1.0, 1, (6, 8), written=16)[:2] in ((6, 2), (3, 4), (2, 8))


@pytest.mark.parametrize("function", ["sigmoid", "relu"])
@pytest.mark.parametrize(("name", "loops"), [("arm64", True), ("browser", False)])
def test_elementary_functions_follow_a_tile_in_a_loop_over_its_rows(function: str, name: str, loops: bool) -> None:
    """Their constants stay in registers there, where a target has enough of them; cheap ones are written out."""
    b = Builder()
    x = input_value(b, np.ones((64, 32), np.float32))
    w = b.constant(np.ones((32, 64), np.float32))
    y = b.add(function, b.add("matmul", x, w), name="y")
    (kernel,) = compiled(Graph("g", (x,), (y,), tuple(b.nodes), ("y",)), name).kernels
    loaded = [load.tensor for s in P.walk(kernel.function.body) for load in P.own_loads(s)]
    assert any(t.scope is STACK for t in loaded if isinstance(t, P.Buffer)) == (loops and function == "sigmoid")


def test_tiles_share_what_does_not_stay_in_l2() -> None:
    """Three rows keep the multipliers as busy as nine, but read a panel of 1.2 MB three times as often."""
    deep, flat = (
        tile_shape((198,), 3, depth, 32, 2.0, 2.0, 16, (1 << 30, 3), l2_bytes=1 << 20)[:2] for depth in (6144, 64)
    )
    assert deep == flat == (9, 3)


@pytest.mark.parametrize(
    ("n", "tasks", "cores", "group"),
    [(14, 8, 2, 1), (112, 32, 2, 4), (32, 32, 4, 1), (7, 7, 2, 1), (9, 4, 2, 1), (13, 4, 2, 1), (1, 8, 2, 1)],
)
def test_tasks_divide_evenly_among_cores(n: int, tasks: int, cores: int, group: int) -> None:
    assert even_group(n, tasks, cores) == group
