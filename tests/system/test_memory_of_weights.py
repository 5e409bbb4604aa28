"""Memory while a model is compiled: its weights once, not twice, wherever they are stored."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.tools import ROOT

WIDTH, LAYERS = 1024, 20  # 80 MB of weights, 4 MB each

#: Compiles and writes a small model, then the one in question, and says how much more memory that took at its peak.
MEASURE = """
import sys
from sterna.api import compile_model
from sterna.bundle.writer import write_bundle

def memory(name):
    line = next(l for l in open("/proc/self/status") if l.startswith(name))
    return int(line.split()[1]) << 10

small, large, place = sys.argv[1:]
write_bundle(compile_model(small, generator="llvm"), place + "-small")
before = memory("VmRSS")
compiled = compile_model(large, generator="llvm")
write_bundle(compiled, place)
print((memory("VmHWM") - before) / len(compiled.params))
"""


def in_onnx(path: Path, width: int, layers: int, external: bool) -> Path:
    """Products one after the other."""
    random = np.random.default_rng(0)
    names = [f"x{n}" for n in range(layers + 1)]
    weights = [numpy_helper.from_array(random.random((width, width), np.float32), f"w{n}") for n in range(layers)]
    nodes = [helper.make_node("MatMul", [names[n], f"w{n}"], [names[n + 1]]) for n in range(layers)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=external, location="weights.bin", size_threshold=0)
    return path


def in_tflite(path: Path, width: int, layers: int) -> Path:
    """The same in TensorFlow Lite, whose matrices lie transposed."""
    from support.tflite_builder import ModelWriter

    random = np.random.default_rng(0)
    model = ModelWriter()
    x = model.main.input(np.zeros((1, width), np.float32))
    for n in range(layers):
        weights = model.main.constant(random.random((width, width), np.float32))
        y = (model.main.output if n == layers - 1 else model.main.tensor)("float32", (1, width))
        model.main.op("FULLY_CONNECTED", [x, weights, -1], [y], "FullyConnectedOptions")
        x = y
    path.write_bytes(model.content())
    return path


MODELS: dict[str, tuple[str, Callable[[Path, int, int], Path]]] = {
    "ONNX": (".onnx", partial(in_onnx, external=False)),
    "ONNX-external": (".onnx", partial(in_onnx, external=True)),
    "TensorFlow-Lite": (".tflite", in_tflite),
}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process's memory is Linux's to tell")
@pytest.mark.parametrize("form", MODELS)
def test_weights_are_in_memory_once(form: str, tmp_path: Path) -> None:
    suffix, write = MODELS[form]
    small = write(tmp_path / f"small{suffix}", 32, 2)
    large = write(tmp_path / f"large{suffix}", WIDTH, LAYERS)
    command = [sys.executable, "-c", MEASURE, str(small), str(large), str(tmp_path / "bundle")]
    # Of its own, so that what the small model brings into memory the large one finds there.
    cache = {"STERNA_CACHE_DIR": str(tmp_path / "cache")}
    environment = {**os.environ, **cache, "PYTHONPATH": str(ROOT / "compiler")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.3, "two or three times before they were streamed"
