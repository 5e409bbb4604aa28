"""Bundles that somebody else made: what Python reads of them is checked, names are no paths, hashes are compared."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import sterna
from sterna.cli import program
from sterna.errors import SternaError
from sterna.package.npm import npm_package
from sterna_runtime.abi import FORMAT
from sterna_runtime.cli import main as device_command
from sterna_runtime.reader import read_graph
from support.handmade_bundle import graph_text
from support.small_models import SmallModel

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Files of a bundle for browsers, with an open dimension."""
    m = SmallModel("batch", 4)
    model = m.done(m("Softmax", m("Mul", "x", m.weight(4))))
    place = tmp_path_factory.mktemp("made") / "b"
    sterna.compile_to(place, model, "browser", dims={"batch": (1, 8)}, generator="llvm")
    return {path.name: path.read_bytes() for path in place.iterdir()}


def write(place: Path, made: dict[str, bytes], change: Callable[[Any], object] = lambda graph: None) -> Path:
    """The bundle with another graph.json, whose own hash is right."""
    place.mkdir()
    for name, data in made.items():
        (place / name).write_bytes(data)
    graph = json.loads(made["graph.json"])
    del graph["sterna"], graph["hash"]
    change(graph)
    (place / "graph.json").write_bytes(graph_text(graph))
    return place


def refuses(code: str, place: Path, tmp_path: Path) -> str:
    """The message of `package`, which must fail so and leave nothing."""
    out = tmp_path / "made" / "package"
    with pytest.raises(SternaError) as caught:
        npm_package(place, out)
    assert caught.value.codes == (code,)
    assert not out.parent.exists()
    return str(caught.value)


