"""Products, convolutions, pools and resampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from support.nodes.case import NodeCase
from support.nodes.draw import ALPHA, BOOL, Draw, array, broadcast, int64, one_of, shape_of, some, strategy


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
    elif "strides" in attributes and attributes["auto_pad"] != "VALID":
        # The references pad by less than nothing where a stride passes over elements.
        attributes["strides"] = list(map(min, attributes["strides"], attributes["kernel_shape"]))
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
