"""What kernels ask of memory, counted from loop programs, beside counts of every access that a program makes."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.api import options_of
from sterna.cli import program
from sterna.debug.roofline import roofline
from sterna.errors import SternaError
from sterna.ir.integer import Int, Symbol, as_int, of
from sterna.ir.memory import INPUT, OUTPUT, Memory
from sterna.loops import program as P
from sterna.loops.accesses import BANKS, SECTOR, SUBGROUP, accesses
from sterna.te import expr as E
from support.thread_programs import TASKS, function, load, over_threads
from support.trained import digits

MODEL = Path(__file__).resolve().parents[2] / "compiler" / "sterna" / "demo" / "digits.onnx"
#: What the threads of a group share, and ordinary pointers do not reach.
SHARED = Memory("shared", "block", bytes=1 << 16, address_space=3)


def sectors(asked: list[int]) -> tuple[int, bool]:
    """Of the bytes that one access of a subgroup asks for: sectors, and whether it is coalesced."""
    own, wanted = len({a // SECTOR for a in asked}), 4 * len(set(asked))
    return own, own <= ceil(wanted / SECTOR) or max(asked) - min(asked) + 4 == wanted


def subgroups(threads: int) -> list[range]:
    return [range(start, min(threads, start + SUBGROUP)) for start in range(0, threads, SUBGROUP)]


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    threads=st.sampled_from((1, 8, 32, 48, 128)),
    stride=st.integers(0, 40),
    first=st.integers(0, 9),
    trips=st.integers(1, 3),
)
def test_accesses_to_memory(threads: int, stride: int, first: int, trips: int) -> None:
    """y[t] = x[t * stride + first], and eight elements on, as often as there are trips."""
    size = as_int(threads * TASKS * 41 + 33)
    x, y = P.dense_buffer("x", "float32", (size,), INPUT), P.dense_buffer("y", "float32", (size,), OUTPUT)

    def body(_x: P.Buffer, _y: P.Buffer, base: Int) -> P.Stmt:
        trip = Symbol("trip", 0, trips - 1)
        moved = over_threads(
            threads, lambda t: P.Store(y, base + t, load(x, (base + t) * stride + of(trip) * 8 + first))
        )
        return P.For(trip, as_int(trips), "serial", moved)

    found = accesses(replace(function(threads, body), inputs=(x,), outputs=(y,)))
    read = write = together = 0
    for task in range(TASKS):
        for group in subgroups(threads):
            numbers = [task * threads + t for t in group]
            asked, kept = sectors([4 * (n * stride + first) for n in numbers])
            written, beside = sectors([4 * n for n in numbers])
            read, write = read + asked * trips, write + written * trips
            together += (kept + beside) * trips
    assert found.requested[x] == pytest.approx(read * SECTOR)
    assert found.requested[y] == pytest.approx(write * SECTOR)
    assert found.accesses == pytest.approx(2 * TASKS * trips * len(subgroups(threads)))
    assert found.coalesced == pytest.approx(together)
    assert (found.groups, found.threads) == (TASKS, threads)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(threads=st.sampled_from((8, 32, 64)), stride=st.integers(0, 40), lanes=st.sampled_from((1, 2, 4)))
def test_banks_of_shared_memory(threads: int, stride: int, lanes: int) -> None:
    """Each thread reads some neighbours, `stride` vectors from those of the next thread."""
    buffer = P.dense_buffer("s", "int32", (as_int(64 * 41 * 4),), SHARED)

    def body(_x: P.Buffer, y: P.Buffer, base: Int) -> P.Stmt:
        def thread(t: Int) -> P.Stmt:
            vector = E.Load("int32", tensor=buffer, indices=(t * (stride * lanes),), lanes=lanes)
            return P.Store(y, base + t, P.Lane("int32", a=vector, lane=0) if lanes > 1 else vector)

        return P.seq(P.Alloc(buffer), over_threads(threads, thread))

    found = accesses(function(threads, body))
    at_once = SUBGROUP // lanes  # threads whose words all banks deliver in a turn
    turns = least = asked = 0
    for start in range(0, threads, at_once):
        words = {t * stride * lanes + n for t in range(start, min(threads, start + at_once)) for n in range(lanes)}
        turns += max(sum(word % BANKS == bank for word in words) for bank in range(BANKS))
        least += ceil(len(words) / BANKS)
        asked += 1
    assert found.shared_accesses == pytest.approx(TASKS * asked)
    assert found.conflicts == pytest.approx(TASKS * (turns - least))
    assert found.shared_bytes == buffer.elements * 4


def test_a_condition_on_threads() -> None:
    """Of 64 threads, 40 store: the second subgroup has eight of them."""

    def body(x: P.Buffer, y: P.Buffer, base: Int) -> P.Stmt:
        return over_threads(64, lambda t: P.If(t, as_int(40), P.Store(y, base + t, load(x, base + t))))

    found = accesses(function(64, body))
    assert found.requested_bytes == 2 * TASKS * (4 + 1) * SECTOR
    assert found.coalesced == found.accesses == 2 * TASKS * 2


def test_the_side_of_a_choice_that_moves_more() -> None:
    def body(x: P.Buffer, y: P.Buffer, base: Int) -> P.Stmt:
        def thread(t: Int) -> P.Stmt:
            far = P.Store(y, base + t, load(x, (base + t) * 8 % 64))
            return P.Branch(load(x, base) < 3, far, P.Store(y, base + t, load(x, base + t)))

        return over_threads(32, thread)

    found = accesses(function(32, body))
    condition = TASKS * SECTOR
    assert sum(found.requested.values()) == condition + TASKS * (8 + 4) * SECTOR


def test_a_cache_holds_what_is_read_again() -> None:
    found = accesses(function(32, lambda x, y, base: over_threads(32, lambda t: P.Store(y, base + t, load(x, t * 0)))))
    (x, y) = sorted(found.least, key=lambda buffer: buffer.name)
    assert found.requested[x] == TASKS * SECTOR
    assert found.moved_bytes(1 << 20) == found.least_bytes
    assert found.moved_bytes(0) == max(found.requested[x], found.least[x]) + found.requested[y]


def command(*arguments: object) -> Result:
    # A terminal that tells its width would get tables of that width.
    return CliRunner(env={"COLUMNS": None}).invoke(program, ["inspect", *map(str, arguments)])


def test_of_a_model() -> None:
    facts = json.loads(command(MODEL, "--roofline", "--json").stdout)
    assert (facts["kind"], facts["target"], facts["elsewhere"]) == ("roofline", "opencl", 0)
    known = json.loads(command(MODEL, "--json").stdout)["totals"]
    assert facts["totals"]["multiply_adds"] == known["multiply_adds"]
    assert facts["totals"]["fragments"] == 0
    own = roofline(digits().file, options_of("opencl"))
    for name, total in facts["totals"].items():
        assert total == own.total(name)
    for kernel in facts["kernels"]:
        assert kernel["least_bytes"] <= kernel["moved_bytes"] <= kernel["requested_bytes"]
        assert 0 <= kernel["coalesced"] <= kernel["accesses"]
    shown = command(MODEL, "--roofline").stdout
    assert all(kernel["name"] in shown for kernel in facts["kernels"])
    assert "0 % on fragments" in shown


def test_what_is_refused(tmp_path: Path) -> None:
    for arguments, code, what in (
        ((MODEL, "--roofline", "--target", "host"), "E0203", "--target opencl"),
        ((tmp_path, "--roofline"), "E0002", "give the model"),
        ((MODEL, "--target", "opencl"), "E0002", "add --roofline"),
        ((MODEL, "--roofline", "--memory"), "E0002", "one of them"),
        ((MODEL, "--roofline", "--sbom"), "E0002", "one of them"),
    ):
        result = command(*arguments)
        assert result.exit_code != 0
        assert code in result.output
        assert what in result.output
    with pytest.raises(SternaError) as caught:
        roofline(MODEL, options_of("cortex-m4"))
    assert caught.value.codes == ("E0203",)
