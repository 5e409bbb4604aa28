"""Calls on the CPU and on a device: which are where, and whether copies show everyone the newest contents."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import helper, parser

from sterna.api import compile_model, compile_to, options_of
from sterna.bundle.devices_json import with_copies
from sterna.driver import Compiled, Options, compile_graph, outline_of, reading
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.passes.device_cost import on_device
from sterna.passes.kernels import CPU
from sterna.passes.linearize import Placement
from sterna.passes.placement import Coherence, controlled
from sterna.passes.stages import Outline, call_bytes
from sterna.targets.description import load_target
from sterna_runtime.reader import bundle_of_browser
from support.compiling import facts
from support.control_flow import CHOICE, TRIPS, model
from support.data_sized import detector
from support.every_operator import every_operator, without_float64
from support.open_networks import rows
from support.small_models import residual_network
from support.trained import digits

DEVICE = "opencl"


def imported(source: Any, **settings: Any) -> Outline:
    """A model for a target with a device, before its calls are placed."""
    options = options_of("opencl", **settings)
    return outline_of(read_model(source, reading(options)), options)


def compiled(source: Any, **settings: Any) -> Compiled:
    return compile_model(source, "opencl", **settings)


def test_kernels_of_several_outputs_have_the_threads_of_all() -> None:
    """The border of a padded tensor is written by a thread for each element of every box, not by one."""
    graph = parser.parse_graph("""
        agraph (float[1, 64, 64, 8] x) => (float[1, 66, 66, 8] y)
        { pads = Constant <value = int64[8] {0, 1, 1, 0, 0, 1, 1, 0}> ()  y = Pad (x, pads) }""")
    target, calls = load_target(DEVICE), imported(helper.make_model(graph)).sequence.calls
    (border,) = (call for call in calls if call.name.endswith(":border"))
    assert target.device is not None
    assert len(border.outputs) > 1
    assert on_device(border, target) == pytest.approx(call_bytes(border) / target.device.bytes_per_ns)


def test_one_device_copies_inputs_and_outputs_alone() -> None:
    graph = facts(compiled(digits().file))
    copies = [(node["name"], node["from"], node["to"]) for node in graph["nodes"] if node.get("op") == "copy"]
    assert copies == [("copy image", 0, 1), ("copy scores", 1, 0)]
    assert all(node.get("device") == 1 for node in graph["nodes"] if "op" not in node)
    assert graph["sterna"] == 5
    assert "library" not in graph
    assert graph["arena"]["bytes"] == 0 < graph["devices"][0]["arena_bytes"]
    assert graph["devices"][0]["params"][1] > 0


def test_what_the_user_keeps_on_the_cpu_stays_there() -> None:
    made = compiled(digits().file, device_for={"*softmax*": "cpu"})
    graph = facts(made)
    names = [kernel["name"] for kernel in graph["kernels"]]
    own = [name for name, kernel in zip(names, graph["kernels"], strict=True) if "device" not in kernel]
    assert [name.split("_", 1)[1] for name in own] == ["softmax"]
    assert names[: len(own)] == own, "kernels of the library come first"
    assert graph["library"] == "model.so"
    assert graph["target"]["triple"] == load_target("host").triple
    assert made.module.count("__kernel") == len(names) - len(own)


@pytest.mark.parametrize(
    ("given", "title"),
    [({"nothing-like-it": "cpu"}, 'no node or kernel of the model is called "nothing-like-it"'),
     ({"softmax": "moon"}, 'there is no device "moon"')],
)  # fmt: skip
def test_names_that_nothing_has(given: dict[str, str], title: str) -> None:
    with pytest.raises(SternaError, match=title) as caught:
        compiled(digits().file, device_for=given)
    assert caught.value.codes == ("E0203",)


def test_a_target_without_a_device_has_no_places() -> None:
    for given in ({"device_for": {"softmax": "cpu"}}, {"host": "x86-64-v3"}):
        with pytest.raises(SternaError, match="no device beside the CPU") as caught:
            options_of("host", **given)
        assert caught.value.codes == ("E0203",)
    with pytest.raises(SternaError, match="no library that runs beside the device of opencl"):
        options_of("opencl", host="cortex-m4")


def test_types_that_a_device_lacks_stay_on_the_cpu() -> None:
    text = """agraph (double[8] x, float[8] y) => (double[8] a, float[8] b) { a = Exp(x)  b = Exp(y) }"""
    made = compile_model(parser.parse_model(model(text)), "opencl-mali")
    assert {call.outputs[0].dtype: call.place for call in made.calls} == {"float64": CPU, "float32": DEVICE}
    assert facts(made)["devices"][0]["needs"] == []
    assert facts(compiled(parser.parse_model(model(text))))["devices"][0]["needs"] == ["float64"]


@pytest.mark.parametrize("target", ["metal", "opencl-mali"])
def test_no_function_of_float32_is_computed_in_a_type_that_a_device_lacks(target: str) -> None:
    """Powers are computed by pairs of numbers, angles are reduced by integers."""
    functions = ("pow", "zeta", "sin", "cos", "tan")
    graph, _, _ = every_operator(lambda operator, case: operator.name in functions and without_float64(operator, case))
    there = target.partition("-")[0]
    options = Options(load_target(target), host=load_target("host"), generator="llvm", device_for=(("*", there),))
    made = compile_graph(graph, "small", options)
    assert "double" not in made.module
    assert {call.place for call in made.calls} == {there}


@pytest.mark.parametrize("target", ["metal", "opencl-mali"])
def test_powers_that_are_products_need_no_type_that_a_device_lacks(target: str) -> None:
    """As in GELU by tanh: the exponent is a constant of the model, which schedules put where it is read."""
    text = """agraph (float[64, 64] x) => (float[64, 64] y) <float three = {3}> { a = Pow(x, three)  y = Tanh(a) }"""
    made = compile_model(parser.parse_model(model(text)), target)
    assert [call.stay for call in made.calls] == [None]


def test_what_few_threads_can_share_is_the_cpus() -> None:
    """A recurrence over many steps has one thread; the elements around it have many."""
    text = """agraph (float[1024, 1024] x, float[1024, 1024] y) => (float[1024, 1024] z)
    <int64 axis = {0}, int64[2] long = {1, 1048576}, int64[2] square = {1024, 1024}, int64 along = {1}>
    {
      a = MatMul(x, y)  b = Reshape(a, long)  c = CumSum(b, along)  d = Reshape(c, square)  z = MatMul(d, y)
    }"""
    made = compiled(parser.parse_model(model(text)))
    places = {call.kernel.name: call.place for call in made.calls}
    assert places == {"matmul": DEVICE, "cumulative_sum": CPU}


NETWORKS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "padded": lambda: (digits().file, {}),
    "residual": lambda: (residual_network(), {}),
    "choice": lambda: (parser.parse_model(model(CHOICE)), {}),
    "loop": lambda: (parser.parse_model(model(TRIPS)), {}),
    "computed sizes": lambda: (detector(20, 3, None), {}),
    "open rows": lambda: (rows(), {"dims": {"batch": (1, 4), "length": (2, 9)}}),
    "joined": lambda: (parser.parse_model(model(JOINED)), {}),
}
JOINED = """agraph (float[2, 8] x, float[2, 8] y) => (float[4, 8] z, float[2, 8] w)
    { a = Tanh(x)  b = Exp(y)  c = Concat <axis = 0> (a, b)  d = Relu(c)  z = Tanh(d)  w = Add(a, b) }"""


@pytest.mark.parametrize("name", NETWORKS)
def test_everyone_reads_the_newest_contents(name: str) -> None:
    """Whatever the places are: the contents of a buffer are who wrote to it, in order."""
    source, settings = NETWORKS[name]()
    outline = imported(source, **settings)
    coherence = Coherence(outline.graph, outline.views, outline.sequence, outline.plan)
    fixed = controlled(outline.sequence)
    draw = random.Random(name)
    for _ in range(30):
        places = [CPU if n in fixed else draw.choice([CPU, DEVICE]) for n in range(len(outline.sequence.calls))]
        replay(outline, coherence.placement(places))


def replay(outline: Outline, placement: Placement) -> None:
    """Runs calls and copies on histories in place of numbers."""
    unit_of = {value: n for n, life in enumerate(outline.plan.lives) for value in life.members}

    def unit(value: Any) -> Any:
        root = outline.plan.owner(outline.views.storage(value).root)
        return unit_of.get(root, root)

    seen: dict[str, dict[Any, tuple[Any, ...]]] = {CPU: {}, DEVICE: {}}
    truth: dict[Any, tuple[Any, ...]] = {}
    for value in outline.graph.arguments:
        truth[unit(value)] = seen[CPU][unit(value)] = (value.name,)
    for value, home in zip(outline.graph.live_in, placement.states, strict=True):
        truth[unit(value)] = seen[home][unit(value)] = (value.name,)
    transfers = list(placement.transfers)
    for n, call in enumerate((*outline.sequence.calls, None)):
        while transfers and transfers[0].before == n:
            copy = transfers.pop(0)
            seen[copy.destination][unit(copy.value)] = seen[copy.source].get(unit(copy.value), ())
        if call is None:
            break
        memory = seen[placement.places[n]]
        for value in call.inputs:
            assert memory.get(unit(value), ()) == truth.get(unit(value), ()), f"{call.name} reads {value.name}"
        for value in dict.fromkeys(map(unit, call.outputs)):
            truth[value] = (*truth.get(value, ()), n)
            whole = len(memory.get(value, ())) + 1 < len(truth[value])
            memory[value] = truth[value] if whole and is_whole(outline, call) else (*memory.get(value, ()), n)
    assert not transfers
    for value in outline.graph.results:
        assert seen[CPU].get(unit(value), ()) == truth.get(unit(value), ()), value.name
    for value, home in zip(outline.graph.live_in, placement.states, strict=True):
        assert seen[home][unit(value)] == truth[unit(value)]


def is_whole(outline: Outline, call: Any) -> bool:
    """Whether a call writes all of its one result's buffer."""
    place = outline.views.storage(call.outputs[0])
    return len(call.outputs) == 1 and place.root.shape == call.outputs[0].shape and not call.layouts


