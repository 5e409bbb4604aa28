"""Kernels for groups of threads whose sizes are open: their programs, and what these compute for certain sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sterna.ir.integer import Symbol
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.threads import run_threads
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.target import Threads
from sterna.te.tensor import Kernel
from support import opencl_host


def program_of(kernel: Kernel, threads: Threads) -> P.Function:
    """The program by the rules for so many threads."""
    target = replace(opencl_host.opencl_target(groups=True), threads=threads)
    return finish(lower(propose(kernel, Context(target))))


def computed(program: P.Function, sizes: Mapping[str, int], shape: tuple[int, ...], **arrays: np.ndarray) -> np.ndarray:
    """The only output for sizes by their names, of threads in a random order. There is room for the greatest sizes;
    what lies beyond those of a run is no number, and stays so."""
    memory = {b.name: np.full(b.elements, np.nan, b.dtype) for b in (*program.inputs, *program.outputs)}
    for name, a in arrays.items():
        memory[name][: a.size] = a.reshape(-1)
    numbers = (program.n_tasks, *(n for b in program.inputs for n in (*b.strides, *b.shape)))
    dims = {a for n in numbers for a in n.symbols() if isinstance(a, Symbol)}
    run_threads(program, memory, {d: sizes[d.name] for d in dims}, order=np.random.default_rng(3))
    elements = int(np.prod(shape))
    (found,) = (memory[b.name] for b in program.outputs)
    assert np.isnan(found[elements:]).all()
    return found[:elements].reshape(shape)
