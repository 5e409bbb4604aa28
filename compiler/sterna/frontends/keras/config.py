"""The configuration of a Keras model: its layers and how they are called, of every version that wrote one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sterna.errors import error

#: Classes of models that stand where layers do.
MODELS = ("Functional", "Model", "Sequential")
DEEPEST = 32  # models within models


@dataclass(frozen=True)
class Ref:
    """A result of a call: the layer's name, which of its calls, which of its results."""

    layer: str
    call: int
    result: int


@dataclass(frozen=True)
class Call:
    """Where a layer is applied: arguments hold `Ref`s, lists of them, and constants."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Layer:
    """A layer of a model.

    Args:
        kind: its class.
        module: where Keras has it, or the package of a custom one; empty where the file does not say.
        config: what its constructor takes.
        calls: of a functional model; of a sequential one empty.
        number: how many layers of this class stand before it in its model.
        input_shape: what it was built for; None where the file does not say.
    """

    kind: str
    module: str
    name: str
    config: Mapping[str, Any]
    calls: tuple[Call, ...] = ()
    number: int = 0
    input_shape: Any = None

    @property
    def is_model(self) -> bool:
        return self.kind in MODELS

    def layer(self, key: str) -> Layer:
        """A layer that is an argument of this one's constructor.

        Raises:
            SternaError: E0103, there is none.
        """
        return layer_of(self.config.get(key), f"{key} of {self.name}")

    def layers(self, key: str) -> list[Layer]:
        """Layers that are one argument of this one's constructor.

        Raises:
            SternaError: E0103, they are not there.
        """
        given = self.config.get(key)
        if not isinstance(given, (list, tuple)):
            raise error("E0103", f"{key} of {self.name} is no list of layers")
        return [layer_of(each, f"{key} of {self.name}") for each in given]


@dataclass(frozen=True)
class Network:
    """A model.

    Args:
        inputs: the input layers; outputs: by name, or just in order.
        sequential: layers follow one another.
    """

    name: str
    layers: tuple[Layer, ...]
    inputs: tuple[Ref, ...] = ()
    outputs: tuple[tuple[str, Ref], ...] = ()
    sequential: bool = False
    by_name: Mapping[str, Layer] = field(default_factory=dict)


def layer_of(value: Any, what: str) -> Layer:
    """A serialized layer.

    Raises:
        SternaError: E0103.
    """
    if not isinstance(value, dict) or not isinstance(value.get("class_name"), str):
        raise error("E0103", f"{what} is not a layer")
    config = value.get("config")
    if isinstance(config, list):  # Sequential of Keras 1 and 2.1
        config = {"name": str(value.get("name", "sequential")), "layers": config}
    if not isinstance(config, dict):
        raise error("E0103", f"{what} has no config")
    registered = value.get("registered_name")
    kind = value["class_name"].split(">")[-1]
    module = str(value.get("module") or "")
    if registered and registered != kind and not module.startswith("keras"):
        module = str(registered)
    built = value.get("build_config") or {}
    shape = built.get("input_shape") if isinstance(built, dict) else None
    return Layer(kind, module, str(config.get("name", value.get("name", kind))), config, input_shape=shape)


def network_of(layer: Layer, depth: int = 0) -> Network:
    """The model that a layer of class Functional, Model or Sequential is.

    Raises:
        SternaError: E0103, it contradicts itself; E0104, it is a class of the user's own.
    """
    if not layer.is_model or not isinstance(layer.config.get("layers"), list):
        fix = "build the model of layers (Functional or Sequential) and save that"
        raise error("E0104", f"the model is of the class {layer.kind}, whose code is not in the file", fix=fix)
    if depth > DEEPEST:
        raise error("E0103", f"models are nested more than {DEEPEST} deep")
    entries = layer.config["layers"]
    plain = [layer_of(entry, f"layer {n} of {layer.name}") for n, entry in enumerate(entries)]
    counts: dict[str, int] = {}
    layers: list[Layer] = []
    names: set[str] = set()
    for entry, each in zip(entries, plain, strict=True):
        name = str(entry.get("name") or each.name)
        if name in names:
            raise error("E0103", f'two layers of {layer.name} are called "{name}"')
        names.add(name)
        # A sequential model keeps its input apart, and does not count it among its layers.
        number = counts.setdefault(each.kind, 0)
        counts[each.kind] += 1
        layers.append(Layer(each.kind, each.module, name, each.config, (), number, each.input_shape))
    if layer.kind == "Sequential":
        return Network(layer.name, tuple(layers), sequential=True, by_name={each.name: each for each in layers})
    known = frozenset(names)
    called = tuple(
        Layer(
            each.kind, each.module, each.name, each.config, tuple(_calls(entry.get("inbound_nodes"), known, each.name)),
            each.number, each.input_shape,
        )
        for entry, each in zip(entries, layers, strict=True)
    )  # fmt: skip
    inputs = tuple(ref for _, ref in _ends(layer.config.get("input_layers"), known, layer.name))
    outputs = tuple(_ends(layer.config.get("output_layers"), known, layer.name))
    if not outputs:
        raise error("E0103", f"{layer.name} has no outputs")
    old = any(not isinstance(node, dict) for entry in entries for node in entry.get("inbound_nodes") or ())
    called, outputs = _counted_from_0(called, outputs, old)
    return Network(layer.name, called, inputs, outputs, False, {each.name: each for each in called})


def _counted_from_0(
    layers: tuple[Layer, ...], outputs: tuple[tuple[str, Ref], ...], old: bool
) -> tuple[tuple[Layer, ...], tuple[tuple[str, Ref], ...]]:
    """Layers and outputs whose calls of inner models count from 0.

    Functional models begin with a call of their own, which no file has: Keras 2 counts the others from 1, Sequential
    models with an input included; Keras 3 does so where outputs of the model are listed, and in calls from 0.
    """
    within = [ref for each in layers for call in each.calls for ref in refs_in((call.args, call.kwargs))]
    shifts: dict[str, int] = {}
    for each in layers:
        if not each.is_model or not each.calls:
            continue
        numbers = [
            ref.call for ref in (*(within if old else ()), *(ref for _, ref in outputs)) if ref.layer == each.name
        ]
        begun = each.kind != "Sequential" or (old and _starts_with_input(each))
        if numbers and min(numbers) > 0 and (begun or max(numbers) >= len(each.calls)):
            shifts[each.name] = 1
    if not shifts:
        return layers, outputs
    if old:
        layers = tuple(
            replace(each, calls=tuple(Call(_moved(c.args, shifts), _moved(c.kwargs, shifts)) for c in each.calls))
            for each in layers
        )
    return layers, tuple((name, _moved(ref, shifts)) for name, ref in outputs)


def _starts_with_input(layer: Layer) -> bool:
    inner = layer.config.get("layers") or [{}]
    first = inner[0] if isinstance(inner[0], dict) else {}
    config = first.get("config")
    shaped = isinstance(config, dict) and (config.get("batch_input_shape") or config.get("batch_shape"))
    return first.get("class_name") == "InputLayer" or bool(shaped)


def _moved(value: Any, shifts: Mapping[str, int]) -> Any:
    """An argument whose results are of other calls."""
    if isinstance(value, Ref):
        return replace(value, call=value.call - shifts.get(value.layer, 0))
    if isinstance(value, Mapping):
        return {key: _moved(each, shifts) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(each, shifts) for each in value)
    if isinstance(value, slice):
        return slice(*(_moved(each, shifts) for each in (value.start, value.stop, value.step)))
    return value


def _ends(value: Any, names: frozenset[str], where: str) -> list[tuple[str, Ref]]:
    """Inputs or outputs: a result, a list of them, or results by name; nested as the model's structure is."""
    if _is_ref(value, names):
        return [("", Ref(value[0], value[1], value[2]))]
    if isinstance(value, dict):
        return [(str(key), ref) for key, each in sorted(value.items()) for _, ref in _ends(each, names, where)]
    if isinstance(value, list):
        return [pair for each in value for pair in _ends(each, names, where)]
    raise error("E0103", f"an input or output of {where} is of no layer: {str(value)[:80]}")


