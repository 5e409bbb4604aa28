"""What a target's processor has, as the generators ask for it: by operation, type and width."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

from sterna.codegen.llvm_machine import has_instruction
from sterna.intrinsics.idioms import IDIOMS, MASKED_ACCESS, Idiom
from sterna.ir import dtypes
from sterna.ir.memory import PARAM
from sterna.loops.program import Buffer
from sterna.targets.features import features
from sterna.targets.target import LEAST_ALIGNMENT, Target
from sterna.te.expr import Load


@lru_cache(maxsize=4096)
def find_idioms(target: Target, operation: str, dtype: str, lanes: int) -> tuple[Idiom, ...]:
    """The processor's ways of an operation of so many lanes, or of parts of them."""
    return tuple(
        idiom
        for idiom in IDIOMS
        if idiom.operation == operation
        and idiom.dtype == dtype
        and idiom.takes(lanes)
        and any(features(target) >= set(way) for way in idiom.needs)
        and (idiom.probe is None or _makes_instructions(target, idiom.probe))
    )


def has_masked_access(target: Target, dtype: str) -> bool:
    """Whether parts of vectors are loaded and stored by one instruction."""
    has = features(target)
    return any(dtypes.bits(dtype) >= least and has >= set(needed) for least, needed in MASKED_ACCESS)


def aligned_bytes(load: Load) -> int:
    """What the address of a load is a multiple of, as far as is known: the size of its element, or what its place in
    scratch memory or among the weights is a multiple of, which begin at a multiple of several words."""
    size = dtypes.size(load.dtype)
    if not isinstance(load.tensor, Buffer) or not (load.tensor.scope.in_scratch or load.tensor.scope == PARAM):
        return size
    (index,) = load.indices
    begin = load.tensor.begin
    first = gcd(begin.const, *begin.terms.values())
    return gcd(LEAST_ALIGNMENT, first, size * gcd(index.const, *index.terms.values()))


def _makes_instructions(target: Target, probe: tuple[str, str, tuple[str, ...]]) -> bool:
    """Whether LLVM has instructions for a piece of code; of a processor that it does not know nothing is assumed."""
    result, body, arguments = probe
    return bool(target.llvm_triple) and has_instruction(target, result, body, *arguments)
