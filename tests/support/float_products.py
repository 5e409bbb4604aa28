"""Matrix products of 16-bit floats added up in float32, of numbers that reach every corner of their formats: what holds
a lowering to the last bit on any machine."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from sterna.ir.integer import Int
from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def product(m: int, n: int, depth: int, dtype: str = "bfloat16", sums: str = "float32") -> Kernel:
    """x w + b, of small floats added up in float32, or in their own type."""
    x, w = placeholder("x", (m, depth), dtype), placeholder("w", (depth, n), dtype)
    b = placeholder("b", (n,), "float32")
    k = reduce_axis("k", depth)
    acc = compute("acc", (m, n), lambda i, j: total(E.cast(x[i, k.var], sums) * E.cast(w[k.var, j], sums), k))
    out = compute("out", (m, n), lambda i, j: E.cast(acc[i, j], "float32") + b[j])
    return Kernel("product", (x,), (w, b), (out,))


def parts(m: int, n: int, depth: int, part: int) -> Kernel:
    """The same of float16, of which parts are added up in float16 and the sums of parts in float32."""
    x, w = placeholder("x", (m, depth), "float16"), placeholder("w", (depth, n), "float16")
    b = placeholder("b", (n,), "float32")
    k, outer = reduce_axis("k", part), reduce_axis("p", depth // part)

    def sums(p: Int, i: Int, j: Int) -> E.Expr:
        return total(x[i, p * part + k.var] * w[p * part + k.var, j], k)

    one = compute("one", (depth // part, m, n), sums)
    acc = compute("acc", (m, n), lambda i, j: total(E.cast(one[outer.var, i, j], "float32"), outer))
    out = compute("out", (m, n), lambda i, j: acc[i, j] + b[j])
    return Kernel("parts", (x,), (w, b), (out,))


def bits_of(random: np.random.Generator, shape: tuple[int, ...], lowest: int, highest: int) -> np.ndarray:
    """Numbers of bfloat16 of either sign whose exponents lie between two; 0: zeros, and numbers below normal ones."""
    exponents = random.integers(lowest, highest, shape, endpoint=True)
    bits = exponents << 7 | random.integers(0, 128, shape) | random.integers(0, 2, shape) << 15
    return bits.astype(np.uint16).view(BFLOAT16)


#: Exponents of the factors: ordinary ones, such that products are too small, such that they are too large, all of them.
RANGES = {"ordinary": (115, 135), "small": (0, 70), "large": (180, 200), "any": (0, 254), "all": (0, 255)}


def numbers_of(random: np.random.Generator, shape: tuple[int, ...], dtype: str, numbers: str) -> np.ndarray:
    """Those of a range: of float16 all bits are numbers of as many sizes."""
    if dtype == "bfloat16":
        return bits_of(random, shape, *RANGES[numbers])
    if numbers in ("any", "all"):
        bits = random.integers(0, 1 << 16, shape).astype(np.uint16)
        return np.where((bits & 0x7C00) == 0x7C00, bits & 0xBFFF, bits).astype(np.uint16).view(np.float16)
    scale = {"ordinary": 1.0, "small": 2.0**-13, "large": 2.0**7}[numbers]
    return (random.standard_normal(shape) * scale).astype(np.float16)


def feeds_of(kernel: Kernel, seed: int, numbers: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    factors = (*kernel.inputs, kernel.params[0])
    made = {t.name: numbers_of(random, tuple(map(int, t.shape)), t.dtype, numbers) for t in factors}
    biases = random.standard_normal([int(n) for n in kernel.params[1].shape])
    return {**made, "b": (biases * (1e-38 if numbers == "small" else 1)).astype(np.float32)}


def interpreted(schedule: Schedule, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """By the loop program, in which every use of an intrinsic is exact."""
    program = finish(lower(schedule))
    kernel = schedule.kernel
    stored = schedule.stored([feeds[p.name] for p in kernel.params])
    memory = {b.name: a.reshape(-1) for b, a in zip(program.params, stored, strict=True)}
    shape = [int(n) for n in kernel.outputs[0].shape]
    memory |= {"x": feeds["x"].reshape(-1), "out": np.zeros(shape, np.float32).reshape(-1)}
    with np.errstate(all="ignore"):
        run_function(program, memory)
    return memory["out"].reshape(shape)
