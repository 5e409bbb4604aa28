"""What can be shown of positions whose dimensions are open, and what must not be."""

from __future__ import annotations

import itertools

import pytest

from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import Int, Symbol, as_int, of
from sterna.loops import prove
from sterna.loops.combination import is_combination
from sterna.loops.prove import Range, at_least_zero

N, M = Symbol("n", 1, 40), Symbol("m", 1, 40)
n, m = of(N), of(M)
i, j = Symbol("i", 0, 39), Symbol("j", 0, 39)


def test_a_row_ends_where_the_next_begins() -> None:
    ranges = {i: Range(Int({}, 0), n - 1), j: Range(Int({}, 0), m - 1)}
    assert at_least_zero(n * m - 1 - (of(i) * m + of(j)), ranges)
    assert not at_least_zero(n * m - 2 - (of(i) * m + of(j)), ranges)


@pytest.mark.parametrize("shift", [-2, -1, 3])
def test_rows_whose_length_is_computed(shift: int) -> None:
    """As what a convolution leaves of an open length is: in a product it is a sum of two."""
    length = (n + 50) // 4 + shift
    ranges = {i: Range(Int({}, 0), m * 4 - 1), j: Range(Int({}, 0), as_int(9))}
    row, known = (of(j) * 8 + 3) * 36, [length - 1 - (of(j) * 8 + 3)]
    size, end = m * 4 * length * 36, of(i) * length * 36 + row + 35
    assert at_least_zero(size - 1 - end, ranges, known)
    assert at_least_zero(of(i) * length * 36 + row, ranges, known)
    assert not at_least_zero(size - 2 - end, ranges, known)
    assert not at_least_zero(size - 1 - end, ranges)


@pytest.mark.parametrize("factor", [8, 12, 14])
def test_parts_of_a_tail_stay_within_the_axis(factor: int) -> None:
    size = 4
    left = n % factor % (2 * size)
    start = n // factor * factor + n % factor // (2 * size) * (2 * size)
    assert at_least_zero(n - start - size, {}, [left - size])
    assert not at_least_zero(n - start - size, {})
    assert not at_least_zero(n - start - size - 1, {}, [left - size])
    # In a row of a matrix, the same times the length of what lies beyond it.
    ranges = {i: Range(Int({}, 0), m - 1)}
    assert at_least_zero(m * n * 3 - (of(i) * n + start + size) * 3, ranges, [left - size])


