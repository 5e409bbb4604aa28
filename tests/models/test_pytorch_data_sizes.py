"""Sizes that the data decide in exported programs, and tensors that share memory by views of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna.frontends.pytorch.assertions import asserted
from sterna.frontends.pytorch.program import program_of
from support.exported_programs import Name, Number, Program


def counted(most: int | None) -> Program:
    """0, 1, ... up to the greatest element, twice over: `arange(2 * x.max().item())`."""
    program = Program()
    x = program.input("x", (4,), "int64")
    greatest = program.call("aten.max.default", "greatest", self=x)
    n = program.number("aten.item.default", "n", self=greatest)
    m = program.number("_operator.mul", "m", a=n, b=2)
    for name, text in (("n", "Symbol('u0', integer=True)"), ("m", "Mul(Integer(2), Symbol('u0', integer=True))")):
        program.numbers[name] = {"as_expr": {"expr_str": text, "hint": None}}
    program.open("u0", 0, most)
    y = program.call("aten.arange.default", "y", end=m)
    program.output(program.call("aten.add.Tensor", "z", self=y, other=1))
    return program


def test_a_number_of_the_data_is_a_size_within_its_bounds(tmp_path: Path) -> None:
    file = counted(6).write(tmp_path / "m.pt2")
    graph = read_model(file)
    for most in (0, 1, 6):
        found = interpret(graph, {"x": np.array([0, most, 0, 0])})
        assert next(iter(found.values())).tolist() == [n + 1 for n in range(2 * most)]
    with sterna.compile(file, generator="llvm", tuning=False) as bundle:
        assert next(iter(bundle.run({"x": np.array([2, 0, 3, 1])}).values())).tolist() == [1, 2, 3, 4, 5, 6]
        with pytest.raises(SternaError):
            bundle.run({"x": np.array([7, 0, 0, 0])})


def _counts(program: Program, x: Name) -> tuple[list[Number], str]:
    """Two numbers of the data, u0 and u1, and what the program calls their sum."""
    numbers = []
    for n in range(2):
        one = program.call("aten.select.int", self=x, dim=0, index=n)
        numbers.append(program.number("aten.item.default", f"n{n}", self=one))
        program.numbers[f"n{n}"] = {"as_expr": {"expr_str": f"Symbol('u{n}', integer=True)", "hint": None}}
        program.open(f"u{n}", 0, 6)
    total = "Add(Symbol('u0', integer=True), Symbol('u1', integer=True))"
    program.number("_operator.add", "sum", a=numbers[0], b=numbers[1])
    program.numbers["sum"] = {"as_expr": {"expr_str": total, "hint": None}}
    return numbers, total


def _assert_equal(program: Program, name: str, text: str, size: int) -> None:
    program.call("_operator.eq", f"{name}_is", a={"as_sym_int": {"as_name": name}}, b=size)
    program.nodes[-1]["outputs"] = [{"as_sym_bool": {"as_name": f"{name}_is"}}]
    program.truths[f"{name}_is"] = {"as_expr": {"expr_str": f"Equality({text}, Integer({size}))", "hint": None}}
    program.call("aten._assert_scalar.default", self={"as_sym_bool": {"as_name": f"{name}_is"}}, assert_msg="")
    program.nodes[-1]["outputs"] = []


def _joined(program: Program, x: Name, numbers: Sequence[Number], total: str) -> Name:
    """Parts of x, the second of them doubled, one after the other again."""
    first, second = program.parts("aten.split_with_sizes.default", ["a", "b"], self=x, split_sizes=numbers)
    program.tensor("joined", "float32", (total, 2))
    doubled = program.call("aten.mul.Tensor", self=second, other=2)
    return Name(program.call("aten.cat.default", "joined", tensors=[first, doubled], dim=0))


def test_parts_of_computed_sizes_are_as_long_as_the_program_asserts(tmp_path: Path) -> None:
    """Rows by expert, as mixtures of experts split and join them: what comes out meets what went in. Counts that
    PyTorch refuses are refused."""
    program = Program()
    x, counts = program.input("x", (6, 2)), program.input("counts", (2,), "int64")
    numbers, total = _counts(program, counts)
    _assert_equal(program, "sum", total, 6)
    program.output(program.call("aten.add.Tensor", "z", self=_joined(program, x, numbers, total), other=x))
    file = program.write(tmp_path / "m.pt2")
    graph = read_model(file)
    with sterna.compile(file, generator="llvm", tuning=False) as bundle:
        for cut in (2, 0, 6):
            inputs = {"x": np.arange(12, dtype=np.float32).reshape(6, 2), "counts": np.array([cut, 6 - cut])}
            for found in (interpret(graph, inputs), bundle.run(inputs)):
                factors = np.where(np.arange(6) < cut, 2, 3)[:, None]
                np.testing.assert_array_equal(found["z"], inputs["x"] * factors)
        for wrong in ([2, 3], [0, 0], [5, 6]):
            inputs["counts"] = np.array(wrong)
            for run in (lambda given: interpret(graph, given), bundle.run):
                with pytest.raises(SternaError) as caught:
                    run(inputs)
                assert caught.value.codes == ("E0511",)
                assert "the model does not allow the value" in str(caught.value)


def test_what_a_branch_asserts_holds_there_alone() -> None:
    """What a graph that always runs asserts holds around it as well."""

    def rows(size: int) -> dict[str, Any]:
        inner = Program()
        _, total = _counts(inner, inner.input("counts", (2,), "int64"))
        _assert_equal(inner, "sum", total, size)
        inner.output(inner.call("aten.zeros.default", size=[6]))
        return {"as_graph": {"name": "inner", "graph": inner.graph()}}

    program = Program()
    counts = program.input("counts", (2,), "int64")
    test = program.call("aten.any.default", self=counts)
    program.call("higher_order.cond", "z", p=test, t=rows(6), f=rows(5), o=[counts])
    branching = program_of(program.document(), "m").graph
    assert asserted(branching) == {}
    assert [list(asserted(inner).values()) for inner in branching.nodes[-1].graphs] == [[6], [5]]
    program.call("higher_order.wrap_with_set_grad_enabled", "y", on=False, g=rows(4), o=counts)
    assert list(asserted(program_of(program.document(), "m").graph).values()) == [4]


def test_the_user_gives_the_bound_that_the_program_lacks(tmp_path: Path) -> None:
    file = counted(None).write(tmp_path / "m.pt2")
    with pytest.raises(SternaError) as caught:
        read_model(file)
    assert caught.value.codes == ("E0107",)
    assert "(u0), which has no upper bound" in str(caught.value)
    assert 'dims={"u0": (1, 1000)}' in str(caught.value)
    graph = read_model(file, ReadOptions(dims={"u0": (1, 9)}))
    assert next(iter(interpret(graph, {"x": np.array([1, 2, 0, 1])}).values())).tolist() == [1, 2, 3, 4]
    for dims in ({"u0": 5}, {"u1": (1, 9)}):  # one size, of what the data decide; no such symbol
        with pytest.raises(SternaError) as caught:
            read_model(file, ReadOptions(dims=dims))
        assert caught.value.codes == ("E0106",)
        assert "u0" in str(caught.value)


def test_whole_numbers_in_floats_beside_open_sizes(tmp_path: Path) -> None:
    """As XLNet counts down: `arange(n, -n, -1.0)`."""
    program = Program()
    x = program.input("x", (program.open("s0", 1, 8),), "float32")
    n = program.number("aten.sym_size.int", "n", self=x, dim=0)
    m = program.number("_operator.neg", "m", a=n)
    y = program.call("aten.arange.start_step", "y", start=n, end=m, step=-1.0)
    program.output(program.call("aten.neg.default", "z", self=y))
    with sterna.compile(program.write(tmp_path / "m.pt2"), generator="llvm", tuning=False) as bundle:
        for size in (2, 5):
            found = bundle.run({"x": np.zeros(size, np.float32)})
            assert next(iter(found.values())).tolist() == [-n for n in range(size, -size, -1)]


def test_a_mask_that_is_used_twice_has_as_many_places(tmp_path: Path) -> None:
    program = Program()
    x = program.input("x", (2, 3), "float32")
    y = program.input("y", (2, 3), "float32")
    mask = program.call("aten.gt.Scalar", "mask", self=x, other=0)
    parts = [program.call("aten.index.Tensor", f"p{n}", self=v, indices=[mask]) for n, v in enumerate((x, y))]
    program.output(program.call("aten.add.Tensor", "z", self=parts[0], other=parts[1]))
    a = np.array([[1, -1, 2], [-3, 4, 0]], np.float32)
    found = interpret(read_model(program.write(tmp_path / "m.pt2")), {"x": a, "y": 10 * a})
    assert next(iter(found.values())).tolist() == [11, 22, 44]


VIEWS: dict[str, tuple[dict[str, Any], Any]] = {
    "expand.default": ({"size": [2, 3, 4]}, lambda x: np.broadcast_to(x, (2, 3, 4))),
    "movedim.int": ({"source": 0, "destination": 1}, lambda x: np.moveaxis(x, 0, 1)),
    "unfold.default": ({"dimension": 1, "size": 2, "step": 2},
                       lambda x: np.lib.stride_tricks.as_strided(x, (3, 2, 2), (16, 8, 4))),
    "as_strided.default": ({"size": [2, 2], "stride": [5, 2], "storage_offset": 1},
                           lambda x: np.lib.stride_tricks.as_strided(x.reshape(-1)[1:], (2, 2), (20, 8))),
    "mT.default": ({}, lambda x: x.T), "swapdims.default": ({"dim0": 0, "dim1": 1}, lambda x: x.T),
    "unsqueeze_.default": ({"dim": 1}, lambda x: x[:, None]), "t_.default": ({}, lambda x: x.T),
    "transpose_.default": ({"dim0": 1, "dim1": 0}, lambda x: x.T),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views_follow_what_is_written_to_their_memory(name: str, tmp_path: Path) -> None:
    """And, but for one that repeats elements, the memory what is written to them."""
    settings, view = VIEWS[name]
    program = Program()
    x = program.input("x", (3, 4), "float32")
    base = program.call("aten.clone.default", "base", self=x)
    seen = program.call(f"aten.{name}", "view", self=base, **settings)
    program.call("aten.mul_.Scalar", "doubled", self=base, other=2)
    if name != "expand.default":
        program.call("aten.add_.Scalar", "raised", self=seen, other=100)
    program.output(program.call("aten.neg.default", "first", self=seen))
    program.output(program.call("aten.neg.default", "second", self=base))
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = list(interpret(read_model(program.write(tmp_path / "m.pt2")), {"x": a}).values())
    wanted = 2 * a
    if name != "expand.default":
        part = view(wanted)
        part += 100
    np.testing.assert_array_equal(found[0], -view(wanted))
    np.testing.assert_array_equal(found[1], -wanted)
