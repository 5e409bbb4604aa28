"""What an operator is: one declaration that the type checker, the code generators, the front ends, the tests and the
documentation all read.

A new element-wise operator is one line in `ops/elementwise.py`:

    unary("softsign", "x / (1 + |x|)", lambda x: x / (absolute(x) + 1), onnx="Softsign"),
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.ir import dtypes
from sterna.ir.graph import Array, TensorType
from sterna.loops.build import ProgramBuilder
from sterna.loops.groups import GroupBuilder, ThreadGroup
from sterna.loops.program import Buffer, Function
from sterna.te.tensor import Tensor
from sterna_runtime.advice import Fix


class Fusion(enum.Enum):
    """How a node may join others in one kernel (DESIGN.md, 2)."""

    INJECTIVE = "injective"  #: every result element is one operand element; an index map
    BROADCAST = "broadcast"  #: element by element on operands that broadcast
    REDUCTION = "reduction"  #: result elements combine many operand elements
    COMPLEX = "complex"  #: a contraction or the like: fuses what follows it into its store
    OPAQUE = "opaque"  #: a kernel of its own


class Required(enum.Enum):
    """Marks an attribute without a default."""

    REQUIRED = 0


REQUIRED = Required.REQUIRED


@dataclass(frozen=True)
class Attribute:
    """A setting of an operator.

    Args:
        kind: "int", "float", "bool", "string", "ints" (tuple of int), "floats", "dims" (tuple of `Int`) or "dtype".
        default: the value where none is given; REQUIRED if one must be.
        choices: the only legal values, if there are so few.
    """

    name: str
    kind: str
    doc: str
    default: Any = REQUIRED
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Onnx:
    """The ONNX operator that is exactly this one: same operands, and attributes of the same meaning.

    Args:
        op: its name.
        domain: its domain.
        attributes: ONNX attribute name -> ours, where they differ.
    """

    op: str
    domain: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


Operand = tuple[str, tuple[int, ...]]  # dtype and shape, for a random array; an array stands for itself


@dataclass(frozen=True)
class Case:
    """Operands and attributes to test an operator with.

    Args:
        inputs: (dtype, shape) for random values of `low` to `high`, or a fixed array, or None for one left out.
    """

    inputs: tuple[Operand | Array | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    low: float = -3.0
    high: float = 3.0

    def arrays(self, seed: int = 0) -> list[Array | None]:
        """The operands."""
        random = np.random.default_rng(seed)
        return [self._array(operand, random) for operand in self.inputs]

    def _array(self, operand: Operand | Array | None, random: np.random.Generator) -> Array | None:
        if operand is None or isinstance(operand, np.ndarray):
            return operand
        dtype, shape = operand
        if dtype == "bool":
            return np.asarray(random.random(shape) < 0.5)
        if dtypes.is_float(dtype):
            return np.asarray(random.uniform(self.low, self.high, shape)).astype(dtypes.to_numpy(dtype))
        low = max(int(self.low), dtypes.limits(dtype)[0])
        return np.asarray(random.integers(low, max(int(self.high), low + 1), shape)).astype(dtypes.to_numpy(dtype))


def case(*inputs: Operand | Array | None, low: float = -3.0, high: float = 3.0, **attributes: Any) -> Case:
    """A `Case`, written shortly."""
    return Case(inputs, attributes, low, high)


Types = tuple[TensorType | None, ...]
TypeRule = Callable[[Types, Mapping[str, Any]], tuple[TensorType, ...]]
Formula = Callable[["Application"], Tensor | tuple[Tensor, ...]]
ProgramRule = Callable[[ProgramBuilder, Mapping[str, Any]], None]
#: Writes a program that a group of threads runs; False where it has none for these sizes.
GroupRule = Callable[[GroupBuilder, Mapping[str, Any]], bool]


@dataclass(frozen=True)
class Application:
    """One application of an operator, as its formula sees it: the operands as tensors, the attributes, the types of the
    results, and a name.

    A formula names its last stage `name` and those before it `stage("...")`, so that names stay unique in a kernel.
    """

    inputs: tuple[Tensor | None, ...]
    attributes: Mapping[str, Any]
    outputs: tuple[TensorType, ...]
    name: str

    def __getitem__(self, attribute: str) -> Any:
        return self.attributes[attribute]

    def input(self, position: int) -> Tensor:
        """An operand that must be there."""
        tensor = self.inputs[position]
        assert tensor is not None
        return tensor

    @property
    def output(self) -> TensorType:
        """The type of the only result."""
        (only,) = self.outputs
        return only

    def stage(self, suffix: str) -> str:
        """The name of an intermediate stage."""
        return f"{self.name}_{suffix}"


@dataclass(frozen=True)
class Operator:
    """The declaration of an operator.

    Args:
        name: what it is called in graphs.
        doc: what it computes, in a sentence or two.
        types: from the operands' types and the complete attributes to the results' types; raises E0108 or E0109.
        formula: from the operands to the results, as tensor expressions; None where there is a program.
        fusion: how it may share a kernel.
        attributes: its settings.
        onnx: ONNX operators that are exactly this one; others are decomposed by the front end.
        cases: what it is tested with, in the interpreter and in every code generator.
        view: where the result is only another view of one constant array: NumPy's own way to it, which copies nothing.
        tags: what passes ask for: "elementwise", "reduction", "lookup" (each element's place is an operand's value).
        program: writes the loop program of an opaque operator, in place of the formula.
        shared: writes the one whose tasks groups of threads run.
    """

    name: str
    doc: str
    types: TypeRule
    formula: Formula | None
    fusion: Fusion
    attributes: tuple[Attribute, ...] = ()
    onnx: tuple[Onnx, ...] = ()
    cases: tuple[Case, ...] = ()
    view: Callable[[Array, Mapping[str, Any]], Array] | None = None
    tags: frozenset[str] = frozenset()
    program: ProgramRule | None = None
    shared: GroupRule | None = None

    def __post_init__(self) -> None:
        if (self.formula is None) == (self.program is None):
            raise ValueError(f"{self.name} needs a formula or a program")
        if self.program is not None and self.fusion is not Fusion.OPAQUE:
            raise ValueError(f"{self.name} is a loop program and cannot be fused")

    def compute(
        self,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, Any],
        outputs: Sequence[TensorType],
        name: str,
    ) -> tuple[Tensor, ...]:
        """The operator's stages on given operands.

        Args:
            inputs: one tensor per operand, of its type's shape and storage type; None where left out.
            outputs: the types of the results, as `types` gives them.
            name: of the result's stage (`name_0` ... if there are several); intermediate stages begin with it.
        """
        assert self.formula is not None
        seen = tuple(TensorType(dtypes.storage(kind.dtype), kind.shape) for kind in outputs)
        result = self.formula(Application(tuple(inputs), attributes, seen, name))
        return result if isinstance(result, tuple) else (result,)

    def write(
        self, inputs: Sequence[Buffer | None], attributes: Mapping[str, Any], outputs: Sequence[Buffer]
    ) -> Function:
        """The loop program of an opaque operator.

        Args:
            inputs: a buffer of scope "input" or "param" per operand, wherever it lies; None where left out.
            outputs: a buffer of scope "output" per result, of the type that `types` gives.
        """
        assert self.program is not None
        program = ProgramBuilder(self.name, inputs, outputs)
        self.program(program, attributes)
        return program.function()

    def write_shared(
        self,
        inputs: Sequence[Buffer | None],
        attributes: Mapping[str, Any],
        outputs: Sequence[Buffer],
        group: ThreadGroup,
    ) -> Function | None:
        """The loop program of an opaque operator whose tasks groups of threads run; None where there is none, or none
        that their memory has room for. Buffers as of `write`."""
        if self.shared is None:
            return None
        program = GroupBuilder(self.name, inputs, outputs, group)
        there = self.shared(program, attributes) and program.shared_bytes <= group.memory.bytes
        return program.function() if there else None

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes with defaults filled in.

        Raises:
            SternaError: E0109, an attribute is unknown, missing or not one of its choices.
        """
        values: dict[str, Any] = {}
        for attribute in self.attributes:
            value = given.get(attribute.name, attribute.default)
            if value is REQUIRED:
                raise error("E0109", f"{self.name} needs the attribute {attribute.name}")
            if attribute.choices and value not in attribute.choices:
                allowed = ", ".join(map(str, attribute.choices))
                raise error("E0109", f"{self.name}: {attribute.name} is {value!r}, not one of {allowed}")
            values[attribute.name] = value
        if unknown := [name for name in given if name not in values]:
            raise error("E0109", f"{self.name} has no attribute {', '.join(unknown)}")
        return values


def opaque(
    name: str,
    doc: str,
    types: TypeRule,
    program: ProgramRule,
    attributes: Sequence[Attribute] = (),
    onnx: Sequence[Onnx] = (),
    cases: Sequence[Case] = (),
    shared: GroupRule | None = None,
) -> Operator:
    """An operator without an index formula, written as a loop program."""
    settings = tuple(attributes), tuple(onnx), tuple(cases)
    return Operator(name, doc, types, None, Fusion.OPAQUE, *settings, program=program, shared=shared)


def unfit(title: str, fix: Fix | None = None) -> SternaError:
    """The error of a type rule: operands of wrong types or shapes."""
    return error("E0108", title, fix=fix)
