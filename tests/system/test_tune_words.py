"""What `sterna tune` prints: numbers that add up, plurals, and what was found where nothing was."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sterna.choices import Choice
from sterna.cli import tune
from sterna.errors import SternaError
from sterna.options import Options
from sterna.records import Confirmed, Database, Record, target_id
from sterna.targets.description import host
from sterna.tuned import Best
from sterna.tuning.kernels import Task
from sterna.tuning.machines import machine
from sterna.tuning.tuner import Progress, Report, Tuner
from sterna.tuning.whole import Whole
from sterna_runtime.cli.reports import calls_text, number_of
from support.tuned_layers import run, two_layers


def kernel(name: str, **known: Any) -> Progress:
    return Progress(cast(Task, SimpleNamespace(name=name, calls=1, kernel=name)), **known)


def report(*kernels: Progress, ended: str = "trials", whole: Whole | None = None) -> Report:
    return Report(kernels, (), "s", sum(p.spent for p in kernels), 1.5, ended, whole)


def said(found: Report, capsys: pytest.CaptureFixture[str]) -> str:
    tune._print(found)
    return capsys.readouterr().out


def test_one_and_many() -> None:
    assert [number_of(n, "kernel") for n in (0, 1, 1200)] == ["0 kernels", "1 kernel", "1,200 kernels"]
    assert calls_text(1, 1) == "1 node calls 1 kernel"
    assert calls_text(6, 1) == "6 nodes call 1 kernel"


def test_the_gain_is_that_of_the_costs_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    """What was kept is shown by its confirmation, and not by the luckiest sample of the search."""
    text = said(report(kernel("a", before=6.0, best=4.0, after=5.0, spent=1, confirmed=True)), capsys)
    (row,) = (line.split() for line in text.splitlines() if line.split()[:1] == ["a"])
    assert row == ["a", "1", "6.00", "s", "5.00", "s", "1.20x", "1", "0", "kept"]
    assert "1 trial in" in text
    assert "1 kernel is faster" in text


def test_what_was_not_faster_again_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    chance = kernel("a", before=6.0, best=4.0, spent=1)
    sentence = "1 kernel that looked faster was not so in turns with the rules' own"
    assert sentence in said(report(chance), capsys)
    assert sentence not in said(report(chance, ended="interrupted"), capsys)
    assert sentence not in said(report(chance, whole=Whole(1.0, 2.0)), capsys)
    assert sentence not in said(report(kernel("a", before=6.0, best=6.0, spent=1)), capsys)


def test_where_nothing_was_measured_there_is_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(report(kernel("a", why="no time was left for it"), ended="time"), capsys)
    assert "not tuned: a: no time was left for it" in text
    assert "0 trials in 1.50 s (the time is over): no kernel was measured" in text
    assert "calls" not in text


def test_costs_of_some_kernels_are_not_those_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    """What was interrupted has measured a part of the model; what has the same reason is told in one line."""
    late = [kernel(name, why="no time was left for it") for name in ("b", "c", "d", "e")]
    text = said(report(kernel("a", before=6.0, best=6.0), *late, kernel("f", why="too large"), ended="time"), capsys)
    assert "0 kernels are faster; the 1 measured of 6 kernels together 6.00 s -> 6.00 s" in text
    assert "not tuned: b, c, d and 1 other: no time was left for it\n" in text
    assert "not tuned: f: too large\n" in text


@pytest.mark.parametrize(
    ("device", "why", "fix"),
    [
        ("node", "error[E0507]: compiled for host", 'compile the model with target="browser"'),
        ("rpc://pi", "error[E0507]: graph.json: compiled for host", "is; `sterna rpc doctor` describes it"),
        ("qemu:raspberrypi4", "error[E0004]: graph.json: needs dotprod", "fix: target has to be what the device is"),
        ("serial:b.toml", "error[E0810]: flashing failed", "fix: run a bundle on serial:b.toml to see more"),
        ("chromium", "error[E0511]: Chromium ended with status 1", None),
    ],
)
def test_a_device_that_measures_nothing_is_told_with_its_own_fix(device: str, why: str, fix: str | None) -> None:
    tuner = SimpleNamespace(_measurer=SimpleNamespace(devices=(device,)), options=Options(host()))
    with pytest.raises(SternaError) as refused:
        Tuner._refuse(cast(Tuner, tuner), why)
    text = f"{refused.value}\n"
    assert text.startswith(f"{why[:13]} no kernel can be measured: {why[14:]}\n  {device}\n"), text
    assert (f"{fix}\n" in text) if fix else ("fix:" not in text), text


def test_where_no_algorithm_is_faster_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_TUNING", str(tmp_path / "tuning.db"))
    monkeypatch.setattr(Tuner, "run", lambda *_: report(kernel("a", before=6.0, best=6.0, spent=1)))
    sentence = "every layer is computed as the model defines it"
    model = two_layers(tmp_path)
    assert sentence in run("tune", model, "--max-error", "1e-3").stdout


def test_a_search_without_time_ends_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_TUNING", str(tmp_path / "tuning.db"))
    done = run("tune", two_layers(tmp_path), "-g", "llvm", "--time", "0.001s", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["ended"] == "time"


def test_a_search_begins_at_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at what other records have found, which are not asked."""
    monkeypatch.setenv("STERNA_TUNING", str(tmp_path))  # no records, which `compile` warns of
    seen: list[Options] = []

    def search(self: Tuner, *_: object) -> Report:
        seen.append(self.options)
        return report()

    monkeypatch.setattr(Tuner, "run", search)
    done = run("tune", two_layers(tmp_path), "-g", "llvm", "--records", tmp_path / "own.db")
    assert (done.exit_code, done.stderr) == (0, "")
    assert seen[0].tuning is None


