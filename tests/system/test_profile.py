"""`sterna profile`, and its traces."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import sterna
from sterna.cli import program
from support.trained import digits


def command(*arguments: object) -> Result:
    return CliRunner().invoke(program, ["profile", *(str(a) for a in arguments)], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("profile") / "digits"
    return sterna.compile_to(place, digits().file, generator="llvm", threads=2)


def test_every_node_with_its_rates(bundle: Path) -> None:
    found = json.loads(command(bundle, "--repeat", 5, "--json").stdout)
    assert found["runs"] == 5
    for node in found["nodes"]:
        if node["median"] and node["multiply_adds"]:
            assert node["gflops"] == pytest.approx(2 * node["multiply_adds"] / node["median"])
            assert 0 < node["roof"] < 5
    text = command(bundle, "--repeat", 5).stdout
    assert "k4_conv_add_relu" in text
    assert re.search(r"limits here: [\d.]+ GFLOP/s", text)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_trace_has_every_node_and_its_tasks(threads: int, bundle: Path, tmp_path: Path) -> None:
    place = tmp_path / "trace.json"
    assert command(bundle, "--repeat", 1, "--threads", threads, "--trace", place).exit_code == 0
    events = json.loads(place.read_text())["traceEvents"]
    nodes = [event for event in events if event.get("cat") == "node"]
    tasks = [event for event in events if event.get("cat") == "tasks"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    graph = json.loads((bundle / "graph.json").read_text())
    assert [event["args"]["node"] for event in nodes] == list(range(len(graph["nodes"])))
    assert {tracks[event["tid"]] for event in nodes} == {"nodes"}
    assert {tracks[event["tid"]] for event in tasks} <= {f"worker {n}" for n in range(threads)}
    for before, after in itertools.pairwise(nodes):
        assert after["ts"] >= before["ts"] + before["dur"] - 1
    for number, node in enumerate(graph["nodes"]):
        own = [event for event in tasks if event["args"]["node"] == number]
        done = sorted(t for event in own for t in range(*event["args"]["tasks"]))
        assert done == list(range(node["tasks"])), "every task once"
        for event in own:
            assert event["ts"] >= nodes[number]["ts"]
            assert event["ts"] + event["dur"] <= nodes[number]["ts"] + nodes[number]["dur"] + 1e-3


def test_results_are_the_same_while_traced(bundle: Path) -> None:
    import numpy as np

    from sterna.report.trace import Tracing
    from sterna_runtime import library, load

    x = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    with load(bundle) as plain:
        wanted = plain.run({"image": x})["scores"]
    tracing = Tracing()
    with library.replaced_by(tracing), load(bundle, 2) as model:
        np.testing.assert_array_equal(model.run({"image": x})["scores"], wanted)
    assert tracing.parts


def test_what_is_refused(bundle: Path, tmp_path: Path) -> None:
    def code(*arguments: object) -> str:
        result = command(*arguments)
        assert result.exit_code != 0
        return str(re.findall(r"error\[(E\d{4})\]", result.stderr)[0])

    assert code(bundle, "--trace", tmp_path / "t.txt") == "E0007"
    assert code(bundle, "--trace", tmp_path / "no" / "t.json") == "E0007"
    assert code(digits().file) == "E0006"
    assert code(tmp_path) == "E0006"
    assert code(bundle, "--dim", "n=3") == "E0002"
    assert list(tmp_path.iterdir()) == []
