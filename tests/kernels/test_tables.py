"""Functions of one byte are tables, which hold what the operators give for every byte."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import sterna
from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from sterna.ir.integer import Int
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.options import Options
from sterna.passes.context import context_of
from sterna.pipeline import optimize
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import load_target
from sterna.te import expr as E
from sterna.te.position import position
from sterna.te.tensor import Kernel, compute, placeholder
from support.compiling import run_schedule

COLUMNS = np.arange(64, dtype=np.float32)
EVERY = np.arange(256).astype(np.uint8).reshape(4, 64)


class Model:
    """A model of quantized operators on bytes: (4, 64)."""

    def __init__(self, signed: bool):
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.dtype = np.dtype("int8" if signed else "uint8")
        self.given = EVERY.view(self.dtype)

    def constant(self, value: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [f"t{len(self.nodes)}"], **attributes))
        return str(self.nodes[-1].output[0])

    def real(self, x: str, scale: float, zero: int = 7) -> str:
        return self.add("DequantizeLinear", x, self.constant(np.float32(scale)), self.constant(self.dtype.type(zero)))

    def rounded(self, x: str, scale: float, zero: int = 3) -> str:
        return self.add("QuantizeLinear", x, self.constant(np.float32(scale)), self.constant(self.dtype.type(zero)))

    def made(self, *results: str) -> onnx.ModelProto:
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        graph = helper.make_graph(
            self.nodes, "table", [helper.make_tensor_value_info("x", kind, self.given.shape)],
            [helper.make_tensor_value_info(name, kind, self.given.shape) for name in results], self.constants,
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def swish(m: Model) -> str:
    x = m.real("x", 0.05)
    return m.rounded(m.add("Mul", x, m.real(m.rounded(m.add("Sigmoid", x), 0.004), 0.004, 3)), 0.05)


def twice(m: Model) -> str:
    first = m.rounded(m.add("Tanh", m.real("x", 0.02)), 0.008)
    return m.rounded(m.add("Gelu", m.real(first, 0.008, 3)), 0.01)


def affine(m: Model) -> str:
    return m.rounded(m.add("Exp", m.add("Add", m.real("x", 0.02), m.constant(np.float32(-0.7)))), 0.06)


@pytest.mark.parametrize("function", ["HardSigmoid", "LeakyRelu"])
def test_without_vectors_all_floats_are_tables(function: str) -> None:
    """A Cortex-M0+ computes floats by hundreds of instructions, and a Cortex-M4 one at a time."""
    m = Model(True)
    graph = read(m.made(m.rounded(m.add(function, m.real("x", 0.02)), 0.008)))
    expected = interpret(graph, {"x": m.given})
    for target, is_table in (("cortex-m0plus", True), ("cortex-m4", True), ("x86-64-v3", False)):
        made = optimize(graph, context_of(Options(load_target(target))))
        assert [node.op for node in made.nodes if node.op == "lookup"] == ["lookup"] * is_table, target
        for name, value in interpret(made, {"x": m.given}).items():
            np.testing.assert_array_equal(value, expected[name])


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("function", [swish, twice, affine])
def test_a_chain_is_one_table(function: Callable[[Model], str], signed: bool) -> None:
    m = Model(signed)
    model = m.made(function(m))
    graph = read(model)
    made = optimize(graph)
    assert [node.op for node in made.nodes] == ["lookup"]
    (name,) = (value.name for value in graph.outputs)
    expected = interpret(graph, {"x": m.given})[name]
    np.testing.assert_array_equal(interpret(made, {"x": m.given})[name], expected)
    np.testing.assert_array_equal(sterna.compile(model, generator="llvm").run({"x": m.given})[name], expected)


def test_several_results_share_what_they_are_functions_of() -> None:
    m = Model(signed=False)
    results = swish(m), twice(m)
    made = optimize(read(m.made(*results)))
    assert [node.op for node in made.nodes] == ["lookup", "lookup"]
    assert all(node.inputs[0] is made.inputs[0] for node in made.nodes)


def test_what_is_cheap_or_depends_on_more_stays() -> None:
    """A rectifier; a factor for every column; a second operand."""
    for make in (
        lambda m: m.rounded(m.add("Relu", m.real("x", 0.05)), 0.04),
        lambda m: m.rounded(m.add("Tanh", m.add("Mul", m.real("x", 0.05), m.constant(COLUMNS))), 0.1),
    ):
        m = Model(signed=False)
        made = optimize(read(m.made(make(m))), context_of(Options(load_target("x86-64-v3"))))
        assert not any(node.op == "lookup" for node in made.nodes)


STEPS = ("Sigmoid", "Tanh", "Exp", "Erf", "Gelu", "Neg", "Abs", "Add", "Mul", "round")


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=6),
    scales=st.lists(st.sampled_from([0.004, 0.02, 0.1]), min_size=8, max_size=8), signed=st.booleans(),
    zero=st.integers(0, 127),
)  # fmt: skip
def test_any_chain_gives_what_its_operators_give(
    steps: list[str], scales: list[float], signed: bool, zero: int
) -> None:
    """Functions one after another, rounded to bytes in between or not, for every byte."""
    m = Model(signed)
    x = m.real("x", scales[0], zero)
    for step, scale in zip(steps, scales[1:], strict=False):
        if step == "round":
            x = m.real(m.rounded(x, scale, zero), scale, zero)
        elif step in ("Add", "Mul"):
            x = m.add(step, x, m.constant(np.float32(scale * 20)))
        else:
            x = m.add(step, x)
    graph = read(m.made(m.rounded(x, scales[-1], zero)))
    made = optimize(graph)
    dear = {"Sigmoid", "Tanh", "Exp", "Erf", "Gelu"}
    if dear.intersection(steps):
        assert [node.op for node in made.nodes] == ["lookup"]
    (expected,), (found,) = (interpret(each, {"x": m.given}).values() for each in (graph, made))
    np.testing.assert_array_equal(found, expected)


def _looked_up(shape: tuple[int, ...], table: np.ndarray) -> Kernel:
    x, entries = placeholder("x", shape, "int8"), placeholder("table", table.shape, str(table.dtype))

    def body(*index: Int) -> E.Expr:
        return entries[position(E.cast(E.Load("int8", tensor=x, indices=index), "int32") + 128, 256)]

    return Kernel("k", (x, entries), (), (compute("y", shape, body),))


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_elements_of_a_table_are_put_together_and_stored_as_vectors(dtype: str) -> None:
    """One by one, each would be a store of its own, of which a processor makes one in a cycle."""
    kernel = _looked_up((64,), np.zeros(256, dtype))
    function = finish(lower(propose(kernel, Context(load_target("x86-64-v4")))))
    stores = [s for s in P.walk(function.body) if isinstance(s, P.Store)]
    assert [(s.value.lanes, type(s.value)) for s in stores] == [(16, P.Assemble)] * 4


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_tables_of_any_type_and_rows_of_any_length(generator: str) -> None:
    random = np.random.default_rng(0)
    for dtype, size in (("uint8", 7), ("int64", 16), ("float32", 33), ("float16", 100), ("bool", 40)):
        table = random.integers(0, 2 if dtype == "bool" else 100, 256).astype(dtype)
        x = random.integers(-128, 128, size).astype(np.int8)
        schedule = propose(_looked_up(x.shape, table), Context(load_target("host")))
        found = run_schedule(schedule, {"x": x, "table": table}, generator=generator)["y"]
        np.testing.assert_array_equal(found, table[x.astype(int) + 128])
