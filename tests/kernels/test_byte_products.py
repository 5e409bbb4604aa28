"""Products of matrices of bytes of which neither is constant: exact, by the target's dot products."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import sterna
from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from sterna.options import Options
from sterna.passes.context import context_of
from sterna.pipeline import optimize
from sterna.targets.description import host, load_target
from sterna.targets.features import features

SHAPES = [((2,), 12, 32, 40), ((), 67, 64, 67), ((3, 2), 7, 33, 5)]


def product(
    batch: tuple[int, ...], m: int, k: int, n: int, left: str, right: str, zeros: tuple[int, int], turned: bool = False
) -> tuple[object, dict[str, np.ndarray], np.ndarray]:
    """A MatMulInteger, its operands and its result; `turned`: the right operand comes from a transpose."""
    random = np.random.default_rng(m)
    a, b = (
        random.integers(np.iinfo(d).min, np.iinfo(d).max, s, endpoint=True).astype(d)
        for d, s in ((left, (*batch, m, k)), (right, (*batch, k, n)))
    )
    order = [*range(len(batch)), len(batch) + 1, len(batch)]
    nodes = [helper.make_node("MatMulInteger", ["a", "t" if turned else "b", "za", "zb"], ["y"])]
    if turned:
        nodes.insert(0, helper.make_node("Transpose", ["b"], ["t"], perm=order))
    given = {"a": a, "b": np.ascontiguousarray(b.transpose(order)) if turned else b}
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for name, v in given.items()
    ]
    constants = [
        numpy_helper.from_array(np.array(z, d), name)
        for name, z, d in (("za", zeros[0], left), ("zb", zeros[1], right))
    ]
    graph = helper.make_graph(
        nodes, "product", values, [helper.make_tensor_value_info("y", TensorProto.INT32, None)], constants
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    expected = (a.astype(np.int32) - zeros[0]) @ (b.astype(np.int32) - zeros[1])
    return model, given, expected


@pytest.mark.parametrize(
    ("name", "generator"), [("x86-64-v2", "llvm"), ("x86-64-v3", "llvm"), ("host", "llvm"), ("host", "c")]
)
@pytest.mark.parametrize(("left", "right"), [("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8")])
def test_products_are_exact(name: str, generator: str, left: str, right: str) -> None:
    if name != "host" and not features(load_target(name)) <= features(host()):
        pytest.skip("this processor lacks what the level has")
    middle = (128 if left == "uint8" else 0, 128 if right == "uint8" else 0)
    for number, (batch, m, k, n) in enumerate(SHAPES):
        zeros = (3, 5) if number % 2 else middle
        model, given, expected = product(batch, m, k, n, left, right, zeros, turned=bool(number % 2))
        bundle = sterna.compile(model, target=name, generator=generator)
        np.testing.assert_array_equal(bundle.run(given)["y"], expected, err_msg=f"{batch} {m} {k} {n} {zeros}")


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v4-vnni", "arm64", "browser"])
def test_they_are_dot_products_where_the_target_has_them(target: str) -> None:
    model, given, expected = product((2,), 12, 32, 40, "int8", "uint8", (1, 128))
    made = optimize(read(model), context_of(Options(load_target(target))))
    machine = load_target(target)
    has = any(machine.known_intrinsics[name].plain for name in machine.int_dot)
    assert any(node.op == "matmul_grouped" for node in made.nodes) == has
    np.testing.assert_array_equal(interpret(made, given)["y"], expected)


def test_small_products_stay_as_they_are() -> None:
    model, _, _ = product((2,), 1, 32, 40, "uint8", "int8", (0, 0))
    made = optimize(read(model), context_of(Options(load_target("x86-64-v4-vnni"))))
    assert not any(node.op == "matmul_grouped" for node in made.nodes)


BYTES = st.sampled_from(["uint8", "int8"])
SIZES = st.integers(1, 40)


@settings(max_examples=25, deadline=None)
@given(
    batch=st.lists(st.integers(1, 3), max_size=2), m=SIZES, k=SIZES, n=SIZES, left=BYTES, right=BYTES,
    zeros=st.tuples(st.integers(0, 127), st.integers(0, 127)), turned=st.booleans(),
    target=st.sampled_from(["x86-64-v2", "x86-64-v4-vnni", "arm64"]),
)  # fmt: skip
def test_products_of_any_size_are_exact(
    batch: list[int], m: int, k: int, n: int, left: str, right: str, zeros: tuple[int, int], turned: bool, target: str
) -> None:
    """What the passes make of them for machines with and without dot products."""
    model, given_, expected = product(tuple(batch), m, k, n, left, right, zeros, turned)
    made = optimize(read(model), context_of(Options(load_target(target))))
    np.testing.assert_array_equal(interpret(made, given_)["y"], expected)


@settings(max_examples=6, deadline=None)
@given(m=SIZES, k=SIZES, n=SIZES, left=BYTES, right=BYTES, zeros=st.tuples(st.integers(0, 127), st.integers(0, 127)))
def test_compiled_products_of_any_size_are_exact(
    m: int, k: int, n: int, left: str, right: str, zeros: tuple[int, int]
) -> None:
    model, given_, expected = product((2,), m, k, n, left, right, zeros)
    bundle = sterna.compile(model, generator="llvm")
    np.testing.assert_array_equal(bundle.run(given_)["y"], expected)
