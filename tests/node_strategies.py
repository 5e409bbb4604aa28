"""Random ONNX nodes with their operands: one hypothesis strategy per operator, over its attributes and awkward shapes.

Sizes are 0, 1 and small primes, ranks 0 to 6; operands broadcast, axes count from either end, and floats hold NaN,
infinities, zeros of both signs and numbers near the ends of their range where the operator is defined for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

Draw = Callable[[st.SearchStrategy[Any]], Any]
OPSET = 21
SIZES = st.sampled_from([1, 2, 3, 5, 7, 1, 11, 0])
FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 3e37, -3e37, 0.5, -0.5, 1.5, 2.5, -1.0])


@dataclass(frozen=True, eq=False)
class NodeCase:
    """One node: operands (None: left out), the positions of those that are constants, and attributes.

    Args:
        loose: how much larger than usual the tolerance is, for sums of many products or steps.
    """

    op: str
    operands: tuple[np.ndarray | None, ...]
    fixed: frozenset[int] = frozenset()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    loose: float = 1.0
    opset: int = OPSET

    def __repr__(self) -> str:
        shown = [
            None if a is None else (a.tolist() if a.size < 20 else f"{a.dtype}{list(a.shape)}") for a in self.operands
        ]
        kinds = [None if a is None else f"{a.dtype}{list(a.shape)}" for a in self.operands]
        return f"{self.op}({kinds} = {shown}, constant {sorted(self.fixed)}, {dict(self.attributes)})"

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        return {f"x{n}": a for n, a in enumerate(self.operands) if a is not None and n not in self.fixed}

    def model(self) -> onnx.ModelProto:
        names = ["" if a is None else f"x{n}" for n, a in enumerate(self.operands)]
        results = [f"y{n}" for n in range(self.outputs)]
        node = helper.make_node(self.op, names, results, name="node", **self.attributes)
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for name, a in self.feeds.items()
        ]
        weights = [
            numpy_helper.from_array(a, f"x{n}")
            for n, a in enumerate(self.operands)
            if a is not None and n in self.fixed
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in results]
        graph = helper.make_graph([node], "one", inputs, outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        return onnx.shape_inference.infer_shapes(model, data_prop=True)


STRATEGIES: dict[str, Callable[[Draw], NodeCase]] = {}


def strategy(*names: str) -> Callable[[Callable[..., NodeCase]], Callable[..., NodeCase]]:
    """Registers a function of (draw, operator) for operators."""

    def register(make: Callable[..., NodeCase]) -> Callable[..., NodeCase]:
        for name in names:
            STRATEGIES[name] = lambda draw, name=name: make(draw, name)  # type: ignore[misc]
        return make

    return register


# ---------------------------------------------------------------- operands
def shape_of(draw: Draw, low: int = 0, high: int = 5, least: int = 0) -> tuple[int, ...]:
    """A shape of so many dimensions whose elements are few."""
    shape = draw(st.lists(SIZES.filter(lambda n: n >= least), min_size=low, max_size=high))
    while math.prod(shape) > 3000:
        shape[shape.index(max(shape))] = 2
    return tuple(shape)


def array(
    draw: Draw, shape: Sequence[int], dtype: str = "float32", special: bool = False, low: float = -3, high: float = 3
) -> np.ndarray:
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    if dtype == "bool":
        return random.random(shape) < 0.5
    if dtype.startswith("float"):
        values = random.uniform(low, high, shape)
        if special and draw(st.booleans()):
            values = np.where(random.random(shape) < 0.3, random.choice(SPECIAL, shape), values)
        with np.errstate(over="ignore"):
            return np.asarray(values).astype(dtype)
    info = np.iinfo(dtype)
    least, most = (info.min, info.max) if special and draw(st.booleans()) else (max(low, info.min), min(high, info.max))
    return random.integers(int(least), int(most), shape, dtype=dtype, endpoint=True)


def broadcast(draw: Draw, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that broadcasts to this one."""
    kept = list(shape[draw(st.integers(0, len(shape))) :]) if shape else []
    return tuple(1 if draw(st.booleans()) else n for n in kept)


def one_of(draw: Draw, *values: Any) -> Any:
    return draw(st.sampled_from(values))


def axis_of(draw: Draw, rank: int) -> int:
    return draw(st.integers(-rank, rank - 1))


def axes_of(draw: Draw, rank: int, least: int = 1) -> list[int]:
    return draw(
        st.lists(st.integers(-rank, rank - 1), min_size=min(least, rank), max_size=rank, unique_by=lambda a: a % rank)
    )


