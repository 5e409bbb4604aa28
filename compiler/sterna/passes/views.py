"""Decides which tensors share memory because one is a view of the other.

A reshape or a slice does not copy: its result is a view of its operand's memory. Nor does a transpose that
only matrix products read, or that reads one. Pads and concatenations are the same from the other side: the kernels
that produce their operands write straight into the result, and all that is left of a pad is to fill the border.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sterna.ir.division import divide_exactly
from sterna.ir.graph import Graph, Node, Value
from sterna.ir.integer import ONE, ZERO, Int, IntLike, as_int
from sterna.ir.sizes import definitions
from sterna.ops.builder import MOST_JOINED
from sterna.ops.control import LOOP, Loop
from sterna.ops.movement import has_index_map
from sterna.te.layout import dense_strides


@dataclass(frozen=True)
class Window:
    """The value lies inside another: element i of it is element offset + i * step of the parent, per dimension."""

    parent: Value
    offsets: tuple[IntLike, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Recast:
    """The value is the parent's elements in the same order with other dimensions."""

    parent: Value


@dataclass(frozen=True)
class Permuted:
    """The value is the parent with its dimensions in another order: dimension d of it is dimension order[d] there."""

    parent: Value
    order: tuple[int, ...]


@dataclass(frozen=True)
class Storage:
    """Where a value lies: strides and origin, in elements, within the buffer of `root`."""

    root: Value
    origin: Int
    strides: tuple[Int, ...]


@dataclass
class Views:
    """The decisions.

    Args:
        parents: values that lie within others.
        removed: nodes that need no kernel any more.
        written: per pad or concat, which operands are in place already; and reshapes that are copies in the operand's
            order, since positions cannot be divided by a size that is open.
    """

    parents: dict[Value, Window | Recast | Permuted] = field(default_factory=dict)
    removed: set[Node] = field(default_factory=set)
    written: dict[Node, tuple[bool, ...]] = field(default_factory=dict)

    def computing(self, nodes: Collection[Node]) -> Views:
        """The decisions with pads and views that a kernel computes among other things: they are no matter of storage,
        and nothing but that kernel makes or reads what would have lain within their results, or they within others."""
        made = {node.output for node in nodes}
        parents = {v: view for v, view in self.parents.items() if view.parent not in made and v not in made}
        written = {node: w for node, w in self.written.items() if node not in nodes}
        return Views(parents, self.removed.difference(nodes), written)

    def storage(self, value: Value) -> Storage:
        """Where a value lies, followed to the value that owns the buffer."""
        view = self.parents.get(value)
        if view is None:
            return Storage(value, ZERO, dense_strides(value.shape))
        parent = self.storage(view.parent)
        if isinstance(view, Window):
            origin = shifted(parent, view.offsets)
            return Storage(parent.root, origin, tuple(s * p for p, s in zip(view.steps, parent.strides, strict=True)))
        if isinstance(view, Permuted):
            return Storage(parent.root, parent.origin, tuple(parent.strides[d] for d in view.order))
        strides = recast_strides(view.parent.shape, parent.strides, value.shape)
        assert strides is not None
        return Storage(parent.root, parent.origin, strides)


def plan_views(graph: Graph) -> Views:
    """The views of a graph and of its regions.

    What a loop carries lies in one place, which its result is seen from outside: the kernels of the body read it there,
    and the value for the next iteration is copied there, or made there (`passes.memory_plan`).
    """
    views = Views()
    _plan(graph, views)
    return views


def _plan(graph: Graph, views: Views) -> None:
    producers = graph.producers()
    outputs = set(graph.outputs)
    waiting = _Waiting(graph)
    for node in reversed(graph.nodes):
        if node.op == "pad" and node.attributes["mode"] == "constant" and _has_fixed_origin(node):
            (x,) = node.operands
            views.written[node] = (
                _absorb(x, node.output, tuple(node.attributes["before"]), views, producers, outputs, waiting),
            )
        elif node.op == "concat":
            views.written[node] = _concat(node, views, producers, outputs, waiting)
    for node in graph.nodes:
        if node.op == "reshape":
            _reshape(node, views, producers, outputs, waiting)
        elif node.op == "slice" and all(s > 0 for s in node.attributes["steps"]):
            (x,) = node.operands
            y = node.output
            if not x.is_constant and y not in outputs and y not in views.parents:
                views.parents[y] = Window(x, tuple(node.attributes["starts"]), tuple(node.attributes["steps"]))
                views.removed.add(node)
    users = graph.users()
    for node in graph.nodes:
        if node.op == "transpose" and _transpose(node, views, producers, users, outputs):
            views.removed.add(node)
    for node in graph.nodes:
        if node.op == LOOP:
            for parts in Loop(node).carried:
                offsets = (0,) * parts.inside.type.rank
                views.parents[parts.inside] = Window(parts.result, offsets, (1,) * len(offsets))
        for region in node.regions:
            _plan(region, views)


class _Waiting:
    """When sizes that the graph computes are known."""

    def __init__(self, graph: Graph):
        self.sizes = definitions(graph)
        self.order = {node: n for n, node in enumerate(graph.nodes)} if self.sizes else {}

    def known(self, node: Node, *numbers: Int) -> bool:
        """Whether all sizes in these numbers are known when a node runs."""
        return all(
            self.order[self.sizes[symbol]] < self.order[node]
            for number in numbers
            for symbol in number.symbols()
            if symbol in self.sizes
        )


