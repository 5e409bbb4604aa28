"""If, Case and While: graphs of the file as regions of ours, or written out where nothing else goes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sterna.errors import SternaError, error
from sterna.frontends.tensorflow.translation import Item, Rows, Translation
from sterna.ir.graph import Graph, Value
from sterna.ir.integer import Int
from sterna.ops.control import MOST_ITERATIONS, NUMBER, branches, loop

#: A graph of the file for given arguments; None for results that cannot be made.
Inner = Callable[[Sequence[Item]], Sequence[Item]]
Results = tuple[Item, ...]

MOST_WRITTEN_OUT = 64


class FailedError(Exception):
    """A graph could not be made; its problems were noted."""


def test_of(t: Translation, value: Item) -> Value:
    """A condition: numbers that are not 0 hold, as do tensors that are not empty."""
    if not isinstance(value, Value):
        raise FailedError
    if value.type.rank and value.type.elements != 1:
        raise error("E0108", f"the condition of {t.kind} is {value.type}, not one bool")
    if value.dtype != "bool":
        value = t.op("logical_not", t.op("equal", value, t.scalar(0, value.dtype)))
    return t.reshape(value, ()) if value.type.rank else value


def choice(t: Translation, condition: Value, then: Inner, otherwise: Inner, arguments: Sequence[Item]) -> Results:
    """One of two graphs, by a condition that is computed or constant."""
    if condition.data is not None:
        return tuple((then if condition.data.reshape(-1)[0] else otherwise)(arguments))
    made, regions = [], []
    for inner in (then, otherwise):
        with t.builder.region() as nodes:
            made.append(tuple(inner(arguments)))
        regions.append(nodes)
    if len(made[0]) != len(made[1]):
        raise error("E0103", f"the graphs of {t.kind} give {len(made[0])} and {len(made[1])} results")
    if any(item is None for items in made for item in items):
        raise FailedError
    outside: dict[int, Item] = {}
    room = _Room(t)
    flat: list[list[Value]] = [[], []]
    for n, (a, b) in enumerate(zip(*made, strict=True)):
        if isinstance(a, Value) and isinstance(b, Value):
            room.add(len(flat[0]), a, b)
            flat[0].append(a)
            flat[1].append(b)
        elif a == b:
            outside[n] = a
        elif isinstance(a, Rows) and isinstance(b, Rows) and a.value is not None and b.value is not None:
            if a.value.type != b.value.type:
                raise error("E0107", f"{t.kind} whose graphs give lists of different sizes needs a constant condition")
            flat[0].append(a.value)
            flat[1].append(b.value)
        else:
            raise t.unsupported("whose graphs give what is no tensor")
    graphs = []
    for side, name in enumerate(("then", "else")):
        with t.builder.region(regions[side]) as nodes:
            values = [*(room.widened(n, value, side) for n, value in enumerate(flat[side])), *room.sizes(side)]
        names = tuple(str(n) for n in range(len(values)))
        graphs.append(Graph(f"{t.name}/{name}", (), tuple(values), tuple(nodes), names))
    results = [Value(t.builder.name(f"{t.name}/result"), value.type) for value in graphs[0].outputs]
    t.builder.keep(branches(condition, (graphs[0], graphs[1]), tuple(results), t.sources, t.name))
    room.bind(results[len(flat[0]) :])
    given: list[Item] = []
    narrowed = iter([room.narrowed(n, value) for n, value in enumerate(results[: len(flat[0])])])
    for n, item in enumerate(made[0]):
        if n in outside:
            given.append(outside[n])
        else:
            value = next(narrowed)
            given.append(Rows(value, None, item.dtype, item.shape) if isinstance(item, Rows) else value)
    return tuple(given)


class _Room:
    """Results of two graphs whose sizes differ: each in room for either, with the sizes that it has.

    A pair of sizes is one size of what follows, however many results have it.
    """

    def __init__(self, t: Translation):
        self.t = t
        self.shapes: dict[int, tuple[tuple[Int, Int], ...]] = {}
        self.most: dict[tuple[Int, Int], int] = {}
        self.bound: dict[tuple[Int, Int], Int] = {}

    def add(self, n: int, a: Value, b: Value) -> None:
        """Takes note of the result `n` of both graphs.

        Raises:
            SternaError: E0107, they are of different types, or nothing bounds a size.
        """
        if a.type == b.type:
            return
        pairs = tuple(zip(a.shape, b.shape, strict=False))
        most = [[size.bounds()[1] for size in pair] for pair in pairs]
        if a.dtype != b.dtype or a.type.rank != b.type.rank or any(None in each for each in most):
            raise error("E0107", f"{self.t.kind} whose graphs give {a.type} and {b.type} needs a constant condition")
        self.most |= {
            pair: max(size for size in each if size is not None)
            for pair, each in zip(pairs, most, strict=True)
            if pair[0] != pair[1]
        }
        self.shapes[n] = pairs

    def widened(self, n: int, x: Value, side: int) -> Value:
        """The result `n` of one graph, with room for the other's."""
        if n not in self.shapes:
            return x
        after = [self.most[pair] - pair[side] if pair in self.most else 0 for pair in self.shapes[n]]
        return self.t.pad(x, (0,) * x.type.rank, after)

    def sizes(self, side: int) -> list[Value]:
        """The sizes that differ, as one graph has them."""
        return [self.t.reshape(self.t.cast(self.t.dimensions([pair[side]]), "int64"), ()) for pair in self.most]

    def bind(self, sizes: Sequence[Value]) -> None:
        """Makes sizes, which are known when the model runs, of what `sizes` gave."""
        for (pair, most), size in zip(self.most.items(), sizes, strict=True):
            name = self.t.builder.name("size_" + re.sub(r"\W", "_", self.t.name))
            least = min(pair[0].bounds()[0] or 0, pair[1].bounds()[0] or 0)
            self.bound[pair] = self.t.builder.bind_size(size, name, least, most, sources=self.t.sources)

    def narrowed(self, n: int, x: Value) -> Value:
        """The result `n` in the sizes that it has."""
        if n not in self.shapes:
            return x
        sizes = tuple(self.bound.get(pair, pair[0]) for pair in self.shapes[n])
        return self.t.op("slice", x, starts=(0,) * x.type.rank, sizes=sizes, steps=(1,) * x.type.rank)


