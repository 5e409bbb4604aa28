"""A target as somebody might describe it who does not know its processor, and the kernels that are tuned for it."""

from __future__ import annotations

from dataclasses import replace

from sterna.driver import reading
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.options import Options
from sterna.targets.target import Target
from sterna.tuning.kernels import Task, tasks_of
from support.counted_kernels import KERNELS


def wrong(target: Target) -> Target:
    """The target with half its vector registers, vectors half as wide, and no caches."""
    registers, bits = target.vector_registers // 2, target.vector_bits // 2
    return replace(target, name="wrong", vector_registers=registers, vector_bits=bits, l1_bytes=0, l2_bytes=0)


def task_of(name: str, target: Target) -> Task:
    """Of `KERNELS`, the kernel of a model in which most is multiplied."""
    options = Options(target, "llvm")
    tasks, _ = tasks_of(read_model(Source.of(KERNELS[name]()), reading(options)), options)
    return max(tasks, key=lambda task: task.multiply_adds)
