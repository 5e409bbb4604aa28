"""A kernel of every operation for which a target has a way of its own, at the widths it is for, and data for it."""

from __future__ import annotations

from functools import partial

import numpy as np

from sterna.intrinsics.idioms import IDIOMS, Idiom
from sterna.ir import dtypes
from sterna.ir.integer import Int
from sterna.schedule.schedule import Schedule
from sterna.targets.features import features
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.tensor import Kernel, Tensor, compute, placeholder

#: Ends of ranges, ties, subnormal numbers of 16 bits, and what is no number.
SPECIAL = (np.nan, np.inf, -np.inf, 0.5, -0.5, 2.5, 3e9, -3e9, 1e30, 65504.0, 65520.0, 1e-7, 6e-8, -1e-5)
VECTORS = 3  # whole vectors of each; one more element, or all but one of a vector, makes a tail


def idioms_of(target: Target) -> list[Idiom]:
    """Those of the target, each operation, type and width once."""
    found = {(i.operation, i.dtype, i.lanes): i for i in IDIOMS if any(features(target) >= set(w) for w in i.needs)}
    return list(found.values())


def kernel_of(target: Target) -> tuple[Schedule, dict[str, np.ndarray]]:
    """One kernel with an output for each idiom of the target, vectorized by its lanes; its inputs."""
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    feeds: dict[str, np.ndarray] = {}
    widths: dict[str, int] = {}
    for number, idiom in enumerate(idioms_of(target)):
        lanes = idiom.lanes or target.lanes(32)
        rest = {"load_part": lanes - 1, "load_front": lanes // 2}.get(idiom.operation, 1)
        arrays = _operands(idiom, VECTORS * lanes + rest, number)
        operands = [placeholder(f"x{number}{name}", a.shape, dtypes.from_numpy(a.dtype)) for name, a in arrays.items()]
        output = compute(f"y{number}", operands[0].shape, partial(_element, idiom, operands))
        inputs += operands
        outputs.append(output)
        feeds |= dict(zip((t.name for t in operands), arrays.values(), strict=True))
        widths[output.name] = lanes
    kernel = Kernel("idioms", tuple(inputs), (), tuple(outputs))
    schedule = Schedule(kernel)
    for name, lanes in widths.items():
        (axis,) = schedule.stages[name].leaves
        schedule.split(name, axis, lanes)
        schedule.vectorize(name, f"{axis}.i")
    return schedule, feeds


def _element(idiom: Idiom, tensors: list[Tensor], i: Int) -> E.Expr:
    """The operation of one element of each tensor."""
    operands = [tensor[i] for tensor in tensors]
    if idiom.operation == "fma":
        a, b, c = operands
        return E.fma(a, b, c)
    if idiom.operation == "nearest":
        return E.Nearest(idiom.dtype, a=operands[0], zero=5 if idiom.lanes == 8 else -7 if idiom.dtype == "int8" else 0)
    if idiom.operation in E.UNARY:
        return E.unary(idiom.operation, operands[0])
    if idiom.operation in E.BINARY:
        return E.binary(idiom.operation, *operands)
    if idiom.operation in ("load_part", "load_front"):
        return operands[0]
    if idiom.operation.startswith("from_"):
        return E.cast(operands[0], idiom.dtype)
    result = {"widen": "float32", "narrow": idiom.dtype}.get(idiom.operation, idiom.operation.removeprefix("to_"))
    return E.cast(operands[0], result)


def _operands(idiom: Idiom, count: int, seed: int) -> dict[str, np.ndarray]:
    """Random values and the extreme ones, each in every place of a vector."""
    random = np.random.default_rng(seed)
    if idiom.operation == "fma":
        # Products and sums that are exact, so that it makes no difference how often they are rounded.
        return {n: random.integers(-99, 99, count).astype(idiom.dtype) for n in "abc"}
    if idiom.operation == "short_product":
        return {n: random.integers(-(1 << 15), 1 << 15, count).astype(np.int32) for n in "ab"}
    if idiom.operation == "high_product":
        return {n: random.integers(1 - (1 << 31), 1 << 31, count).astype(np.int32) for n in "ab"}
    if idiom.operation == "upper_product":
        return {
            n: random.choice([-(1 << 31), 0, -1, 1, *random.integers(-(1 << 31), 1 << 31, 9)], count).astype(np.int32)
            for n in "ab"
        }
    if idiom.operation == "nearest":
        near = random.integers(-600, 600, count).astype(np.float32) / 2
        return {"a": np.where(random.random(count) < 0.2, random.choice(SPECIAL, count), near).astype(np.float32)}
    if idiom.operation == "round_shift":
        numbers = random.integers(-(1 << 30), 1 << 30, count).astype(np.int32)
        return {"a": numbers, "b": random.integers(0, 31, count).astype(np.int32)}
    if idiom.operation.startswith("from_"):
        source = idiom.operation.removeprefix("from_")
        return {"a": random.integers(*dtypes.limits(source), count, dtype=source, endpoint=True)}
    if dtypes.is_integer(idiom.dtype):
        low, high = dtypes.limits(idiom.dtype)
        return {"a": random.integers(low, high, count, dtype=idiom.dtype, endpoint=True)}
    source = np.dtype("float32" if idiom.operation == "narrow" else idiom.dtype)
    with np.errstate(over="ignore"):
        pairs = {n: random.choice(SPECIAL, count).astype(source) for n in "ab"}
    return pairs if idiom.operation in E.BINARY else {"a": pairs["a"]}
