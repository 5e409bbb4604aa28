"""The way of an exported program into a `Graph`.

Everything that is wrong with a model is reported in one `SternaError`: unsupported operators together, then whatever
goes wrong with single nodes. A node that depends on one that failed is passed over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sterna.errors import Diagnostic, SternaError, error, internal_error
from sterna.frontends.expressions import parse
from sterna.frontends.inputs import Shapes
from sterna.frontends.naming import named_graph
from sterna.frontends.pytorch import control
from sterna.frontends.pytorch.aliases import Tensor
from sterna.frontends.pytorch.assertions import asserted, held
from sterna.frontends.pytorch.inputs import fed, input_types
from sterna.frontends.pytorch.layouts import are_empty
from sterna.frontends.pytorch.operators import functional, is_view, translator_of, view_of
from sterna.frontends.pytorch.operators.complexes import complex_translator
from sterna.frontends.pytorch.program import Arg, GraphInfo, NodeInfo, Program
from sterna.frontends.pytorch.states import States, written
from sterna.frontends.pytorch.support import place_of, problems_of
from sterna.frontends.pytorch.tensors import COMPLEX, scalar_type
from sterna.frontends.pytorch.translation import Shared, Translation, Translator
from sterna.frontends.tripped import TRIPS, tripped
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Names, Value, constant
from sterna.ir.integer import Int, as_int
from sterna.ir.open_size import OpenSizeError
from sterna.ir.sizes import sizes_wanted
from sterna.ops import Builder
from sterna_runtime.arguments import Dims

FOLD = 1 << 14  # bytes of a constant that is computed on the way, so that computed shapes are known
_GONE = object()  # stands for a number whose making failed


@dataclass
class Scope:
    """What the names of a graph stand for: tensors, and numbers (sizes, or scalars that are computed)."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    made_by: dict[str, str] = field(default_factory=dict)


def graph_of(
    program: Program,
    tensors: Mapping[str, Array],
    where: str,
    shapes: Shapes | None = None,
    dims: Dims | None = None,
    name: str = "model",
) -> Graph:
    """An exported program as a graph of core operators.

    Args:
        tensors: parameters, buffers and constants by name.
        where: how messages call it.
        shapes: input name -> sizes; dims: symbol -> its size, or the least and the greatest.

    Raises:
        SternaError: E0101 to E0114.
    """
    return Reader(program, tensors, where).model(dict(shapes or {}), dict(dims or {}), name)


