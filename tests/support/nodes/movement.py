"""Operators that move elements: shapes, slices, gathers, scatters."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from support.nodes.case import NodeCase
from support.nodes.draw import (
    BOOL,
    SIZES,
    Draw,
    array,
    axes_of,
    axis_of,
    broadcast,
    int64,
    one_of,
    shape_of,
    some,
    strategy,
)


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
    # To ONNX Runtime, the largest integer is the end in both directions; to ONNX, the last element, as to NumPy.
    ends = [min(end, 13) if step < 0 else end for end, step in zip(ends, steps, strict=True)]
    # To ONNX, steps back from before the first element begin with it; to its reference, with nothing, as in NumPy.
    starts = [max(at, -max(shape[a], 1)) if s < 0 else at for at, a, s in zip(starts, axes, steps, strict=True)]
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
