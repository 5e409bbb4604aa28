"""Tensors that share memory: what is written to a view reaches the tensor that it is a view of.

Exported programs at the training level write in place (`add_`, `copy_` of a slice). The graph has values only, so a
write makes a new value, and every view of the same memory is made again when it is read next.
"""

from __future__ import annotations

from collections.abc import Callable

from sterna.ir.graph import Value

Forward = Callable[[Value], Value]
Backward = Callable[[Value, Value], Value]


class Tensor:
    """What a name of the program stands for.

    Args:
        value: of the tensor; None: making it failed.
        base: the tensor whose memory it is a view of; None: it has its own.
        forward: from the base's value to the view's.
        backward: from the base's value and a new value of the view to the base's new value.
    """

    def __init__(
        self,
        value: Value | None,
        base: Tensor | None = None,
        forward: Forward | None = None,
        backward: Backward | None = None,
    ):
        self.value, self.base, self.forward, self.backward = value, base, forward, backward
        self.version = 0
        self.seen = self.root.version

    @property
    def root(self) -> Tensor:
        """The tensor that has the memory."""
        tensor = self
        while tensor.base is not None:
            tensor = tensor.base
        return tensor

    def read(self) -> Value | None:
        """Its value now."""
        if self.base is not None and self.seen != self.root.version and self.forward is not None:
            below = self.base.read()
            self.value = None if below is None else self.forward(below)
            self.seen = self.root.version
        return self.value

    def write(self, value: Value) -> None:
        """Gives it another value, and all that shares its memory."""
        if self.base is None:
            self.value = value
            self.version += 1
        else:
            below = self.base.read()
            if below is None or self.backward is None:
                return
            self.base.write(self.backward(below, value))
            self.value = value
        self.seen = self.root.version
