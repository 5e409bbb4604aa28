"""Hardware intrinsics: every lowering computes what its declaration says, and `tensorize` uses them rightly."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.intrinsics import DOTS, INTRINSICS
from sterna.ir.integer import Int
from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.schedule import saved
from sterna.schedule.decisions import Step
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import host, load_target, target_names
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from sterna.toolchain.compilers import compile_c, find_program
from support.compiling import compiled_schedule, run_schedule
from support.dot_products import arrays, product, tiled

#: Targets of this kind of machine that name intrinsics, narrower ones than this machine's included.
FAMILY = "x86_64" if platform.machine() in ("x86_64", "AMD64") else "aarch64"


def able() -> Iterator[tuple[Target, str]]:
    """Targets whose code this machine runs, with each intrinsic that they name."""
    here = set(host().cpu_features)
    for name in target_names():
        target = load_target(name)
        if target.triple.startswith(FAMILY) and set(target.cpu_features) <= here:
            for intrinsic in target.int_dot:
                yield target, intrinsic


ABLE = [pytest.param(t, i, id=f"{t.name}-{i}") for t, i in able()]


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(("target", "name"), ABLE)
def test_a_lowering_computes_its_behaviour(target: Target, name: str, generator: str) -> None:
    """Every byte in every place: extreme values, whole groups and lanes and all their tails."""
    intrinsic = INTRINSICS[name]
    for seed, (m, n, depth) in enumerate([(5, 3 * intrinsic.lanes + 1, 37), (2, 64, 256), (1, 1, 1)]):
        for left in dict.fromkeys((intrinsic.operands[0], "int8", "uint8")):
            kernel = product(m, n, depth, left)
            feeds = arrays(kernel, seed, intrinsic)
            schedule = tiled(kernel, intrinsic)
            found = run_schedule(
                schedule, {"x": feeds["x"]}, [feeds[p.name] for p in kernel.params], generator, target=target
            )
            np.testing.assert_array_equal(found["out"], run_kernel(kernel, feeds)["out"])


@pytest.mark.parametrize("generator", ["c", "llvm", "plain"])
@pytest.mark.parametrize("name", ["vpdpbusd.512", "pmaddwd.128.s8", "usdot.128", "smlal.128", "smmla.128x2"])
def test_a_machine_without_it_computes_the_behaviour(name: str, generator: str) -> None:
    """What a bundle's variants for lesser machines do, and plain C."""
    intrinsic = INTRINSICS[name]
    target = replace(host(), int_dot=(), **({"dialect": "plain", "vector_bits": 0} if generator == "plain" else {}))
    kernel = product(3, intrinsic.lanes + 1, 7, "int8")
    feeds = arrays(kernel, 3)
    found = run_schedule(
        tiled(kernel, intrinsic), {"x": feeds["x"]}, [feeds[p.name] for p in kernel.params],
        generator.replace("plain", "c"), target=target,
    )  # fmt: skip
    np.testing.assert_array_equal(found["out"], run_kernel(kernel, feeds)["out"])


@pytest.mark.parametrize("name", DOTS)
def test_the_loop_interpreter_runs_behaviours(name: str) -> None:
    """No machine needed: the loop program, its vectors and its tails, by the declaration."""
    intrinsic = INTRINSICS[name]
    for left in ("int8", "uint8") if intrinsic.couples == 1 else ("int8",):
        kernel = product(3, intrinsic.lanes + 3, 10 if intrinsic.couples > 1 else 9, left)
        feeds = arrays(kernel, 1, intrinsic)
        schedule = tiled(kernel, intrinsic)
        function = lower(schedule)
        stored = schedule.stored([feeds[p.name] for p in kernel.params])
        for program in (function, finish(function)):
            memory = {b.name: a.reshape(-1) for b, a in zip(program.params, stored, strict=True)}
            memory |= {"x": feeds["x"].reshape(-1), "out": np.zeros(3 * (intrinsic.lanes + 3), np.int32)}
            run_function(program, memory)
            np.testing.assert_array_equal(memory["out"], run_kernel(kernel, feeds)["out"].reshape(-1))
        assert name in print_function(function)


def test_steps_are_data() -> None:
    intrinsic = INTRINSICS["vpdpbusd.512"]
    kernel = product(4, 20, 10, "int8")
    schedule = tiled(kernel, intrinsic)
    assert Step("tensorize", "acc", ("j.i", "k.i", "vpdpbusd.512")) in schedule.steps
    again = saved.apply(kernel, saved.from_json(saved.to_json(schedule.steps)))
    assert again.steps == schedule.steps
    assert print_function(lower(again)) == print_function(lower(schedule))


def refusal(kernel: Kernel, *steps: Step) -> str:
    with pytest.raises(SternaError) as caught:
        saved.apply(kernel, steps)
    (problem,) = caught.value.diagnostics
    assert problem.code == "E0302"
    return problem.title


SPLITS = (
    Step("split", "acc", ("j", 16)),
    Step("split", "acc", ("k", 4)),
    Step("reorder", "acc", ("j.o", "k.o", "j.i", "k.i")),
)


