"""Chooses the order of dimensions in memory: transposes sink until they cancel, are absorbed or must stand.

A value of the old graph is held as (base, order): it is `base` with its dimensions permuted, dimension n being
dimension `order[n]` of the base. Operators that can work on the base do, with their attributes permuted; only what
cannot makes the transpose. Convolutions want channels last and front ends write that as transposes around them, so
between two convolutions nothing is left of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import gcd
from typing import Any

from sterna.ir.graph import Graph, Node, Value, captured
from sterna.ir.integer import ONE, Int
from sterna.ops import operator
from sterna.ops.movement import groups
from sterna.passes.rewriting import Rewriting, moves_nothing

Order = tuple[int, ...]
Held = tuple[Value, Order]


def layout(graph: Graph, exchanges: bool = False) -> Graph:
    """The graph with as few transposes as this finds; computes the same.

    Args:
        exchanges: whether a product with a constant may be computed with its factors exchanged and transposed, where
            its rows lie across: either factor is brought in any order, and none is read as it is packed.
    """
    return LayoutRewriting(graph, exchanges).run()


def inverse(order: Order) -> Order:
    result = [0] * len(order)
    for n, place in enumerate(order):
        result[place] = n
    return tuple(result)


def channels_first(rank: int) -> Order:
    """Of a value with channels last that lies channels first."""
    return (0, *range(2, rank), 1)


def straight(rank: int) -> Order:
    return tuple(range(rank))


def exchanged(rank: int) -> Order:
    """The last two dimensions the other way round."""
    return (*range(rank - 2), rank - 1, rank - 2)


class LayoutRewriting:
    """The walk over a graph; rules say what an operator does on permuted operands."""

    def __init__(self, graph: Graph, exchanges: bool = False):
        self.graph, self.exchanges = graph, exchanges
        self.rewriting = Rewriting(graph, fold=1)
        self.builder = self.rewriting.builder
        self.held: dict[Value, Held] = {}
        self.made: dict[tuple[Value, Order], Value] = {}
        self.shuffled: dict[Value, tuple[Value, tuple[int, ...], tuple[Int, ...]]] = {}
        self.users, self.producers = graph.users(), graph.producers()
        self.outputs = set(graph.outputs)
        self.to_products = self._to_products()
        self.reader: tuple[str, ...] = ()  # sources of the node at hand

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self.reader = node.sources
            if node.regions:
                self.plainly(node)
                continue
            rule = self.rule(node) if node.operands and node.operands[0].type.rank else None
            if rule is None or not rule(node):
                self.plainly(node)
        for value in self.graph.outputs:
            self.rewriting.substitute(value, self.plain(value))
        return self.rewriting.finish()

    def rule(self, node: Node) -> Callable[[Node], bool] | None:
        """What takes a node over in the order of its operands, if it can; None where nothing does."""
        found = _RULES.get(node.op)
        if found is None and "elementwise" in operator(node.op).tags:
            return self.elementwise
        if found is None and "reduction" in operator(node.op).tags:
            return self.reduction
        return None if found is None else partial(found, self)

    # ---------------------------------------------------------------- holding
    def hold(self, value: Value) -> Held:
        return self.held.get(value) or (value, straight(value.type.rank))

    def permuted(self, base: Value, order: Order, wanted: Value | None = None) -> Value:
        """The base with its dimensions permuted, made once. `wanted`: the old value that this is."""
        if order == straight(len(order)):
            return base
        known = self.made.get((base, order))
        if known is None:
            name = wanted.name if wanted is not None and base is not wanted else None
            result = wanted if name is not None and base.data is None else None
            sources = self.sources_of(base)
            if moves_nothing(order, base):
                known = self.builder.add(
                    "reshape", base, shape=tuple(base.shape[n] for n in order), sources=sources, result=result
                )
            else:
                known = self.builder.add("transpose", base, order=order, sources=sources, result=result)
            self.made[base, order] = known
        return known

    def sources_of(self, value: Value) -> tuple[str, ...]:
        node = self.rewriting.made_by(value)
        return node.sources if node is not None else self.reader

    def plain(self, value: Value) -> Value:
        """The value in the order of the old graph."""
        base, order = self.hold(value)
        return self.permuted(base, order, value)

    def in_order(self, value: Value, order: Order) -> Value:
        """A tensor B such that `value`, broadcast to the rank of `order`, is B permuted by it."""
        base, mine = self.hold(value)
        if mine == order:
            return base
        rank = len(order)
        if all(size == 1 for size in value.shape):
            return self.plain(value)
        if value.type.rank < rank:
            value = self.builder.reshape(self.plain(value), (*[ONE] * (rank - value.type.rank), *value.shape))
            base, mine = value, straight(rank)
        # B dimension d is value dimension inverse(order)[d], which is base dimension mine[...].
        return self.permuted(base, tuple(mine[n] for n in inverse(order)))

    # ---------------------------------------------------------------- emitting
    def plainly(self, node: Node) -> bool:
        """Takes the node over on plain operands."""
        read = (*node.operands, *captured(node))
        for value in read:
            self.rewriting.substitute(value, self.plain(value))
        self.rewriting.keep(node)
        for value in read:
            self.rewriting.values.pop(value, None)
        return True

    def emit(self, node: Node, inputs: Sequence[Value | None], order: Order, **attributes: Any) -> bool:
        """The node on permuted operands; its result, permuted by `order`, is the old one."""
        if order == straight(len(order)):
            result: Value | str = node.output
        else:
            rank = len(order)
            last = order == (0, rank - 1, *range(1, rank - 1))
            result = self.builder.name(node.output.name + (".channels_last" if last else ".permuted"))
        settings = {**node.attributes, **attributes}
        base = self.builder.add(node.op, *inputs, sources=node.sources, name=node.name, result=result, **settings)
        self.held[node.output] = (base, order)
        return True

    # ---------------------------------------------------------------- operators
    def transpose(self, node: Node) -> bool:
        (x,) = node.operands
        base, order = self.hold(x)
        self.held[node.output] = (base, tuple(order[n] for n in node.attributes["order"]))
        return True

    def vote(self, node: Node) -> Order:
        """The order that most elements of the operands already have; where as many are straight as not, that of the
        readers."""
        values, rank = node.operands, node.output.type.rank
        votes: dict[Order, int] = {}
        for value in values:
            base, order = self.hold(value)
            # Constants, and tensors that a reshape can permute, cost nothing in any order.
            if (
                value.type.rank < rank
                or value.is_constant
                or base.is_constant
                or (moves_nothing(order, base) and order != straight(rank))
            ):
                continue
            if order == straight(rank) and sum(size != 1 for size in value.shape) <= 1:
                continue
            size = int(value.type.elements) if value.type.is_static else 1
            votes[order] = votes.get(order, 0) + size
        if not votes:
            return next((self.hold(v)[1] for v in values if v.type.rank == rank and not v.is_constant), straight(rank))
        as_it_is = node.output in self.to_products
        return max(votes, key=lambda order: (votes[order], (order == straight(rank)) == as_it_is))

    def _to_products(self) -> set[Value]:
        """Values that go, element by element or normalized along an axis, to products of matrices alone, which want
        rows as they are."""
        found = set[Value]()
        for node in reversed(self.graph.nodes):
            for value in node.outputs:
                users = self.users.get(value, ())
                if users and all(u.op == "matmul" or (self.keeps_rows(u) and u.output in found) for u in users):
                    found.add(value)
        return found

    @staticmethod
    def keeps_rows(node: Node) -> bool:
        """Whether rows of the result are those of the first operand, element by element or normalized."""
        if node.op == "reshape":
            before, after = node.operands[0].shape, node.output.shape
            return bool(before and after) and before[-1] == after[-1]
        return not node.regions and (node.op in _ALONG or "elementwise" in operator(node.op).tags)

    def elementwise(self, node: Node) -> bool:
        rank = node.output.type.rank
        order = self.vote(node)
        if order == straight(rank):
            return False
        return self.emit(node, [None if v is None else self.in_order(v, order) for v in node.inputs], order)

    def concat(self, node: Node) -> bool:
        rank = node.output.type.rank
        order = self.vote(node)
        if order == straight(rank):
            return False
        axis = order[node.attributes["axis"] % rank]
        return self.emit(node, [self.in_order(v, order) for v in node.operands], order, axis=axis)

    def along_axis(self, node: Node) -> bool:
        """Operators with an axis that keep the shape."""
        base, order = self.hold(node.operands[0])
        return self.emit(
            node, [base, *map(self.plain, node.operands[1:])], order, axis=order[node.attributes["axis"] % len(order)]
        )

    def per_dimension(self, node: Node) -> bool:
        """Operators whose attributes have an entry for every dimension."""
        base, order = self.hold(node.operands[0])
        # Operators that want channels last are padded after the transpose, where padding is a border of the result.
        if node.op == "pad" and all(
            user.op in _CHANNELS_LAST and not self.on_planes(user, (base, order))
            for user in self.users.get(node.output, ())
        ):
            return False
        back = inverse(order)
        moved = {}
        for name in _PER_DIMENSION[node.op]:
            entries = node.attributes[name]
            if len(entries) != len(order):
                return False
            moved[name] = tuple(entries[n] for n in back)
        return self.emit(node, [base], order, **moved)

    def pool(self, node: Node) -> bool:
        """Pooling where the image lies, channels first."""
        base, order = self.hold(node.operands[0])
        if not self.on_planes(node, (base, order)):
            return False
        name = self.builder.name(f"{node.output.name}.channels_first")
        settings = {**node.attributes, "planes": True}
        pooled = self.builder.add(node.op, base, sources=node.sources, name=node.name, result=name, **settings)
        self.held[node.output] = (pooled, order)
        return True

    def on_planes(self, node: Node, x: Held) -> bool:
        """Whether a pooling of what is held is better done channels first: it would need a transpose that nothing else
        does, rows are long enough for vectors, and neighbouring outputs read neighbouring elements."""
        base, order = x
        rank = len(order)
        if (
            node.op not in _POOLS
            or node.attributes["planes"]
            or order != channels_first(rank)
            or moves_nothing(order, base)
        ):
            return False
        if node.attributes["strides"][-1] > NEAR or not base.type.is_static or int(node.output.shape[-2]) < _LONG:
            return False
        if node.attributes["strides"][-1] > 1 and node.attributes["kernel"][-1] > _PICKED:
            return False
        origin = node.operands[0]
        while (producer := self.producers.get(origin)) is not None and producer.op in ("pad", "transpose"):
            (origin,) = producer.operands
        return not self.wanted_last(origin)

    def wanted_last(self, value: Value) -> bool:
        """Whether a convolution reads a value, maybe pooled."""
        for user in self.users.get(value, ()):
            if user.op in _CHANNELS_LAST and user.op not in _POOLS:
                return True
            if user.op in ("pad", "transpose", *_POOLS) and self.wanted_last(user.output):
                return True
        return False

    def reduction(self, node: Node) -> bool:
        base, order = self.hold(node.operands[0])
        rank = len(order)
        axes = {axis % rank for axis in node.attributes["axes"]}
        return self.emit(
            node,
            [base],
            self.without(order, axes, node.attributes["keep_dims"]),
            axes=tuple(sorted(order[n] for n in axes)),
        )

    def arg(self, node: Node) -> bool:
        base, order = self.hold(node.operands[0])
        axis = node.attributes["axis"] % len(order)
        return self.emit(node, [base], self.without(order, {axis}, node.attributes["keep_dims"]), axis=order[axis])

    @staticmethod
    def without(order: Order, axes: set[int], keep: bool) -> Order:
        """The order of what is left after some dimensions (of the permuted tensor) disappear."""
        if keep:
            return order
        rest = [place for n, place in enumerate(order) if n not in axes]
        ranked = {place: n for n, place in enumerate(sorted(rest))}
        return tuple(ranked[place] for place in rest)

    def gather(self, node: Node) -> bool:
        x, indices = node.operands
        base, order = self.hold(x)
        axis = node.attributes["axis"] % len(order)
        if indices.type.rank > 1:
            return False
        left = self.without(order, {axis}, indices.type.rank == 1)
        return self.emit(node, [base, self.plain(indices)], left, axis=order[axis])

    def matmul(self, node: Node) -> bool:
        x, w = node.operands
        known = self.shuffled.get(x)
        if known is not None and w.data is not None:
            base, mine, sizes = known
            rows = w.data.reshape([*map(int, sizes), -1]).transpose([*mine, len(mine)])
            weight = self.builder.constant(rows.reshape(w.data.shape), w.name)
            return self.emit(node, [base, weight], straight(node.output.type.rank))
        base, order = self.hold(x)
        if w.is_constant and w.type.rank == 2 and len(order) > 2 and order[-1] == len(order) - 1:
            return self.emit(node, [base, w], order)
        if self.exchanges and w.data is not None and self.rows_lie_across(base, order):
            # A^T W is (W^T A)^T.
            across = exchanged(len(order))
            return self.emit(node, [self.builder.constant(w.data.T, w.name), self.in_order(x, across)], across)
        return False

    @staticmethod
    def rows_lie_across(base: Value, order: Order) -> bool:
        """Whether what is held has its last two dimensions exchanged in memory, and rows begin there at places at least
        as even as those of what is held would."""
        if len(order) < 2:
            return False
        across = tuple(order[n] for n in exchanged(len(order)))
        own, held = (base.shape[n] for n in (across[-1], order[-1]))
        if order == straight(len(order)) or not (own.is_const and held.is_const) or not moves_nothing(across, base):
            return False
        return int(held) > 1 and gcd(int(own), _EVEN) >= gcd(int(held), _EVEN)

    def reshape(self, node: Node) -> bool:
        (x,) = node.operands
        base, order = self.hold(x)
        if order == straight(len(order)):
            return False
        new = node.output.shape
        parts: list[tuple[list[int], list[int]]] = []
        loose: list[int] = []
        for mine, theirs in groups(x.shape, new):
            solid = [n for n in mine if x.shape[n] != 1]
            if solid:
                parts.append((solid, loose + theirs))
                loose = []
            elif parts:
                parts[-1][1].extend(theirs)
            else:
                loose += theirs
        if not parts:
            return False
        if not all(self.together([order[n] for n in mine], base) for mine, _ in parts):
            if self.absorbed(node, x, base, order, parts):
                return True
            if self.ends_plainly(node.output):
                return False
            # One transpose is due; parts keep the places of their last dimensions, so channels that were last stay so.
            ranked = sorted(parts, key=lambda part: max(order[n] for n in part[0]))
            rows = [n for mine, _ in ranked for n in mine]
            rows += [n for n in range(len(order)) if n not in rows]
            base = self.permuted(base, tuple(order[n] for n in rows))
            order = inverse(tuple(rows))
        ranked = sorted(parts, key=lambda part: order[part[0][0]])
        dims = [n for _, theirs in ranked for n in theirs]
        place = {n: position for position, n in enumerate(dims)}
        back = tuple(place[n] for n in range(len(new)))
        return self.emit(node, [base], back, shape=tuple(new[n] for n in dims))

    def ends_plainly(self, value: Value) -> bool:
        """Whether everything that is made of a value needs it in the order of the old graph, so that the transpose
        before it is the only one if it is made as it is written."""
        users = self.users.get(value, [])
        if not users:
            return value in self.outputs
        return all(
            self.ends_plainly(user.output) if "elementwise" in operator(user.op).tags else user.op not in _RULES
            for user in users
            if not user.regions
        )

    @staticmethod
    def together(places: list[int], base: Value) -> bool:
        """Whether dimensions of the base follow each other with nothing but ones between them."""
        return all(a < b and all(base.shape[n] == 1 for n in range(a + 1, b)) for a, b in pairwise(places))

    def absorbed(
        self, node: Node, x: Value, base: Value, order: Order, parts: list[tuple[list[int], list[int]]]
    ) -> bool:
        """A flattening before products with constant matrices: their rows are permuted instead of the elements."""
        value = node.output
        last = value.type.rank - 1
        users = self.users.get(value, [])
        products = all(u.op == "matmul" and u.inputs[0] is value and u.inputs[1] is not None for u in users)
        weights = [u.inputs[1] for u in users] if products else []
        if (
            not weights
            or value in self.outputs
            or any(w is None or w.data is None or w.type.rank != 2 for w in weights)
        ):
            return False
        (*before, (mine, theirs)) = parts
        lead = [order[n] for part, _ in before for n in part]
        places = sorted(order[n] for n in mine)
        if (
            theirs[-1] != last
            or any(value.shape[n] != 1 for n in theirs[:-1])
            or not self.together(lead + places, base)
        ):
            return False
        flat = self.builder.add("reshape", base, shape=value.shape, sources=node.sources, name=node.name)
        ranked = tuple(sorted(range(len(mine)), key=lambda n: order[mine[n]]))
        self.shuffled[value] = (flat, ranked, tuple(x.shape[n] for n in mine))
        return True


_POOLS = ("max_pool", "sum_pool")
_CHANNELS_LAST = ("conv", "conv_transpose", *_POOLS)
#: Outputs of a row from which on vectors along it are worth while, and the largest step from one to the next at which
#: their operands are picked from whole vectors.
_LONG, NEAR = 12, 2
#: Taps of a row up to which the lanes of a maximum are picked: each tap's are, and few of them stay in registers.
_PICKED = 3
_PER_DIMENSION = {
    "expand": ("shape",),
    "pad": ("before", "after"),
    "resize": ("sizes", "scales"),
    "slice": ("starts", "sizes", "steps"),
    "tile": ("repeats",),
}
#: Elements that rows of matrices may begin at multiples of, for wide accesses.
_EVEN = 16
_ALONG = ("cumulative_sum", "log_softmax", "softmax")
_RULES: dict[str, Callable[[LayoutRewriting, Node], bool]] = {
    "arg_max": LayoutRewriting.arg,
    "arg_min": LayoutRewriting.arg,
    "concat": LayoutRewriting.concat,
    "gather": LayoutRewriting.gather,
    "matmul": LayoutRewriting.matmul,
    "max_pool": LayoutRewriting.pool,
    "reshape": LayoutRewriting.reshape,
    "sum_pool": LayoutRewriting.pool,
    "transpose": LayoutRewriting.transpose,
    **dict.fromkeys(_ALONG, LayoutRewriting.along_axis),
    **dict.fromkeys(_PER_DIMENSION, LayoutRewriting.per_dimension),
}
