"""What a translator is given: one call of a Keras layer, its arguments and variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.emitter import Emitter
from sterna.frontends.keras.config import Layer
from sterna.frontends.keras.stores import Store
from sterna.frontends.standard import standard, standard_results
from sterna.ir.graph import Array, Value
from sterna.ops import Builder
from sterna_runtime.advice import Fix

Result = Value | list[Value | None] | None
Translator = Callable[["Translation"], Result]


class Context:
    """What all calls of a model share.

    Attributes:
        masks: which steps of a sequence count (bool), by the sequence.
        imaginary: of complex numbers, by what stands for them (`layers/complexes.py`).
        version: of Keras, its first two numbers; major: the first.
        run: applies a layer within another one.
    """

    def __init__(self, builder: Builder, version: tuple[int, int]):
        self.builder, self.version, self.major = builder, version, version[0]
        self.masks: dict[Value, Value] = {}
        self.imaginary: dict[Value, Value] = {}
        self.states: list[tuple[str, Value, Array]] = []
        self.left_behind: dict[str, Value] = {}
        self.run: Callable[[Layer, Store, tuple[Any, ...], Mapping[str, Any], str], Any]


class Translation(Emitter):
    """One call on its way.

    Args:
        layer: with its configuration.
        store: its variables.
        args, kwargs: of the call; results of others are values, in lists as they were given.
    """

    def __init__(
        self, context: Context, layer: Layer, store: Store, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str
    ):  # fmt: skip
        self.context, self.layer, self.store = context, layer, store
        self.args, self.kwargs = args, kwargs
        given = [value for each in (*args, *kwargs.values()) for value in values_in(each)]
        super().__init__(context.builder, layer.kind, name, given, lambda n: f"is {given[n].name}")

    # -- what the layer says
    def setting(self, key: str, default: Any = None) -> Any:
        """An argument of the layer's constructor."""
        value = self.layer.config.get(key, default)
        return default if value is None else value

    def integers_of(self, key: str, rank: int, default: int = 1) -> tuple[int, ...]:
        """A setting of one integer, or one for each of so many dimensions."""
        value = self.setting(key, default)
        values = [value] * rank if isinstance(value, int) else value
        if isinstance(values, (list, tuple)) and len(values) == 1 and rank > 1:
            values = list(values) * rank
        if not isinstance(values, (list, tuple)) or len(values) != rank or any(not isinstance(v, int) for v in values):
            raise error("E0109", f"{key} is {value}, not {rank} integers")
        return tuple(values)

    def positive(self, key: str, rank: int, default: int = 1) -> tuple[int, ...]:
        values = self.integers_of(key, rank, default)
        if any(v < 1 for v in values):
            raise error("E0109", f"{key} must be positive, not {list(values)}")
        return values

    @property
    def channels_first(self) -> bool:
        return bool(self.setting("data_format", "channels_last") == "channels_first")

    def unsupported(self, what: str, fix: Fix | None = None) -> SternaError:
        """The error for a setting that is not supported (E0113)."""
        return error("E0113", f"{self.kind} {what} is not supported", fix=fix)

    def variables(self, *names: str) -> list[Array]:
        """The layer's variables, in the order in which it creates them."""
        return self.adapted(self.store, names)

    def adapted(self, store: Store, names: Sequence[str]) -> list[Array]:
        """Variables with their adapters of low rank added, which HDF5 files keep beside them (`enable_lora`)."""
        found = store.variables(names)
        for n, name in enumerate(names):
            down, up = (store.named(f"lora_{name}_{part}") for part in "ab")
            if down is None or up is None:
                continue
            rank, alpha = self.layer.config.get("lora_rank"), self.layer.config.get("lora_alpha")
            if not isinstance(rank, int) or rank < 1 or found[n].dtype.kind != "f":
                raise self.unsupported("with adapters of low rank that its configuration does not name")
            factor = np.float32((rank if alpha is None else float(alpha)) / rank)
            found[n] = found[n] + factor * np.matmul(down, up)
        return found

    def weight(self, array: Array, like: Value) -> Value:
        """A variable as a constant of a value's type of floats."""
        return self.constant(np.ascontiguousarray(array), like.dtype)

    # -- arguments
    @property
    def x(self) -> Value:
        """The first argument, which is one tensor."""
        value = self.args[0] if self.args else self.kwargs.get("inputs")
        if isinstance(value, (list, tuple)) and len(value) == 1:
            value = value[0]
        if not isinstance(value, Value):
            raise error("E0108", f"{self.kind} takes one tensor")
        return value

    @property
    def several(self) -> list[Value]:
        """The first argument, which is a list of tensors."""
        return list(values_in(self.args[0] if self.args else self.kwargs.get("inputs")))

    def argument(self, position: int, key: str, default: Any = None) -> Any:
        value = self.args[position] if position < len(self.args) else self.kwargs.get(key, default)
        return default if value is None else value

    @property
    def mask(self) -> Value | None:
        """Which steps count, as the call or an earlier layer says."""
        given = self.kwargs.get("mask")
        if isinstance(given, Value) or not self.inputs or self.inputs[0] is None:
            return given if isinstance(given, Value) else None
        return self.context.masks.get(self.inputs[0])  # a sequence may have initial states beside it

    # -- building
    def standard(self, operator: str, *inputs: Value | None, **attributes: Any) -> Value:
        return standard(self, operator, *inputs, **attributes)

    def standard_results(
        self, operator: str, *inputs: Value | None, results: int, **attributes: Any
    ) -> tuple[Value, ...]:
        return standard_results(self, operator, *inputs, results=results, **attributes)

    def within(self, layer: Layer, store: Store, *args: Any, **kwargs: Any) -> Any:
        """The result of a layer within this one."""
        return self.context.run(layer, store, args, kwargs, f"{self.name}/{layer.name}")

    def to_first(self, x: Value) -> Value:
        """(N, spatial..., C) as (N, C, spatial...)."""
        return self.transpose(x, (0, x.type.rank - 1, *range(1, x.type.rank - 1)))

    def to_last(self, x: Value) -> Value:
        return self.transpose(x, (0, *range(2, x.type.rank), 1))

    def part(self, x: Value, axis: int, start: int, size: int) -> Value:
        """Some elements along one dimension."""
        axis %= x.type.rank
        starts = [0] * x.type.rank
        sizes: list[Any] = list(x.shape)
        starts[axis], sizes[axis] = start, size
        return self.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * x.type.rank)

    def reduced(self, operator: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        return self.op(operator, x, axes=tuple(axis % x.type.rank for axis in axes), keep_dims=keep)

    def scaled(self, x: Value, factor: float) -> Value:
        return self.op("mul", x, self.scalar(factor, x.dtype))

    def shifted(self, x: Value, offset: float) -> Value:
        return self.op("add", x, self.scalar(offset, x.dtype))


def values_in(value: Any) -> list[Value]:
    """The tensors that an argument holds, in order."""
    if isinstance(value, Value):
        return [value]
    if isinstance(value, Mapping):
        return [each for item in value.values() for each in values_in(item)]
    if isinstance(value, (list, tuple)):
        return [each for item in value for each in values_in(item)]
    return []