def _transpose(
    node: Node, views: Views, producers: dict[Value, Node], users: Mapping[Value, Sequence[Node]], outputs: set[Value]
) -> bool:
    """Absorbs a transpose of rows into the products of computed matrices that read it, or into the one whose result it
    is: they walk rows of any stride, as long as the elements of a row stay side by side."""
    (x,), y, order = node.operands, node.output, tuple(node.attributes["order"])
    rows = [d for d in order if x.shape[d] != 1]
    if not rows or rows[-1] != max(rows) or not all(n.is_const for n in x.shape):
        return False
    if x.is_constant or y in outputs or y in views.parents:
        return False
    readers = users.get(y, ())
    if readers and all(_of_computed(reader) for reader in readers):
        views.parents[y] = Permuted(x, order)
        return True
    producer = producers.get(x)
    if producer is None or not _of_computed(producer) or users[x] != [node] or x in outputs or x in views.parents:
        return False
    views.parents[x] = Permuted(y, tuple(order.index(d) for d in range(len(order))))
    return True


def _of_computed(node: Node) -> bool:
    """Whether a node is a product of computed matrices; with a constant one, rows are better merged than strided."""
    return node.op == "matmul" and not any(v.is_constant for v in node.operands)


def _has_fixed_origin(node: Node) -> bool:
    """Whether the operand of a pad lies where it does whatever its size. Else the pad is computed: nothing but a clamp
    shows that an element at a distance like n % 2 is there."""
    return all(as_int(n).is_const for n in node.attributes["before"])


def _absorb(
    x: Value, y: Value, offsets: Sequence[IntLike], views: Views, producers: dict[Value, Node], outputs: set[Value],
    waiting: _Waiting,
) -> bool:  # fmt: skip
    """Places x within y if the kernel that makes x, or what x is a reshape of, can write there."""
    if x in outputs or x in views.parents:
        return False
    place = views.storage(y)
    made, producer = x, producers.get(x)
    if producer is not None and producer.op == "reshape":
        (made,) = producer.operands
        if made in outputs or made in views.parents or recast_strides(x.shape, place.strides, made.shape) is None:
            return False
        producer = producers.get(made)
    if producer is None or producer.regions or producer.op in ("reshape", "slice") or len(producer.outputs) > 1:
        return False
    if producer.op == "concat" and len(producer.inputs) >= MOST_JOINED:
        return False  # it is one of many alike, which share their kernels only where each lies by itself
    if waiting.sizes and not waiting.known(producer, shifted(place, offsets), *place.strides):
        return False
    views.parents[x] = Window(y, tuple(offsets), (1,) * len(offsets))
    if made is not x:
        views.parents[made] = Recast(x)
        views.removed.add(producers[x])
    return True


def _concat(
    node: Node, views: Views, producers: dict[Value, Node], outputs: set[Value], waiting: _Waiting
) -> tuple[bool, ...]:
    axis, position = node.attributes["axis"], ZERO
    done = []
    for x in node.operands:
        offsets = [ZERO] * x.type.rank
        offsets[axis] = position
        done.append(_absorb(x, node.output, offsets, views, producers, outputs, waiting))
        position = position + x.shape[axis]
    return tuple(done)


def _reshape(node: Node, views: Views, producers: dict[Value, Node], outputs: set[Value], waiting: _Waiting) -> None:
    x, y = node.inputs[0], node.output
    assert x is not None
    if x.is_constant or y in views.parents:
        return
    if y in outputs:
        # The output owns its memory, so its operand moves there.
        producer = producers.get(x)
        if (
            producer is not None
            and not producer.regions
            and producer not in views.removed
            and len(producer.outputs) == 1
            and x not in outputs
            and x not in views.parents
            and waiting.known(producer, *y.shape)
        ):
            views.parents[x] = Recast(y)
            views.removed.add(node)
        elif not has_index_map(x.shape, y.shape):
            views.written[node] = (False,)
        return
    storage = views.storage(x)
    if recast_strides(x.shape, storage.strides, y.shape) is not None:
        views.parents[y] = Recast(x)
        views.removed.add(node)
    elif not has_index_map(x.shape, y.shape):
        views.written[node] = (False,)


def shifted(place: Storage, offsets: Sequence[IntLike]) -> Int:
    """The element within the buffer at which a window with these offsets begins."""
    origin = place.origin
    for offset, stride in zip(offsets, place.strides, strict=True):
        origin = origin + stride * offset
    return origin


def recast_strides(old: Sequence[Int], strides: Sequence[Int], new: Sequence[Int]) -> tuple[Int, ...] | None:
    """Strides of the same elements with other dimensions, or None if no strides can say it."""
    runs: list[tuple[Int, Int]] = []  # (elements, stride of the last) of stretches that lie regularly
    for n, s in zip(old, strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * s:
            runs[-1] = (runs[-1][0] * n, s)
        else:
            runs.append((n, s))
    result: list[Int] = []
    for n in reversed(new):
        if n == 1:
            result.append(ONE)
            continue
        left = divide_exactly(runs[-1][0], n) if runs else None
        if left is None:
            return None
        _, step = runs.pop()
        result.append(step)
        if left != 1:
            runs.append((left, step * n))
    return tuple(reversed(result)) if not runs else None
