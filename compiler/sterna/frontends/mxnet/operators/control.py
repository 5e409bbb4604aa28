"""Control flow: operators with graphs of their own (`mx.sym.contrib.foreach`, `while_loop`, `cond`)."""

from __future__ import annotations

from collections.abc import Sequence

from sterna.errors import error
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir.graph import Graph, Value
from sterna.ops.control import MOST_ITERATIONS, NUMBER, branches, loop


def _graphs(t: Translation, count: int) -> None:
    if len(t.graphs) != count:
        raise error("E0103", f"{t.kind} has {len(t.graphs)} graphs, not {count}")


def _same(t: Translation, values: Sequence[Value], like: Sequence[Value]) -> list[Value]:
    """Values that a graph gives, of the types that it is given."""
    if len(values) != len(like):
        raise error("E0103", f"the graph of {t.kind} carries {len(like)} tensors and gives {len(values)}")
    for value, old in zip(values, like, strict=True):
        if value.type != old.type:
            raise error("E0108", f"{t.kind} makes {value.type} of {old.type}")
    return list(values)


def _chosen(t: Translation, name: str, values: Sequence[Value]) -> list[Value]:
    """Operands that a setting names by their positions."""
    places = t.said.integers(name, ())
    if any(not 0 <= place < len(values) for place in places):
        raise error("E0103", f"{t.kind}: {name} is {list(places)} of {len(values)} operands")
    return [values[place] for place in places]


def for_each(t: Translation) -> tuple[Value, ...]:
    """Rows of tensors one after the other: a row of each list, and what is carried on."""
    _graphs(t, 1)
    values = t.all_inputs()
    places = [t.said.integers(name, ()) for name in ("in_data_locs", "in_state_locs", "remain_locs")]
    order = [place for group in places for place in group]
    rows, states = (len(group) for group in places[:2])
    outside, lists = values[rows + states :], t.said.integer("num_out_data", 0)
    if sorted(order) != list(range(len(values))) or not rows:
        raise error("E0103", f"{t.kind} of {len(values)} operands names {order}")
    data = values[:rows]
    count = t.extent(data[0], 0)
    if any(t.extent(x, 0) != count for x in data):
        raise error("E0108", f"{t.kind} goes along tensors of different lengths")

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        place = t.reshape(number, (1,))
        now = [t.reshape(t.op("gather", x, place, axis=0), x.shape[1:]) for x in data]
        given = dict(zip(order, (*now, *carried, *outside), strict=True))
        found = t.graphs[0]([given[n] for n in range(len(order))])
        return _same(t, found[lists:], carried), found[:lists]

    carried, made = t.repeat(count, values[rows : rows + states], step)
    return (*made, *carried)


def while_loop(t: Translation) -> tuple[Value, ...]:
    """As long as a condition holds, at most `max_iterations` times: rows of lists, 0 where there was no iteration, and
    what is carried on."""
    _graphs(t, 2)
    values, most = t.all_inputs(), t.said.integer("max_iterations")
    lists = t.said.integer("num_out_data", 0)
    places, varying = t.said.integers("func_input_locs", ()), t.said.integers("func_var_locs", ())
    if not 1 <= most <= MOST_ITERATIONS:
        raise error("E0109", f"{t.kind}: max_iterations is {most}")
    if any(not 0 <= n < len(values) for n in places) or any(not 0 <= n < len(places) for n in varying):
        raise error("E0103", f"{t.kind} of {len(values)} operands names {list(places)}, {list(varying)}")
    slots = [places[n] for n in varying]
    initial = [values[n] for n in slots]

    def now(carried: Sequence[Value]) -> list[Value]:
        given = dict(zip(slots, carried, strict=True))
        return [given.get(n, value) for n, value in enumerate(values)]

    def test(carried: Sequence[Value]) -> Value:
        (going,) = t.graphs[0](_chosen(t, "cond_input_locs", now(carried)))
        return t.reshape(t.truth(going), ())

    start = test(initial)
    # What a row looks like is known after the body is made: it is made once to find out.
    with t.builder.region():
        rows = t.graphs[1](_chosen(t, "func_input_locs", now(initial)))[:lists]
    kinds = [(row.dtype, (most, *row.shape)) for row in rows]
    initial += [t.op("expand", t.scalar(0, dtype), shape=shape) for dtype, shape in kinds]
    number = Value(t.builder.name(f"{t.name}/number"), NUMBER)
    inside = [Value(t.builder.name(f"{t.name}/carried"), value.type) for value in initial]
    with t.builder.region() as nodes:
        carried = inside[: len(slots)]
        found = t.graphs[1](_chosen(t, "func_input_locs", now(carried)))
        following = _same(t, found[lists:], carried)
        place = t.op("equal", t.counting(most), t.cast(t.reshape(number, (1,)), "int64"))
        for table, row in zip(inside[len(slots) :], found[:lists], strict=True):
            here = t.reshape(place, [most, *[1] * row.type.rank])
            following.append(t.op("where", here, t.spread(row, 0), table))
        going = test(following[: len(slots)])
    body = Graph(f"{t.name}/body", (number, *inside), (going, *following), tuple(nodes))
    results = [Value(t.builder.name(f"{t.name}/result"), value.type) for value in initial]
    t.builder.keep(
        loop(
            body, initial, results, sources=t.sources, name=t.name, limit=most, count=most, condition=start,
            conditional=True,
        )
    )  # fmt: skip
    return (*results[len(slots) :], *results[: len(slots)])


def condition(t: Translation) -> tuple[Value, ...]:
    """The results of one of two graphs."""
    _graphs(t, 3)
    values = t.all_inputs()
    (test,) = t.graphs[0](_chosen(t, "cond_input_locs", values))
    test = t.reshape(t.truth(test), ())
    regions = []
    for name, graph in (("then", t.graphs[1]), ("else", t.graphs[2])):
        with t.builder.region() as nodes:
            outputs = tuple(graph(_chosen(t, f"{name}_input_locs", values)))
        regions.append(Graph(f"{t.name}/{name}", (), outputs, tuple(nodes), tuple(map(str, range(len(outputs))))))
    first, second = regions
    if [value.type for value in first.outputs] != [value.type for value in second.outputs]:
        raise t.unsupported("whose graphs give tensors of different types")
    results = tuple(Value(t.builder.name(f"{t.name}/result"), value.type) for value in first.outputs)
    t.builder.keep(branches(test, (first, second), results, t.sources, t.name))
    return results


TRANSLATORS: dict[str, Translator] = {"_cond": condition, "_foreach": for_each, "_while_loop": while_loop}
