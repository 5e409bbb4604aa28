"""Sessions of ONNX Runtime that multiply bytes exactly on every processor.

Without VNNI, x86-64 adds up pairs of products of uint8 and int8 in 16 bits, which saturate; ONNX Runtime takes that
unless it is told otherwise. Weights of 7 bits (its quantizer's `reduce_range`) are exact everywhere.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime


def exact_session(
    model: onnx.ModelProto | Path, options: onnxruntime.SessionOptions | None = None
) -> onnxruntime.InferenceSession:
    """A session on the CPU."""
    options = options or onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
