"""What a processor does in a way of its own is what the operation means, with both generators, on every x86 level that
this machine runs; tests/targets has the others."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sterna.codegen.machine import find_idioms
from sterna.intrinsics.idioms import IDIOMS
from sterna.loops.finish import Arithmetic, finish
from sterna.passes import programs
from sterna.schedule.schedule import Schedule
from sterna.targets.description import host, load_target
from sterna.targets.features import features
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder
from support.compiling import run_schedule
from support.idioms import idioms_of, kernel_of

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("name", LEVELS)
def test_an_idiom_is_its_operation(name: str, generator: str) -> None:
    target = load_target(name)
    if not features(target) <= features(host()):
        pytest.skip("this processor lacks what the level has")
    schedule, feeds = kernel_of(target)
    found = run_schedule(schedule, feeds, (), generator, target=target)
    with np.errstate(all="ignore"):
        expected = run_kernel(schedule.kernel, feeds)
    for (output, want), idiom in zip(expected.items(), idioms_of(target), strict=True):
        np.testing.assert_array_equal(found[output], want, err_msg=f"{idiom.operation} of {idiom.dtype} x{idiom.lanes}")


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_a_machine_without_a_shift_that_rounds_computes_it(
    generator: str, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In programs that were made for one that has it, up to where the number and the half leave 32 bits."""
    assert not find_idioms(load_target("host"), "round_shift", "int32", lanes)
    shifts = np.tile(np.arange(32, dtype=np.int32), 64)
    most = (1 << 31) - 1 - ((np.int64(1) << shifts) >> 1)
    numbers = np.random.default_rng(1).integers(-(1 << 31), most, endpoint=True)
    ends = np.concatenate([most[:32], np.full(32, -(1 << 31)), np.zeros(32, np.int64), np.full(32, -1)])
    numbers[: len(ends)] = ends
    feeds = {"a": numbers.astype(np.int32), "b": shifts}
    a, b = (placeholder(name, array.shape, "int32") for name, array in feeds.items())
    kernel = Kernel("k", (a, b), (), (compute("y", a.shape, lambda i: E.binary("round_shift", a[i], b[i])),))
    schedule = Schedule(kernel)
    (axis,) = schedule.stages["y"].leaves
    schedule.split("y", axis, lanes)
    schedule.vectorize("y", f"{axis}.i")
    computed = Arithmetic(rounded=frozenset(("round_shift",)))
    monkeypatch.setattr(programs, "finish", lambda function, arithmetic: finish(function, computed))
    wanted = (numbers + ((np.int64(1) << shifts) >> 1)) >> shifts
    np.testing.assert_array_equal(run_kernel(kernel, feeds)["y"], wanted)
    np.testing.assert_array_equal(run_schedule(schedule, feeds, (), generator)["y"], wanted)


def test_declarations_are_whole() -> None:
    """Each is of an operation that there is, has a way for some generator, and names its operands and types right."""
    for idiom in IDIOMS:
        conversions = (f"to_{d}" for d in ("int32", "int64", "uint32", "uint64"))
        froms = (f"from_{d}" for d in ("int8", "uint8", "int32"))
        others = (*froms, "fma", "widen", "narrow", "nearest", "load_part", "load_front", *conversions)
        assert idiom.operation in (*E.UNARY, *E.BINARY, *others)
        assert idiom.c or idiom.llvm
        assert not idiom.llvm or idiom.llvm[-1].startswith("r = ")
        names = {name for text in (idiom.c, *idiom.c_before) for name in re.findall(r"\$(\w+)", text)}
        assert names <= {"a", "b", "c", "T", "S", "bytes", "lanes"}
        assert idiom.lanes or not idiom.parts


def test_a_target_has_those_of_its_features() -> None:
    def has(target: str, operation: str, dtype: str, lanes: int) -> bool:
        return bool(find_idioms(load_target(target), operation, dtype, lanes))

    assert has("x86-64-v4", "short_product", "int32", 16)
    assert not has("x86-64-v3", "short_product", "int32", 16)
    assert has("arm64", "high_product", "int32", 4)
    assert has("arm64", "high_product", "int32", 8)  # in parts
    assert not has("arm64", "high_product", "int32", 12)
    assert has("browser-relaxed", "fma", "float32", 8), "in two parts"
    assert not has("browser-relaxed", "fma", "float32", 12)
    assert not has("browser", "fma", "float32", 4)
    assert has("x86-64-v3", "widen", "float16", 8)
    assert not has("x86-64-v2", "widen", "float16", 4), "LLVM would call a function"
    assert has("cuda-sm90", "widen", "float16", 1)
    assert has("cuda-sm90", "narrow", "float16", 1)
    assert not has("cortex-m4", "maximum", "float32", 1)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
@pytest.mark.parametrize("name", LEVELS)
def test_parts_of_every_length(name: str, dtype: str) -> None:
    """What of a vector is left behind the last whole one, and what lies behind that is not read."""
    target = load_target(name)
    if not features(target) <= features(host()):
        pytest.skip("this processor lacks what the level has")
    lanes = 16 // np.dtype(dtype).itemsize
    x = placeholder("x", (3 * lanes,), dtype)
    outputs = tuple(compute(f"y{n}", (n,), lambda i, n=n: x[i + (3 * lanes - n)]) for n in range(lanes + 1, 2 * lanes))
    schedule = Schedule(Kernel("k", (x,), (), outputs))
    for output in outputs:
        (axis,) = schedule.stages[output.name].leaves
        schedule.split(output.name, axis, lanes)
        schedule.vectorize(output.name, f"{axis}.i")
    feeds = {"x": np.random.default_rng(0).integers(0, 100, 3 * lanes).astype(dtype)}
    found = run_schedule(schedule, feeds, (), "c", target=target)
    for output in outputs:
        np.testing.assert_array_equal(found[output.name], feeds["x"][-int(output.shape[0]) :])
