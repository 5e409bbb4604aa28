"""Products and convolutions of bytes as the strategies propose them for 64-bit ARM, at shapes with every kind of tail:
the loop program computes what the kernel does. No machine needed: the interpreter runs it by the declarations."""

from __future__ import annotations

import numpy as np
import pytest

from sterna.ir.integer import Int
from sterna.loops.finish import Arithmetic, finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, KnownWeights, propose
from sterna.targets.description import load_target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support.dot_products import arrays

TARGETS = ("arm64", "arm64-dotprod", "arm64-i8mm")


def rounded(acc: E.Expr, bias: E.Expr, dtype: str) -> E.Expr:
    """The end of a layer between conversions."""
    scaled = E.cast(acc + bias, "float32") * E.const(0.013, "float32")
    return E.Nearest(dtype, a=scaled, zero=3 if dtype == "uint8" else -7)


def dense(m: int, n: int, depth: int, left: str, result: str) -> Kernel:
    x, w, b = placeholder("x", (m, depth), left), placeholder("w", (depth, n), "int8"), placeholder("b", (n,), "int32")
    k = reduce_axis("k", depth)
    acc = compute("acc", (m, n), lambda i, j: total(E.cast(x[i, k.var], "int32") * E.cast(w[k.var, j], "int32"), k))
    out = compute("out", (m, n), lambda i, j: rounded(acc[i, j], b[j], result))
    return Kernel("dense", (x,), (w, b), (out,))


def convolution(size: int, window: int, inputs: int, outputs: int, stride: int, left: str) -> Kernel:
    side = (size - window) // stride + 1
    x, w = placeholder("x", (size, size, inputs), left), placeholder("w", (window, window, inputs, outputs), "int8")
    b = placeholder("b", (outputs,), "int32")
    axes = h, v, c = reduce_axis("kh", window), reduce_axis("kw", window), reduce_axis("ci", inputs)

    def element(i: Int, j: Int, o: Int) -> E.Expr:
        factor = x[i * stride + h.var, j * stride + v.var, c.var]
        return total(E.cast(factor, "int32") * E.cast(w[h.var, v.var, c.var, o], "int32"), *axes)

    acc = compute("acc", (side, side, outputs), element)
    out = compute("out", acc.shape, lambda i, j, o: rounded(acc[i, j, o], b[o], "int8"))
    return Kernel("convolution", (x,), (w, b), (out,))


def check(kernel: Kernel, target: str, seed: int, symmetric: bool = True) -> Schedule:
    """Proposes a schedule and runs its loop program as lowered and as generators get it."""
    random = np.random.default_rng(seed)
    feeds = arrays(kernel, seed)
    if symmetric:
        feeds["w"] = np.maximum(feeds["w"], -127)
    feeds["b"] = random.integers(-9000, 9000, feeds["b"].shape).astype(np.int32)
    machine = load_target(target)
    schedule = propose(kernel, Context(machine, known=KnownWeights(frozenset({"w"} if symmetric else ()))))
    want = run_kernel(kernel, feeds)["out"]
    stored = schedule.stored([feeds[p.name] for p in kernel.params])
    lowered = lower(schedule)
    for program in (lowered, finish(lowered), finish(lowered, Arithmetic(load_target("arm64").rounded))):
        memory = {b.name: a.reshape(-1) for b, a in zip(program.params, stored, strict=True)}
        memory |= {"x": feeds["x"].reshape(-1), "out": np.zeros(want.size, want.dtype)}
        run_function(program, memory)
        np.testing.assert_array_equal(memory["out"], want.reshape(-1))
    return schedule


def instruction(schedule: Schedule) -> str:
    return next((str(s.arguments[-1]) for s in schedule.steps if s.primitive == "tensorize"), "")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("target", TARGETS)
def test_dense_layers(target: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    m, n, depth = (int(random.integers(1, high)) for high in (12, 40, 50))
    check(dense(m, n, depth, str(random.choice(["int8", "uint8"])), ["int8", "uint8"][seed % 2]), target, seed)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", TARGETS)
def test_convolutions(target: str, seed: int) -> None:
    random = np.random.default_rng(100 + seed)
    window, stride = int(random.integers(1, 4)), int(random.integers(1, 3))
    inputs, outputs, size = (int(random.integers(low, high)) for low, high in ((2, 20), (2, 28), (4, 9)))
    check(convolution(size, window, inputs, outputs, stride, str(random.choice(["int8", "uint8"]))), target, seed)


def test_each_level_has_its_instruction() -> None:
    kernel = dense(8, 32, 64, "int8", "int8")
    assert [instruction(check(kernel, target, 1)) for target in TARGETS] == ["smlal.128x2", "sdot.128", "smmla.128x2"]
    # One row has no pair of rows; few products leave the second half of the deeper one idle.
    assert instruction(check(dense(1, 32, 64, "int8", "int8"), "arm64-i8mm", 1)) == "sdot.128"
    assert instruction(check(dense(8, 32, 8, "uint8", "int8"), "arm64-i8mm", 1)) == "usmmla.128"


def test_two_products_of_the_least_number_do_not_fit_16_bits() -> None:
    """-128 by -128 twice is 2^15: without knowing the weights, pairs are not added up in 16 bits."""
    assert instruction(check(dense(8, 32, 64, "int8", "int8"), "arm64", 1, symmetric=False)) == ""


def test_steps_are_data() -> None:
    kernel = dense(7, 20, 40, "int8", "int8")
    for target in TARGETS:
        schedule = propose(kernel, Context(load_target(target), known=KnownWeights(frozenset({"w"}))))
        again = saved.apply(kernel, saved.from_json(saved.to_json(schedule.steps)))
        assert again.steps == schedule.steps
        assert print_function(lower(again)) == print_function(lower(schedule))
