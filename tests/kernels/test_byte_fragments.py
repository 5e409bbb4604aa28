"""Products of bytes by fragments of matrices: equal to the last bit to what tensor expressions say, of any size, order
and sign, by the interpreter and CUDA's text; and what is left to dot products of words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.choices import Trace
from sterna.codegen import ptx
from sterna.codegen.generators import KernelSet
from sterna.intrinsics import FRAGMENTS
from sterna.ir.integer import Int
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support.bound_axes import compare
from support.dot_products import arrays, product
from support.fragment_products import with_fragments

BYTES = ("int8", "uint8")


def of_two(
    m: int, n: int, depth: int, orders: tuple[str, str] = ("row", "row"), batch: int = 0, dtype: str = "int8"
) -> Kernel:
    """Products of two computed matrices of bytes; one that lies by columns has its dimensions the other way round."""
    lead = (batch,) if batch else ()
    x = placeholder("x", (*lead, m, depth) if orders[0] == "row" else (*lead, depth, m), dtype)
    w = placeholder("w", (*lead, depth, n) if orders[1] == "row" else (*lead, n, depth), dtype)
    k = reduce_axis("k", depth)

    def element(*at: Int) -> E.Expr:
        *z, i, j = at
        left = x[(*z, i, k.var) if orders[0] == "row" else (*z, k.var, i)]
        right = w[(*z, k.var, j) if orders[1] == "row" else (*z, j, k.var)]
        return total(E.cast(left, "int32") * E.cast(right, "int32"), k)

    out = compute("out", (*lead, m, n), element, axes=(*("z" for _ in lead), "i", "j"))
    return Kernel("product", (x, w), (), (out,))


def convolution(size: int, channels: int, outputs: int, taps: int, stride: int) -> Kernel:
    """With what follows in quantized networks: a bias, a scale, zero points, and bytes as a result."""
    length = (size - 1) * stride + taps
    x, w = (
        placeholder("x", (length, length, channels), "int8"),
        placeholder("w", (taps, taps, channels, outputs), "int8"),
    )
    b, kh, kw, c = placeholder("b", (outputs,), "int32"), *map(reduce_axis, ("kh", "kw", "c"), (taps, taps, channels))

    def element(h: Int, v: Int, o: Int) -> E.Expr:
        left = x[h * stride + kh.var, v * stride + kw.var, c.var]
        return total(E.cast(left, "int32") * E.cast(w[kh.var, kw.var, c.var, o], "int32"), kh, kw, c)

    def scaled(h: Int, v: Int, o: Int) -> E.Expr:
        value = E.cast(acc[h, v, o] + b[o], "float32") * 0.0078125
        return E.cast(E.maximum(E.minimum(value, 127.0), -128.0), "int8")

    acc = compute("acc", (size, size, outputs), element, axes=("h", "v", "o"))
    return Kernel("convolution", (x,), (w, b), (compute("out", (size, size, outputs), scaled),))


def first_layer(size: int, outputs: int, taps: int, stride: int) -> Kernel:
    """A convolution of three channels as it is computed: channels lie along the rows of the image."""
    length = (size - 1) * stride + taps
    x, w = placeholder("x", (length, 3 * length), "int8"), placeholder("w", (taps, 3 * taps, outputs), "int8")
    kh, k = reduce_axis("kh", taps), reduce_axis("k", 3 * taps)

    def element(h: Int, v: Int, o: Int) -> E.Expr:
        left = x[h * stride + kh.var, v * 3 * stride + k.var]
        return total(E.cast(left, "int32") * E.cast(w[kh.var, k.var, o], "int32"), kh, k)

    return Kernel("first", (x,), (w,), (compute("acc", (size, size, outputs), element, axes=("h", "v", "o")),))


def proposed(kernel: Kernel, target: str = "cuda", device: bool = False) -> Schedule:
    """By the strategy; for any device that has the fragments, or for the target's own."""
    found = load_target(target)
    s = propose(kernel, Context(found if device else replace(found, device=None)))
    assert s is not None
    return s


def uses_fragments(s: Schedule) -> bool:
    return with_fragments(finish(lower(s)).body)


