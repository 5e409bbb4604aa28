"""The way of a model of Core ML into a `Graph`.

A model is a program, a network, a classical model, or a pipeline of models; each is a function from named values to
named values. Everything that is wrong with it is reported in one `SternaError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.coreml import classical
from sterna.frontends.coreml.interface import Feature, feature
from sterna.frontends.coreml.labels import labels_of, picked
from sterna.frontends.coreml.layers.network import Network
from sterna.frontends.coreml.mil.constants import Constants, sizes_of
from sterna.frontends.coreml.mil.program import Blocks, block_of, problems_of
from sterna.frontends.coreml.neighbours import limits_of
from sterna.frontends.coreml.package import Beside, load
from sterna.frontends.coreml.pipelines import parts_of, refused
from sterna.frontends.coreml.schema import program_messages
from sterna.frontends.emitter import Emitter
from sterna.frontends.inputs import Shapes, input_types
from sterna.frontends.naming import named_graph
from sterna.frontends.source import Source
from sterna.frontends.standard import standard
from sterna.ir.graph import Graph, State, Value, tensor_type
from sterna.ops import Builder
from sterna_runtime.arguments import Dims

FOLD = 1 << 14  # bytes of a constant that is computed on the way, so that computed shapes are known
_NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")

Values = dict[str, Value]


def read(source: Source, shapes: Shapes | None = None, dims: Dims | None = None, function: str | None = None) -> Graph:
    """A model as a graph of core operators.

    Args:
        shapes: input name -> sizes; dims: name of an open dimension (`input_axis`) -> its size, or least and greatest.
        function: which function of a program is meant.

    Raises:
        SternaError: E0101, E0103 to E0114.
    """
    model, beside = load(source)
    return _Reader(source.name, beside).model(model, dict(shapes or {}), dict(dims or {}), function)


def function_of(model: Any, name: str | None) -> tuple[Any, Any]:
    """A program's function, and the description of its inputs and outputs.

    Raises:
        SternaError: E0106, E0103.
    """
    functions, described = model.mlProgram.functions, model.description
    wanted = name or described.defaultFunctionName or "main"
    if wanted not in functions:
        known = ", ".join(sorted(functions)) or "none"
        raise error("E0106", f'the model has no signature "{wanted}"', f"its signatures: {known}")
    for each in described.functions:
        if each.name == wanted:
            described = each
    return functions[wanted], described


class _Reader:
    def __init__(self, where: str, beside: Beside):
        self.where, self.beside = where, beside
        self.builder = Builder(fold=FOLD)
        self.problems: list[Diagnostic] = []
        self.wanted: dict[Value, str] = {}
        self.labels: dict[str, list[Any]] = {}
        self.states: dict[str, tuple[Value, Value]] = {}

    def model(self, model: Any, shapes: Shapes, dims: Dims, function: str | None) -> Graph:
        described = model.description
        if model.WhichOneof("Type") == "mlProgram":
            _, described = function_of(model, function)
        elif function is not None:
            raise error("E0106", f'the model has no signature "{function}"', "only programs have signatures")
        settings = {name for part in parts_of(model) for name in limits_of(part)}
        features = [feature(each) for each in described.input if not (each.type.isOptional and each.name in settings)]
        features = self._sized(model, features, function)
        types, problems = input_types([each.info for each in features], shapes, dims)
        self._fail_if(problems)
        given = tuple(Value(self.builder.name(f.name), kind) for f, kind in zip(features, types, strict=True))
        values: Values = {f.name: value for f, value in zip(features, given, strict=True)}
        self.evaluate(model, values, function)
        self._fail_if(self.problems)
        results, names = [], []
        for each in described.output:
            if each.name not in values:
                raise error("E0103", f'nothing computes the output "{each.name}"')
            results.append(self._output(feature(each), values[each.name]))
            names.append(each.name)
        if not results:
            raise error("E0103", f"{self.where} has no outputs")
        states = tuple(State(first.name) for first, _ in self.states.values())
        made = named_graph(
            "model",
            self.builder.nodes,
            (*given, *(first for first, _ in self.states.values())),
            (*results, *(last for _, last in self.states.values())),
            (*names, *(state.name for state in states)),
            self.wanted,
        )
        return self._finished(made, states, features, names)

    def _finished(self, made: Graph, states: Any, features: Sequence[Feature], names: Sequence[str]) -> Graph:
        about: dict[str, Any] = {}
        images = {f.name: {"mean": [0.0], "std": [1.0]} for f in features if f.kind == "image"}
        labels = {name: [str(n) for n in self.labels[name]] for name in names if name in self.labels}
        if images:
            about["normalization"] = images
        if labels:
            about["labels"] = labels
        texts = tuple(self.builder.strings)
        return replace(made, strings=texts, states=states, metadata=about, halves=frozenset(self.builder.halves))

    @staticmethod
    def _fail_if(problems: Sequence[Diagnostic]) -> None:
        if problems:
            raise SternaError(dict.fromkeys(problems))

    def _sized(self, model: Any, features: list[Feature], function: str | None) -> list[Feature]:
        """A program says itself what its inputs are, where its description leaves it open."""
        if model.WhichOneof("Type") != "mlProgram":
            for each in features:
                if each.kind in ("dictionary", "sequence"):
                    raise error("E0111", f'the input "{each.name}" is a {each.kind}, which is not supported')
            return features
        code, _ = function_of(model, function)
        kinds = {part.name: part.type.tensorType for part in code.inputs}
        constants = Constants(program_messages(), self.beside)
        found = []
        for each in features:
            if each.name not in kinds:
                raise error("E0103", f'the program has no input "{each.name}"')
            sizes = each.sizes
            own = sizes_of(kinds[each.name])
            if len(sizes) != len(own):
                sizes = tuple(f"{each.name}_{n}" if size == "?" else size for n, size in enumerate(own))
            ready = (
                each.ready if len(each.ready) == len(sizes) else tuple(s if isinstance(s, int) else 1 for s in sizes)
            )
            dtype = each.dtype if each.kind == "array" and each.dtype else constants.type_of(kinds[each.name])
            found.append(replace(each, sizes=sizes, ready=ready, dtype=dtype))
        return found

    def emitter(self, name: str, *inputs: Value) -> Emitter:
        return Emitter(self.builder, name, name, inputs, lambda n: "is computed when the model runs")

    def _output(self, declared: Feature, value: Value) -> Value:
        """A result as the description declares it."""
        t = self.emitter(declared.name, value)
        if declared.kind == "array":
            wanted = [int(n) for n in declared.ready]
            fixed = all(isinstance(size, int) for size in declared.sizes)
            fixed = fixed and bool(wanted) and value.type.is_static
            if fixed and value.type.sizes != tuple(wanted) and int(np.prod(wanted)) == int(value.type.elements):
                value = t.reshape(value, wanted)
            if declared.dtype and value.dtype != "string":
                value = t.cast(value, declared.dtype)
        return value

    # ---------------------------------------------------------------- models
    def evaluate(self, model: Any, values: Values, function: str | None) -> None:
        """Adds the outputs of a model to `values`."""
        for part in parts_of(model):
            kind = part.WhichOneof("Type")
            translate = classical.TRANSLATORS.get(kind)
            if kind == "mlProgram":
                self._program(part, values, function if part is model else None)
            elif kind in _NETWORKS:
                self._network(part, getattr(part, kind), values)
            elif translate is None:
                raise refused(kind, part, self.where)
            else:
                translate(self, part, getattr(part, kind), values)

    def _program(self, model: Any, values: Values, function: str | None) -> None:
        code, _ = function_of(model, function)
        block = block_of(code)
        constants = Constants(program_messages(), self.beside)
        self._fail_if(problems_of(block, self.where))
        inside: dict[str, Any] = {}
        states: dict[str, Value] = {}
        for part in code.inputs:
            if part.type.WhichOneof("type") == "stateType":
                wrapped = part.type.stateType.wrappedType.tensorType
                sizes = [int(n) for n in sizes_of(wrapped) if n != "?"]
                kind = tensor_type(constants.type_of(wrapped), sizes)
                states[part.name] = Value(self.builder.name(part.name), kind)
                inside[part.name] = part.name
            else:
                t = self.emitter(part.name, values[part.name])
                inside[part.name] = t.cast(values[part.name], constants.type_of(part.type.tensorType))
        first = dict(states)
        blocks = Blocks(self.builder, constants, self.where, states)
        blocks.run(block, inside)
        self._fail_if(blocks.problems)
        self.states |= {name: (value, states[name]) for name, value in first.items()}
        self.wanted |= blocks.wanted
        self.labels |= blocks.labels
        values.update({name: inside[name] for name in block.outputs if isinstance(inside.get(name), Value)})

    def _network(self, model: Any, network: Any, values: Values) -> None:
        outputs = [each.name for each in model.description.output]
        if "labelProbabilityLayerName" in network.DESCRIPTOR.fields_by_name:
            outputs.append(network.labelProbabilityLayerName)
        work = Network(self.builder, network, model.specificationVersion, self.where, self.beside, outputs)
        made = work.run(values, [feature(each) for each in model.description.input])
        self._fail_if(work.problems)
        self.wanted |= work.wanted
        for each in model.description.output:
            if each.name in made:
                value = made[each.name]
                if work.is_rank5(each.name):
                    value = work.squeezed(value, feature(each))
                values[each.name] = value
        labels = labels_of(network)
        if labels:
            self._classes(model, network, labels, made, values)

    def _classes(self, model: Any, network: Any, labels: list[Any], made: Mapping[str, Value], values: Values) -> None:
        """The label and the probabilities of a classifier."""
        described = model.description
        scores_name = network.labelProbabilityLayerName or network.layers[-1].output[0]
        scores = made[scores_name]
        t = self.emitter("classes", scores)
        if int(scores.type.elements) != len(labels):
            raise error("E0109", f"{len(labels)} labels for {scores.type.elements} classes")
        flat = t.reshape(scores, (len(labels),))
        self.classified(t, described, flat, labels, values)

    def classified(self, t: Emitter, described: Any, scores: Value, labels: list[Any], values: Values) -> None:
        """Names the label and the probabilities as a description does; `scores`: one row of probabilities."""
        label, odds = described.predictedFeatureName, described.predictedProbabilitiesName
        if label:
            rank = scores.type.rank
            winner = standard(t, "ArgMax", scores, axis=rank - 1, keepdims=int(rank == 1))
            values[label] = picked(t, labels, winner)
        if odds:
            values[odds] = scores
            self.labels[odds] = labels
