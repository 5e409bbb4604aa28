"""verify of models that trade accuracy: what was asked for is no bug, and a bug is still one."""

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

from sterna.api import options_of
from sterna.cli import program
from sterna.debug.verify import Report, verify_model
from sterna.passes import pack


def network(batch: int | str = 2) -> onnx.ModelProto:
    """Weights that are folded into others before they are rounded: by a batch normalization, alpha, a transposition."""
    random = np.random.default_rng(21)
    weights = {
        "kernel": random.standard_normal((16, 8, 3, 3)) / 8,
        "gamma": random.uniform(0.5, 2, 16),
        "beta": random.standard_normal(16),
        "mean": random.standard_normal(16),
        "variance": random.uniform(0.5, 2, 16),
        "gemm": random.standard_normal((24, 16)),
        "turned": random.standard_normal((40, 24)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["n"], "norm"),
        helper.make_node("GlobalAveragePool", ["n"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Concat", ["f", "f"], ["ff"], "twice", axis=1),
        helper.make_node("Concat", ["gemm", "gemm"], ["wide"], "widened", axis=1),
        helper.make_node("Gemm", ["ff", "wide"], ["g"], "gemm_alpha", alpha=0.37, transB=1),
        helper.make_node("Transpose", ["turned"], ["t"], "turn", perm=[1, 0]),
        helper.make_node("Concat", ["g", "g"], ["gg"], "again", axis=1),
        helper.make_node("Concat", ["t", "t"], ["tt"], "high", axis=0),
        helper.make_node("MatMul", ["gg", "tt"], ["y"], "product"),
    ]
    graph = helper.make_graph(
        nodes,
        "folded",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8, 10, 10])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 40])],
        [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def verified(model: onnx.ModelProto | Path, **settings: Any) -> Report:
    asked = {name: settings.pop(name) for name in ("weights", "math", "dims") if name in settings}
    return verify_model(model, options_of(generator="llvm", **asked), **settings)


@pytest.mark.parametrize("against", ["auto", "interpreter"])
@pytest.mark.parametrize("weights", ["fp16", "bf16"])
def test_weights_that_were_to_be_rounded_are_no_bug(weights: str, against: str) -> None:
    report = verified(network(), weights=weights, against=against)
    assert report.ok
    (trade,) = report.trades
    assert trade.option == f"weights in {weights}"
    assert trade.error <= 1e-6, "the same weights, the same sums"
    assert trade.cost > 1e-5, "what rounding does to this network"
    assert weights != "bf16" or trade.cost > report.tolerance
    assert report.error < 1e-5, "the reference judges the model without rounding"


def test_at_several_sizes() -> None:
    report = verified(network("batch"), dims={"batch": (1, 5)}, weights="bf16", math="fast")
    assert report.ok
    assert [trade.option for trade in report.trades] == ["results of fast arithmetic", "weights in bf16"]


def test_nothing_is_traded_without_an_option() -> None:
    assert verified(network()).trades == ()


def test_rounding_otherwise_than_asked_for_is_a_bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Weights that are cut off, not rounded: of the narrow bundle only."""
    real = pack.pack_params

    def cut(calls: Any, kernels: Any, kernel_of: Any, out: Any, alignment: int) -> Any:
        def shorter(n: int) -> Any:
            call, schedule = calls[n], kernels[kernel_of[n]].schedule
            if schedule is None or not schedule.narrowed or "product" not in call.sources:
                return call
            bits = [np.ascontiguousarray(array, np.float32).view(np.uint32) for array in call.constants]
            return replace(call, constants=tuple((b & 0xFFFF0000).view(np.float32) for b in bits))

        return real([shorter(n) for n in range(len(calls))], kernels, kernel_of, out, alignment)

    monkeypatch.setattr(pack, "pack_params", cut)
    report = verified(network(), weights="bf16")
    assert not report.ok
    (trade,) = report.trades
    assert trade.first is not None
    assert "product" in trade.first.sources
    onnx.save(network(), tmp_path / "m.onnx")
    command = ["verify", str(tmp_path / "m.onnx"), "-g", "llvm", "--weights", "bf16"]
    result = CliRunner().invoke(program, command)
    assert result.exit_code == 1
    assert "error[E0008]: with weights in bf16, 1 of 1 outputs differ" in result.stderr
    assert "it comes from the model's product" in result.stderr
    facts = json.loads(CliRunner().invoke(program, [*command, "--json"]).stdout)
    assert facts["ok"] is False
    assert facts["trades"][0]["ok"] is False
