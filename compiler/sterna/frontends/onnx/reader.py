"""The way of an ONNX model into a `Graph`.

Everything that is wrong with a model is reported in one `SternaError`: its structure first, then all unsupported
operators and unknown dimensions together, then whatever goes wrong with single nodes. A node that depends on one that
failed is passed over in silence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from sterna.errors import Diagnostic, SternaError, error, internal_error
from sterna.frontends.emitter import Emitter
from sterna.frontends.inputs import advised
from sterna.frontends.naming import named_graph
from sterna.frontends.onnx import (
    containers,
    declared,
    functions,
    legacy,
    narrow_weights,
    pinned,
    qdq,
    quantized_tensors,
    rules,
    sequences,
    structure,
)
from sterna.frontends.onnx.branching import Branching
from sterna.frontends.onnx.file import load, name_of, to_array
from sterna.frontends.onnx.inputs import Shapes, fixed_values, input_types
from sterna.frontends.onnx.looping import Looping
from sterna.frontends.onnx.nodes import Source, broken, decode, opsets
from sterna.frontends.onnx.operators import translators
from sterna.frontends.onnx.operators.text import TAKING_STRINGS
from sterna.frontends.onnx.scope import Scope
from sterna.frontends.onnx.sequences import Operand, TensorList
from sterna.frontends.onnx.translation import DataSizes, Translation
from sterna.frontends.onnx.unrolling import LONGEST, Unrolling
from sterna.frontends.tripped import TRIPS, tripped
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Names, Value, constant
from sterna.ir.open_size import OpenSizeError
from sterna.ir.sizes import multiples_wanted, sizes_wanted
from sterna.ops import Builder
from sterna_runtime.advice import Advice
from sterna_runtime.arguments import Dims

FOLD = 1 << 14  # bytes of a constant that is computed on the way, so that computed shapes are known
MOST_ATTEMPTS = 64  # at a loop and those within it, where the first way does not go
MOST_WRITTEN_OUT = 4096  # times that the body of a loop is written out, counting those that it stands in
SHORT_WRITTEN_OUT = 64  # of the loops that one stands in: more, and it is made a loop if it can be
_OF_SIZES = ("E0107", "E0108", "E0113")  # errors that a dimension of one size may mend
DEEPEST = 64  # of sub-graphs and functions inside each other


def read(
    model: str | os.PathLike[str] | onnx.ModelProto,
    shapes: containers.Given | None = None,
    dims: Dims | None = None,
    static: bool = False,
    values: Mapping[str, Any] | None = None,
) -> Graph:
    """An ONNX model as a graph of core operators.

    Args:
        model: a file, or a model in memory. Weights are used in place, not copied.
        shapes: input name -> sizes, for inputs whose shape the model leaves open; `containers` says what sequences and
            optionals are called.
        dims: name of a dimension -> its size, or the least and the greatest of one that stays open. The name may be
            that of a tensor whose size its data decide, such as NonZero's result: then these are its limits.
        static: sizes that the data decide are the declared ones, where the model declares them. Else they are computed
            when the bundle runs, unless some operator needs them to be known.
        values: input name -> what it always is: a constant of the graph, and no input of it.

    Returns:
        A graph whose values are named as the model's tensors where they are the same. Every dimension is known, or a
        symbol with bounds.

    Raises:
        SternaError: E0101 to E0114.
    """
    proto, folder = load(model)
    where = name_of(model, proto)
    proto, own = functions.expanded(proto, where)
    versions = opsets(proto.opset_import)
    structure.check_imports(proto, versions, where)
    versions = {"com.microsoft": 1, narrow_weights.INNER: 1, **versions}
    if problems := broken(proto.graph.node, versions, where) or quantized_tensors.broken(proto.graph, where):
        raise SternaError(problems)
    graph, sizes = containers.spelled_out(
        qdq.fused(narrow_weights.with_products(proto.graph)), dict(shapes or {}), where
    )

    given, limits = structure.data_limits(graph, dict(dims or {}))
    always = fixed_values(graph.input, values or {})

    def attempt(pins: pinned.Pins, masks: pinned.Pins, found: DataSizes | None = None) -> Graph:
        found = found or DataSizes(limits, declared=True, names=Names(given))
        return Reader(where, folder, versions, own, pins, masks, found).model(graph, sizes, given, always)

    try:
        of_data = DataSizes(limits, declared=static, names=Names(given))
        try:
            return attempt({}, {}, of_data)
        except SternaError:
            if static or not of_data.computed:
                raise
            return attempt({}, {})
    except SternaError as mistake:
        results = declared.of_values(graph.output)
        if set(mistake.codes) != {"E0107"} or len(results) != len(graph.output):
            raise
        stored = {tensor.name for tensor in graph.initializer} | always.keys()
        fed = [value for value in graph.input if value.name not in stored]
        types, _ = input_types(fed, sizes, given, where)
        found = pinned.find(types, results.values(), attempt)
        if found is None:
            raise
        return found


def applied(source: Source, operands: Sequence[Value | None], t: Emitter) -> tuple[Value, ...]:
    """The results of a node that stands in no model of ONNX, for front ends of other formats.

    Args:
        operands: what `source.inputs` are.
        t: the node of the other format that it stands for.

    Raises:
        SternaError: E0103 to E0114.
    """
    versions = {source.domain: source.version, "": max(source.version, legacy.MODERN)}
    reader = Reader(source.name, None, versions, {}, {}, {}, DataSizes(names=t.builder.dimensions), t.builder)
    scope = Scope()
    scope.values.update({name: value for name, value in zip(source.inputs, operands, strict=True) if name})
    reader.node(source, scope, set(source.outputs), t.sources)
    found = [scope[name] for name in source.outputs]
    return tuple(value for value in found if value is not None)


class Reader:
    def __init__(
        self, where: str, folder: Path | None, versions: Mapping[str, int], own: functions.Functions,
        pins: pinned.Pins, masks: pinned.Pins, sizes: DataSizes, builder: Builder | None = None,
    ):  # fmt: skip
        self.where, self.folder, self.versions, self.pins, self.masks = where, folder, versions, pins, masks
        self.own = own
        self.operators = sequences.known(translators()) | {key[:2] for key in own}
        self.sizes = sizes
        self.builder = builder or Builder(fold=FOLD)
        self.problems: list[Diagnostic] = []
        self.wanted: dict[Value, str] = {}
        self.depth = 0
        self.attempts = 0
        self.written_out = 1

    def model(self, graph: onnx.GraphProto, shapes: Shapes, dims: Dims, always: Mapping[str, Array]) -> Graph:
        """The whole model; `always` has the values of inputs that are none of the graph's."""
        scope = Scope()
        stored = {tensor.name for tensor in graph.initializer} | always.keys()
        fed = [value for value in graph.input if value.name not in stored]
        self.problems += structure.doubles(graph, self.where)
        self.problems += structure.repeated("output", [v.name for v in graph.output], self.where)
        if graph.sparse_initializer:
            self.problems.append(Diagnostic("E0111", f"{self.where}: sparse tensors are not supported"))
        given = stored | {value.name for value in fed}
        positions, problems = structure.order(graph, given, self.where)
        self.fail_if(self.problems + problems)
        types, unknown = input_types(fed, shapes, dims, self.where)
        missing = structure.unsupported(graph, positions, self.versions, self.operators, self.where)
        self.fail_if(missing + unknown)
        inputs = tuple(Value(self.builder.name(value.name), types[value.name]) for value in fed)
        scope.values |= {value.name: value for value in inputs}
        scope.values |= {name: constant(self.builder.name(name), value) for name, value in always.items()}
        for name, value in self.pins.items():
            scope.values[name] = constant(self.builder.name(f"{name}/expected"), value)
        self.body(graph, positions, scope)
        self.fail_if(advised(self.problems, [value.name for value in inputs if value.shape == ()]))
        outputs, names = containers.results(graph.output, scope.item)
        if self.pins:
            self.test_pins(graph, inputs, outputs)
        made = named_graph(graph.name or "model", self.builder.nodes, inputs, outputs, names, self.wanted)
        return replace(made, strings=tuple(self.builder.strings), halves=frozenset(self.builder.halves))

    def test_pins(self, graph: onnx.GraphProto, inputs: Sequence[Value], outputs: list[Value]) -> None:
        """Lets the bundle test that pinned inputs are what the graph was made for, and tests that the results are.

        Raises:
            SternaError: E0108, a result has another shape than the declared one.
        """
        known = declared.of_values(graph.output)
        for output, value in zip(graph.output, outputs, strict=True):
            if not value.type.is_static or value.type.sizes != known[output.name]:
                raise error("E0108", f'"{output.name}" is {value.type}, not {list(known[output.name])}')
        for value in inputs:
            if value.name in self.pins and self.masks[value.name].any():
                free = self.builder.constant(~self.masks[value.name])
                same = self.builder.add("equal", value, self.builder.constant(self.pins[value.name]))
                holds = self.builder.add("require", self.builder.add("logical_or", same, free))
                zero = self.builder.scalar(0, outputs[0].dtype)
                outputs[0] = self.builder.add("where", holds, outputs[0], zero)

    @staticmethod
    def fail_if(problems: Sequence[Diagnostic]) -> None:
        if problems:
            raise SternaError(dict.fromkeys(problems))

    # ---------------------------------------------------------------- graphs
    def body(self, graph: onnx.GraphProto, positions: Sequence[int], scope: Scope) -> None:
        """Translates the nodes of a graph, in order, into the scope."""
        used = {name for position in positions for name in graph.node[position].input}
        used |= {name for position in positions for name in structure.subgraph_reads(graph.node[position])}
        used |= {value.name for value in graph.output}
        known = declared.of_values([*graph.value_info, *graph.output])
        scope.declared |= declared.spread(known, (graph.node[position] for position in positions))
        for tensor in graph.initializer:
            if tensor.name not in used or tensor.name in scope.values:  # an operand takes the place of a default
                continue
            try:
                data = to_array(tensor, self.folder, f'the initializer "{tensor.name}"')
                data = self.builder.numbered(data) if data.dtype == object else data
                scope.values[tensor.name] = constant(self.builder.name(tensor.name), data)
            except SternaError as mistake:
                scope.values[tensor.name] = None
                self.problems += mistake.diagnostics
        names = structure.node_names(graph.node)
        for position in positions:
            node, source = graph.node[position], None
            try:
                source = decode(node, self.versions, names[position], self.folder)
                self.node(source, scope, used, (names[position],))
            except SternaError as mistake:
                self.failed(mistake, node, f'node {position}, {node.op_type} "{names[position]}"', scope)
            except OpenSizeError as problem:
                assert source is not None  # decoding asks for no sizes
                size = problem.value
                title = f"{source.label} over the open dimension {size} is not supported"
                unsupported = error("E0113", title, fix=sizes_wanted([size]))
                self.failed(unsupported, node, f'node {position}, {node.op_type} "{names[position]}"', scope)
            except MemoryError:
                raise
            except Exception as problem:  # still the other nodes are looked at
                failure = self.tripped(problem, source, scope)
                self.failed(failure, node, f'node {position}, {node.op_type} "{names[position]}"', scope)

    @staticmethod
    def tripped(problem: Exception, source: Source | None, scope: Scope) -> SternaError:
        """Whose mistake it is that the translation of a node fails; without a source, that it could not be decoded."""
        if source is None:
            return internal_error(f"{type(problem).__name__}: {problem}")
        operands = [scope.item(name) if name else None for name in source.inputs]
        if objection := rules.objection(source, operands):
            return error("E0108", f"{source.label} is applied to what it does not take", objection)
        if isinstance(problem, TRIPS):
            return tripped(problem, source.label, operands)
        return internal_error(f"{type(problem).__name__}: {problem}")

    def failed(self, mistake: SternaError, node: onnx.NodeProto, place: str, scope: Scope) -> None:
        operands = [scope.item(name) for name in node.input if name]
        shapes = [value.shape for value in operands if isinstance(value, Value)]
        advice = sizes_wanted(n for shape in shapes for n in shape)
        if advice and "E0108" in mistake.codes and (multiples := multiples_wanted(shapes)):
            advice = Advice.join("; ", (multiples, advice))
        for problem in mistake.diagnostics:
            fix = problem.fix or (advice if problem.code in _OF_SIZES and advice else None)
            self.problems.append(replace(problem, where=(f"{self.where}, {place}", *problem.where), fix=fix))
        scope.values.update(dict.fromkeys(filter(None, node.output)))

    def node(self, source: Source, scope: Scope, used: set[str], sources: tuple[str, ...]) -> None:
        """Translates one node, or what it is expanded to."""
        for name in source.outputs:
            scope.origins[name] = source
        operands = [scope.item(name) if name else None for name in source.inputs]
        if any(name and found is None for name, found in zip(source.inputs, operands, strict=True)):
            scope.values.update(dict.fromkeys(filter(None, source.outputs)))
            return
        lists = any(isinstance(found, TensorList) for found in operands)
        resolved = source.domain == "" and (source.op in sequences.OPERATORS or (source.op == "Identity" and lists))
        control = source.domain == "" and source.op in structure.CONTROL
        inputs = [
            None if isinstance(found, TensorList) and (resolved or control) else scope[name] if name else None
            for name, found in zip(source.inputs, operands, strict=True)
        ]
        translator = translators().get((source.domain, source.op))
        if translator is not None or resolved:
            strings = any(v is not None and v.dtype == dtypes.STRING for v in inputs)
            if strings and (source.domain, source.op) not in TAKING_STRINGS:
                raise error("E0111", f"{source.label} of strings is not supported")
            flags = [bool(name) and name in used for name in source.outputs]
            work = Translation(
                source,
                inputs,
                self.builder,
                origin=lambda n: self.origin(source.inputs[n], scope),
                used=flags,
                sources=sources,
                declared=[scope.declared.get(name) for name in source.outputs],
                sizes=self.sizes,
            )
            if source.domain == "" and source.version < legacy.MODERN:
                work = legacy.modern(work)
            if translator is None or resolved:
                results: Sequence[Operand] = (
                    self.mapped(source, operands, scope)
                    if source.op == "SequenceMap"
                    else (sequences.translate(work, operands),)
                )
            else:
                result = translator(work)
                results = result if isinstance(result, tuple) else (result,)
        elif source.op == "If" and source.domain == "":
            results = self.branch(source, inputs, scope)
        elif control:
            results = self.repeated(source, operands, scope, used)
        else:
            results = self.expansion(source, inputs, sources, [scope.declared.get(n) for n in source.outputs])
        if len(results) < len(source.outputs):
            raise error("E0103", f"{source.op} gives {len(results)} outputs, not {len(source.outputs)}")
        for name, value in zip(source.outputs, results, strict=False):
            if name:
                scope.put(name, value)
            if name and isinstance(value, Value):
                self.wanted.setdefault(value, name)

    def origin(self, name: str, scope: Scope) -> str:
        """Where a tensor comes from: the nodes back to an input or a constant."""
        steps = []
        for _ in range(6):
            source = scope.origin(name)
            if source is None:
                break
            steps.append(source.op)
            running = [n for n in source.inputs if n and isinstance(v := scope.item(n), Value) and v.data is None]
            if not running:
                break
            name = running[0]
        return "comes from " + " <- ".join([*steps, f'"{name}"'])

    # ---------------------------------------------------------------- control flow and functions
    def branch(self, source: Source, inputs: Sequence[Value | None], scope: Scope) -> Sequence[Operand]:
        """The branch of an `If` that a known condition takes."""
        condition = inputs[0] if inputs else None
        if condition is None or int(condition.type.elements) != 1:
            raise error("E0108", "If needs a condition of one element")
        if condition.data is not None:
            graph = source.attributes["then_branch" if condition.data.reshape(-1)[0] else "else_branch"]
            return self.nested(graph, Scope(scope), graph.name or source.name)

        def body(key: str) -> Sequence[Operand]:
            return self.alone(source.attributes[key], Scope(scope), source.name)

        return Branching(source, condition, self.builder, body, self.origin(source.inputs[0], scope)).run()

    def repeated(self, source: Source, inputs: Sequence[Operand], scope: Scope, used: set[str]) -> Sequence[Operand]:
        """A `Loop` or `Scan`: written out, or as a loop of the graph.

        A few iterations of a known number are written out, all others are a loop; where one way does not go (a state
        that changes its shape or is a sequence; a condition that is computed at run time), the other is tried, and then
        a loop in which the iteration's number is a size.
        """
        graph = source.attributes["body"]

        def body(values: Sequence[Operand]) -> tuple[Operand, ...]:
            inner = Scope(scope)
            for declared_, value in zip(graph.input, values, strict=True):
                inner.put(declared_.name, value)
            return self.alone(graph, inner, source.name)

        def origin(position: int) -> str:
            return self.origin(source.inputs[position], scope)

        longest = min(LONGEST, max(MOST_WRITTEN_OUT // self.written_out, 1))
        unrolling = Unrolling(source, inputs, self.builder, body, len(graph.input), origin, longest)
        tensors = [value for value in inputs if not isinstance(value, TensorList)]
        flags = [bool(name) and name in used for name in source.outputs]
        known = [scope.declared.get(name) for name in source.outputs]
        looping = Looping(source, tensors, self.builder, body, len(graph.input), origin, known, flags, self.sizes)
        ways: list[Unrolling | Looping] = [looping, unrolling]
        if short := unrolling.is_short() and self.written_out < SHORT_WRITTEN_OUT:
            ways.reverse()
        ways.append(replace(looping, counting=True))
        return self.first_that_goes(ways if len(tensors) == len(inputs) else [unrolling], short or unrolling.is_long())

    def first_that_goes(self, ways: Sequence[Unrolling | Looping], first: bool) -> Sequence[Operand]:
        """The results of a loop, made in the first way in which it can be made.

        Args:
            first: where none goes, it is the mistake of the first that is reported; else that of the second.
        """
        mistakes: list[SternaError] = []
        written_out = self.written_out
        self.attempts = self.attempts if self.depth else 0
        for way in ways:
            state = len(self.builder.nodes), self.depth, dict(self.sizes.known)
            self.written_out = written_out * way.longest if isinstance(way, Unrolling) else written_out
            try:
                return way.run()
            except SternaError as mistake:
                mistakes.append(mistake)
                del self.builder.nodes[state[0] :]
                _, self.depth, self.sizes.known = state
                self.attempts += 1
                if self.attempts > MOST_ATTEMPTS and self.depth:
                    break
            finally:
                self.written_out = written_out
        raise mistakes[0 if first or len(mistakes) == 1 else 1]

    def alone(self, graph: onnx.GraphProto, scope: Scope, name: str) -> tuple[Operand, ...]:
        """What a nested graph gives; everything that is wrong with it is raised, not kept."""
        before = len(self.problems)
        made = self.nested(graph, scope, graph.name or name)
        if found := self.problems[before:]:
            del self.problems[before:]
            raise SternaError(found)
        return made

    def mapped(self, source: Source, operands: Sequence[Operand], scope: Scope) -> list[TensorList]:
        """A graph applied to every element of a sequence, and of others beside it."""
        graph, rows = source.attributes["body"], []
        if not isinstance(operands[0], TensorList):
            raise error("E0104", "SequenceMap of a sequence that is only known at run time is not supported")
        for number in range(len(operands[0].values)):
            inner = Scope(scope)
            for declared_, operand in zip(graph.input, operands, strict=True):
                inner.values[declared_.name] = operand.values[number] if isinstance(operand, TensorList) else operand
            rows.append(self.nested(graph, inner, graph.name or source.name))
        columns = zip(*rows, strict=True) if rows else [()] * len(graph.output)
        return [TensorList(tuple(found for found in column if isinstance(found, Value))) for column in columns]

    def nested(self, graph: onnx.GraphProto, scope: Scope, name: str) -> tuple[Operand, ...]:
        self.depth += 1
        if self.depth > DEEPEST:
            raise error("E0103", f"sub-graphs are nested more than {DEEPEST} deep")
        where = f"{self.where}, branch {name}"
        own = {tensor.name for tensor in graph.initializer}
        positions, problems = structure.order(graph, scope.names() | own, where)
        problems += structure.unsupported(graph, positions, self.versions, self.operators, where)
        self.fail_if(structure.doubles(graph, where) + problems)
        self.body(graph, positions, scope)
        self.depth -= 1
        return tuple(scope.item(value.name) for value in graph.output)

    def expansion(
        self,
        source: Source,
        inputs: Sequence[Value | None],
        sources: tuple[str, ...],
        shapes: Sequence[tuple[int, ...] | None],
    ) -> tuple[Value | None, ...]:
        """The results of an operator that the model or ONNX defines as a function of others."""
        function = functions.definition(source, inputs, self.own)
        if function is None:
            raise error("E0104", f"the operator {source.label} is not supported")
        self.depth += 1
        if self.depth > DEEPEST:
            raise error("E0103", f"functions are nested more than {DEEPEST} deep")
        scope = Scope()
        for n, name in enumerate(function.input):
            value = inputs[n] if n < len(inputs) else None
            if value is not None:
                scope.values[name] = value
        versions = {
            **self.versions,
            **{("" if i.domain == "ai.onnx" else i.domain): i.version for i in function.opset_import},
        }
        known = {name: sizes for name, sizes in zip(function.output, shapes, strict=False) if sizes is not None}
        scope.declared = declared.spread(known, function.node)
        used = {name for node in function.node for name in node.input} | set(function.output)
        for position, node in enumerate(function.node):
            present = onnx.NodeProto()
            present.CopyFrom(node)
            for n, name in enumerate(present.input):
                if name and name not in scope:
                    present.input[n] = ""
            functions.resolve(present, source)
            name = f"{source.name}/{node.name or f'{node.op_type}_{position}'}"
            self.node(decode(present, versions, name, self.folder), scope, used, sources)
        self.depth -= 1
        return tuple(scope.get(name) for name in function.output)
