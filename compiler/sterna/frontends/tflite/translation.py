"""What a translator is given: one operator of a TensorFlow Lite model, and what its tensors stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.emitter import Emitter
from sterna.frontends.tflite.fixed_point import away, multipliers, quantize_multiplier
from sterna.frontends.tflite.schema import OperatorInfo, Quantization, TensorInfo
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ops import Builder
from sterna_runtime.advice import Fix

Translator = Callable[["Translation"], Value | tuple[Value | None, ...]]

#: Settings of `fused_activation_function`: the schema's number -> least and greatest result.
_RANGES = {0: (None, None), 1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
_TANH = 4
#: Types whose elements may stand for real numbers.
QUANTIZED = ("int8", "uint8", "int16")


class Translation(Emitter):
    """One operator on its way.

    Args:
        node: what the model says.
        inputs: its operands; None where left out.
        declared: the tensors of the operands, None where left out; results: those of the results; intermediates: those
            that only say how values within the operator are quantized.
        origin: says where an operand comes from, for messages.

    Attributes:
        left_behind: position of an operand that holds a state -> what the operator leaves in it.
    """

    def __init__(
        self,
        node: OperatorInfo,
        name: str,
        inputs: Sequence[Value | None],
        builder: Builder,
        declared: Sequence[TensorInfo | None],
        results: Sequence[TensorInfo],
        origin: Callable[[int], str],
        intermediates: Sequence[TensorInfo] = (),
    ):
        super().__init__(builder, node.op, name, inputs, origin)
        self.node, self.declared, self.results = node, tuple(declared), tuple(results)
        self.intermediates = tuple(intermediates)
        self.left_behind: dict[int, Value] = {}

    # -- what the operator says
    def option(self, name: str, default: Any = 0) -> Any:
        """A setting; the schema's default where the file leaves its table out."""
        return self.node.options.get(name, default)

    def info(self, position: int) -> TensorInfo:
        """The tensor of an operand that must be there."""
        info = self.declared[position] if position < len(self.declared) else None
        if info is None:
            raise error("E0103", f"input {position} is missing")
        return info

    def result(self, position: int = 0) -> TensorInfo:
        """The tensor of a result."""
        if position >= len(self.results):
            raise error("E0103", f"{self.kind} gives more than {len(self.results)} results")
        return self.results[position]

    def unsupported(self, what: str, fix: Fix | None = None) -> SternaError:
        """The error for a setting that is not supported (E0113)."""
        return error("E0113", f"{self.kind} {what} is not supported", fix=fix)

    # -- quantization
    def is_quantized(self, position: int = 0) -> bool:
        """Whether an operand's integers stand for real numbers."""
        info = self.info(position)
        return info.kind in QUANTIZED and info.quantization is not None

    def per_tensor(self, info: TensorInfo) -> tuple[float, int]:
        """(scale, zero point) of a tensor that has one of each.

        Raises:
            SternaError: E0114, it is not quantized, or along an axis.
        """
        q = quantization_of(info)
        if len(q.scales) != 1:
            raise error("E0114", f'{self.kind} needs one scale for the whole tensor "{info.name}", not {len(q.scales)}')
        return float(q.scales[0]), int(q.zero_points[0])

    def scale(self, position: int) -> float:
        return self.per_tensor(self.info(position))[0]

    def zero(self, position: int) -> int:
        return self.per_tensor(self.info(position))[1]

    def bounds(self, result: int = 0) -> tuple[int, int]:
        """The least and greatest integer of a result, its fused activation applied."""
        info = self.result(result)
        low, high = dtypes.limits(info.kind)
        function = self.option("fused_activation_function")
        if function not in _RANGES:
            raise self.unsupported(f"with the fused activation {function} on integers")
        least, greatest = _RANGES[function]
        if least is None:
            return low, high
        scale, zero = self.per_tensor(info)

        def level(bound: float) -> int:
            return zero + away(float(np.float32(bound) / np.float32(scale)))

        return max(low, level(least)), high if greatest is None else min(high, level(greatest))

    def clamps_negative(self, result: int = 0) -> bool:
        """Whether the fused activation makes all negative results zero."""
        return self.bounds(result)[0] >= self.per_tensor(self.result(result))[1]

    # -- building
    def activated(self, x: Value) -> Value:
        """A float result with the fused activation applied."""
        function = self.option("fused_activation_function")
        if function == _TANH:
            return self.op("tanh", x)
        if function not in _RANGES:
            raise self.unsupported(f"with the fused activation {function}")
        low, high = _RANGES[function]
        if function == 0:
            return x
        return self.op("relu", x) if high is None else self.op("clip", x, min=low, max=high)

    def moved(self, x: Value, amount: float | int) -> Value:
        """x + a constant."""
        return self.op("add", x, self.scalar(amount, x.dtype)) if amount else x

    def centered(self, x: Value, zero: int) -> Value:
        """x - zero in int32."""
        wide = self.cast(x, "int32")
        return self.op("sub", wide, self.scalar(zero, "int32")) if zero else wide

    def scaled(
        self, x: Value, factors: float | Sequence[float], most: int = 1 << 31, positive: bool = False, left: int = 0
    ) -> Value:
        """An int32 times a real factor, or one per element of the last dimension, in fixed point.

        Args:
            most: no number is larger in size.
            positive: of negative results no more matters than that they are not positive.
            left: so many bits further to the left.
        """
        if isinstance(factors, float):
            multiplier, shift = quantize_multiplier(factors)
            m, s = np.array(multiplier, np.int32), np.array(shift + left, np.int32)
        else:
            m, s = multipliers(factors)
        return self.fixed(x, m, s, most, positive)

    def fixed(self, x: Value, multiplier: Any, shift: Any, most: int = 1 << 31, positive: bool = False) -> Value:
        """An int32 times multiplier / 2^31 * 2^shift; see `scaled`."""
        shift = np.asarray(shift, np.int32)
        operands = [self.constant(multiplier, "int32"), self.constant(np.maximum(-shift, 0), "int32")]
        if (shift > 0).any():
            operands.append(self.constant(np.maximum(shift, 0), "int32"))
        if most < 1 << 30 and (shift < 0).all():
            return self.op("fixed_multiply", x, *operands, range="small_positive" if positive else "small")
        return self.op("fixed_multiply", x, *operands, range="positive" if positive else "any")

    def scaled_64(self, x: Value, factors: float | Sequence[float]) -> Value:
        """An int64 of at most 48 bits times real factors as int32, with multipliers of 15 bits and one rounding."""
        m, s = multipliers([factors] if isinstance(factors, float) else factors)
        reduced = np.where(m < 0x7FFF0000, (m.astype(np.int64) + (1 << 15)) >> 16, 0x7FFF)
        shift = 15 - s.astype(np.int64)
        if isinstance(factors, float):
            reduced, shift = reduced.reshape(()), shift.reshape(())
        product = self.op("mul", x, self.constant(reduced, "int64"))
        product = self.op("add", product, self.constant(np.int64(1) << (shift - 1), "int64"))
        return self.cast(self.op("bit_shift", product, self.constant(shift, "int64"), direction="RIGHT"), "int32")

    def rounding_shift(self, x: Value, count: int) -> Value:
        """An int32 / 2^count, halves away from zero."""
        limit = (1 << (count - 1)) - 1
        sign = self.cast(self.op("less", x, self.scalar(0, "int32")), "int32")
        kept = self.op("bitwise_and", x, self.scalar((1 << count) - 1, "int32"))
        up = self.cast(self.op("greater", kept, self.op("add", sign, self.scalar(limit, "int32"))), "int32")
        return self.op("add", self.op("bit_shift", x, self.scalar(count, "int32"), direction="RIGHT"), up)

    def stored(
        self, x: Value, zero: int | None = None, bounds: tuple[int, int] | None = None, result: int = 0
    ) -> Value:
        """int32 numbers about 0 as elements of a quantized result: the zero point is added, and they are clamped."""
        info = self.result(result)
        zero = self.per_tensor(info)[1] if zero is None else zero
        low, high = self.bounds(result) if bounds is None else bounds
        moved = self.op("add", x, self.scalar(zero, "int32")) if zero else x
        return self.cast(self.op("clip", moved, min=low, max=high), info.kind)


def quantization_of(info: TensorInfo) -> Quantization:
    """How a tensor is quantized.

    Raises:
        SternaError: E0114, the file does not say.
    """
    if info.quantization is None:
        raise error("E0114", f'the tensor "{info.name}" of {info.kind} has no scale', fix="export the model again")
    return info.quantization
