"""`--math fast`: what is faster within a bound that is measured, held, printed and stored in the bundle."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import sterna
from sterna import fast
from sterna.api import compile_model, options_of
from sterna.cli import program
from sterna.compiled import Measured
from sterna.debug import verify
from sterna.debug.verify import verify_model
from sterna.frontends.onnx import read
from support.convolutions import CHANNELS, network
from support.planted import plant
from support.trained import sample


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fast") / "net.onnx"
    onnx.save(network(), place)
    return place


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(program, [str(a) for a in arguments])


def measured(model: Any, math: str = "fast", **settings: Any) -> Measured:
    found = compile_model(model, generator="llvm", math=math, **settings).math
    assert found is not None
    return found


def test_what_is_measured_is_what_runs(path: Path, tmp_path: Path) -> None:
    exact = sterna.compile(path, generator="llvm")
    quick = sterna.compile(path, generator="llvm", math="fast", output=tmp_path / "b")
    x = np.random.default_rng(0).standard_normal((1, CHANNELS, 16, 16)).astype(np.float32)
    wanted, got = exact.run({"x": x}), quick.run({"x": x})
    stored = json.loads((tmp_path / "b" / "graph.json").read_text())["math"]
    assert stored["bound"] == 1e-3
    assert [row["layer"] for row in stored["tiles"]] == ["first", "second", "third"]
    assert all(row == {"layer": row["layer"], "taps": [3, 3], "outputs": [4, 4]} for row in stored["tiles"])
    assert set(stored["errors"]) == {"y", "z"}
    for name, array in wanted.items():
        error = float(np.abs(got[name] - array).max() / np.abs(array).max())
        assert 0 < error <= 2 * stored["errors"][name] < 1e-4
    assert stored["error"] == max(stored["errors"].values())


def test_exact_is_the_default(path: Path, tmp_path: Path) -> None:
    assert compile_model(path, generator="llvm").math is None
    assert run("compile", path, "-g", "llvm", "-o", tmp_path / "b", "--math", "exact").exit_code == 0
    assert "math" not in json.loads((tmp_path / "b" / "graph.json").read_text())


def test_it_is_printed_and_inspected(path: Path, tmp_path: Path) -> None:
    made = run("compile", path, "-g", "llvm", "-o", tmp_path / "b", "--math", "fast=1e-2")
    assert made.exit_code == 0, made.output
    says = "convolutions by Winograd: 3 by F(4 x 4, 3 x 3); outputs differ from exact ones by at most "
    assert says in made.stdout
    assert "the bound is 1.0e-02 (measured on 2 sets of random inputs)" in made.stdout
    shown = run("inspect", tmp_path / "b").stdout
    assert says in shown
    assert ": y " in shown
    assert ", z " in shown
    facts = json.loads(run("compile", path, "-g", "llvm", "-o", tmp_path / "c", "--math", "fast", "--json").stdout)
    assert facts["math"]["bound"] == 1e-3
    assert 0 < facts["math"]["error"] < 1e-4


@pytest.mark.parametrize("bound", [3e-7, 1e-6, 1e-8])
def test_the_bound_is_held(bound: float, path: Path) -> None:
    """One that no tile, or not every one, is within: smaller tiles, and fewer."""
    free, held = measured(path), measured(path, f"fast={bound}")
    assert free.error > bound
    assert held.error <= bound
    assert sum(outputs[0] for _, _, outputs in held.tiles) < sum(outputs[0] for _, _, outputs in free.tiles)
    if not held.tiles:
        assert "nothing traded: what could be exceeds the bound" in held.text
        assert held.error == 0


def test_the_layer_of_the_largest_error_gives_way(tmp_path: Path) -> None:
    """Large inputs that cancel in the definition: only the output that depends on them loses digits."""
    free = measured(network(large=300.0))
    errors = dict(free.errors)
    assert errors["y"] != errors["z"]
    worse = max(errors, key=lambda name: errors[name])
    bound = (errors["y"] * errors["z"]) ** 0.5
    held = measured(network(large=300.0), f"fast={bound}")
    assert held.error <= bound
    tiles = {layer: outputs[0] for layer, _, outputs in held.tiles}
    last, other = ("second", "third") if worse == "y" else ("third", "second")
    assert tiles.get(last, 0) < 4
    assert tiles.get(other) == 4


def wrong(made: Any) -> Any:
    """A pass's graph with filters of tiles that are one per cent too large."""
    scaled = {v: replace(v, data=v.data * np.float32(1.01)) for v in made.constants() if len(v.shape) == 3}
    nodes = (replace(n, inputs=tuple(scaled.get(v, v) for v in n.inputs)) for n in made.nodes)
    return replace(made, nodes=tuple(nodes))


