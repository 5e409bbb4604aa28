"""Models that nobody tuned for, as a program for a board brings them: their answers, the stack that they take, and
their C without a warning.

STERNA_FIRMWARE=all runs all of them on four cores, by both generators (three minutes).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import skl2onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor

from sterna.api import compile_to
from sterna.firmware.build import compiler_for
from sterna.firmware.description import read_firmware
from support import boards
from support.small_models import SmallModel
from support.tools import need, run

#: All targets and both generators, or a sample.
ALL = os.environ.get("STERNA_FIRMWARE") == "all"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Wcast-align=strict", "-Werror")
STRICT = ("-std=c99", "-O1", "-ffreestanding", *WARNINGS)


def _of_sklearn(estimator: object, columns: int = 6) -> onnx.ModelProto:
    random = np.random.default_rng(11)
    x = random.standard_normal((240, columns)).astype(np.float32)
    y = (x @ random.standard_normal(columns) > 0).astype(int) + (x[:, 0] > 0.7)
    estimator.fit(x, y)  # type: ignore[attr-defined]
    options = {type(estimator): {"zipmap": False}} if hasattr(estimator, "classes_") else None
    given = [("x", FloatTensorType([1, columns]))]
    return skl2onnx.to_onnx(estimator, initial_types=given, options=options, target_opset=17)


def convolutions_along_time() -> onnx.ModelProto:
    m = SmallModel(1, 3, 50)
    x = m("Relu", m("Conv", "x", m.weight(12, 3, 5, scale=0.3), m.weight(12), pads=[2, 2], strides=[2]))
    x = m("Relu", m("Conv", x, m.weight(12, 1, 3, scale=0.5), pads=[1, 1], group=12))
    x = m("MaxPool", m("Conv", x, m.weight(20, 12, 1, scale=0.3)), kernel_shape=[3], strides=[2])
    x = m("Flatten", m("GlobalAveragePool", x))
    return m.done(m("Softmax", m("Gemm", x, m.weight(5, 20), m.weight(5), transB=1), axis=1))


def recurrent(kind: str, gates: int) -> onnx.ModelProto:
    m = SmallModel(12, 1, 7)
    sizes = ((gates * 9, 7), (gates * 9, 9), (2 * gates * 9,))
    weights = [m.weight(1, *each, scale=0.4) for each in sizes]
    m.nodes.append(onnx.helper.make_node(kind, ["x", *weights], ["states", "last"], hidden_size=9, name="rnn"))
    last = m("Reshape", "last", m.constant([1, 9], np.int64))
    return m.done(m("Gemm", last, m.weight(3, 9), transB=1))


def attention() -> onnx.ModelProto:
    """A block of a transformer, 10 tokens of 16 channels, two heads."""
    m = SmallModel(1, 10, 16)
    parts = []
    for _ in range(3):
        y = m("Reshape", m("MatMul", "x", m.weight(16, 16, scale=0.3)), m.constant([1, 10, 2, 8], np.int64))
        parts.append(m("Transpose", y, perm=[0, 2, 1, 3]))
    scores = m("Mul", m("MatMul", parts[0], m("Transpose", parts[1], perm=[0, 1, 3, 2])), m.constant(8**-0.5))
    y = m("Transpose", m("MatMul", m("Softmax", scores, axis=-1), parts[2]), perm=[0, 2, 1, 3])
    y = m("Add", "x", m("MatMul", m("Reshape", y, m.constant([1, 10, 16], np.int64)), m.weight(16, 16, scale=0.3)))
    y = m("LayerNormalization", y, m.weight(16, low=0.5), m.weight(16), axis=-1)
    z = m("Relu", m("MatMul", y, m.weight(16, 32, scale=0.3)))
    y = m("Add", y, m("MatMul", z, m.weight(32, 16, scale=0.3)))
    return m.done(m("LayerNormalization", y, m.weight(16, low=0.5)))


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "tree": lambda: _of_sklearn(DecisionTreeRegressor(max_depth=6, random_state=0)),
    "forest": lambda: _of_sklearn(RandomForestClassifier(12, max_depth=5, random_state=0)),
    "boosted": lambda: _of_sklearn(GradientBoostingClassifier(n_estimators=8, random_state=0)),
    "svm": lambda: _of_sklearn(SVC(probability=True, random_state=0)),
    "mlp": lambda: _of_sklearn(MLPClassifier((10, 8), max_iter=60, random_state=0)),
    "cnn1d": convolutions_along_time,
    "gru": lambda: recurrent("GRU", 3),
    "lstm": lambda: recurrent("LSTM", 4),
    "attention": attention,
}
TARGETS = ("cortex-m0plus", "cortex-m4", "cortex-m55", "riscv32imc")
SAMPLE = [
    ("forest", "cortex-m0plus", "c"), ("svm", "cortex-m4", "llvm"), ("gru", "cortex-m55", "c"),
    ("attention", "riscv32imc", "llvm"), ("attention", "cortex-m0plus", "c"), ("cnn1d", "cortex-m4", "c"),
]  # fmt: skip
CASES = [(m, t, g) for m in MODELS for t in TARGETS for g in ("c", "llvm")] if ALL else SAMPLE


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "target", "generator"), CASES)
def test_a_model_on_a_board(name: str, target: str, generator: str, tmp_path: Path) -> None:
    need("arm-none-eabi-gcc", "compiles for Cortex-M")
    model = MODELS[name]()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    x = np.random.default_rng(1).standard_normal([n or 1 for n in given.shape]).astype(np.float32)
    wanted = [np.asarray(each) for each in session.run(None, {given.name: x})]
    bundle = compile_to(tmp_path / "b", model, target, generator=generator, name="unseen")
    firmware = read_firmware(bundle)
    compiler = "zig" if "riscv" in target else "gcc"
    got = boards.run_on_board(bundle, [x], wanted, compiler=compiler, least=0.6)
    for array, like in zip(got, wanted, strict=True):
        np.testing.assert_allclose(array.reshape(like.shape), like, 1e-4, 1e-5)
    if compiler == "gcc":
        for source in ("kernels", "model", "params"):
            command = [*compiler_for(firmware.processor, "gcc"), *STRICT]
            run(*command, "-c", bundle / f"{source}.c", "-o", tmp_path / "object.o", cwd=tmp_path)
