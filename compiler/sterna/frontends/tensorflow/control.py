"""If, Case and While: graphs of the file as regions of ours, or written out where nothing else goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sterna.errors import SternaError, error
from sterna.frontends.tensorflow.translation import Item, Rows, Translation
from sterna.ir.graph import Graph, Value
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
    flat: list[list[Value]] = [[], []]
    for n, (a, b) in enumerate(zip(*made, strict=True)):
        if isinstance(a, Value) and isinstance(b, Value):
            if a.type != b.type:
                raise error("E0107", f"{t.kind} whose graphs give {a.type} and {b.type} needs a constant condition")
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
    for name, values, nodes in zip(("then", "else"), flat, regions, strict=True):
        names = tuple(str(n) for n in range(len(values)))
        graphs.append(Graph(f"{t.name}/{name}", (), tuple(values), tuple(nodes), names))
    results = [Value(t.builder.name(f"{t.name}/result"), value.type) for value in flat[0]]
    t.builder.keep(branches(condition, (graphs[0], graphs[1]), tuple(results), t.sources, t.name))
    given: list[Item] = []
    for n, item in enumerate(made[0]):
        if n in outside:
            given.append(outside[n])
        else:
            value = results.pop(0)
            given.append(Rows(value, None, item.dtype, item.shape) if isinstance(item, Rows) else value)
    return tuple(given)


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
