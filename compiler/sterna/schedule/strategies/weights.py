"""Weights in 16 bits: half of what products with few rows have to read, and half of the file."""

from __future__ import annotations

from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, contraction_operands, product
from sterna.te.tensor import Tensor

#: Weights are stored in 16 bits where at least this many products are summed up per element of the result. The windows
#: of depthwise convolutions have fewer, and read mostly activations.
DEPTH = 32


def narrow_weights(s: Schedule, context: Context) -> None:
    """Stores the constant factors of every deep sum of products in 16 bits, where that is asked for, or loses nothing.
    Comes after all other steps."""
    if not context.weights and not context.exact:
        return
    params = {p.name: p for p in s.kernel.params}
    found: dict[str, Tensor] = {}
    for stage in s.kernel.stages:
        operands = contraction_operands(stage)
        if operands is None or stage.reduction is None:
            continue
        if product([a.extent for a in stage.reduction.axes]) >= DEPTH:
            found.update(
                {load.tensor.name: params[load.tensor.name] for load in operands if load.tensor.name in params}
            )
    for name, param in found.items():
        dtype = context.weights or context.exact.get(name)
        if dtype and param.dtype == "float32":
            s.narrow(name, dtype)
