"""Weights as the kernels read them, and what states hold first: the contents of params.bin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sterna.abi import aligned
from sterna.advice import Advice, Option
from sterna.errors import error
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph
from sterna.ir.limits import check_constants, memory_of
from sterna.passes.context import PassContext
from sterna.passes.kernels import Call
from sterna.passes.stages import Finished, Packed, Planned
from sterna.schedule.schedule import Schedule


def pack(finished: Finished, context: PassContext) -> Packed:
    """The contents of params.bin, and where everything lies there."""
    params, params_at = pack_params(finished.sequence.calls, finished.kernels, finished.kernel_of)
    params, states_at = pack_states(finished.graph, params)
    return Packed(**vars(finished), params=params, params_at=params_at, states_at=states_at)


def pack_params(
    calls: Sequence[Call], kernels: Sequence[Planned], kernel_of: Sequence[int]
) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """The weights as the kernels read them, one aligned block per call, equal blocks once."""
    _check_params(calls, kernels, kernel_of)
    chunks: list[bytes] = []
    blocks: dict[tuple[object, ...], tuple[int, int]] = {}
    offset = 0
    where: list[tuple[int, int]] = []
    overflowing: list[Call] = []
    for call, k in zip(calls, kernel_of, strict=True):
        if not call.constants:
            where.append((0, 0))
            continue
        identity = (k, tuple(_identity(a) for a in call.constants))
        if identity not in blocks:
            schedule = kernels[k].schedule
            size = 0
            buffers = kernels[k].function.params
            stored = schedule.stored(call.constants) if schedule else call.constants
            if schedule and not _kept_finite(schedule, call, stored):
                overflowing.append(call)
            for array, buffer in zip(stored, buffers, strict=True):
                chunks.append(b"\0" * (buffer.slot - size))
                data = np.ascontiguousarray(array).tobytes()
                chunks.append(data)
                size = buffer.slot + len(data)
            padding = aligned(size) - size
            chunks.append(b"\0" * padding)
            blocks[identity] = (offset, size + padding)
            offset += size + padding
        where.append(blocks[identity])
    if overflowing:
        names = [f"of {', '.join(call.sources) or call.name}" for call in overflowing]
        fix = Advice(Option("weights", "bf16"), ", which has the range of float32")
        raise error("E0115", "weights are too large for 16 bits of this kind:", *names, fix=fix)
    return b"".join(chunks), tuple(where)


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


def pack_states(graph: Graph, params: bytes) -> tuple[bytes, tuple[int | None, ...]]:
    """The weights, then the initial values of states, aligned; where each of these lies."""
    where: list[int | None] = []
    for state in graph.states:
        if state.initial is None or not state.initial.any():
            where.append(None)
            continue
        data = np.ascontiguousarray(state.initial).tobytes()
        where.append(len(params))
        params += data + b"\0" * (aligned(len(data)) - len(data))
    return params, tuple(where)


def _identity(array: Array) -> tuple[object, ...]:
    """The same for views of the same weights: memory, strides and shape say so without reading them."""
    return array.__array_interface__["data"][0], array.strides, array.shape, array.dtype.str
