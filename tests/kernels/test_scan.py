"""Recurrences as tensor expressions: against NumPy in the interpreter, and compiled by both generators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.ir.graph import TensorType
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.ops import operators
from sterna.ops.evaluate import evaluate
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import host
from sterna.targets.target import Target
from sterna.te.collapse import collapse
from sterna.te.interpreter import run_kernel
from sterna.te.printer import print_kernel
from sterna.te.scan import scan
from sterna.te.tensor import Kernel, Tensor, compute, placeholder
from support.compiling import check, run_schedule
from support.recurrences import arrays, power_iteration, running_sums, shifting, tanh_layer, two_products

GENERATORS = [
    pytest.param("c", marks=pytest.mark.family("host-c")),
    pytest.param("llvm", marks=pytest.mark.family("host-llvm")),
]
QUICK = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


#: Workers share whatever can be shared.
SHARED = replace(host(), cores=4, share_cycles=1)


def compiled_agrees(kernel: Kernel, generator: str, target: Target | None = None, threads: int = 1) -> None:
    """The kernel, collapsed as the driver does, scheduled and compiled, computes what it says."""
    given_arrays = arrays(kernel)
    expected = run_kernel(kernel, given_arrays)
    small = collapse(kernel, {}).kernel
    fed = {t.name: given_arrays[t.name].reshape([int(n) for n in t.shape]) for t in (*small.inputs, *small.params)}
    computed = run_kernel(small, fed)
    check({name: a.reshape(expected[name].shape) for name, a in computed.items()}, expected, 1e-6)
    schedule = propose(small, Context(target or host()))
    inputs = {t.name: fed[t.name] for t in small.inputs}
    found = run_schedule(schedule, inputs, [fed[t.name] for t in small.params], generator, threads)
    check({name: a.reshape(expected[name].shape) for name, a in found.items()}, expected, 1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [1, 4])
def test_interpreter_equals_numpy(steps: int, reverse: bool) -> None:
    kernel = tanh_layer(steps, 2, 5, reverse)
    given_arrays = arrays(kernel)
    h, sequence = given_arrays["start"], np.empty((steps, 2, 5), np.float32)
    for t in reversed(range(steps)) if reverse else range(steps):
        h = sequence[t] = np.tanh(given_arrays["x"][t] + h @ given_arrays["r"])
    found = run_kernel(kernel, given_arrays)
    np.testing.assert_allclose(found["y"], sequence, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["z"], h, rtol=1e-5, atol=1e-6)


def test_a_kernel_stays_acyclic_and_says_what_recurs() -> None:
    kernel = tanh_layer(3, 2, 4)
    assert [t.name for t in kernel.stages] == ["layer_start0", "acc", "h", "y", "z"]
    assert kernel.scan is not None
    (carry,) = kernel.scan.carries
    assert carry.previous.body is None
    assert carry.previous.scan is kernel.scan
    text = print_kernel(kernel)
    assert "state layer_before0: float32[3, 2, 4]: layer_start0, then h, from the first step" in text
    small = collapse(tanh_layer(1, 1, 4), {}).kernel
    assert small.scan is not None
    assert small.tensor("h").shape == (1, 4), "time stays, though it has one step"
    assert small.scan.carries[0].next is small.tensor("h")


def test_states_must_fit() -> None:
    start = placeholder("start", (4,))
    with pytest.raises(ValueError, match="no next state"):
        scan("s", 3, (start,), lambda s: (compute("n", (3, 5), lambda t, j: s[t, 0] + 1.0),))


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize(
    "make",
    [
        lambda: running_sums(5, 19),
        lambda: running_sums(1, 4),
        lambda: shifting(6, 5),
        lambda: power_iteration(4, 21),
        lambda: tanh_layer(4, 1, 40, last=True),
        lambda: tanh_layer(4, 3, 1),
        lambda: tanh_layer(2, 1, 1),
    ],
)
def test_any_recurrence_compiles(make: Callable[[], Kernel], generator: str) -> None:
    compiled_agrees(make(), generator)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("threads", [1, 3, 40])
@pytest.mark.parametrize(
    "make", [lambda: tanh_layer(7, 2, 70), lambda: two_products(6, 50), lambda: tanh_layer(1, 1, 33, last=True)]
)
def test_workers_share_the_steps(make: Callable[[], Kernel], threads: int, generator: str) -> None:
    kernel = make()
    text = print_function(lower(propose(collapse(kernel, {}).kernel, Context(SHARED))))
    assert text.count("barrier") == {"layer": 2, "two": 3}[kernel.name], "one before the steps, one behind each nest"
    compiled_agrees(kernel, generator, SHARED, threads)


@QUICK
@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(1, 70), st.booleans(), st.booleans(),
    st.sampled_from(["c", "llvm"]),
)  # fmt: skip
@pytest.mark.family("host-c")
@pytest.mark.family("host-llvm")
def test_layers_of_any_size(steps: int, batch: int, hidden: int, reverse: bool, last: bool, generator: str) -> None:
    layer = tanh_layer(steps, batch, hidden, reverse, last)
    compiled_agrees(layer, generator)
    compiled_agrees(layer, generator, SHARED, threads=2)


def test_a_state_read_in_place_has_one_slot() -> None:
    def slots(kernel: Kernel, state: str) -> str:
        text = print_function(lower(propose(kernel, Context(host()))))
        return next(line for line in text.splitlines() if f"{state}_state:" in line).split(":")[1].strip()

    assert slots(running_sums(5, 8), "s") == "float32[8]"
    assert slots(tanh_layer(5, 1, 8), "h") == "float32[16]"


def test_products_stay_in_registers() -> None:
    """In the step there is no memory but the states', the input and the weights, packed into panels."""
    operator = operators()["lstm"]
    x, r = placeholder("x", (7, 1, 4, 40)), placeholder("r", (40, 4, 40))
    attributes = operator.complete({})
    kinds = operator.types((_type(x), _type(r)), attributes)
    kernel = collapse(Kernel("lstm", (x,), (r,), operator.compute([x, r], attributes, kinds, "y")), {}).kernel
    schedule = propose(kernel, Context(host()))
    assert saved.to_json(saved.apply(kernel, schedule.steps).steps) == saved.to_json(schedule.steps)
    lowered = lower(schedule)
    assert lowered.n_tasks == 1
    text = print_function(finish(lowered))
    assert "r_packed" in text
    assert not [line for line in text.splitlines() if line.split()[0] in ("stack", "scratch") and "_state" not in line]


