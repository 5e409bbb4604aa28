"""Scans and sorts whose rows a group of threads shares: in the interpreter in random orders, against NumPy, and on
PoCL. `tests/targets` runs them in the other languages, as cases of operators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.ir.graph import TensorType, Value, tensor_type
from sterna.ir.integer import as_int, symbol
from sterna.ir.memory import INPUT, OUTPUT, Memory
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.groups import GroupBuilder, ThreadGroup
from sterna.loops.races import verify_threads
from sterna.loops.threads import run_threads
from sterna.ops import operator
from sterna.passes.kernels import Call
from sterna.passes.plan_kernels import realize
from sterna.targets.description import load_target
from support import opencl_host

MEMORY = Memory("shared", "block", bytes=4096, address_space=3)


def shared(op: str, kind: TensorType, attributes: dict[str, object], **group: object) -> P.Function | None:
    """The program of an operator for groups of threads, if it has one."""
    declared = operator(op)
    complete = declared.complete(attributes)
    have = ThreadGroup(**{"most": 32, "subgroup": 1, "memory": MEMORY, "tasks": 64, **group})
    operands = [P.dense_buffer("x", kind.dtype, kind.shape, INPUT)]
    results = [
        P.dense_buffer(f"y{n}", each.dtype, each.shape, OUTPUT, n)
        for n, each in enumerate(declared.types((kind,), complete))
    ]
    return declared.write_shared(operands, complete, results, have)


def written(op: str, x: np.ndarray, attributes: dict[str, object], **group: object) -> P.Function:
    """The same, finished and so proved."""
    program = shared(op, tensor_type(str(x.dtype), x.shape), attributes, **group)
    assert program is not None
    return finish(program)


def memory_of(program: P.Function, x: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": x.reshape(-1).copy()} | {b.name: np.zeros(b.elements, b.dtype) for b in program.outputs}


def computed(program: P.Function, x: np.ndarray) -> dict[str, np.ndarray]:
    memory = memory_of(program, x)
    run_threads(program, memory, order=np.random.default_rng(5))
    return memory


SCANS = {
    "cumulative_sum": np.cumsum,
    "cumulative_product": np.cumprod,
    "cumulative_max": np.maximum.accumulate,
    "cumulative_log_sum": np.logaddexp.accumulate,
}
#: Rows side by side with one part each, and with several; a row by chunks, of which the last is not full; short rows.
SHAPES = [((2, 20, 3), 1), ((70, 5), 0), ((1, 500), 1), ((40, 6), 1)]


def expected_scan(op: str, x: np.ndarray, axis: int, exclusive: bool, reverse: bool) -> np.ndarray:
    wide = np.flip(x, axis) if reverse else x
    found = SCANS[op](wide.astype(np.float64), axis)
    if exclusive:
        nothing = {"cumulative_sum": 0.0, "cumulative_product": 1.0}.get(op, -np.inf)
        found = np.insert(found, 0, nothing, axis).take(range(x.shape[axis]), axis)
    return np.flip(found, axis) if reverse else found


@pytest.mark.parametrize("number", range(len(SHAPES)))
@pytest.mark.parametrize("op", sorted(SCANS))
def test_scans(op: str, number: int) -> None:
    (shape, axis), subgroup = SHAPES[number], (1, 8, 32)[(number + len(op)) % 3]
    x = np.random.default_rng(3).uniform(0.9, 1.1, shape).astype(np.float32)
    ends = subgroup == 8
    program = written(op, x, {"axis": axis, "exclusive": ends, "reverse": ends}, subgroup=subgroup)
    found = computed(program, x)["y0"].reshape(shape)
    np.testing.assert_allclose(found, expected_scan(op, x, axis, ends, ends), rtol=2e-5)


@pytest.mark.parametrize(("shape", "axis"), [((512, 3), 1), ((320, 16), 1), ((64, 20, 4), 1)])
def test_short_rows_are_side_by_side(shape: tuple[int, ...], axis: int) -> None:
    counted = accesses(written("cumulative_sum", np.zeros(shape, np.float32), {"axis": axis}))
    assert counted.coalesced == counted.accesses
    assert counted.requested_bytes <= 1.1 * counted.least_bytes
    assert counted.conflicts <= 0.2 * counted.shared_accesses


def test_running_integers_are_exact_and_exchanged_in_32_bits() -> None:
    x = np.random.default_rng(4).integers(-9, 9, (300,)).astype(np.int16)
    program = written("cumulative_sum", x, {"axis": 0}, subgroup=32)
    assert P.exchanged(program.body) == 32
    assert np.array_equal(computed(program, x)["y0"], np.cumsum(x, dtype=np.int16))


@pytest.mark.parametrize("most", [1, 6, 24])
def test_devices_of_few_threads(most: int) -> None:
    """Also of a number that is no power of two."""
    x = np.random.default_rng(7).integers(-9, 9, (70, 40)).astype(np.float32)
    for axis in (0, 1):
        program = written("cumulative_sum", x, {"axis": axis}, most=most)
        assert np.array_equal(computed(program, x)["y0"].reshape(x.shape), np.cumsum(x, axis))
    memory = replace(MEMORY, bytes=512)
    program = written("top_k", x.reshape(1, -1)[:, :300], {"axis": 1, "k": (5,)}, most=most, memory=memory)
    row = x.reshape(-1)[:300]
    assert np.array_equal(computed(program, row)["y1"], expected_order(row, 0, 5))


def expected_order(x: np.ndarray, axis: int, k: int) -> np.ndarray:
    return np.argsort(-x.astype(np.float64), axis, kind="stable").take(range(k), axis)


@pytest.mark.parametrize(
    ("shape", "axis", "k", "dtype"),
    [
        ((3, 10), 1, 4, "float32"),  # several rows in a group
        ((9, 4, 3), 0, 9, "int8"),  # rows side by side
        ((1, 60), 1, 60, "float32"),
        ((1, 300), 1, 20, "float32"),  # by chunks
        ((40,), 0, 3, "int64"),
    ],
)
def test_sorts(shape: tuple[int, ...], axis: int, k: int, dtype: str) -> None:
    x = np.random.default_rng(6).integers(-20, 20, shape).astype(dtype)
    memory = Memory("shared", "block", bytes=1024, address_space=3)
    program = written("top_k", x, {"axis": axis, "k": (k,)}, memory=memory)
    found = computed(program, x)
    order = expected_order(x, axis, k)
    assert np.array_equal(found["y1"].reshape(order.shape), order)
    assert np.array_equal(found["y0"].reshape(order.shape), np.take_along_axis(x, order, axis))


def without_a_barrier(stmt: P.Stmt, number: int) -> P.Stmt:
    """The program without its n-th barrier."""
    left = [number]

    def kept(s: P.Stmt) -> P.Stmt:
        if isinstance(s, P.Seq):
            return P.seq(*(kept(inner) for inner in s.stmts if not (isinstance(inner, P.Barrier) and gone())))
        return P.map_children(s, kept)

    def gone() -> bool:
        left[0] -= 1
        return left[0] == -1

    return kept(stmt)


def is_refused(program: P.Function) -> bool:
    try:
        verify_threads(program)
    except SternaError as problem:
        return set(problem.codes) == {"E0306"}
    return False


def needless(program: P.Function) -> list[int]:
    """The barriers without which nothing is refused."""
    barriers = range(sum(isinstance(s, P.Barrier) for s in P.walk(program.body)))
    assert len(barriers) > 3
    return [n for n in barriers if not is_refused(replace(program, body=without_a_barrier(program.body, n)))]


@pytest.mark.parametrize(("op", "attributes"), [("cumulative_sum", {"axis": 0}), ("top_k", {"axis": 0, "k": (3,)})])
def test_no_barrier_can_be_left_out(op: str, attributes: dict[str, object]) -> None:
    assert needless(written(op, np.zeros(40, np.float32), attributes)) == []


def test_barriers_around_chunks() -> None:
    """Two are more than are needed: after the last step of the sort and the first of the merge threads go on with the
    pairs that they have compared."""
    memory = replace(MEMORY, bytes=512)
    program = written("top_k", np.zeros(900, np.float32), {"axis": 0, "k": (3,)}, memory=memory)
    assert len(needless(program)) == 2


def test_rows_that_do_not_fit_have_no_program() -> None:
    """Neither open sizes nor rows longer than what is looked at, nor sorts of more than shared memory holds."""
    rows = symbol("rows", 1, 9)
    for op, shape, attributes in [
        ("top_k", (2000,), {"axis": 0, "k": (2000,)}),
        ("top_k", (rows, 20), {"axis": 1, "k": (2,)}),
        ("cumulative_sum", (40000,), {"axis": 0}),
        ("cumulative_sum", (rows, 20), {"axis": 1}),
    ]:
        assert shared(op, tensor_type("float32", shape), attributes) is None


def test_chunks_are_alike() -> None:
    """A row of many chunks is proved by two of them: GPT-2's vocabulary, of which a sampler takes some tokens."""
    written("top_k", np.zeros(50257, np.float32), {"axis": 0, "k": (40,)})


