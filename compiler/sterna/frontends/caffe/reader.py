"""The way of a Caffe network into a `Graph`.

Layers that are not supported are reported all together, then what goes wrong with single ones; one that depends on
another that failed is passed over.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.caffe.blobs import read_blobs
from sterna.frontends.caffe.layers import translator_of
from sterna.frontends.caffe.network import Network, network_of
from sterna.frontends.caffe.prototxt import parse
from sterna.frontends.caffe.translation import Translation
from sterna.frontends.custom import how_to_register
from sterna.frontends.inputs import InputInfo, Shapes, input_types
from sterna.frontends.naming import named_graph
from sterna.frontends.onnx.reader import FOLD
from sterna.frontends.pairs import pair_of
from sterna.frontends.remembered import States
from sterna.frontends.source import Source
from sterna.frontends.tripped import TRIPS, tripped
from sterna.ir.graph import Array, Graph, State, Value
from sterna.ops import Builder
from sterna_runtime.arguments import Dims

TEXT, WEIGHTS = ".prototxt", ".caffemodel"
_SHOWN = 4


def files_of(source: Source) -> tuple[Path, Path]:
    """The description and the weights. Errors: as `pair_of`."""
    return pair_of(source, TEXT, WEIGHTS)


def network_in(path: Path) -> Network:
    """The network that a description describes.

    Raises:
        SternaError: E0101, E0103 or E0105.
    """
    try:
        return network_of(parse(path.read_bytes()))
    except OSError as problem:
        raise error("E0101", f"{path.name} cannot be read: {problem.strerror}") from None


def problems_of(network: Network) -> list[Diagnostic]:
    """The layers that are not supported."""
    found: dict[str, list[str]] = {}
    for layer in network.layers:
        if translator_of(layer.kind) is None:
            found.setdefault(layer.kind, []).append(f'"{layer.name}"')
    problems = []
    for kind, names in found.items():
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        count = f"{len(names)} layer" + ("s" if len(names) > 1 else "")
        title = f"the layer {kind} is not supported ({count})"
        problems.append(Diagnostic("E0104", title, (shown,), how_to_register("caffe", kind)))
    return problems


def inputs_of(network: Network) -> list[InputInfo]:
    """The inputs as the description declares them."""
    return [InputInfo(name, "float32", ("batch", *sizes[1:]), sizes) for name, sizes in network.inputs]


def read(source: Source, shapes: Shapes, dims: Dims) -> Graph:
    """A Caffe network as a graph of core operators, its inputs and outputs called as its blobs.

    Args:
        shapes: input name -> sizes, instead of those that the description says.
        dims: `{"batch": size}`, or the least and the greatest.

    Raises:
        SternaError: E0101, E0103 to E0106, E0108, E0109, E0112 or E0113.
    """
    text, weights = files_of(source)
    try:
        return _graph(network_in(text), read_blobs(weights), shapes, dims)
    except SternaError as mistake:
        raise mistake.within(text.name) from None


def _graph(network: Network, blobs: dict[str, list[Array]], shapes: Shapes, dims: Dims) -> Graph:
    infos = inputs_of(network)
    types, problems = input_types(infos, shapes, dims)
    if problems := problems_of(network) + problems:
        raise SternaError(problems)
    builder = Builder(fold=FOLD)
    inputs = [Value(builder.name(info.name), kind) for info, kind in zip(infos, types, strict=True)]
    values: dict[str, Value | None] = dict(zip((info.name for info in infos), inputs, strict=True))
    wanted: dict[Value, str] = {}
    states = States()
    for layer in network.layers:
        missing = [name for name in layer.bottoms if name not in values]
        place = f'layer "{layer.name}" ({layer.kind})'
        if missing:
            problems.append(Diagnostic("E0103", f'nothing makes "{missing[0]}" before it is read', (place,)))
        operands = [values.get(name) for name in layer.bottoms]
        if any(operand is None for operand in operands):
            values.update(dict.fromkeys(layer.tops))
            continue
        given = [operand for operand in operands if operand is not None]
        translate = translator_of(layer.kind)
        assert translate is not None
        try:
            made = translate(Translation(layer, blobs.get(layer.name, ()), given, builder, states))
            results = [made] if isinstance(made, Value) else list(made)
            if len(results) < len(layer.tops):
                raise error("E0113", f"{layer.kind} with {len(layer.tops)} results is not supported")
        except SternaError as mistake:
            problems += [replace(each, where=(place, *each.where)) for each in mistake.diagnostics]
            values.update(dict.fromkeys(layer.tops))
            continue
        except TRIPS as problem:
            problems += tripped(problem, layer.kind, given).within(place).diagnostics
            values.update(dict.fromkeys(layer.tops))
            continue
        for top, value in zip(layer.tops, results, strict=False):
            values[top] = value
            wanted[value] = top
    outputs = {name: found for name in network.outputs if (found := values.get(name)) is not None}
    if problems:
        raise SternaError(dict.fromkeys(problems))
    if not outputs:
        raise error("E0103", "the network has no outputs")
    names = tuple(states.before)
    after = (states.after[name] for name in names)
    made_graph = named_graph(
        network.name, builder.nodes, (*inputs, *states.before.values()), (*outputs.values(), *after),
        (*outputs, *names), wanted,
    )  # fmt: skip
    return replace(made_graph, states=tuple(State(name) for name in names), halves=frozenset(builder.halves))