def test_the_unchanged_bundle_is_packaged(made: dict[str, bytes], tmp_path: Path) -> None:
    place = npm_package(write(tmp_path / "b", made), tmp_path / "package")
    assert {path.name for path in (place / "model").iterdir()} == {"params.bin", "model.wasm"}
    assert (place / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert '"LICENSE" = "sterna/LICENSE"' in (ROOT / "pyproject.toml").read_text(), "wheels bring it along"


@pytest.mark.parametrize("bundle", [".", "../b", "sub/.."])
def test_a_package_goes_beside_its_bundle(
    bundle: str, made: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sterna package .` was an error of ours: a dot has no name to add to."""
    place = write(tmp_path / "b", made)
    (place / "sub").mkdir()
    monkeypatch.chdir(place)
    result = CliRunner().invoke(program, ["package", bundle, "--for", "npm"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "b-npm" / "package.json").is_file()


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/passwd", "a/b", "..\\x", ".x", "c:x", "", "x" * 200, "con", "a\nb", "-x"]
)
def test_e0504_names_that_are_paths(name: str, made: dict[str, bytes], tmp_path: Path) -> None:
    """`package` copied ../../x to where it leads."""
    (tmp_path / "x").write_bytes(b"secret")
    for n, change in enumerate((
        lambda g: g["files"].update({name: g["files"]["params.bin"]}),
        lambda g: g.update(library=name),
        lambda g: g.update(variants=[{"library": name, "cpu_features": []}]),
    )):  # fmt: skip
        refuses("E0504", write(tmp_path / f"b{n}", made, change), tmp_path)


@pytest.mark.parametrize("file", ["params.bin", "model.wasm"])
def test_e0505_hashes_are_compared_before_anything_is_packaged(
    file: str, made: dict[str, bytes], tmp_path: Path
) -> None:
    place = write(tmp_path / "b", made)
    data = bytearray((place / file).read_bytes())
    data[-1] ^= 1
    (place / file).write_bytes(data)
    assert file in refuses("E0505", place, tmp_path)
    (place / file).write_bytes(data[:-1])
    assert file in refuses("E0505", place, tmp_path)
    (place / file).unlink()
    assert file in refuses("E0503", place, tmp_path)
    (place / "secret").write_bytes(made[file])
    (place / file).symlink_to("secret")
    refuses("E0503", place, tmp_path)
    (place / "graph.json").write_bytes(made["graph.json"].replace(b"batch", b"BATCH"))
    assert "graph.json is damaged" in refuses("E0505", place, tmp_path)


CHANGES: dict[str, Callable[[Any], object]] = {
    "model": lambda g: g.update(model='x"; process.exit() //'),
    "no model": lambda g: g.pop("model"),
    "value": lambda g: g["values"][0].update(name=7),
    "dtype": lambda g: g["values"][0].update(dtype="float9"),
    "inputs": lambda g: g.update(inputs=[99]),
    "twice": lambda g: g.update(inputs=g["inputs"] * 2),
    "node": lambda g: g["nodes"][0].update(kernel=99),
    "sources": lambda g: g["nodes"][0].update(sources="x"),
    "symbol": lambda g: g["symbols"][0].update(name=None),
    "unknown symbol": lambda g: g["values"][0].update(dims=[["d", 5]]),
    "operator": lambda g: g["values"][0].update(dims=[["**", 2, 3]]),
    "division by 0": lambda g: g["values"][0].update(dims=[["/", 2, 0]]),
    "long": lambda g: g["values"][0].update(dims=[["+", *[1] * 300]]),
    "target": lambda g: g.update(target=[]),
    "bytes": lambda g: g["files"]["params.bin"].update(bytes=-1),
    "hash": lambda g: g["files"]["params.bin"].update(hash="XYZ"),
    "no params": lambda g: g["files"].pop("params.bin"),
    "huge": lambda g: g["arena"].update(bytes=2**70),
    "labels": lambda g: g.update(metadata={"labels": {"y": 3}}),
    "options": lambda g: g.update(options={"x": {}}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_e0504_malformed_graphs(
    what: str, made: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = write(tmp_path / "b", made, CHANGES[what])
    refuses("E0504", place, tmp_path)
    for arguments in (["inspect", place], ["inspect", place, "--json"]):
        result = CliRunner().invoke(program, [str(a) for a in arguments])
        assert result.exit_code == 1
        assert result.stderr.startswith("error[E0504]")
        assert device_command([str(a) for a in arguments]) == 1
        assert capsys.readouterr().err.startswith("error[E0504]")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (graph_text(b"[" * 100_000), "E0504"), (graph_text(b'"model": "a", "model": "b"}'), "E0504"),
        (graph_text(b'"x": ' + b"9" * 100_000 + b"}"), "E0504"), (graph_text(b"\xff}"), "E0504"),
        (graph_text(b"}", version=FORMAT + 1), "E0506"), (b"", "E0504"), (b"{}", "E0504"), (b'{"sterna":1,', "E0504"),
    ],
    ids=range(8),
)  # fmt: skip
def test_texts_that_are_no_graph(text: bytes, code: str, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_bytes(text)
    with pytest.raises(SternaError) as caught:
        read_graph(tmp_path)
    assert caught.value.codes == (code,)


def test_names_in_a_package_stay_names(made: dict[str, bytes], tmp_path: Path) -> None:
    """`model` and dimension names went as they are into index.d.ts and README.md; a name may even be half a letter."""
    evil = '"; process.exit(1) //\n*/ export default 1; /* </script> ` ${x} \ud800'

    def change(graph: Any) -> None:
        graph["symbols"][0]["name"] = evil
        for value in graph["values"]:
            value["name"] += evil

    place = npm_package(write(tmp_path / "b", made, change), tmp_path / "package")
    types = (place / "index.d.ts").read_text()
    code = re.sub(r'/\*.*?\*/|"(\\.|[^"\\\n])*"', "...", types, flags=re.DOTALL)
    assert not {"process", "script", "default", "`", "$", '"'} & set(re.findall(r"\w+|[^\w\s]", code))


def test_a_run_of_the_fuzzer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ci/fuzz has more time; here it only works."""
    monkeypatch.syspath_prepend(str(ROOT / "fuzz"))
    from frame import Budget, Fuzzer
    from package import FUZZER

    assert isinstance(FUZZER, Fuzzer)
    budget = Budget(60, 25)
    assert FUZZER.fuzz(budget, 1, tmp_path) == []
    assert budget.made == 25


def test_the_same_seed_makes_the_same_mutations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutation changes its own copy, never the values that later ones choose from."""
    monkeypatch.syspath_prepend(str(ROOT / "fuzz"))
    from package import mutated

    files = {"graph.json": graph_text({"nodes": [{"inputs": [1, 2]}, {"inputs": []}], "pools": {"a": {}}})}

    def thousands() -> list[dict[str, bytes]]:
        chance = random.Random(3)
        return [mutated(files, chance) for _ in range(3000)]

    assert thousands() == thousands()
