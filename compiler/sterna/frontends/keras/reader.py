"""The way of a Keras model into a `Graph`.

Layers are applied as the model's configuration says, from its outputs back to its inputs. Everything that is wrong with
a model is reported in one `SternaError`: layers that are not supported first, all of them, then what goes wrong with
single ones; one that depends on another that failed is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from sterna.errors import Diagnostic, SternaError, error, internal_error
from sterna.frontends.custom import how_to_register
from sterna.frontends.inputs import InputInfo, Shapes, input_types
from sterna.frontends.keras import policies
from sterna.frontends.keras.config import Layer, Network, Ref, layer_of, network_of, refs_in
from sterna.frontends.keras.files import ModelFile, load
from sterna.frontends.keras.layers import translator_of
from sterna.frontends.keras.layers.complexes import complex_operation
from sterna.frontends.keras.masks import WRAPPING, is_taking, kept
from sterna.frontends.keras.order import calls_in_order
from sterna.frontends.keras.stores import Store
from sterna.frontends.keras.translation import Context, Translation, values_in
from sterna.frontends.naming import named_graph
from sterna.frontends.onnx.reader import FOLD
from sterna.frontends.source import Source
from sterna.frontends.tripped import TRIPS, tripped
from sterna.ir.graph import Graph, State, Value
from sterna.ops import Builder
from sterna_runtime.arguments import Dims

#: Layers that prepare pictures, and the dimensions of such.
_PREPARING, _PICTURE = ("Rescaling", "Normalization"), 4
_SHOWN = 4
#: Settings under which layers hold others.
_INNER = ("layer", "backward_layer", "cell")


class FailedError(Exception):
    """What a call needs could not be made, which has been reported."""


def read(source: Source, shapes: Shapes, dims: Dims) -> Graph:
    """A Keras model as a graph of core operators, its inputs and outputs called as its layers.

    Args:
        shapes: input name -> sizes, for inputs whose sizes the model leaves open.
        dims: `{"batch": size}`, or the least and the greatest; other open dimensions are called INPUT_AXIS.

    Raises:
        SternaError: E0101, E0103 to E0109, E0111 to E0113.
    """
    file = load(source)
    try:
        with closing(file):
            return _Reader(file, source.name).model(shapes, dims)
    except SternaError as mistake:
        raise mistake.within(source.name) from None


# ---------------------------------------------------------------- what a model consists of
def layers_in(layer: Layer, depth: int = 0) -> Iterator[Layer]:
    """Every layer of a model and within its layers, models themselves left out."""
    if depth > 64:
        raise error("E0103", "layers are nested more than 64 deep")
    if layer.is_model:
        for each in network_of(layer, depth).layers:
            yield from layers_in(each, depth + 1)
        return
    yield layer
    for key in _INNER:
        if isinstance(layer.config.get(key), dict) and "class_name" in layer.config[key]:
            yield from layers_in(layer.layer(key), depth + 1)


def is_supported(layer: Layer) -> bool:
    """Whether there is a translator, or another layer takes it as a part."""
    return translator_of(layer) is not None or layer.kind.endswith(("Cell", "Cells"))


def problems_of(layer: Layer) -> list[Diagnostic]:
    """The layers of a model that are not supported."""
    found: dict[str, list[str]] = {}
    for each in layers_in(layer):
        if not is_supported(each):
            found.setdefault(each.kind, []).append(f'"{each.name}"')
    problems = []
    for kind, names in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        count = f"{len(names)} layer" + ("s" if len(names) > 1 else "")
        title = f"the layer {kind} is not supported ({count})"
        problems.append(Diagnostic("E0104", title, (shown,), how_to_register("keras", kind)))
    return problems


@dataclass(frozen=True)
class Input:
    """An input of a model: its name, and what its layer says of it."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    def info(self) -> InputInfo:
        """Its sizes, where the batch is 1 if nobody says otherwise."""
        names = [f"{self.name}_{n}" if n else "batch" for n in range(len(self.shape))]
        declared = tuple(name if size is None else size for name, size in zip(names, self.shape, strict=True))
        ready = tuple((0 if n else 1) if size is None else size for n, size in enumerate(self.shape))
        return InputInfo(self.name, self.dtype, declared, ready)


