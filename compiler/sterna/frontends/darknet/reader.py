"""The way of a DarkNet network into a `Graph`.

Layers follow one another, and each takes its weights from the file where the one before ended: after one that goes
wrong nothing can be said of the rest. Sections that are not supported are reported all together before.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.custom import how_to_register
from sterna.frontends.darknet.config import Section, parse
from sterna.frontends.darknet.layers import DETECTORS, translator_of
from sterna.frontends.darknet.translation import Translation
from sterna.frontends.darknet.weights import Weights
from sterna.frontends.inputs import InputInfo, Shapes, input_types
from sterna.frontends.naming import named_graph
from sterna.frontends.onnx.reader import FOLD
from sterna.frontends.pairs import pair_of
from sterna.frontends.remembered import States
from sterna.frontends.source import Source
from sterna.frontends.tripped import TRIPS, tripped
from sterna.ir.graph import Graph, State, Value
from sterna.ops import Builder
from sterna_runtime.arguments import Dims

INPUT = "data"
_SHOWN = 4
_PICTURE = 4  # dimensions


def files_of(source: Source) -> tuple[Path, Path]:
    """The description and the weights. Errors: as `pair_of`."""
    return pair_of(source, ".cfg", ".weights")


def sections_of(path: Path) -> tuple[Section, list[Section]]:
    """The sections of a description.

    Raises:
        SternaError: E0101 or E0103.
    """
    try:
        return parse(path.read_bytes())
    except OSError as problem:
        raise error("E0101", f"{path.name} cannot be read: {problem.strerror}") from None


def problems_of(layers: list[Section]) -> list[Diagnostic]:
    """The sections that are not supported."""
    found: dict[str, list[str]] = {}
    for section in layers:
        if translator_of(section.kind) is None:
            found.setdefault(section.kind, []).append(f"line {section.line}")
    problems = []
    for kind, places in found.items():
        shown = ", ".join(places[:_SHOWN]) + (f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")
        count = f"{len(places)} layer" + ("s" if len(places) > 1 else "")
        title = f"the layer [{kind}] is not supported ({count})"
        problems.append(Diagnostic("E0104", title, (shown,), how_to_register("darknet", kind)))
    return problems


def input_of(net: Section) -> InputInfo:
    """The input: a picture of channels first, or a row of `inputs` numbers."""
    height, width, channels = (net.integer(key) for key in ("height", "width", "channels"))
    sizes = (channels, height, width) if height and width and channels else (net.integer("inputs"),)
    if any(not 0 < size < 1 << 20 for size in sizes):
        raise error("E0103", f"[net] has {channels} channels, {width} x {height}, inputs {net.integer('inputs')}")
    return InputInfo(INPUT, "float32", ("batch", *sizes), (1, *sizes))


def read(source: Source, shapes: Shapes, dims: Dims) -> Graph:
    """A DarkNet network as a graph of core operators.

    Args:
        shapes: `{"data": sizes}`; pictures of another size go through networks without connected layers.
        dims: `{"batch": size}`, or the least and the greatest.

    Returns:
        A graph with the input `data` and an output for every detector and for what it reads, `layer<N>_<kind>`; for
        networks without one the last layer.

    Raises:
        SternaError: E0101, E0103, E0104, E0106, E0108, E0109, E0112 or E0113.
    """
    config, weights = files_of(source)
    try:
        return _graph(*sections_of(config), Weights(weights), shapes, dims, config.stem)
    except SternaError as mistake:
        raise mistake.within(config.name) from None


def _graph(net: Section, layers: list[Section], weights: Weights, shapes: Shapes, dims: Dims, title: str) -> Graph:
    info = input_of(net)
    types, problems = input_types([info], shapes, dims)
    if problems := problems_of(layers) + problems:
        raise SternaError(problems)
    builder = Builder(fold=FOLD)
    x = Value(builder.name(INPUT), types[0])
    results: list[Value] = []
    states = States()
    steps = net.positive("time_steps")
    for section in layers:
        results.append(_layer(section, weights, results[-1] if results else x, results, builder, states, steps))
    outputs = {name_of(section): results[section.number] for section in outputs_of(layers)}
    wanted = {value: name_of(section) for section, value in zip(layers, results, strict=True)}
    # `time_steps` of [net] is for training: a run is one step, and what layers remember goes from run to run.
    names = tuple(states.before)
    after = tuple(states.after[name] for name in names)
    made = named_graph(
        title, builder.nodes, (x, *states.before.values()), (*outputs.values(), *after), (*outputs, *names), wanted
    )
    # DarkNet's programs divide the pixels of a picture by 255.
    about = {"normalization": {info.name: {"mean": [0.0], "std": [255.0]}}} if len(info.declared) == _PICTURE else {}
    states_ = tuple(State(name) for name in names)
    return replace(made, states=states_, metadata=about, halves=frozenset(builder.halves))


def _layer(
    section: Section, weights: Weights, x: Value, before: list[Value], builder: Builder, states: States, steps: int
) -> Value:
    translate = translator_of(section.kind)
    assert translate is not None
    try:
        return translate(Translation(section, weights, x, before, builder, states, steps))
    except SternaError as mistake:
        raise mistake.within(section.place) from None
    except TRIPS as problem:
        raise tripped(problem, f"[{section.kind}]", [x]).within(section.place) from None


def outputs_of(layers: list[Section]) -> list[Section]:
    """The layers whose results are those of the network: detectors with what they read, else the last one."""
    found = {n for s in layers if s.kind in DETECTORS for n in (s.number - 1, s.number) if n >= 0}
    return [layers[n] for n in sorted(found)] or layers[-1:]


def name_of(section: Section) -> str:
    """What the result of a layer is called."""
    return f"layer{section.number}_{'conv' if section.kind == 'convolutional' else section.kind}"
