"""`sterna tune` and what follows from it: a search, a killed one that goes on, what compile takes, what is refused."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import sterna
import sterna.api
from sterna.choices import Choice
from sterna.cli import tune
from sterna.driver import compile_graph, outline_of, reading
from sterna.errors import SternaError, error
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.ir.graph import Graph
from sterna.loops.program import Function
from sterna.options import Options
from sterna.passes import programs
from sterna.passes.kernels import Call
from sterna.passes.plan_kernels import fingerprint
from sterna.records import Confirmed, Database, Record, target_id
from sterna.schedule.schedule import Schedule
from sterna.targets.description import host
from sterna.targets.target import Target
from sterna.tuned import Best
from sterna.tuning import measure, worker
from sterna.tuning import tuner as tuner_module
from sterna.tuning.kernels import tasks_of
from sterna.tuning.measure import Local
from sterna.tuning.tuner import Report, Tuner
from sterna.tuning.words import difference
from sterna.tuning.worker import Trial
from sterna_runtime.random_inputs import random_inputs
from support.tools import ROOT
from support.tuned_layers import DEPTH, run, two_layers


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return two_layers(tmp_path)


@pytest.fixture(autouse=True)
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "records" / "tuning.db"
    monkeypatch.setenv("STERNA_TUNING", str(place))
    return place


def test_a_search_and_what_compile_makes_of_it(model: Path, records: Path, tmp_path: Path) -> None:
    done = run("tune", model, "-g", "llvm", "--trials", 4, "--explorer", "grid", "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["trials"], report["ended"], report["unit"]) == (4, "trials", "s")
    assert len(report["kernels"]) == 2
    assert report["after"] <= report["before"]
    with Database(records) as database:
        trials = database.trials()
        assert len(trials) == 6  # and the rules' own of each
        won = {each.kernel for each in database.confirmed()}
        assert won == {k["kernel"] for k in report["kernels"] if k["confirmed"]}
        # One of them is made to win, whatever the machine measures.
        other = next(r for r in trials if r.explorer == "grid" and not r.error)
        own = (other.kernel, other.target, other.target_name, "", other.choice, other.steps)
        database.confirm(Confirmed(*own, 2.0, 1.0, "s", other.machine, other.time))
    made = run("compile", model, "-g", "llvm", "-o", tmp_path / "tuned", "--json")
    tuned = json.loads(made.stdout)["tuning"]
    assert tuned["kernels"] == len(won | {other.kernel})
    assert tuned.pop("machines") == [other.machine]
    assert json.loads((tmp_path / "tuned" / "graph.json").read_text())["tuning"] == tuned
    assert "tuning" not in json.loads(run("compile", model, "--no-tuning", "-o", tmp_path / "plain", "--json").stdout)
    x = {"x": np.random.default_rng(1).standard_normal((4, DEPTH)).astype(np.float32)}
    with sterna.load(tmp_path / "tuned") as a, sterna.load(tmp_path / "plain") as b:
        np.testing.assert_allclose(a.run(x)["y"], b.run(x)["y"], rtol=1e-4, atol=1e-3)
    log = run("tune", "log")
    assert log.exit_code == 0
    assert "MatMul" in log.stdout or "h" in log.stdout
    rules = next(r for r in trials if r.explorer == "rules" and r.kernel == other.kernel)
    (says,) = difference(rules.choice, other.choice)[:1]
    assert " -> " in says
    assert says in log.stdout
    assert run("tune", "export", tmp_path / "out.jsonl").exit_code == 0
    again = run("tune", "import", tmp_path / "out.jsonl", "--records", tmp_path / "other.db")
    assert again.stdout.startswith("6 trials")
    assert "0 trials" in run("tune", "merge", tmp_path / "other.db").stdout
    assert "grid" in run("tune", "plot").stdout


def opened(model: Path) -> tuple[Graph, Options]:
    options = Options(host(), "llvm")
    return read_model(Source.of(model), reading(options)), options


def search(model: Path, records: Path, trials: int) -> Report:
    graph, options = opened(model)
    with Database(records) as database:
        return Tuner(graph, options, database, explorer="random", seed=5).run(trials)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_search_that_was_ended_goes_on(model: Path, records: Path, number: int) -> None:
    """Nothing that was measured is lost, and nothing is measured twice."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    command = [sys.executable, "-m", "sterna", "tune", str(model), "-g", "llvm", "--explorer", "random"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    before: list[object] = []
    deadline = time.monotonic() + 60
    while len(before) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
        if records.exists():
            with Database(records) as database:
                before = list(database.trials())
    process.send_signal(number)
    status = process.wait(240)  # After SIGINT, what is best is confirmed, which takes its time on a busy machine.
    assert status == (-number if number == signal.SIGKILL else 130)
    with Database(records) as database:
        known = {(r.kernel, str(r.choice)): r for r in database.trials()}
    assert len(known) >= len(before) >= 4
    assert search(model, records, 4).trials == 4
    with Database(records) as database:
        after = {(r.kernel, str(r.choice)): r for r in database.trials()}
    assert len(after) == len(known) + 4
    assert all(after[key].time == r.time for key, r in known.items() if r.explorer != "rules")