def record(device: str = "", error: str = "", choice: Choice | None = None) -> Record:
    own = ("k", "layer", target_id(host()), "host", "llvm", device, "s", choice or {"tile": (1, 1)}, "[]")
    return Record(*own, () if error else (1.0,), error, (), "rules", "machine", 1.0)


def test_the_log_fits_80_columns_wherever_devices_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with Database(tmp_path / "t.db") as database:
        database.add(record())
        database.add(record("rpc://a-device-with-a-long-name.example.org:9190"))
    lines = run("tune", "log", "--records", tmp_path / "t.db").stdout.splitlines()
    assert "host on the machine that tuned" in lines
    assert "host on rpc://a-device-with-a-long-name.example.org:9190" in lines
    assert sum(line.split()[:2] == ["layer", "1"] for line in lines) == 2
    empty = tmp_path / "empty.db"
    with Database(empty):
        pass
    assert run("tune", "log", "--records", empty).stdout == f"no trials are in {empty}\n"


def test_damaged_files_are_told_together_and_nothing_is_merged(tmp_path: Path) -> None:
    with Database(tmp_path / "good.db") as database:
        database.add(record())
    bad = [tmp_path / "a.db", tmp_path / "b.db"]
    for place in bad:
        place.write_bytes(b"no database at all" * 100)
    done = run("tune", "merge", tmp_path / "good.db", *bad, "--records", tmp_path / "own.db")
    assert done.exit_code == 1
    assert all(str(place) in done.stderr for place in bad)
    assert done.stderr.count("error[E0007]") == 2
    assert not (tmp_path / "own.db").exists()
    done = run("tune", "merge", tmp_path / "good.db", "--records", tmp_path / "own.db")
    assert done.stdout == "1 trial and 0 choices that won are new\n"


def test_a_line_that_is_cut_off_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "cut.jsonl").write_text('{"sterna_tuning":1}\n{"trial":{"kernel":"ab')
    done = run("tune", "import", tmp_path / "cut.jsonl", "--records", tmp_path / "own.db")
    assert "line 2: it is no JSON (character 20: Unterminated string starting at)" in done.stderr
    assert not (tmp_path / "own.db").exists(), "nothing half-written"


def test_an_export_is_imported_and_a_database_is_merged(tmp_path: Path) -> None:
    """Who takes one for the other is told the right command."""
    other, own, text = tmp_path / "other.db", tmp_path / "own.db", tmp_path / "export.jsonl"
    with Database(other) as database:
        database.add(record())
    assert run("tune", "export", text, "--records", other).exit_code == 0
    assert f"fix: sterna tune merge {other}\n" in run("tune", "import", other, "--records", own).stderr
    assert f"fix: sterna tune import {text}\n" in run("tune", "merge", text, "--records", own).stderr


@pytest.mark.parametrize(("columns", "heads"), [("40", ["kernel", "rules", "best"]), ("80", None)])
def test_a_narrow_terminal_shows_names_and_costs(
    columns: str, heads: list[str] | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    one = kernel("convolution_of_many_words", before=1.234e-6, best=1.1e-6, after=1.1e-6, spent=128, confirmed=True)
    lines = said(report(one), capsys).splitlines()
    assert "…" not in "".join(lines)
    assert heads is None or heads in [line.split() for line in lines]
    assert "1.10 us" in "".join(lines)


def test_a_command_that_is_misspelt_is_no_model(tmp_path: Path) -> None:
    done = run("tune", "exprot", tmp_path / "out.jsonl")
    assert done.exit_code == 2
    assert "did you mean `sterna tune export`?" in done.stderr
    assert "E0101" in run("tune", "resnet.onnx").stderr


def test_help_has_the_words_that_are_typed() -> None:
    text = run("tune", "x.onnx", "--help").stdout
    assert "tune [OPTIONS] MODEL" in text
    assert "tune model" not in text
    assert "--no-tuning" not in text
    assert "--no-tuning" in run("compile", "--help").stdout


@pytest.mark.parametrize(
    ("on", "says"),
    [("", lambda here: here), ("rpc://pi:9190", lambda here: "rpc://pi:9190"),
     ("node", lambda here: f"Node.js on {here}"), ("qemu:raspberrypi4", lambda here: "qemu:raspberrypi4")],
)  # fmt: skip
def test_what_measured_is_named_and_not_what_asked(on: str, says: Callable[[str], str]) -> None:
    options = Options(host())
    found = machine(options, on)
    assert found == says(machine(options))
    own = Confirmed("k", target_id(options.target), "host", on, {"tile": (1, 1)}, "[]", 2.0, 1.0, "s", found, 1.0)
    best = Best([own, replace(own, kernel="other")])
    best.chooser("k", options.target)
    assert best.machines == (found,)