class Reader:
    def __init__(self, program: Program, tensors: Mapping[str, Array], where: str):
        self.program, self.stored, self.where = program, tensors, where
        self.builder = Builder(fold=FOLD)
        self.problems: list[Diagnostic] = []
        self.wanted: dict[Value, str] = {}
        self.symbols: dict[str, Int] = {}
        self.shared = Shared(Names(program.ranges), program.ranges)
        self.equal: dict[str, int] = {}
        self.writes = any(functional(node.target)[1] for node in program.graph.all_nodes())
        self.depth = 0

    # ---------------------------------------------------------------- the model
    def model(self, shapes: Shapes, dims: Dims, name: str) -> Graph:
        problems = problems_of(self.program, self.where)
        try:
            types, self.symbols = input_types(self.program, shapes, dims)
            self.shared.symbols.update(self.symbols)
            self.shared.limits |= {name: size[:2] for name, size in dims.items() if isinstance(size, tuple)}
        except SternaError as mistake:
            problems += mistake.diagnostics
        self.fail_if(problems)
        scope = Scope()
        inputs: list[Value] = []
        for (spec, given), kind in zip(fed(self.program), types, strict=True):
            value = Value(self.builder.name(given), kind)
            inputs.append(value)
            if spec.arg[0] == "as_tensor":
                scope.tensors[given] = Tensor(value)
            else:
                scope.numbers[given] = value
        states = States(self.builder, written(self.program))
        self.hold(scope, states)
        self.fail_if(self.problems)
        self.body(self.program.graph, scope)
        self.fail_if(self.problems)
        return self.finished(scope, states, inputs, name)

    def hold(self, scope: Scope, states: States) -> None:
        """Gives parameters, buffers and constants to the names that stand for them."""
        used = {
            name for node in self.program.graph.all_nodes() for _, arg in node.inputs for name in _tensor_names(arg)
        }
        used |= {name for arg in self.program.graph.outputs for name in _tensor_names(arg)}
        for spec, arg in zip(self.program.inputs, self.program.graph.inputs, strict=True):
            if spec.kind == "user_input":
                kind, value = arg
                if kind == "as_tensor" or (kind.startswith("as_sym") and isinstance(value, tuple)):
                    continue
            if arg[0] != "as_tensor" or spec.kind in ("token", "custom_obj", "user_input", "constant_input"):
                continue
            name = str(arg[1])
            data = self.stored.get(spec.target)
            if data is None:
                if name in used:
                    title = f'{self.where}: the {spec.kind.replace("_", " ")} "{spec.target}" is not in the file'
                    self.problems.append(Diagnostic("E0103", title))
                continue
            pairs = data.dtype.kind == "c"
            if pairs:
                data = np.array(data, order="C").reshape(-1).view(data.real.dtype).reshape(*data.shape, 2)
            if name in states.names:
                scope.tensors[name] = Tensor(states.hold(name, spec.target, data))
            elif name in used:
                scope.tensors[name] = Tensor(constant(self.builder.name(spec.target or name), data))
            if pairs and name in scope.tensors and (value := scope.tensors[name].value) is not None:
                self.shared.complexes.add(value)

    def finished(self, scope: Scope, states: States, inputs: Sequence[Value], title: str) -> Graph:
        """The graph of what the outputs need."""
        outputs: list[Value] = []
        names: list[str] = []
        given = iter(self.program.output_names)
        for spec, arg in zip(self.program.outputs, self.program.graph.outputs, strict=True):
            called = next(given, "") if spec.kind in ("user_output", "loss_output") else ""
            if spec.kind == "buffer_mutation":
                value = self.tensor(scope, str(arg[1]))
                if value is not None:
                    states.leave(spec.target, value)
            elif spec.kind in ("user_output", "loss_output", "user_input_mutation") and arg[0] != "as_none":
                value = self.result(scope, arg, len(names))
                if value in self.shared.complexes:
                    title = f'the output "{_own_name(arg)}" is complex, which is not supported'
                    raise error("E0111", title, fix="let the module return torch.view_as_real of it")
                if value is None:
                    title = f'the output "{_own_name(arg)}" is one that only training needs'
                    raise error("E0113", f"{title}, which is not supported", fix="export the module without it")
                outputs.append(value)
                own = f"{spec.target}_after" if spec.kind == "user_input_mutation" else _own_name(arg)
                names.append(called or own or f"output{len(names)}")
        self.fail_if(self.problems)
        if not outputs and not states.names:
            raise error("E0103", f"{self.where} has no outputs")
        outputs = held(self.work("assertions"), outputs)
        for name in states.names:
            if name in scope.tensors:
                states.update(name, scope.tensors[name].read())
        kept, current, following = states.finished()
        names = _distinct(names, {state.name for state in kept})
        made = named_graph(
            title or "model",
            self.builder.nodes,
            (*inputs, *current),
            (*outputs, *following),
            (*names, *(state.name for state in kept)),
            self.wanted,
        )
        return replace(made, states=kept, halves=frozenset(self.builder.halves))

    def result(self, scope: Scope, arg: Arg, number: int) -> Value | None:
        """An output: a tensor, or a number as one."""
        kind, value = arg
        if kind == "as_tensor":
            return self.tensor(scope, str(value))
        found = self.decoded(arg, scope)
        if isinstance(found, (Value, Int, bool, int, float)):
            return self.work(f"output{number}").as_value(found)
        return None

    def work(self, name: str) -> Translation:
        """The means to build what no call of the program makes."""
        return Translation(NodeInfo(name, (), ()), name, {}, (), self.builder, lambda _: "", self.shared)

    @staticmethod
    def fail_if(problems: Sequence[Diagnostic]) -> None:
        if problems:
            raise SternaError(dict.fromkeys(problems))

    # ---------------------------------------------------------------- graphs
    def body(self, graph: GraphInfo, scope: Scope) -> None:
        """Translates the nodes of a graph, in order, into the scope."""
        outside = self.equal
        self.equal = outside | asserted(graph)
        for position, node in enumerate(graph.nodes):
            try:
                self.node(graph, node, position, scope)
            except SternaError as mistake:
                self.failed(mistake, node, position, scope)
            except OpenSizeError as problem:
                title = f"{node.target} over the open dimension {problem.value} is not supported"
                self.failed(error("E0113", title, fix=sizes_wanted([problem.value])), node, position, scope)
            except MemoryError:
                raise
            except TRIPS as problem:
                operands = [self.peek(scope, arg) for _, arg in node.inputs if arg[0] == "as_tensor"]
                self.failed(tripped(problem, node.target, operands), node, position, scope)
            except Exception as problem:  # ours, and still the other nodes are looked at
                self.failed(internal_error(f"{type(problem).__name__}: {problem}"), node, position, scope)
        self.equal = outside

    def failed(self, mistake: SternaError, node: NodeInfo, position: int, scope: Scope) -> None:
        place = f"{self.where}, {place_of(node, position)}"
        for problem in mistake.diagnostics:
            self.problems.append(replace(problem, where=(place, *problem.where)))
        self.give_nothing(node, scope)

    @staticmethod
    def give_nothing(node: NodeInfo, scope: Scope) -> None:
        """Marks what a node would make as not there."""
        for output in node.outputs:
            for name in _tensor_names(output):
                scope.tensors[name] = Tensor(None)
            for name in _number_names(output):
                scope.numbers[name] = _GONE

    def node(self, graph: GraphInfo, node: NodeInfo, position: int, scope: Scope) -> None:
        arguments = {(name or f"#{n}"): self.decoded(arg, scope) for n, (name, arg) in enumerate(node.inputs)}
        if any(_is_gone(found) for found in arguments.values()):
            self.give_nothing(node, scope)
            return
        target, writes = functional(node.target)
        values = [found for found in arguments.values() if isinstance(found, Value)]
        names = [name for _, arg in node.inputs for name in _tensor_names(arg)]
        self.note_complexes(graph, names, scope)
        work = Translation(
            node, node.name or f"{node.target}:{position}", arguments, values, self.builder,
            lambda n: self.origin(scope, names[n] if n < len(names) else ""), self.shared,
            [graph.tensors.get(name) for output in node.outputs for name in _tensor_names(output)],
            [graph.tensors.get(name) for name in names],
        )  # fmt: skip
        results = self.made(work, target, scope)
        flat = _flat(results)
        wanted = [
            (output, name) for output in node.outputs for name in (*_tensor_names(output), *_number_names(output))
        ]
        if len(flat) < len(wanted):
            raise error("E0103", f"{node.target} gives {len(flat)} results, not {len(wanted)}")
        for n, (output, name) in enumerate(wanted):
            scope.made_by[name] = node.target
            if name in _number_names(output):
                scope.numbers[name] = flat[n]
                self.note_number(graph, node, name, flat[n])
                continue
            value = flat[n]
            if isinstance(value, (Int, bool, int, float)):
                value = work.as_value(value)
            value = self.checked(work, value, name, graph)
            scope.tensors[name] = self.bound(work, target, node, scope, value, n, bool(writes) and n == 0)
            if value is not None:
                self.wanted.setdefault(value, name)

    def note_number(self, graph: GraphInfo, node: NodeInfo, name: str, found: Any) -> None:
        """What the program says of a number that is computed from the data."""
        said = graph.numbers.get(name)
        if not isinstance(found, Value) or not isinstance(said, str) or not dtypes.is_integer(found.dtype):
            return
        self.shared.note(found, said)

    def note_complexes(self, graph: GraphInfo, names: Sequence[str], scope: Scope) -> None:
        """Operands that are complex, among them those that are read anew after a write to their memory."""
        for name in names:
            info = graph.tensors.get(name)
            value = scope.tensors[name].read() if info is not None and info.dtype in COMPLEX else None
            if value is not None:
                self.shared.complexes.add(value)

    def made(self, work: Translation, target: str, scope: Scope) -> Any:
        """What a node gives."""
        if target in control.OPERATORS:
            return control.OPERATORS[target](work, self.region(scope))
        translate = self.translator(work, target)
        shares = is_view(target) or functional(work.node.target)[1]  # memory
        if not shares and len(work.results) == len(work.node.outputs) and are_empty(work.results):
            return [work.constant(np.zeros(info.sizes, info.dtype)) for info in work.results if info is not None]
        return translate(work)

    def translator(self, work: Translation, target: str) -> Translator:
        """The translator of a node by whether it takes or gives complex numbers."""
        flat = _flat(list(work.arguments.values()))
        operands = [found for found in flat if isinstance(found, Value)]
        wanted = [info for info in work.results if info is not None and info.dtype in COMPLEX]
        if wanted or not self.shared.complexes.isdisjoint(operands):
            return complex_translator(target, translator_of)
        return translator_of(work.node.target)

    def bound(
        self, work: Translation, target: str, node: NodeInfo, scope: Scope, value: Value | None, n: int, writes: bool
    ) -> Tensor:
        """What a result's name stands for: a tensor of its own, or one that shares memory."""
        first = next((str(arg[1]) for _, arg in node.inputs if arg[0] == "as_tensor"), "")
        base = scope.tensors.get(first)
        if base is None or value is None or not self.writes:
            return Tensor(value)
        if writes:
            old = base.read()
            assert old is not None
            value = work.expand(work.cast(value, old.dtype), old.shape)
            base.write(value)
            return Tensor(value, base, lambda below: below, lambda below, new: new)
        view = view_of(target, work, n, self.translator(work, target)) if is_view(target) else None
        return Tensor(value) if view is None else Tensor(value, base, *view)

    def checked(self, work: Translation, value: Value | None, name: str, graph: GraphInfo) -> Value | None:
        """A result, of the element type that the file says; its sizes must be those of the file."""
        info = graph.tensors.get(name)
        if value is None or info is None:
            return value
        if info.dtype in COMPLEX:
            self.shared.complexes.add(value)
            return value
        if value.dtype != info.dtype:
            value = work.cast(value, info.dtype)
        for axis, said in enumerate(info.sizes if len(info.sizes) == value.type.rank else ()):
            size = self.equal.get(said) if isinstance(said, str) else None
            if size is not None and not value.shape[axis].is_const:
                holds = work.op("equal", work.as_value(value.shape[axis]), work.scalar(size, "int64"))
                value = work.op("gather", work.agree(value, holds), work.counting(size), axis=axis)
        # PyTorch itself was wrong about some shapes (2.5: the states of an LSTM), never about the number of elements.
        open_sizes = not value.type.is_static or not all(isinstance(size, int) for size in info.sizes)
        agree = open_sizes or value.type.elements == math.prod(size for size in info.sizes if isinstance(size, int))
        if not agree and not self.depth:
            said = ", ".join(map(str, info.sizes))
            raise error("E0103", f"{work.kind} gives {value.type}, where the file says [{said}]")
        return value

    def region(self, outer: Scope) -> control.Region:
        """Translates a graph that an operator names, for given arguments."""

        def made(inner: GraphInfo, arguments: Sequence[Any]) -> list[Any]:
            if len(arguments) != len(inner.inputs):
                raise error("E0103", f"a graph of {len(inner.inputs)} inputs is given {len(arguments)}")
            scope = Scope()
            for (kind, value), given in zip(inner.inputs, arguments, strict=True):
                if kind == "as_tensor":
                    scope.tensors[str(value)] = Tensor(given)
                elif isinstance(value, tuple):
                    scope.numbers[str(value[1])] = given
            before = len(self.problems)
            self.depth += 1
            try:
                with self.shared.inside():
                    self.body(inner, scope)
                    if len(self.problems) > before:
                        return [None] * len(inner.outputs)
                    return held(self.work("assertions"), [self.decoded(output, scope) for output in inner.outputs])
            finally:
                self.depth -= 1

        return made

    # ---------------------------------------------------------------- names
    def tensor(self, scope: Scope, name: str) -> Value | None:
        if name not in scope.tensors:
            raise error("E0103", f'nothing computes the tensor "{name}" before it is read')
        return scope.tensors[name].read()

    def peek(self, scope: Scope, arg: Arg) -> Value | None:
        found = scope.tensors.get(str(arg[1]))
        return None if found is None else found.value

    def decoded(self, arg: Arg, scope: Scope) -> Any:
        """An argument: tensors as values, numbers as they are or as sizes; `_GONE` where one could not be made."""
        kind, value = arg
        if kind == "as_tensor":
            found = self.tensor(scope, value)
            return _GONE if found is None else found
        if kind == "as_tensors":
            return [self.decoded(("as_tensor", name), scope) for name in value]
        if kind == "as_optional_tensors":
            return [self.decoded(item, scope) for item in value]
        if kind == "as_nested_tensors":
            return [self.decoded(("as_tensors", row), scope) for row in value]
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            return self.number(value, scope)
        if kind in ("as_sym_ints", "as_sym_bools", "as_sym_floats"):
            return [self.number(item, scope) for item in value]
        if kind == "as_scalar_type":
            return scalar_type(value, "an argument")
        if kind == "as_float" or kind.startswith(("as_int", "as_bool", "as_string", "as_floats")):
            return value
        if kind == "as_graph":
            return value
        if kind == "as_complex":
            return complex(value["real"], value["imag"])
        if kind in ("as_none", "as_memory_format", "as_layout", "as_device"):
            return None
        return _Other(kind)

    def number(self, value: Any, scope: Scope) -> Any:
        if not isinstance(value, tuple):
            return value
        name = value[1]
        if name in scope.numbers:
            return scope.numbers[name]
        declared = self.program.graph.numbers.get(name)
        if isinstance(declared, int):
            return declared
        if isinstance(declared, str):
            return parse(declared, self.symbols)
        if name in self.symbols:
            return self.symbols[name]
        raise error("E0103", f'nothing computes the number "{name}" before it is read')

    def origin(self, scope: Scope, name: str) -> str:
        made = scope.made_by.get(name)
        return f'comes from {made} as "{name}"' if made else f'is "{name}"'


