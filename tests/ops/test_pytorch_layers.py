"""Calls of PyTorch's operators against their definitions in NumPy, over shapes and arguments that hypothesis draws.

`bench/torch_export.py` and `ci/torch-models` compare with PyTorch itself, where it is installed.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.exported_programs import Number, Program, Type
from support.pytorch_calls import called, close

FEW = settings(max_examples=12, deadline=None, derandomize=True)
RNG = np.random.default_rng(17)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)

# ---------------------------------------------------------------- element by element
UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp, "expm1": np.expm1, "sin": np.sin, "tanh": np.tanh, "atan": np.arctan, "floor": np.floor,
    "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "abs": np.abs, "neg": np.negative, "sign": np.sign,
    "square": np.square, "erf": np.vectorize(math.erf, [float]), "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "silu": lambda x: x / (1 + np.exp(-x)),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "softplus": lambda x: np.log1p(np.exp(x)), "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)), "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "relu6": lambda x: np.clip(x, 0, 6), "log_sigmoid": lambda x: -np.log1p(np.exp(-x)),
    "isnan": np.isnan, "isfinite": np.isfinite, "frac": lambda x: x - np.trunc(x), "exp2": np.exp2,
}  # fmt: skip
POSITIVE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "logit": lambda x: np.log(x / (1 - x)),
}  # fmt: skip


@pytest.mark.parametrize("name", [*UNARY, *POSITIVE])
def test_functions(name: str) -> None:
    x = floats(3, 7) * 2 if name in UNARY else RNG.uniform(0.05, 0.95, (3, 7)).astype(np.float32)
    close(called(f"aten.{name}.default", self=x)[0], (UNARY | POSITIVE)[name](x))


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add.Tensor": np.add, "sub.Tensor": np.subtract, "mul.Tensor": np.multiply, "div.Tensor": np.divide,
    "maximum.default": np.maximum, "minimum.default": np.minimum, "remainder.Tensor": np.mod, "fmod.Tensor": np.fmod,
    "atan2.default": np.arctan2, "floor_divide.default": np.floor_divide, "hypot.default": np.hypot,
}  # fmt: skip


@FEW
@given(st.sampled_from(sorted(BINARY)), shapes, st.data())
def test_two_operands_broadcast(name: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    other = tuple(data.draw(st.sampled_from((1, n))) for n in shape[data.draw(st.integers(0, len(shape))) :])
    a, b = floats(*shape) * 4, np.asarray(RNG.uniform(0.5, 3, other), np.float32)
    close(called(f"aten.{name}", self=a, other=b)[0], BINARY[name](a, b), 1e-4)


@pytest.mark.parametrize(
    "name", ["remainder.Tensor", "fmod.Tensor", "floor_divide.default", "add.Tensor", "mul.Tensor"]
)
@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_integers(name: str, dtype: str) -> None:
    a = RNG.integers(-9, 10, (4, 6)).astype(dtype)
    b = (RNG.integers(1, 5, (4, 6)) * RNG.choice((-1, 1), (4, 6))).astype(dtype)
    (found,) = called(f"aten.{name}", self=a, other=b)
    np.testing.assert_array_equal(found, BINARY[name](a, b))


# dtype of a tensor, what it meets, and the result's (PyTorch, type promotion)
PROMOTED = [
    ("int64", 1.5, "float32"), ("int8", 3, "int8"), ("bool", 2, "int64"), ("float32", 2, "float32"),
    ("float64", 1.5, "float64"), ("uint8", True, "uint8"), ("bool", 1.5, "float32"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "number", "wanted"), PROMOTED)
def test_numbers_promote_only_across_kinds(dtype: str, number: Any, wanted: str) -> None:
    x = np.array([0, 1, 1], dtype)
    made = called("aten.mul.Tensor", self=x, other=number)[0]
    assert made.dtype.name == wanted
    close(made, x * number)


def test_alpha_and_rounding_modes() -> None:
    a, b = floats(3, 4) * 5, floats(4)
    close(called("aten.add.Tensor", self=a, other=b, alpha=2.5)[0], a + 2.5 * b)
    close(called("aten.rsub.Scalar", self=a, other=2.0, alpha=3.0)[0], 2 - 3 * a)
    close(called("aten.div.Tensor_mode", self=a, other=b, rounding_mode="trunc")[0], np.trunc(a / b))
    close(called("aten.div.Tensor_mode", self=a, other=b, rounding_mode="floor")[0], np.floor(a / b))


# ---------------------------------------------------------------- reductions
REDUCED: dict[str, Callable[..., Any]] = {
    "sum.dim_IntList": np.sum, "mean.dim": np.mean, "amax.default": np.max, "amin.default": np.min,
}  # fmt: skip


@FEW
@given(st.sampled_from(sorted(REDUCED)), shapes, st.data(), st.booleans())
def test_reductions(name: str, shape: tuple[int, ...], data: st.DataObject, keep: bool) -> None:
    rank = len(shape)
    dims = data.draw(st.lists(st.integers(-rank, rank - 1), unique_by=lambda n: n % rank, min_size=1, max_size=rank))
    x = floats(*shape)
    found = called(f"aten.{name}", self=x, dim=dims, keepdim=keep)[0]
    close(found, REDUCED[name](x, axis=tuple(n % rank for n in dims), keepdims=keep))


@pytest.mark.parametrize("correction", [0, 1, 2])
def test_variance(correction: int) -> None:
    x = floats(4, 5)
    close(called("aten.var.correction", self=x, dim=[-1], correction=correction)[0], x.var(-1, ddof=correction))
    values, places = called("aten.max.dim", "values", "places", self=x, dim=1)
    close(values, x.max(1))
    np.testing.assert_array_equal(places, x.argmax(1))


# ---------------------------------------------------------------- shapes and parts
@FEW
@given(shapes, st.data())
def test_slices(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    start, end = (data.draw(st.integers(-6, 6)) for _ in range(2))
    step = data.draw(st.integers(1, 3))
    x = floats(*shape)
    cut: list[slice] = [slice(None)] * len(shape)
    cut[axis] = slice(start, end, step)
    wanted = x[tuple(cut)]
    if wanted.size:
        close(called("aten.slice.Tensor", self=x, dim=axis, start=start, end=end, step=step)[0], wanted)


@FEW
@given(shapes, st.data())
def test_movement(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = floats(*shape)
    order = data.draw(st.permutations(range(len(shape))))
    close(called("aten.permute.default", self=x, dims=list(order))[0], x.transpose(order))
    shift = data.draw(st.integers(-5, 5))
    axis = data.draw(st.integers(0, len(shape) - 1))
    close(called("aten.roll.default", self=x, shifts=[shift], dims=[axis])[0], np.roll(x, shift, axis))
    close(called("aten.flip.default", self=x, dims=[axis])[0], np.flip(x, axis))
    close(called("aten.repeat.default", self=x, repeats=[2] * (len(shape) + 1))[0], np.tile(x, [2] * (len(shape) + 1)))
    many = [f"p{n}" for n in range(shape[axis])]
    program = Program()
    given_ = program.input("x", shape)
    for part in program.parts("aten.unbind.int", many, self=given_, dim=axis):
        program.output(part)
    with tempfile.TemporaryDirectory() as folder:
        found = interpret(read_model(program.write(Path(folder) / "m.pt2")), {"x": x}).values()
    for part, wanted in zip(found, np.moveaxis(x, axis, 0), strict=True):
        close(part, wanted)


def test_padding_in_all_modes() -> None:
    x = floats(2, 3, 5)
    for mode, own in (("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        found = called("aten.pad.default", self=x, pad=[2, 1], mode=mode)[0]
        close(found, np.pad(x, ((0, 0), (0, 0), (2, 1)), mode=own))  # type: ignore[call-overload]
    close(called("aten.constant_pad_nd.default", self=x, pad=[-1, 2, 1, 0], value=3.0)[0],
          np.pad(x[..., 1:], ((0, 0), (1, 0), (0, 2)), constant_values=3))  # fmt: skip


# ---------------------------------------------------------------- indices
def test_advanced_indices() -> None:
    x = floats(5, 4, 3)
    i, j = np.array([[0], [-1]]), np.array([2, 0, 1])
    close(called("aten.index.Tensor", self=x, indices=[i, j])[0], x[i, j])
    close(called("aten.index.Tensor", self=x, indices=[None, i, np.array([1])])[0], x[:, i, np.array([1])])
    close(called("aten.index.Tensor", self=x, indices=[j, None, j])[0], x[j, :, j])
    mask = np.array([True, False, True, True, False])
    put = called("aten.index_put.default", self=x, indices=[np.array([1, 3])], values=np.ones((4, 3), np.float32))[0]
    wanted = x.copy()
    wanted[[1, 3]] = 1
    close(put, wanted)
    again = called(
        "aten.index_put.default",
        self=x,
        indices=[np.array([1, 1])],
        values=np.ones((2, 4, 3), np.float32),
        accumulate=True,
    )[0]
    wanted = x.copy()
    wanted[1] += 2
    close(again, wanted)
    wanted = x.copy()
    wanted[mask] = 7
    close(called("aten.index_put.default", self=x, indices=[mask], values=np.array(7, np.float32))[0], wanted)


@FEW
@given(st.integers(0, 2), st.integers(1, 5))
def test_gather_and_scatter(axis: int, count: int) -> None:
    x = floats(3, 4, 5)
    shape = [2, 3, 4]
    shape[axis] = count
    index = RNG.integers(0, x.shape[axis], shape)
    cut = tuple(slice(None) if n == axis else slice(size) for n, size in enumerate(shape))
    close(called("aten.gather.default", self=x, dim=axis, index=index)[0], np.take_along_axis(x[cut], index, axis))
    source = floats(*shape)
    wanted = x.copy()
    places = list(np.indices(shape))
    places[axis] = index
    np.add.at(wanted, tuple(places), source)
    close(called("aten.scatter_add.default", self=x, dim=axis - 3, index=index, src=source)[0], wanted)


# ---------------------------------------------------------------- windows
def windows(x: np.ndarray, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]) -> np.ndarray:
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    found = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    return found[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


@FEW
@given(pairs, pairs, st.tuples(st.integers(0, 2), st.integers(0, 2)), st.tuples(st.integers(1, 2), st.integers(1, 2)))
def test_convolutions(kernel: Any, stride: Any, padding: Any, dilation: Any) -> None:
    x, w, b = floats(2, 4, 7, 8), floats(6, 2, *kernel), floats(6)
    wide = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    found = called(
        "aten.conv2d.default", input=x, weight=w, bias=b, stride=list(stride), padding=list(padding),
        dilation=list(dilation), groups=2,
    )[0]  # fmt: skip
    parts = windows(wide, kernel, stride, dilation).reshape(2, 2, 2, *found.shape[2:], *kernel)
    wanted = np.einsum("ngchwij,gocij->ngohw", parts, w.reshape(2, 3, 2, *kernel)).reshape(found.shape)
    close(found, wanted + b[:, None, None], 1e-4)


@FEW
@given(st.integers(2, 3), st.integers(1, 3), st.booleans(), st.booleans())
def test_pooling(kernel: int, stride: int, ceil: bool, counted: bool) -> None:
    """Windows beyond the end count where `ceil_mode` says so, and average over what is there."""
    x, pad = floats(1, 2, 7, 9), kernel // 2
    settings_ = {"kernel_size": [kernel] * 2, "stride": [stride] * 2, "padding": [pad] * 2, "ceil_mode": ceil}
    counts = []
    for size in (7, 9):
        rest = size + 2 * pad - kernel
        n = (-(-rest // stride) if ceil else rest // stride) + 1
        counts.append(n - 1 if ceil and (n - 1) * stride >= size + pad else n)
    largest, means = (np.empty((1, 2, *counts), np.float32) for _ in range(2))
    for i in range(counts[0]):
        for j in range(counts[1]):
            starts = [n * stride - pad for n in (i, j)]
            part = x[:, :, max(starts[0], 0) : starts[0] + kernel, max(starts[1], 0) : starts[1] + kernel]
            largest[:, :, i, j] = part.max((2, 3))
            ends = [min(s + kernel, size + pad) - s for s, size in zip(starts, (7, 9), strict=True)]
            means[:, :, i, j] = part.sum((2, 3)) / (ends[0] * ends[1] if counted else part.shape[2] * part.shape[3])
    close(called("aten.max_pool2d.default", self=x, **settings_)[0], largest)
    close(called("aten.avg_pool2d.default", self=x, count_include_pad=counted, **settings_)[0], means)


@FEW
@given(st.integers(1, 9), st.integers(1, 7))
def test_adaptive_pooling(rows: int, columns: int) -> None:
    x = floats(1, 2, 9, 7)
    wanted = np.empty((2, 1, 2, rows, columns), np.float32)
    for i in range(rows):
        for j in range(columns):
            part = x[:, :, i * 9 // rows : -(-(i + 1) * 9 // rows), j * 7 // columns : -(-(j + 1) * 7 // columns)]
            wanted[:, :, :, i, j] = part.mean((2, 3)), part.max((2, 3))
    close(called("aten.adaptive_avg_pool2d.default", self=x, output_size=[rows, columns])[0], wanted[0])
    found = called("aten.adaptive_max_pool2d.default", "values", "places", self=x, output_size=[rows, columns])
    close(found[0], wanted[1])
    np.testing.assert_array_equal(np.take(x[0, 1].ravel(), found[1][0, 1]), wanted[1, 0, 1])


# ---------------------------------------------------------------- products, normalizations, recurrence
def test_products() -> None:
    a, b, c = floats(3, 4), floats(4, 5), floats(5)
    close(called("aten.addmm.default", self=c, mat1=a, mat2=b, beta=0.5, alpha=2.0)[0], 0.5 * c + 2 * (a @ b), 1e-4)
    v = floats(4)
    close(called("aten.matmul.default", self=v, other=b)[0], v @ b, 1e-4)
    close(called("aten.einsum.default", equation="ij,jk->ki", tensors=[a, b])[0], (a @ b).T, 1e-4)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float", "grouped"])
def test_attention(kind: str) -> None:
    q, k, v = floats(2, 4, 5, 8), floats(2, 4, 5, 8), floats(2, 4, 5, 8)
    more: dict[str, Any] = {}
    seen, added = np.ones((5, 5), bool), np.zeros((5, 5), np.float32)
    if kind == "causal":
        more["is_causal"], seen = True, np.tril(seen)
    if kind == "bool":
        more["attn_mask"] = seen = RNG.uniform(size=(5, 5)) < 0.7
        seen[2] = False  # a row that sees nothing gives 0
    if kind == "float":
        more["attn_mask"] = added = floats(5, 5)
    if kind == "grouped":
        k, v, more["enable_gqa"] = k[:, :2], v[:, :2], True
    found = called("aten.scaled_dot_product_attention.default", query=q, key=k, value=v, **more)[0]
    if kind == "grouped":
        k, v = k.repeat(2, 1), v.repeat(2, 1)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(8) + added
    weights = np.where(seen.any(-1, keepdims=True), softmax(np.where(seen, scores, -1e30)), 0)
    close(found, weights @ v, 1e-4)


def test_normalizations() -> None:
    x, g, b = floats(2, 6, 4), floats(6), floats(6)
    groups = x.reshape(2, 2, 12)
    flat = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    found = called("aten.group_norm.default", input=x, num_groups=2, weight=g, bias=b)[0]
    close(found, flat.reshape(x.shape) * g[:, None] + b[:, None], 1e-4)
    mean, variance = floats(6), RNG.uniform(0.5, 1, 6).astype(np.float32)
    found = called(
        "aten.batch_norm.default", input=x, weight=g, bias=b, running_mean=mean, running_var=variance, training=False,
        momentum=0.1, eps=1e-3, cudnn_enabled=False,
    )[0]  # fmt: skip
    wide = [part[:, None] for part in (mean, variance, g, b)]
    close(found, (x - wide[0]) / np.sqrt(wide[1] + 1e-3) * wide[2] + wide[3], 1e-4)
    found = called("aten.rms_norm.default", input=x, normalized_shape=[4], weight=floats(4) * 0 + 2, eps=1e-6)[0]
    close(found, 2 * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6), 1e-4)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_lstm(bidirectional: bool) -> None:
    """Gates in the order input, forget, cell, output."""
    x, directions = floats(2, 4, 3), 1 + bidirectional
    h, c = floats(directions, 2, 5), floats(directions, 2, 5)
    params = [w for _ in range(directions) for w in (floats(20, 3), floats(20, 5), floats(20), floats(20))]
    found = called(
        "aten.lstm.input", "y", "h", "c", input=x, hx=[h, c], params=params, has_biases=True, num_layers=1, dropout=0.0,
        train=False, bidirectional=bidirectional, batch_first=True,
    )  # fmt: skip
    wanted = np.zeros((2, 4, 5 * directions))
    for d in range(directions):
        w, r, b1, b2 = params[4 * d : 4 * d + 4]
        hidden, cell = h[d], c[d]
        for step in reversed(range(4)) if d else range(4):
            gates = x[:, step] @ w.T + b1 + hidden @ r.T + b2
            i, f, g, o = np.split(gates, 4, -1)
            i, f, o = (1 / (1 + np.exp(-part)) for part in (i, f, o))
            cell = f * cell + i * np.tanh(g)
            hidden = o * np.tanh(cell)
            wanted[:, step, 5 * d : 5 * d + 5] = hidden
        close(found[1][d], hidden, 1e-4)
        close(found[2][d], cell, 1e-4)
    close(found[0], wanted, 1e-4)


# ---------------------------------------------------------------- complex numbers
def spectrum(x: np.ndarray, forward: str, back: str, **more: Any) -> list[np.ndarray]:
    """|transform|, and the transform of that transform back."""
    program = Program()
    given_ = program.input("x", x.shape)
    z = program.call(f"aten.{forward}.default", self=given_, **more)
    program.tensor(z, "complex64", ("a",) * x.ndim)
    program.output(program.call("aten.abs.default", self=z))
    program.output(program.call(f"aten.{back}.default", self=z, **more))
    with tempfile.TemporaryDirectory() as folder:
        return list(interpret(read_model(program.write(Path(folder) / "m.pt2")), {"x": x}).values())


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("size", [8, 12])
def test_transforms_of_fourier(size: int, norm: Any) -> None:
    x = floats(3, size)
    size_, again = spectrum(x, "fft_rfft", "fft_irfft", norm=norm)
    close(size_, np.abs(np.fft.rfft(x, norm=norm)), 1e-4)
    close(again, x, 1e-4)
    size_, again = spectrum(x, "fft_rfft2", "fft_irfft2", norm=norm)
    close(size_, np.abs(np.fft.rfft2(x, norm=norm)), 1e-4)
    close(again, x, 1e-4)


def test_rotation_by_complex_numbers() -> None:
    """view_as_real(view_as_complex(x) * z), as rotary embeddings have it."""
    x, angle = floats(3, 4, 2), floats(4)
    program = Program()
    given_ = program.input("x", x.shape)
    z = program.call("aten.view_as_complex.default", self=given_)
    turn = program.call("aten.polar.default", abs=program.weight("one", np.ones(4, np.float32)),
                        angle=program.weight("angle", angle))  # fmt: skip
    turned = program.call("aten.mul.Tensor", self=z, other=turn)
    for name in (z, turn, turned):
        program.tensor(name, "complex64", ("a",))
    program.output(program.call("aten.view_as_real.default", self=turned))
    with tempfile.TemporaryDirectory() as folder:
        found = interpret(read_model(program.write(Path(folder) / "m.pt2")), {"x": x})
    wanted = (x[..., 0] + 1j * x[..., 1]) * np.exp(1j * angle)
    close(next(iter(found.values())), np.stack([wanted.real, wanted.imag], -1))


# ---------------------------------------------------------------- what is refused
def test_training_is_refused() -> None:
    with pytest.raises(SternaError) as caught:
        called("aten.dropout.default", input=floats(3), p=0.5, train=True)
    assert caught.value.codes == ("E0113",)
    assert "eval()" in str(caught.value)


def test_axes_that_do_not_exist() -> None:
    with pytest.raises(SternaError) as caught:
        called("aten.softmax.int", self=floats(3, 4), dim=2)
    assert caught.value.codes == ("E0108",)


def test_kinds_of_arguments() -> None:
    """A number of the program stands where a size does; an element type where `dtype` does."""
    program = Program()
    x = program.input("x", (2, 3))
    size = program.number("aten.sym_size.int", "n", self=x, dim=1)
    assert isinstance(size, Number)
    zeros = program.call("aten.zeros.default", size=[size, 2], dtype=Type("int64"))
    program.output(zeros)
    program.output(x)
    with tempfile.TemporaryDirectory() as folder:
        graph = read_model(program.write(Path(folder) / "m.pt2"))
    assert str(graph.outputs[0].type) == "int64[3, 2]"
