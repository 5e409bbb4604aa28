"""Nodes on the CPU of a bundle for a device say why they are there, and commands say it in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import parser

import sterna
from sterna.api import compile_model
from sterna.cli import program
from sterna.errors import SternaError, error
from sterna.passes import place, plan_kernels
from sterna.passes.stay import Reason
from sterna.targets.description import load_target
from sterna_runtime import load
from sterna_runtime.cli import stay
from sterna_runtime.reader import read_graph
from support import handmade_bundle
from support.compiling import check, facts
from support.control_flow import CHOICE, TRIPS, model
from support.data_sized import detector
from support.device_bundles import edited, opencl
from support.open_networks import OpenGraph, rows
from support.trained import digits

DOUBLES = """agraph (double[8] x, float[8] y) => (double[8] a, float[8] b) { a = Exp(x)  b = Exp(y) }"""
#: Sums along 2^20 elements, one after another, between products that many threads share.
SUMS = """agraph (float[1024, 1024] x, float[1024, 1024] y) => (float[1024, 1024] z)
    <int64 axis = {0}, int64[2] long = {1, 1048576}, int64[2] square = {1024, 1024}, int64 along = {1}>
    { a = MatMul(x, y)  b = Reshape(a, long)  c = CumSum(b, along)  d = Reshape(c, square)  z = MatMul(d, y) }"""
#: The same, with elements between two of them.
TWICE = """agraph (float[1024, 1024] x) => (float[1024, 1024] z)
    <int64[2] long = {1, 1048576}, int64[2] square = {1024, 1024}, int64 along = {1}>
    {
      a = Reshape(x, long)  b = CumSum(a, along)  c = Tanh(b)  d = CumSum(c, along)  z = Reshape(d, square)
    }"""
SIZES = {"dims": {"batch": (1, 4), "length": (2, 9)}}


def graph_of(source: Any, target: str = "opencl", **settings: Any) -> dict[str, Any]:
    return facts(compile_model(source, target, **settings))


def told(graph: dict[str, Any]) -> dict[str, Any]:
    """What nodes say, by the first node of the model that they compute."""
    return {node["sources"][0]: node["stay"] for node in graph["nodes"] if "stay" in node}


@pytest.mark.parametrize(
    "source",
    [
        lambda: parser.parse_model(model(CHOICE)),
        lambda: parser.parse_model(model(TRIPS)),
        lambda: detector(20, 3, None),
        lambda: digits().file,
    ],
    ids=["choice", "loop", "computed sizes", "digits"],
)
def test_every_node_on_the_cpu_says_why(source: Callable[[], Any]) -> None:
    graph = graph_of(source())
    for node in graph["nodes"]:
        assert ("stay" in node) == (node.get("op") != "copy" and "device" not in node)
    assert not any("stay" in node for node in graph_of(source(), "host")["nodes"])


def test_branches_and_sizes() -> None:
    assert {row["reason"] for row in told(graph_of(parser.parse_model(model(TRIPS)))).values()} >= {"control"}
    found = told(graph_of(detector(20, 3, None)))
    assert [*found.values()] == [{"reason": "size", "dims": ["selected"]}]


def test_types_that_the_device_lacks() -> None:
    found = told(graph_of(parser.parse_model(model(DOUBLES)), "opencl-mali"))
    assert [*found.values()] == [{"reason": "type", "types": ["float64"]}]


def test_more_buffers_than_a_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:

    lacking = place._lacking
    monkeypatch.setattr(place, "_lacking", lambda call, device: lacking(call, replace(device, buffers=2)))
    text = "agraph (float[8] x, float[8] y) => (float[8] z) { z = Add(x, y) }"
    found = told(graph_of(parser.parse_model(model(text))))
    assert [*found.values()] == [{"reason": "buffers", "buffers": 3, "most": 2}]


def many_addends(count: int) -> onnx.ModelProto:
    """x0 + sigmoid(x1) + sigmoid(x2) + ..."""
    g = OpenGraph(seed=1)
    total, *others = (g.input(f"x{n}", [4, 16]) for n in range(count))
    for x in others:
        total = g.node("Add", total, g.node("Sigmoid", x))
    g.output(total)
    return g.finished("addends")


@pytest.mark.parametrize("target", ["opencl", "metal"])
def test_kernels_end_where_a_device_takes_no_more_buffers(target: str) -> None:
    device = load_target(target).device
    assert device is not None
    made = compile_model(many_addends(3 * device.buffers), target, device_for={"*": device.kind})
    assert [call.stay for call in made.calls] == [None] * len(made.calls)
    assert 3 < len(made.calls) < 9
    assert max(len(call.inputs) + len(call.outputs) for call in made.calls) == device.buffers
    assert len(compile_model(many_addends(60), "host").calls) == 1, "a CPU takes any number"


@pytest.mark.family("opencl")
def test_sums_of_more_than_a_kernel_takes(tmp_path: Path) -> None:
    model, random = many_addends(60), np.random.default_rng(2)
    given = {f"x{n}": random.standard_normal((4, 16)).astype(np.float32) for n in range(60)}
    with (
        opencl(tmp_path),
        sterna.compile(model, "opencl", device_for={"*": "opencl"}) as there,
        sterna.compile(model, generator="llvm") as here,
    ):
        check(there.run(given), here.run(given), 1e-5)


def test_what_the_estimate_moves() -> None:
    """Both times are told, copies counted, and they are those that made the choice."""
    (row,) = told(graph_of(parser.parse_model(model(SUMS)))).values()
    assert row["reason"] == "slower"
    assert 0 < row["cpu_ns"] < row["device_ns"]
    graph = graph_of(parser.parse_model(model(SUMS)), device_for={"CumSum_2": "opencl"})
    assert told(graph) == {}, "what the user keeps on the device is there"


def test_what_lies_between() -> None:
    """Elements that the device would compute faster stay between two sums that it would not: they would be copied."""
    found = told(graph_of(parser.parse_model(model(TWICE))))
    assert [row["reason"] for row in found.values()] == ["slower", "copies", "slower"]
    between = [*found.values()][1]
    assert 0 < between["cpu_ns"] < between["device_ns"]


def test_what_the_user_names() -> None:
    found = told(graph_of(digits().file, device_for={"*softmax*": "cpu"}))
    assert found == {"softmax": {"reason": "asked", "pattern": "*softmax*"}}
    # A name does not move what cannot be there, and what it cannot be there for is told.
    found = told(graph_of(parser.parse_model(model(DOUBLES)), "opencl-mali", device_for={"Exp_0": "opencl"}))
    assert [row["reason"] for row in found.values()] == ["type"]


def test_what_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    proved = plan_kernels.realize

    def fails(call: Any, *rest: Any) -> Any:
        if "softmax" in call.kernel.name:
            raise error("E0306", "two tasks touch the same element of out")
        return proved(call, *rest)

    monkeypatch.setattr(plan_kernels, "realize", fails)
    found = told(graph_of(rows(), **SIZES))
    wanted = {"reason": "unproved", "dims": ["batch", "length"], "code": "E0306"}
    assert found == {"Softmax_7": {**wanted, "problem": "two tasks touch the same element of out"}}


def test_every_reason_has_words() -> None:
    for reason in get_args(Reason):
        row = {"reason": reason, "dims": ["n"], "types": ["float64"], "cpu_ns": 1500, "device_ns": 2e6, "pattern": "a*"}
        one, several = (stay.summary([{"name": f"n{k}", "stay": row} for k in range(count)]) for count in (1, 2))
        assert one is not None
        assert several is not None
        assert one.startswith("1 of 1 node stays on the CPU: 1 ")
        assert several.startswith("2 of 2 nodes stay on the CPU: 2 ")
        assert stay.node_text(row) != reason
    assert stay.node_text({"reason": "moonlight"}) == "moonlight"
    assert stay.summary([{"name": "a"}]) is None


def test_words() -> None:
    nodes = [
        {"name": "k0", "sources": ["sort"], "stay": {"reason": "slower", "cpu_ns": 12000, "device_ns": 40000}},
        *({"name": f"n{k}", "stay": {"reason": "unproved", "dims": ["height", "width"]}} for k in range(3)),
        {"name": "copy x", "op": "copy"},
        {"name": "k5", "device": 1},
    ]
    said, advice = stay.lines(nodes, "opencl")
    assert said == (
        "4 of 5 nodes stay on the CPU: 3 are not proved right for every size: height, width (n0, n1, ...); "
        "1 is estimated to be faster there: 12.0 us, 40.0 us on the device (sort)"
    )
    assert advice == (
        "on the device instead: one size: --dim height=<size> --dim width=<size>; "
        "against the estimate: --device-for sort=opencl"
    )
    assert stay.lines(nodes, None) == [said], "whoever does not know the device gives no advice"


def test_commands_say_it(tmp_path: Path) -> None:
    bundle, source = tmp_path / "bundle", str(digits().file)
    arguments = ["compile", source, "-t", "opencl", "--device-for", "*softmax*=cpu", "-o", str(bundle)]
    sentence = "1 of 5 nodes stays on the CPU: 1 was put there by name: *softmax* (softmax)"
    way = 'on the device instead: leave out --device-for "*softmax*=cpu"'
    for command in (arguments, ["inspect", str(bundle)]):
        result = CliRunner().invoke(program, command)
        assert result.exit_code == 0, result.output
        assert sentence in result.output
        assert way in result.output
    listed = CliRunner().invoke(program, ["inspect", str(bundle), "--nodes"], env={"COLUMNS": "200"}).output
    assert "why on the CPU" in listed
    inspected = json.loads(CliRunner().invoke(program, ["inspect", str(bundle), "--json"]).output)
    (row,) = (node["stay"] for node in inspected["graph"]["nodes"] if "stay" in node)
    assert row == {"reason": "asked", "pattern": "*softmax*"}
    made = json.loads(CliRunner().invoke(program, [*arguments, "--json"]).output)
    assert [(each["sources"], each["stay"]) for each in made["on_cpu"]] == [(["softmax"], row)]


def test_runtimes_ignore_it(tmp_path: Path) -> None:
    """The C runtime loads a bundle whatever a node says there; Python's tools want a reason."""
    bundle = handmade_bundle.write(tmp_path / "bundle")

    def say(what: Any) -> Callable[[Any], object]:
        return lambda graph: graph["nodes"][0].update(stay=what)

    x = np.ones((handmade_bundle.ROWS, handmade_bundle.COLUMNS), np.float32)
    with load(edited(bundle, say({"reason": "moonlight", "more": [{"deep": [1, 2.5, None]}]}))) as made:
        np.testing.assert_array_equal(made.run({"x": x})["y"], handmade_bundle.expected(x)["y"])
    assert stay.summary(read_graph(bundle)["nodes"]) == "1 of 3 nodes stays on the CPU: 1 moonlight (Mul_0)"
    for wrong in ("moonlight", {}, {"reason": 3}, {"reason": "size", "dims": [1]}, {"reason": "slower", "cpu_ns": -1}):
        with pytest.raises(SternaError, match="malformed"):
            read_graph(edited(bundle, say(wrong)))