def test_a_page_names_the_device_of_a_bundle_that_it_cannot_run(tmp_path: Path) -> None:
    place = compile_to(tmp_path / "digits", digits().file, "opencl")
    with pytest.raises(SternaError, match="compiled for opencl") as caught:
        bundle_of_browser(place)
    assert caught.value.codes == ("E0507",)


def test_control_counts_copies_as_nodes() -> None:
    """Every range begins and ends at the nodes that it began and ended at."""
    graph = facts(compiled(parser.parse_model(model(LOOP))))
    (loop,) = graph["control"]
    first, last = loop["nodes"]
    inside, outside = graph["nodes"][first:last], [*graph["nodes"][:first], *graph["nodes"][last:]]
    assert all("op" not in node and "device" not in node for node in inside)
    assert {node.get("op", node.get("device")) for node in outside} == {"copy", 1}
    assert {source for node in inside for source in node["sources"]} >= {"Tanh_1"}


def test_a_range_that_is_empty_lies_beside_its_copies() -> None:
    """One of the two ranges of a choice may be empty: no copy behind it becomes part of it."""
    made = compiled(parser.parse_model(model(LOOP)))
    ((first, last),) = [(control.first, control.last) for control in made.control]
    assert {transfer.before for transfer in made.placement.transfers if made.placement} >= {first, last}
    nodes = [{"name": call.name} for call in made.calls]
    ranges = {"loop": [first, last], "then": [first, last, last], "else": [first, first, last]}
    _, moved = with_copies(made, nodes, [{"nodes": row} for row in ranges.values()], lambda _: 0)
    loop, then, other = (row["nodes"] for row in moved)
    assert loop[1] - loop[0] == last - first
    assert then == [*loop, loop[1]]
    assert other == [loop[0], *loop]


LOOP = """agraph (int64 trips, float[4, 4] first, float[64, 64] x) => (float[64, 64] y, float[4, 4] last)
    <bool on = {1}, int64[2] zero = {0, 0}, int64[2] four = {4, 4}>
    {
      p = MatMul(x, x)
      part = Slice(p, zero, four)
      last = Loop (trips, on, first) <body = step
        (int64 i, bool going, float[4, 4] s) => (bool going, float[4, 4] t) { q = MatMul(s, part)  t = Tanh(q) }>
      r = MatMul(p, x)
      y = Softmax(r)
    }"""


def test_borders_stay_where_their_tensors_are() -> None:
    """A border is filled by few threads, and is small: moving it would copy all that lies within."""
    text = """agraph (float[1, 32, 64, 64] x, float[32, 32, 3, 3] w) => (float[1, 32, 66, 66] z)
    { a = Conv <pads = [1, 1, 1, 1]> (x, w)  b = Relu(a)
      pads = Constant <value = int64[8] {0, 0, 1, 1, 0, 0, 1, 1}> ()  z = Pad (b, pads) }"""
    made = compiled(parser.parse_model(model(text)))
    assert {call.place for call in made.calls} == {DEVICE}
    assert any("border" in call.kernel.name for call in made.calls)