def test_a_kernel_that_crashes_or_hangs_costs_one_trial(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(host(), "llvm")
    tasks, left = tasks_of(read_model(Source.of(model), reading(options)), options)
    assert left == []
    with Local(seconds=300) as measurer:
        good = measurer.measure(tasks[0], {})
        assert good.samples
        process = measurer._process
        assert process is not None
        process.kill()
        assert "the process ended with status" in measurer.measure(tasks[0], {}).error
        assert measurer.measure(tasks[0], {}).samples
        measurer._seconds = 0.01
        assert measurer.measure(tasks[1], {}).error == "no answer in 0.01 s"
        measurer._seconds = 300
        assert measurer.measure(tasks[1], {}).samples
        assert measurer._folder is not None
        folder = Path(measurer._folder.name)
        assert folder.is_dir()
    assert not folder.exists()


def test_what_is_far_behind_is_measured_once(model: Path, tmp_path: Path) -> None:
    """One sample says that it will not win; without anything to compare with there are as many as always."""
    with sterna.load(sterna.api.compile_to(tmp_path / "layers", model, generator="llvm")) as bundle:
        bundle.run(random_inputs(bundle.inputs, 0))
        found = [len(worker.times(bundle, on="elsewhere", copied=False, least=least)) for least in (math.inf, 1e-12)]
    assert found == [worker.SAMPLES, 1]


class Pretended:
    """A device on which every choice takes as long as it says."""

    unit = "s"
    devices = ("",)
    width = 1

    def __init__(self, wins: bool):
        self.asked: list[str] = []
        self._wins = wins
        self.compared: list[object] = []
        self.whole: Sequence[Sequence[float]] | str = ((2.0, 2.1), (1.5, 1.4))

    def measure(self, task: object, choice: object) -> Trial:
        self.asked.append(str(choice))
        turn = len(self.asked)
        cost = 1.0 if not choice else (0.5 if self._wins or turn < 12 else 1.5)
        return Trial(choice or {"none": 1}, "[]", (cost,), "", (1.0, float(turn)))  # type: ignore[arg-type]

    def turns(self, bundles: Sequence[Path], part: bool = False) -> Sequence[Sequence[float]] | str:
        self.compared = [json.loads((bundle / "graph.json").read_text()).get("tuning") for bundle in bundles]
        return self.whole

    def measure_all(self, task: object, choices: Sequence[object]) -> Iterator[Trial]:
        for choice in choices:
            yield self.measure(task, choice)

    def __enter__(self) -> Pretended:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("wins", [True, False])
def test_what_does_not_win_again_is_not_kept(wins: bool, model: Path, records: Path) -> None:
    graph, options = opened(model)
    with Database(records) as database:
        report = Tuner(graph, options, database, measurer=Pretended(wins), model=False).run(8)  # type: ignore[arg-type]
        assert bool(database.confirmed()) == wins
        assert report.before / report.after == pytest.approx(2.0 if wins else 1.0, rel=0.5)
        assert any(p.confirmed for p in report.kernels) == wins


class Interrupted(Pretended):
    """The same, but at these measurements somebody presses Ctrl-C."""

    def __init__(self, *turns: int):
        super().__init__(True)
        self._turns = turns

    def measure(self, task: object, choice: object) -> Trial:
        found = super().measure(task, choice)
        if len(self.asked) in self._turns:
            raise KeyboardInterrupt
        return found


@pytest.mark.parametrize(("turns", "won"), [((6,), 1), ((6, 8), 0), ((15,), 0)])
def test_an_interrupted_search_confirms_what_is_best(
    turns: tuple[int, ...], won: int, model: Path, records: Path
) -> None:
    """The first Ctrl-C ends the search, the next one the confirmation: nothing wins by half a run."""
    graph, options = opened(model)
    with Database(records) as database:
        tuner = Tuner(graph, options, database, measurer=Interrupted(*turns), model=False)  # type: ignore[arg-type]
        report = tuner.run(8)
        assert report.ended == "interrupted"
        assert len(database.confirmed()) == won
        assert sum(p.confirmed for p in report.kernels) == won


def test_a_search_that_is_interrupted_at_once_has_measured_nothing(model: Path, records: Path) -> None:
    graph, options = opened(model)
    with Database(records) as database:
        tuner = Tuner(graph, options, database, measurer=Interrupted(1), model=False)  # type: ignore[arg-type]
        report = tuner.run(8)
    assert {p.why for p in report.kernels} == {"the search was ended before it was measured"}
    assert (report.ended, report.before, report.after, report.gain) == ("interrupted", 0, 0, 1)


def test_a_bug_is_recorded_as_one_and_shown(model: Path, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice that is illegal fails with its code; what no strategy foresaw says that it is a bug, and where."""
    options = Options(host(), "llvm")
    tasks, _ = tasks_of(read_model(Source.of(model), reading(options)), options)

    def broken(*_: object) -> Schedule:
        raise AssertionError("sums beside no reduction")

    with monkeypatch.context() as patch:
        patch.setattr(type(tasks[0]), "schedule", broken)
        text = worker.build(tasks[0], {}).error
    assert text.startswith("error[E0901]: internal error: AssertionError: sums beside no reduction (test_tune.py")
    target = target_id(options.target)
    with Database(records) as database:
        for n in range(2):
            own = (tasks[0].kernel, "layer", target, "host", "llvm", "", "s", {"tile": (1, n + 1)}, "[]")
            database.add(Record(*own, (), text, (), "random", "machine", 1.0))
    assert f"{text}: 2 trials, first of layer" in run("tune", "log").stdout
    (said,) = json.loads(run("tune", "log", "--json").stdout)["internal"]
    assert (said["error"], said["trials"]) == (text, 2)


def test_an_interrupted_measurement_leaves_no_answer_behind(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer that nobody waited for is not taken for that to the next request."""
    options = Options(host(), "llvm")
    tasks, _ = tasks_of(read_model(Source.of(model), reading(options)), options)

    def interrupted(stream: object) -> object:
        raise KeyboardInterrupt

    with Local() as measurer:
        with monkeypatch.context() as patch:
            patch.setattr(measure, "receive", interrupted)
            with pytest.raises(KeyboardInterrupt):
                measurer.measure(tasks[0], {})
        found = measurer.measure(tasks[0], {"tile": (1, 1)})
        assert found.choice["tile"] == (1, 1)
        assert found.samples


@pytest.mark.parametrize(
    ("costs", "kept"),
    [(((2.0, 2.1, 9.0), (1.9, 1.8, 1.7)), 1), (((2.0, 2.1, 9.0), (2.2, 2.1, 2.3)), 0), ("it does not fit", 1)],
)
def test_what_makes_the_model_slower_is_dropped(costs: Any, kept: int, model: Path, records: Path) -> None:
    """Kernels that are faster alone may be slower in the model."""
    options, device = Options(host(), "llvm"), Pretended(True)
    device.whole = costs
    graph = read_model(Source.of(model), reading(options))
    with Database(records) as database:
        report = Tuner(graph, options, database, measurer=device, model=False).run(8)
        assert len(database.confirmed()) == sum(p.confirmed for p in report.kernels) == kept
    assert report.whole is not None
    rules, tuned = device.compared
    assert rules is None
    assert tuned is not None
    if isinstance(costs, str):
        assert report.whole.why == costs
    else:
        assert (report.whole.before, report.whole.after) == (2.0, 1.7 if kept else 2.1)


def chained(tmp_path: Path) -> Path:
    """A layer that is followed by a function, which may be a kernel of its own."""
    weights = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
    constants = [helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel())]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["r"])]
    nodes.append(helper.make_node("Tanh", ["r"], ["y"]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (6, c)) for n, c in (("x", 4), ("y", 8))]
    graph = helper.make_graph(nodes, "chained", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "chained.onnx")
    return tmp_path / "chained.onnx"


