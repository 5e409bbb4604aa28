"""Kernels whose operands and results go through a memory of the target, compiled and run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sterna.codegen import llvm
from sterna.codegen.generators import KernelSet, source
from sterna.errors import SternaError
from sterna.ir.memory import Memory
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.targets.description import load_target
from support.small_kernels import matmul, run
from support.thread_programs import function, load, over_threads

PAD = Memory("pad", "block", bytes=1 << 16)


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_generators_copy(generator: str, asynchronous: bool) -> None:
    s = Schedule(matmul(10, 24, 16), memories=(PAD,))
    inner = s.cache_write("out")
    outer, _ = s.split("out", "i", 4)
    s.compute_at(inner, "out", outer, PAD)
    s.compute_at("acc", inner, "i", PAD)
    for name in ("x", "w"):
        s.compute_at(s.cache_read(name, "acc"), "out", outer, PAD)
        s.transfer(f"{name}_local", asynchronous)
    s.split("acc", "j", 8)
    s.reorder("acc", "k", "j.o", "j.i")
    s.vectorize("acc", "j.i")
    s.transfer("out", asynchronous)
    run(s, generator)


def in_words(program: P.Function, generator: str) -> str:
    kernels = KernelSet("small", [program], [()])
    if generator == "llvm":
        return llvm.module_text([program], load_target("x86-64-v3"), "small", None)
    return source(kernels, replace(load_target("c99"), dialect=generator))


@pytest.mark.parametrize(("generator", "space"), [("plain", 3), ("opencl", 5), ("llvm", 3)])
def test_a_generator_refuses_what_it_has_no_words_for(generator: str, space: int) -> None:
    """Memories in address spaces of their own, and threads of a task."""
    far = Memory("far", "block", bytes=1 << 16, address_space=space)
    s = Schedule(matmul(8, 4, 4), memories=(far,))
    s.compute_at("acc", "out", "i", far)
    with pytest.raises(SternaError, match=f"no address space {space}, where memory far holds acc") as caught:
        in_words(finish(lower(s)), generator)
    assert caught.value.codes == ("E0205",)
    if generator == "opencl":
        return
    threads = function(8, lambda x, y, first: over_threads(8, lambda t: P.Store(y, first + t, load(x, first + t))))
    with pytest.raises(SternaError) as caught:
        in_words(threads, generator)
    assert set(caught.value.codes) == {"E0205"}
