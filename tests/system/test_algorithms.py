"""`sterna tune --max-error`: algorithms of layers by what kernels cost, within a bound that is held and remembered."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import sterna.records
from sterna.api import compile_model
from sterna.cli import program
from sterna.frontends.onnx import read
from sterna.options import Options
from sterna.targets.description import load_target
from sterna.tuning.algorithms import chosen, feeds_of, measured_layers
from sterna.tuning.kernels import Task
from support.convolutions import CHANNELS, network

OPTIONS = Options(load_target("x86-64-v3"), "llvm", math=1e-3)


def dear(which: str, factor: float) -> Any:
    """Costs of kernels: multiply-adds and elements, more of those whose name has a word."""

    def cost(task: Task) -> float:
        name = task.call.kernel.name
        return (task.multiply_adds + 1.0) * (factor if which in name else 1.0)

    return cost


def ways(cost: Any) -> dict[str, Any]:
    return {name: layer.ways[-1].tile for name, layer in measured_layers(read(network()), OPTIONS, cost).items()}


def test_what_kernels_cost_decides() -> None:
    """By multiply-adds the largest tiles win; where their transforms are dear, the definition does."""
    tiled = ways(dear("", 1.0))
    assert len(tiled) == 3
    assert {len(tile) for tile in tiled.values()} == {2}
    assert min(min(tile) for tile in tiled.values()) >= 4
    assert ways(dear("winograd", 1e9)) == {}


def test_a_kernel_that_fails_is_no_way() -> None:
    assert ways(lambda task: float("inf") if "winograd" in task.call.kernel.name else 1.0) == {}


def test_a_definition_that_fails_gives_way() -> None:
    """The layers are computed by tiles, whose cost is a number."""

    def cost(task: Task) -> float:
        return float("inf") if "conv" in task.call.kernel.name else 1.0

    layers = measured_layers(read(network()), OPTIONS, cost)
    assert len(layers) == 3
    assert all(math.isinf(layer.exact) for layer in layers.values())
    assert all(math.isfinite(way.cycles) for layer in layers.values() for way in layer.ways)


def test_the_bound_is_held_on_the_samples_that_are_given(tmp_path: Path) -> None:
    graph = read(network(large=2.0**14))
    place = tmp_path / "samples.npz"
    shape = (3, 1, CHANNELS, 16, 16)
    np.savez(place, x=np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    found = chosen(graph, OPTIONS, dear("", 1.0), feeds_of(graph, place))
    assert 0 < found.measured.error <= 1e-3
    assert (found.measured.sets, found.measured.data, found.measured.tuned) == (3, "samples.npz", True)
    assert "3 samples of samples.npz" in found.measured.text
    strict = chosen(graph, Options(OPTIONS.target, "llvm", math=1e-9), dear("", 1.0), feeds_of(graph, place))
    assert (strict.ways, strict.options.tiles) == ({}, ())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(network(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_what_was_chosen_is_printed_kept_and_taken(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles multiply a quarter as often, which a busy machine shows, too."""
    monkeypatch.setenv("STERNA_TUNING", str(tmp_path / "r.db"))
    words = ["tune", str(model), "-g", "llvm", "--trials", "0", "--max-error", "1e-3"]
    done = CliRunner().invoke(program, words)
    assert done.exit_code == 0, done.output
    assert "outputs differ from exact ones by at most" in done.output
    assert "--math fast=0.001" in done.output
    with sterna.records.Database(tmp_path / "r.db") as database:
        (known,) = database.algorithms()
    assert 0 < known.error <= known.bound == 1e-3
    assert known.after < known.before
    found = compile_model(model, generator="llvm", math="fast=1e-3").math
    assert found is not None
    assert found.tuned
    assert len(found.tiles) == sum(bool(way["tile"]) for way in known.ways.values())
    exact = compile_model(model, generator="llvm")
    assert (exact.math, exact.options.tiles) == (None, ()), "nothing trades accuracy unasked"
    unasked = compile_model(model, generator="llvm", math="fast=1e-3", tuning=False).math
    assert unasked is not None
    assert not unasked.tuned


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--max-error", "2"], "E0002"),
        (["--data", "x.npz"], "E0002"),
        (["--max-error", "1e-3", "--data", "x.npz"], "E0003"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], code: str, model: Path) -> None:
    done = CliRunner().invoke(program, ["tune", str(model), "--json", *words])
    assert done.exit_code != 0
    assert code in done.output