def _is_ref(value: Any, names: frozenset[str]) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= 3
        and isinstance(value[0], str)
        and value[0] in names
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value[1:3])
    )


def _calls(nodes: Any, names: frozenset[str], where: str) -> Iterator[Call]:
    if nodes is None:
        return
    if not isinstance(nodes, list):
        raise error("E0103", f"inbound_nodes of {where} is not a list")
    for node in nodes:
        if isinstance(node, dict) and "args" in node:
            args, kwargs = decoded(node.get("args"), names), decoded(node.get("kwargs") or {}, names)
            if not isinstance(kwargs, dict):
                raise error("E0103", f"kwargs of a call of {where} is not a dictionary")
            yield Call(tuple(args) if isinstance(args, list) else (args,), kwargs)
        else:
            yield _old_call(node, names, where)


def _old_call(node: Any, names: frozenset[str], where: str) -> Call:
    """[[layer, call, result, keywords], ...], as versions 1 and 2 write it, or that by the names of a dictionary."""
    entries = [node] if isinstance(node, list) and node and isinstance(node[0], str) else node
    if isinstance(entries, dict):
        entries = [each for _, each in sorted(entries.items())]
    if not isinstance(entries, list):
        raise error("E0103", f"a call of {where} is not a list")
    values: list[Any] = []
    kwargs: dict[str, Any] = {}
    for entry in entries:
        if not isinstance(entry, list) or len(entry) < 3:
            raise error("E0103", f"a call of {where} has an argument of another form: {str(entry)[:80]}")
        if entry[0] == "_CONSTANT_VALUE":
            values.append(decoded(entry[2], names))
        elif _is_ref(entry, names):
            values.append(Ref(entry[0], entry[1], entry[2]))
        else:
            raise error("E0103", f"a call of {where} is of no layer: {str(entry)[:80]}")
        if len(entry) > 3 and isinstance(entry[3], dict):
            kwargs |= {key: _old_value(value, names) for key, value in entry[3].items()}
    return Call((values[0],) if len(values) == 1 else (values,), kwargs)