@pytest.mark.parametrize(("after", "won"), [((1.5, 1.4), True), ((2.0, 1.99), False)])
def test_a_part_that_is_faster_otherwise_is_what_compile_makes(
    after: tuple[float, ...], won: bool, records: Path, tmp_path: Path
) -> None:
    model, options, device = chained(tmp_path), Options(host(), "llvm"), Pretended(False)
    device.whole = ((2.0, 2.1), after)
    graph = read_model(Source.of(model), reading(options))
    with Database(records) as database:
        report = Tuner(graph, options, database, measurer=device, model=False).run(8)  # type: ignore[arg-type]
        tried = [record for record in database.trials() if record.explorer == "parts"]
        assert [(record.choice, record.samples, record.features) for record in tried] == [({"end": 2}, after, ())]
        assert [dict(each.choice) for each in database.confirmed()] == ([{"end": 2}] if won else [])
        assert len(report.parts) == won
        # What has lost is not measured again; what has won is.
        again = Tuner(graph, options, database, measurer=device, model=False).run(8)  # type: ignore[arg-type]
        assert len(again.parts) == won
        assert len(database.trials(tried[0].kernel)) == 2
    made = run("compile", model, "-g", "llvm", "-o", tmp_path / "tuned", "--json")
    plain = run("compile", model, "-g", "llvm", "-o", tmp_path / "plain", "--no-tuning", "--json")
    nodes = [len(json.loads((tmp_path / n / "graph.json").read_text())["nodes"]) for n in ("tuned", "plain")]
    assert nodes[0] - nodes[1] == won
    assert json.loads(made.stdout).get("tuning", {}).get("parts", 0) == won
    assert "tuning" not in json.loads(plain.stdout)
    if won:
        assert "end 3 -> 2" in run("tune", "log").stdout
        x = {"x": np.random.default_rng(1).standard_normal((6, 4)).astype(np.float32)}
        with sterna.load(tmp_path / "tuned") as a, sterna.load(tmp_path / "plain") as b:
            np.testing.assert_allclose(a.run(x)["y"], b.run(x)["y"], rtol=1e-5, atol=1e-6)


