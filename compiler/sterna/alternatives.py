"""One bundle of several compilations of a model, for processors of one family that can more and less.

Each has its own graph, for it has its own kernels; weights that they read in the same form are stored once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from sterna.compiled import Compiled
from sterna.ir import dtypes
from sterna_runtime.abi import aligned


def together(base: Compiled, others: Sequence[Compiled]) -> Compiled:
    """The first compilation with those of the others that compute otherwise than the next lesser one.

    Args:
        others: for more capable processors, best first.
    """
    kept: list[Compiled] = []
    lesser = base
    for other in reversed(others):
        if not _same(other, lesser):
            kept.insert(0, other)
            lesser = other
    params = bytearray(base.params)
    places = {_digest(base.params[at : at + size]): at for at, size in _blocks(base)}
    moved = [_moved(each, params, places) for each in kept]
    shared = bytes(params)
    return replace(base, params=shared, alternatives=tuple(replace(each, params=shared) for each in moved))


def _same(a: Compiled, b: Compiled) -> bool:
    """Whether both have the same kernels and weights; sources say for which features they are."""
    return _anywhere(a) == _anywhere(b) and (a.params, a.params_at) == (b.params, b.params_at)


def _anywhere(compiled: Compiled) -> str:
    """The kernels, whatever processor they are for."""
    kernels = compiled.source.partition("\n")[2]  # the first line names the target
    return kernels.replace(f'"{" ".join(compiled.options.target.cpu_features)}"', '""')


def _blocks(compiled: Compiled) -> list[tuple[int, int]]:
    """Where every kernel's weights lie, and the first values of states, with their sizes."""
    states = zip(compiled.graph.live_in, compiled.states_at, strict=True)
    first = [(at, int(v.type.elements) * dtypes.size(v.dtype)) for v, at in states if at is not None]
    return [*dict.fromkeys((*(block for block in compiled.params_at if block[1]), *first))]


def _moved(compiled: Compiled, params: bytearray, places: dict[bytes, int]) -> Compiled:
    """A compilation whose weights lie in the common ones; what is not there yet is added."""
    new: dict[int, int] = {}
    for at, size in _blocks(compiled):
        block = compiled.params[at : at + size]
        key = _digest(block)
        if key not in places:
            params += bytes(aligned(len(params)) - len(params))
            places[key] = len(params)
            params += block
        new[at] = places[key]
    params_at = tuple((new[at], size) if size else (at, size) for at, size in compiled.params_at)
    states_at = tuple(None if at is None else new[at] for at in compiled.states_at)
    return replace(compiled, params_at=params_at, states_at=states_at)


def _digest(block: bytes) -> bytes:
    return hashlib.blake2b(block, digest_size=16).digest()
