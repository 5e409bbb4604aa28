"""Operations of Core ML's programs that random layers do not draw: against coremltools' own evaluation, or NumPy.

coremltools evaluates an operation of constants as it builds a program, which is the reference where none is given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb  # noqa: N813

from support.coreml_programs import interpreted

RNG = np.random.default_rng(6)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
Y = RNG.normal(size=(2, 3, 4)).astype(np.float32)
IMAGE = RNG.normal(size=(4, 2, 6, 4)).astype(np.float32)
WHOLE = RNG.integers(-6, 7, (2, 3, 4)).astype(np.int32)
POSITIVE = np.abs(X) + np.float32(0.1)
SHARES = (np.abs(X) * 0.2).astype(np.float32)
FLAGS = (WHOLE > 0).astype(np.float32)


def of_one(op: str, **settings: Any) -> Callable[..., Any]:
    return lambda *x: getattr(mb, op)(**dict(zip("xy", x, strict=False)), **settings)


def evaluated(build: Callable[..., Any], given: list[np.ndarray], opset: Any) -> list[np.ndarray]:
    """What coremltools makes of it."""
    held: list[Any] = []

    def program(unused: Any) -> Any:
        made = build(*(mb.const(val=x) for x in given))
        held.extend(v.val for v in (made if isinstance(made, (list, tuple)) else [made]))
        return mb.identity(x=unused)

    mb.program(input_specs=[mb.TensorSpec(shape=(1,))], opset_version=opset)(program)
    assert all(value is not None for value in held), "coremltools does not evaluate it"
    return [np.asarray(value) for value in held]


def truth(build: Callable[..., Any]) -> Callable[..., Any]:
    """Of bools, and the result as numbers: a program's inputs and outputs are no bools."""
    return lambda *x: mb.cast(x=build(*(mb.cast(x=each, dtype="bool") for each in x)), dtype="int32")


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))) @ v


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
    "update": lambda a, b: b,
}  # fmt: skip
ONE, TWO, ROW = (np.ascontiguousarray(part) for part in (Y[:, :1], Y[:, :2], Y[:, 0]))
OTHER, NONZERO = (np.ascontiguousarray(part[::-1]) for part in (WHOLE, np.where(WHOLE == 0, 3, WHOLE)))
OTHER_FLAGS = np.ascontiguousarray(FLAGS[::-1])
ROWS = np.array([[[0, 1, 2, 0]], [[1, 1, 0, 2]]], np.int32)


