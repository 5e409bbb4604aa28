"""Models that went through ONNX Runtime's optimizers and quantizers, compiled, against ONNX Runtime.

    STERNA_CASES=1 pytest tests/models/test_onnx_runtime_tools.py      # whole models, every optimizer on every one

Without it: the first layers of each, and the optimizer of its own family.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import sterna
from sterna.errors import SternaError
from support.networks import NETWORKS
from support.transformers import TRANSFORMERS

LEVELS = onnxruntime.GraphOptimizationLevel
NAMES = (*TRANSFORMERS, "mobilenet_v2")
WHOLE = "STERNA_CASES" in os.environ
FAMILIES = [("encoder", "bert"), ("decoder", "gpt2"), *([("encoder", "gpt2"), ("decoder", "bert")] if WHOLE else [])]
# Weights are quantized to 7 bits: with more, ONNX Runtime is not exact on every processor (`support.onnx_runtime`).
#: One step of the last result's 8 bits, for graphs whose results are quantized.
STEP = 2e-2


def made(name: str, folder: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """The model as a file, and its inputs."""
    if name in TRANSFORMERS:
        model, feeds = TRANSFORMERS[name](layers=2 if WHOLE else 1)
    else:
        model = NETWORKS[name](size=32, stages=7 if WHOLE else 2)
        feeds = {"image": np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)}
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return path, feeds


def session(path: Path, level: Any = LEVELS.ORT_DISABLE_ALL, save: Path | None = None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    if save is not None:
        options.optimized_model_filepath = str(save)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def saved(path: Path, level: Any) -> Path:
    """The model as ONNX Runtime saves it after its own optimization."""
    result = path.with_name(f"{path.stem}_optimized.onnx")
    session(path, level, result)
    return result


def compare(path: Path, feeds: dict[str, np.ndarray], tolerance: float = 1e-4) -> set[str]:
    """Agreement relative to the largest output; returns the operators."""
    expected = session(path).run(None, feeds)
    with sterna.compile(path, generator="llvm") as bundle:
        for found, want in zip(bundle.run(feeds).values(), expected, strict=True):
            assert np.abs(found - want).max() <= tolerance * np.abs(want).max()
    return {node.op_type for node in onnx.load(path).graph.node}


@pytest.mark.parametrize("name", NAMES)
def test_graph_optimization(name: str, tmp_path: Path) -> None:
    path, feeds = made(name, tmp_path)
    operators = compare(saved(path, LEVELS.ORT_ENABLE_EXTENDED), feeds)
    assert operators & {"SkipLayerNormalization", "FusedConv", "FusedMatMul"}


@pytest.mark.parametrize(("name", "family"), FAMILIES)
def test_transformer_optimization(name: str, family: str, tmp_path: Path) -> None:
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    path, feeds = made(name, tmp_path)
    options = FusionOptions(family)
    for together in (False, True):
        options.use_multi_head_attention = together
        optimized = tmp_path / f"optimized{together}.onnx"
        optimize_model(
            str(path), family, num_heads=4, hidden_size=32, optimization_options=options, opt_level=0
        ).save_model_to_file(str(optimized))
        operators = compare(optimized, feeds)
        assert "SkipLayerNormalization" in operators
    quantized = tmp_path / "quantized.onnx"
    quantize_dynamic(
        tmp_path / "optimizedFalse.onnx", quantized, reduce_range=True,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )  # fmt: skip
    compare(quantized, feeds, STEP)


@pytest.mark.parametrize(("name", "kind", "per_channel"), [
    ("encoder", QuantType.QInt8, True), ("decoder", QuantType.QUInt8, False),
], ids=str)  # fmt: skip
def test_dynamic_quantization(name: str, kind: Any, per_channel: bool, tmp_path: Path) -> None:
    path, feeds = made(name, tmp_path)
    quantized = tmp_path / "quantized.onnx"
    quantize_dynamic(path, quantized, weight_type=kind, per_channel=per_channel, reduce_range=True)
    assert "MatMulInteger" in compare(quantized, feeds, STEP)
    assert "DynamicQuantizeMatMul" in compare(saved(quantized, LEVELS.ORT_ENABLE_EXTENDED), feeds, STEP)


class _Once(CalibrationDataReader):
    """Calibration with one set of inputs."""

    def __init__(self, feeds: dict[str, np.ndarray]):
        self.left: Iterator[dict[str, np.ndarray]] = iter([feeds])

    def get_next(self) -> Any:
        return next(self.left, None)


@pytest.mark.parametrize(("name", "form", "types"), [
    ("encoder", QuantFormat.QDQ, ("QUInt8", "QUInt8", False)),
    ("encoder", QuantFormat.QOperator, ("QInt8", "QInt8", True)),
    ("mobilenet_v2", QuantFormat.QDQ, ("QInt8", "QInt8", True)),
    ("mobilenet_v2", QuantFormat.QOperator, ("QUInt8", "QInt8", True)),
], ids=str)  # fmt: skip
def test_static_quantization(name: str, form: Any, types: tuple[str, str, bool], tmp_path: Path) -> None:
    path, feeds = made(name, tmp_path)
    quantized = tmp_path / "quantized.onnx"
    activation, weight, per_channel = types
    quantize_static(
        path, quantized, _Once(feeds), quant_format=form, activation_type=QuantType[activation],
        weight_type=QuantType[weight], per_channel=per_channel, reduce_range=True,
    )  # fmt: skip
    compare(quantized, feeds, STEP)
    compare(saved(quantized, LEVELS.ORT_ENABLE_ALL), feeds, STEP)


def test_layouts_of_one_processor_are_refused(tmp_path: Path) -> None:
    path, _ = made("mobilenet_v2", tmp_path)
    optimized = saved(path, LEVELS.ORT_ENABLE_ALL)
    if not any(node.domain == "com.microsoft.nchwc" for node in onnx.load(optimized).graph.node):
        pytest.skip("ONNX Runtime has no layout of its own for this processor")
    with pytest.raises(SternaError, match="ORT_ENABLE_EXTENDED") as caught:
        sterna.compile(optimized)
    assert set(caught.value.codes) == {"E0104"}
