"""Golden sets: made with a bundle, replayed by the command and from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import sterna
from sterna.cli import program
from sterna.errors import SternaError
from sterna.frontends import frontend
from sterna_runtime import hash64
from support.golden import counter
from support.trained import sample

MODEL = Path(__file__).resolve().parents[2] / "compiler" / "sterna" / "demo" / "digits.onnx"
MODELS = {
    "strings": (
        """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml": 3]>
        net (string[N] s) => (int64[N] y, string[N] z) {
          y = ai.onnx.ml.LabelEncoder<keys_strings: strings=["a", "b"], values_int64s: ints=[3, 4]>(s)
          z = Identity(s) }""",
        ["--dim", "N=5"],
    ),
    "sequences": (
        """<ir_version: 8, opset_import: ["" : 17]>
        net (seq(float[2]) s) => (float[K] y, seq(float[2]) t) {
          y = ConcatFromSequence<axis: int = 0>(s)  t = Identity(s) }""",
        ["--shape", "s[0]=2", "--shape", "s[1]=2"],
    ),
    "sizes": (
        """<ir_version: 8, opset_import: ["" : 17]>
        net (float[batch, n] x) => (float[batch, n] y, float[n, batch] z) { y = Softmax(x)  z = Transpose(x) }""",
        ["--dim", "batch=1..4", "--dim", "n=1..9"],
    ),
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("golden") / "digits"
    assert run("compile", MODEL, "-g", "llvm", "-o", place, "--golden", 3).exit_code == 0
    return place


def copy_of(bundle: Path, place: Path, **files: bytes) -> Path:
    """The bundle with other contents of the golden files, and hashes that are right for them."""
    place.mkdir()
    given = {name.replace("_", "."): data for name, data in files.items()}
    for path in bundle.iterdir():
        (place / path.name).write_bytes(given.get(path.name, path.read_bytes()))
    graph = json.loads((place / "graph.json").read_bytes())
    for name, data in given.items():
        graph["files"][name] = {"bytes": len(data), "hash": hash64(data)}
    members = {key: value for key, value in graph.items() if key not in ("sterna", "hash")}
    rest = json.dumps(members).encode()[1:]
    (place / "graph.json").write_bytes(b'{"sterna":1,"hash":"%s",\n' % hash64(rest).encode() + rest)
    return place


def test_a_set_is_replayed(bundle: Path) -> None:
    result = run("verify", bundle, "--golden")
    assert result.exit_code == 0, result.output
    assert "digits agrees with" in result.stdout
    assert "in 3 golden sets" in result.stdout
    facts = json.loads(run("verify", bundle, "--golden", "--threads", 2, "--json").stdout)
    assert (facts["ok"], facts["sets"]) == (True, 3)
    assert [row["set"] for row in facts["outputs"]] == [0, 1, 2]
    with sterna.load(bundle) as loaded:
        replay = loaded.verify_golden()
        assert replay.ok
        assert replay.error < 1e-5
        assert loaded.verify_golden(tolerance=0).ok == (replay.error == 0)


@pytest.mark.parametrize("name", MODELS)
def test_sets_of_every_kind(name: str, tmp_path: Path) -> None:
    text, options = MODELS[name]
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    made = run("compile", tmp_path / "m.onnx", "-g", "llvm", "-o", tmp_path / "b", "--golden", 4, *options)
    assert made.exit_code == 0, made.output
    assert run("verify", tmp_path / "b", "--golden").exit_code == 0
    again = run("verify", tmp_path / "m.onnx", "-g", "llvm", *options)
    assert again.exit_code == 0, "verify knows such inputs too"


@pytest.mark.parametrize(
    "options", [["--weights", "bf16"], ["--math", "fast"], ["--weights", "fp16", "--math", "fast"]]
)
def test_sets_of_bundles_that_trade_accuracy(options: list[str], tmp_path: Path) -> None:
    place = tmp_path / "b"
    assert run("compile", MODEL, "-g", "llvm", "-o", place, "--golden", 2, *options).exit_code == 0
    assert run("verify", place, "--golden").exit_code == 0


def test_a_model_that_remembers(tmp_path: Path) -> None:
    """Every set begins with the first state, whatever ran before."""
    model = sample("silero_vad_16k_f32")
    shapes = [f"--shape={name}={','.join(map(str, shape))}" for name, shape in model.shapes().items()]
    place = tmp_path / "b"
    made = run("compile", model.file, "-g", "llvm", "-o", place, "--golden", 2, *shapes)
    assert made.exit_code == 0, made.output
    with sterna.load(place) as bundle:
        assert bundle.verify_golden().ok
        assert bundle.verify_golden().ok


def test_sets_of_the_interpreter_hold_no_states(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It gives what the states hold, too."""
    monkeypatch.setattr(frontend, "installed_version", lambda *distributions: None)
    (tmp_path / "m.tflite").write_bytes(counter().content())
    made = run("compile", tmp_path / "m.tflite", "-g", "llvm", "-o", tmp_path / "b", "--golden", 2)
    assert made.exit_code == 0, made.output
    with sterna.load(tmp_path / "b") as bundle:
        replay = bundle.verify_golden()
    assert replay.reference == "the interpreter"
    assert replay.ok
    assert len(replay.outputs) == 2