def inputs_of(layer: Layer) -> list[Input]:
    """The inputs of a model, in order.

    Raises:
        SternaError: E0105, the model does not say what it takes.
    """
    network = network_of(layer)
    if not network.sequential:
        return [_input(network.by_name[ref.layer]) for ref in network.inputs]
    first = network.layers[0] if network.layers else layer
    if first.kind == "InputLayer":
        return [_input(first)]
    given = first.config.get("batch_shape", first.config.get("batch_input_shape")) or layer.config.get(
        "build_input_shape"
    )
    if given is None and first.is_model:
        return inputs_of(first)
    if given is None:
        given = layer.input_shape if layer.input_shape is not None else first.input_shape
    if given is None and isinstance(first.config.get("layer"), dict):
        given = first.layer("layer").config.get("batch_input_shape")
    if given is None:
        fix = "give the first layer an input shape (keras.Input) and save the model again"
        raise error("E0105", "the model does not say what it takes", fix=fix)
    return [Input(f"{first.name}_input", _dtype(first), _shape(given, first.name))]


def pixels_of(network: Network, inputs: Sequence[Input]) -> list[str]:
    """The inputs that take the pixels of pictures as they are: a layer of the model makes of them what it needs."""
    pictures = [each.name for each in inputs if len(each.shape) == _PICTURE and each.shape[-1] in (1, 3, 4)]
    if network.sequential:
        layers = [layer for layer in network.layers if layer.kind != "InputLayer"]
        return pictures if layers and layers[0].kind in _PREPARING else []
    preparing = [layer for layer in network.layers if layer.kind in _PREPARING]
    read = [arg for layer in preparing for call in layer.calls for arg in call.args]
    flat = [ref for arg in read for ref in (arg if isinstance(arg, (list, tuple)) else [arg])]
    first = {ref.layer for ref in flat if isinstance(ref, Ref)}
    return [name for name in pictures if name in first]


def _input(layer: Layer) -> Input:
    shape = layer.config.get("batch_shape", layer.config.get("batch_input_shape"))
    if layer.config.get("sparse") or layer.config.get("ragged"):
        raise error("E0111", f'the input "{layer.name}" is sparse or ragged, which is not supported')
    if shape is None:
        raise error("E0103", f'the input "{layer.name}" has no shape')
    return Input(layer.name, _dtype(layer), _shape(shape, layer.name))


def _shape(given: Any, name: str) -> tuple[int | None, ...]:
    if not isinstance(given, (list, tuple)) or any(
        size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0) for size in given
    ):
        raise error("E0103", f'the input "{name}" has the shape {str(given)[:80]}')
    return tuple(given)


def _dtype(layer: Layer) -> str:
    dtype = layer.config.get("dtype") or "float32"
    if isinstance(dtype, dict):
        dtype = (dtype.get("config") or {}).get("name", "float32")
    name = str(dtype).removeprefix("mixed_")
    return "float32" if layer.kind == "Embedding" or name == "floatx" else name


