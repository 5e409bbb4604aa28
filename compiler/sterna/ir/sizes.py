"""Sizes that a model computes while it runs: how many elements are not zero, how many boxes were found.

Such a size is a `Symbol` like that of an open dimension, with bounds. A node defines it, the one whose result is the
size; every other node whose results or attributes mention the symbol runs after that node, although no value says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sterna.ir.graph import Graph, Node, Value, captured
from sterna.ir.integer import Atom, ComputedSymbol, Int, Symbol, as_int, of, symbol
from sterna_runtime.advice import Advice, dims
from sterna_runtime.dims import given_dimension

#: What sizes may have to be multiples of: of images that are halved several times.
DIVISORS = (1, 2, 4, 8, 16, 32, 64, 128)
BIND = "bind_size"  # the operator that defines a size


def defined_size(node: Node) -> tuple[Symbol, Value] | None:
    """The symbol whose size a node computes, and the result that is the size."""
    if node.op != BIND:
        return None
    (symbol,) = as_int(node.attributes["size"][0]).symbols()
    return symbol, node.output


def mentioned_sizes(node: Node) -> set[Symbol]:
    """The symbols in the types of a node's results, in its attributes and in its regions, but the one it defines."""
    found = symbols_of(value.shape for value in node.outputs)
    if node.op != BIND:
        found |= symbols_in(node.attributes)
    return found.union(*(mentioned_sizes(inner) for region in node.regions for inner in region.nodes))


def symbols_of(rows: Iterable[Iterable[Int]]) -> set[Symbol]:
    """All symbols in some shapes."""
    return {symbol for row in rows for size in row if not size.is_const for symbol in size.symbols()}


def symbols_in(attributes: Mapping[str, Any]) -> set[Symbol]:
    """All symbols in the attributes of a node."""
    return symbols_of(_integers(attribute) for attribute in attributes.values())


def definitions(graph: Graph) -> dict[Symbol, Node]:
    """The node that computes each symbol, in execution order; not those in regions, which are known only there."""
    found = ((defined_size(node), node) for node in graph.nodes)
    return {size[0]: node for size, node in found if size is not None}


def all_definitions(graph: Graph) -> dict[Symbol, Node]:
    """The same with those in regions."""
    found: dict[Symbol, Node] = {}
    for node in graph.nodes:
        for region in node.regions:
            found |= all_definitions(region)
        if (size := defined_size(node)) is not None:
            found[size[0]] = node
    return found


def dimensions(graph: Graph) -> tuple[Symbol, ...]:
    """The symbols that sizes are made of: those of the inputs, then those that the graph computes, in order."""
    return (*open_dimensions(graph), *all_definitions(graph))


def open_dimensions(graph: Graph) -> tuple[Symbol, ...]:
    """The symbols that the sizes of a graph's inputs are made of, in order of appearance."""
    found = (s for v in graph.inputs for n in v.shape for s in sorted(n.symbols(), key=lambda s: s.name))
    return tuple(dict.fromkeys(found))


def needed_nodes(nodes: Sequence[Node], outputs: Iterable[Value]) -> tuple[Node, ...]:
    """The nodes that some values need: those that compute them, and the sizes in their types."""
    needed = set(outputs)
    sizes = symbols_of(value.shape for value in needed)
    kept = []
    for node in reversed(nodes):
        size = defined_size(node)
        if any(value in needed for value in node.outputs) or (size is not None and size[0] in sizes):
            kept.append(node)
            needed.update(node.operands)
            needed.update(captured(node))
            sizes |= mentioned_sizes(node)
    return tuple(reversed(kept))


def at_sizes(value: Any, sizes: Mapping[Symbol, int]) -> Any:
    """An attribute in which symbols have their sizes."""
    if isinstance(value, Int):
        return value.substitute({symbol: as_int(size) for symbol, size in sizes.items()})
    if isinstance(value, tuple):
        return tuple(at_sizes(v, sizes) for v in value)
    return value


def sizes_wanted(shape: Iterable[Int]) -> Advice | None:
    """What to do where these sizes must be known when the model is compiled; None where all of them are."""
    symbols = dict.fromkeys(s for size in shape for s in sorted(size.symbols(), key=lambda s: s.name))
    given = {given_dimension(s.name)[0]: "<size>" for s in symbols if not isinstance(s, ComputedSymbol)}
    found = [s.name for s in symbols if isinstance(s, ComputedSymbol)]
    ways: list[Advice | str] = [Advice("one size: ", dims(given))] if given else []
    if found:
        ways.append(f"the size that the data decide ({', '.join(found)}) cannot be open here: declare it in the model")
    return Advice.join("; ", ways) if ways else None


def multiples_wanted(shapes: Sequence[Sequence[Int]]) -> Advice | None:
    """What to do where shapes have to fit one another that only do for multiples of some number, as where an image that
    was halved is doubled and joined with what it was; None where that is not it."""
    rows = [size for shape in shapes for size in shape if not size.is_const]
    symbols = sorted({s for size in rows for s in size.symbols()}, key=lambda s: s.name)
    if any(isinstance(s, ComputedSymbol) or s.hi is None for s in symbols):
        return None
    differing = [_different(rows, symbols, divisor) for divisor in DIVISORS]
    fewest = min(differing)
    divisor = DIVISORS[differing.index(fewest)]
    given = {}
    for s in symbols:
        if _different(rows, [other for other in symbols if other != s], divisor) == fewest:
            continue
        name, known = given_dimension(s.name)
        least, most = -(-(s.lo or 0) // divisor), (s.hi or 0) // divisor
        if divisor > 1 and max(least, 1) <= most:
            given[name] = (max(least, 1) * divisor * known, most * divisor * known, divisor * known)
    return Advice(f"multiples of {max(d for *_, d in given.values())}: ", dims(given)) if given else None


def equal_wanted(a: Int, b: Int) -> Advice | None:
    """What to do where two sizes have to be equal, one of which is an open dimension that the other has nothing to do
    with, as the length of a mask beside that of a cache and one; None where that is not it."""
    names = a.symbols() | b.symbols()
    if a.symbols() & b.symbols() or any(isinstance(s, ComputedSymbol) or not s.name.isidentifier() for s in names):
        return None
    for one, other in ((a, b), (b, a)):
        if other.symbols() and [of(s) for s in one.symbols()] == [one]:
            return Advice("if they are equal: ", dims({str(one): str(other).replace(" ", "")}))
    return None


def _different(sizes: Iterable[Int], symbols: Iterable[Symbol], divisor: int) -> int:
    """How many sizes differ where symbols are multiples of a number."""
    values: dict[Atom, Int] = {}
    for s in symbols:
        least, most = -(-(s.lo or 0) // divisor), (s.hi or 0) // divisor
        values[s] = symbol(f"{s.name}/{divisor}", least, most) * divisor
    return len({size.substitute(values) for size in sizes})


def _integers(attribute: Any) -> Iterator[Int]:
    if isinstance(attribute, Int):
        yield attribute
    elif isinstance(attribute, tuple):
        for item in attribute:
            yield from _integers(item)


def reserved(size: Int) -> Int:
    """The size for which there is memory: that of the caller's dimensions, the most of what the model computes."""
    return size.substitute(
        {s: as_int(s.hi) for s in size.symbols() if isinstance(s, ComputedSymbol) and s.hi is not None}
    )