def test_the_quotient_of_a_fused_axis_is_rounded() -> None:
    k = Symbol("k", 0, 479)
    ranges = {k: Range(Int({}, 0), n * 12 - 1)}
    assert at_least_zero(n - 1 - of(k) // 12, ranges)
    assert not at_least_zero(n - 2 - of(k) // 12, ranges)


def test_a_quotient_ends_where_a_condition_says() -> None:
    """Rows of five of a tail of 37 lanes, of which j has 32 side by side: the whole is (32 i + j + 128) // 5 rows."""
    ranges = {i: Range(Int({}, 0), as_int(3)), j: Range(Int({}, 0), as_int(31))}
    lane = of(i) * 32 + of(j)
    assert at_least_zero(32 - (lane + 128) // 5, ranges, [36 - lane])
    assert at_least_zero(164 - (lane + 128) // 5 * 5 - (lane + 128) % 5, ranges, [36 - lane])
    assert at_least_zero((lane + 128) // 5 - 27, ranges, [lane - 8])
    # Threes of rows of sixteen: quotients of quotients.
    assert at_least_zero(1 - (of(i) * 2 + of(j) // 16 + 2) // 3, ranges, [47 - lane])
    assert not at_least_zero(-((of(i) * 2 + of(j) // 16 + 2) // 3), ranges, [47 - lane])
    assert not at_least_zero(32 - (lane + 128) // 5, ranges)
    assert not at_least_zero(31 - (lane + 128) // 5, ranges, [36 - lane])
    assert not at_least_zero((lane + 128) // 5 - 28, ranges, [lane - 8])


def test_quotients_of_one_integer_are_compared() -> None:
    assert at_least_zero((n + 1) // 2 - (n + 1) // 4 * 2, {})
    assert at_least_zero((n + 3) // 4 * 2 - n // 2, {})
    assert not at_least_zero((n + 1) // 4 * 2 - (n + 1) // 2, {})
    assert at_least_zero((n + 1) // 4 - 4, {}, [(n + 1) // 16 - 1])


def test_a_loop_that_is_entered_runs() -> None:
    # i < n // 16 means that n is at least 16.
    assert at_least_zero(n - 16, {i: Range(Int({}, 0), n // 16 - 1)})


def test_both_cases_of_a_minimum() -> None:
    assert at_least_zero(n - minimum(n, m), {})
    assert at_least_zero(maximum(n, m) + 1 - m, {})
    assert not at_least_zero(minimum(n, m) - m, {})


def test_dimensions_are_not_0_where_a_loop_over_them_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever operand a minimum is need not be tried then."""
    monkeypatch.setattr(prove, "_MOST_CASES", 0)
    size, tile = of(Symbol("size", 0, 40)), Symbol("tile", 0, 1)
    value = size - 1 - maximum(size - 1, 0)
    assert at_least_zero(value, {tile: Range(Int({}, 0), (size + 31) // 32 * n - 1)})
    assert at_least_zero(value, {}, [size - 1])
    assert not at_least_zero(value, {tile: Range(Int({}, 0), (size + 32) // 32 - 1)})
    assert not at_least_zero(value, {}, [size])


def test_what_is_shown_is_true() -> None:
    """All small differences of quotients: nothing is shown that a number contradicts."""
    shown = 0
    sizes = (1, 2, 3, 4, 6)
    for a, b, c, shift in itertools.product(sizes, sizes, (1, 2, 3), (-2, -1, 0, 1)):
        value = (n + 1) // a * c - n // b + shift
        truth = all(value.evaluate(lambda atom, x=x: x) >= 0 for x in range(1, 41))
        if at_least_zero(value, {}):
            shown += 1
            assert truth, value
    assert shown > 50


def test_weights_are_exact() -> None:
    """Thirds and fifths, of pivots that follow one another."""
    i, j, k = (of(Symbol(name, 0, 9)) for name in "ijk")
    facts = [i * 3 - j * 2, j * 5 - k * 3, k * 7 - 4]
    assert is_combination(i * 35 - 8, facts)
    assert not is_combination(i * 35 - 9, facts)
    assert not is_combination(i * 35 - 8, facts[1:])


def test_what_conditions_show_is_true() -> None:
    """Lanes of a tail, in rows and in groups of rows: just so far as they go."""
    ranges = {i: Range(Int({}, 0), as_int(3)), j: Range(Int({}, 0), as_int(7))}
    lane, shown = of(i) * 8 + of(j), 0
    for tail, row, group, before in itertools.product((5, 8, 13, 24), (3, 4, 8), (1, 3), (0, 16)):
        place = ((lane + before) // row + 2) // group
        last = max(place.evaluate({i: a, j: b}.__getitem__) for a in range(4) for b in range(8) if 8 * a + b < tail)
        shown += at_least_zero(last - place, ranges, [tail - 1 - lane])
        assert not at_least_zero(last - 1 - place, ranges, [tail - 1 - lane])
    assert shown == 48


def test_combinations_need_weights_that_are_not_negative() -> None:
    assert is_combination(n * 2 + m, [n - 3, m])
    assert is_combination(n * m - m * 3, [n - 3])
    assert not is_combination(m - n, [n - 3])


@pytest.mark.parametrize("named", [False, True], ids=["remainder", "name"])
def test_remainders_beside_kept_positions(named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pixels of a row that tiles reach beyond, and channels that are counted through with taps; without what follows
    from facts, which takes long."""
    monkeypatch.setattr(prove, "_relaxed", lambda *_: pytest.fail("it is looked for in what follows"))
    tap, channel = of(i) % 7, of(j) % 3
    ranges = {i: Range(Int({}, 0), as_int(39)), j: Range(Int({}, 0), as_int(39))}
    if named:
        c = Symbol("c", 1, 5)
        ranges[c] = Range(channel * 2 + 1, channel * 2 + 1)
        channel = of(c)
    most = 5 if named else 2
    pixel = maximum(minimum(of(i) * 2 + tap - 3, n - 1), 0)
    assert at_least_zero(n * (most + 1) - 1 - pixel * (most + 1) - channel, ranges)
    monkeypatch.undo()
    assert not at_least_zero(n * (most + 1) - 2 - pixel * (most + 1) - channel, ranges)


def test_names_that_a_condition_narrows(monkeypatch: pytest.MonkeyPatch) -> None:
    """One has an end that depends on what the condition is about; it is within its own bounds, too."""
    monkeypatch.setattr(prove, "_relaxed", lambda *_: pytest.fail("it is looked for in what follows"))
    c = Symbol("c", 0, 2)
    ranges = {i: Range(Int({}, 0), as_int(39)), j: Range(Int({}, 0), as_int(39))}
    ranges[c] = Range(Int({}, 0), of(j) % 3 + (38 - of(i)))
    pixel = minimum(of(i) * 2, n - 1)
    assert at_least_zero(n * 3 - 1 - pixel * 3 - of(c), ranges, [38 - of(i)])
    monkeypatch.undo()
    assert not at_least_zero(n * 3 - 2 - pixel * 3 - of(c), ranges, [38 - of(i)])
