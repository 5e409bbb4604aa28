"""Loop programs written by hand, and awkward values to run them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sterna.ir import dtypes
from sterna.ir.integer import ONE, Symbol, as_int, of
from sterna.ir.memory import INPUT, OUTPUT, Scope
from sterna.loops import program as P
from sterna.te import expr as E


def buffer(name: str, dtype: str, elements: int, scope: Scope, slot: int = 0) -> P.Buffer:
    return P.Buffer(name, dtype, (as_int(elements),), (as_int(1),), elements, scope, slot=slot)


def elementwise(
    name: str, inputs: Sequence[str], out: str, n: int, lanes: int, value: Callable[..., E.Expr]
) -> P.Function:
    """out[i] = value(in0[i], in1[i] ...), `lanes` at a time."""
    sources = [buffer(f"in{m}", dtype, n, INPUT, m) for m, dtype in enumerate(inputs)]
    sink = buffer("out", out, n, OUTPUT)
    i = Symbol("i", 0, n // lanes - 1)
    at = of(i) * lanes
    loads = [E.Load(b.dtype, tensor=b, indices=(at,), lanes=lanes) for b in sources]
    body = P.For(i, as_int(n // lanes), "serial", P.Store(sink, at, value(*loads)))
    return P.Function(name, tuple(sources), (), (sink,), ONE, 0, body)


_FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, -3.7, 0.49999997, 127.5, 128.0, -128.5, 255.7, 256.0, -129.0,
    32768.0, -32769.0, 65519.0, 65520.0, 8388607.5, 8388609.0, 16777216.0, 2147483648.0, -2147483648.0, 2147483520.0,
    4294967296.0, 9.2233720368547758e18, -9.2233720368547758e18, 1.8446744073709552e19, 1e30, -1e30, 1e-40, -1e-40,
    6e-8, 5.96e-8, 1e-7, 6.1e-5, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip


def samples(dtype: str, n: int, seed: int) -> np.ndarray:
    """Awkward and random values."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, n).astype(bool)
    if dtypes.is_float(dtype):
        values = np.concatenate([np.array(_FLOATS), random.normal(0, 3, n), random.normal(0, 1e6, n)])
        with np.errstate(all="ignore"):
            return random.permutation(values)[:n].astype(dtypes.to_numpy(dtype))
    least, greatest = dtypes.limits(dtype)
    edges = [0, 1, 2, 3, 7, least, greatest, greatest - 1, *([-1, -2, -7] if least else [])]
    values = np.array(edges * 3, dtype=dtype)
    drawn = random.integers(least, greatest, n, dtype=dtype, endpoint=True)
    small = random.integers(max(least, -9), 9, n).astype(dtype)
    return random.permutation(np.concatenate([values, drawn, small]))[:n]