def written(mode: str, *place: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Elements at a place joined with updates."""

    def reference(x: np.ndarray, updates: np.ndarray) -> np.ndarray:
        y = x.copy()
        y[place] = _JOINS[mode](y[place], updates)
        return y

    return reference


#: Name, what it builds, its operands, and what it computes; None: what coremltools makes of constants.
CASES: list[tuple[str, Callable[..., Any], list[np.ndarray], Callable[..., Any] | None]] = [
    *(
        (f"{op}-{axes}-{keep}", of_one(op, axes=axes, keep_dims=keep), [POSITIVE], None)
        for op in ("reduce_l1_norm", "reduce_l2_norm", "reduce_log_sum", "reduce_log_sum_exp", "reduce_max",
                   "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum", "reduce_sum_square")
        for axes, keep in (([1], True), ([-1, 0], False))
    ),
    *((f"{op}-all", of_one(op), [POSITIVE], None) for op in ("reduce_log_sum_exp", "reduce_l2_norm", "reduce_prod")),
    *(
        (f"{op}-{keep}", of_one(op, axis=1, keep_dims=keep), [X], None)
        for op in ("reduce_argmax", "reduce_argmin") for keep in (True, False)
    ),
    *((op, of_one(op), [X], None) for op in (
        "abs", "ceil", "cos", "cosh", "exp", "exp2", "floor", "round", "sign", "sin", "sinh", "square", "tan", "tanh",
        "atan", "relu", "relu6", "sigmoid", "softplus", "softsign", "erf", "identity",
    )),
    *((op, of_one(op), [SHARES], None) for op in ("acos", "asin", "atanh")),
    *((op, of_one(op), [POSITIVE], None) for op in ("sqrt",)),
    ("log", of_one("log", epsilon=0.01), [POSITIVE], lambda x: np.log(x + np.float32(0.01))),
    ("rsqrt", of_one("rsqrt", epsilon=0.01), [POSITIVE], lambda x: 1 / np.sqrt(x + np.float32(0.01))),
    ("inverse", of_one("inverse", epsilon=0.01), [POSITIVE], lambda x: 1 / (x + np.float32(0.01))),
    ("clip", of_one("clip", alpha=-0.5, beta=0.7), [X], None),
    ("threshold", of_one("threshold", alpha=0.3), [X], None),
    ("gelu-exact", of_one("gelu", mode="EXACT"), [X], None),
    ("gelu-tanh", of_one("gelu", mode="TANH_APPROXIMATION"), [X], None),
    ("gelu-sigmoid", of_one("gelu", mode="SIGMOID_APPROXIMATION"), [X], None),
    ("silu", of_one("silu"), [X], lambda x: x / (1 + np.exp(-x))),
    *((op, of_one(op), [X, Y], None) for op in ("add", "sub", "mul", "real_div", "maximum", "minimum")),
    *((op, of_one(op), [POSITIVE, Y], None) for op in ("pow",)),
    *((f"{op}-floats", of_one(op), [X, Y], None) for op in ("floor_div", "mod")),
    *((f"{op}-integers", of_one(op), [WHOLE, NONZERO], None)
      for op in ("floor_div", "mod", "real_div")),
    *((op, lambda a, b, op=op: mb.cast(x=getattr(mb, op)(x=a, y=b), dtype="int32"), [WHOLE, OTHER], None)
      for op in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")),
    *((op, truth(lambda a, b, op=op: getattr(mb, op)(x=a, y=b)), [FLAGS, OTHER_FLAGS], None)
      for op in ("logical_and", "logical_or", "logical_xor")),
    ("logical_not", truth(lambda a: mb.logical_not(x=a)), [FLAGS], None),
    ("band_part", of_one("band_part", lower=1, upper=0), [X], None),
    ("band_part-all", of_one("band_part", lower=-1, upper=1), [X], None),
    ("fill_like", lambda x: mb.fill_like(ref_tensor=x, value=2.5), [X], lambda x: np.full_like(x, 2.5)),
    ("fill", lambda x: mb.add(x=x, y=mb.fill(shape=[3, 4], value=2.5)), [X], None),
    ("range_1d", lambda x: mb.add(x=x, y=mb.range_1d(start=1.0, end=9.0, step=2.0)), [X], None),
    ("cumsum", of_one("cumsum", axis=1, exclusive=True, reverse=True), [X],
     lambda x: np.stack([x[:, 1] + x[:, 2], x[:, 2], x[:, 2] * 0], 1)),
    ("argsort", of_one("argsort", axis=1, ascending=True), [X], None),
    ("topk", lambda x: mb.topk(x=x, k=2, axis=1, ascending=True), [X], None),
    ("topk-smallest", lambda x: mb.topk(x=x, k=3, axis=-1, sort=True, return_indices=True), [X], None),
    ("sliding_windows", of_one("sliding_windows", axis=2, size=2, stride=2), [X], lambda x: x.reshape(2, 3, 2, 2)),
    ("reverse", of_one("reverse", axes=[0, 2]), [X], None),
    ("reverse-all", of_one("reverse"), [X], None),
    ("reverse_sequence", of_one("reverse_sequence", lengths=[2, 3, 1], seq_axis=2, batch_axis=1), [X],
     lambda x: np.stack([x[:, 0][:, [1, 0, 2, 3]], x[:, 1][:, [2, 1, 0, 3]], x[:, 2]], 1)),
    ("slice_by_index", of_one("slice_by_index", begin=[0, 2, -1], end=[2, 0, -4], stride=[1, -1, -2]), [X], None),
    ("slice_by_index-masks", of_one("slice_by_index", begin=[1, 0, 1], end=[0, 0, 3], begin_mask=[False, True, False],
     end_mask=[True, True, False], squeeze_mask=[True, False, False]), [X], None),
    ("slice_by_size", of_one("slice_by_size", begin=[0, 1, 0], size=[-1, 2, 3]), [X], None),
    ("gather", of_one("gather", indices=[2, 0, 1, 1], axis=1), [X], None),
    ("gather-negative", of_one("gather", indices=[-1, 0], axis=1), [X], None),
    ("gather-batch", of_one("gather", indices=[[2, 0], [1, 1]], axis=1, batch_dims=1), [X], None),
    ("gather_along_axis", of_one("gather_along_axis", indices=ROWS, axis=1), [X], None),
    ("gather_nd", of_one("gather_nd", indices=[[0, 2], [1, 0]]), [X], lambda x: x[[0, 1], [2, 0]]),
    ("gather_nd-batch", of_one("gather_nd", indices=[[0, 2], [1, 0]], batch_dims=1), [X],
     lambda x: np.stack([x[0, 0, 2], x[1, 1, 0]])),
    *(
        (f"scatter-{mode}", lambda x, u, mode=mode: mb.scatter(data=x, indices=[2, 0], updates=u, axis=1, mode=mode),
         [X, TWO], written(mode, slice(None), [2, 0]))
        for mode in _JOINS
    ),
    *(
        (f"scatter_along_axis-{mode}",
         lambda x, u, mode=mode: mb.scatter_along_axis(data=x, indices=ROWS, updates=u, axis=1, mode=mode),
         [X, ONE], written(mode, np.arange(2)[:, None, None], ROWS, np.arange(4)))
        for mode in ("add", "update", "max", "min", "mul")
    ),
    *(
        (f"scatter_nd-{mode}",
         lambda x, u, mode=mode: mb.scatter_nd(data=x, indices=[[0, 2], [1, 0]], updates=u, mode=mode),
         [X, ROW], written(mode, [0, 1], [2, 0]))
        for mode in _JOINS
    ),
    ("select", lambda a, b: mb.select(cond=mb.greater(x=a, y=b), a=a, b=b), [X, Y], np.maximum),
    ("one_hot", lambda x: mb.one_hot(indices=x, one_hot_vector_size=4, axis=1, on_value=2, off_value=-1),
     [np.abs(WHOLE) % 4], lambda x: np.moveaxis(np.eye(4)[x] * 3 - 1, -1, 1)),
    ("concat-interleaved", lambda a, b: mb.concat(values=(a, b), axis=1, interleave=True), [X, Y],
     lambda a, b: np.stack([a, b], 2).reshape(2, 6, 4)),
    ("stack", lambda a, b: mb.stack(values=(a, b), axis=-1), [X, Y], None),
    ("split", lambda x: mb.split(x=x, split_sizes=[1, 3], axis=2), [X], None),
    ("tile", of_one("tile", reps=[2, 1, 3]), [X], None),
    *((f"pad-{mode}", of_one("pad", pad=[1, 2, 0, 1], mode=mode, constant_val=0.5), [X], None)
      for mode in ("constant", "reflect", "replicate")),
    ("einsum", lambda a, b: mb.einsum(values=(a, b), equation="nchw,nwhu->nchu"),
     [IMAGE, RNG.normal(size=(4, 4, 6, 3)).astype(np.float32)], lambda a, b: np.einsum("nchw,nwhu->nchu", a, b)),
    ("matmul", lambda a, b: mb.matmul(x=a, y=b, transpose_x=True), [X, Y], lambda a, b: a.swapaxes(1, 2) @ b),
    ("reshape", of_one("reshape", shape=[0, -1, 2]), [X], lambda x: x.reshape(2, 6, 2)),
    ("reshape_like", lambda a, b: mb.reshape_like(x=a, ref_tensors=(b,), begins=[0], ends=[2], end_masks=[True]),
     [X, np.ascontiguousarray(Y.reshape(6, 4))], lambda a, b: a.reshape(6, 4)),
    ("flatten2d", of_one("flatten2d", axis=2), [X], None),
    ("shape", of_one("shape"), [X], None),
    ("pixel_shuffle", of_one("pixel_shuffle", upscale_factor=2), [IMAGE.reshape(2, 4, 6, 4)],
     lambda x: x.reshape(2, 1, 2, 2, 6, 4).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 12, 8)),
    ("batch_to_space", of_one("batch_to_space", block_shape=[2, 2], crops=[[0, 1], [1, 0]]), [IMAGE],
     lambda x: x.reshape(2, 2, 1, 2, 6, 4).transpose(2, 3, 4, 0, 5, 1).reshape(1, 2, 12, 8)[:, :, :11, 1:]),
    ("resize_nearest_neighbor", of_one("resize_nearest_neighbor", target_size_height=12, target_size_width=8), [IMAGE],
     lambda x: x.repeat(2, 2).repeat(2, 3)),
    ("non_zero", of_one("non_zero"), [WHOLE], None),
]  # fmt: skip


def grouped() -> list[list[Any]]:
    """Cases of the same operands, which one program has together."""
    groups: dict[tuple[int, ...], list[Any]] = {}
    for case in CASES:
        groups.setdefault(tuple(map(id, case[2])), []).append(case)
    return list(groups.values())


@pytest.mark.parametrize("group", grouped(), ids=lambda group: group[0][0])
def test_operations(tmp_path: Path, group: list[Any]) -> None:
    given, wanted, names = group[0][2], [], []
    for name, build, _, reference in group:
        made = evaluated(build, given, ct.target.iOS17) if reference is None else [np.asarray(reference(*given))]
        wanted += made
        names += [name] * len(made)

    def program(*x: Any) -> list[Any]:
        results = [build(*x) for _, build, _, _ in group]
        return [y for made in results for y in (made if isinstance(made, (list, tuple)) else [made])]

    found = interpreted(program, given, tmp_path)
    assert len(found) == len(wanted)
    for name, ours, theirs in zip(names, found, wanted, strict=True):
        assert ours.shape == theirs.shape or (ours.shape == (1,) and theirs.shape == ()), name
        np.testing.assert_allclose(ours, theirs.reshape(ours.shape), rtol=1e-4, atol=1e-5, err_msg=name)


def test_attention(tmp_path: Path) -> None:
    q, k, v = (RNG.normal(size=(1, 2, n, 4)).astype(np.float32) for n in (3, 5, 5))
    build = lambda q, k, v: mb.scaled_dot_product_attention(query=q, key=k, value=v)  # noqa: E731
    (found,) = interpreted(build, [q, k, v], tmp_path, ct.target.iOS18)
    np.testing.assert_allclose(found, attention(q, k, v), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("axis", [None, 1])
def test_numbers_in_8_bits(tmp_path: Path, signed: bool, axis: int | None) -> None:
    dtype = np.int8 if signed else np.uint8
    scale = np.float32(0.05) if axis is None else np.float32([0.05, 0.1, 0.02])
    zero = dtype(3) if axis is None else np.array([3, 1, 0], dtype)
    axes = {} if axis is None else {"axis": np.int32(axis)}

    def build(x: Any) -> Any:
        y = mb.quantize(input=x, scale=scale, zero_point=zero, output_dtype=np.dtype(dtype).name, **axes)
        return mb.dequantize(input=y, scale=scale, zero_point=zero, **axes)

    (found,) = interpreted(build, [X], tmp_path)
    wide = [v if axis is None else np.asarray(v, np.float32).reshape(3, 1) for v in (scale, zero)]
    bounds = np.iinfo(dtype)
    steps = np.clip(np.rint(X / wide[0]) + np.float32(wide[1]), bounds.min, bounds.max)
    np.testing.assert_allclose(found, (steps - np.float32(wide[1])) * wide[0], atol=1e-6)