def some(draw: Draw, **choices: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Attributes, each given or left out."""
    return {name: draw(values) for name, values in choices.items() if draw(st.booleans())}


def int64(values: Any) -> np.ndarray:
    return np.array(values, np.int64)


BOOL = st.integers(0, 1)
ALPHA = st.sampled_from([0.0, 0.1, 1.0, -0.5, 2.5])


# ---------------------------------------------------------------- element by element
_NAMES = """
    Abs Neg Ceil Floor Round Sign Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Sigmoid Tanh Erf
    Softplus Softsign Relu HardSwish Mish Reciprocal Identity IsNaN
"""
UNARY = _NAMES.split()


@strategy(*UNARY)
def unary(draw: Draw, op: str) -> NodeCase:
    tame = op in (
        "Sinh",
        "Cosh",
        "Tan",
        "Sin",
        "Cos",
        "Mish",
        "Erf",
        "Softsign",
        "HardSwish",
        "Sign",
        "Round",
        "Softplus",
        "Relu",
    )
    return NodeCase(op, (array(draw, shape_of(draw, 0, 6), special=not tame),), loose=4)


@strategy("LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "HardSigmoid", "Gelu", "Shrink", "IsInf")
def parametric(draw: Draw, op: str) -> NodeCase:
    given: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "LeakyRelu": {"alpha": ALPHA}, "Elu": {"alpha": ALPHA}, "ThresholdedRelu": {"alpha": ALPHA},
        "Selu": {"alpha": ALPHA, "gamma": ALPHA}, "Celu": {"alpha": st.sampled_from([0.3, 1.0, 2.0])},
        "HardSigmoid": {"alpha": ALPHA, "beta": ALPHA}, "Gelu": {"approximate": st.sampled_from(["tanh", "none"])},
        "Shrink": {"bias": ALPHA, "lambd": st.sampled_from([0.5, 1.5])},
        "IsInf": {"detect_negative": BOOL, "detect_positive": BOOL},
    }  # fmt: skip
    return NodeCase(
        op, (array(draw, shape_of(draw), special=op == "IsInf"),), attributes=some(draw, **given[op]), loose=4
    )


@strategy("Clip")
def clip(draw: Draw, op: str) -> NodeCase:
    dtype = one_of(draw, "float32", "float64", "int32", "int8", "uint8", "int64")
    bounds = [array(draw, (), dtype) if draw(st.booleans()) else None for _ in range(2)]
    return NodeCase(op, (array(draw, shape_of(draw), dtype), *bounds), frozenset(draw(st.sampled_from([(), (1, 2)]))))


BINARY = {
    "Add": (*FLOATS, "int32", "int64"), "Sub": ("float32", "int32", "int64"), "Mul": ("float32", "float64", "int64"),
    "Div": ("float32", "float64"), "Pow": ("float32",), "PRelu": ("float32",),
    "And": ("bool",), "Or": ("bool",), "Xor": ("bool",), "BitwiseAnd": INTEGERS, "BitwiseOr": INTEGERS,
    "BitwiseXor": INTEGERS, "Equal": ("float32", "int64", "bool", "int32"), "Greater": ("float32", "int64", "int32"),
    "GreaterOrEqual": ("float32", "int64"), "Less": ("float32", "int32"), "LessOrEqual": ("float32", "int32"),
}  # fmt: skip


@strategy(*BINARY)
def binary(draw: Draw, op: str) -> NodeCase:
    dtype, shape = one_of(draw, *BINARY[op]), shape_of(draw, 0, 5)
    special = op not in ("Pow", "PRelu")
    a, b = array(draw, shape, dtype, special), array(draw, broadcast(draw, shape), dtype, special)
    if op == "Pow":
        a = np.abs(a)
    elif op != "PRelu" and draw(st.booleans()):
        a, b = b, a
    return NodeCase(op, (a, b), frozenset(draw(st.sampled_from([(), (1,)]))), loose=4 if op == "Pow" else 1)


@strategy("Mod")
def modulo(draw: Draw, op: str) -> NodeCase:
    dtype = one_of(draw, "float32", "int32", "int64", "uint8", "int8")
    shape = shape_of(draw)
    x, y = array(draw, shape, dtype, low=-20, high=20), array(draw, broadcast(draw, shape), dtype, low=-5, high=5)
    y = np.where(np.abs(y) < 0.25, np.array(3, dtype), y)
    return NodeCase(op, (x, y), attributes={"fmod": 1} if dtype == "float32" else some(draw, fmod=BOOL), loose=10)


@strategy("BitShift")
def shift(draw: Draw, op: str) -> NodeCase:
    dtype, shape = one_of(draw, "uint8", "uint32", "uint64"), shape_of(draw)
    operands = (array(draw, shape, dtype, True), array(draw, broadcast(draw, shape), dtype, low=0, high=7))
    return NodeCase(op, operands, attributes={"direction": one_of(draw, "LEFT", "RIGHT")})


@strategy("Max", "Min", "Sum", "Mean")
def several(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw)
    dtype = one_of(draw, "float32", "int32", "float64") if op in ("Max", "Min") else "float32"
    count = draw(st.integers(1, 4))
    return NodeCase(op, tuple(array(draw, broadcast(draw, shape), dtype, op in ("Max", "Min")) for _ in range(count)))


@strategy("Where")
def where(draw: Draw, op: str) -> NodeCase:
    shape, dtype = shape_of(draw), one_of(draw, "float32", "int64", "uint8")
    values = (array(draw, broadcast(draw, shape), dtype, True) for _ in range(2))
    return NodeCase(op, (array(draw, broadcast(draw, shape), "bool"), *values))


@strategy("Not", "BitwiseNot")
def inverted(draw: Draw, op: str) -> NodeCase:
    dtype = "bool" if op == "Not" else one_of(draw, *INTEGERS)
    return NodeCase(op, (array(draw, shape_of(draw), dtype, True),))


@strategy("Cast")
def cast(draw: Draw, op: str) -> NodeCase:
    source, target = one_of(draw, *FLOATS, *INTEGERS, "bool"), one_of(draw, *FLOATS, *INTEGERS, "bool")
    # What a float beyond the range of the integers becomes is not defined.
    low = 0 if target.startswith("u") and source.startswith("float") else -100
    x = array(draw, shape_of(draw), source, not source.startswith("float"), low, 100)
    return NodeCase(op, (x,), attributes={"to": helper.np_dtype_to_tensor_dtype(np.dtype(target))})


# ---------------------------------------------------------------- along axes
_REDUCTIONS = """
    ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare
"""


@strategy(*_REDUCTIONS.split())
def reduction(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 0, 5, 1 if op in ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceLogSum") else 0)
    x = array(draw, shape, low=0.1 if op == "ReduceLogSum" else -3, special=op in ("ReduceMax", "ReduceMin"))
    if op in ("ReduceMax", "ReduceMin"):
        x = np.nan_to_num(x, nan=1.0, posinf=np.inf, neginf=-np.inf)
    axes = int64(axes_of(draw, len(shape), 0)) if shape and draw(st.booleans()) else None
    attributes = some(draw, keepdims=BOOL, noop_with_empty_axes=BOOL)
    return NodeCase(op, (x, axes), frozenset({1}), attributes, loose=10)


@strategy("ArgMax", "ArgMin")
def arg(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 4, 1)
    attributes = {"axis": axis_of(draw, len(shape)), **some(draw, keepdims=BOOL, select_last_index=BOOL)}
    return NodeCase(op, (array(draw, shape, one_of(draw, "float32", "int32", "uint8")),), attributes=attributes)


@strategy("Softmax", "LogSoftmax", "Hardmax")
def soft(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 4)
    return NodeCase(
        op,
        (array(draw, shape, low=-30, high=30),),
        attributes=some(draw, axis=st.integers(-len(shape), len(shape) - 1)),
        loose=4,
    )


@strategy("CumSum")
def cumulative(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 4)
    axis = np.array(axis_of(draw, len(shape)), one_of(draw, "int32", "int64"))
    attributes = some(draw, exclusive=BOOL, reverse=BOOL)
    return NodeCase(
        op, (array(draw, shape, one_of(draw, "float32", "int32")), axis), frozenset({1}), attributes, loose=4
    )


@strategy("TopK")
def top_k(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 4, 1)
    axis = axis_of(draw, len(shape))
    k = int64([draw(st.integers(1, shape[axis]))])
    x = array(draw, shape, one_of(draw, "float32", "int64"), low=-1000, high=1000)
    return NodeCase(op, (x, k), frozenset({1}), {"axis": axis, **some(draw, largest=BOOL)}, 2)


@strategy("LpNormalization", "MeanVarianceNormalization", "LayerNormalization")
def normalization(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 2, 4, 2)
    x = array(draw, shape)
    axis = axis_of(draw, len(shape))
    if op == "LpNormalization":
        return NodeCase(op, (x,), attributes={"axis": axis, "p": one_of(draw, 1, 2)})
    if op == "MeanVarianceNormalization":
        return NodeCase(op, (x,), attributes={"axes": axes_of(draw, len(shape))}, loose=20, opset=13)
    tail = shape[axis % len(shape) :]
    bias = array(draw, tail) if draw(st.booleans()) else None
    return NodeCase(
        op,
        (x, array(draw, tail), bias),
        frozenset({1, 2}),
        {"axis": axis, **some(draw, epsilon=st.just(0.01))},
        loose=20,
    )


@strategy("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LRN")
def channels(draw: Draw, op: str) -> NodeCase:
    shape = (draw(st.integers(1, 2)), one_of(draw, 2, 4, 6), *shape_of(draw, *((2, 2) if op == "LRN" else (1, 3)), 1))
    x = array(draw, shape)
    if op == "LRN":
        return NodeCase(
            op,
            (x,),
            attributes={"size": one_of(draw, 1, 3, 5), **some(draw, bias=st.just(2.0), beta=st.just(0.5))},
            loose=10,
        )
    scale, bias, mean = (array(draw, shape[1:2]) for _ in range(3))
    epsilon = some(draw, epsilon=st.just(0.01))
    if op == "InstanceNormalization":
        return NodeCase(op, (x, scale, bias), frozenset({1, 2}), {"epsilon": 0.1}, loose=20)
    if op == "GroupNormalization":
        return NodeCase(
            op, (x, scale, bias), frozenset({1, 2}), {"num_groups": one_of(draw, 1, 2), "epsilon": 0.1}, loose=20
        )
    return NodeCase(
        op, (x, scale, bias, mean, array(draw, shape[1:2], low=0.1)), frozenset({1, 2, 3, 4}), epsilon, loose=10
    )


# ---------------------------------------------------------------- movement
@strategy("Transpose")
def transpose(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 0, 6)
    return NodeCase(
        op,
        (array(draw, shape, one_of(draw, "float32", "int8", "float16")),),
        attributes=some(draw, perm=st.permutations(range(len(shape)))) if shape else {},
    )


@strategy("Reshape")
def reshape(draw: Draw, op: str) -> NodeCase:
    shape = list(shape_of(draw, 1, 5))
    target = list(draw(st.permutations(shape)))
    attributes = some(draw, allowzero=BOOL)
    if 0 in shape:
        attributes = {"allowzero": 1}
    elif target and draw(st.booleans()):
        target[draw(st.integers(0, len(target) - 1))] = -1
    return NodeCase(op, (array(draw, shape), int64(target)), frozenset({1}), attributes)


@strategy("Flatten")
def flatten(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 5)
    return NodeCase(op, (array(draw, shape),), attributes=some(draw, axis=st.integers(-len(shape), len(shape))))


@strategy("Squeeze", "Unsqueeze")
def squeeze(draw: Draw, op: str) -> NodeCase:
    shape = list(shape_of(draw, 1, 4))
    if op == "Unsqueeze":
        rank = len(shape) + draw(st.integers(1, 2))
        axes = draw(
            st.lists(
                st.integers(-rank, rank - 1),
                min_size=rank - len(shape),
                max_size=rank - len(shape),
                unique_by=lambda a: a % rank,
            )
        )
        return NodeCase(op, (array(draw, shape), int64(axes)), frozenset({1}))
    ones = [n for n, size in enumerate(shape) if size == 1]
    if not ones or draw(st.booleans()):
        return NodeCase(op, (array(draw, shape),))
    axes = [
        n - draw(st.sampled_from([0, len(shape)]))
        for n in draw(st.lists(st.sampled_from(ones), min_size=1, unique=True))
    ]
    return NodeCase(op, (array(draw, shape), int64(axes)), frozenset({1}))


@strategy("Expand")
def expand(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 5)
    return NodeCase(
        op,
        (array(draw, broadcast(draw, shape)), int64(broadcast(draw, shape) if draw(st.booleans()) else shape)),
        frozenset({1}),
    )


@strategy("Tile")
def tile(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 4)
    return NodeCase(op, (array(draw, shape), int64([draw(st.integers(0, 3)) for _ in shape])), frozenset({1}))


@strategy("Concat")
def concat(draw: Draw, op: str) -> NodeCase:
    shape = list(shape_of(draw, 1, 5))
    axis, parts = axis_of(draw, len(shape)), []
    for _ in range(draw(st.integers(1, 4))):
        shape[axis] = draw(SIZES)
        parts.append(array(draw, shape))
    return NodeCase(op, tuple(parts), frozenset(draw(st.sampled_from([(), (1,)]))), {"axis": axis})


@strategy("Split")
def split(draw: Draw, op: str) -> NodeCase:
    shape = list(shape_of(draw, 1, 4))
    axis = axis_of(draw, len(shape))
    if draw(st.booleans()):
        count = draw(st.integers(1, 4))
        shape[axis] = count * draw(st.integers(1, 3)) - draw(st.integers(0, 0 if count < 3 else 1))
        return NodeCase(op, (array(draw, shape),), attributes={"axis": axis, "num_outputs": count}, outputs=count)
    parts = draw(st.lists(SIZES, min_size=1, max_size=4))
    shape[axis] = sum(parts)
    return NodeCase(op, (array(draw, shape), int64(parts)), frozenset({1}), {"axis": axis}, len(parts))


@strategy("Slice")
def slices(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 5)
    axes = axes_of(draw, len(shape))
    bound = st.one_of(st.integers(-13, 13), st.sampled_from([2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]))
    starts, ends = ([draw(bound) for _ in axes] for _ in range(2))
    steps = [draw(st.sampled_from([1, 2, 3, -1, -2, 7, -7])) for _ in axes]
    given = [int64(v) for v in (starts, ends, axes, steps)]
    return NodeCase(op, (array(draw, shape, one_of(draw, "float32", "uint8")), *given), frozenset({1, 2, 3, 4}))


@strategy("Pad")
def pad(draw: Draw, op: str) -> NodeCase:
    mode = one_of(draw, "constant", "edge", "reflect", "wrap")
    shape = shape_of(draw, 1, 4, 0 if mode == "constant" else 1)
    axes = axes_of(draw, len(shape))
    most = [3 if mode in ("constant", "edge") else shape[a] - (mode == "reflect") for a in axes]
    pads = [draw(st.integers(0, min(m, 4))) for m in (*most, *most)]
    if mode == "constant" and draw(st.booleans()):
        pads = [draw(st.integers(-(shape[a] // 2), 3)) for a in (*axes, *axes)]
    value = array(draw, (), special=True) if mode == "constant" and draw(st.booleans()) else None
    return NodeCase(op, (array(draw, shape), int64(pads), value, int64(axes)), frozenset({1, 2, 3}), {"mode": mode})


@strategy("Gather", "GatherElements", "ScatterElements")
def gather(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 1, 4, 1)
    axis = axis_of(draw, len(shape))
    where_ = shape_of(draw, 0, 3) if op == "Gather" else tuple(draw(st.integers(1, n)) for n in shape)
    random = np.random.default_rng(draw(st.integers(0, 999)))
    index = random.integers(-shape[axis], shape[axis], where_).astype(one_of(draw, "int32", "int64"))
    x, fixed = array(draw, shape, one_of(draw, "float32", "int64")), draw(st.sampled_from([(), (1,)]))
    if op != "ScatterElements":
        return NodeCase(op, (x, index), frozenset(fixed), {"axis": axis})
    # Elements written twice without a reduction are not defined.
    how = one_of(draw, "add", "mul", "max", "min")
    return NodeCase(
        op, (x, index, array(draw, where_, str(x.dtype))), frozenset(fixed), {"axis": axis, "reduction": how}, loose=10
    )


@strategy("GatherND", "ScatterND")
def gather_nd(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 2, 4, 1)
    batch = draw(st.integers(0, 1)) if op == "GatherND" else 0
    depth = draw(st.integers(1, len(shape) - batch))
    lead = (*shape[:batch], *shape_of(draw, 1, 2, 1))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    parts = [random.integers(-n, n, lead) for n in shape[batch : batch + depth]]
    index = np.stack(parts, -1).astype(np.int64)
    if op == "GatherND":
        return NodeCase(op, (array(draw, shape), index), attributes={"batch_dims": batch})
    updates = array(draw, (*lead, *shape[depth:]))
    return NodeCase(
        op,
        (array(draw, shape), index, updates),
        attributes={"reduction": one_of(draw, "add", "mul", "max", "min")},
        loose=10,
    )


@strategy("OneHot")
def one_hot(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw, 0, 3)
    rank, depth = len(shape) + 1, draw(st.integers(1, 5))
    index = array(draw, shape, one_of(draw, "int64", "int32"), low=-depth - 2, high=depth + 2)
    return NodeCase(
        op, (index, int64(depth), array(draw, (2,))), frozenset({1}), some(draw, axis=st.integers(-rank, rank - 1))
    )


@strategy("Trilu")
def trilu(draw: Draw, op: str) -> NodeCase:
    return NodeCase(
        op, (array(draw, shape_of(draw, 2, 4)), int64(draw(st.integers(-8, 8)))), frozenset({1}), some(draw, upper=BOOL)
    )


@strategy("DepthToSpace", "SpaceToDepth")
def depth_to_space(draw: Draw, op: str) -> NodeCase:
    block, (n, c, h, w) = draw(st.integers(1, 3)), shape_of(draw, 4, 4, 1)
    if op == "SpaceToDepth":
        return NodeCase(op, (array(draw, (n, min(c, 3), h * block, w * block)),), attributes={"blocksize": block})
    attributes = {"blocksize": block, **some(draw, mode=st.sampled_from(["DCR", "CRD"]))}
    return NodeCase(op, (array(draw, (n, min(c, 3) * block * block, h, w)),), attributes=attributes)


@strategy("ReverseSequence")
def reverse_sequence(draw: Draw, op: str) -> NodeCase:
    time = draw(st.integers(0, 1))
    shape = shape_of(draw, 2, 4, 1)
    lengths = int64([draw(st.integers(1, shape[time])) for _ in range(shape[1 - time])])
    return NodeCase(op, (array(draw, shape), lengths), attributes={"time_axis": time, "batch_axis": 1 - time})


@strategy("Shape", "Size", "EyeLike")
def sizes(draw: Draw, op: str) -> NodeCase:
    if op == "EyeLike":
        return NodeCase(op, (array(draw, shape_of(draw, 2, 2)),), attributes=some(draw, k=st.integers(-4, 4)))
    bounds = some(draw, start=st.integers(-7, 7), end=st.integers(-7, 7)) if op == "Shape" else {}
    return NodeCase(op, (array(draw, shape_of(draw, 0, 6)),), attributes=bounds)


# ---------------------------------------------------------------- products and windows
@strategy("MatMul")
def matmul(draw: Draw, op: str) -> NodeCase:
    batch, (m, k, n) = shape_of(draw, 0, 3), shape_of(draw, 3, 3)
    a = (k,) if draw(st.integers(0, 5)) == 0 else (*broadcast(draw, batch), m, k)
    b = (k,) if draw(st.integers(0, 5)) == 0 else (*broadcast(draw, batch), k, n)
    dtype = one_of(draw, "float32", "float64", "int32")
    return NodeCase(
        op, (array(draw, a, dtype), array(draw, b, dtype)), frozenset(draw(st.sampled_from([(), (1,)]))), loose=10
    )


@strategy("Gemm")
def gemm(draw: Draw, op: str) -> NodeCase:
    m, k, n = shape_of(draw, 3, 3, 1)
    ta, tb = draw(BOOL), draw(BOOL)
    a, b = array(draw, (k, m) if ta else (m, k)), array(draw, (n, k) if tb else (k, n))
    c = array(draw, one_of(draw, (), (1,), (n,), (1, n), (m, 1), (m, n))) if draw(st.booleans()) else None
    attributes = {"transA": ta, "transB": tb, **some(draw, alpha=ALPHA, beta=ALPHA)}
    return NodeCase(op, (a, b, c), frozenset(draw(st.sampled_from([(), (1,), (1, 2)]))), attributes, loose=10)


@strategy("Einsum")
def einsum(draw: Draw, op: str) -> NodeCase:
    i, j, k = shape_of(draw, 3, 3, 1)
    equation, shapes = one_of(
        draw, ("ij,jk->ik", [(i, j), (j, k)]), ("bij,bjk->bik", [(2, i, j), (2, j, k)]), ("ij->ji", [(i, j)]),
        ("ii->i", [(i, i)]), ("i,j->ij", [(i,), (j,)]), ("ij,ij->", [(i, j), (i, j)]),
        ("...i,...i->...", [(2, i), (2, i)]),
    )  # fmt: skip
    return NodeCase(op, tuple(array(draw, s) for s in shapes), attributes={"equation": equation}, loose=10)


def window(draw: Draw, rank: int, dilated: bool = True) -> tuple[dict[str, Any], list[int]]:
    """Attributes of a window, and the least sizes that it fits into."""
    small = st.integers(1, 3)
    kernel = [draw(small) for _ in range(rank)]
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        **some(draw, strides=st.lists(small, min_size=rank, max_size=rank)),
    }
    reach = kernel
    if draw(st.integers(0, 3)) == 0:
        attributes["auto_pad"] = one_of(draw, "SAME_UPPER", "SAME_LOWER", "VALID")
    else:
        attributes |= some(draw, dilations=st.lists(small, min_size=rank, max_size=rank)) if dilated else {}
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, attributes.get("dilations", [1] * rank), strict=True)]
        if draw(st.booleans()):
            attributes["pads"] = [draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    return attributes, reach


@strategy("Conv", "ConvInteger")
def conv(draw: Draw, op: str) -> NodeCase:
    rank = draw(st.integers(1, 3))
    attributes, reach = window(draw, rank)
    groups, cin, cout = (draw(st.sampled_from([1, 2, 3])) for _ in range(3))
    x = (draw(st.integers(1, 2)), groups * cin, *(r + draw(st.integers(0, 4)) for r in reach))
    w = (groups * cout, cin, *attributes["kernel_shape"])
    attributes |= {"group": groups}
    if op == "Conv":
        bias = array(draw, w[:1]) if draw(st.booleans()) else None
        return NodeCase(
            op,
            (array(draw, x), array(draw, w), bias),
            frozenset(draw(st.sampled_from([(1, 2), ()]))),
            attributes,
            loose=10,
        )
    zero = np.array(draw(st.integers(0, 255)), np.uint8) if draw(st.booleans()) else None
    operands = (array(draw, x, "uint8", True), array(draw, w, "uint8", True), zero)
    return NodeCase(op, operands, frozenset({1, 2}), attributes)


@strategy("ConvTranspose")
def conv_transpose(draw: Draw, op: str) -> NodeCase:
    rank = draw(st.integers(1, 2))
    small = st.integers(1, 3)
    kernel, strides = ([draw(small) for _ in range(rank)] for _ in range(2))
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "group": draw(st.integers(1, 2))}
    attributes |= some(draw, dilations=st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    if draw(st.booleans()):
        attributes["pads"] = [draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    if draw(st.booleans()):
        attributes["output_padding"] = [draw(st.integers(0, s - 1)) for s in strides]
    cin, cout = draw(small), draw(small)
    x = (1, attributes["group"] * cin, *(draw(st.integers(3, 6)) for _ in range(rank)))
    bias = array(draw, (attributes["group"] * cout,)) if draw(st.booleans()) else None
    return NodeCase(
        op, (array(draw, x), array(draw, (x[1], cout, *kernel)), bias), frozenset({1, 2}), attributes, loose=10
    )


@strategy("MaxPool", "AveragePool", "LpPool")
def pool(draw: Draw, op: str) -> NodeCase:
    attributes, reach = window(draw, draw(st.integers(1, 3)), op != "LpPool")
    x = (draw(st.integers(1, 2)), draw(st.integers(1, 3)), *(r + draw(st.integers(0, 5)) for r in reach))
    if "auto_pad" not in attributes:
        attributes |= some(draw, ceil_mode=BOOL) if op != "LpPool" else {}
    attributes |= some(draw, count_include_pad=BOOL) if op == "AveragePool" else {}
    attributes |= some(draw, p=st.integers(1, 3)) if op == "LpPool" else {}
    return NodeCase(op, (array(draw, x),), attributes=attributes, loose=10)


@strategy("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(draw: Draw, op: str) -> NodeCase:
    return NodeCase(op, (array(draw, shape_of(draw, 3, 5, 1)),), loose=10)


@strategy("Resize")
def resize(draw: Draw, op: str) -> NodeCase:
    rank = draw(st.integers(1, 2))
    x = array(draw, (1, 2, *(draw(st.integers(1, 7)) for _ in range(rank))))
    mode = one_of(draw, "nearest", "linear", *(["cubic"] if rank == 2 else []))
    attributes = {"mode": mode, **some(draw, coordinate_transformation_mode=st.sampled_from(
        ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"]
    ))}  # fmt: skip
    if mode == "nearest":
        attributes |= some(
            draw, nearest_mode=st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        )
    if mode == "cubic":
        attributes |= some(draw, cubic_coeff_a=st.sampled_from([-0.5, -0.75]), exclude_outside=BOOL)
    new = int64([1, 2, *(draw(st.integers(1, 11)) for _ in range(rank))])
    return NodeCase(op, (x, None, None, new), frozenset({3}), attributes, loose=20)


@strategy("GridSample")
def grid_sample(draw: Draw, op: str) -> NodeCase:
    x = array(draw, (2, 2, draw(st.integers(2, 5)), draw(st.integers(2, 5))))
    grid = array(draw, (2, draw(st.integers(1, 4)), 3, 2), low=-1.3, high=1.3)
    modes, paddings = st.sampled_from(["linear", "nearest"]), st.sampled_from(["zeros", "border", "reflection"])
    return NodeCase(
        op, (x, grid), attributes=some(draw, mode=modes, padding_mode=paddings, align_corners=BOOL), loose=20
    )


# ---------------------------------------------------------------- quantized
def _scales(draw: Draw, shape: Sequence[int]) -> np.ndarray:
    return array(draw, shape, low=0.01, high=0.2)


@strategy("QuantizeLinear", "DequantizeLinear")
def quantize(draw: Draw, op: str) -> NodeCase:
    shape, dtype = shape_of(draw, 1, 4, 1), one_of(draw, "uint8", "int8", "int16", "uint16")
    axis = axis_of(draw, len(shape))
    kind = draw(st.integers(0, 2))
    attributes: dict[str, Any] = {} if kind == 0 else {"axis": axis}
    given: tuple[int, ...] = () if kind == 0 else (shape[axis],)
    if kind == 2:
        block = draw(st.integers(1, shape[axis]))
        attributes["block_size"] = block
        given = tuple(-(-n // block) if k == axis % len(shape) else n for k, n in enumerate(shape))
    zero = array(draw, given, dtype, True)
    x = array(draw, shape, low=-20, high=20) if op[0] == "Q" else array(draw, shape, dtype, True)
    return NodeCase(op, (x, _scales(draw, given), zero), frozenset({1, 2}), attributes, loose=4)


@strategy("DynamicQuantizeLinear")
def dynamic_quantize(draw: Draw, op: str) -> NodeCase:
    low = draw(st.sampled_from([-3.0, 0.5, -3.0]))
    return NodeCase(op, (array(draw, shape_of(draw, 1, 3, 1), low=low, high=low + 4),), outputs=3)


@strategy("MatMulInteger", "QLinearMatMul")
def quantized_product(draw: Draw, op: str) -> NodeCase:
    m, k, n = shape_of(draw, 3, 3, 1)
    a, b = array(draw, (m, k), "uint8", True), array(draw, (k, n), one_of(draw, "uint8", "int8"), True)
    zeros = [np.array(7, np.uint8), np.array(3, b.dtype)]
    if op == "MatMulInteger":
        count = draw(st.integers(0, 2))
        return NodeCase(op, (a, b, *zeros[:count]), frozenset(draw(st.sampled_from([(), (1, 2, 3)]))))
    scales = [_scales(draw, ()) for _ in range(3)]
    operands = (a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2] * 50, np.array(100, np.uint8))
    return NodeCase(op, operands, frozenset(range(1, 8)))


# ---------------------------------------------------------------- recurrent
@strategy("LSTM", "GRU", "RNN")
def recurrent(draw: Draw, op: str) -> NodeCase:
    steps, batch, inputs, hidden = shape_of(draw, 4, 4, 1)
    hidden, inputs = min(hidden, 5), min(inputs, 5)
    direction = one_of(draw, "forward", "reverse", "bidirectional")
    d, gates = 2 if direction == "bidirectional" else 1, {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    w, r = (
        array(draw, (d, gates * hidden, inputs), low=-1, high=1),
        array(draw, (d, gates * hidden, hidden), low=-1, high=1),
    )
    bias = array(draw, (d, 2 * gates * hidden), low=-1, high=1) if draw(st.booleans()) else None
    lengths = np.array([draw(st.integers(1, steps)) for _ in range(batch)], np.int32) if draw(st.booleans()) else None
    states = [
        array(draw, (d, batch, hidden), low=-1, high=1) if draw(st.booleans()) else None
        for _ in range(2 if op == "LSTM" else 1)
    ]
    peepholes = [array(draw, (d, 3 * hidden), low=-1, high=1)] if op == "LSTM" and draw(st.booleans()) else []
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction, **some(draw, clip=st.just(0.7))}
    attributes |= some(draw, linear_before_reset=BOOL) if op == "GRU" else {}
    attributes |= some(draw, input_forget=BOOL) if op == "LSTM" else {}
    operands = (array(draw, (steps, batch, inputs)), w, r, bias, lengths, *states, *peepholes)
    return NodeCase(op, operands, frozenset({1, 2, 3, 7}), attributes, 3 if op == "LSTM" else 2, loose=20)


@st.composite
def node_cases(draw: Draw, names: Sequence[str] | None = None) -> NodeCase:
    """A case of some operator."""
    return STRATEGIES[draw(st.sampled_from(sorted(names or STRATEGIES)))](draw)
