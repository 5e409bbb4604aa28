"""Hand-written loop programs: the builder, the interpreter, both generators, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.codegen import c, llvm
from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.integer import Symbol, as_int, of
from sterna.ir.memory import INPUT, OUTPUT, Scope
from sterna.loops import program as P
from sterna.loops.build import ProgramBuilder, both, either, equal, negated, number, unflatten
from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.loops.share import share
from sterna.loops.unroll import unroll
from sterna.loops.verify import verify
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import host
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from sterna.toolchain.compilers import compile_c
from sterna.toolchain.link import link_library
from support.kernel_hosts import Native

Arrays = Mapping[str, np.ndarray]


# ---------------------------------------------------------------- programs
def largest(p: ProgramBuilder) -> None:
    """The greatest element of every row, and where it is."""
    x, (best, where) = p.input(0), p.outputs
    with p.tasks(x.shape[0], "row") as row:
        top = p.variable("top", x[row, 0])
        place = p.variable("place", 0, "int32")
        with p.loop(x.shape[1], "n", start=1) as n:
            element = x[row, n]
            with p.when(element > top.value):
                top.set(element)
                place.set(number(n, "int32"))
        best[row] = top.value
        where[row] = place.value


def compact(p: ProgramBuilder) -> None:
    """The positive elements in order, then -1; and how many there are."""
    x, (kept, count) = p.input(0), p.outputs
    n_kept = p.variable("n_kept", 0, "int32")
    with p.loop(x.shape[0]) as i:
        element = x[i]
        with p.when(both(element > 0, n_kept.value < number(kept.shape[0], "int32"))):
            kept[n_kept] = element
            n_kept.add(1)
    count[()] = n_kept.value
    with p.loop(kept.shape[0], start=p.bound(n_kept, kept.shape[0])) as i:
        kept[i] = -1


def collatz(p: ProgramBuilder) -> None:
    """How many steps each number takes to 1, at most 200: a loop that is left early, with branches of two sides."""
    x, steps = p.input(0), p.output
    with p.loop(x.shape[0]) as i:
        value = p.variable("value", x[i])
        taken = p.variable("taken", 0, "int32")
        with p.loop(200, "step"):
            p.leave_if(equal(value.value, 1))
            odd = p.let(equal(E.binary("and", value.value, E.const(1, "int64")), 1))
            with p.when(odd):
                value.set(value.value * 3 + 1)
            with p.otherwise():
                value.set(E.binary("shift_right", value.value, E.const(1, "int64")))
            taken.add(1)
        steps[i] = taken.value


def histogram(p: ProgramBuilder) -> None:
    """Counts by value; what lies outside is counted at the edge, through the guard of the position."""
    x, counts = p.input(0), p.output
    p.fill(counts, 0)
    own = p.array("own", "int32", counts.shape)  # in scratch memory if large
    p.fill(own, 0)
    with p.nest(x.shape) as i:
        slot = p.index(x[i], counts.shape[0])
        own[slot] = own[slot] + 1
    p.copy(counts, own)


def softly(p: ProgramBuilder) -> None:
    """Elementary functions, values that are shared and values that must not be shared across a write."""
    x, y = p.input(0), p.output
    with p.tasks(x.shape[0] * x.shape[1], "n") as n:
        i, j = unflatten(n, x.shape)
        a = p.let(E.unary("exp", x[i, j]) + E.unary("tanh", x[i, j]))
        y[i, j] = a
        again = y[i, j]
        y[i, j] = again * again
        last = y[i, j]
        with p.when(either(last > 4.0, negated(E.compare("ge", last, 0.5)))):
            y[i, j] = E.unary("sigmoid", last)


RANDOM = np.random.default_rng(0)
PROGRAMS: dict[str, tuple[Callable[[ProgramBuilder], None], list[np.ndarray], list[np.ndarray]]] = {
    "largest": (
        largest,
        [RANDOM.standard_normal((5, 7)).astype(np.float32)],
        [np.zeros(5, np.float32), np.zeros(5, np.int32)],
    ),
    "compact": (
        compact,
        [RANDOM.integers(-5, 5, 30).astype(np.int16)],
        [np.zeros(20, np.int16), np.zeros((), np.int32)],
    ),
    "collatz": (collatz, [np.array([1, 2, 27, 97, 6171], np.int64)], [np.zeros(5, np.int32)]),
    "histogram": (histogram, [RANDOM.integers(-3, 300, (4, 50)).astype(np.int64)], [np.zeros(256, np.int32)]),
    "softly": (softly, [RANDOM.uniform(-3, 3, (3, 5)).astype(np.float32)], [np.zeros((3, 5), np.float32)]),
}


def written(name: str) -> tuple[P.Function, dict[str, np.ndarray], list[str]]:
    """(program, memory, names of outputs)."""
    make, inputs, outputs = PROGRAMS[name]
    memory, buffers = {}, []
    for scope, arrays in ((INPUT, inputs), (OUTPUT, outputs)):
        group = []
        for n, array in enumerate(arrays):
            shape = tuple(as_int(size) for size in array.shape)
            buffer = P.dense_buffer(f"{scope.name[0]}{n}", dtypes.from_numpy(array.dtype), shape, scope, n)
            memory[buffer.name] = array.reshape(-1).copy()
            group.append(buffer)
        buffers.append(group)
    program = ProgramBuilder(name, *buffers)
    make(program)
    return program.function(), memory, [b.name for b in buffers[1]]


def interpreted(function: P.Function, memory: Arrays, names: list[str]) -> list[np.ndarray]:
    copies = {name: array.copy() for name, array in memory.items()}
    run_function(function, copies)
    return [copies[name] for name in names]


def expected(name: str) -> list[np.ndarray]:
    """What NumPy says."""
    (x,) = PROGRAMS[name][1]
    if name == "largest":
        return [x.max(1), x.argmax(1).astype(np.int32)]
    if name == "compact":
        kept = x[x > 0][:20]
        return [np.concatenate([kept, np.full(20 - len(kept), -1, x.dtype)]), np.array([len(kept)], np.int32)]
    if name == "histogram":
        return [np.bincount(np.clip(x, 0, 255).reshape(-1), minlength=256).astype(np.int32)]
    if name == "softly":
        y = (np.exp(x) + np.tanh(x)) ** 2
        return [np.where((y > 4) | ~(y >= 0.5), 1 / (1 + np.exp(-y)), y).astype(np.float32).reshape(-1)]
    steps = []
    for value in x.tolist():
        count = 0
        while value != 1 and count < 200:
            value, count = value * 3 + 1 if value % 2 else value // 2, count + 1  # noqa: PLW2901
        steps.append(count)
    return [np.array(steps, np.int32)]


def same(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_interpreter(name: str) -> None:
    function, memory, names = written(name)
    same(interpreted(function, memory, names), expected(name))
    same(interpreted(finish(function), memory, names), expected(name))


PLAIN = replace(host(), dialect="plain", vector_bits=0)  # this machine without vectors


def compiled(functions: list[P.Function], target: Target, generator: str, directory: Path) -> Native:
    if generator == "llvm":
        objects = [llvm.compile_module(functions, target, "m")]
    else:
        objects = [compile_c(c.generate(functions, target, "m"), target)]
    return Native(link_library(objects, target, "m"), directory)


@pytest.mark.parametrize(
    ("generator", "target"),
    [
        pytest.param("c", host(), id="c", marks=pytest.mark.family("host-c")),
        pytest.param("c", PLAIN, id="plain-c", marks=pytest.mark.family("host-c")),
        pytest.param("llvm", host(), id="llvm", marks=pytest.mark.family("host-llvm")),
    ],
)
def test_generators(generator: str, target: Target, tmp_path: Path) -> None:
    names = list(PROGRAMS)
    functions = [replace(finish(written(name)[0]), name=name) for name in names]
    library = compiled(functions, target, generator, tmp_path)
    for n, (name, function) in enumerate(zip(names, functions, strict=True)):
        _, memory, results = written(name)
        inputs, outputs = ([memory[b.name] for b in side] for side in (function.inputs, function.outputs))
        tasks = int(function.n_tasks)
        for part in ((0, tasks // 2), (tasks // 2, tasks)):  # tasks in two parts
            library.call(n, inputs, outputs, part, scratch_bytes=function.scratch_bytes)
        same([memory[n] for n in results], expected(name))


def test_the_text_of_a_program_is_always_the_same() -> None:
    for name in PROGRAMS:
        first, second = (print_function(finish(written(name)[0])) for _ in range(2))
        assert first == second
    text = print_function(finish(written("collatz")[0]))
    assert "leave the loop" in text
    assert "else" in text


def test_names_that_nothing_reads_are_dropped() -> None:
    p = ProgramBuilder("p", [_buffer("x", 4, INPUT)], [_buffer("y", 4, OUTPUT)])
    a = p.input(0)[0]
    _ = a + p.input(0)[p.let(E.cast(a, "int32"))]
    p.output[0] = 1.0
    assert [type(s) for s in P.members(p.function().body)] == [P.Store]


# ---------------------------------------------------------------- random programs
class _Random:
    """Writes statements at random: loads and stores at computed positions, branches, loops that are left early."""

    def __init__(self, seed: int, p: ProgramBuilder):
        self.random, self.p = np.random.default_rng(seed), p
        self.integers = [p.variable("a", 1, "int32"), p.variable("b", 7, "int32")]
        self.floats = [p.variable("f", 0.5, "float32"), p.variable("g", -1.25, "float32")]
        self.arrays = [p.input(0), p.output, p.array("own", "float32", (5,))]
        p.fill(self.arrays[2], 0.25)
        self.positions: list[E.Expr] = []

    def pick(self, options: list[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def integer(self, depth: int = 2) -> E.Expr:
        if not depth or self.random.random() < 0.3:
            return self.pick([v.value for v in self.integers] + self.positions + [E.const(3, "int32")])
        op = self.pick(["add", "sub", "mul", "minimum", "maximum", "xor", "mod", "shift_right"])
        return E.binary(op, self.integer(depth - 1), self.integer(depth - 1))

    def number(self, depth: int = 2) -> E.Expr:
        if not depth or self.random.random() < 0.3:
            return self.pick([v.value for v in self.floats] + [E.const(0.75, "float32"), self.element()])
        if self.random.random() < 0.2:
            return E.cast(self.integer(depth - 1), "float32") * 0.125
        op = self.pick(["add", "sub", "mul", "minimum", "maximum"])
        a, b = self.number(depth - 1), self.number(depth - 1)
        return E.maximum(E.minimum(E.binary(op, a, b), 64.0), -64.0)

    def element(self) -> E.Expr:
        return self.pick(self.arrays)[self.integer(1)]

    def condition(self) -> E.Expr:
        if self.random.random() < 0.5:
            return E.compare(self.pick(["lt", "ge", "eq"]), self.integer(1), self.integer(1))
        test = E.compare(self.pick(["lt", "ge"]), self.number(1), self.number(1))
        return self.pick([test, negated(test), either(test, E.compare("gt", self.integer(0), 2))])

    def statements(self, depth: int) -> None:
        for _ in range(int(self.random.integers(2, 5))):
            kind = self.random.random()
            if kind < 0.25:
                self.pick(self.arrays[1:])[self.integer(1)] = self.number()
            elif kind < 0.4:
                self.pick(self.integers).set(self.integer())
            elif kind < 0.55:
                self.pick(self.floats).set(self.number())
            elif kind < 0.65:
                x = self.p.let(self.number(), "x")
                self.pick(self.arrays[1:])[self.integer(1)] = x + x * E.unary("tanh", x)
            elif depth and kind < 0.8:
                with self.p.when(self.condition()):
                    self.statements(depth - 1)
                if self.random.random() < 0.5:
                    with self.p.otherwise():
                        self.statements(depth - 1)
            elif depth:
                extent = self.pick([3, self.p.bound(self.integer(1), 4)])
                with self.p.loop(extent) as i:
                    self.positions.append(number(i, "int32"))
                    if self.random.random() < 0.5:
                        self.p.leave_if(self.condition())
                    self.statements(depth - 1)
                    self.positions.pop()


def random_program(seed: int) -> P.Function:
    p = ProgramBuilder(f"random{seed}", [_buffer("x", 6, INPUT)], [_buffer("y", 6, OUTPUT)])
    p.fill(p.output, 1.5)
    _Random(seed, p).statements(3)
    return p.function()


X = np.array([0.5, -2, 3, 0.25, 8, -0.125], np.float32)


def test_random_programs_survive_every_pass() -> None:
    for seed in range(60):
        function = random_program(seed)
        memory = {"x": X, "y": np.zeros(6, np.float32)}
        first, second = (interpreted(f, memory, ["y"])[0] for f in (function, finish(function)))
        np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-5, err_msg=str(seed))


@pytest.mark.parametrize(
    "generator",
    [
        pytest.param("c", marks=pytest.mark.family("host-c")),
        pytest.param("llvm", marks=pytest.mark.family("host-llvm")),
    ],
)
def test_random_programs_compiled(generator: str, tmp_path: Path) -> None:
    functions = [replace(finish(random_program(seed)), name=f"p{seed}") for seed in range(60)]
    library = compiled(functions, host(), generator, tmp_path)
    for seed, function in enumerate(functions):
        (wanted,) = interpreted(function, {"x": X, "y": np.zeros(6, np.float32)}, ["y"])
        y = np.zeros(6, np.float32)
        library.call(seed, [X], [y])
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5, err_msg=str(seed))


# ---------------------------------------------------------------- refusals
def _buffer(name: str, size: int, scope: Scope, dtype: str = "float32") -> P.Buffer:
    return P.dense_buffer(name, dtype, (as_int(size),), scope)


def _function(body: P.Stmt) -> P.Function:
    y = _buffer("y", 4, OUTPUT)
    return P.Function("k", (), (), (y,), as_int(1), 0, body)


Y = _buffer("y", 4, OUTPUT)
YES = E.const(True, "bool")


def test_verify_refuses_what_may_leave_a_buffer() -> None:
    far = Symbol("far", 0, 9)
    one = E.const(1.0, "float32")
    inside = E.Load("float32", tensor=Y, indices=(of(far),))
    bad = [
        P.For(far, as_int(10), "serial", P.Branch(YES, P.Store(Y, of(far), one))),
        P.For(far, as_int(10), "serial", P.Branch(E.compare("gt", inside, 0.0), P.Seq(()))),
        P.For(far, as_int(10), "serial", P.Branch(YES, P.Seq(()), P.Store(Y, as_int(4), one))),
    ]
    for body in bad:
        with pytest.raises(SternaError, match="E0305"):
            verify(_function(body))


def test_verify_looks_into_computed_positions() -> None:
    p = ProgramBuilder("p", [_buffer("x", 4, INPUT, "int32")], [_buffer("y", 4, OUTPUT)])
    p.output[p.input(0)[2]] = 1.0
    verify(finish(p.function()))  # guarded
    far = E.Load("int32", tensor=_buffer("x", 4, INPUT, "int32"), indices=(as_int(7),))
    p.output[p.index(far, 4)] = 1.0
    with pytest.raises(SternaError, match=r"E0305.*x\[7\]"):
        verify(p.function())


def test_leaving_what_is_no_serial_loop_is_refused() -> None:
    n = Symbol("n", 0, 3)
    for body in (P.Break(), P.For(n, as_int(4), "parallel", P.Branch(YES, P.Break()))):
        with pytest.raises(SternaError, match="E0305"):
            verify(_function(body))
    with pytest.raises(SternaError, match="E0901"):
        unroll(P.For(n, as_int(4), "unrolled", P.Branch(YES, P.Break())))


def test_a_branch_needs_a_truth_value() -> None:
    with pytest.raises(SternaError, match="E0305"):
        verify(_function(P.Branch(E.const(1, "int32"), P.Seq(()))))


def test_types_and_tasks_are_checked_as_the_program_is_written() -> None:
    p = ProgramBuilder("p", [_buffer("x", 4, INPUT)], [_buffer("y", 4, OUTPUT)])
    with pytest.raises(TypeError):
        p.output[0] = E.const(1, "int32")
    with pytest.raises(IndexError):
        p.output[0, 0] = 1.0
    p.output[0] = 1.0
    with pytest.raises(ValueError, match="alone"), p.tasks(4):
        pass


def test_the_interpreter_checks_every_access() -> None:
    with pytest.raises(SternaError, match="E0901"):
        run_function(_function(P.Store(Y, as_int(4), E.const(1.0, "float32"))), {"y": np.zeros(4, np.float32)})


# ---------------------------------------------------------------- passes
def test_unrolled_copies_have_variables_of_their_own() -> None:
    n = Symbol("n", 0, 2)
    v = P.Variable("v", "float32", 1)
    t = P.Variable("t", "float32", 1)
    body = P.seq(
        P.Declare(v),
        P.Assign(v, E.cast(E.index_value(of(n)), "float32")),
        P.Let(t, P.Read("float32", variable=v) * 2.0),
        P.Branch(E.compare("gt", P.Read("float32", variable=t), 1.0), P.Assign(v, P.Read("float32", variable=t))),
        P.Store(Y, of(n), P.Read("float32", variable=v)),
    )
    function = _function(unroll(P.For(n, as_int(3), "unrolled", body)))
    declared = [s.variable.name for s in P.walk(function.body) if isinstance(s, P.Declare)]
    assert len(set(declared)) == 3
    memory = {"y": np.full(4, 9, np.float32)}
    run_function(verify(function), memory)
    np.testing.assert_array_equal(memory["y"], [0, 2, 4, 9])


def test_a_value_is_not_shared_across_a_write_to_its_position() -> None:
    """y[i[0]] is another element after i[0] has been written."""
    i = _buffer("i", 1, OUTPUT, "int32")
    element = E.Load("float32", tensor=Y, indices=(_clamped(i),))
    body = P.seq(
        P.Store(Y, as_int(0), element + 1.0),
        P.Store(i, as_int(0), E.const(2, "int32")),
        P.Store(Y, as_int(1), element + 1.0),
    )
    function = P.Function("k", (), (), (Y, i), as_int(1), 0, body)
    for version in (function, replace(function, body=share(body))):
        memory = {"y": np.array([5, 6, 7, 8], np.float32), "i": np.array([3], np.int32)}
        run_function(version, memory)
        np.testing.assert_array_equal(memory["y"], [9, 8, 7, 8])


def test_values_of_a_program_that_shares_some_get_other_names() -> None:
    """A target that lacks an instruction runs another one's loops, with arithmetic in its place."""
    source = _buffer("x", 4, INPUT)
    x = E.Load("float32", tensor=source, indices=(as_int(0),)) + 1.0
    first = share(P.seq(P.Store(Y, as_int(0), x * x), P.Store(Y, as_int(1), x + 3.0)))
    body = share(P.seq(first, P.Store(Y, as_int(2), (x * 5.0) * (x * 5.0))))
    names = [s.variable.name for s in P.walk(body) if isinstance(s, P.Let)]
    assert len(names) == len(set(names)) > 1
    memory = {"x": np.full(4, 2, np.float32), "y": np.zeros(4, np.float32)}
    run_function(P.Function("k", (source,), (), (Y,), as_int(1), 0, body), memory)
    np.testing.assert_array_equal(memory["y"], [9, 6, 225, 0])


def _clamped(i: P.Buffer) -> Any:
    from sterna.te.position import position

    return position(E.Load("int32", tensor=i, indices=(as_int(0),)), 4)


def test_the_loop_interpreter_agrees_with_that_of_tensor_expressions() -> None:
    """Lowered kernels with vectors, registers and tails."""
    a, b = placeholder("a", (7, 33)), placeholder("b", (33, 21))
    k = reduce_axis("k", 33)
    product = compute("p", (7, 21), lambda i, j: total(a[i, k] * b[k, j], k))
    relu = compute("r", (7, 21), lambda i, j: E.maximum(product[i, j], 0.0))
    kernel = Kernel("dense", (a, b), (), (relu,))
    function = finish(lower(propose(kernel, Context(host(), {}))))
    arrays = {"a": RANDOM.standard_normal((7, 33), np.float32), "b": RANDOM.standard_normal((33, 21), np.float32)}
    memory = {name: array.reshape(-1) for name, array in arrays.items()} | {"r": np.zeros(7 * 21, np.float32)}
    run_function(function, memory)
    np.testing.assert_allclose(memory["r"].reshape(7, 21), run_kernel(kernel, arrays)["r"], rtol=1e-5, atol=1e-5)