class _Other:
    """An argument of a kind that no translation takes."""

    def __init__(self, kind: str):
        self.kind = kind


def _is_gone(found: Any) -> bool:
    if isinstance(found, list):
        return any(_is_gone(item) for item in found)
    return found is _GONE


def _flat(results: Any) -> list[Any]:
    """Results in order; lists of tensors spread out."""
    if isinstance(results, (tuple, list)):
        return [item for result in results for item in _flat(result)]
    return [results]


def _tensor_names(arg: Arg) -> list[str]:
    kind, value = arg
    if kind == "as_tensor":
        return [value]
    if kind == "as_tensors":
        return list(value)
    if kind == "as_nested_tensors":
        return [name for row in value for name in row]
    if kind == "as_optional_tensors":
        return [name for item in value for name in _tensor_names(item)]
    return []


def _number_names(arg: Arg) -> list[str]:
    kind, value = arg
    if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
        return [value[1]] if isinstance(value, tuple) else []
    if kind in ("as_sym_ints", "as_sym_bools", "as_sym_floats"):
        return [item[1] for item in value if isinstance(item, tuple)]
    return []


def _own_name(arg: Arg) -> str:
    return next(iter((*_tensor_names(arg), *_number_names(arg))), "")


def _distinct(names: Sequence[str], taken: set[str]) -> list[str]:
    """Names of results, with a number after those that stand there twice."""
    seen, result = set(taken), list[str]()
    for name in names:
        fresh, count = name, 0
        while fresh in seen:
            count += 1
            fresh = f"{name}.{count}"
        seen.add(fresh)
        result.append(fresh)
    return result


__all__ = ["Reader", "Scope", "as_int", "graph_of"]