def _type(t: Tensor) -> TensorType:
    return TensorType(t.dtype, t.shape)


def test_the_placement_of_states_is_checked() -> None:
    kernel = tanh_layer(4, 1, 8)
    schedule = Schedule(kernel)
    with pytest.raises(SternaError, match="E0302"):
        schedule.compute_at("h", "y", "t", "stack")
    with pytest.raises(SternaError, match="E0302"):
        schedule.compute_at("acc", "y", "t", "state")


def test_earlier_states_are_not_kept() -> None:
    first = placeholder("first", (4,))
    (s,) = scan("s", 3, (first,), lambda s: (compute("n", (3, 4), lambda t, j: s[t, j] * 0.5),))
    kernel = Kernel("k", (first,), (), (compute("y", (4,), lambda j: s[1, j]),))
    assert run_kernel(kernel, {"first": np.full(4, 8.0, np.float32)})["y"].tolist() == [2.0] * 4
    with pytest.raises(SternaError, match="E0303"):
        lower(propose(kernel, Context(host())))


@pytest.mark.parametrize("op", ["lstm", "gru", "rnn"])
def test_lengths_freeze_states_and_clear_outputs(op: str) -> None:
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[op]
    random = np.random.default_rng(3)
    x = random.uniform(-1, 1, (5, 2, gates, 6)).astype(np.float32)
    r = random.uniform(-1, 1, (6, gates, 6)).astype(np.float32)
    complete = operators()[op].complete
    for reverse in (False, True):
        both = {"reverse": reverse, "gives": ("y", "y_h")}
        y, h = evaluate(op, [x, r, np.asarray([3, 5], np.int32)], complete(both))
        short_y, short_h = evaluate(op, [x[:3, :1], r], complete(both))
        np.testing.assert_allclose(y[:3, :, :1], short_y, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(h[:, :1], short_h, rtol=1e-6, atol=1e-6)
        assert not y[3:, :, 0].any()
