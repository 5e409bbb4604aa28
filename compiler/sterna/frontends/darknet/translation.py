"""What a translator is given: one layer of a DarkNet network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.darknet.config import Section
from sterna.frontends.darknet.weights import Weights
from sterna.frontends.emitter import Emitter
from sterna.frontends.remembered import Memory, States
from sterna.frontends.standard import standard
from sterna.ir.graph import Array, Value
from sterna.ops import Builder
from sterna_runtime.advice import Fix

Translator = Callable[["Translation"], Value]
#: DarkNet adds this to variances; OpenCV adds 1e-6.
EPSILON = 1e-5


class Translation(Emitter):
    """One layer on its way. Pictures are (batch, channels, height, width), rows (batch, numbers).

    Args:
        section: its settings.
        weights: of the network; a layer takes its own.
        x: the result of the layer before.
        before: the results of all layers before.
        states: of the network; a layer adds its own.
        steps: `time_steps` of the network, which some bounds of recurrent layers depend on.
    """

    def __init__(
        self,
        section: Section,
        weights: Weights,
        x: Value,
        before: Sequence[Value],
        builder: Builder,
        states: States | None = None,
        steps: int = 1,
    ):
        name = f"layer{section.number}_{section.kind}"
        super().__init__(builder, section.kind, name, [x], lambda _: "is the layer before")
        self.section, self.weights, self.x, self.before = section, weights, x, before
        self.steps = steps
        self._memory = Memory(states if states is not None else States(), builder, f"layer{section.number}")

    def unsupported(self, what: str, fix: Fix | None = None) -> SternaError:
        """The error for a setting that is not supported (E0113)."""
        return error("E0113", f"[{self.kind}] {what} is not supported", fix=fix)

    def refuse(self, *keys: str) -> None:
        """Refuses settings that are not 0."""
        for key in keys:
            if self.section.number_of(key):
                raise self.unsupported(f"with {key}={self.section.text(key)}")

    def layer(self, index: int) -> Value:
        """The result of another layer: by its number, or counted back from this one.

        Raises:
            SternaError: E0103, there is none.
        """
        at = index if index >= 0 else self.section.number + index
        if not 0 <= at < len(self.before):
            raise error("E0103", f"there is no layer {index} before layer {self.section.number}")
        return self.before[at]

    def state(self, name: str, sizes: Sequence[int]) -> Value:
        """What the run before left, zeros at first: (batch, *sizes). The batch must be a number."""
        return self._memory.begin(name, (self.extent(self.x, 0), *sizes))

    def leave(self, name: str, value: Value) -> None:
        """What the next run finds in the state."""
        self._memory.leave(name, value)

    def picture(self, x: Value | None = None) -> Value:
        """An operand with four dimensions."""
        value = self.x if x is None else x
        if value.type.rank != 4:
            raise error("E0108", f"[{self.kind}] takes pictures, not {value.type}")
        return value

    def row(self) -> Value:
        """The operand as rows."""
        if self.x.type.rank == 2:
            return self.x
        size: Any = 1
        for each in self.x.shape[1:]:
            size = each * size
        return self.reshape(self.x, (self.x.shape[0], size))

    # -- building
    def standard(self, operator: str, *inputs: Value | None, **attributes: Any) -> Value:
        return standard(self, operator, *inputs, **attributes)

    def numbers(self, array: Array) -> Value:
        return self.constant(np.ascontiguousarray(array, np.float32), "float32")

    def number(self, value: float) -> Value:
        return self.scalar(value, "float32")

    def per_channel(self, array: Array, x: Value) -> Value:
        """An array over the second dimension of an operand."""
        return self.numbers(array.reshape(-1, *(1,) * (x.type.rank - 2)))

    def normalized(self, x: Value, scales: Array, mean: Array, variance: Array, biases: Array) -> Value:
        """A batch normalization with the statistics of training."""
        factor = scales.astype(np.float64) / np.sqrt(variance.astype(np.float64) + EPSILON)
        offset = biases.astype(np.float64) - mean.astype(np.float64) * factor
        return self.op("add", self.op("mul", x, self.per_channel(factor, x)), self.per_channel(offset, x))

    def channels(self, x: Value, start: int, count: int) -> Value:
        sizes = (x.shape[0], count, *x.shape[2:])
        return self.op("slice", x, starts=(0, start, *(0,) * (x.type.rank - 2)), sizes=sizes, steps=(1,) * x.type.rank)

    def logistic(self, x: Value) -> Value:
        return self.op("sigmoid", x)
