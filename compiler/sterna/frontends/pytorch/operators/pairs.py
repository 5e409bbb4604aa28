"""Complex tensors as pairs of real and imaginary parts, in a last dimension of two that the program does not see."""

from __future__ import annotations

from sterna.frontends.pytorch.translation import Translation
from sterna.ir.graph import Value


def parts(t: Translation, z: Value) -> tuple[Value, Value]:
    """The real and the imaginary part of a tensor, complex or not."""
    if z not in t.shared.complexes:
        return z, t.full(z.shape, 0, z.dtype)
    last = z.type.rank - 1
    return t.take(z, last, 0), t.take(z, last, 1)


def joined(t: Translation, real: Value, imaginary: Value) -> Value:
    """A complex tensor of its parts."""
    shape = t.broadcast(real, imaginary)
    rows = [t.unsqueeze(t.expand(part, shape), len(shape)) for part in (real, imaginary)]
    return t.op("concat", *rows, axis=len(shape))
