"""What a cost model sees of how groups of threads share the work of a schedule, beside what `tuning.features` says of
any: threads, what they hold and share, waves of tasks, and what subgroups ask of memory.

Threads of a subgroup that read neighbours ask for a few sectors of memory, and as many as they are where those lie
apart. Estimated from the schedule, as all features are.
"""

from __future__ import annotations

from math import ceil, prod

from sterna.ir import dtypes
from sterna.ir.memory import SECTOR
from sterna.ir.threads import THREADS
from sterna.targets.target import Target
from sterna.tuning.reads import Read
from sterna.tuning.tiling import LANES, Nest, Tiling

#: How many features there are.
COUNT = 9
#: Of the axes of threads, the one along which neighbours access memory together.
_TOGETHER = THREADS[0]


def thread_features(tiling: Tiling, target: Target) -> tuple[float, ...]:
    """The features of a schedule for a target with groups of threads; none for another one."""
    device = target.threads
    if device is None:
        return ()
    nests = [*tiling.nests.values()]
    threads = max(_threads(nest) for nest in nests)
    tasks = max(prod(nest.full[leaf] for leaf in nest.stage.leaves if nest.kind(leaf) == "parallel") for nest in nests)
    shared = [nest for nest in nests if _is_shared(nest)]
    held = sum(_bytes(nest) for nest in nests if nest.is_held)
    waves = ceil(tasks / device.multiprocessors)
    found = (
        threads,
        held,
        sum(_bytes(nest) * max(nest.stage.pipelined.values(), default=1) for nest in shared),
        float(waves),
        16 * tasks / (waves * device.multiprocessors),
        sum(nest.runs for nest in shared),
        sum(_asked(nest, read) for nest in nests for read in nest.body.reads if read.name not in tiling.nests),
        sum(nest.runs * prod(nest.shape) for nest in shared),
        threads * held,
    )
    assert len(found) == COUNT
    return found


def _threads(nest: Nest) -> float:
    return prod(nest.full[leaf] for leaf in nest.stage.leaves if nest.kind(leaf) in THREADS)


def _is_shared(nest: Nest) -> bool:
    """Whether the threads of a task share its results."""
    scope = nest.stage.scope
    return scope is not None and scope.reach == "block"


def _bytes(nest: Nest) -> float:
    """Of a tile of a nest."""
    return prod(nest.shape) * dtypes.bits(nest.stage.tensor.dtype) / 8


def _asked(nest: Nest, read: Read) -> float:
    """Bytes of the sectors that subgroups ask memory for by a read."""
    leaves = nest.stage.leaves
    together = {leaf for leaf in leaves if nest.kind(leaf) in (_TOGETHER, *LANES)}
    times = nest.runs * prod(nest.extents[leaf] for leaf in leaves if leaf not in together)
    *rows, along = read.widths(nest.spans(together)) or (1.0,)
    sectors = ceil(along * read.bits / 8 / SECTOR)
    return times * prod(rows) * sectors * SECTOR
