"""Makes nodes: fills in attributes, infers types, finds names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Names, Node, TensorType, Value, constant
from sterna.ir.integer import ComputedSymbol, Int, as_int, of
from sterna.ir.limits import check_constants, constants_fit, memory_of
from sterna.ir.sizes import BIND, symbols_in
from sterna.ops.contents import constant_array, contents_of
from sterna.ops.evaluate import evaluate, is_quick
from sterna.ops.formulas import HALF
from sterna.ops.shares import shares_of
from sterna.ops.table import operator

LARGEST_TENSOR = 2**40  # bytes
#: Operands of a concatenation; more are joined in parts first.
MOST_JOINED = 256


def check_size(op: str, kind: TensorType) -> None:
    """Refuses results that no machine could hold.

    Raises:
        SternaError: E0108, a dimension is negative; E0112, the tensor is too large.
    """
    if not kind.is_static:
        return
    if any(size < 0 for size in kind.sizes):
        raise error("E0108", f"{op} would give {kind}, which has a negative dimension")
    if too_large(kind.sizes, dtypes.size(kind.dtype)):
        raise error("E0112", f"{op} would give {kind}, which is too large")


def is_too_large(kind: TensorType) -> bool:
    """Whether a tensor is, at its greatest size."""
    return too_large([size.bounds()[1] or 0 for size in kind.shape], dtypes.size(kind.dtype))


def too_large(sizes: Iterable[int], size: int) -> bool:
    """Whether no machine could hold a tensor, nor a slice of it where it has no elements.

    Args:
        size: bytes of an element.
    """
    return math.prod(n for n in sizes if n) * size > LARGEST_TENSOR


class Builder:
    """Collects nodes in order.

    Args:
        taken: names that are in use already.
        fold: compute what depends on constants only, and is no larger than so many bytes, at once; views of constants
            of any size are made at once whenever this is not 0.

    Attributes:
        halves: `Graph.halves` of what is built.
        dimensions: names of the sizes that are computed.
        counted: (scope, tensor) -> how many of its elements are not 0: two that look for them find as many.
    """

    def __init__(self, taken: Iterable[str] = (), fold: int = 0):
        self.nodes: list[Node] = []
        self.fold = fold
        self.made = 0
        self.strings: dict[str, int] = {}
        self.halves: set[str] = set()
        self.scope = 0
        self._scopes = 0
        self.dimensions = Names()
        self.counted: dict[tuple[int, Value], Int] = {}
        self._names = Names(taken)
        self._node_names = Names()

    @classmethod
    def like(cls, graph: Graph, fold: int = 0) -> Builder:
        """A builder for a new version of a graph: its values keep their names."""
        return cls((value.name for value in graph.values()), fold)

    def name(self, wanted: str) -> str:
        """A name for a value that no other has."""
        return self._names.fresh(wanted)

    @contextmanager
    def region(self, nodes: list[Node] | None = None) -> Iterator[list[Node]]:
        """What is added meanwhile goes into a list of its own (or after `nodes`): the body of control flow.

        Names are the whole graph's. `scope` is another number meanwhile: what was made under it is known only there.
        """
        outer = self.nodes, self.scope
        self._scopes += 1
        self.nodes, self.scope = [] if nodes is None else nodes, self._scopes
        try:
            yield self.nodes
        finally:
            self.nodes, self.scope = outer

    @contextmanager
    def folding(self, size: int) -> Iterator[None]:
        """Meanwhile constants of up to so many bytes are computed at once, if any are."""
        before = self.fold
        self.fold = max(before, size) if before else 0
        try:
            yield
        finally:
            self.fold = before

    def constant(
        self, data: Array | np.generic | float | int | Sequence[int], name: str = "constant", dtype: str = ""
    ) -> Value:
        """A constant; a Python number or list needs a dtype."""
        if dtype == dtypes.STRING:
            return constant(self.name(name), self.numbered(np.asarray(data, object)))
        array = np.asarray(data, dtypes.to_numpy(dtype)) if dtype else np.asarray(data)
        self.made += memory_of(array)
        check_constants(self.made, "what the model's constants are computed to")
        return constant(self.name(name), array)

    def numbered(self, strings: Array) -> Array:
        """Strings by their numbers, new ones for those that are new."""
        numbers = [self.strings.setdefault(text, len(self.strings)) for text in strings.reshape(-1).tolist()]
        return np.array(numbers, np.int64).reshape(strings.shape).view(dtypes.to_numpy(dtypes.STRING))

    def keep(self, node: Node) -> Node:
        """Takes over a node of the old graph, which keeps its name unless a new one has it already."""
        name = self._node_names.fresh(node.name)
        node = node if name == node.name else replace(node, name=name)
        self.nodes.append(node)
        return node

    def add(
        self,
        op: str,
        *inputs: Value | None,
        sources: tuple[str, ...] = (),
        name: str = "",
        result: str | Value | None = None,
        **attributes: Any,
    ) -> Value:
        """A node with one result.

        Args:
            name: wanted for the node; else its first source or the operator.
            result: wanted name of the result (not checked against the names in use), or the value of the old graph
                whose place it takes, with its name.

        Raises:
            SternaError: E0108 or E0109, from the operator's type rule.
        """
        (value,) = self.add_all(op, *inputs, sources=sources, name=name, results=(result,), **attributes)
        return value

    def add_all(
        self,
        op: str,
        *inputs: Value | None,
        sources: tuple[str, ...] = (),
        name: str = "",
        results: Sequence[str | Value | None] = (),
        **attributes: Any,
    ) -> tuple[Value, ...]:
        """A node with any number of results; `results` as in `add`, one for each if there are any."""
        if op == "concat" and len(inputs) > MOST_JOINED:
            # Each part's copies are the same kernels: thousands of operands would be as many kernels else.
            parts = [inputs[n : n + MOST_JOINED] for n in range(0, len(inputs), MOST_JOINED)]
            inputs = tuple(
                self.add(op, *part, sources=sources, name=f"{name or op}/part", **attributes) for part in parts
            )
        declaration = operator(op)
        complete = declaration.complete(attributes)
        types = declaration.types(tuple(None if v is None else v.type for v in inputs), complete)
        for kind in types:
            check_size(declaration.name, kind)
        results = results or (None,) * len(types)
        names = [self._result_name(wanted, name or op) for wanted in results]
        if self.fold and inputs and all(v is None or v.is_constant for v in inputs):
            known = all(t.is_static for t in types) and not symbols_in(complete)
            size = sum(int(t.bytes) for t in types) if known else 0
            if known and (declaration.view is not None or (size <= self.fold and self.folds(op, inputs, size))):
                arrays = self.evaluated(op, [None if v is None else v.data for v in inputs], complete, types)
                return tuple(constant(n, array) for n, array in zip(names, arrays, strict=True))
        contents = contents_of(op, inputs, complete) if self.fold and len(types) == 1 else None
        if contents is not None and (array := constant_array(contents, types[0].dtype)) is not None:
            return (constant(names[0], array),)
        shares = shares_of(op, inputs, complete, types[0].dtype) if self.fold and len(types) == 1 else None
        values = tuple(
            wanted
            if isinstance(wanted, Value) and wanted.type == kind
            else Value(n, kind, contents=contents, shares=shares)
            for wanted, n, kind in zip(results, names, types, strict=True)
        )
        wanted_name = name or (sources[0] if sources else op)
        node = Node(op, inputs, values, complete, sources, self._node_names.fresh(wanted_name))
        self.nodes.append(node)
        return values

    def evaluated(
        self, op: str, operands: Sequence[Array | None], attributes: Mapping[str, Any], types: Sequence[TensorType]
    ) -> tuple[Array, ...]:
        """The results of an operator on constants, in whose place they will stand."""
        if op == "cast" and types[0].dtype == "float32":
            kinds = {dtypes.from_numpy(array.dtype) for array in operands if array is not None}
            self.halves.update(kinds.intersection(HALF))
        return evaluate(op, operands, attributes, types)

    def folds(self, op: str, inputs: Sequence[Value | None], size: int) -> bool:
        """Whether a small result of constants is computed now: it neither takes too long nor fills the memory."""
        if not is_quick(op, [v.data for v in inputs if v is not None and v.data is not None], size):
            return False
        self.made += size
        return constants_fit(self.made)

    def _result_name(self, wanted: str | Value | None, fallback: str) -> str:
        if isinstance(wanted, Value):
            return wanted.name
        return self.name(fallback) if wanted is None else wanted

    def bind_size(self, count: Value, symbol_name: str, lo: int, hi: int, **rest: Any) -> Int:
        """A new symbol from `lo` to `hi` whose size is a scalar of the graph; the model fails to run where it is not
        within these bounds.

        Args:
            symbol_name: unique among the dimensions of the model.
        """
        if lo == hi:
            return as_int(lo)
        size = of(ComputedSymbol(symbol_name, lo, hi))
        self.add(BIND, count, size=(size,), **rest)
        return size

    def reshaped_from(self, x: Value) -> Value:
        """The tensor with the same elements that a value was made of in this region by reshapes; it itself, if none."""
        for node in reversed(self.nodes):
            if x in node.outputs:
                if node.op != "reshape" or node.inputs[0] is None:
                    break
                x = node.inputs[0]
        return x

    # -- shorthands
    def reshape(self, x: Value, shape: Sequence[Any], **rest: Any) -> Value:
        """`reshape`, unless it would change nothing."""
        wanted = tuple(as_int(size) for size in shape)
        return x if x.shape == wanted and not rest.get("result") else self.add("reshape", x, shape=wanted, **rest)

    def transpose(self, x: Value, order: Sequence[int], **rest: Any) -> Value:
        """`transpose`, unless it would change nothing."""
        if tuple(order) == tuple(range(len(order))) and not rest.get("result"):
            return x
        return self.add("transpose", x, order=tuple(order), **rest)

    def scalar(self, value: float | int | bool, dtype: str) -> Value:
        """A constant without dimensions."""
        return self.constant(value, f"{value}", dtype)
