"""Weights as the kernels read them, and what states hold first: the contents of params.bin."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import numpy as np

from sterna.errors import error
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph
from sterna.ir.limits import check_constants, forget, memory_of
from sterna.passes.context import PassContext
from sterna.passes.kernels import Call
from sterna.passes.stages import Finished, Packed, Planned
from sterna.schedule.schedule import Schedule
from sterna_runtime.abi import ALIGNMENT, aligned
from sterna_runtime.advice import Advice, Option


def pack(finished: Finished, context: PassContext) -> Packed:
    """The contents of params.bin, and where everything lies there."""
    contents = BytesIO()
    params_at = pack_params(
        finished.sequence.calls, finished.kernels, finished.kernel_of, contents, context.target.alignment
    )
    states_at = pack_states(finished.graph, contents, context.target.alignment)
    # That is the very memory that was written to, so the weights are there once.
    return Packed(**vars(finished), params=contents.getvalue(), params_at=params_at, states_at=states_at)


def pack_params(
    calls: Sequence[Call],
    kernels: Sequence[Planned],
    kernel_of: Sequence[int],
    out: BytesIO,
    alignment: int = ALIGNMENT,
) -> tuple[tuple[int, int], ...]:
    """Writes the weights as the kernels read them, one aligned block per call, equal blocks once; where each lies.

    Kernels that differ, as those of a layer's patches do, may read the same constants in the same order: what comes out
    the same is one block.

    Weights that lie in files leave memory once they are written: at any time it holds what is written, and one weight.
    """
    _check_params(calls, kernels, kernel_of)
    blocks: dict[tuple[object, ...], tuple[int, int]] = {}
    of_constants: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    where: list[tuple[int, int]] = []
    overflowing: list[Call] = []
    for call, k in zip(calls, kernel_of, strict=True):
        if not call.constants:
            where.append((0, 0))
            continue
        constants = tuple(_identity(a) for a in call.constants)
        identity = (k, constants)
        if identity not in blocks:
            schedule = kernels[k].schedule
            start = out.tell()
            stored = schedule.stored(call.constants) if schedule else call.constants
            if schedule and not _kept_finite(schedule, call, stored):
                overflowing.append(call)
            for array, buffer in zip(stored, kernels[k].function.params, strict=True):
                out.write(b"\0" * (start + buffer.slot - out.tell()))
                _write(out, array, alignment)
            alike = of_constants.setdefault(constants, [])
            blocks[identity] = _written_once(out, start, alike)
            for array in call.constants:
                forget(array)
        where.append(blocks[identity])
    if overflowing:
        names = [f"of {', '.join(call.sources) or call.name}" for call in overflowing]
        fix = Advice(Option("weights", "bf16"), ", which has the range of float32")
        raise error("E0115", "weights are too large for 16 bits of this kind:", *names, fix=fix)
    return tuple(where)


def _written_once(out: BytesIO, start: int, alike: list[tuple[int, int]]) -> tuple[int, int]:
    """Where a block lies that was written last: of those that it may be equal to the first that it is, whose bytes it
    then gives up its own for; it joins them otherwise."""
    contents, size = out.getbuffer(), out.tell() - start
    try:
        own = contents[start : start + size]
        same = next((each for each in alike if each[1] == size and contents[each[0] : each[0] + size] == own), None)
        own.release()
    finally:
        contents.release()
    if same is not None:
        out.seek(start)
        out.truncate()
        return same
    alike.append((start, size))
    return start, size


def _write(out: BytesIO, array: Array, alignment: int) -> None:
    """The elements, then zeros up to where the next ones may begin."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    out.write(data)
    out.write(b"\0" * (aligned(len(data), alignment) - len(data)))


def _check_params(calls: Sequence[Call], kernels: Sequence[Planned], kernel_of: Sequence[int]) -> None:
    """Refuses weights that take far more memory as the kernels read them than the model's constants do.

    Raises:
        SternaError: E0116.
    """
    given: dict[tuple[object, ...], int] = {}
    written: dict[tuple[object, ...], int] = {}
    for call, k in zip(calls, kernel_of, strict=True):
        if call.constants:
            given |= {_identity(array): memory_of(array) for array in call.constants}
            params = kernels[k].function.params
            size = max((b.slot + b.elements * dtypes.size(b.dtype) for b in params), default=0)
            written[k, tuple(map(_identity, call.constants))] = size
    check_constants(sum(written.values()) - sum(given.values()), "the weights as kernels read them")


def _kept_finite(schedule: Schedule, call: Call, stored: Sequence[Array]) -> bool:
    """Whether no weight became infinite by being stored in a narrower type."""
    return all(
        np.isfinite(after).all() or not np.isfinite(before).all()
        for before, after, p in zip(call.constants, stored, schedule.kernel.params, strict=False)
        if p.name in schedule.narrowed
    )


def pack_states(graph: Graph, out: BytesIO, alignment: int = ALIGNMENT) -> tuple[int | None, ...]:
    """Writes the initial values of states, aligned; where each of these lies."""
    where: list[int | None] = []
    for state in graph.states:
        if state.initial is None or not state.initial.any():
            where.append(None)
            continue
        where.append(out.tell())
        _write(out, state.initial, alignment)
    return tuple(where)


def _identity(array: Array) -> tuple[object, ...]:
    """The same for views of the same weights: memory, strides and shape say so without reading them."""
    return array.__array_interface__["data"][0], array.strides, array.shape, array.dtype.str