def test_what_differs_is_named(bundle: Path, tmp_path: Path) -> None:
    data = bytearray((bundle / "golden.bin").read_bytes())
    golden = json.loads((bundle / "golden.json").read_bytes())
    at = golden["sets"][1]["outputs"][0]["offset"]
    data[at : at + 4] = np.float32(0.75).tobytes()
    spoiled = copy_of(bundle, tmp_path / "b", golden_bin=bytes(data))
    result = run("verify", spoiled, "--golden")
    assert result.exit_code == 1
    assert "error[E0008]: 1 of 3 golden outputs differ from" in result.stderr
    assert "scores of set 1: at [0, 0] it is " in result.stderr
    assert "should be 0.75, tolerance 0.0001" in result.stderr
    assert run("verify", spoiled, "--golden", "--tolerance", 2).exit_code == 0
    assert json.loads(run("verify", spoiled, "--golden", "--json").stdout)["errors"][0]["code"] == "E0008"


def test_integers_are_equal_or_wrong(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (int64[4] x) => (int64[4] y) <int64 most = {1000000000}> { y = Mul(x, most) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert run("compile", tmp_path / "m.onnx", "-g", "llvm", "-o", tmp_path / "b", "--golden", 1).exit_code == 0
    golden = json.loads((tmp_path / "b" / "golden.json").read_bytes())
    data = bytearray((tmp_path / "b" / "golden.bin").read_bytes())
    at = golden["sets"][0]["outputs"][0]["offset"]
    data[at] ^= 1  # one of a thousand millions
    assert run("verify", tmp_path / "b", "--golden").exit_code == 0
    assert run("verify", copy_of(tmp_path / "b", tmp_path / "c", golden_bin=bytes(data)), "--golden").exit_code == 1


def test_refusals(bundle: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    assert run("compile", MODEL, "-g", "llvm", "-o", plain).exit_code == 0
    for arguments, code, says, status in (
        ((plain, "--golden"), "E0503", "the bundle has no golden sets", 1),
        ((MODEL, "--golden"), "E0006", "--golden replays a bundle", 1),
        ((bundle,), "E0006", "is a directory, not a model", 1),
        ((bundle, "--golden", "--seed", 3, "--weights", "fp16"), "E0002", "--weights, --seed is of no use", 2),
    ):
        result = run("verify", *arguments)
        assert result.exit_code == status
        assert result.stderr.startswith(f"error[{code}]"), result.stderr
        assert says in result.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda g: g.update(sets=3),
        lambda g: g.pop("tolerance"),
        lambda g: g["sets"][0].pop("inputs"),
        lambda g: g["sets"][0]["outputs"].clear(),
        lambda g: g["sets"][0]["outputs"][0].update(offset=-4),
        lambda g: g["sets"][0]["outputs"][0].update(bytes=10**12),
        lambda g: g["sets"][0]["outputs"][0].update(dims=[2, 10]),
        lambda g: g["sets"][0]["outputs"][0].update(dtype="float7"),
        lambda g: g["sets"][0]["outputs"][0].update(dtype="object"),
    ],
)
def test_malformed_sets(bundle: Path, tmp_path: Path, change: Any) -> None:
    golden = json.loads((bundle / "golden.json").read_bytes())
    change(golden)
    spoiled = copy_of(bundle, tmp_path / "b", golden_json=json.dumps(golden).encode())
    with sterna.load(spoiled) as loaded, pytest.raises(SternaError) as caught:
        loaded.verify_golden()
    assert caught.value.codes == ("E0504",)


def test_damaged_sets(bundle: Path, tmp_path: Path) -> None:
    place = copy_of(bundle, tmp_path / "b")
    data = bytearray((place / "golden.bin").read_bytes())
    data[5] ^= 1
    (place / "golden.bin").write_bytes(data)
    result = run("verify", place, "--golden")
    assert result.exit_code == 1
    assert result.stderr.startswith("error[E0505]: golden.bin: not what was written")
