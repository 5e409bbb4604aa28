"""Ranges, scales and rounding: what must hold for every distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sterna.ir import dtypes
from sterna.quantize.calibration import BINS, Extremes, Histogram, Range, entropy, percentile
from sterna.quantize.numbers import activation_scale, rounded_bias, rounded_weight, spread, weight_scales

QUICK = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
FEW = settings(QUICK, max_examples=12)
FLOATS = st.floats(-1e4, 1e4, width=32)
VALUES = arrays.arrays(np.float32, st.integers(1, 400), elements=FLOATS)
TYPES = st.sampled_from(["uint8", "int8"])


def extremes(*samples: np.ndarray) -> Range:
    one = Extremes()
    for array in samples:
        one.add(array)
    return one.range


def histogram(*samples: np.ndarray) -> Histogram:
    made = Histogram(extremes(*samples))
    for array in samples:
        made.add(array)
    return made


def tailed(count: int = 60_000, seed: int = 0) -> np.ndarray:
    """A bell with a few elements far out."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(count)
    x[:5] *= 40
    return x.astype(np.float32)


@QUICK
@given(VALUES, VALUES)
def test_the_range_of_extremes_holds_all_and_zero(a: np.ndarray, b: np.ndarray) -> None:
    both = extremes(a, b)
    assert both.low <= min(a.min(), b.min(), 0) <= max(a.max(), b.max(), 0) <= both.high
    assert both == extremes(b, a) == extremes(a).joined(extremes(b))


@QUICK
@given(VALUES)
def test_a_histogram_counts_every_element_once(a: np.ndarray) -> None:
    made = histogram(a)
    assume(made.range.width > 0)
    assert made.counts.sum() == a.size
    assert made.counts.size == BINS


@QUICK
@given(VALUES, st.floats(51, 100), st.floats(51, 100))
def test_percentiles_are_nested_and_end_at_the_extremes(a: np.ndarray, p: float, q: float) -> None:
    made = histogram(a)
    whole, less, more = made.range, percentile(made, min(p, q)), percentile(made, max(p, q))
    assert percentile(made, 100) == whole
    assert whole.low <= more.low <= less.low <= 0 <= less.high <= more.high <= whole.high


@FEW
@given(st.integers(0, 50), st.sampled_from([99.0, 99.9]))
def test_a_percentile_leaves_out_as_many_as_it_says(seed: int, percent: float) -> None:
    a = tailed(seed=seed)
    range = percentile(histogram(a), percent)
    beyond = np.mean((a < range.low) | (a > range.high))
    bin = histogram(a).range.width / BINS
    wider = np.mean((a < range.low + bin) | (a > range.high - bin))
    assert beyond <= (100 - percent) / 100 + 1e-9 <= wider + 2e-4


def test_entropy_cuts_off_what_is_rare_and_far() -> None:
    a = tailed()
    whole, range = extremes(a), entropy(histogram(a))
    assert range.high < 0.5 * whole.high
    assert np.mean((a < range.low) | (a > range.high)) < 1e-3
    steps = [activation_scale(r, "uint8") for r in (whole, range)]
    errors = [np.square(np.clip(np.round(a / s.scale), -s.zero, 255 - s.zero) * s.scale - a)[5:].mean() for s in steps]
    assert errors[1] < 0.2 * errors[0]


def test_entropy_keeps_what_is_even_and_what_is_few() -> None:
    random = np.random.default_rng(1)
    even = random.uniform(-1, 1, 200_000).astype(np.float32)
    range = entropy(histogram(even))
    assert (range.low, range.high) == pytest.approx((-1, 1), abs=0.02)
    few = tailed(1000)
    assert entropy(histogram(few)) == extremes(few)
    nothing = np.zeros(10, np.float32)
    assert entropy(histogram(nothing)) == percentile(histogram(nothing), 99) == Range(0.0, 0.0)


@FEW
@given(st.integers(0, 20), st.sampled_from([0.001, 0.5, 3.0, 4096.0]), st.sampled_from(["percentile", "entropy"]))
def test_ranges_follow_the_scale_of_the_data(seed: int, factor: float, method: str) -> None:
    a = np.maximum(tailed(seed=seed), 0 if seed % 2 else -np.inf).astype(np.float32)
    choose = entropy if method == "entropy" else lambda h: percentile(h, 99.9)
    one, other = choose(histogram(a)), choose(histogram(a * np.float32(factor)))
    width = extremes(a).width / BINS * 17  # a step of the ranges that are tried
    assert (other.low / factor, other.high / factor) == pytest.approx((one.low, one.high), abs=width)


@QUICK
@given(FLOATS, FLOATS, TYPES)
def test_zero_is_exact_and_nothing_is_off_by_more_than_half_a_step(a: float, b: float, dtype: str) -> None:
    range = Range.of(min(a, b), max(a, b))
    made = activation_scale(range, dtype)
    low, high = dtypes.limits(dtype)
    assert low <= made.zero <= high
    assert made.range.low <= 0 <= made.range.high
    assume(range.width > 1e-30)
    x = np.linspace(range.low, range.high, 501)
    back = (np.clip(np.round(x / made.scale) + made.zero, low, high) - made.zero) * float(made.scale)
    # The zero point is rounded too: at the ends up to a whole step.
    assert np.abs(back - x).max() <= 1.001 * float(made.scale)
    inside = (x > range.low + made.scale) & (x < range.high - made.scale)
    assert np.abs((back - x)[inside]).max(initial=0) <= 0.5001 * float(made.scale)


@QUICK
@given(st.floats(2.0**-20, 2.0**20, width=32), TYPES)
def test_the_scale_behind_a_rectifier_does_its_work(high: float, dtype: str) -> None:
    made = activation_scale(Range(0.0, high), dtype)
    assert made.zero == dtypes.limits(dtype)[0]
    assert made.range.low == 0
    assert high * (1 - 1e-6) <= made.range.high <= high


@QUICK
@given(
    arrays.arrays(np.float32, (5, 3, 2), elements=st.floats(-100, 100, width=32)),
    st.sampled_from([0, 1, 2, None]),
    st.floats(1e-6, 100.0),
)
def test_weights_are_symmetric_and_right_to_half_a_step(weight: np.ndarray, axis: int | None, x_scale: float) -> None:
    scales = weight_scales(weight, axis, None, np.float32(x_scale))
    q = rounded_weight(weight, scales, axis)
    assert q.dtype == np.int8
    assert q.min() >= -127
    assert scales.size == (1 if axis is None else weight.shape[axis])
    steps = spread(scales, 3, axis)
    assert (np.abs(q * steps - weight) <= 0.501 * steps).all()
    assert (rounded_weight(-weight, scales, axis) == -q).all()


@QUICK
@given(st.floats(1e-7, 10.0), arrays.arrays(np.float32, 4, elements=st.floats(-1e6, 1e6, width=32)))
def test_a_bias_never_leaves_int32(x_scale: float, bias: np.ndarray) -> None:
    weight = np.full((4, 2), 1e-5, np.float32)
    weight[0] = 0
    scales = weight_scales(weight, 0, bias, np.float32(x_scale))
    q = rounded_bias(bias, scales.astype(np.float64) * x_scale)
    assert np.abs(q.astype(np.int64)).max() <= (1 << 30) + 128
    assert q * (scales.astype(np.float64) * x_scale) == pytest.approx(bias, rel=1e-6, abs=float(scales.max()) * x_scale)