class SlowerAsAWhole(Pretended):
    """Parts are faster otherwise, the model with them is not."""

    def turns(self, bundles: Sequence[Path], part: bool = False) -> Sequence[Sequence[float]] | str:
        return ((2.0,), (1.5,)) if part else ((4.0,), (4.1,))


def test_parts_that_lose_in_the_model_leave_no_measurement_of_it(records: Path, tmp_path: Path) -> None:
    """The report's kernels are by the rules then, and so is the model."""
    graph = read_model(Source.of(chained(tmp_path)), reading(options := Options(host(), "llvm")))
    with Database(records) as database:
        report = Tuner(graph, options, database, measurer=SlowerAsAWhole(False), model=False).run(8)  # type: ignore[arg-type]
        assert [record.explorer for record in database.trials() if record.samples == (1.5,)] == ["parts"]
        assert database.confirmed() == []
    assert (report.parts, report.whole, report.gain) == ((), None, 1.0)


def test_nothing_is_gained_where_nothing_was_measured() -> None:
    assert Report((), (), "s", 0, 0.0, "time").gain == 1.0


def test_models_are_measured_in_turns(model: Path, tmp_path: Path) -> None:
    assert run("compile", model, "-g", "llvm", "-o", tmp_path / "bundle").exit_code == 0
    with Local() as measurer:
        found = measurer.turns([tmp_path / "bundle", tmp_path / "bundle"])
        assert not isinstance(found, str)
        assert [len(each) for each in found] == [5, 5]
        assert all(0 < cost < 1 for each in found for cost in each)
        parts = measurer.turns([tmp_path / "bundle", tmp_path / "bundle"], part=True)
        assert [len(each) for each in parts] == [5, 5]
        assert "graph.json" in str(measurer.turns([tmp_path / "nowhere"]))


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"vector_bits": 512, "tile": (6, 2), "by_position": False, "tasks": 8}, []),
        ({"vector_bits": 256, "tile": (8, 2)}, ["vectors 512 bits -> 256 bits", "tile 6 x 2 -> 8 x 2"]),
        ({"by_position": True, "block": 4}, ["by position no -> yes", "block none -> 4"]),
        ({"keep_s0_exp": True, "tasks.2": 4}, ["keep s0_exp none -> yes", "tasks (2) none -> 4"]),
    ],
)
def test_a_choice_in_words(choice: Choice, words: list[str]) -> None:
    assert difference({"vector_bits": 512, "tile": (6, 2), "by_position": False, "tasks": 8}, choice) == words


