"""Products whose threads never wait for a bank of shared memory: matrix products and convolutions of any size."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sterna.ir.integer import Int, as_int
from sterna.loops import program as P
from sterna.loops.accesses import Accesses, accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.te.expr import Expr, cast
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support import opencl_host
from support.bound_axes import SHARED, compare
from support.small_kernels import attention, matmul, times_vector
from support.thread_programs import TASKS, function, load, over_threads

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))
CHANNELS = st.sampled_from([1, 2, 3, 5, 7, 8, 12, 16, 17])
#: Height and width of the result, channels that are read, channels of the result, taps along each side, stride.
Layer = tuple[int, int, int, int, int, int]


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> opencl_host.Device:
    return opencl_host.Device(tmp_path_factory.mktemp("opencl"))


def convolution(layer: Layer, images: int = 1) -> Kernel:
    """Of images that are padded already; with a bias."""
    height, width, deep, many, taps, stride = layer
    high, wide = ((n - 1) * stride + taps for n in (height, width))
    x, w = placeholder("x", (images, high, wide, deep)), placeholder("w", (taps, taps, deep, many))
    b = placeholder("b", (many,))
    kh, kw, k = reduce_axis("kh", taps), reduce_axis("kw", taps), reduce_axis("ci", deep)

    def element(n: Int, i: Int, j: Int, c: Int) -> Expr:
        read = x[n, i * stride + kh.var, j * stride + kw.var, k.var]
        return total(read * w[kh.var, kw.var, k.var, c], kh, kw, k)

    acc = compute("acc", (images, height, width, many), element)
    out = compute("out", (images, height, width, many), lambda n, i, j, c: acc[n, i, j, c] + b[c])
    return Kernel("conv", (x,), (w, b), (out,))


def turned(m: int, n: int, depth: int) -> Kernel:
    """x w of an x whose columns lie side by side."""
    x, w, k = placeholder("x", (depth, m)), placeholder("w", (depth, n)), reduce_axis("k", depth)
    return Kernel("turned", (x, w), (), (compute("out", (m, n), lambda i, j: total(x[k.var, i] * w[k.var, j], k)),))


def scheduled(kernel: Kernel) -> Schedule:
    s = propose(kernel, Context(load_target("opencl")))
    assert s is not None
    return s


def found(kernel: Kernel) -> Accesses:
    counted = accesses(finish(lower(scheduled(kernel))))
    assert counted.shared_accesses > 0
    return counted


@pytest.mark.parametrize("columns", [2, 4, 7, 8, 12, 16, 24, 40, 255])
@pytest.mark.parametrize("depth", [9, 24, 64, 100, 201])
def test_matrix_products(columns: int, depth: int) -> None:
    for kernel in (matmul(100, columns, depth), turned(100, columns, depth)):
        assert found(kernel).conflicts == 0


@pytest.mark.parametrize("depth", [69, 201, 257])
def test_rows_that_begin_anywhere(depth: int) -> None:
    """A subgroup copies terms of one row at a time, and each has a bank of its own."""
    counted = found(matmul(70, 64, depth))
    assert counted.conflicts == 0
    assert counted.coalesced > 0.94 * counted.accesses


@pytest.mark.parametrize("taps", [1, 3, 7])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions(taps: int, stride: int) -> None:
    for size in ((13, 14), (7, 7)):
        for channels in ((3, 16), (16, 8), (12, 4), (17, 24)):
            assert found(convolution((*size, *channels, taps, stride))).conflicts == 0, (size, channels)


def half_convolution(layer: Layer, images: int) -> Kernel:
    """The same in float16, of products in float32; several images."""
    height, width, deep, many, taps, stride = layer
    high, wide = ((n - 1) * stride + taps for n in (height, width))
    x, b = placeholder("x", (images, high, wide, deep), "float16"), placeholder("b", (many,), "float16")
    w = placeholder("w", (taps, taps, deep, many), "float16")
    kh, kw, k = reduce_axis("kh", taps), reduce_axis("kw", taps), reduce_axis("ci", deep)

    def element(n: Int, i: Int, j: Int, c: Int) -> Expr:
        read = cast(x[n, i * stride + kh.var, j * stride + kw.var, k.var], "float32")
        return total(read * cast(w[kh.var, kw.var, k.var, c], "float32"), kh, kw, k)

    def biased(n: Int, i: Int, j: Int, c: Int) -> Expr:
        return cast(acc[n, i, j, c] + cast(b[c], "float32"), "float16")

    acc = compute("acc", (images, height, width, many), element)
    return Kernel("conv", (x,), (w, b), (compute("out", (images, height, width, many), biased),))


@pytest.mark.parametrize(
    ("layer", "images"),
    [
        ((64, 64, 13, 13, 3, 1), 2),
        ((56, 56, 3, 13, 3, 1), 2),
        ((14, 14, 51, 77, 3, 1), 2),
        ((32, 32, 26, 13, 2, 1), 3),
        ((9, 16, 24, 12, 1, 1), 2),
        ((48, 48, 3, 24, 3, 2), 4),
    ],
    ids=["odd", "first", "many odd", "odd columns", "twelve columns", "a batch"],
)
def test_convolutions_by_fragments(layer: Layer, images: int) -> None:
    """Windows over an odd number of channels are gathered from rows or positions that lie apart, and sums of narrow
    tiles are read side by side."""
    s = propose(half_convolution(layer, images), Context(load_target("cuda-sm80")))
    assert s is not None
    counted = accesses(finish(lower(s)))
    assert counted.fragments
    assert counted.conflicts <= 0.02 * counted.shared_accesses if layer[2] == 51 else counted.conflicts == 0


@pytest.mark.parametrize("width", [160, 96])
def test_tiles_within_a_line_of_a_first_layer(width: int) -> None:
    """Of positions in two lines the windows would reach over more than threads ask for that gather them."""
    s = propose(half_convolution((12, width, 3, 16, 3, 2), 1), Context(load_target("cuda-sm80")))
    assert s is not None
    counted = accesses(finish(lower(s)))
    assert counted.fragments
    assert counted.conflicts == 0
    assert counted.accesses - counted.coalesced <= 2 * counted.groups  # where one of three lines ends


@pytest.mark.parametrize(("length", "stride"), [(44100, 256), (1626, 8), (1632, 8)])
def test_windows_of_a_row_of_one_channel(length: int, stride: int) -> None:
    """As of a spectrogram: the tensor may end within a run of neighbours, which then is no copy of 16 bytes."""
    x, w, k = placeholder("x", (length,), "float16"), placeholder("w", (256, 36), "float16"), reduce_axis("k", 256)
    many = (length - 256) // stride + 1

    def element(i: Int, j: Int) -> Expr:
        return total(cast(x[i * stride + k.var], "float32") * cast(w[k.var, j], "float32"), k)

    acc = compute("acc", (many, 36), element)
    out = compute("out", (many, 36), lambda i, j: cast(acc[i, j], "float16"))
    s = propose(Kernel("spectrogram", (x,), (w,), (out,)), Context(load_target("cuda-sm80")))
    assert s is not None
    counted = accesses(finish(lower(s)))
    assert counted.fragments
    assert counted.conflicts == 0
    assert counted.coalesced > 0.8 * counted.accesses


@settings(max_examples=20 * MORE, deadline=None, derandomize=MORE == 1, database=None)
@example(layer=(12, 12, 3, 24, 3, 2), images=4)
@example(layer=(5, 7, 3, 16, 5, 2), images=3)
@given(
    layer=st.tuples(
        st.integers(2, 12), st.integers(2, 12), CHANNELS, CHANNELS, st.sampled_from([1, 2, 3, 5]), st.integers(1, 2)
    ),
    images=st.integers(2, 4),
)
def test_half_convolutions_of_any_size(layer: Layer, images: int) -> None:
    """What windows of tiles slide over that reach into the next image of a batch fits into shared memory."""
    s = propose(half_convolution(layer, images), Context(load_target("cuda-sm80")))
    assert s is not None
    finish(lower(s))


@settings(max_examples=40 * MORE, deadline=None, derandomize=MORE == 1, database=None)
@example(layer=(3, 2, 12, 12, 3, 2), images=3, target="opencl")
@example(layer=(8, 6, 2, 6, 5, 3), images=3, target="cuda-sm80")
@given(
    layer=st.tuples(
        st.integers(1, 9), st.integers(1, 9), CHANNELS, CHANNELS, st.sampled_from([1, 2, 3, 5]), st.integers(1, 3)
    ),
    images=st.integers(1, 3),
    target=st.sampled_from(["opencl", "cuda-sm80"]),
)
def test_convolutions_of_any_size(layer: Layer, images: int, target: str) -> None:
    """Their schedules are legal, and their programs proved."""
    s = propose(convolution(layer, images), Context(load_target(target)))
    assert s is not None
    finish(lower(s))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("columns", [32, 100, 512])
def test_products_with_a_vector(columns: int, dtype: str) -> None:
    """Threads store sums of as many neighbouring columns as they read at once, which are longer than an access."""
    s = propose(times_vector(columns, 784, dtype, turned=True), Context(load_target("cuda-sm80")))
    assert s is not None
    assert accesses(finish(lower(s))).conflicts == 0


@pytest.mark.parametrize("columns", [16, 24, 32, 40, 64, 80, 128])
def test_attention(columns: int) -> None:
    for sizes in ((2, 64, 64, columns), (1, 33, 37, 20)):
        assert found(attention(*sizes, columns)).conflicts == 0


def test_windows_that_advance_by_several_leave_no_gaps() -> None:
    """What comes to shared memory for a tap is what it reads: an element for each row of a tile."""
    one, two = (found(convolution((16, 16, 16, 64, 3, stride))) for stride in (1, 2))
    assert two.requested_bytes < 1.1 * one.requested_bytes
    assert two.shared_bytes == one.shared_bytes


@pytest.mark.family("opencl")
@pytest.mark.parametrize(
    ("layer", "images"),
    [
        ((9, 5, 12, 4, 3, 2), 1),
        ((5, 6, 8, 10, 2, 2), 2),
        ((4, 19, 5, 8, 2, 1), 1),
        ((3, 3, 17, 20, 2, 3), 1),
        ((3, 2, 12, 12, 3, 2), 3),
    ],
    ids=["both", "folded", "outermost", "small", "planes that are apart by themselves"],
)
def test_results(layer: Layer, images: int, device: opencl_host.Device) -> None:
    compare(scheduled(convolution(layer, images)), device, orders=2)


@pytest.mark.family("opencl")
@pytest.mark.parametrize(("m", "n", "depth"), [(33, 2, 20), (40, 8, 13), (17, 12, 18), (41, 16, 8), (33, 64, 69)])
def test_results_of_few_columns(m: int, n: int, depth: int, device: opencl_host.Device) -> None:
    s = scheduled(matmul(m, n, depth))
    assert any(step.primitive == "permute" for step in s.steps)
    compare(s, device, orders=2)


@pytest.mark.parametrize("apart", [32, 33, 64])
def test_vectors_that_do_not_lie_side_by_side_are_stored_lane_by_lane(apart: int) -> None:
    """Lane n of thread t at t + n * apart: all threads store a lane at once, in different banks."""
    buffer = P.dense_buffer("s", "int32", (as_int(4 * 64 + 32),), SHARED)

    def body(x: P.Buffer, _y: P.Buffer, base: Int) -> P.Stmt:
        def thread(t: Int) -> P.Stmt:
            return P.Store(buffer, t, P.Broadcast("int32", lanes=4, a=load(x, base + t)), stride=apart)

        return P.seq(P.Alloc(buffer), over_threads(32, thread))

    counted = accesses(function(32, body))
    assert counted.shared_accesses == pytest.approx(4 * TASKS)
    assert counted.conflicts == 0
