"""Kernels whose tasks are run by several threads, by all that runs them here: the interpreter in random orders, OpenCL,
CUDA's and Metal's text over fibers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from sterna.ir.memory import Memory
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.threads import run_threads
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.te.interpreter import run_kernel
from support import opencl_host
from support.cuda_host import CUDA, Language, Program
from support.small_kernels import arrays

SHARED = Memory("shared", "block", bytes=32 << 10, address_space=3)


def brought(s: Schedule, name: str, reader: str, axis: str, across: int = 8) -> str:
    """Brings what an iteration of an axis of a stage reads of a tensor into shared memory, by `across` times `across`
    threads; the copy."""
    local = s.cache_read(name, reader)
    s.compute_at(local, reader, axis, SHARED)
    rest, x = s.split(local, s.fuse(local, "i0", "i1"), across)
    _, y = s.split(local, rest, across)
    s.bind(local, x, "thread.x")
    s.bind(local, y, "thread.y")
    return local


def memory_of(program: P.Function, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    given = {b.name: feeds[b.name].reshape(-1) for b in (*program.inputs, *program.params)}
    return given | {b.name: np.zeros(b.elements, b.dtype) for b in program.outputs}


def results(
    s: Schedule,
    device: opencl_host.Device | None,
    folder: Path | None = None,
    orders: int = 3,
    language: Language = CUDA,
    feeds: Mapping[str, np.ndarray] | None = None,
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The outputs, by the interpreter with the threads in several orders, by OpenCL, and by the text of another
    language in a folder; of `arrays`, or of other inputs."""
    again = saved.apply(s.kernel, saved.from_json(saved.to_json(s.steps)), memories=s.memories)
    program = finish(lower(again))
    feeds = dict(feeds or arrays(s.kernel))
    feeds |= {
        p.name: a for p, a in zip(program.params, s.stored([feeds[t.name] for t in s.kernel.params]), strict=True)
    }
    names = [out.name for out in program.outputs]
    for order in range(orders):
        memory = memory_of(program, feeds)
        run_threads(program, memory, order=np.random.default_rng(order) if order else None)
        yield f"order {order}", {name: memory[name] for name in names}
    if device is not None:
        memory = memory_of(program, feeds)
        device.run_function(program, memory)
        yield "opencl", {name: memory[name] for name in names}
    if folder is not None:
        compiled = Program.of(program, folder, language)
        for order in range(orders):
            memory = memory_of(program, feeds)
            compiled.run_function(program, memory, order)
            yield f"{language.target.name}, order {order}", {name: memory[name] for name in names}


def compare(
    s: Schedule,
    device: opencl_host.Device | None,
    folder: Path | None = None,
    tolerance: float = 1e-5,
    orders: int = 3,
    language: Language = CUDA,
    feeds: Mapping[str, np.ndarray] | None = None,
) -> None:
    """All agree with what the tensor expressions say."""
    wanted = run_kernel(s.kernel, dict(feeds or arrays(s.kernel)))
    for way, found in results(s, device, folder, orders, language, feeds):
        for name, want in wanted.items():
            np.testing.assert_allclose(
                found[name].reshape(want.shape), want, tolerance, tolerance, err_msg=f"{way}: {name}"
            )


def barriers(stmt: P.Stmt) -> int:
    return sum(isinstance(s, P.Barrier) for s in P.walk(stmt))


def threads(program: P.Function) -> int:
    """Of a task."""
    return int(np.prod(list(P.thread_counts(program.body).values())))