# ---------------------------------------------------------------- applying layers
class _Reader:
    def __init__(self, file: ModelFile, where: str):
        self.file, self.where = file, where
        self.builder = Builder(fold=FOLD)
        self.context = Context(self.builder, file.version_numbers)
        self.context.run = self.run
        self.problems: list[Diagnostic] = []
        self.wanted: dict[Value, str] = {}

    def model(self, shapes: Shapes, dims: Dims) -> Graph:
        top = layer_of(self.file.config, "the model")
        network = network_of(top)
        self.fail_if(problems_of(top))
        taken = inputs_of(top)
        types, problems = input_types([each.info() for each in taken], shapes, dims)
        self.fail_if(problems)
        inputs = tuple(Value(self.builder.name(each.name), kind) for each, kind in zip(taken, types, strict=True))
        try:
            outputs, names = self.outputs(network, self.file, list(inputs), "")
        except FailedError:
            outputs, names = [], []
        self.fail_if(self.problems)
        if any(value in self.context.imaginary for value in outputs):
            fix = "make two real outputs of it: keras.ops.real and keras.ops.imag"
            raise error("E0113", "an output of the model is complex, which is not supported", fix=fix)
        states = tuple(State(name, array) for name, _, array in self.context.states)
        current = tuple(value for _, value, _ in self.context.states)
        following = [self.context.left_behind.get(name, value) for name, value, _ in self.context.states]
        made = named_graph(
            network.name,
            self.builder.nodes,
            (*inputs, *current),
            (*outputs, *following),
            (*_distinct(names), *(state.name for state in states)),
            self.wanted,
        )
        pixels = {name: {"mean": [0.0], "std": [1.0]} for name in pixels_of(network, taken)}
        about = {"normalization": pixels} if pixels else {}
        return replace(made, states=states, metadata=about, halves=frozenset(self.builder.halves))

    @staticmethod
    def fail_if(problems: Sequence[Diagnostic]) -> None:
        if problems:
            raise SternaError(dict.fromkeys(problems))

    def outputs(
        self, network: Network, stores: ModelFile | Store, inputs: list[Value], prefix: str
    ) -> tuple[list[Value], list[str]]:
        """The results of a model, and what they are called."""
        if network.sequential:
            value: Any = inputs[0] if len(inputs) == 1 else inputs
            last = network.name
            for layer in network.layers:
                if layer.kind != "InputLayer":
                    value, last = (
                        self.apply(layer, _store(stores, layer), (value,), {}, prefix + layer.name),
                        layer.name,
                    )
            found = values_in(value)
            return found, [last] * len(found)
        known: dict[tuple[str, int], list[Any]] = {}
        if len(inputs) != len(network.inputs):
            raise error("E0103", f"{network.name} takes {len(network.inputs)} inputs, not {len(inputs)}")
        for ref, value in zip(network.inputs, inputs, strict=True):
            known[ref.layer, ref.call] = [value]
        run = _Run(self, network, stores, prefix, known)
        if is_taking(self.context) and any(layer.kind == "MultiHeadAttention" for layer in network.layers):
            for key in calls_in_order(network):
                run.make(key)
        results = [run.result(ref) for _, ref in network.outputs]
        return results, [name or ref.layer for name, ref in network.outputs]

    def run(self, layer: Layer, store: Store, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> Any:
        """The result of a layer within another one."""
        if layer.is_model:
            outputs, _ = self.outputs(network_of(layer), store, values_in(args[0]), f"{name}/")
            return outputs[0] if len(outputs) == 1 else outputs
        translate = translator_of(layer)
        if translate is None:
            raise error("E0104", f"the layer {layer.kind} is not supported", fix=how_to_register("keras", layer.kind))
        call = Translation(self.context, layer, store, args, kwargs, name)
        translate = complex_operation(call) or translate
        if (dtype := policies.computed_in(layer)) is None:
            return self.masked(layer, args, kwargs, translate(call))
        call = policies.operands(call, dtype)
        return policies.result(call, self.masked(layer, call.args, call.kwargs, translate(call)), dtype)

    def masked(self, layer: Layer, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
        """What a layer gives, with the mask that it has then."""
        given, made, masks = values_in(args or kwargs.get("inputs")), values_in(result), self.context.masks
        mask = kwargs.get("mask")
        found = kept(layer.kind, given, mask if isinstance(mask, Value) else None, self.context)
        if found is not None:
            masks.setdefault(made[0], found)
        elif isinstance(result, Value) and result in masks and result in given and layer.kind not in WRAPPING:
            return self.builder.add("identity", result)  # the operand itself stays masked
        return result

    def apply(self, layer: Layer, store: Store, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> Any:
        """The result of a layer of the model; what goes wrong is kept.

        Raises:
            FailedError: it went wrong.
        """
        values = [value for each in (*args, *kwargs.values()) for value in values_in(each)]
        place = f'layer "{name}" ({layer.kind})'
        try:
            result = self.run(layer, store, args, kwargs, name)
            if not values_in(result):
                raise error("E0113", f"{layer.kind} gives nothing")
        except SternaError as mistake:
            self.failed(mistake, place)
            raise FailedError from None
        except (MemoryError, FailedError):
            raise
        except TRIPS as problem:
            self.failed(tripped(problem, layer.kind, values), place)
            raise FailedError from None
        except Exception as problem:  # ours, and still said with its place
            self.failed(internal_error(f"{type(problem).__name__}: {problem}"), place)
            raise FailedError from None
        made = values_in(result)
        if made and len(made) == 1:
            self.wanted.setdefault(made[0], name)
        return result

    def failed(self, mistake: SternaError, place: str) -> None:
        self.problems += [replace(each, where=(place, *each.where)) for each in mistake.diagnostics]


class _Run:
    """One application of a functional model: what its calls gave."""

    def __init__(
        self, reader: _Reader, network: Network, stores: ModelFile | Store, prefix: str,
        known: dict[tuple[str, int], list[Any]],
    ):  # fmt: skip
        self.reader, self.network, self.stores, self.prefix, self.known = reader, network, stores, prefix, known

    def result(self, wanted: Ref) -> Value:
        """A result, with all that it depends on.

        Raises:
            FailedError, SternaError: it cannot be made.
        """
        self.make((wanted.layer, wanted.call))
        found: Any = self.value(wanted)
        return found  # type: ignore[no-any-return]

    def make(self, wanted: tuple[str, int]) -> None:
        """Makes a call, with all that it depends on."""
        waiting, visiting = [wanted], set[tuple[str, int]]()
        while waiting:
            key = waiting[-1]
            if key in self.known:
                waiting.pop()
                continue
            layer = self.network.by_name[key[0]]
            if key[1] >= len(layer.calls):
                raise error("E0103", f'the layer "{layer.name}" is not called {key[1] + 1} times')
            call = layer.calls[key[1]]
            missing = [
                (r.layer, r.call) for r in refs_in((call.args, call.kwargs)) if (r.layer, r.call) not in self.known
            ]
            if missing:
                if key in visiting:
                    raise error("E0103", f'the layer "{layer.name}" depends on itself')
                visiting.add(key)
                waiting += missing
                continue
            args = tuple(self.value(each) for each in call.args)
            kwargs = {name: self.value(each) for name, each in call.kwargs.items()}
            name = self.prefix + layer.name + (f"_{key[1]}" if key[1] else "")
            made = self.reader.apply(layer, _store(self.stores, layer), args, kwargs, name)
            self.known[key] = values_in(made) if not isinstance(made, list) else made
            waiting.pop()

    def value(self, given: Any) -> Any:
        """An argument with its results in place."""
        if isinstance(given, Ref):
            results = self.known[given.layer, given.call]
            if given.result >= len(results) or not isinstance(results[given.result], Value):
                raise error("E0103", f'the layer "{given.layer}" has no result {given.result}')
            return results[given.result]
        if isinstance(given, (list, tuple)):
            return type(given)(self.value(each) for each in given)
        if isinstance(given, dict):
            return {key: self.value(each) for key, each in given.items()}
        if isinstance(given, slice):
            return slice(*(self.value(each) for each in (given.start, given.stop, given.step)))
        return given


def _store(stores: ModelFile | Store, layer: Layer) -> Store:
    if isinstance(stores, ModelFile):
        return stores.store(layer.name, layer.kind, layer.number)
    return stores.child("layers", layer.number, layer.name, layer.kind)


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of results, with a number after those that stand there twice."""
    taken: set[str] = set()
    result = []
    for name in names:
        fresh, n = name, 0
        while fresh in taken:
            n += 1
            fresh = f"{name}.{n}"
        taken.add(fresh)
        result.append(fresh)
    return result