def test_a_kernel_has_one_name_in_every_model(model: Path, tmp_path: Path) -> None:
    other = onnx.load(model)
    for node in other.graph.node:
        node.name = "renamed"
    other.graph.input[0].name = "image"
    other.graph.node[0].input[0] = "image"
    onnx.save(other, tmp_path / "other.onnx")
    options, names = Options(host(), "llvm"), []
    for path in (model, tmp_path / "other.onnx"):
        graph = read_model(Source.of(path), reading(options))
        tasks, _ = tasks_of(graph, options)
        names.append([task.kernel for task in tasks])
        assert [fingerprint(call) for call in outline_of(graph, options).sequence.calls] == names[-1]
    assert names[0] == names[1]


def test_tuned_targets_are_not_mixed_up(model: Path, records: Path) -> None:
    graph = read_model(Source.of(model), reading(Options(host(), "llvm")))
    tasks, _ = tasks_of(graph, Options(host(), "llvm"))
    trace = {"tile": (1, 1)}
    with Database(records) as database:
        own = (tasks[0].kernel, target_id(host()), "host", "")
        database.confirm(Confirmed(*own, trace, "[]", 2.0, 1.0, "s", "", 0.0))
    tuned = sterna.api.options_of("host", generator="llvm")
    assert tuned.tuning is not None
    assert sterna.api.options_of("x86-64-v2", generator="llvm").tuning is None
    assert sterna.api.options_of("host", tuning=False).tuning is None
    made = compile_graph(graph, "layers", tuned)
    plain = compile_graph(graph, "layers", Options(host(), "llvm"))
    assert made.kernels[0].schedule is not None
    assert plain.kernels[0].schedule is not None
    assert made.kernels[0].schedule.steps != plain.kernels[0].schedule.steps
    assert tuned.tuning.kernels == 1


def test_a_choice_that_leads_to_no_loops_is_left(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a tile that does not fit where the kernel is, compile takes the rules' own."""
    graph, options = opened(model)
    tasks, _ = tasks_of(graph, options)
    own = (tasks[0].kernel, target_id(host()), "host", "")
    best = Best([Confirmed(*own, {"tile": (1, 1)}, "[]", 2.0, 1.0, "s", "", 0.0)])
    real = programs.lower_call

    def refuse(call: Call, schedule: Schedule | None, target: Target) -> Function:
        if schedule is not None and best.kernels:
            raise error("E0303", "no loops")
        return real(call, schedule, target)

    plain = compile_graph(graph, "layers", options)
    monkeypatch.setattr(programs, "lower_call", refuse)
    made = compile_graph(graph, "layers", replace(options, tuning=best))
    assert best.kernels == 0
    assert made.source == plain.source


def test_how_long_a_search_goes_on_is_said(model: Path, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Database(records) as database:
        tuner = Tuner(read_model(Source.of(model), reading(Options(host()))), Options(host()), database)
    monkeypatch.setattr(tune.time, "monotonic", lambda: tuner.started + 60)
    assert tune.stage(tuner, 500, None) == "0 of 500 trials; Ctrl-C ends the search"
    assert "at most 19 min left" in tune.stage(tuner, 500, 1200)
    tuner.trials = 50
    assert "50 of 500 trials, at most 9 min left" in tune.stage(tuner, 500, 7200)
    assert "at most 12 s left" in tune.stage(tuner, 60, 7200)
    assert "at most 1 h 39 min left" in tune.stage(tuner, 5000, None)


@pytest.mark.parametrize("name", ["model", "log", "export", "import", "merge", "plot"])
def test_every_part_has_help(name: str) -> None:
    shown = run("tune", name, "--help")
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_the_function(model: Path) -> None:
    with pytest.raises(SternaError, match="explorer"):
        sterna.tune(model, explorer="guess")
    report = sterna.tune(model, generator="llvm", trials=1, explorer="random")
    assert report.trials == 1


@pytest.mark.parametrize(("passed", "more"), [(0.0, True), (14.0, True), (16.0, False)])
def test_decisions_above_kernels_get_a_quarter_of_the_time(
    passed: float, more: bool, model: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels of a slow device would have none left otherwise."""
    left: list[int] = []

    def search(*arguments: Any) -> SimpleNamespace:
        now = time.monotonic()
        with monkeypatch.context() as later:
            later.setattr(time, "monotonic", lambda: now + passed)
            left.append(arguments[3]())
        return SimpleNamespace(run=dict)

    monkeypatch.setattr(tuner_module, "Search", search)
    graph, options = opened(model)
    with Database(records) as database:
        Tuner(graph, options, database, measurer=Pretended(False), model=False).run(8, 60.0)  # type: ignore[arg-type]
    assert left == [2 if more else 0]
