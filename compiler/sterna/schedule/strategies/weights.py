"""Weights in 16 bits: half of what products with few rows have to read, and half of the file."""

from __future__ import annotations

from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import Context, contraction_operands, product
from sterna.targets.features import converts_halves
from sterna.te.tensor import Tensor

#: Weights are rounded to 16 bits where at least this many products are summed up per element of the result. The windows
#: of depthwise convolutions have fewer, and read mostly activations: that is not worth digits, nor arithmetic where no
#: instruction widens them.
DEPTH = 32


def narrow_weights(s: Schedule, context: Context) -> None:
    """Stores the constant factors of every sum of products in 16 bits, where that is asked for, or loses nothing. Comes
    after all other steps."""
    if not context.weights and not context.exact:
        return
    params = {p.name: p for p in s.kernel.params}
    found: dict[str, str] = {}
    for stage in s.kernel.stages:
        for load in contraction_operands(stage) or ():
            param = params.get(load.tensor.name)
            if param is not None and (dtype := stored_type(param, stage, context)):
                found[param.name] = dtype
    # By bits small numbers are subnormal on the way, which devices may take for 0; their languages have a conversion.
    by_bits = context.target.threads is None and not converts_halves(context.target)
    for name, dtype in found.items():
        # What 16 bits hold exactly is finite.
        s.narrow(name, dtype, finite=dtype == context.exact.get(name) and by_bits)


def stored_type(factor: Tensor, stage: Tensor, context: Context) -> str:
    """The type of 16 bits in which a constant factor of a stage's sum of products is stored; "" where in its own."""
    if factor.dtype != "float32" or stage.reduction is None:
        return ""
    deep = product([a.extent for a in stage.reduction.axes]) >= DEPTH
    exact = "" if context.target.widens_params else context.exact.get(factor.name, "")
    if not deep:
        return exact if converts_halves(context.target) else ""
    return context.weights or exact
