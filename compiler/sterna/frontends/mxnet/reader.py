"""The way of an MXNet model into a `Graph`.

Everything that is wrong with a model is reported in one `SternaError`: unsupported operators, weights that are missing
and shapes that are unknown together, then whatever goes wrong with single operators. One that depends on another that
failed is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sterna.errors import Diagnostic, SternaError, error, internal_error
from sterna.frontends.custom import how_to_register
from sterna.frontends.inputs import Shapes
from sterna.frontends.mxnet.inputs import InputInfo, input_types, inputs_of, is_weight, reached, wanted_operands
from sterna.frontends.mxnet.operators import REFUSED, is_translated, translator_of
from sterna.frontends.mxnet.outputs import output_names
from sterna.frontends.mxnet.pairs import symbol_file, weights_file
from sterna.frontends.mxnet.parameters import Parameters, load_parameters
from sterna.frontends.mxnet.symbol import VARIABLE, NodeInfo, SymbolInfo, load_symbol, users
from sterna.frontends.mxnet.translation import Inner, Translation
from sterna.frontends.naming import named_graph
from sterna.frontends.source import Source
from sterna.frontends.tripped import TRIPS, tripped
from sterna.ir.graph import Array, Graph, Value, constant
from sterna.ops import Builder
from sterna_runtime.arguments import Dims

FOLD = 1 << 14  # bytes of a constant that is computed on the way, so that computed shapes are known
_SHOWN = 4


@dataclass(frozen=True)
class ModelInfo:
    """The two files of a model; `weights_name`: None where there is no file of weights."""

    where: str
    symbol: SymbolInfo
    weights: Parameters
    weights_name: str | None
    needed: tuple[int, ...]
    inputs: dict[int, InputInfo]


def load(source: Source) -> ModelInfo:
    """What stands in a model's files.

    Raises:
        SternaError: E0101, E0103, E0109 or E0111, they cannot be read.
    """
    path = symbol_file(source)
    symbol = load_symbol(path)
    beside = weights_file(source, path)
    weights = Parameters({}, frozenset()) if beside is None else load_parameters(beside)
    needed = reached(symbol)
    inputs = inputs_of(symbol, needed, weights.arrays)
    return ModelInfo(path.name, symbol, weights, beside.name if beside else None, tuple(needed), inputs)


def read(source: Source, shapes: Shapes | None = None, dims: Dims | None = None) -> Graph:
    """An MXNet model as a graph of core operators.

    Args:
        source: the symbol, its weights, or the folder of both.
        shapes: input name -> sizes.
        dims: name of an open dimension (`inputs`) -> its size, or the least and the greatest.

    Returns:
        A graph whose inputs and outputs are named as MXNet names them: `data`, `softmax_output`.

    Raises:
        SternaError: E0101, E0103 to E0113.
    """
    return _Reader(load(source)).model(dict(shapes or {}), dict(dims or {}))


def problems_of(info: ModelInfo) -> list[Diagnostic]:
    """What can be said to be wrong with a model without translating it."""
    found: dict[str, list[str]] = {}
    waiting = [info.symbol.nodes[number] for number in info.needed]
    while waiting:
        node = waiting.pop(0)
        if node.op != VARIABLE and not is_translated(node.op):
            found.setdefault(node.op, []).append(f'"{node.name}"')
        else:
            waiting += [graph.nodes[n] for graph in node.graphs for n in reached(graph)]
    problems = []
    for op, places in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        count = f"{len(places)} node" + ("s" if len(places) > 1 else "")
        shown = ", ".join(places[:_SHOWN]) + (f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")
        fix = REFUSED.get(op) or how_to_register("mxnet", op)
        title = f"the operator {op} is not supported ({count})"
        problems.append(Diagnostic("E0104", title, (f"{info.where}, {shown}",), fix))
    return problems + missing_weights(info)


def missing_weights(info: ModelInfo) -> list[Diagnostic]:
    """Weights that the symbol has and the file of weights has not (E0103, E0110)."""
    taken, nodes = users(info.symbol.nodes), info.symbol.nodes
    missing = [
        nodes[n].name
        for n in info.needed
        if nodes[n].op == VARIABLE and n not in info.inputs and nodes[n].name not in info.weights.arrays
        and is_weight(info.symbol, n, taken)
    ]  # fmt: skip
    if not missing:
        return []
    shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
    if info.weights_name is None:
        base = info.where.removesuffix(".json").removesuffix("-symbol")
        title = f"the weights of {info.where} are missing: there is no .params file beside it"
        return [Diagnostic("E0110", title, (f"it needs {shown}",), f"put {base}-0000.params beside it")]
    title = f"{info.weights_name} lacks weights of {info.where}: {shown}"
    return [Diagnostic("E0103", title, (), "take the two files from one `save_checkpoint` or `export`")]


class _FailedError(Exception):
    """A graph inside an operator could not be made; why is noted already."""


@dataclass
class _Scope:
    """A symbol on its way.

    Args:
        values: results of its nodes, as far as they are made.
        broken: nodes without results: they failed, or an operand did.
    """

    symbol: SymbolInfo
    values: dict[tuple[int, int], Value | None] = field(default_factory=dict)
    broken: set[int] = field(default_factory=set)


class _Reader:
    def __init__(self, info: ModelInfo):
        self.info = info
        self.builder = Builder(fold=FOLD)
        self.problems: list[Diagnostic] = []
        self.wanted: dict[Value, str] = {}

    def model(self, shapes: Shapes, dims: Dims) -> Graph:
        info = self.info
        types, problems = input_types(list(info.inputs.values()), shapes, dims)
        self.fail_if(problems_of(info) + problems)
        scope = _Scope(info.symbol)
        inputs = []
        for (number, each), kind in zip(info.inputs.items(), types, strict=True):
            inputs.append(Value(self.builder.name(each.name), kind))
            scope.values[number, 0] = inputs[-1]
        for number in info.needed:
            name = info.symbol.nodes[number].name
            if info.symbol.nodes[number].op == VARIABLE and number not in info.inputs:
                scope.values[number, 0] = self.constant(name, info.weights.arrays[name])
        self.translate(scope, info.needed)
        self.fail_if(self.problems)
        outputs, names = [], output_names(info.symbol)
        for place, name in zip(info.symbol.heads, names, strict=True):
            value = scope.values.get(place)
            if value is None:
                raise error("E0103", f"{info.where}: nothing computes the output {name}")
            outputs.append(value)
        title = info.where.removesuffix(".json").removesuffix("-symbol")
        made = named_graph(title or "model", self.builder.nodes, inputs, outputs, names, self.wanted)
        return replace(made, halves=frozenset(self.builder.halves))

    def translate(self, scope: _Scope, needed: Sequence[int]) -> None:
        """Makes the results of nodes."""
        asked: dict[int, int] = {}
        nodes = scope.symbol.nodes
        for place in (*scope.symbol.heads, *(place for n in needed for place in nodes[n].inputs)):
            asked[place[0]] = max(asked.get(place[0], 1), place[1] + 1)
        for number in needed:
            if nodes[number].op != VARIABLE:
                self.node(scope, number, nodes[number], asked.get(number, 1))

    def inner(self, symbol: SymbolInfo) -> Inner:
        """A graph that an operator has, as a function."""

        def made(operands: Sequence[Value]) -> list[Value]:
            if len(operands) != len(symbol.variables):
                title = f"a graph inside takes {len(symbol.variables)} operands, not {len(operands)}"
                raise error("E0103", title)
            scope = _Scope(symbol, {(n, 0): x for n, x in zip(symbol.variables, operands, strict=True)})
            self.translate(scope, reached(symbol))
            results = [scope.values.get(place) for place in symbol.heads]
            if any(value is None for value in results):
                raise _FailedError
            return [value for value in results if value is not None]

        return made

    def constant(self, name: str, array: Array) -> Value:
        return constant(self.builder.name(name), array)

    @staticmethod
    def fail_if(problems: Sequence[Diagnostic]) -> None:
        if problems:
            raise SternaError(dict.fromkeys(problems))

    def node(self, scope: _Scope, number: int, node: NodeInfo, asked: int) -> None:
        """Translates one operator."""
        count = wanted_operands(node.op, len(node.inputs))
        inputs = [scope.values.get(place) for place in node.inputs[:count]]
        if any(value is None for value in inputs):
            # A node that failed has been reported; one that has fewer results has not.
            for place in node.inputs[:count]:
                if place not in scope.values and place[0] not in scope.broken:
                    title = f"{scope.symbol.nodes[place[0]].op} has no result {place[1]}"
                    self.problems.append(Diagnostic("E0103", title, (self.place_of(node),)))
            scope.broken.add(number)
            return
        try:
            work = Translation(
                node, inputs, self.builder, _origin(scope.symbol, node), self.info.symbol.is_numpy, asked,
                [self.inner(graph) for graph in node.graphs],
            )  # fmt: skip
            made = translator_of(node.op)(work)
            results = made if isinstance(made, tuple) else (made,)
            for n, value in enumerate(results):
                scope.values[number, n] = value
                if value is not None:
                    self.wanted.setdefault(value, node.name if n == 0 else f"{node.name}.{n}")
            return
        except SternaError as mistake:
            self.failed(mistake, node)
        except MemoryError:
            raise
        except _FailedError:
            pass
        except TRIPS as problem:
            self.failed(tripped(problem, node.op, inputs), node)
        except Exception as problem:  # ours, and still the other operators are looked at
            self.failed(internal_error(f"{type(problem).__name__}: {problem}"), node)
        scope.broken.add(number)

    def failed(self, mistake: SternaError, node: NodeInfo) -> None:
        for problem in mistake.diagnostics:
            self.problems.append(replace(problem, where=(self.place_of(node), *problem.where)))

    def place_of(self, node: NodeInfo) -> str:
        return f'{self.info.where}, {node.op} "{node.name}"'


def _origin(symbol: SymbolInfo, node: NodeInfo) -> Callable[[int], str]:
    def text(position: int) -> str:
        if position >= len(node.inputs):
            return "is nothing"
        made = symbol.nodes[node.inputs[position][0]]
        return f'is "{made.name}"' if made.op == VARIABLE else f'comes from {made.op} "{made.name}"'

    return text


def weights_of(info: ModelInfo) -> Mapping[str, Array]:
    """The weights that the outputs need."""
    names = {info.symbol.nodes[n].name for n in info.needed if info.symbol.nodes[n].op == VARIABLE}
    return {name: array for name, array in info.weights.arrays.items() if name in names}
