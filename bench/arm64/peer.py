"""Runs a peer on one thread, with a marker (os.getppid) before the first run and after each, for counter.c.

    python3 peer.py onnxruntime|litert MODEL INPUTS.npz RUNS OUT_PREFIX

The arrays of INPUTS.npz are the inputs in the model's order (LiteRT: sorted by name). It runs in the Python of the
emulated processor, which has nothing of this project. A call costs Python 7,000 instructions with LiteRT, 23,000 with
ONNX Runtime.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Run = tuple[Callable[[], Any], Callable[[], list[Any]]]


def onnxruntime(model: str, arrays: list[Any]) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    named = dict(zip([node.name for node in session.get_inputs()], arrays, strict=True))
    for name, array in named.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
    for node, array in zip(session.get_outputs(), session.run(None, named), strict=True):
        binding.bind_ortvalue_output(node.name, ort.OrtValue.ortvalue_from_numpy(array))
    return lambda: session.run_with_iobinding(binding), lambda: [v.numpy() for v in binding.get_outputs()]


def litert(model: str, arrays: list[Any]) -> Run:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=model, num_threads=1)
    places = sorted(interpreter.get_input_details(), key=lambda detail: detail["name"])
    for place, array in zip(places, arrays, strict=True):
        if tuple(place["shape"]) != array.shape:
            interpreter.resize_tensor_input(place["index"], array.shape)
    interpreter.allocate_tensors()
    for place, array in zip(places, arrays, strict=True):
        interpreter.set_tensor(place["index"], array.astype(place["dtype"]))
    outputs = interpreter.get_output_details()
    return interpreter.invoke, lambda: [interpreter.get_tensor(detail["index"]) for detail in outputs]


def main() -> None:
    engine, model, inputs, runs, prefix = sys.argv[1:]
    arrays = [array for _, array in np.load(inputs).items()]
    step, fetch = {"onnxruntime": onnxruntime, "litert": litert}[engine](model, arrays)
    os.getppid()
    for _ in range(int(runs)):
        step()
        os.getppid()
    for number, array in enumerate(fetch()):
        np.save(f"{prefix}{number}.npy", array)


if __name__ == "__main__":
    main()
