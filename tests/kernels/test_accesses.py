"""What kernels ask of memory, counted from loop programs, beside counts of every access that a program makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.api import options_of
from sterna.cli import program
from sterna.debug.roofline import roofline
from sterna.errors import SternaError
from sterna.ir.integer import Int, Symbol, as_int, of
from sterna.ir.memory import BANKS, INPUT, OUTPUT, SECTOR, Memory
from sterna.loops import program as P
from sterna.loops.accesses import SUBGROUP, accesses
from sterna.loops.cached import behind_cache
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.te import expr as E
from support.convolutions import network
from support.opencl_host import opencl_target
from support.small_kernels import matmul
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


#: Tasks of the programs below.
MANY = 40


def reading(threads: int, at: Callable[[Int, Int], Int], elements: int) -> P.Function:
    """Thread t of a task copies x[at(task, t)] to its own element of y."""
    x = P.dense_buffer("x", "float32", (as_int(elements),), INPUT)
    y = P.dense_buffer("y", "float32", (as_int(MANY * threads),), OUTPUT)
    number = Symbol("task", 0, MANY - 1)
    task = of(number)
    copied = over_threads(threads, lambda t: P.Store(y, task * threads + t, load(x, at(task, t))))
    body = P.For(number, as_int(MANY), "parallel", copied)
    return P.Function("reading", (x,), (), (y,), as_int(MANY), 0, body)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(threads=st.sampled_from((1, 8, 48)), apart=st.integers(0, 60), stride=st.integers(0, 9))
def test_sectors_that_groups_touch(threads: int, apart: int, stride: int) -> None:
    """Exactly those that any thread of any group touches, each once where the cache holds all of them."""
    elements = MANY * apart + threads * 9 + 1
    program = reading(threads, lambda task, t: task * apart + t * stride, elements)
    touched = {4 * (task * apart + t * stride) // SECTOR for task in range(MANY) for t in range(threads)}
    found = behind_cache(program, 1 << 20, SUBGROUP)
    assert found is not None
    assert found.once[program.inputs[0]] == len(touched) * SECTOR
    assert set(found.again.values()) == {0}


@pytest.mark.parametrize("cache_sectors", [4, 7, 13, 14, 64])
def test_a_cache_forgets_what_was_not_used_for_longest(cache_sectors: int) -> None:
    """Tasks read seven sectors in turns and write one each: what is read again comes again unless as many fit."""
    turns = 7
    program = reading(8, lambda task, t: task % turns * 8 + t, turns * 8)
    found = behind_cache(program, cache_sectors * SECTOR, SUBGROUP)
    assert found is not None
    (x,), (y,) = program.inputs, program.outputs
    assert found.once == {x: turns * SECTOR, y: MANY * SECTOR}
    # Between two reads of a sector, six others are read and seven are written.
    kept = cache_sectors >= 2 * turns
    assert found.again == {x: 0 if kept else (MANY - turns) * SECTOR, y: 0}
    counted = accesses(program, cache_bytes=cache_sectors * SECTOR)
    assert counted.moved_bytes == counted.least_bytes + found.again[x]


@pytest.mark.parametrize(("m", "n", "depth"), [(256, 1024, 512), (1024, 256, 512), (2048, 64, 64)])
def test_groups_run_in_an_order_in_which_the_cache_holds_an_operand(m: int, n: int, depth: int) -> None:
    """Of a product, what is larger than the cache comes from memory once, and the other operand stays."""
    s = propose(matmul(m, n, depth), Context(opencl_target(groups=True)))
    assert s is not None
    found = accesses(finish(lower(s)))
    assert found.moved_bytes <= 1.01 * found.least_bytes


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


def test_of_a_model_that_trades_accuracy(tmp_path: Path) -> None:
    onnx.save(network(), path := tmp_path / "net.onnx")
    for math, least, most in (("exact", 0.0, 0.0), ("fast=0.05", 0.9, 1.0)):
        made = command(path, "--roofline", "--target", "cuda-sm80", "--math", math, "--json")
        totals = json.loads(made.stdout)["totals"]
        assert least <= totals["fragments"] / totals["multiply_adds"] <= most


def test_what_is_refused(tmp_path: Path) -> None:
    for arguments, code, what in (
        ((MODEL, "--roofline", "--target", "host"), "E0203", "--target opencl"),
        ((tmp_path, "--roofline"), "E0002", "give the model"),
        ((MODEL, "--target", "opencl"), "E0002", "add --roofline"),
        ((MODEL, "--math", "fast"), "E0002", "add --roofline"),
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
