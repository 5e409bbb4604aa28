"""The way of a TensorFlow Lite model into a `Graph`.

Everything that is wrong with a model is reported in one `SternaError`: unsupported operators and broken quantization
together, then whatever goes wrong with single operators. One that depends on another that failed is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sterna.errors import Diagnostic, SternaError, error, internal_error
from sterna.frontends.custom import how_to_register
from sterna.frontends.inputs import Shapes
from sterna.frontends.naming import named_graph
from sterna.frontends.tflite import control
from sterna.frontends.tflite.calls import check_calls
from sterna.frontends.tflite.constants import COMPLEX, check_quantization, constant_array, element_type
from sterna.frontends.tflite.inputs import input_types
from sterna.frontends.tflite.metadata import describe
from sterna.frontends.tflite.operators import is_translated, translator_of
from sterna.frontends.tflite.schema import ModelInfo, OperatorInfo, SignatureInfo, SubgraphInfo, TensorInfo, load
from sterna.frontends.tflite.translation import Translation
from sterna.frontends.tflite.variables import RESOURCE_OPERATORS, Handles, Variables, assigned_in, handle_of
from sterna.frontends.tripped import TRIPS, tripped
from sterna.ir.graph import Graph, Quantized, Value, constant
from sterna.ops import Builder
from sterna_runtime.arguments import Dims

FOLD = 1 << 14  # bytes of a constant that is computed on the way, so that computed shapes are known
_SHOWN = 4


def read(
    model: str | os.PathLike[str], shapes: Shapes | None = None, dims: Dims | None = None, signature: str | None = None
) -> Graph:
    """A TensorFlow Lite model as a graph of core operators.

    Args:
        model: a file.
        shapes: input name -> sizes, instead of those that the file stands ready with.
        dims: name of an open dimension (`inputs.dimension_name`) -> its size, or the least and the greatest.
        signature: which of the model's signatures is meant; without it the first graph.

    Returns:
        A graph whose inputs and outputs are named as the model's tensors, or as the signature says.

    Raises:
        SternaError: E0101, E0103 to E0109, E0111 to E0114.
    """
    info = load(model)
    return _Reader(info, Path(os.fspath(model)).name).model(dict(shapes or {}), dict(dims or {}), signature)


def place_of(graph: SubgraphInfo, position: int) -> str:
    """How messages call an operator."""
    operator = graph.operators[position]
    made = f' "{graph.tensors[operator.outputs[0]].name}"' if operator.outputs else ""
    return f"operator {position}, {operator.op}{made}"


def problems_of(graph: SubgraphInfo, where: str) -> list[Diagnostic]:
    """What can be said to be wrong with a graph without translating it."""
    found: dict[str, list[str]] = {}
    for position, operator in enumerate(graph.operators):
        if not is_supported(operator):
            found.setdefault(operator.op, []).append(place_of(graph, position))
    problems = []
    for op, places in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        count = f"{len(places)} node" + ("s" if len(places) > 1 else "")
        shown = "; ".join(places[:_SHOWN]) + (f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")
        title, fix = f"the operator {op} is not supported ({count})", how_to_register("tflite", op)
        problems.append(Diagnostic("E0104", title, (f"{where}, {shown}",), fix))
    for tensor in graph.tensors:
        if tensor.quantization is not None:
            for mistake in check_quantization(tensor, tensor.quantization):
                problems += [replace(d, where=(where, *d.where)) for d in mistake.diagnostics]
    return problems


def is_supported(operator: OperatorInfo) -> bool:
    """Whether there is a translator."""
    written_here = not operator.is_custom and operator.op in (*RESOURCE_OPERATORS, *control.CONTROL_OPERATORS)
    return written_here or is_translated(operator)


def signature_of(info: ModelInfo, name: str) -> SignatureInfo:
    """The signature of that name.

    Raises:
        SternaError: E0106, there is none.
    """
    for known in info.signatures:
        if known.key == name and known.subgraph < len(info.subgraphs):
            return known
    keys = ", ".join(known.key for known in info.signatures) or "none"
    raise error("E0106", f'the model has no signature "{name}"', f"its signatures: {keys}")


def named_tensors(graph: SubgraphInfo, tensors: Sequence[int], names: Sequence[tuple[str, int]]) -> list[TensorInfo]:
    """Tensors of a graph, with the names that a signature gives them."""
    by_index = {index: name for name, index in names}
    return [replace(graph.tensors[n], name=by_index.get(n, graph.tensors[n].name)) for n in tensors]


class _Reader:
    def __init__(self, info: ModelInfo, where: str):
        self.info, self.where = info, where
        self.builder = Builder(fold=FOLD)
        self.variables = Variables(self.builder)
        self.problems: list[Diagnostic] = []
        self.checked: set[int] = set()
        self.depth = 0  # of sub-graphs inside each other
        self.wanted: dict[Value, str] = {}

    def model(self, shapes: Shapes, dims: Dims, signature: str | None) -> Graph:
        chosen = None if signature is None else signature_of(self.info, signature)
        number = 0 if chosen is None else chosen.subgraph
        check_calls(self.info, number)
        graph = self.info.subgraphs[number]
        if not graph.outputs:
            raise error("E0103", f"{self.where} has no outputs")
        taken = named_tensors(graph, graph.inputs, () if chosen is None else chosen.inputs)
        given = named_tensors(graph, graph.outputs, () if chosen is None else chosen.outputs)
        types, problems = input_types(taken, shapes, dims)
        self.fail_if(problems_of(graph, self.where) + problems)
        inputs = tuple(Value(self.builder.name(tensor.name), kind) for tensor, kind in zip(taken, types, strict=True))
        values: dict[int, Value | None] = dict(zip(graph.inputs, inputs, strict=True))
        self.body(graph, values)
        self.fail_if(self.problems)
        for n in graph.outputs:
            element_type(graph.tensors[n])
        outputs = [self.known(graph, values, n) for n in graph.outputs]
        self.fail_if(self.problems)
        results = [value for value in outputs if value is not None]
        if len(results) < len(outputs):
            missing = next(t.name for t, value in zip(given, outputs, strict=True) if value is None)
            raise error("E0113", f'the output "{missing}" is a result that is not computed, which is not supported')
        names = _distinct([tensor.name for tensor in given])
        states, current, following = self.variables.states()
        made = named_graph(
            graph.name or "model",
            self.builder.nodes,
            (*inputs, *current),
            (*results, *following),
            (*names, *(state.name for state in states)),
            self.wanted,
        )
        kinds = {
            name: Quantized(tuple(q.scales.tolist()), tuple(q.zero_points.tolist()), q.axis)
            for name, tensor in zip((*(v.name for v in inputs), *names), (*taken, *given), strict=True)
            if (q := tensor.quantization) is not None
        }
        about = describe(self.info.content, self.info.metadata, number, [v.name for v in inputs], names)
        halves = frozenset(self.builder.halves)
        return replace(made, states=states, quantization=kinds, metadata=about, halves=halves)

    @staticmethod
    def fail_if(problems: Sequence[Diagnostic]) -> None:
        if problems:
            raise SternaError(dict.fromkeys(problems))

    # ---------------------------------------------------------------- graphs
    def body(self, graph: SubgraphInfo, values: dict[int, Value | None], handles: Handles | None = None) -> None:
        """Translates the operators of a graph, in order; `handles`: the variables that its arguments name."""
        handles = {} if handles is None else handles
        for position, operator in enumerate(graph.operators):
            try:
                if operator.op in RESOURCE_OPERATORS and not operator.is_custom:
                    self.resource(graph, operator, position, values, handles)
                else:
                    self.operator(graph, operator, position, values, handles)
            except SternaError as mistake:
                self.failed(mistake, graph, position, values)
            except MemoryError:
                raise
            except TRIPS as problem:
                operands = [values.get(n) for n in operator.inputs]
                self.failed(tripped(problem, operator.op, operands), graph, position, values)
            except Exception as problem:  # ours, and still the other operators are looked at
                self.failed(internal_error(f"{type(problem).__name__}: {problem}"), graph, position, values)

    def failed(self, mistake: SternaError, graph: SubgraphInfo, position: int, values: dict[int, Value | None]) -> None:
        for problem in mistake.diagnostics:
            self.problems.append(replace(problem, where=(f"{self.where}, {place_of(graph, position)}", *problem.where)))
        values.update(dict.fromkeys(graph.operators[position].outputs))

    def known(self, graph: SubgraphInfo, values: dict[int, Value | None], index: int) -> Value | None:
        """The value of a tensor: computed, constant, or one that holds a state; None if making it failed."""
        if index not in values:
            tensor = graph.tensors[index]
            if tensor.content is not None:
                values[index] = constant(self.builder.name(tensor.name), constant_array(tensor))
            elif tensor.is_variable:
                values[index] = self.variables.tensor(tensor)
            elif 0 in tensor.shape:
                values[index] = constant(self.builder.name(tensor.name), constant_array(_empty(tensor)))
            else:
                raise error("E0103", f'nothing computes the tensor "{tensor.name}" before it is read')
        return values[index]

    def operator(
        self,
        graph: SubgraphInfo,
        node: OperatorInfo,
        position: int,
        values: dict[int, Value | None],
        handles: Handles,
    ) -> None:
        inputs = [None if n == -1 or n in handles else self.known(graph, values, n) for n in node.inputs]
        wanted = [n != -1 and n not in handles for n in node.inputs]
        if any(want and value is None for want, value in zip(wanted, inputs, strict=True)):
            values.update(dict.fromkeys(node.outputs))
            return
        work = Translation(
            node,
            f"{node.op}:{position}",
            inputs,
            self.builder,
            [None if n == -1 else graph.tensors[n] for n in node.inputs],
            [graph.tensors[n] for n in node.outputs],
            self.origin(graph, node),
            [graph.tensors[n] for n in node.intermediates if n != -1],
        )
        results = self.results_of(node, work, handles)
        if len(results) < len(node.outputs):
            raise error("E0103", f"{node.op} gives {len(results)} results, not {len(node.outputs)}")
        for n, value in zip(node.outputs, results, strict=False):
            values[n] = value
            if value is not None:
                self.wanted.setdefault(value, graph.tensors[n].name)
        if self.depth and work.left_behind:
            raise work.unsupported("with a state, within a condition or a loop,")
        self.variables.update(work, values, node)

    def results_of(self, node: OperatorInfo, work: Translation, handles: Handles) -> tuple[Value | None, ...]:
        if not self.is_control(node):
            tensors = (*work.declared, *work.results)
            is_complex = any(tensor is not None and tensor.kind in COMPLEX for tensor in tensors)
            result = translator_of(node, is_complex)(work)
            return result if isinstance(result, tuple) else (result,)
        # What the graphs may assign is handed on as further arguments, and comes back as further results.
        first = 1 if node.op == "IF" else 0
        assigned: dict[str, TensorInfo] = {}
        for part, _ in self.parts(node):
            named = self.named_by(part, node, first, handles)
            assigned |= assigned_in(part, named, self.parts)
        given = [n for n in range(first, len(node.inputs)) if node.inputs[n] not in handles]
        arguments = [work.input(n) for n in given]
        arguments += [self.variables.read(name, tensor) for name, tensor in assigned.items()]
        if node.op == "IF":
            then = self.region(work, "then_subgraph_index", handles, assigned)
            otherwise = self.region(work, "else_subgraph_index", handles, assigned)
            results = control.choice(work, then, otherwise, arguments)
            places = list(range(len(node.outputs)))
        elif node.op == "STABLEHLO_COMPOSITE":
            results = tuple(self.region(work, "decomposition_subgraph_index", handles, assigned)(arguments))
            places = list(range(len(node.outputs)))
        else:
            results = self.repeated(work, handles, assigned, given, arguments)
            places = given
            for n in set(range(len(node.inputs))) - set(given):
                handles[node.outputs[n]] = handles[node.inputs[n]]
        for name, value in zip(assigned, results[len(places) :], strict=True):
            if value is not None:
                self.variables.assign(name, value)
        made = dict(zip(places, results, strict=False))
        return tuple(made.get(n) for n in range(len(node.outputs)))

    def repeated(
        self, work: Translation, handles: Handles, assigned: Collection[str], given: list[int], arguments: list[Value]
    ) -> control.Results:
        """WHILE; `given`: the positions of operands that are no variables."""
        body = self.subgraph(work.node, "body_subgraph_index")
        if not len(work.node.inputs) == len(body.inputs) == len(body.outputs):
            raise error("E0103", f"the body of {work.kind} does not give what it takes")
        kept = [body.inputs[n] == body.outputs[n] for n in given] + [False] * len(assigned)
        for n in set(range(len(body.inputs))) - set(given):
            if body.inputs[n] != body.outputs[n]:
                raise work.unsupported("that exchanges variables")
        condition = self.region(work, "cond_subgraph_index", handles, assigned, is_test=True)
        return control.repetition(
            work, condition, self.region(work, "body_subgraph_index", handles, assigned), arguments, kept
        )

    @staticmethod
    def is_control(node: OperatorInfo) -> bool:
        return not node.is_custom and node.op in control.CONTROL_OPERATORS

    def parts(self, node: OperatorInfo) -> list[tuple[SubgraphInfo, int]]:
        """The graphs of a condition or a loop, and the position of the operand that is their first argument."""
        if not self.is_control(node):
            return []
        first = int(node.op == "IF")
        return [(self.subgraph(node, f"{name}_subgraph_index"), first) for name in control.PARTS[node.op]]

    def subgraph(self, node: OperatorInfo, option: str) -> SubgraphInfo:
        """The graph that an operator names."""
        number = int(node.options.get(option, -1))
        if not 0 <= number < len(self.info.subgraphs):
            raise error("E0103", f"there is no graph {number} for the {option} of {node.op}")
        return self.info.subgraphs[number]

    @staticmethod
    def named_by(inner: SubgraphInfo, node: OperatorInfo, first: int, handles: Handles) -> Handles:
        """The variables that the arguments of a graph name."""
        return {to: handles[n] for to, n in zip(inner.inputs, node.inputs[first:], strict=False) if n in handles}

    def region(
        self, work: Translation, option: str, handles: Handles, assigned: Collection[str], is_test: bool = False
    ) -> control.Inner:
        """The graph that an operator names, for given arguments.

        Args:
            handles: the variables that the operator's operands name.
            assigned: variables whose values follow the arguments, and the results unless it is a test.
        """
        inner = self.subgraph(work.node, option)
        named = self.named_by(inner, work.node, 1 if work.kind == "IF" else 0, handles)
        taken = [n for n in inner.inputs if n not in named]

        def made(arguments: Sequence[Value]) -> list[Value | None]:
            if len(arguments) != len(taken) + len(assigned):
                raise error("E0103", f"{work.kind} gives {len(arguments)} arguments for {len(inner.inputs)}")
            self.check(inner)
            values: dict[int, Value | None] = dict(zip(taken, arguments, strict=False))
            inside = dict(zip(assigned, arguments[len(taken) :], strict=True))
            before = {name: self.variables.current[name] for name in assigned}
            self.variables.current |= inside
            self.depth += 1
            try:
                self.body(inner, values, named)
                results = [self.known(inner, values, n) for n in inner.outputs if n not in named]
                after = [self.variables.current[name] for name in assigned]
            finally:
                self.depth -= 1
                self.variables.current |= before
            if is_test and after != list(inside.values()):
                raise work.unsupported("whose condition assigns variables")
            return results if is_test else [*results, *after]

        return made

    def check(self, graph: SubgraphInfo) -> None:
        """Refuses a graph that is no part of what was looked at yet."""
        if id(graph) not in self.checked:
            self.checked.add(id(graph))
            self.fail_if(problems_of(graph, self.where))

    def origin(self, graph: SubgraphInfo, node: OperatorInfo) -> Callable[[int], str]:
        def text(position: int) -> str:
            index = node.inputs[position] if position < len(node.inputs) else -1
            made = [o.op for o in graph.operators if index in o.outputs]
            name = graph.tensors[index].name if index >= 0 else "nothing"
            return f'comes from {made[0]} as "{name}"' if made else f'is "{name}"'

        return text

    # ---------------------------------------------------------------- variables
    def resource(
        self,
        graph: SubgraphInfo,
        node: OperatorInfo,
        position: int,
        values: dict[int, Value | None],
        handles: Handles,
    ) -> None:
        """Handles of variables, reading and assigning them, and the graph that fills them once."""
        if node.op == "CALL_ONCE":
            number = node.options.get("init_subgraph_index", 0)
            if not 0 <= number < len(self.info.subgraphs):
                raise error("E0103", f"there is no graph {number} to call once")
            self.initialize(self.info.subgraphs[number])
        elif node.op == "VAR_HANDLE":
            handles[node.outputs[0]] = handle_of(graph, node)
        elif node.inputs[0] not in handles:
            raise error("E0113", f"{node.op} of a variable that comes from elsewhere is not supported")
        elif node.op == "READ_VARIABLE":
            result = graph.tensors[node.outputs[0]]
            values[node.outputs[0]] = self.variables.read(handles[node.inputs[0]], result)
        else:
            value = self.known(graph, values, node.inputs[1])
            if value is not None:
                self.variables.assign(handles[node.inputs[0]], value)

    def initialize(self, graph: SubgraphInfo) -> None:
        """What a graph that runs once leaves in the variables."""
        self.check(graph)
        before = self.variables.current
        self.variables.current = {}
        self.body(graph, {})
        for name, value in self.variables.current.items():
            if value.data is None:
                raise error("E0113", f'the first value of the variable "{name}" is computed, which is not supported')
            self.variables.initial[name] = value.data
        self.variables.current = before


def _empty(tensor: TensorInfo) -> TensorInfo:
    return replace(tensor, content=np.zeros(0, np.uint8))


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of results, with a number after those that stand there twice."""
    taken, counts, result = set[str](), dict[str, int](), list[str]()
    for name in names:
        fresh = name
        while fresh in taken:
            counts[name] = counts.get(name, 0) + 1
            fresh = f"{name}.{counts[name]}"
        taken.add(fresh)
        result.append(fresh)
    return result


__all__ = ["is_supported", "named_tensors", "place_of", "problems_of", "read", "signature_of"]
