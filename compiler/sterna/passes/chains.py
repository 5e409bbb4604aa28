"""Finds chains of small kernels that one launch computes (`schedule.strategies.group_chain`).

dense, relu -> dense, relu -> dense -> softmax

Kernels of which each reads what the one before it made wait for one another, and each wait is a launch. As one kernel,
of one group of threads or of one for each slice, they cost one launch, and what they hand on stays in shared memory;
but no more of the device than these groups works on them. Both are estimated from the target's data: kernels apart as
if each had all of the device, a chain by the share that its groups have. A chain grows from its end, by whatever group
makes the estimate shorter, or two of them where the first alone makes none.

No CPU computes a chain. So chains are made only of what stays on the device when no kernels are joined so: places are
chosen once without chains (`passes.place`), and once more with them, where they are to stay.

What takes no part: what `passes.join` has made one kernel; graphs of regions, which control runs on the CPU; kernels
over open sizes or elements of less than a byte; recurrences, branches and loops; operators that are loop programs
(sorts, scans, trees); several results that others read; pads, concatenations, slices and other tensors that lie within
one another, but for reshapes; and what shared memory does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set

from sterna.errors import SternaError
from sterna.ir.graph import Node, Value
from sterna.ops import operator
from sterna.passes.context import PassContext
from sterna.passes.decisions import Decide, by_rule
from sterna.passes.device_cost import chain_ns, chain_of_call, on_device
from sterna.passes.fuse import Group
from sterna.passes.kernels import CPU, Call, calls_of
from sterna.passes.partition import Partition
from sterna.passes.place import may_stay
from sterna.passes.stages import Grouped, Outline, call_bytes

#: Of the estimate for kernels apart, what a chain has to save.
GAIN = 0.15
#: Nodes of a chain, at most.
LIMIT = 48
#: Launches up to whose time it is worth asking what a group would take in a chain.
_WORTH = 4


def applies(context: PassContext) -> bool:
    return context.target.device is not None and context.target.threads is not None


def join_chains(grouped: Grouped, context: PassContext, placed: Callable[[Grouped], Outline]) -> Grouped:
    """The groups, with those of a chain as one.

    Args:
        placed: chooses where the kernels of groups run.
    """
    partition = Partition(grouped.graph, grouped.views, grouped.groups[grouped.graph])
    finder = _Finder(partition, context)
    if not finder.run():
        return grouped  # as in most models: no place is asked for
    there = {value for call in placed(grouped).sequence.calls if call.place == CPU for value in call.outputs}
    kept = {node for group in partition.groups if not there.isdisjoint(group.outputs) for node in group.nodes}
    chains = finder.run(kept, context.decide)
    computed = {node for chain in chains for node in chain if node in grouped.views.removed}
    views = grouped.views.computing(computed) if computed else grouped.views
    groups = {**grouped.groups, grouped.graph: partition.joined(chains, on_device=True)}
    return Grouped(grouped.graph, views, groups)


class _Finder:
    def __init__(self, partition: Partition, context: PassContext):
        self.partition, self.context, self.target = partition, context, context.target
        assert self.target.device is not None
        self.device = self.target.device
        self.alone: dict[Group, float | None] = {}
        self.joined: dict[tuple[Node, ...], float | None] = {}

    def run(self, kept: Set[Node] = frozenset(), decide: Decide = by_rule) -> tuple[tuple[Node, ...], ...]:
        """The nodes of each chain, in order; none of those that are kept from them."""
        taken: set[Node] = set(kept)
        found: list[tuple[Node, ...]] = []
        for last in reversed(self.partition.groups):
            if last.nodes[0] in taken or self.apart(last) is None:
                continue
            chain = self.grown(last, taken)
            if len(chain) > 1 and decide("joined", nodes := self.nodes(chain), (True, False), True):
                taken.update(nodes)
                found.append(nodes)
        return tuple(found)

    def grown(self, last: Group, taken: set[Node]) -> list[Group]:
        """The groups of the best chain that ends with one."""
        chain, cost = [last], self.apart(last)
        assert cost is not None
        grows = True
        while grows:
            grows = False
            for more in self.extensions(chain, taken):
                apart = sum(self.apart(group) or 0.0 for group in more)
                together = self.together([*chain, *more])
                if together is not None and together <= (1 - GAIN) * (cost + apart):
                    chain, cost, grows = [*chain, *more], together, True
                    break
        return chain

    def extensions(self, chain: list[Group], taken: set[Node]) -> Iterator[list[Group]]:
        """What a chain may have before it: a group, or one and another before that."""
        for group in self.before(chain, taken):
            if self.apart(group) is not None:
                yield [group]
                longer = (g for g in self.before([*chain, group], taken) if self.apart(g) is not None)
                yield from ([group, other] for other in longer)

    def before(self, chain: list[Group], taken: set[Node]) -> Iterator[Group]:
        """The groups whose results nothing but a chain reads."""
        inside = set(self.nodes(chain))
        for value in dict.fromkeys(v for node in self.nodes(chain) for v in node.operands):
            source = self.made(value)
            group = None if source is None else self.partition.made.get(source)
            if group is None or source is None or not taken.isdisjoint(group.nodes) or group.nodes[0] in inside:
                continue
            if self.is_inside(source, inside | set(self.views(source))):
                yield group

    def made(self, value: Value) -> Value | None:
        """The value that a kernel makes of which this one is a reshape, or is it."""
        producers, removed = self.partition.producers, self.partition.views.removed
        while (node := producers.get(value)) is not None and node in removed:
            if node.op != "reshape":
                return None
            (value,) = node.operands
        return value if node is not None else None

    def views(self, source: Value) -> Iterator[Node]:
        """The reshapes that are views of a value."""
        for node in self.partition.users.get(source, ()):
            if node.op == "reshape" and node in self.partition.views.removed:
                yield node
                yield from self.views(node.output)

    def is_inside(self, source: Value, inside: set[Node]) -> bool:
        """Whether a value, and what is a reshape of it, is read by these nodes alone, and lies within nothing else."""
        parents = self.partition.views.parents
        for value in (source, *(node.output for node in self.views(source))):
            view = parents.get(value)
            lies = view is None or self.partition.producers.get(view.parent) in inside or view.parent is source
            if (
                not lies
                or value in self.partition.outputs
                or not inside.issuperset(self.partition.users.get(value, ()))
            ):
                return False
        return True

    def nodes(self, chain: Iterable[Group]) -> tuple[Node, ...]:
        """The nodes of a chain, with the reshapes between its groups."""
        groups = list(chain)
        own = [node for group in groups for node in group.nodes]
        between = [node for group in groups[1:] for node in self.views(group.outputs[0])]
        return self.partition.in_order(dict.fromkeys((*own, *between)))

    # -- estimates
    def apart(self, group: Group) -> float | None:
        """Nanoseconds of a group's kernel by itself; None where it cannot be a part of a chain."""
        if group not in self.alone:
            self.alone[group] = self._apart(group)
        return self.alone[group]

    def _apart(self, group: Group) -> float | None:
        threads = self.target.threads
        assert threads is not None
        if group.joined or len(group.outputs) != 1 or group.nodes[0] in self.partition.views.written:
            return None
        if any(node.regions or operator(node.op).program is not None for node in group.nodes):
            return None
        call = self.call(group)
        if call is None or not may_stay(call, self.context):
            return None
        constants = sum(array.nbytes for array in call.constants)
        share = self.device.bytes_per_ns / threads.multiprocessors
        if constants / share > _WORTH * self.device.launch_ns or not call_bytes(call):
            return None
        return on_device(call, self.target) + self.device.launch_ns

    def together(self, chain: list[Group]) -> float | None:
        """Nanoseconds of a chain; None where it is none."""
        nodes = self.nodes(chain)
        if nodes not in self.joined:
            self.joined[nodes] = self._together(Group(nodes, chain[0].outputs))
        return self.joined[nodes]

    def _together(self, group: Group) -> float | None:
        if len(group.nodes) > LIMIT:
            return None
        call = self.call(group)
        if call is None or not may_stay(call, self.context):
            return None
        found = chain_of_call(call, self.target)
        return None if found is None else chain_ns(found, self.target) + self.device.launch_ns

    def call(self, group: Group) -> Call | None:
        """The call that a group becomes."""
        views = self.partition.views.computing([n for n in group.nodes if n in self.partition.views.removed])
        try:
            (call,) = calls_of(group, views)
        except (SternaError, ValueError):
            return None
        return call


__all__ = ["applies", "join_chains"]
