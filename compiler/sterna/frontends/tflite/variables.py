"""What a model remembers from one run to the next: resource variables, and tensors that operators keep state in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from sterna.errors import error
from sterna.frontends.tflite.constants import element_type
from sterna.frontends.tflite.schema import OperatorInfo, SubgraphInfo, TensorInfo
from sterna.frontends.tflite.translation import Translation
from sterna.ir import dtypes
from sterna.ir.graph import Array, State, TensorType, Value, tensor_type
from sterna.ir.limits import check_table
from sterna.ops import Builder

#: The graphs that an operator names, each with the position of the operand that is its first argument.
Inner = Callable[[OperatorInfo], Iterable[tuple[SubgraphInfo, int]]]
#: Operators that name, read and assign variables instead of computing values.
RESOURCE_OPERATORS = ("ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE")


#: Which variable a tensor of a graph names.
Handles = dict[int, str]


def handle_of(graph: SubgraphInfo, node: OperatorInfo) -> str:
    """The variable that VAR_HANDLE names."""
    container, name = (node.options.get(key, "") for key in ("container", "shared_name"))
    return f"{container}/{name}" if container else name or graph.tensors[node.outputs[0]].name


def assigned_in(graph: SubgraphInfo, handles: Handles, inner: Inner) -> dict[str, TensorInfo]:
    """The variables that a graph assigns, or one that its conditions and loops name, and a tensor as they hold it.

    Args:
        handles: variables that its arguments name.
        inner: the graphs that an operator names; none contains itself.
    """
    handles, found = dict(handles), dict[str, TensorInfo]()
    for node in graph.operators:
        if node.is_custom:
            continue
        if node.op == "VAR_HANDLE":
            handles[node.outputs[0]] = handle_of(graph, node)
        elif node.op == "ASSIGN_VARIABLE" and node.inputs[0] in handles:
            found.setdefault(handles[node.inputs[0]], graph.tensors[node.inputs[1]])
        else:
            for part, first in inner(node):
                given = zip(part.inputs, node.inputs[first:], strict=False)
                named = {to: handles[n] for to, n in given if n in handles}
                found = assigned_in(part, named, inner) | found
    return found


class Variables:
    """The variables of a model.

    Args:
        builder: hands out names.

    Attributes:
        current: what each holds at this point of the graph.
        initial: what it holds before the first run, where the model says so.
    """

    def __init__(self, builder: Builder):
        self.builder = builder
        self.current: dict[str, Value] = {}
        self.initial: dict[str, Array] = {}
        self.given: dict[str, Value] = {}
        self._tensors: dict[int, str] = {}

    def read(self, name: str, result: TensorInfo) -> Value:
        """What a variable holds now."""
        if name not in self.current:
            first = self.initial.get(name)
            dtype = element_type(result) if first is None else dtypes.from_numpy(first.dtype)
            kind = tensor_type(dtype, result.shape if first is None else first.shape)
            self.current[name] = self._given(name, kind)
        return self.current[name]

    def assign(self, name: str, value: Value) -> None:
        """Lets a variable hold another value.

        Raises:
            SternaError: E0113, it has another type than before.
        """
        known = self.current.get(name)
        if known is not None and known.type != value.type:
            raise error("E0113", f'the variable "{name}" changes from {known.type} to {value.type}')
        self.current[name] = value

    def tensor(self, tensor: TensorInfo) -> Value:
        """The state that an operator keeps in a tensor."""
        self._tensors[tensor.index] = tensor.name
        dtype = element_type(tensor)
        if tensor.name not in self.current:
            self.current[tensor.name] = self._given(tensor.name, tensor_type(dtype, tensor.shape))
            low, high = dtypes.limits(dtype) if dtypes.is_integer(dtype) else (0, 0)
            if tensor.quantization is not None and tensor.quantization.zero_points.any():
                # Before the first run a state is zero, which its integers may say with another number.
                zero = int(tensor.quantization.zero_points[0])
                assert low <= zero <= high
                check_table(*tensor.shape)
                self.initial[tensor.name] = np.full(tensor.shape, zero, dtypes.to_numpy(dtype))
        return self.current[tensor.name]

    def update(self, work: Translation, values: Mapping[int, Value | None], node: OperatorInfo) -> None:
        """Takes over what an operator leaves in its state tensors."""
        for position, value in work.left_behind.items():
            index = node.inputs[position]
            if index not in self._tensors:
                raise error("E0113", f"{node.op} keeps its state in a tensor that is not a variable")
            self.assign(self._tensors[index], value)
            assert isinstance(values, dict)
            values[index] = value

    def _given(self, name: str, kind: TensorType) -> Value:
        value = Value(self.builder.name(name), kind)
        self.given[name] = value
        return value

    def states(self) -> tuple[tuple[State, ...], tuple[Value, ...], tuple[Value, ...]]:
        """The states, what each holds when a run begins, and when it ends."""
        names = [name for name in self.given if self.current.get(name) is not None]
        states = tuple(State(self.given[name].name, self.initial.get(name)) for name in names)
        return states, tuple(self.given[n] for n in names), tuple(self.current[n] for n in names)
