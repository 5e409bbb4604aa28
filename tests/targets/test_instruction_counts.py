"""Instructions that ten kernels take, compared with a file: steadier than time on a machine that others load.

Counted by callgrind on bundles for x86-64-v3 (it does not know AVX-512), as the difference between runs of different
length, so that loading does not count. A change of more than 5 % either way fails: `STERNA_UPDATE_COUNTS=1 pytest
tests/targets/test_instruction_counts.py` writes the file anew, and the commit says why.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import sterna.api
from sterna.runtime import cpu_has
from support.tools import ROOT, need, run

COUNTS = Path(__file__).with_suffix(".json")
RUNTIME = ROOT / "runtime_c"
MORE = 8

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="counts are of x86-64 code")


def network(operator: str, x: list[int], *weights: list[int], **attributes: object) -> onnx.ModelProto:
    """One operator with a run-time input and weights of these shapes; an activation behind it if it has a store to fuse
    it into."""
    random = np.random.default_rng(0)
    names = [f"w{n}" for n in range(len(weights))]
    arrays = [(random.standard_normal(shape) * 0.1).astype(np.float32) for shape in weights]
    after = "Relu" if operator in ("Conv", "MatMul") else "Identity"
    nodes = [
        helper.make_node(operator, ["x", *names], ["y"], name="op", **attributes),
        helper.make_node(after, ["y"], ["z"], name="after"),
    ]
    graph = helper.make_graph(
        nodes,
        "counted",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in zip(names, arrays, strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


KERNELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "matmul": lambda: network("MatMul", [64, 256], [256, 96]),
    "matrix_vector": lambda: network("MatMul", [1, 512], [512, 256]),
    "conv_3x3": lambda: network("Conv", [1, 32, 28, 28], [32, 32, 3, 3], pads=[1, 1, 1, 1]),
    "conv_1x1": lambda: network("Conv", [1, 96, 14, 14], [64, 96, 1, 1]),
    "conv_first": lambda: network("Conv", [1, 3, 64, 64], [32, 3, 3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "depthwise": lambda: network("Conv", [1, 64, 28, 28], [64, 1, 3, 3], pads=[1, 1, 1, 1], group=64),
    "max_pool": lambda: network("MaxPool", [1, 64, 28, 28], kernel_shape=[2, 2], strides=[2, 2]),
    "softmax": lambda: network("Softmax", [64, 128], axis=1),
    "layer_norm": lambda: network("LayerNormalization", [64, 256], [256], [256], axis=-1),
    "lstm": lambda: network("LSTM", [16, 1, 64], [1, 256, 64], [1, 256, 64], hidden_size=64),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sterna_run, built by gcc."""
    need("valgrind", "it counts the instructions")
    gcc = need("gcc", "it builds the program that is counted")
    target = tmp_path_factory.mktemp("counted") / "sterna_run"
    sources = [RUNTIME / "tools" / "sterna_run.c", *sorted((RUNTIME / "src").glob("*.c")), RUNTIME / "port" / "posix.c"]
    run(gcc, "-O1", "-std=c99", f"-I{RUNTIME / 'include'}", *sources, "-o", target, "-lpthread", "-ldl")
    return target


def instructions(program: Path, bundle: Path, inputs: list[Path], repeat: int, scratch: Path) -> int:
    command = ["--tool=callgrind", f"--callgrind-out-file={scratch / 'callgrind.out'}"]
    log = scratch / "log"
    arguments = [bundle, "--repeat", str(repeat), *inputs, "--out", scratch / "out"]
    run("valgrind", *command, f"--log-file={log}", program, *arguments)
    found = re.search(r"Collected : (\d+)", log.read_text())
    assert found is not None, log.read_text()
    return int(found[1])


@pytest.mark.parametrize("name", KERNELS)
def test_instruction_counts(name: str, program: Path, tmp_path: Path) -> None:
    if not cpu_has("avx2"):
        pytest.skip("this machine does not run x86-64-v3")
    model = KERNELS[name]()
    bundle = sterna.api.compile_to(tmp_path / "bundle", model, "x86-64-v3")
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    data = tmp_path / "x.bin"
    np.random.default_rng(1).standard_normal(shape).astype(np.float32).tofile(data)
    few, many = (instructions(program, bundle, [data], n, tmp_path) for n in (1, 1 + MORE))
    count = round((many - few) / MORE)
    if os.environ.get("STERNA_UPDATE_COUNTS") == "1":
        known = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
        COUNTS.write_text(json.dumps({**known, name: count}, indent=2, sort_keys=True) + "\n")
        return
    wanted = json.loads(COUNTS.read_text())[name]
    assert abs(count - wanted) <= 0.05 * wanted, f"{name}: {count} instructions, {count / wanted - 1:+.1%} of {wanted}"


def test_every_count_has_a_kernel() -> None:
    assert set(json.loads(COUNTS.read_text())) == set(KERNELS)
