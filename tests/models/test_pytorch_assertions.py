"""What exported programs assert of numbers of the data, and the symbols of graphs inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support.exported_programs import Name, Number, Program


def numbers(g: Program, x: Name, count: int) -> list[Number]:
    """The first elements of a tensor as numbers of the data: the symbols u0, u1, ..."""
    made = []
    for n in range(count):
        one = g.call("aten.select.int", f"one{n}", self=x, dim=0, index=n)
        made.append(g.number("aten.item.default", f"n{n}", self=one))
        g.numbers[f"n{n}"] = {"as_expr": {"expr_str": f"Symbol('u{n}', integer=True)", "hint": None}}
    return made


def truth(g: Program, target: str, name: str, **operands: Any) -> dict[str, Any]:
    """A call that gives a truth value."""
    g.call(target, name, **operands)
    g.nodes[-1]["outputs"] = [{"as_sym_bool": {"as_name": name}}]
    return {"as_sym_bool": {"as_name": name}}


def asserts(g: Program, target: str, **arguments: Any) -> None:
    """A call that gives nothing."""
    g.call(target, "nothing", **arguments)
    g.nodes[-1]["outputs"] = []


def subgraph(build: Callable[[Program], None]) -> dict[str, Any]:
    g = Program()
    build(g)
    return {"as_graph": {"name": "inner", "graph": g.graph()}}


def check(file: Path, name: str, fine: list[list[int]], wrong: list[list[int]], compiled: bool = False) -> None:
    """The program gives x + 1 where it may, and its run fails where it may not."""
    graph = read_model(file)
    ways: list[Callable[[dict[str, Any]], Any]] = [lambda given: interpret(graph, given)]
    if compiled:
        ways.append(sterna.compile(file, generator="llvm", tuning=False).run)
    for run in ways:
        for values in fine:
            assert run({"x": np.array(values)})[name].tolist() == [n + 1 for n in values]
        for values in wrong:
            with pytest.raises(SternaError) as caught:
                run({"x": np.array(values)})
            assert caught.value.codes == ("E0511",)


def either(g: Program, a: Number, b: Number) -> dict[str, Any]:
    first, second = truth(g, "_operator.lt", "first", a=a, b=0), truth(g, "_operator.gt", "second", a=b, b=8)
    return truth(g, "_operator.or_", "both", a=first, b=second)


KINDS: dict[str, tuple[Callable[[Program, Number, Number], dict[str, Any]], list[list[int]], list[list[int]]]] = {
    "ge": (lambda g, a, b: truth(g, "_operator.ge", "t", a=a, b=2), [[2, 0]], [[1, 9]]),
    "le": (lambda g, a, b: truth(g, "_operator.le", "t", a=a, b=2), [[2, 9]], [[3, 0]]),
    "gt": (lambda g, a, b: truth(g, "_operator.gt", "t", a=a, b=-2), [[-1, 0]], [[-2, 0]]),
    "lt of two": (lambda g, a, b: truth(g, "_operator.lt", "t", a=a, b=b), [[2, 3]], [[3, 3]]),
    "eq of two": (lambda g, a, b: truth(g, "_operator.eq", "t", a=a, b=b), [[2, 2]], [[3, 2]]),
    "ne": (lambda g, a, b: truth(g, "_operator.ne", "t", a=a, b=0), [[-2, 2]], [[0, 2]]),
    "or": (either, [[-1, 0], [1, 9]], [[0, 8]]),
    "not": (lambda g, a, b: truth(g, "torch.sym_not", "t", a=either(g, a, b)), [[0, 8]], [[-1, 0], [1, 9]]),
    "a sum": (
        lambda g, a, b: truth(g, "_operator.eq", "t", a=g.number("_operator.add", "sum", a=a, b=b), b=5),
        [[2, 3], [7, -2]], [[2, 2]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["aten._assert_scalar.default", "aten._functional_assert_scalar.default"])
def test_conditions_of_numbers(kind: str, target: str, tmp_path: Path) -> None:
    build, fine, wrong = KINDS[kind]
    program = Program()
    x = program.input("x", (2,), "int64")
    condition = build(program, *numbers(program, x, 2))
    if "functional" in target:
        token = program.call("aten._make_dep_token.default", "token")
        program.call(target, "after", self=condition, assert_msg="it must", dep_token=token)
    else:
        asserts(program, target, self=condition, assert_msg="it must")
    program.output(program.call("aten.add.Tensor", "y", self=x, other=1))
    check(program.write(tmp_path / "m.pt2"), "y", fine, wrong, compiled=kind in ("or", "lt of two"))


@pytest.mark.parametrize(
    ("target", "bounds", "fine", "wrong"),
    [
        ("sym_constrain_range.default", {"min": -3, "max": 5}, [[-3, 0], [5, 0]], [[-4, 0], [6, 0]]),
        ("sym_constrain_range.default", {"min": 4}, [[4, 0], [99, 0]], [[3, 0]]),
        ("sym_constrain_range_for_size.default", {}, [[0, 0], [99, 0]], [[-1, 0]]),
        ("sym_constrain_range_for_size.default", {"max": 7}, [[7, 0]], [[-1, 0], [8, 0]]),
    ],
)
def test_ranges_of_numbers(
    target: str, bounds: dict[str, int], fine: list[list[int]], wrong: list[list[int]], tmp_path: Path
) -> None:
    program = Program()
    x = program.input("x", (2,), "int64")
    asserts(program, f"aten.{target}", size=numbers(program, x, 1)[0], **bounds)
    program.output(program.call("aten.add.Tensor", "y", self=x, other=1))
    check(program.write(tmp_path / "m.pt2"), "y", fine, wrong)


def test_a_tensor_that_must_be_true(tmp_path: Path) -> None:
    program = Program()
    x = program.input("x", (2,), "int64")
    small = program.call("aten.lt.Scalar", "small", self=x, other=4)
    asserts(program, "aten._assert_async.msg", self=program.call("aten.all.default", self=small), assert_msg="small")
    program.output(program.call("aten.add.Tensor", "y", self=x, other=1))
    check(program.write(tmp_path / "m.pt2"), "y", [[3, 3]], [[3, 4]])


def test_a_branch_asserts_where_it_runs(tmp_path: Path) -> None:
    def build(g: Program) -> None:
        x = g.input("x", (2,), "int64")
        one = truth(g, "_operator.ge", "t", a=numbers(g, x, 1)[0], b=5)
        asserts(g, "aten._assert_scalar.default", self=one, assert_msg="at least 5")
        g.output(g.call("aten.add.Tensor", self=x, other=1))

    def free(g: Program) -> None:
        g.output(g.call("aten.add.Tensor", self=g.input("x", (2,), "int64"), other=1))

    program = Program()
    x = program.input("x", (2,), "int64")
    chosen = program.call("aten.select.int", self=x, dim=0, index=1)
    arguments = {"p": program.call("aten.gt.Scalar", self=chosen, other=0), "t": subgraph(build), "f": subgraph(free)}
    program.output(program.call("higher_order.cond", "y", **arguments, o=[x]))
    check(program.write(tmp_path / "m.pt2"), "y", [[5, 1], [4, 0]], [[4, 1]], compiled=True)


def test_what_never_holds_is_told_when_the_model_is_read(tmp_path: Path) -> None:
    program = Program()
    x = program.input("x", (2,), "int64")
    size = program.number("aten.sym_size.int", "n", self=x, dim=0)
    condition = truth(program, "_operator.gt", "t", a=size, b=2)
    asserts(program, "aten._assert_scalar.default", self=condition, assert_msg="three or more")
    program.output(program.call("aten.add.Tensor", "y", self=x, other=1))
    with pytest.raises(SternaError) as caught:
        read_model(program.write(tmp_path / "m.pt2"))
    assert caught.value.codes == ("E0108",)
    assert "three or more" in str(caught.value)


def _counted(factor: int) -> Callable[[Program], None]:
    """The sum of 0, 1, ... up to the first element of x (less one), times a factor."""

    def build(g: Program) -> None:
        (n,) = numbers(g, g.input("x", (2,), "int64"), 1)
        places = g.call("aten.arange.default", "places", end=n)
        g.output(g.call("aten.mul.Tensor", "scaled", self=g.call("aten.sum.default", self=places), other=factor))

    return build


def test_one_symbol_in_both_branches(tmp_path: Path) -> None:
    """Each branch counts for itself: what the other bound is not there."""
    program = Program()
    program.open("u0", 0, 9)
    x = program.input("x", (2,), "int64")
    second = program.call("aten.select.int", self=x, dim=0, index=1)
    arguments = {"p": program.call("aten.gt.Scalar", self=second, other=0)}
    arguments |= {"t": subgraph(_counted(1)), "f": subgraph(_counted(10))}
    program.output(program.call("higher_order.cond", "y", **arguments, o=[x]))
    file = program.write(tmp_path / "m.pt2")
    graph = read_model(file)
    with sterna.compile(file, generator="llvm", tuning=False) as bundle:
        for first, other, wanted in ((4, 1, 6), (4, 0, 60), (9, 0, 360), (0, 1, 0)):
            for run in (lambda given: interpret(graph, given), bundle.run):
                assert int(run({"x": np.array([first, other])})["y"]) == wanted


def test_one_graph_that_runs_twice_counts_anew(tmp_path: Path) -> None:
    """invoke_subgraph: one graph, whose symbol stands for another number each time."""
    program = Program()
    program.open("u0", 0, 9)
    x, z = program.input("x", (2,), "int64"), program.input("z", (2,), "int64")
    inner = subgraph(_counted(1))
    first, second = (
        program.parts("higher_order.invoke_subgraph", [name], g=inner, identifier="g0", o=value)[0]
        for name, value in (("a", x), ("b", z))
    )
    program.output(program.call("aten.sub.Tensor", "y", self=first, other=second))
    graph = read_model(program.write(tmp_path / "m.pt2"))
    assert int(interpret(graph, {"x": np.array([5, 0]), "z": np.array([3, 0])})["y"]) == 7