def repetition(t: Translation, condition: Inner, body: Inner, arguments: Sequence[Item]) -> Results:
    """A graph that runs as long as another one, of the same arguments, gives true."""
    start = test_of(t, condition(arguments)[0])
    if start.data is not None and not start.data.reshape(-1)[0]:
        return tuple(arguments)
    try:
        return _loop(t, start, condition, body, arguments)
    except SternaError:
        made = _written_out(t, condition, body, arguments)
        if made is None:
            raise
        return made


def _written_out(t: Translation, condition: Inner, body: Inner, arguments: Sequence[Item]) -> Results | None:
    """The iterations one after the other; None where their number is not known, or large."""
    current = list(arguments)
    for _ in range(MOST_WRITTEN_OUT):
        going = test_of(t, condition(current)[0])
        if going.data is None:
            return None
        if not going.data.reshape(-1)[0]:
            return tuple(current)
        current = list(body(current))
        if any(item is None for item in current):
            raise FailedError
    return None


def _states(t: Translation, arguments: Sequence[Item]) -> list[Item]:
    """What stands for the arguments within the loop."""
    made: list[Item] = []
    for item in arguments:
        value = item.value if isinstance(item, Rows) else item
        if isinstance(value, Value):
            inside = Value(t.builder.name(f"{t.name}/state"), value.type)
            made.append(Rows(inside, item.size, item.dtype, item.shape) if isinstance(item, Rows) else inside)
        else:
            made.append(item)
    return made


def _value(item: Item) -> Value | None:
    return item.value if isinstance(item, Rows) else item if isinstance(item, Value) else None


def _loop(t: Translation, start: Value, condition: Inner, body: Inner, arguments: Sequence[Item]) -> Results:
    # A first time to see what the body gives: which arguments stay as they are, and what is written to lists.
    inside = _states(t, arguments)
    with t.builder.region():
        tried = body(inside)
    if len(tried) != len(arguments):
        raise error("E0103", f"the body of {t.kind} gives {len(tried)} results for {len(arguments)} arguments")
    if any(item is None for item in tried):
        raise FailedError
    initial = list(arguments)
    for n, (item, after) in enumerate(zip(arguments, tried, strict=True)):
        if isinstance(item, Rows) and item.value is None and isinstance(after, Rows) and after.value is not None:
            kind = after.value.type
            zeros = t.op("expand", t.scalar(0, kind.dtype), shape=kind.shape)
            initial[n] = Rows(zeros, after.size, after.dtype, after.shape)
    carried = [n for n in range(len(initial)) if _value(initial[n]) is not None and tried[n] != inside[n]]
    states = _states(t, initial)
    for n in range(len(initial)):
        if n not in carried:
            states[n] = initial[n]
    with t.builder.region() as nodes:
        made = body(states)
        following = []
        for n in carried:
            value, before = _value(made[n]), _value(initial[n])
            if value is None or before is None:
                raise FailedError
            if value.type != before.type:
                raise error("E0107", f"{t.kind} that makes {value.type} of {before.type} needs sizes that stay")
            following.append(value)
        for n, item in enumerate(made):
            if n not in carried and item != states[n]:
                raise t.unsupported("that exchanges what is no tensor")
        going = test_of(t, condition(made)[0])
    number = Value(t.builder.name(f"{t.name}/number"), NUMBER)
    taken = [value for n in carried if (value := _value(states[n])) is not None]
    given = [value for n in carried if (value := _value(initial[n])) is not None]
    region = Graph(f"{t.name}/body", (number, *taken), (going, *following), tuple(nodes))
    results = [Value(t.builder.name(f"{t.name}/result"), value.type) for value in following]
    t.builder.keep(
        loop(
            region,
            given,
            results,
            sources=t.sources,
            name=t.name,
            limit=MOST_ITERATIONS,
            condition=None if start.data is not None else start,
            conditional=True,
        )
    )
    last: list[Item] = list(initial)
    for n, value in zip(carried, results, strict=True):
        first = initial[n]
        last[n] = Rows(value, first.size, first.dtype, first.shape) if isinstance(first, Rows) else value
    return tuple(last)


__all__ = ["FailedError", "choice", "repetition", "test_of"]