def _old_value(value: Any, names: frozenset[str]) -> Any:
    """A keyword's value, where results stand as lists."""
    if _is_ref(value, names):
        return Ref(value[0], value[1], value[2])
    if isinstance(value, list):
        return [_old_value(each, names) for each in value]
    return decoded(value, names)


def decoded(value: Any, names: frozenset[str] = frozenset()) -> Any:
    """What a serialized argument stands for (keras.saving, serialization of version 3)."""
    if isinstance(value, list):
        return [decoded(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    kind, config = value.get("class_name"), value.get("config")
    if kind == "__keras_tensor__" and isinstance(config, dict):
        history: Any = config.get("keras_history")
        if not _is_ref(history, names):
            raise error("E0103", f"an argument is of no layer: {str(history)[:80]}")
        return Ref(history[0], history[1], history[2])
    if kind in ("__tensor__", "__numpy__") and isinstance(config, dict):
        try:
            return np.asarray(config.get("value"), np.dtype(str(config.get("dtype", "float32"))))
        except (TypeError, ValueError):
            raise error("E0103", "a constant among the arguments is no array") from None
    if kind == "__tuple__":
        items: Any = config.get("value", ()) if isinstance(config, dict) else value.get("items") or ()
        return tuple(decoded(each, names) for each in items)
    if kind == "__ellipsis__":
        return ...
    if kind in ("__slice__", "slice"):
        parts = config if isinstance(config, dict) else value
        return slice(*(decoded(parts.get(key), names) for key in ("start", "stop", "step")))
    if kind is not None and isinstance(config, dict):
        return value  # a layer, an initializer ...: whoever wants it looks into it
    return {key: decoded(each, names) for key, each in value.items()}


def refs_in(value: Any) -> Iterator[Ref]:
    """The results that an argument holds, in order."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from refs_in(each)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for each in value:
            yield from refs_in(each)
    elif isinstance(value, slice):
        yield from refs_in((value.start, value.stop, value.step))
