"""What a translator of a layer is given."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.coreml.mil.operators import translators
from sterna.frontends.coreml.mil.translation import Translation
from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Array, Value
from sterna.ir.limits import check_table
from sterna.ops import Builder


class Layer(Emitter):
    """One layer on its way.

    Args:
        message: the layer; params: what is particular to its kind.
        inner: translates a network within it, of the values that there are.
        wanted: names that layers after it read, or that are outputs.
    """

    def __init__(
        self,
        message: Any,
        kind: str,
        inputs: Sequence[Value],
        builder: Builder,
        inner: Callable[[Any, Mapping[str, Value]], dict[str, Value]],
        values: Mapping[str, Value],
        wanted: Container[str] = (),
    ):
        names = list(message.input)
        super().__init__(builder, kind, message.name or kind, inputs, lambda n: f'("{names[n]}") is computed')
        self.message, self.params, self.inner, self.values = message, getattr(message, kind), inner, values
        self.wanted = wanted

    def unsupported(self, what: str) -> SternaError:
        """The error for a setting that is not supported (E0113)."""
        return error("E0113", f"{self.kind} {what} is not supported")

    def with_dimensions(self, value: Value) -> Value:
        """A result as networks have it, where a number is a vector of one element."""
        return value if value.type.rank else self.reshape(value, (1,))

    def mil(self, operation: str, **arguments: Any) -> Any:
        """The results of an operation of programs, which most layers have a counterpart in."""
        given: dict[str, Any] = {}
        for key, value in arguments.items():
            is_plain = value is None or isinstance(value, (Value, str))
            is_tuple = isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Value)
            given[key] = value if is_plain else list(value) if is_tuple else self._constant(value)
        return translators()[operation](Translation(operation, self.name, given, self.builder))

    def _constant(self, value: Any) -> Value:
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        return self.builder.constant(
            array.astype(np.int32) if array.dtype == np.int64 else array, f"{self.name}/setting"
        )

    def weights(self, held: Any, *shape: int) -> Array:
        """The numbers of a `WeightParams`, in float32.

        Raises:
            SternaError: E0109, they are not as many as the layer says.
        """
        check_table(*shape)
        count = int(np.prod(shape))
        flat = _floats(held, count, shape)
        if flat.size != count:
            raise error("E0109", f"{flat.size} weights for {list(shape)}")
        return flat.reshape(shape)

    def i64(self, values: Any) -> Value:
        """A constant list of integers."""
        return self.constant(np.asarray(values, np.int64).reshape(-1), "int64")

    def vector(self, held: Any, size: int) -> Value:
        return self.constant(self.weights(held, size), "float32")

    # -- tensors of (..., C, H, W)
    def images(self, x: Value) -> Value:
        """The dimensions before C, H and W as one."""
        rank = x.type.rank
        if rank < 3:
            raise error("E0108", f"{self.kind} takes images, not {x.type}")
        if rank == 4:
            return x
        lead = x.shape[0] if rank > 3 else 1
        for size in x.shape[1 : rank - 3]:
            lead = lead * size
        return self.reshape(x, (lead, *x.shape[rank - 3 :]))

    def restored(self, y: Value, x: Value) -> Value:
        """What `images` made one, apart again."""
        return y if x.type.rank == 4 else self.reshape(y, (*x.shape[: x.type.rank - 3], *y.shape[1:]))


Translator = Callable[[Layer], Any]


def _floats(held: Any, count: int, shape: Sequence[int]) -> Array:
    if len(held.floatValue):
        return np.array(held.floatValue, np.float32)
    if held.float16Value:
        return np.frombuffer(held.float16Value, "<f2", len(held.float16Value) // 2).astype(np.float32)
    raw = held.rawValue or held.int8RawValue
    if not raw:
        return np.zeros(0, np.float32)
    if held.int8RawValue:
        numbers = np.frombuffer(raw, np.int8)
    else:
        bits = held.quantization.numberOfBits
        if not 1 <= bits <= 8 or len(raw) * 8 < bits * count:
            raise error("E0109", f"{len(raw)} bytes for {count} weights of {bits} bits")
        each = np.unpackbits(np.frombuffer(raw, np.uint8), count=bits * count).reshape(count, bits)
        numbers = (each.astype(np.int16) << np.arange(bits - 1, -1, -1, dtype=np.int16)).sum(axis=1)
    which = held.quantization.WhichOneof("QuantizationType")
    if which == "lookupTableQuantization":
        table = np.array(held.quantization.lookupTableQuantization.floatValue, np.float32)
        if numbers.size and numbers.max() >= table.size:
            raise error("E0109", f"index {numbers.max()} of {table.size} entries")
        return table[numbers]
    linear = held.quantization.linearQuantization
    scale, bias = np.array(linear.scale or [1.0], np.float32), np.array(linear.bias or [0.0], np.float32)
    rows = numbers.astype(np.float32)
    if scale.size > 1 or bias.size > 1:
        rows = rows.reshape(max(scale.size, bias.size), -1)
        return (rows * scale[:, None] + bias[:, None]).reshape(-1)
    return rows * scale + bias
