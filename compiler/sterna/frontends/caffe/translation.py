"""What a translator is given: one layer of a Caffe network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.caffe.network import Layer
from sterna.frontends.caffe.prototxt import Message
from sterna.frontends.emitter import Emitter, axes_of
from sterna.frontends.remembered import Memory, States
from sterna.frontends.standard import standard, standard_results
from sterna.ir.graph import Array, Value
from sterna.ops import Builder
from sterna_runtime.advice import Fix

Translator = Callable[["Translation"], "Value | Sequence[Value]"]


class Translation(Emitter):
    """One layer on its way.

    Args:
        layer: with its settings.
        blobs: its weights.
        inputs: what it reads.
        states: of the network; a layer adds its own.
    """

    def __init__(self, layer: Layer, blobs: Sequence[Array], inputs: Sequence[Value], builder: Builder, states: States):
        super().__init__(builder, layer.kind, layer.name, inputs, lambda n: f'is "{layer.bottoms[n]}"')
        self.layer, self.blobs = layer, list(blobs)
        self._memory = Memory(states, builder, layer.name)

    @property
    def x(self) -> Value:
        """The first operand."""
        return self.input(0)

    def settings(self, name: str) -> Message:
        return self.layer.settings(name)

    def unsupported(self, what: str, fix: Fix | None = None) -> SternaError:
        """The error for a setting that is not supported (E0113)."""
        return error("E0113", f"{self.kind} {what} is not supported", fix=fix)

    def blob(self, position: int, what: str) -> Array:
        """A weight.

        Raises:
            SternaError: E0103, the file has none for this layer.
        """
        if position >= len(self.blobs):
            fix = "take the caffemodel that belongs to this prototxt"
            raise error("E0103", f"the caffemodel has no {what} for the layer {self.name}", fix=fix)
        return self.blobs[position]

    def fitted(self, position: int, what: str, *shape: int) -> Array:
        """A weight in a shape that it must fill."""
        array = self.blob(position, what)
        if array.size != int(np.prod(shape)):
            said = f"{what} of {self.name}: {list(array.shape)} in the caffemodel, {list(shape)} by the prototxt"
            raise error("E0108", said, fix="take the caffemodel that belongs to this prototxt")
        return array.reshape(shape)

    def axis(self, settings: Message, default: int, x: Value | None = None, name: str = "axis") -> int:
        """A setting that names a dimension."""
        value = x or self.x
        return axes_of((settings.integer(name, default),), value.type.rank)[0]

    def state(self, name: str, sizes: Sequence[int]) -> Value:
        """What the run before left, zeros at first."""
        return self._memory.begin(name, sizes)

    def leave(self, name: str, value: Value) -> None:
        """What the next run finds in the state."""
        self._memory.leave(name, value)

    # -- building
    def standard(self, operator: str, *inputs: Value | None, **attributes: Any) -> Value:
        return standard(self, operator, *inputs, **attributes)

    def standard_results(
        self, operator: str, *inputs: Value | None, results: int, **attributes: Any
    ) -> tuple[Value, ...]:
        return standard_results(self, operator, *inputs, results=results, **attributes)

    def numbers(self, array: Any) -> Value:
        return self.constant(np.ascontiguousarray(array, np.float32), "float32")

    def number(self, value: float) -> Value:
        return self.scalar(value, "float32")

    def along(self, array: Array, axis: int, x: Value) -> Value:
        """An array whose dimensions are those of an operand from one on."""
        rest = x.type.rank - axis - array.ndim
        if rest < 0:
            raise error("E0108", f"weights {list(array.shape)} do not fit {x.type} from dimension {axis} on")
        return self.numbers(array.reshape(*array.shape, *(1,) * rest))

    def product(self, sizes: Sequence[Any]) -> Any:
        found: Any = 1
        for size in sizes:
            found = size * found
        return found

    def linear(self, x: Value, scale: float, shift: float) -> Value:
        """scale x + shift."""
        y = x if scale == 1.0 else self.op("mul", x, self.number(scale))
        return y if shift == 0.0 else self.op("add", y, self.number(shift))
