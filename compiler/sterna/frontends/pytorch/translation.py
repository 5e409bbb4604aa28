"""What a translator is given: one call of an exported program, its arguments, and the means to build core operators."""

from __future__ import annotations

import copy
import math
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sterna.errors import SternaError, error
from sterna.frontends.emitter import Emitter, axes_of
from sterna.frontends.expressions import parse, symbols_of
from sterna.frontends.pytorch.program import NodeInfo, TensorInfo
from sterna.frontends.pytorch.promotion import Operand, float_type, result_type
from sterna.ir import dtypes
from sterna.ir.graph import Names, Value
from sterna.ir.integer import Int, IntLike, as_int
from sterna.ops import Builder
from sterna_runtime.advice import Advice, Fix
from sterna_runtime.advice import dims as dims_given

Results = Value | Int | float | None | tuple[Any, ...] | list[Any]
Translator = Callable[["Translation"], Results]


class Shared:
    """What the translations of one program share.

    Attributes:
        dequantized: a tensor of real numbers -> the integers, scale and zero point that it was made of, and the axis
            of the scales (None: one for all).
        names: of dimensions.
        complexes: tensors of pairs that stand for complex ones.
        limits: the least and the greatest size of a symbol of the program; None: not bounded.
        places: of what is not 0 in a tensor, by the scope that asks: asked twice, they are as many.
        symbols: sizes of the inputs' symbols.
        expressions: computed numbers -> what the graph at hand says that they are, of its symbols.
        items: symbols that stand for a number of the data in the graph at hand -> that number.
        bound: the sizes that were made of these, by scope and number.
        required: what the graph at hand asserts when it runs.
    """

    def __init__(self, names: Names, limits: Mapping[str, tuple[int, int | None]]):
        self.names, self.limits = names, dict(limits)
        self.dequantized: dict[Value, tuple[Value, Value, Value | None, int | None]] = {}
        self.complexes: set[Value] = set()
        self.places: dict[tuple[int, Value], Value] = {}
        self.symbols: dict[str, Int] = {}
        self.expressions: ChainMap[Value, str] = ChainMap()
        self.items: ChainMap[str, Value] = ChainMap()
        self.bound: dict[tuple[int, Value], Int] = {}
        self.required: list[Value] = []

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Meanwhile a graph inside is at hand. Its symbols are its own: another graph, or the same one once more, uses
        them for other numbers."""
        outside = self.expressions, self.items, self.required
        self.expressions, self.items, self.required = outside[0].new_child(), outside[1].new_child(), []
        try:
            yield
        finally:
            self.expressions, self.items, self.required = outside

    def note(self, number: Value, text: str) -> None:
        """What the graph at hand says of a number that is computed from the data."""
        self.expressions[number] = text
        symbols = symbols_of(text)
        if len(symbols) == 1 and (text == symbols[0] or text.startswith("Symbol(")):
            self.items.maps[0].setdefault(symbols[0], number)


class Translation(Emitter):
    """One call on its way.

    Args:
        node: what the program says.
        arguments: by the names of the operator's schema; those that are left out have its defaults.
        values: the tensors among them, in order.
        results: what the program declares of the results that are tensors.
        operands: and of those among the arguments.
    """

    def __init__(
        self,
        node: NodeInfo,
        name: str,
        arguments: Mapping[str, Any],
        values: Sequence[Value | None],
        builder: Builder,
        origin: Callable[[int], str],
        shared: Shared,
        results: Sequence[TensorInfo | None] = (),
        operands: Sequence[TensorInfo | None] = (),
    ):
        super().__init__(builder, node.target, name, values, origin)
        self.node, self.arguments, self.shared, self.results = node, dict(arguments), shared, tuple(results)
        self.operands = tuple(operands)

    # -- arguments
    def having(self, /, **arguments: Any) -> Translation:
        """The same call with some arguments replaced or added: what another translator takes further."""
        made = copy.copy(self)
        made.arguments = self.arguments | arguments
        return made

    def arg(self, name: str, default: Any = None) -> Any:
        """An argument as it is: tensors as values, numbers, lists; the default where it is left out or None."""
        found = self.arguments.get(name)
        return default if found is None else found

    def given(self, *names: str) -> str:
        """Which of these names the call gives an argument by: overloads differ in them. Without names, any.

        Raises:
            SternaError: E0103, none.
        """
        found = next((name for name in names or self.arguments if name in self.arguments), None)
        if found is None:
            raise error("E0103", f"{self.kind} lacks its argument {' or '.join(names) if names else 'self'}")
        return found

    def tensor(self, name: str = "self") -> Value:
        """A tensor that must be there; a number counts as one.

        Raises:
            SternaError: E0103, it is not.
        """
        found = self.arguments.get(name)
        if found is None:
            raise error("E0103", f"{self.kind} lacks its argument {name}")
        return self.as_value(found)

    def maybe(self, name: str) -> Value | None:
        """A tensor that may be left out."""
        found = self.arguments.get(name)
        return None if found is None else self.as_value(found)

    def tensors(self, name: str) -> list[Value]:
        """A list of tensors."""
        found = self.arguments.get(name)
        if not isinstance(found, list) or not all(isinstance(item, Value) for item in found):
            raise error("E0103", f"{self.kind} lacks the tensors of its argument {name}")
        return list(found)

    def operand(self, name: str) -> Operand:
        """A tensor or a number that must be there."""
        found = self.arguments.get(name)
        if not isinstance(found, (Value, Int, bool, int, float)):
            raise error("E0103", f"{self.kind} lacks its argument {name}")
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.arg(name, default))

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer that is known now.

        Raises:
            SternaError: E0107, it is computed, or a size that is open.
        """
        found = self.arg(name, default)
        if isinstance(found, Value) and found.contents is not None and found.contents.size == 1:
            found = found.contents.reshape(-1)[0]
        if isinstance(found, Value) and found.data is not None and found.data.size == 1:
            found = found.data.reshape(-1)[0].item()
        if isinstance(found, Value) or (isinstance(found, Int) and not found.is_const):
            raise error("E0107", f"{self.kind} needs {name} to be constant")
        if found is None:
            raise error("E0103", f"{self.kind} lacks its argument {name}")
        return int(found)

    def number(self, name: str, default: float | None = None) -> float:
        """A number that is known now."""
        found = self.arg(name, default)
        if isinstance(found, Value) and found.data is not None and found.data.size == 1:
            found = found.data.reshape(-1)[0].item()
        if isinstance(found, Int) and found.is_const:
            found = int(found)
        if isinstance(found, (Value, Int)):
            raise error("E0107", f"{self.kind} needs {name} to be constant")
        if found is None:
            raise error("E0103", f"{self.kind} lacks its argument {name}")
        return float(found)

    def dim(self, name: str = "dim", rank: int | None = None, default: int | None = None) -> int:
        """An axis, not negative; of a tensor without dimensions it is 0."""
        rank = self.tensor("self").type.rank if rank is None else rank
        return self.axis(self.integer(name, default), rank)

    def axis(self, number: int, rank: int) -> int:
        if rank == 0 and number in (0, -1):
            return 0
        return axes_of((number,), rank)[0]

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """Some axes; all where none are given. One counts as a list."""
        found = self.arg(name, ())
        listed = list(found) if isinstance(found, (tuple, list)) else [found]
        if not listed:
            return tuple(range(rank))
        return tuple(dict.fromkeys(self.axis(int(n), rank) for n in listed)) if rank else ()

    def ints(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """Integers that are known now; one counts as a list."""
        found = self.arg(name, tuple(default))
        listed = found if isinstance(found, (tuple, list)) else (found,)
        if any(isinstance(n, Value) or (isinstance(n, Int) and not n.is_const) for n in listed):
            raise error("E0107", f"{self.kind} needs {name} to be constant")
        return tuple(int(n) for n in listed)

    def spatial(self, name: str, count: int, default: int) -> tuple[int, ...]:
        """Integers for so many dimensions; one stands for all."""
        found = self.ints(name, (default,)) or (default,)
        if len(found) not in (1, count):
            raise error("E0109", f"{name} has {len(found)} entries for {count} dimensions")
        return found * count if len(found) == 1 else found

    def sizes_of(self, name: str) -> list[Int]:
        """Sizes: numbers, open dimensions, or scalars that are computed."""
        found = self.arg(name, ())
        listed = found if isinstance(found, (tuple, list)) else (found,)
        return [self.size_from(item) for item in listed]

    def size_from(self, item: Any) -> Int:
        """A size of an argument; a computed scalar becomes a dimension that is known when the model runs."""
        if isinstance(item, (Int, int)):
            return as_int(int(item) if isinstance(item, bool) else item)
        if isinstance(item, float):
            return as_int(int(item))
        if isinstance(item, Value):
            if item.contents is not None and item.contents.size == 1:
                return as_int(item.contents.reshape(-1)[0])
            if item.data is not None and item.data.size == 1:
                return as_int(int(item.data.reshape(-1)[0]))
            found = self.size_of_number(item)
            if found is not None:
                return found
        raise error("E0107", f"{self.kind} needs sizes that are constant or follow from the inputs' sizes")

    def size_of_number(self, number: Value) -> Int | None:
        """A number that is computed from the data as a size, within the bounds that the program says; None where the
        program does not say what the number is.

        Raises:
            SternaError: E0107, it has no upper bound.
        """
        text = self.shared.expressions.get(number)
        if text is None:
            return None
        known = dict(self.shared.symbols)
        for name in symbols_of(text):
            if name in known:
                continue
            if name not in self.shared.items:
                return None
            known[name] = self._size_of_item(name, self.shared.items[name])
        return parse(text, known)

    def _size_of_item(self, name: str, value: Value) -> Int:
        low, high = self.shared.limits.get(name, (0, None))
        if high is None:
            raise self.unbounded(f"a size that the data decide ({name}), which has no upper bound", name)
        place = self.builder.scope, value
        if place not in self.shared.bound:
            self.shared.bound[place] = self.bind(value, low, high, name)
        return self.shared.bound[place]

    def unbounded(self, what: str, symbol: str) -> SternaError:
        """The error for a size without a bound (E0107)."""
        fix = Advice(
            dims_given({symbol: (1, 1000)}),
            ", with the greatest size that occurs, or export the module with torch._check(n <= 1000) of that number n",
        )
        return error("E0107", f"{self.kind} needs {what}", fix=fix)

    def bind(self, count: Value, low: int, high: int, called: str = "") -> Int:
        """A computed scalar as a size."""
        wanted = re.sub(r"\W", "_", called or self.name) or "size"
        name = self.shared.names.fresh(wanted if not wanted[0].isdigit() else f"_{wanted}")
        return self.builder.bind_size(count, name, low, high, sources=self.sources, name=f"{self.name}/size")

    def declared_limit(self, axis: int = 0) -> int | None:
        """How large the program says that a dimension of the first result is at most; None where it does not say it."""
        info = next(iter(self.results), None)
        said = info.sizes[axis] if info is not None and axis < len(info.sizes) else None
        if not isinstance(said, str):
            return said
        found = re.fullmatch(r"(?:Symbol\('(\w+)'.*\)|(\w+))", said)
        return None if found is None else self.shared.limits.get(found[1] or found[2], (0, None))[1]

    def scalar_type(self, default: str, name: str = "dtype") -> str:
        """The element type that an argument asks for."""
        return str(self.arg(name, default))

    def unsupported(self, what: str, fix: Fix | None = None) -> SternaError:
        """The error for a setting that is not supported (E0113)."""
        return error("E0113", f"{self.kind} {what} is not supported", fix=fix)

    # -- building
    def as_value(self, found: Any, dtype: str = "") -> Value:
        """A tensor or a number as a tensor, of a type where one is given."""
        if isinstance(found, Value):
            return self.cast(found, dtype) if dtype else found
        if isinstance(found, Int):
            if found.is_const:
                return self.scalar(int(found), dtype or "int64")
            value = self.reshape(self.dimensions((found,)), ())
            return self.cast(value, dtype) if dtype else value
        if isinstance(found, (bool, int, float)):
            wanted = dtype or result_type((found,))
            if wanted not in ("bool",) and not dtype_is_float(wanted) and isinstance(found, float):
                found = int(found) if math.isfinite(found) else 0
            if wanted.startswith("uint"):
                found = int(found) % (1 << dtypes.bits(wanted))  # -1 is what added takes 1 away
            return self.scalar(found, wanted)
        raise error("E0103", f"{self.kind} is given {type(found).__name__} in place of a tensor")

    def together(self, *operands: Operand, floats: bool = False) -> tuple[Value, ...]:
        """Operands in their common type, or the floating-point type that they are computed in."""
        dtype = result_type(operands)
        dtype = float_type(dtype) if floats else dtype
        return tuple(self.as_value(operand, dtype) for operand in operands)

    def floating(self, name: str = "self") -> Value:
        """A tensor as floats."""
        x = self.tensor(name)
        return self.cast(x, float_type(x.dtype))

    def full(self, shape: Sequence[IntLike], value: Any, dtype: str) -> Value:
        """A tensor of one number."""
        one = self.as_value(value, dtype)
        return self.expand(one, shape)

    def expand(self, x: Value, shape: Sequence[IntLike]) -> Value:
        wanted = tuple(as_int(n) for n in shape)
        return x if x.shape == wanted else self.op("expand", x, shape=wanted)

    def broadcast(self, *values: Value) -> tuple[Int, ...]:
        """The shape that tensors have together."""
        rank = max(value.type.rank for value in values)
        shape = [as_int(1)] * rank
        for value in values:
            for n, size in enumerate(value.shape, rank - value.type.rank):
                if size != 1:
                    shape[n] = size
        return tuple(shape)

    def cut(self, x: Value, axis: int, start: IntLike, size: IntLike, step: int = 1) -> Value:
        """Some elements along one dimension."""
        starts, sizes, steps = [as_int(0)] * x.type.rank, list(x.shape), [1] * x.type.rank
        starts[axis], sizes[axis], steps[axis] = as_int(start), as_int(size), step
        if tuple(sizes) == x.shape and starts[axis] == 0 and step == 1:
            return x
        return self.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))

    def take(self, x: Value, axis: int, index: IntLike) -> Value:
        """One position of a dimension, which goes away."""
        part = self.cut(x, axis, index, 1)
        return self.reshape(part, [size for n, size in enumerate(part.shape) if n != axis])

    def unsqueeze(self, x: Value, axis: int) -> Value:
        shape = list(x.shape)
        shape.insert(axis, as_int(1))
        return self.reshape(x, shape)

    def clamp_index(self, index: Value, size: IntLike) -> Value:
        """An index that may count from the end, from the start."""
        if index.data is not None and as_int(size).is_const and (index.data >= 0).all():
            return index
        below = self.op("less", index, self.scalar(0, index.dtype))
        moved = self.op("add", index, self.as_value(as_int(size), index.dtype))
        return self.op("where", below, moved, index)


def dtype_is_float(dtype: str) -> bool:
    return float_type(dtype) == dtype
