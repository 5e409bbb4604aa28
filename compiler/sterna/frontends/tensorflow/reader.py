"""The way of a TensorFlow model into a `Graph`: only what the outputs need is looked at.

Everything that is wrong is reported in one `SternaError`: unsupported operators first, then whatever goes wrong with
single nodes. One that depends on another that failed is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sterna.errors import Diagnostic, SternaError, error, internal_error
from sterna.frontends.custom import how_to_register
from sterna.frontends.frontend import ReadOptions
from sterna.frontends.inputs import advised, input_types
from sterna.frontends.naming import named_graph
from sterna.frontends.tensorflow import control
from sterna.frontends.tensorflow.flow import EXITS, MERGES, NEXT, SWITCHES, Flow
from sterna.frontends.tensorflow.model import Function, Model, Node, Port, tensor_of
from sterna.frontends.tensorflow.operators import OUTPUTS, SEVERAL, is_translated, translator_of
from sterna.frontends.tensorflow.operators.complexes import constant_pairs, of_complex
from sterna.frontends.tensorflow.ports import distinct, fixed_values, input_infos, reachable, signature_of
from sterna.frontends.tensorflow.tensors import array_of
from sterna.frontends.tensorflow.translation import Complex, Item, Text, Translation, Variable
from sterna.frontends.tripped import TRIPS, tripped
from sterna.ir.graph import Array, Graph, Value, constant
from sterna.ops import Builder

FOLD = 1 << 14  # bytes of a constant that is computed on the way, so that computed shapes are known
_SHOWN = 4
DEEPEST = 24

CALLS = ("PartitionedCall", "StatefulPartitionedCall", "RemoteCall")
CHOICES = ("If", "StatelessIf", "Case", "StatelessCase")
LOOPS = ("While", "StatelessWhile")
FLOW = (*MERGES, *SWITCHES, *EXITS, *NEXT, "Enter", "RefEnter", "LoopCond")
HANDLES = ("VarHandleOp", "VariableV2", "Variable", "ReadVariableOp")
#: Operators that take the handle of a variable and read it.
READING = ("ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp")
#: Written here, and not in tables of translators.
WRITTEN_HERE = (*CALLS, *CHOICES, *LOOPS, *FLOW, *HANDLES, "Const", "Placeholder", "PlaceholderV2")


@dataclass
class Scope:
    """A graph on its way: what its nodes have given so far, and what its arguments are.

    Attributes:
        needed: the nodes that what is asked of it needs; groups: Merge -> the Merges of the same choice.
    """

    nodes: Mapping[str, Node]
    where: str
    flow: Flow
    given: dict[str, tuple[Item, ...]] = field(default_factory=dict)
    prefix: str = ""
    needed: set[str] = field(default_factory=set)
    groups: dict[str, list[Node]] = field(default_factory=dict)


def read(model: Model, options: ReadOptions) -> Graph:
    """A model as a graph of core operators.

    Raises:
        SternaError: E0103 to E0114.
    """
    return Reader(model).graph(options)


def missing(model: Model, names: Sequence[str]) -> list[Diagnostic]:
    """The operators that those nodes need and that there is no translator of, functions included."""
    found: dict[str, list[str]] = {}
    for where, node in needed_nodes(model, names):
        is_call = node.op in model.functions
        if node.op not in WRITTEN_HERE and not is_call and not is_translated(node.op):
            found.setdefault(node.op, []).append(f'{where}node "{node.name}"')
    problems = changed_variables(model, names)
    for op, places in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        count = f"{len(places)} node" + ("s" if len(places) > 1 else "")
        shown = "; ".join(places[:_SHOWN]) + (f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")
        title = f"the operator {op} is not supported ({count})"
        problems.append(Diagnostic("E0104", title, (f"{model.where}, {shown}",), how_to_register("tensorflow", op)))
    return problems


def changed_variables(model: Model, names: Sequence[str]) -> list[Diagnostic]:
    """That functions which those nodes call assign variables: nothing would keep the values from run to run."""
    called = {f.name: f for _, node in needed_nodes(model, names) for f in functions_of(model, node)}
    found = [
        f'{f.name}, node "{node.name}"' for f in called.values() for node in f.nodes.values() if node.op in ASSIGNING
    ]
    if not found:
        return []
    title = f"variables that a signature changes are not supported ({len(found)} assignments)"
    fix = "export a function that takes what it changes and gives it back"
    return [Diagnostic("E0113", title, (f"{model.where}, function {found[0]}",), fix)]


def needed_nodes(model: Model, names: Sequence[str]) -> list[tuple[str, Node]]:
    """What those nodes need, with the function in which it stands."""
    queue: list[tuple[str, Mapping[str, Node], Sequence[str]]] = [("", model.nodes, names)]
    seen, found = set[str](), []
    while queue:
        where, nodes, wanted = queue.pop()
        inside = replace(model, nodes=nodes)
        for name in sorted(reachable(inside, wanted)):
            node = nodes[name]
            found.append((where, node))
            for called in functions_of(model, node):
                if called.name not in seen:
                    seen.add(called.name)
                    ends = [tensor_of(result)[0] for result in called.results]
                    queue.append((f"function {called.name}, ", called.nodes, ends))
    return found


def functions_of(model: Model, node: Node) -> list[Function]:
    """The functions that a node calls."""
    names = [node.op]
    for value in node.attributes.values():
        names += [v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, str)]
    return [model.functions[name] for name in names if name in model.functions]


#: Operators that give a variable another value.
ASSIGNING = (
    "Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
    "ResourceScatterAdd", "ResourceScatterUpdate", "ScatterUpdate",
)  # fmt: skip


class Reader:
    def __init__(self, model: Model):
        self.model = model
        self.builder = Builder(fold=FOLD)
        self.problems: list[Diagnostic] = []
        self.wanted: dict[Value, str] = {}
        self.weights: dict[str, Value] = {}
        self.depth = 0

    def graph(self, options: ReadOptions) -> Graph:
        signature = signature_of(self.model, options.signature)
        shapes = {name.removesuffix(":0"): sizes for name, sizes in options.sizes.items()}
        ends = [tensor_of(port.tensor)[0] for port in signature.outputs]
        problems = missing(self.model, ends)
        types: list[Any] = []
        fixed: dict[str, Array] = {}
        try:
            fixed = fixed_values(signature.inputs, options.values or {})
            open_ = [port for port in signature.inputs if port.name not in fixed]
            infos = input_infos(open_, shapes, options.dims)
            types, wrong = input_types(infos, shapes, options.dims)
            problems += wrong
        except SternaError as mistake:
            problems += mistake.diagnostics
        self.fail_if(problems)
        inputs = [Value(self.builder.name(port.name), kind) for port, kind in zip(open_, types, strict=True)]
        scope = Scope(self.model.nodes, self.model.where, Flow(self.model.nodes))
        made = {port.name: value for port, value in zip(open_, inputs, strict=True)}
        made |= {name: constant(self.builder.name(name), array) for name, array in fixed.items()}
        scope.given |= {tensor_of(port.tensor)[0]: (made[port.name],) for port in signature.inputs}
        found = self.evaluate(scope, [port.tensor for port in signature.outputs])
        self.fail_if(advised(self.problems, [port.name for port in open_ if port.dims == ()]))
        outputs, names = [], []
        for port, item in zip(signature.outputs, found, strict=True):
            if not isinstance(item, Value):
                raise error("E0111", f'the output "{port.name}" is no tensor of numbers, which is not supported')
            outputs.append(item)
            names.append(port.name)
        graph = named_graph("model", self.builder.nodes, inputs, outputs, distinct(names), self.wanted)
        return replace(graph, halves=frozenset(self.builder.halves))

    @staticmethod
    def fail_if(problems: Sequence[Diagnostic]) -> None:
        if problems:
            raise SternaError(dict.fromkeys(problems))

    # ---------------------------------------------------------------- graphs
    def evaluate(self, scope: Scope, tensors: Sequence[str]) -> list[Item]:
        """What tensors of a graph are; None where making one failed."""
        scope.needed |= reachable(replace(self.model, nodes=scope.nodes), [tensor_of(text)[0] for text in tensors])
        self.run(scope, [tensor_of(text)[0] for text in tensors])
        return [self.found(scope, text) for text in tensors]

    def found(self, scope: Scope, text: str) -> Item:
        """A result of a node that was run. In functions, results are named `node:output:position`."""
        name, position = tensor_of(text)
        results = scope.given[name]
        parts = text.split(":")
        node = scope.nodes.get(name)
        if len(parts) == 3 and node is not None:
            names = OUTPUTS.get(node.op, ())
            place = names.index(parts[1]) if parts[1] in names else 0
            several, attribute = SEVERAL.get(node.op, (0, ""))
            position += place + (int(node.attributes.get(attribute, 1)) - 1) * min(place, several)
        if position < len(results):
            return results[position]
        if None in results or not results:
            return None
        raise error("E0103", f'there is no result {position} of "{name}"')

    def run(self, scope: Scope, names: Sequence[str]) -> None:
        """Translates those nodes and what they need, producers first."""
        stack = [(name, False) for name in reversed(names)]
        open_: set[str] = set()
        while stack:
            name, ready = stack.pop()
            if name in scope.given:
                continue
            node = scope.nodes.get(name)
            if node is None:
                raise error("E0103", f'{scope.where}: there is no node "{name}"')
            if ready:
                self.guarded(scope, node)
                continue
            if name in open_:
                raise error("E0103", f'{scope.where}: the node "{name}" needs its own result')
            open_.add(name)
            stack.append((name, True))
            try:
                before = self.needs(scope, node)
            except SternaError as mistake:
                self.failed(mistake, scope, node)
                continue
            stack += [(other, False) for other in reversed(before) if other not in scope.given]

    def needs(self, scope: Scope, node: Node) -> list[str]:
        """The nodes that must be translated before one."""
        if node.name in scope.flow.frame_of:
            frame = scope.flow.frames[scope.flow.frame_of[node.name]]
            return [tensor_of(text)[0] for name in frame.enters for text in scope.nodes[name].inputs[:1]]
        if node.op in MERGES:
            before: dict[str, None] = {}
            for each in self.group(scope, node):
                decider, yes, no = scope.flow.decider(each)
                switches = scope.flow.boundary(yes, decider) | scope.flow.boundary(no, decider)
                before |= dict.fromkeys([decider[0], *(tensor_of(s.inputs[0])[0] for s in switches.values())])
            return list(before)
        return [tensor_of(text)[0] for text in node.inputs]

    def guarded(self, scope: Scope, node: Node) -> None:
        """Translates one node, and keeps what is wrong with it."""
        try:
            scope.given[node.name] = self.node(scope, node)
            if not scope.prefix:
                for n, item in enumerate(scope.given[node.name]):
                    if isinstance(item, Value):
                        self.wanted.setdefault(item, node.name if n == 0 else f"{node.name}:{n}")
        except control.FailedError:
            scope.given[node.name] = (None,)
        except SternaError as mistake:
            self.failed(mistake, scope, node)
        except MemoryError:
            raise
        except TRIPS as problem:
            self.failed(tripped(problem, node.op, [self.found_or_none(scope, v) for v in node.inputs]), scope, node)
        except Exception as problem:  # ours, and still the other nodes are looked at
            self.failed(internal_error(f"{type(problem).__name__}: {problem}"), scope, node)

    def found_or_none(self, scope: Scope, text: str) -> Item:
        try:
            return self.found(scope, text)
        except (SternaError, LookupError):
            return None

    def failed(self, mistake: SternaError, scope: Scope, node: Node) -> None:
        place = f'{scope.where}, {node.op} "{node.name}"'
        for problem in mistake.diagnostics:
            where = (
                problem.where if any(w.startswith(self.model.where) for w in problem.where) else (place, *problem.where)
            )
            self.problems.append(replace(problem, where=where))
        scope.given[node.name] = (None,)

    # ---------------------------------------------------------------- nodes
    def node(self, scope: Scope, node: Node) -> tuple[Item, ...]:
        """The results of a node."""
        if node.name in scope.flow.frame_of:
            return self.loop(scope, node)
        if node.op in MERGES:
            return self.merge(scope, node)
        if node.op == "Const":
            return (self.constant(scope, node),)
        if node.op in ("VarHandleOp", "VariableV2", "Variable"):
            handle = Variable(node.name)
            return (handle if node.op == "VarHandleOp" else self.weight(handle, scope),)
        if node.op in ("Placeholder", "PlaceholderV2"):
            raise error("E0103", f'"{node.name}" is no input of the signature, and is needed')
        items = [self.found(scope, text) for text in node.inputs]
        if any(item is None for item in items):
            return (None,)
        if node.op == "ReadVariableOp":
            if not items or not isinstance(items[0], Variable):
                raise error("E0113", "ReadVariableOp of what is no variable of the model is not supported")
            return (self.weight(items[0], scope),)
        if node.op in READING:
            items = [self.weight(item, scope) if isinstance(item, Variable) else item for item in items]
        if node.op in SWITCHES:
            return (items[0], items[0])
        if node.op in FLOW:
            return (items[0],)
        work = Translation(
            node, items, self.builder, self.origin(scope, node), self.count(scope, node), scope.prefix + node.name
        )
        if node.op in (*CALLS, *CHOICES, *LOOPS) or node.op in self.model.functions:
            return self.called(scope, node, work)
        result = of_complex(node.op, work.items, node.attributes.get("DstT"), translator_of(node.op))(work)
        return result if isinstance(result, tuple) else (result,)

    @staticmethod
    def count(scope: Scope, node: Node) -> int:
        """How many results the node has, as far as its attributes say."""
        kinds = node.attributes.get("Tout")
        return len(kinds) if isinstance(kinds, tuple) else 1

    def constant(self, scope: Scope, node: Node) -> Item:
        given = node.attributes.get("value")
        if given is None:
            raise error("E0103", "a constant has no value")
        array = given if isinstance(given, np.ndarray) else array_of(given)
        if array.dtype == object:
            return Text(array)
        name = self.builder.name(scope.prefix + node.name)
        return Complex(constant(name, constant_pairs(array))) if array.dtype.kind == "c" else constant(name, array)

    def weight(self, handle: Variable, scope: Scope) -> Value:
        """The value of a variable."""
        if handle.name not in self.weights:
            node = self.model.nodes.get(handle.name)
            shared = "" if node is None else node.attributes.get("shared_name")
            text = shared.decode("utf-8", "replace") if isinstance(shared, bytes) else ""
            own = f"{handle.name}/.ATTRIBUTES/VARIABLE_VALUE"
            found = map(self.model.weight, filter(None, (self.model.restored.get(handle.name), handle.name, text, own)))
            array: Array | None = next((each for each in found if each is not None), None)
            if array is None:
                fix = "give the folder with its variables, or freeze the graph"
                raise error("E0103", f'the model has no value of the variable "{handle.name}"', fix=fix)
            self.weights[handle.name] = constant(self.builder.name(handle.name), array)
        return self.weights[handle.name]

    def origin(self, scope: Scope, node: Node) -> Callable[[int], str]:
        def text(position: int) -> str:
            name = tensor_of(node.inputs[position])[0] if position < len(node.inputs) else ""
            made = scope.nodes.get(name)
            return f'comes from {made.op} "{name}"' if made is not None else f'is "{name}"'

        return text

    # ---------------------------------------------------------------- functions
    def called(self, scope: Scope, node: Node, work: Translation) -> tuple[Item, ...]:
        items = work.items
        if node.op in LOOPS:
            condition, body = (self.function(node, name) for name in ("cond", "body"))
            return control.repetition(work, condition, body, items)
        if node.op in ("If", "StatelessIf"):
            test = control.test_of(work, items[0])
            then, otherwise = (self.function(node, name) for name in ("then_branch", "else_branch"))
            return control.choice(work, test, then, otherwise, items[1:])
        if node.op in ("Case", "StatelessCase"):
            return self.case(node, work)
        return tuple(self.function(node, "f" if node.op in CALLS else "")(items))

    def case(self, node: Node, work: Translation) -> tuple[Item, ...]:
        """One of several functions by a number; the last one where it is out of range."""
        names = node.attributes.get("branches")
        if not isinstance(names, tuple) or not names:
            raise error("E0103", "Case names no functions")
        functions = [self.inner(str(name)) for name in names]
        index = work.input(0)

        def chosen(n: int, arguments: Sequence[Item]) -> Sequence[Item]:
            if n == len(functions) - 1:
                return functions[n](arguments)
            test = work.op("equal", index, work.scalar(n, index.dtype))
            return control.choice(work, test, functions[n], lambda given: chosen(n + 1, given), arguments)

        return tuple(chosen(0, work.items[1:]))

    def function(self, node: Node, attribute: str) -> control.Inner:
        return self.inner(str(node.attributes.get(attribute)) if attribute else node.op)

    def inner(self, name: str) -> control.Inner:
        function = self.model.functions.get(name)
        if function is None:
            raise error("E0103", f'the model has no function "{name}"')

        def made(arguments: Sequence[Item]) -> list[Item]:
            if len(arguments) != len(function.arguments):
                raise error("E0103", f'"{name}" takes {len(function.arguments)} arguments, not {len(arguments)}')
            if self.depth >= DEEPEST:
                raise error("E0103", f"functions are nested more than {DEEPEST} deep")
            given: dict[str, tuple[Item, ...]] = {
                argument: (item,) for argument, item in zip(function.arguments, arguments, strict=True)
            }
            inside = Scope(function.nodes, self.model.where, Flow(function.nodes), given, f"{name}/")
            return self.nested(inside, function.results)

        return made

    def nested(self, scope: Scope, tensors: Sequence[str]) -> list[Item]:
        """Tensors of an inner graph; what is wrong within it is raised."""
        before = len(self.problems)
        self.depth += 1
        try:
            found = self.evaluate(scope, tensors)
        finally:
            self.depth -= 1
        if wrong := self.problems[before:]:
            del self.problems[before:]
            raise SternaError(dict.fromkeys(wrong))
        return found

    # ---------------------------------------------------------------- control flow of version 1
    def group(self, scope: Scope, node: Node) -> list[Node]:
        """The Merges of a choice: those that the same tensor decides, and of which none needs another."""
        if node.name not in scope.groups:
            decider, _, _ = scope.flow.decider(node)
            found = [node]
            # In the model's order: the same model gives the same names each time.
            for name, other in scope.nodes.items():
                if other.op not in MERGES or name not in scope.needed or name in scope.groups or other is node:
                    continue
                if name in scope.flow.frame_of or name in scope.given:
                    continue
                if scope.flow.decider_or_none(other) != decider:
                    continue
                if any(scope.flow.reaches(a, b) for one in found for a, b in ((one, other), (other, one))):
                    continue
                if not scope.flow.between([*found, other], scope.needed):
                    found.append(other)
            scope.groups |= {each.name: found for each in found}
        return scope.groups[node.name]

    def merge(self, scope: Scope, node: Node) -> tuple[Item, ...]:
        """The results of a choice: of `node` and, at once, of the other Merges of it."""
        found = self.group(scope, node)
        (decider, _, _), sides = scope.flow.decider(node), [scope.flow.decider(each)[1:] for each in found]
        condition = self.found(scope, f"{decider[0]}:{decider[1]}")
        work = Translation(node, (condition,), self.builder, self.origin(scope, node), name=scope.prefix + node.name)
        test = control.test_of(work, condition)

        def side(texts: Sequence[str]) -> control.Inner:
            def made(_: Sequence[Item]) -> list[Item]:
                inside = Scope(scope.nodes, scope.where, scope.flow, {}, f"{scope.prefix}{node.name}/")
                for text in texts:
                    for name, switch in scope.flow.boundary(text, decider).items():
                        item = self.found(scope, switch.inputs[0])
                        inside.given[name] = (item, item)
                # Seeds of an enclosing loop, which nothing else stands for here.
                inside.given |= {k: v for k, v in scope.given.items() if k in scope.flow.frame_of or k == decider[0]}
                return self.nested(inside, texts)

            return made

        results = control.choice(work, test, side([yes for yes, _ in sides]), side([no for _, no in sides]), ())
        for each, (yes, no), result in zip(found, sides, results, strict=True):
            index = work.op(
                "where", test, work.scalar(each.inputs.index(yes), "int32"), work.scalar(each.inputs.index(no), "int32")
            )
            scope.given[each.name] = (result, index)
        return scope.given[node.name]

    def loop(self, scope: Scope, node: Node) -> tuple[Item, ...]:
        """All results of the loop whose result `node` is."""
        frame = scope.flow.frames[scope.flow.frame_of[node.name]]
        if node.op in MERGES or not frame.condition:
            raise error("E0103", f'the loop "{frame.name}" has no end')
        outside: dict[str, tuple[Item, ...]] = {}
        for name in frame.enters:
            outside[name] = (self.found(scope, scope.nodes[name].inputs[0]),)
        merges = list(frame.merges)
        initial = [outside[tensor_of(frame.merges[name][0])[0]][0] for name in merges]
        if any(item is None for item in initial):
            return (None,)
        work = Translation(node, initial, self.builder, self.origin(scope, node), name=scope.prefix + frame.name)

        def seeded(items: Sequence[Item]) -> Scope:
            given = dict(outside)
            given |= {name: (item,) for name, item in zip(merges, items, strict=True)}
            given |= {s: (given[m][0], given[m][0]) for s, m in frame.switches.items()}
            return Scope(scope.nodes, scope.where, scope.flow, given, f"{scope.prefix}{frame.name}/")

        def condition(items: Sequence[Item]) -> list[Item]:
            return self.nested(seeded(items), [scope.nodes[frame.condition].inputs[0]])

        def body(items: Sequence[Item]) -> list[Item]:
            ends = [scope.nodes[tensor_of(frame.merges[name][1])[0]].inputs[0] for name in merges]
            return self.nested(seeded(items), ends)

        last = dict(zip(merges, control.repetition(work, condition, body, initial), strict=True))
        for name, merge in frame.exits.items():
            scope.given[name] = (last[merge],)
        return scope.given[node.name]


__all__ = ["Port", "missing", "needed_nodes", "read"]
