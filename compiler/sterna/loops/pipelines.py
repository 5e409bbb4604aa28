"""Loops whose iterations bring what later ones read while they compute: software pipelines over several buffers.

    bring 0 ... depth - 2                     each into a slot of its own
    for n < count
      wait for what was brought for n
      bring n + depth - 1                     into the slot that n - 1 has read, if there are so many iterations
      compute n

What an iteration fills before it computes is brought `depth - 1` iterations earlier. Its buffers are rings of `depth`
slots, n % depth the slot of iteration n: the loop is written once, however deep the pipeline is, and one barrier an
iteration is enough. Whoever asks which elements meet, as barriers and the verifier do, tells slots apart by what n
leaves divided by `depth` (`loops.residues`).

Asynchronous copies of an iteration are a batch, of which the last `depth` - 2 may go on while one computes. What
threads bring by loads they load into registers before the iteration computes, and store behind it: a thread that stores
waits for what it has loaded, and would compute nothing meanwhile.

A product of what lies in memory goes on while the next iteration begins, behind which it has ended (`P.Settle`). So its
slot is free an iteration later, and what is brought is so `depth - 2` iterations earlier: with fewer than four slots
that would be too late, and each product is waited for.

With one slot there is nothing but these registers: threads store when all of them have computed, a barrier more for
each iteration. The memory of a second slot can hold twice as long an iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from sterna.ir.integer import ONE, ZERO, Int, Symbol, as_int, of
from sterna.ir.memory import REGISTER
from sterna.ir.threads import THREADS
from sterna.loops import program as P
from sterna.loops.copies import is_to_wait_for
from sterna.loops.unroll import Copies
from sterna.te import expr as E

#: Elements that a thread has in registers on their way to a buffer, at most.
MOST_ON_THE_WAY = 16
#: Slots from which on a product goes on.
LEAST_SLOTS = 4


class UnpipelinedError(Exception):
    """A loop that cannot be pipelined, and why."""


@dataclass(frozen=True)
class Ring:
    """A buffer of several slots, so many elements each."""

    buffer: P.Buffer
    each: int


def pipelined(
    loop: P.For,
    depth: int,
    rings: Callable[[Sequence[P.Buffer], int], Sequence[Ring]],
    group: int,
    unique: Callable[[str], str],
) -> P.Stmt:
    """A serial loop as a pipeline.

    Args:
        depth: slots for each buffer that an iteration fills and reads; no more than there are iterations. Of one, what
            the next iteration reads is in registers while this one computes.
        rings: makes them of buffers, with so many slots.
        group: of what is copied asynchronously; no other copy has it. unique: gives a name that nothing else has.

    Raises:
        UnpipelinedError: it brings nothing, or its length is not known.
    """
    if not loop.extent.is_const or loop.start != ZERO:
        raise UnpipelinedError("its number of iterations is not constant")
    count = int(loop.extent)
    if count < 2:
        return loop
    depth = min(depth, count)
    bring, compute, filled = _parts(loop.body)
    load, store, registers = _on_the_way(bring, unique)
    if depth == 1 and any(P.written(s) in filled for s in P.walk(load)):
        return loop  # more than there are registers for
    slots = dict(zip(filled, rings(filled, depth), strict=True))
    copies, settled = any(is_to_wait_for(c) for c in P.walk(bring)), depth >= LEAST_SLOTS and _products(compute) == 1
    ahead = max(1, depth - 1 - settled)
    names: dict[str, int] = {}

    def at(part: P.Stmt, n: Int) -> P.Stmt:
        """A part of an iteration, in its slot."""
        behind = {b: n % depth * ring.each for b, ring in slots.items()}
        made = Copies({loop.symbol: n}, {b: r.buffer for b, r in slots.items()}, {}, names, {}, behind).stmt(part)
        return _in_group(made, group)

    def while_there_are(n: Int, part: P.Stmt) -> Sequence[P.Stmt]:
        return [P.If(n, as_int(count), at(part, n))] if P.members(part) else []

    batch = [P.Commit(group)] if copies else []
    first = Symbol(unique(f"{loop.symbol.name}_first"), 0, ahead - 1)
    n = of(loop.symbol)
    begin = P.seq(at(bring, of(first)), *batch)
    body = [
        *([P.Wait(group, in_flight=ahead - 1)] if copies else []),
        *while_there_are(n + ahead, load),
        *batch,
        at(compute, n),
        *([P.Settle(in_flight=1)] if settled else []),
        *while_there_are(n + ahead, store),
    ]
    return P.seq(
        *(P.Alloc(ring.buffer) for ring in slots.values()),
        *(P.Alloc(b) for b in registers),
        # Written once, too.
        P.For(first, as_int(ahead), "serial", begin, rolled=True) if ahead > 1 else begin,
        loop.changed(body=P.seq(*body)),
        *([P.Settle()] if settled else []),
    )


def _products(compute: P.Stmt) -> int:
    """How many products of what lies in memory there are of each thread."""
    if isinstance(compute, P.For) and compute.kind not in THREADS:
        extent = compute.extent - compute.start
        return _products(compute.body) * (int(extent) if extent.is_const else 2)
    own = (value := P.value_of(compute)) is not None and P.is_product_in_memory(value)
    return own + sum(map(_products, P.children(compute)))


def _parts(body: P.Stmt) -> tuple[P.Stmt, P.Stmt, Sequence[P.Buffer]]:
    """What of an iteration brings, what computes, and the buffers between both.

    Raises:
        UnpipelinedError: nothing is brought, or what is brought depends on what the loop computes.
    """
    members = P.members(body)
    own = [s.buffer for s in members if isinstance(s, P.Alloc) and s.buffer.scope.has_offsets]
    written = {buffer for s in P.walk(body) if (buffer := P.written(s)) is not None}
    bring: list[P.Stmt] = []
    compute: list[P.Stmt] = []
    for s in members:
        if isinstance(s, P.LetIndex):
            bring.append(s)
            compute.append(s)
        elif isinstance(s, P.Alloc) and s.buffer in own:
            continue
        elif not _computes(s, own, written):
            bring.append(s)
        else:
            compute.append(s)
    filled = [b for b in own if any(P.written(s) is b for each in bring for s in P.walk(each))]
    if not filled:
        raise UnpipelinedError("no stage that lies in a memory is computed in it, from what is there already")
    if any(P.written(s) in filled for each in compute for s in P.walk(each)):
        raise UnpipelinedError("what it brings is changed while it computes")
    kept = [P.Alloc(b) for b in own if b not in filled]
    return P.seq(*bring), P.seq(*kept, *compute), filled


def _on_the_way(bring: P.Stmt, unique: Callable[[str], str]) -> tuple[P.Stmt, P.Stmt, list[P.Buffer]]:
    """What brings as two parts, loads into registers first, and the stores of those; and the registers."""
    first: list[P.Stmt] = []
    then: list[P.Stmt] = []
    registers: list[P.Buffer] = []
    for s in P.members(bring):
        store = _only_store(s)
        loops = [loop for loop in P.walk(s) if isinstance(loop, P.For) and loop.kind not in THREADS]
        many = prod(int(loop.extent) if loop.extent.is_const else MOST_ON_THE_WAY + 1 for loop in loops)
        if store is None or many > MOST_ON_THE_WAY or any(loop.start != ZERO for loop in loops):
            first.append(s)
            then += [s] if isinstance(s, P.LetIndex) else []
            continue
        own = P.Buffer(unique(f"{store.buffer.name}_next"), store.value.dtype, (as_int(many),), (ONE,), many, REGISTER)
        place = ZERO
        for loop in loops:
            place = place * loop.extent + of(loop.symbol)
        registers.append(own)
        nest = _threads_outside(s)
        first.append(_with_store(nest, P.Store(own, place, store.value)))
        then.append(_with_store(nest, replace(store, value=E.Load(own.dtype, tensor=own, indices=(place,)))))
    return P.seq(*first), P.seq(*then), registers


def _threads_outside(s: P.Stmt) -> P.Stmt:
    """A nest of loops that wait for nothing with those over threads outermost, so that what is written out for each
    element of a thread stands in one of them."""
    threads, others, inner = list[P.For](), list[P.For](), s
    while isinstance(inner, P.For):
        (threads if inner.kind in THREADS else others).append(inner)
        inner = inner.body
    for loop in reversed((*threads, *others)):
        inner = loop.changed(body=inner)
    return inner


def _only_store(s: P.Stmt) -> P.Store | None:
    """The store of elements in a nest that threads share and that does nothing else."""
    inner = [*P.walk(s)]
    stores = [each for each in inner if isinstance(each, P.Store)]
    plain = all(
        isinstance(each, (P.For, P.LetIndex, P.Seq, P.Store)) or (isinstance(each, P.If) and each.otherwise is None)
        for each in inner
    )
    shared = any(isinstance(each, P.For) and each.kind in THREADS for each in inner)
    return stores[0] if plain and shared and len(stores) == 1 and not stores[0].rows else None


def _with_store(s: P.Stmt, store: P.Store) -> P.Stmt:
    """A nest around another store, whose loops are written out but for those over threads and lanes."""
    if isinstance(s, P.Store):
        return store
    done = P.map_children(s, lambda inner: _with_store(inner, store))
    return done.changed(kind="unrolled") if isinstance(done, P.For) and done.kind == "serial" else done


def _computes(s: P.Stmt, own: Sequence[P.Buffer], written: set[P.Buffer]) -> bool:
    """Whether a statement does more than fill buffers of the iteration from what the loop leaves alone."""
    fills = {buffer for inner in P.walk(s) if (buffer := P.written(inner)) is not None}
    named = any(isinstance(inner, (P.Let, P.Declare, P.Assign, P.Alloc, P.Require)) for inner in P.walk(s))
    reads = {buffer for inner in P.walk(s) for buffer in P.touched(inner)} - fills
    return named or not fills or not fills <= {*own} or not reads.isdisjoint(written)


def _in_group(stmt: P.Stmt, group: int) -> P.Stmt:
    """A statement whose asynchronous copies, which nobody waits for yet, are of one group."""
    if is_to_wait_for(stmt):
        return replace(stmt, group=group)
    return P.map_children(stmt, lambda s: _in_group(s, group))