def test_a_program_that_cannot_be_proved_gives_way_to_the_plain_one() -> None:
    x, y = P.dense_buffer("x", "float32", (as_int(40),), INPUT), P.dense_buffer("y", "float32", (as_int(40),), OUTPUT)
    plain = operator("cumulative_sum").write([x], operator("cumulative_sum").complete({"axis": 0}), [y])

    def racing(group: ThreadGroup) -> P.Function:
        p = GroupBuilder("cumulative_sum", [x], [y], group)
        with p.tasks(1, "row"), p.lanes(32) as lane:
            kept = p.shared("kept", "float32", (1,))
            p.put(kept, as_int(0), value=p.at(p.input(0), lane))
            p.put(p.output, lane, value=p.at(kept, as_int(0)))
        return p.function()

    value = Value("x", tensor_type("float32", (40,)))
    call = Call("y", ("y",), plain, (value,), (value,), (), {}, (), "y", shared=racing)
    made = [realize(each, None, load_target("cuda"), "sums") for each in (call, replace(call, shared=None))]
    assert not any(planned.function.has_threads for planned in made)
    assert len({str(planned.function) for planned in made}) == 1


def test_on_pocl(tmp_path_factory: pytest.TempPathFactory) -> None:
    device = opencl_host.Device(tmp_path_factory.mktemp("opencl"))
    rng = np.random.default_rng(8)
    for op, x, attributes in [
        ("cumulative_sum", rng.integers(-9, 9, (700,)).astype(np.float32), {"axis": 0}),
        ("cumulative_max", rng.integers(-9, 9, (2, 40, 3)).astype(np.float32), {"axis": 1, "reverse": True}),
        ("top_k", rng.integers(-9, 9, (3, 20)).astype(np.float32), {"axis": 1, "k": (7,)}),
    ]:
        program = written(op, x, attributes)
        expected, memory = computed(program, x), memory_of(program, x)
        device.run_function(program, memory)
        for buffer in program.outputs:
            assert np.array_equal(memory[buffer.name], expected[buffer.name]), op