KERNELS = {
    "rows": product(40, 33, 64, "int8"),
    "a tail": product(20, 24, 50, "int8"),
    "without signs": product(33, 17, 32, "uint8", "uint8"),
    "computed on both sides": of_two(16, 40, 32),
    "columns on the right": of_two(16, 70, 32, ("row", "col"), dtype="uint8"),
    "turned left": of_two(40, 16, 16, ("col", "row")),
    "batches of odd depth": of_two(9, 9, 9, ("col", "col"), batch=2),
    "a batch of one, turned": of_two(9, 9, 16, ("col", "row"), batch=1),
    "channels are the depth": convolution(5, 16, 24, 3, 1),
    "few channels": convolution(6, 3, 16, 3, 2),
    "a first layer": first_layer(6, 16, 3, 2),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_products(kernel: Kernel, tmp_path: Path) -> None:
    s = proposed(kernel)
    assert uses_fragments(s)
    compare(s, None, tmp_path, tolerance=0, orders=2, feeds=arrays(kernel, 3))


@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(
    *(st.integers(8, 70) for _ in range(3)),
    st.sampled_from(["row", "col"]),
    st.sampled_from(["row", "col"]),
    st.integers(0, 2),
    st.sampled_from(BYTES),
)
def test_any_size_of_two(m: int, n: int, depth: int, left: str, right: str, batch: int, dtype: str) -> None:
    kernel = of_two(m, n, depth, (left, right), batch, dtype)
    s = proposed(kernel, "cuda-sm80")
    assert uses_fragments(s)
    compare(s, None, tolerance=0, orders=2, feeds=arrays(kernel, depth))


@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(st.integers(3, 7), st.integers(1, 48), st.integers(8, 40), st.integers(1, 3), st.integers(1, 2))
def test_any_convolution(size: int, channels: int, outputs: int, taps: int, stride: int) -> None:
    kernel = convolution(size, channels, outputs, taps, stride)
    s = proposed(kernel, "cuda-sm80")
    assert uses_fragments(s) == (channels * taps * taps >= 8)
    compare(s, None, tolerance=0, orders=2, feeds=arrays(kernel, channels))


def test_sums_wrap_as_on_processors() -> None:
    """Not saturated: the greatest products add up to more than 31 bits, which the bias takes back."""
    kernel = product(16, 16, 1 << 16, "uint8", "uint8")
    given = {"x": np.full((16, 1 << 16), 255, np.uint8), "w": np.full((1 << 16, 16), 255, np.uint8)}
    given["b"] = np.full(16, np.iinfo(np.int32).min, np.int32)
    compare(proposed(kernel), None, tolerance=0, orders=1, feeds=given)


@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_wait_for_no_bank(taps: int, stride: int) -> None:
    for size, channels, outputs in ((14, 16, 16), (7, 64, 16), (9, 24, 40), (16, 32, 64), (28, 144, 32), (8, 3, 24)):
        if channels * taps * taps < 8:
            continue
        found = accesses(finish(lower(proposed(convolution(size, channels, outputs, taps, stride)))))
        assert found.conflicts == 0, (size, channels, outputs)
        # Windows over few channels that advance by two leave every second part of a sector of memory out.
        if channels % 32 == 0 or (stride == 1 and channels in (3, 16)):
            assert found.coalesced >= 0.95 * found.accesses, (size, channels, outputs)


@pytest.mark.parametrize("depth", [16, 24, 48, 70, 80, 128])
def test_products_wait_for_no_bank(depth: int) -> None:
    for columns in (9, 16, 24, 48, 160):
        kernels = [product(96, columns, depth, "int8")]
        kernels += [of_two(96, columns, depth, (left, right)) for left in ("row", "col") for right in ("row", "col")]
        for kernel in kernels[: None if depth in (48, 128) else 1]:
            assert accesses(finish(lower(proposed(kernel)))).conflicts == 0, columns


@pytest.mark.parametrize("layer", [(28, 16, 3, 2), (37, 64, 7, 2), (32, 24, 6, 2)])
def test_first_layers(layer: tuple[int, int, int, int]) -> None:
    found = accesses(finish(lower(proposed(first_layer(*layer)))))
    assert found.conflicts == 0
    assert found.coalesced >= 0.95 * found.accesses


def test_few_barriers_and_wide_accesses() -> None:
    """Weights are packed so that their terms lie side by side, and all that tasks bring comes 16 bytes at a time."""
    s = proposed(product(512, 512, 512, "int8"), "cuda-sm80")
    assert [step.primitive for step in s.steps].count("pack") == 1
    found = accesses(finish(lower(s)), widths=ptx.widths(load_target("cuda-sm80")))
    assert found.fragments == 512 * 512 * 512
    assert found.coalesced == found.accesses
    assert found.wide_bytes == found.bytes
    assert found.bytes == 64 * 2 * 64 * 512 + 2 * 4 * 512 * 512
    assert found.conflicts == 0


def test_one_step_needs_no_second_buffer() -> None:
    once, twice = (proposed(product(64, 64, depth, "int8")) for depth in (64, 128))
    assert not any(step.primitive == "pipeline" for step in once.steps)
    assert any(step.primitive == "pipeline" for step in twice.steps)


@pytest.mark.parametrize("name", [n for n in FRAGMENTS if FRAGMENTS[n].dtype == "int32"])
def test_every_intrinsic_in_ptx(name: str) -> None:
    intrinsic = FRAGMENTS[name]
    left, right = intrinsic.settings["orders"]
    word = intrinsic.settings["type"]
    s = proposed(of_two(32, 32, 32, (left, right), dtype=intrinsic.operands[0]))
    text = ptx.source(KernelSet("model", [finish(lower(s))], [()]), load_target("cuda"))
    assert f"wmma.mma.sync.aligned.{left}.{right}.m16n16k16.s32.{word}.{word}.s32" in text
    assert f"wmma.load.a.sync.aligned.{left}.m16n16k16.shared.{word}" in text
    assert f"wmma.load.b.sync.aligned.{right}.m16n16k16.shared.{word}" in text
    assert "wmma.store.d.sync.aligned.row.m16n16k16.shared.s32" in text


# ---------------------------------------------------------------- the choice
def form_of(kernel: Kernel, target: str) -> str:
    """ "fragments", "dots" or neither, as the strategy proposes for a target's device."""
    program = finish(lower(proposed(kernel, target, device=True)))
    if with_fragments(program.body):
        return "fragments"
    return "dots" if accesses(program).dots else ""


def test_the_rates_of_a_target_choose() -> None:
    """A fragment of which an eighth is of use still is sooner where fragments are eight times as fast as words."""
    assert form_of(product(64, 64, 64, "int8"), "cuda") == "fragments"
    small = product(8, 8, 24, "int8")  # 3/16 of each fragment
    assert form_of(small, "cuda") == "dots"  # which multiplies 65 and 16 per picosecond
    assert form_of(small, "cuda-sm80") == "fragments"  # 312 and 38
    assert form_of(product(64, 64, 64, "int8"), "opencl") == "dots"


def test_signs_that_differ_are_left_to_words() -> None:
    assert form_of(product(64, 64, 64, "uint8"), "cuda") == "dots"


def test_few_rows() -> None:
    assert form_of(product(7, 64, 64, "int8"), "cuda") == ""


def choosing(form: str) -> Trace:
    return Trace(lambda knob: form if knob.name == "form" else knob.default)


def test_the_tuner_may_choose_either() -> None:
    kernel, target = product(64, 64, 64, "int8"), load_target("cuda")
    trace = Trace()
    assert propose(kernel, Context(target, chooser=trace)) is not None
    (form,) = (knob for knob in trace.knobs if knob.name == "form")
    assert {"fragments", "tiles"} <= {*form.values}
    s = propose(kernel, Context(target, chooser=choosing("tiles")))
    assert s is not None
    assert not uses_fragments(s)
    assert accesses(finish(lower(s))).dots
    few = product(8, 8, 24, "int8")
    s = propose(few, Context(target, chooser=choosing("fragments")))
    assert s is not None
    assert uses_fragments(s)
