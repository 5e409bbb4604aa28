"""Kernels that differ only in sizes run one code, which is given the sizes: less flash, for a few more instructions.

Where every size is a constant, offsets are parts of instructions, and neighbouring places are reached from one
register. A size that is an argument takes a register or an instruction of its own wherever it is used. So which
kernels share is chosen by bytes that are saved per instruction that is added, as long as these stay below a share of
the model's instructions; where small code is asked for, bytes alone count.

    classes    kernels whose loop programs are the same but for numbers      loops.together
    chosen     of every class those that share
    general    the program of the chosen ones, and their arguments           loops.generalize
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sterna.loops.effort import ADDRESS_BYTES, ADDRESS_INSTRUCTIONS, ARGUMENT_BYTES, BYTES, Effort, effort
from sterna.loops.generalize import General, are_alike, generalize
from sterna.loops.program import Function
from sterna.passes.context import PassContext
from sterna.passes.stages import Finished
from sterna.targets.target import Target

#: How much of a model's instructions sharing may add, where code is to be fast.
MOST_ADDED = 0.02


def applies(context: PassContext) -> bool:
    """Whether code lies in the flash of a small machine."""
    return context.target.static


def share_kernels(finished: Finished, context: PassContext) -> Finished:
    """The same kernels, some of which have one program and arguments for it."""
    functions = [kernel.function for kernel in finished.kernels]
    runs = [finished.kernel_of.count(n) for n in range(len(functions))]
    kernels = list(finished.kernels)
    for members in _chosen(functions, runs, context.target):
        general = generalize([functions[n] for n in members])
        for n, arguments in zip(members, general.arguments, strict=True):
            kernels[n] = replace(kernels[n], general=general.function, arguments=arguments)
    return replace(finished, kernels=tuple(kernels))


@dataclass(frozen=True)
class _Class:
    """Kernels that are alike, in the order in which it pays for them to share.

    Args:
        members: their numbers; added: instructions of a run of the model, for each of them.
        own: bytes of code of one of them for itself; shared: of the code for all, without arguments.
        argument: bytes of the arguments of one.
    """

    members: tuple[int, ...]
    added: tuple[float, ...]
    own: float
    shared: float
    argument: float

    def saved(self, count: int) -> float:
        """Bytes that are saved where the first so many of them share."""
        return 0.0 if count < 2 else count * (self.own - self.argument) - self.shared


def _chosen(functions: Sequence[Function], runs: Sequence[int], target: Target) -> Iterator[tuple[int, ...]]:
    """Which kernels share: of every class the first, extended where the most bytes an instruction are saved."""
    alone = [effort(f) for f in functions]
    left = MOST_ADDED * sum(e.instructions * n for e, n in zip(alone, runs, strict=True))
    if target.code != "fast":
        left = float("inf")
    classes = [_class(members, functions, runs, alone) for members in _alike(functions) if len(members) > 1]
    shared = [0] * len(classes)
    while True:
        best: tuple[float, int, int, float] | None = None
        for n, each in enumerate(classes):
            before = shared[n]
            for count in range(max(before + 1, 2), len(each.members) + 1):
                saved, added = each.saved(count) - each.saved(before), sum(each.added[before:count])
                if saved > 0 and added <= left and (best is None or saved / (1 + added) > best[0]):
                    best = saved / (1 + added), n, count, added
        if best is None:
            break
        _, n, shared[n], added = best
        left -= added
    for each, count in zip(classes, shared, strict=True):
        if count:
            yield tuple(sorted(each.members[:count]))


def _alike(functions: Sequence[Function]) -> list[list[int]]:
    classes: list[list[int]] = []
    for n, function in enumerate(functions):
        known = next((each for each in classes if are_alike(functions[each[0]], function)), None)
        if known is None:
            classes.append([n])
        else:
            known.append(n)
    return classes


def _class(
    members: Sequence[int], functions: Sequence[Function], runs: Sequence[int], alone: Sequence[Effort]
) -> _Class:
    general = generalize([functions[n] for n in members])
    added = {n: runs[n] * _added(general, i, alone[n]) for i, n in enumerate(members)}
    order = sorted(members, key=added.__getitem__)
    first, arguments = alone[members[0]], len(general.function.dims)
    written = effort(general.function)
    addresses = max(0, written.written_addresses - first.written_addresses)
    shared = written.written * BYTES + addresses * ADDRESS_BYTES + arguments * ARGUMENT_BYTES
    kept = 4 if general.function.dims_type == "int32" else 2
    return _Class(
        tuple(order), tuple(added[n] for n in order), first.written * BYTES, shared, kept * arguments + ARGUMENT_BYTES
    )


def _added(general: General, member: int, alone: Effort) -> float:
    """Instructions that a run of one of the kernels takes more by the program for all."""
    sizes = {symbol: general.arguments[member][n] for symbol, n in general.function.dims}
    shared = effort(general.function, sizes)
    addresses = max(0.0, shared.addresses - alone.addresses)
    return max(0.0, shared.instructions - alone.instructions) + addresses * ADDRESS_INSTRUCTIONS