def test_what_tensorize_refuses() -> None:
    kernel = product(4, 32, 16, "uint8")
    step = Step("tensorize", "acc", ("j.i", "k.i", "vpdpbusd.512"))
    assert "no intrinsic" in refusal(kernel, *SPLITS, Step("tensorize", "acc", ("j.i", "k.i", "none")))
    assert "innermost" in refusal(kernel, *SPLITS[:2], step)
    assert "does not have 16 iterations" in refusal(kernel, Step("split", "acc", ("j", 8)), *SPLITS[1:], step)
    assert "does not compute" in refusal(product(4, 32, 16, "int8"), *SPLITS, step)
    assert "does not compute" in refusal(product(4, 32, 16, "uint8", "uint8"), *SPLITS, step)
    assert saved.apply(kernel, (*SPLITS, step)).stages["acc"].tensorized is not None


def test_what_offset_refuses() -> None:
    kernel = product(4, 32, 16, "int8")
    assert "not one factor" in refusal(kernel, Step("offset", "acc", ("b",)))
    assert "not a sum of products" in refusal(kernel, Step("offset", "out", ("x",)))
    free = Kernel("free", (*kernel.inputs, kernel.params[0]), kernel.params[1:], kernel.outputs)
    assert "not a constant" in refusal(free, Step("offset", "acc", ("x",)))
    alone = Kernel("alone", kernel.inputs, kernel.params[:1], (kernel.tensor("acc"),))
    assert "no reader" in refusal(alone, Step("offset", "acc", ("x",)))


def test_an_operand_must_lie_as_a_vector_wants_it() -> None:
    """Weights that are not packed have the lanes of one element of the group side by side, not the group."""
    schedule = tiled(product(4, 32, 16, "uint8"), INTRINSICS["vpdpbusd.512"])
    unpacked = saved.apply(schedule.kernel, schedule.steps[:-1])
    with pytest.raises(SternaError, match="E0303"):
        lower(unpacked)


def test_strategies_take_what_the_target_has() -> None:
    target = load_target("x86-64-v4-vnni")
    for left in ("int8", "uint8"):
        kernel = product(64, 64, 64, left)
        chosen = [s.primitive for s in propose(kernel, Context(target)).steps]
        assert "tensorize" in chosen
        assert ("offset" in chosen) == (left == "int8")
        without = propose(kernel, Context(replace(target, int_dot=())))
        assert "tensorize" not in [s.primitive for s in without.steps]


def test_few_columns_take_a_narrow_intrinsic() -> None:
    """Lanes beyond the last column would compute nothing."""
    target = load_target("x86-64-v4-vnni")
    for columns, name in ((5, "vpdpbusd.256"), (8, "vpdpbusd.256"), (9, "vpdpbusd.512"), (40, "vpdpbusd.512")):
        steps = propose(product(64, columns, 64, "uint8"), Context(target)).steps
        assert [s.arguments[-1] for s in steps if s.primitive == "tensorize"] == [name]


@pytest.mark.parametrize(("rows", "scaled", "shared"), [(125, True, True), (125, False, False), (16, True, False)])
def test_short_sums_are_shared_for_what_is_made_of_them(rows: int, scaled: bool, shared: bool) -> None:
    """To make bytes of short sums takes as long as the sums: the network of key words on two cores."""
    kernel = product(rows, 64, 64, "uint8")
    if not scaled:
        kernel = Kernel("sums", kernel.inputs, kernel.params[:1], kernel.stages[:1])
    steps = propose(kernel, Context(replace(load_target("x86-64-v4-vnni"), cores=2))).steps
    assert any(s.primitive == "parallel" for s in steps) == shared


@pytest.mark.parametrize(("dtype", "shared"), [("int8", True), ("uint8", False)])
def test_a_window_is_innermost_where_activations_are_flipped(dtype: str, shared: bool) -> None:
    """Then neighbouring rows of the tile share what is repeated in all lanes and flipped."""
    x, w = placeholder("x", (10, 10, 16), dtype), placeholder("w", (3, 3, 16, 16), "int8")
    axes = h, v, c = reduce_axis("h", 3), reduce_axis("v", 3), reduce_axis("c", 16)

    def element(i: Int, j: Int, o: Int) -> E.Expr:
        left, right = x[i + h.var, j + v.var, c.var], w[h.var, v.var, c.var, o]
        return total(E.cast(left, "int32") * E.cast(right, "int32"), *axes)

    kernel = Kernel("conv", (x,), (w,), (compute("y", (8, 8, 16), element),))
    schedule = propose(kernel, Context(load_target("x86-64-v4-vnni")))
    (acc,) = (state for state in schedule.stages.values() if state.tensorized is not None)
    before, after = ("v", "c.o")[:: -1 if shared else 1]
    assert acc.leaves.index(before) < acc.leaves.index(after)
    feeds = arrays(kernel, 2)
    found = run_schedule(schedule, {"x": feeds["x"]}, [feeds["w"]], "llvm", target=replace(host(), int_dot=()))
    np.testing.assert_array_equal(found["y"], run_kernel(kernel, feeds)["y"])


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_other_compilers_have_the_builtins(compiler: str) -> None:
    if find_program(compiler) is None or FAMILY != "x86_64":
        pytest.skip(f"no {compiler} for x86-64 here")
    target = load_target("x86-64-v4-vnni")
    kernel = product(4, 32, 16, "uint8")
    feeds = arrays(kernel, 0)
    made = compiled_schedule(
        tiled(kernel, INTRINSICS["vpdpbusd.512"]), [feeds[p.name] for p in kernel.params], "llvm", target
    )
    assert compile_c(made.source, target, compiler)
