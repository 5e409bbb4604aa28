"""Exported programs: layouts, weights, open dimensions, states, control flow, quantization, names; all written here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

import sterna
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import describe_model, read_model
from sterna.frontends.frontend import ReadOptions
from support.exported_programs import Name, Program, Type, hostile, saved, system

RNG = np.random.default_rng(3)


def run(program: Program, folder: Path, old: bool = False, **inputs: np.ndarray) -> dict[str, Any]:
    """The outputs by the interpreter."""
    file = folder / "model.pt2"
    file.write_bytes(program.old_content() if old else program.content())
    shapes = {name: value.shape for name, value in inputs.items()}
    return interpret(read_model(file, ReadOptions(shapes=shapes)), inputs)


def perceptron(batch: str = "") -> tuple[Program, np.ndarray, np.ndarray]:
    program = Program()
    w, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((3, 4), (3,)))
    weight, bias = program.weight("fc.weight", w), program.weight("fc.bias", b)
    x = program.input("x", (program.open(batch, 1, 8) if batch else 2, 4))
    y = program.call("aten.linear.default", input=x, weight=weight, bias=bias)
    program.output(program.call("aten.relu.default", "logits", self=y))
    return program, w, b


@pytest.mark.parametrize("old", [False, True])
def test_both_layouts_of_files(old: bool, tmp_path: Path) -> None:
    program, w, b = perceptron()
    x = RNG.standard_normal((2, 4)).astype(np.float32)
    found = run(program, tmp_path, old, x=x)
    np.testing.assert_allclose(found["logits"], np.maximum(x @ w.T + b, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.family("host-llvm")
def test_an_open_dimension_stays_open_within_its_bounds(tmp_path: Path) -> None:
    program, w, b = perceptron("s0")
    file = program.write(tmp_path / "model.pt2")
    assert describe_model(file).open_dims == ("s0",)
    with sterna.compile(file, generator="llvm") as bundle:
        for batch in (1, 5, 8):
            x = RNG.standard_normal((batch, 4)).astype(np.float32)
            np.testing.assert_allclose(bundle.run({"x": x})["logits"], np.maximum(x @ w.T + b, 0), rtol=1e-5, atol=1e-6)
    with pytest.raises(SternaError) as caught:
        sterna.compile(file, generator="llvm", dims={"s0": 9})
    assert caught.value.codes == ("E0106",)


def test_a_dimension_without_an_upper_bound_must_be_given(tmp_path: Path) -> None:
    program, _, _ = perceptron("s0")
    program.ranges["s0"] = {"min_val": 0, "max_val": None}
    file = program.write(tmp_path / "model.pt2")
    with pytest.raises(SternaError) as caught:
        read_model(file)
    assert caught.value.codes == ("E0105",)
    assert "s0" in str(caught.value)
    assert read_model(file, ReadOptions(dims={"s0": 3})).inputs[0].type.sizes == (3, 4)


def test_a_dimension_that_is_a_multiple(tmp_path: Path) -> None:
    """A given size says the symbol, if there is a size of the symbol that makes it."""
    program = Program()
    x = program.input("x", (program.open("h", 1, 8), 3))
    text = "Mul(Integer(8), Symbol('h', positive=True, integer=True))"
    program.values["x"]["sizes"][0] = {"as_expr": {"expr_str": text, "hint": {"as_int": 16}}}
    program.output(program.call("aten.relu.default", self=x))
    file = program.write(tmp_path / "model.pt2")
    assert read_model(file, ReadOptions(shapes={"x": (24, 3)})).inputs[0].type.sizes == (24, 3)
    for size, code in ((20, "E0106"), (80, "E0106")):
        with pytest.raises(SternaError) as caught:
            read_model(file, ReadOptions(shapes={"x": (size, 3)}))
        assert set(caught.value.codes) == {code}


def test_sizes_are_numbers_of_the_program(tmp_path: Path) -> None:
    """x.reshape(batch // 2, 2 * 3) * batch, of an open batch."""
    program = Program()
    x = program.input("x", (program.open("s0", 2, 64), 3))
    batch = program.number("aten.sym_size.int", "n", self=x, dim=0)
    half = program.number("_operator.floordiv", "h", a=batch, b=2)
    y = program.call("aten.reshape.default", self=x, shape=[half, 6])
    program.output(program.call("aten.mul.Tensor", self=y, other=batch))
    values = RNG.standard_normal((4, 3)).astype(np.float32)
    found = run(program, tmp_path, x=values)
    np.testing.assert_allclose(next(iter(found.values())), values.reshape(2, 6) * 4, rtol=1e-6)


def test_buffers_that_change_are_states(tmp_path: Path) -> None:
    """By the signature, and in place: a row of a buffer through a view of it."""
    program = Program()
    total = program.weight("total", np.zeros(3, np.float32), "buffer")
    rows = program.weight("rows", np.ones((2, 3), np.float32), "buffer")
    x = program.input("x", (3,))
    after = program.call("aten.add.Tensor", self=total, other=x)
    program.mutation("total", after)
    row = program.call("aten.select.int", self=rows, dim=0, index=1)
    program.call("aten.copy_.default", self=row, src=x)
    program.output(program.call("aten.add.Tensor", "y", self=rows, other=after))
    graph = read_model(program.write(tmp_path / "model.pt2"))
    assert {state.name for state in graph.states} == {"total", "rows"}
    values = np.array([1, 2, 3], np.float32)
    found = interpret(graph, {"x": values})
    np.testing.assert_array_equal(found["rows"], [[1, 1, 1], values])
    again = interpret(graph, {"x": values, "total": found["total"], "rows": found["rows"]})
    np.testing.assert_array_equal(again["total"], 2 * values)
    np.testing.assert_array_equal(again["y"], found["rows"] + 2 * values)


def subgraph(build: Any) -> dict[str, Any]:
    inner = Program()
    build(inner)
    return {"as_graph": {"name": "inner", "graph": inner.graph()}}


def test_copies_do_not_share_memory(tmp_path: Path) -> None:
    """`contiguous`, `reshape` and `to` are views or copies, which the strides that the file says tell apart."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for target, arguments, shape, strides, shares in (
        ("aten.contiguous.default", {}, (3, 2), (2, 1), False),
        ("aten.contiguous.default", {}, (3, 2), (1, 3), True),
        ("aten.reshape.default", {"shape": [6]}, (6,), (1,), False),
        ("aten.reshape.default", {"shape": [3, 1, 2]}, (3, 1, 2), (1, 1, 3), True),
        ("aten.to.dtype_layout", {"dtype": Type("float32"), "copy": True}, (3, 2), (1, 3), False),
    ):
        program = Program()
        own = program.call("aten.clone.default", self=program.input("x", (2, 3)))
        turned = program.call("aten.transpose.int", program.tensor("turned", "float32", (3, 2), (1, 3)), self=own,
                              dim0=0, dim1=1)  # fmt: skip
        made = program.call(target, program.tensor("made", "float32", shape, strides), self=turned, **arguments)
        program.call("aten.add_.Tensor", self=made, other=10)
        program.output(own)
        program.output(made)
        found = list(interpret(read_model(program.write(tmp_path / "m.pt2")), {"x": x}).values())
        np.testing.assert_array_equal(found[0], x + 10 if shares else x)
        np.testing.assert_array_equal(found[1], x.T.reshape(shape) + 10)


@pytest.mark.parametrize("turned", [True, False])
def test_copies_of_open_sizes_do_not_share_memory(turned: bool, tmp_path: Path) -> None:
    """Heads joined again: strides fall as far as they are numbers, and still the elements are not in order. Of those
    in order `reshape` gives a view."""
    program = Program()
    b, n = program.open("s0", 2, 9), program.open("s1", 2, 9)
    own = program.call(
        "aten.clone.default",
        program.tensor("own", "float32", (b, 4, n, 8)),
        self=program.input("x", (b, 4, n, 8)),
    )
    if turned:
        heads = program.tensor("heads", "float32", (b, n, 4, 8), (f"32*{n}", 8, f"8*{n}", 1))
        program.call("aten.transpose.int", heads, self=own, dim0=1, dim1=2)
        made, shape = program.tensor("made", "float32", (b, n, 32)), [b, n, 32]
    else:
        heads, made, shape = own, program.tensor("made", "float32", (b, 4, f"8*{n}")), [b, 4, -1]
    sizes = [program.number("aten.sym_size.int", f"n{k}", self=heads, dim=k) for k in range(2)]
    program.call("aten.reshape.default", made, self=heads, shape=[sizes[0], sizes[1] if turned else 4, shape[2]])
    program.call("aten.add_.Tensor", self=made, other=10)
    program.output(own)
    program.output(made)
    x = np.arange(192, dtype=np.float32).reshape(2, 4, 3, 8)
    with sterna.compile(program.write(tmp_path / "m.pt2"), generator="llvm", tuning=False) as bundle:
        found = list(bundle.run({"x": x}).values())
    np.testing.assert_array_equal(found[0], x if turned else x + 10)
    joined = x.swapaxes(1, 2).reshape(2, 3, 32) if turned else x.reshape(2, 4, 24)
    np.testing.assert_array_equal(found[1], joined + 10)


def test_an_offset_counts_from_where_the_memory_begins(tmp_path: Path) -> None:
    x = np.arange(8, dtype=np.float32)

    def made(size: int, offset: int | None, dim: int | None = None) -> Program:
        program = Program()
        part = program.tensor("part", "float32", (6,), (), 2)
        program.call("aten.slice.Tensor", part, self=program.input("x", (8,)), dim=0, start=2, end=8)
        given = {} if offset is None else {"storage_offset": offset}
        if dim is not None:
            given = {"storage_offset": program.number("aten.sym_storage_offset.default", "n", self=part)}
        program.output(program.call("aten.as_strided.default", self=part, size=[size], stride=[1], **given))
        return program

    for program, wanted in (
        (made(2, 2), x[2:4]), (made(3, 5), x[5:]), (made(2, None), x[2:4]), (made(2, None, 0), x[2:4]),
    ):  # fmt: skip
        found = next(iter(interpret(read_model(program.write(tmp_path / "m.pt2")), {"x": x}).values()))
        np.testing.assert_array_equal(found, wanted)
    for program in (made(2, 0), made(2, 7)):  # before the operand's own elements, and after them
        with pytest.raises(SternaError) as caught:
            read_model(program.write(tmp_path / "m.pt2"))
        assert caught.value.codes == ("E0113",)


def test_memory_of_a_turned_tensor_with_an_offset(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    program = Program()
    part = program.tensor("part", "float32", (5, 2), (2, 1), 2)
    program.call("aten.slice.Tensor", part, self=program.input("x", (6, 2)), dim=0, start=1, end=6)
    turned = program.tensor("turned", "float32", (2, 5), (1, 2), 2)
    program.call("aten.transpose.int", turned, self=part, dim0=0, dim1=1)
    settings = {"size": [2, 3], "stride": [4, 1], "storage_offset": 3}
    program.output(program.call("aten.as_strided.default", self=turned, **settings))
    found = next(iter(interpret(read_model(program.write(tmp_path / "m.pt2")), {"x": x}).values()))
    np.testing.assert_array_equal(found, np.lib.stride_tricks.as_strided(x.reshape(-1)[3:], (2, 3), (16, 4)))


def test_memory_of_a_turned_tensor_is_read_by_strides(tmp_path: Path) -> None:
    """Windows that overlap, as Longformer cuts them out of heads that lie side by side."""
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    program = Program()
    turned = program.call("aten.transpose.int", program.tensor("turned", "float32", (2, 6), (1, 2)),
                          self=program.input("x", (6, 2)), dim0=0, dim1=1)  # fmt: skip
    program.output(program.call("aten.as_strided.default", self=turned, size=[2, 3, 2], stride=[1, 4, 2]))
    found = next(iter(interpret(read_model(program.write(tmp_path / "m.pt2")), {"x": x}).values()))
    wanted = np.lib.stride_tricks.as_strided(x, (2, 3, 2), (4, 16, 8))
    np.testing.assert_array_equal(found, wanted)


def test_conditions_and_loops(tmp_path: Path) -> None:
    def doubled(g: Program) -> None:
        g.output(g.call("aten.mul.Tensor", self=g.input("a", (3,)), other=2.0))

    def negated(g: Program) -> None:
        g.output(g.call("aten.neg.default", self=g.input("a", (3,))))

    def small(g: Program) -> None:
        a = g.input("a", (3,))
        g.output(g.call("aten.lt.Scalar", self=g.call("aten.sum.default", self=a), other=100.0))

    program = Program()
    x = program.input("x", (3,))
    test = program.call("aten.gt.Scalar", self=program.call("aten.sum.default", self=x), other=0.0)
    arguments = {"p": test, "t": subgraph(doubled), "f": subgraph(negated), "o": [x]}
    chosen = program.call("higher_order.cond", **arguments)
    looped = program.call(
        "higher_order.while_loop", c=subgraph(small), b=subgraph(doubled), x=[chosen], more={"as_tensors": []}
    )
    program.output(looped)
    for values in ([1.0, 2, 3], [-1.0, -2, -3]):
        found = next(iter(run(program, tmp_path, x=np.array(values, np.float32)).values()))
        wanted = np.array(values) * (2 if sum(values) > 0 else -1)
        while wanted.sum() < 100:
            wanted = wanted * 2
        np.testing.assert_allclose(found, wanted)


def test_scans_and_maps(tmp_path: Path) -> None:
    def step(g: Program) -> None:
        c, row = g.input("c", (2,)), g.input("row", (2,))
        total = g.call("aten.add.Tensor", self=c, other=row)
        g.output(total)
        g.output(g.call("aten.mul.Tensor", self=total, other=3.0))

    def each(g: Program) -> None:
        row, more = g.input("row", (2,)), g.input("more", (2,))
        g.output(g.call("aten.mul.Tensor", self=row, other=more))

    program = Program()
    x, start = program.input("x", (4, 2)), program.input("start", (2,))
    scanned = program.parts(
        "higher_order.scan", ["last", "rows"], f=subgraph(step), init=[start], xs=[x], more={"as_tensors": []}
    )
    program.output(scanned[0])
    program.output(scanned[1])
    program.output(program.parts("higher_order.map_impl", ["mapped"], f=subgraph(each), xs=[x], more=[start])[0])
    values, first = RNG.standard_normal((4, 2)).astype(np.float32), np.ones(2, np.float32)
    last, rows, mapped = run(program, tmp_path, x=values, start=first).values()
    sums = first + np.cumsum(values, 0)
    np.testing.assert_allclose(last, sums[-1], rtol=1e-5)
    np.testing.assert_allclose(rows, 3 * sums, rtol=1e-5)
    np.testing.assert_allclose(mapped, values * first)


def quantized_layer() -> tuple[Program, Any]:
    """quantize, dequantize, a convolution of a quantized weight by channel, as pt2e writes it."""
    program = Program()
    w = RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    scales = RNG.uniform(0.01, 0.02, 4).astype(np.float32)
    weight, factors = program.weight("w", w, "buffer"), program.weight("scales", scales, "buffer")
    zeros = program.weight("zeros", np.zeros(4, np.int64), "buffer")
    x = program.input("x", (1, 3, 6, 6))
    settings = {"scale": 0.05, "zero_point": 3, "quant_min": -128, "quant_max": 127, "dtype": Type("int8")}
    q = program.call("quantized_decomposed.quantize_per_tensor.default", input=x, **settings)
    real = program.call("quantized_decomposed.dequantize_per_tensor.default", input=q, **settings)
    wide = program.call(
        "quantized_decomposed.dequantize_per_channel.default", input=weight, scales=factors, zero_points=zeros, axis=0,
        quant_min=-127, quant_max=127, dtype=Type("int8"),
    )  # fmt: skip
    program.output(program.call("aten.conv2d.default", "y", input=real, weight=wide, padding=[1, 1]))

    def expected(values: np.ndarray) -> np.ndarray:
        whole = np.clip(np.round(values / np.float32(0.05)) + 3, -128, 127)
        padded = np.pad((whole - 3) * 0.05, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        return np.einsum("nchwij,ocij->nohw", windows, w * scales[:, None, None, None])

    return program, expected


def test_quantized_tensors_meet_in_integers(tmp_path: Path) -> None:
    program, expected = quantized_layer()
    values = RNG.standard_normal((1, 3, 6, 6)).astype(np.float32)
    graph = read_model(program.write(tmp_path / "model.pt2"))
    assert "conv_integer" in {node.op for node in graph.nodes}
    np.testing.assert_allclose(interpret(graph, {"x": values})["y"], expected(values), rtol=1e-4, atol=1e-4)


def test_outputs_are_named_as_the_module_nests_them(tmp_path: Path) -> None:
    program = Program()
    x = program.input("x", (2,))
    leaf = {"type": None, "context": None, "children_spec": []}
    program.out_spec = {
        "type": "builtins.dict", "context": json.dumps(["a", "b"]),
        "children_spec": [leaf, {"type": "builtins.tuple", "context": "null", "children_spec": [leaf, leaf]}],
    }  # fmt: skip
    for target in ("exp", "neg", "abs"):
        program.output(program.call(f"aten.{target}.default", self=x))
    assert read_model(program.write(tmp_path / "m.pt2")).output_names == ("a", "b.0", "b.1")


def test_a_registered_translation_comes_first(tmp_path: Path) -> None:
    program = Program()
    x = program.input("x", (2,))
    program.output(program.call("mylib.sparkle.default", "y", x=x, scale=2.0))
    file = program.write(tmp_path / "m.pt2")
    with pytest.raises(SternaError) as caught:
        read_model(file)
    assert caught.value.codes == ("E0104",)
    assert 'register("pytorch", "mylib.sparkle.default"' in str(caught.value)

    def translate(t: Any) -> Any:
        return t.op("mul", t.tensor("x"), t.scalar(t.arg("scale", 1.0), "float32"))

    with sterna.frontends.register("pytorch", "mylib::sparkle", translate):
        found = interpret(read_model(file), {"x": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(found["y"], [2, 4])


@pytest.mark.parametrize("kind", ["touch", "system"])
def test_pickles_are_never_run(kind: str, tmp_path: Path) -> None:
    """A file whose state dictionary asks to run something is refused, and nothing runs."""
    program, _, _ = perceptron()
    mark = tmp_path / "ran"
    call = hostile(mark) if kind == "touch" else system(f"touch {mark}")
    file = tmp_path / "model.pt2"
    file.write_bytes(program.old_content())
    with ZipFile(file) as given:
        parts = {name: given.read(name) for name in given.namelist()}
    with ZipFile(file, "w") as changed:
        for name, held in parts.items():
            changed.writestr(name, saved(program.weights, call) if name == "serialized_state_dict.pt" else held)
    with pytest.raises(SternaError) as caught:
        read_model(file)
    assert caught.value.codes == ("E0111",)
    assert "which is not done" in str(caught.value)
    assert not mark.exists()


def test_all_unsupported_operators_are_named_at_once(tmp_path: Path) -> None:
    program = Program()
    x = program.input("x", (2,))
    a = program.call("aten.unheard_of.default", self=x)
    program.output(program.call("aten.never_seen.default", self=a))
    file = program.write(tmp_path / "m.pt2")
    with pytest.raises(SternaError) as caught:
        read_model(file)
    assert caught.value.codes == ("E0104", "E0104")
    assert [use.support for use in describe_model(file).operators] == ["no", "no"]


def test_names_of_results_that_nothing_makes(tmp_path: Path) -> None:
    program = Program()
    program.input("x", (2,))
    program.output(Name("nowhere"))
    with pytest.raises(SternaError) as caught:
        read_model(program.write(tmp_path / "m.pt2"))
    assert caught.value.codes == ("E0103",)