def test_a_pass_that_is_wrong_is_never_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever makes results differ by more than the bound: what is measured decides."""
    plant(monkeypatch, "winograd", wrong)
    found = measured(path)
    assert found.tiles == ()
    assert found.layers == 3


def test_other_machines_are_measured_here(path: Path) -> None:
    found = measured(path, target="arm64")
    assert found.machine == "host"
    assert found.tiles
    assert measured(path, target="x86-64-v2").machine == "x86-64-v2"


def dense(size: int = 1024) -> onnx.ModelProto:
    """A layer of one row, whose weights take longer to read than to multiply by, and one of as many rows as columns."""
    random = np.random.default_rng(5)
    weights = {name: random.standard_normal((size, size)) / 32 for name in ("v", "w")}
    sizes = {"x": [1, size], "y": [1, size], "a": [size, size], "b": [size, size]}
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()}
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "row"), helper.make_node("MatMul", ["a", "v"], ["b"], "square")],
        "g",
        [values["x"], values["a"]],
        [values["y"], values["b"]],
        [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_products_that_wait_for_weights_read_half() -> None:
    exact = compile_model(dense(), target="x86-64-v3", generator="llvm")
    quick = compile_model(dense(), target="x86-64-v3", generator="llvm", math="fast")
    assert quick.math is not None
    assert quick.math.halves == ("row",)
    assert "weights in fp16: 1 of the products that wait for them" in quick.math.text
    assert len(exact.params) - len(quick.params) >= 2 * 1024 * 1024, "half of the weights, and of what fills panels"
    assert 1e-6 < dict(quick.math.errors)["y"] <= 1e-3
    assert dict(quick.math.errors)["b"] == 0
    held = measured(dense(), "fast=1e-6", target="x86-64-v3")
    assert (held.halves, held.error, held.layers) == ((), 0.0, 1)


def chain(layers: int = 8, size: int = 256) -> onnx.ModelProto:
    """Products one behind the other, of which no row waits for its weights."""
    random = np.random.default_rng(6)
    weights = {f"w{n}": random.standard_normal((size, size)) / 16 for n in range(layers)}
    names = ["x", *(f"y{n}" for n in range(layers))]
    nodes = [helper.make_node("MatMul", [names[n], f"w{n}"], [names[n + 1]], f"p{n}") for n in range(layers)]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size, size])],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, [size, size])],
        [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_factors_of_16_bits_where_the_processor_multiplies_them_faster() -> None:
    target = "x86-64-v4-bf16"
    free = measured(chain(), "fast=0.1", target=target)
    assert free.narrow == tuple((f"p{n}", "bfloat16") for n in range(8))
    assert "products of factors in bf16: 8" in free.text
    assert 1e-4 < free.error <= 2e-2
    # About the square of the share of the error that is allowed, and never beyond it.
    held = measured(chain(), f"fast={fast.MARGIN * free.error}", target=target)
    some = measured(chain(), f"fast={0.9 * fast.MARGIN * free.error}", target=target)
    assert held.error <= free.error
    assert some.error <= 0.9 * free.error
    assert 0 < len(some.narrow) < len(held.narrow) == 8
    none = measured(chain(), "fast=1e-5", target=target)
    assert (none.narrow, none.error, none.layers) == ((), 0.0, 8)
    assert not measured(chain(), "fast=0.1", target="x86-64-v4").layers


def test_factors_of_16_bits_are_stored_and_inspected(tmp_path: Path) -> None:
    onnx.save(chain(2), tmp_path / "m.onnx")
    facts = ("-g", "llvm", "-o", tmp_path / "b", "--math", "fast=0.05", "--target", "x86-64-v4-bf16")
    made = run("compile", tmp_path / "m.onnx", *facts)
    assert made.exit_code == 0, made.output
    stored = json.loads((tmp_path / "b" / "graph.json").read_text())["math"]
    assert stored["narrow"] == [{"layer": f"p{n}", "dtype": "bfloat16"} for n in range(2)]
    assert "products of factors in bf16: 2" in run("inspect", tmp_path / "b").stdout


def test_models_of_integers_have_nothing_to_trade(tmp_path: Path) -> None:
    made = run("compile", sample("tflm_person_detect_int8").file, "-g", "llvm", "-o", tmp_path / "b", "--math", "fast")
    assert made.exit_code == 0, made.output
    assert "nothing to trade: no layer is faster otherwise" in made.stdout
    stored = json.loads((tmp_path / "b" / "graph.json").read_text())["math"]
    assert (stored["tiles"], stored["halves"], stored["errors"], stored["error"]) == ([], [], {}, 0.0)


@pytest.mark.parametrize("text", ["fast=0", "fast=-1", "fast=1", "fast=nan", "fast=inf", "fast=", "fast=x", "slow", ""])
def test_bounds_that_are_none(text: str, path: Path, tmp_path: Path) -> None:
    result = run("compile", path, "-o", tmp_path / "b", "--math", text)
    assert result.exit_code == 2
    assert f'error[E0002]: --math "{text}" is neither exact nor fast' in result.stderr
    assert "fix: --math fast=1e-3" in result.stderr


def test_verify_judges_it_by_its_bound(path: Path) -> None:
    report = verify_model(path, options_of(generator="llvm", math="fast=1e-4"), tolerance=1e-6)
    (trade,) = report.trades
    assert report.ok, "the tolerance is the reference's"
    assert 0 < trade.error <= trade.bound == 1e-4
    result = run("verify", path, "-g", "llvm", "--math", "fast")
    assert result.exit_code == 0
    assert "results of fast arithmetic agree with those of exact arithmetic" in " ".join(result.stdout.split())


def test_verify_finds_what_was_not_measured(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_of(generator="llvm", math="fast")
    decided = fast.decide(read(path), "net", options)
    monkeypatch.setattr(verify, "decide", lambda *arguments: decided)
    plant(monkeypatch, "winograd", wrong)
    report = verify_model(path, options)
    assert not report.ok
    (trade,) = report.trades
    assert trade.error > trade.bound == 1e-3
    assert trade.first is not None
    assert "first" in trade.first.sources


def test_another_output_leaves_no_room_for_rounded_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles have the largest error of one output, whether factors of another are rounded or not."""
    tiled = fast.Layer("tiled", (fast.Way(tile=(2, 2), cycles=1.0),))
    rough = fast.ROUGHNESS["bfloat16"]
    rounded = fast.Layer("rounded", (fast.Way(narrow="bfloat16", cycles=1.0, rough=rough),), exact=2.0)
    layers, options = {"y": tiled, "z": rounded}, options_of(math="fast=1e-3")
    search = fast._Search(read(network()), "net", options, layers, lambda words: None)

    def errors(levels: dict[str, int]) -> dict[str, float]:
        return {"y": 5e-4, "z": 3e-4 if "z" in levels else 0.0}

    monkeypatch.setattr(search, "_errors", errors)
    assert search._by_roughness() == ({"y": 0}, errors({}))
