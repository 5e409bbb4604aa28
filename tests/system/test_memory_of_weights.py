"""Memory while a model is compiled: its weights once, not twice, wherever they are stored."""

from __future__ import annotations

import os
import subprocess
import sys
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


def chain(path: Path, width: int, layers: int, external: bool) -> Path:
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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process's memory is Linux's to tell")
@pytest.mark.parametrize("external", [False, True], ids=["inside", "external"])
def test_weights_are_in_memory_once(external: bool, tmp_path: Path) -> None:
    small = chain(tmp_path / "small.onnx", 32, 2, False)
    large = chain(tmp_path / "large.onnx", WIDTH, LAYERS, external)
    command = [sys.executable, "-c", MEASURE, str(small), str(large), str(tmp_path / "bundle")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.3, "three times before they were streamed"
