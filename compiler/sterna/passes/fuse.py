"""Groups nodes into kernels, by the fusion kinds of their operators.

A group grows forward from its first node: element-wise nodes of the same shape join as long as in the end only one
value leaves the group, so that diamonds (x * sigmoid(x)) are fused too; their other element-wise operands are pulled
in. A chain of element-wise nodes may end in a reduction. At most one node of a group reduces.

By the rule a group takes what it can. Where something begins that costs its kernel more than a few instructions an
element (another tensor to read, a function, another order, a reduction), it may end before that (`passes.decisions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from sterna.ir import dtypes
from sterna.ir.graph import Graph, Node, Value
from sterna.ops import operator
from sterna.ops.operator import Fusion
from sterna.passes.decisions import Decide, by_rule
from sterna.passes.views import Views
from sterna.te import expr as E
from sterna.te.layout import most_elements
from sterna.te.tensor import placeholder

LIMIT = 24  # nodes of a group
_LIGHT = (Fusion.BROADCAST, Fusion.INJECTIVE)


@dataclass(frozen=True, eq=False)
class Group:
    """Nodes of one kernel in order, and the one value that leaves it (or all results of a node of its own).

    Args:
        joined: it is made of several groups (`passes.join`); on_device: only groups of threads compute it, so that it
            cannot move to the CPU (`passes.chains`).
    """

    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]
    joined: bool = False
    on_device: bool = False


def fuse_all(
    graph: Graph, views: Views, decide: Decide = by_rule, most: int | None = None
) -> dict[Graph, tuple[Group, ...]]:
    """The groups of a graph and of every region in it; arguments as of `fuse`."""
    groups = {graph: fuse(graph, views, decide, most)}
    for node in graph.nodes:
        for region in node.regions:
            groups |= fuse_all(region, views, decide, most)
    return groups


def fuse(graph: Graph, views: Views, decide: Decide = by_rule, most: int | None = None) -> tuple[Group, ...]:
    """The groups, each after those it reads from.

    Pads and concatenations stay alone: they are matters of storage. So does control flow: its regions are graphs of
    their own.

    Args:
        most: tensors that a kernel reads and writes, where a device takes no more; None: any number.
    """
    return _Fusion(graph, views, decide, most).run()


class _Fusion:
    def __init__(self, graph: Graph, views: Views, decide: Decide, most: int | None):
        self.graph, self.views, self.decide, self.most = graph, views, decide, most
        self.producers = graph.producers()
        self.users = graph.users()
        self.outputs = set(graph.outputs)
        self.position = {node: n for n, node in enumerate(graph.nodes)}
        self.taken: set[Node] = set(views.removed)

    def run(self) -> tuple[Group, ...]:
        groups: list[tuple[int, Group]] = []
        for node in self.graph.nodes:
            if node in self.taken or all(value.type.elements == 0 for value in node.outputs):
                continue
            members = [node]
            if node not in self.views.written and len(node.outputs) == 1 and self.kind(node) is not Fusion.OPAQUE:
                members = self.grow(node)
            self.taken.update(members)
            members.sort(key=self.position.__getitem__)
            outputs = node.outputs if len(members) == 1 else self.leaving(members)
            groups.append((self.position[members[-1]], Group(tuple(members), outputs)))
        groups.sort(key=lambda g: g[0])
        return tuple(g for _, g in groups)

    def kind(self, node: Node) -> Fusion:
        return Fusion.OPAQUE if node.regions else operator(node.op).fusion

    def grow(self, first: Node) -> list[Node]:
        members, ends = [first], [[first]]
        heavy = self.kind(first) not in _LIGHT
        while len(members) < LIMIT:
            following = self.next(members, heavy)
            if following is None or not self.fits([*members, following]):
                break
            members = [*members, following, *self.pulled(following, [*members, following])]
            heavy = heavy or self.kind(following) not in _LIGHT
            if len(self.leaving(members)) == 1:
                ends.append(members)
        return self.chosen(ends)

    def fits(self, members: list[Node]) -> bool:
        """Whether a kernel has no more tensors than a device takes."""
        if self.most is None:
            return True
        inside = {v for m in members for v in m.outputs}
        read = {v for m in members for v in m.operands if not v.is_constant} - inside
        return len(read) + len(self.leaving(members)) <= self.most

    def chosen(self, ends: list[list[Node]]) -> list[Node]:
        """The members of a group that may end in several places, by the rule in the last one."""
        last = ends[-1]
        offered = {len(own): own for own, longer in pairwise(ends) if any(map(self.begins, longer[len(own) :]))}
        if not offered:
            return last
        whole = sorted(last, key=self.position.__getitem__)
        return {**offered, len(last): last}[self.decide("end", whole, [*offered], len(last))]

    def begins(self, node: Node) -> bool:
        """Whether a node costs its kernel more than a few instructions an element."""
        if self.kind(node) is not Fusion.BROADCAST or _has_functions(node):
            return True
        return sum(not v.is_constant and v.shape == node.output.shape for v in node.operands) > 1

    def next(self, members: list[Node], heavy: bool) -> Node | None:
        """The earliest node that may join."""
        shape = (
            members[-1].output.shape
            if not heavy
            else next((m for m in members if self.kind(m) not in _LIGHT), members[0]).output.shape
        )
        candidates: list[Node] = []
        for value in (v for m in members for v in m.outputs):
            if value in self.outputs or value in self.views.parents:
                continue
            for user in self.users.get(value, ()):
                if user in self.taken or user in members or user in self.views.written or len(user.outputs) > 1:
                    continue
                kind = self.kind(user)
                if kind is Fusion.BROADCAST and user.output.shape == shape == value.shape:
                    candidates.append(user)
                elif not heavy and len(self.leaving(members)) == 1 and len(self.users.get(value, ())) == 1:
                    small = most_elements(user.output.shape) <= most_elements(members[-1].output.shape)
                    if (kind is Fusion.INJECTIVE and small and not self.crosses(members, user)) or (
                        kind is Fusion.REDUCTION and "reduction" in operator(user.op).tags
                    ):
                        candidates.append(user)
        return min(candidates, key=self.position.__getitem__, default=None)

    @staticmethod
    def crosses(members: list[Node], following: Node) -> bool:
        """Whether a transpose would walk across rows along which elements are looked up: it goes by squares, and one
        by one where every element has an address of its own."""
        return following.op == "transpose" and any("lookup" in operator(m.op).tags for m in members)

    def pulled(self, node: Node, members: list[Node]) -> list[Node]:
        """Element-wise nodes that only this one needs."""
        found: list[Node] = []
        for value in node.operands:
            producer = self.producers.get(value)
            if (
                producer is None
                or producer in self.taken
                or producer in members
                or producer in found
                or producer in self.views.written
            ):
                continue
            alone = self.users.get(value) == [node] and value not in self.outputs and value not in self.views.parents
            light = self.kind(producer) is Fusion.BROADCAST and len(producer.outputs) == 1
            # Nothing that it needs may depend on the group.
            depends = any(self.producers.get(v) in members for v in producer.operands)
            if not (alone and light) or depends or value.shape != node.output.shape or self.narrowed(value):
                continue
            if self.fits([*members, *found, producer]):
                found += [producer, *self.pulled(producer, [*members, *found, producer])]
        return found

    def narrowed(self, value: Value) -> bool:
        """Whether it is narrower than what it is made of, element by element, and a reduction leaves: its kernel stores
        this then."""
        pending, seen = [value], {value}
        while pending:
            producer = self.producers.get(pending.pop())
            if producer is None or producer in self.taken or len(producer.outputs) > 1:
                continue
            kind = self.kind(producer)
            if kind is Fusion.BROADCAST and producer not in self.views.written:
                pending += [v for v in producer.operands if v.shape == value.shape and v not in seen]
                seen.update(pending)
            elif kind is Fusion.COMPLEX and dtypes.bits(producer.output.dtype) > dtypes.bits(value.dtype):
                return True
        return False

    def leaving(self, members: list[Node]) -> tuple[Value, ...]:
        """Values of the group that others read."""
        inside = set(members)

        def leaves(value: Value) -> bool:
            users = self.users.get(value, ())
            placed = value in self.outputs or value in self.views.parents
            return placed or not users or any(u not in inside for u in users)

        return tuple(v for m in members for v in m.outputs if leaves(v))


def _has_functions(node: Node) -> bool:
    """Whether an element-wise node computes exponentials or the like, which take many instructions."""
    operands = [None if v is None else placeholder(v.name, v.shape, dtypes.storage(v.dtype)) for v in node.inputs]
    stages = operator(node.op).compute(operands, node.attributes, [v.type for v in node.outputs], "s")
    found = (each for stage in stages if stage.body is not None for each in E.walk(stage.body))
    return any(isinstance(each, (E.Unary, E.Binary)) and each.op in E.MATH for each in found)
