"""The blocks of a program, operation by operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sterna.errors import Diagnostic, SternaError, error, internal_error
from sterna.frontends.coreml.labels import picked
from sterna.frontends.coreml.mil.constants import Constants
from sterna.frontends.coreml.mil.operators import is_supported, translator_of
from sterna.frontends.coreml.mil.translation import Argument, Translation
from sterna.frontends.custom import how_to_register
from sterna.frontends.standard import standard
from sterna.frontends.tflite.control import choice, repetition
from sterna.frontends.tripped import TRIPS, tripped
from sterna.ir.graph import Value
from sterna.ops import Builder

_DEEPEST = 32
_SHOWN = 4
#: What `values` holds for a result that could not be made.
FAILED = object()


def block_of(function: Any) -> Any:
    """The block that a function stands for.

    Raises:
        SternaError: E0103.
    """
    blocks = function.block_specializations
    if function.opset in blocks:
        return blocks[function.opset]
    if len(blocks) == 1:
        return next(iter(blocks.values()))
    raise error("E0103", f'a function has no block for its operator set "{function.opset}"')


def operations(block: Any, depth: int = 0) -> Iterator[Any]:
    """All operations, those of inner blocks too."""
    if depth > _DEEPEST:
        raise error("E0103", f"blocks lie more than {_DEEPEST} deep in each other")
    for operation in block.operations:
        yield operation
        for inner in operation.blocks:
            yield from operations(inner, depth + 1)


def problems_of(block: Any, where: str) -> list[Diagnostic]:
    """Operations that are not supported, all of a kind together."""
    found: dict[str, list[str]] = {}
    for operation in operations(block):
        if not is_supported(operation.type):
            found.setdefault(operation.type, []).append(_place(operation))
    problems = []
    for kind, places in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        count = f"{len(places)} node" + ("s" if len(places) > 1 else "")
        shown = "; ".join(places[:_SHOWN]) + (f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")
        title, fix = f"the operator {kind} is not supported ({count})", how_to_register("coreml", kind)
        problems.append(Diagnostic("E0104", title, (f"{where}, {shown}",), fix))
    return problems


def counts(block: Any) -> Counter[str]:
    """How many operations there are of each kind, constants left out."""
    return Counter(each.type for each in operations(block) if each.type != "const")


def _place(operation: Any) -> str:
    made = f' "{operation.outputs[0].name}"' if operation.outputs else ""
    return f"{operation.type}{made}"


class Blocks:
    """Translates blocks.

    Args:
        states: name -> its value now; changed as operations change it.

    Attributes:
        problems: what went wrong; labels: the tensor of probabilities -> what they are of, by `classify`.
    """

    def __init__(self, builder: Builder, constants: Constants, where: str, states: dict[str, Value]):
        self.builder, self.constants, self.where, self.states = builder, constants, where, states
        self.problems: list[Diagnostic] = []
        self.wanted: dict[Value, str] = {}
        self.labels: dict[str, list[Any]] = {}
        self.depth = 0

    def run(self, block: Any, values: dict[str, Any]) -> None:
        """Adds the results of a block's operations to `values`."""
        for operation in block.operations:
            operands: list[Any] = []
            try:
                made = self._made(operation, values, operands)
            except SternaError as mistake:
                made = self._failed(mistake, operation)
            except MemoryError:
                raise
            except TRIPS as problem:
                kinds = [each for each in operands if isinstance(each, Value)]
                made = self._failed(tripped(problem, operation.type, kinds), operation)
            except Exception as problem:  # ours, and still the other operations are looked at
                made = self._failed(internal_error(f"{type(problem).__name__}: {problem}"), operation)
            for output, value in zip(operation.outputs, made, strict=False):
                values[output.name] = value
                if isinstance(value, Value):
                    self.wanted.setdefault(value, output.name)

    def _failed(self, mistake: SternaError, operation: Any) -> list[Any]:
        place = f"{self.where}, {_place(operation)}"
        self.problems += [replace(each, where=(place, *each.where)) for each in mistake.diagnostics]
        return [FAILED] * len(operation.outputs)

    def _constant(self, value: Any, name: str) -> Argument:
        held = self.constants.read(value)
        if isinstance(held, (str, list)):
            return held
        return self.builder.constant(held, name)

    def _bound(self, binding: Any, values: Mapping[str, Any]) -> Any:
        if binding.WhichOneof("binding") == "value":
            return self._constant(binding.value, "constant")
        if binding.name not in values:
            raise error("E0103", f'nothing computes "{binding.name}" before it is read')
        return values[binding.name]

    def _made(self, operation: Any, values: dict[str, Any], operands: list[Any]) -> Sequence[Any]:
        kind = operation.type
        if kind == "const":
            if "val" not in operation.attributes:
                raise error("E0103", "a constant has no value")
            name = operation.outputs[0].name if operation.outputs else "constant"
            return [self._constant(operation.attributes["val"], name)]
        arguments: dict[str, Any] = {}
        for key, argument in operation.inputs.items():
            bound = [self._bound(each, values) for each in argument.arguments]
            operands += bound
            arguments[key] = bound if key in _TUPLES or len(bound) != 1 else bound[0]
        for key, value in operation.attributes.items():
            if key != "name" and key not in arguments:
                arguments[key] = operands_of = self._constant(value, key)
                operands.append(operands_of)
        if any(each is FAILED for each in operands):
            return [FAILED] * len(operation.outputs)
        name = operation.outputs[0].name if operation.outputs else kind
        if kind in ("read_state", "write_state", "coreml_update_state"):
            return self._state(kind, arguments)
        inner = [self._inner(block, values) for block in operation.blocks]
        t = Translation(kind, name, arguments, self.builder, inner, operation.outputs)
        if kind == "classify":
            return self._classified(t, operation)
        if kind == "cond":
            return self._cond(t)
        if kind == "while_loop":
            return self._loop(t, operation)
        translate = translator_of(kind)
        if translate is None:
            raise error("E0104", f"the operator {kind} is not supported", fix=how_to_register("coreml", kind))
        made = translate(t)
        return made if isinstance(made, tuple) else (made,)

    # ---------------------------------------------------------------- control flow and states
    def _inner(self, block: Any, values: Mapping[str, Any]) -> Any:
        def run(given: Sequence[Value]) -> list[Value | None]:
            inside = dict(values)
            inside.update({part.name: value for part, value in zip(block.inputs, given, strict=False)})
            self.depth += 1
            try:
                self.run(block, inside)
            finally:
                self.depth -= 1
            made = [inside.get(name, FAILED) for name in block.outputs]
            return [value if isinstance(value, Value) else None for value in made]

        return run

    def _cond(self, t: Translation) -> Sequence[Any]:
        if len(t.blocks) != 2:
            raise error("E0103", f"cond has {len(t.blocks)} blocks")
        chosen = Translation(t.kind, t.name, {"pred": t.arg("pred")}, self.builder)
        made = choice(chosen, lambda _: t.blocks[0](()), lambda _: t.blocks[1](()), ())  # type: ignore[arg-type]
        return [FAILED if value is None else value for value in made]

    def _loop(self, t: Translation, operation: Any) -> Sequence[Any]:
        if len(t.blocks) != 2:
            raise error("E0103", f"while_loop has {len(t.blocks)} blocks")
        body = operation.blocks[1]
        kept = [output == part.name for output, part in zip(body.outputs, body.inputs, strict=True)]
        made = repetition(t, t.blocks[0], t.blocks[1], t.many("loop_vars"), kept)  # type: ignore[arg-type]
        return [FAILED if value is None else value for value in made]

    def _state(self, kind: str, arguments: Mapping[str, Any]) -> Sequence[Any]:
        name = arguments.get("input" if kind in ("read_state", "write_state") else "state")
        if not isinstance(name, str) or name not in self.states:
            raise error("E0103", f"{kind} names no state")
        if kind == "read_state":
            return [self.states[name]]
        if self.depth:
            raise error("E0113", f"{kind} within a condition or a loop is not supported")
        value = arguments.get("value" if kind == "coreml_update_state" else "data")
        if not isinstance(value, Value) or value.type != self.states[name].type:
            raise error("E0113", f'the state "{name}" of {self.states[name].type} is given another type')
        self.states[name] = value
        return [value]

    def _classified(self, t: Translation, operation: Any) -> Sequence[Any]:
        scores, classes = t.arg("probabilities"), t.arguments.get("classes")
        labels = _labels(classes)
        size = 1
        for extent in t.static(scores):
            size *= extent
        if size != len(labels):
            raise error("E0109", f"{len(labels)} labels for {size} classes")
        flat = t.reshape(scores, (size,))
        best = picked(t, labels, standard(t, "ArgMax", flat, axis=0, keepdims=1))
        for output in operation.outputs[1:2]:
            self.labels[output.name] = labels
        return [best, scores]


#: Arguments that are tuples whatever their number.
_TUPLES = ("begins", "elem_shape", "end_masks", "ends", "loop_vars", "ref_tensors", "values")


def _labels(classes: Any) -> list[str] | list[int]:
    """The texts or numbers of a list."""
    if isinstance(classes, Value) and classes.data is not None:
        return [int(n) for n in classes.data.reshape(-1)]
    if not isinstance(classes, list):
        raise error("E0109", "there are no classes")
    found: list[Any] = []
    for each in classes:
        if isinstance(each, str):
            found.append(each)
        else:
            held: Any = each.data if isinstance(each, Value) else each
            found.append(int(held.reshape(-1)[0]))
    return found
