"""What a kernel needs of the hardware beside arithmetic, and the refusal of a generator that cannot write it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod

from sterna.errors import Diagnostic, SternaError
from sterna.ir.memory import Memory
from sterna.loops import program as P
from sterna.te import expr as E


def refuse_unwritable(
    function: P.Function,
    language: str,
    threads: bool = False,
    fragments: int = 1,
    address_spaces: Collection[int] = (0,),
    lacks: Collection[str] = (),
    arguments: Collection[str] = ("int64",),
    subgroup: int = 1,
    last_tasks: bool = False,
) -> None:
    """Refuses a kernel that a language has no words for.

    Args:
        threads: whether the language has threads of a task, and barriers of them; fragments: how many of
            them may hold a tile together.
        address_spaces: that its pointers reach; lacks: types that its values cannot have; arguments: types in which a
            call may bring sizes.
        subgroup: threads whose registers reach one another.
        last_tasks: whether the last of several tasks can tell that it is, and see what the others wrote.

    Raises:
        SternaError: E0205, all that is missing.
    """
    missing = dict.fromkeys(_missing(function, threads, fragments, address_spaces, lacks))
    apart, block = P.exchanged(function.body), prod(P.thread_counts(function.body).values())
    if apart > subgroup:
        missing[f"exchanges among {apart} threads of a subgroup"] = None
    elif apart > 1 and block > subgroup and block % subgroup:
        missing[f"exchanges in a subgroup that is not full, of {block} threads by {subgroup}"] = None
    if not last_tasks and any(isinstance(s, P.LastTask) for s in P.walk(function.body)):
        missing["order between what tasks write to memory, for a last one of several"] = None
    if function.dims_type not in arguments:
        missing[f"arguments of type {function.dims_type}"] = None
    if missing:
        fix = "another generator or target, or a schedule without"
        title = f"kernel {function.name}: {language} has no"
        raise SternaError(Diagnostic("E0205", f"{title} {what}", (), fix) for what in missing)


def _missing(
    function: P.Function, threads: bool, fragments: int, address_spaces: Collection[int], lacks: Collection[str]
) -> Iterator[str]:
    if lacks:
        buffers = (*function.inputs, *function.params, *function.outputs)
        used = {b.dtype for b in buffers} | {d for s in P.walk(function.body) for d in _types(s)}
        yield from sorted(used.intersection(lacks))
    for s in P.walk(function.body):
        if not threads and isinstance(s, P.For) and s.kind in P.THREADS:
            yield f"threads of a task, over which the loop {s.symbol.name} runs"
        elif isinstance(s, P.Tiles) and s.intrinsic.tiles is not None and s.intrinsic.tiles.threads > fragments:
            yield f"fragments of matrices, which {s.intrinsic.name} multiplies"
        elif not threads and isinstance(s, P.Barrier) and s.reach == "block":
            yield "barrier of the threads of a task"
        elif isinstance(s, P.Alloc) and isinstance(s.buffer.scope, Memory):
            name, space = s.buffer.scope.name, s.buffer.scope.address_space
            if space not in address_spaces:
                yield f"address space {space}, where memory {name} holds {s.buffer.name}"


def _types(s: P.Stmt) -> Iterator[str]:
    """The types of a statement's values and storage."""
    if isinstance(s, P.Alloc):
        yield s.buffer.dtype
    values = [v for v in (P.value_of(s), *(e for i in P.positions_of(s) for e in i.expressions())) if v is not None]
    for value in values:
        for node in E.walk(value):
            yield node.dtype
            for index in E.positions(node):
                for computed in index.expressions():
                    yield from (inner.dtype for inner in E.walk(computed))
