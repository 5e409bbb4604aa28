"""Networks whose threads may exchange values in subgroups."""

from __future__ import annotations

from onnx import ModelProto, parser

from support.control_flow import model


def rows(count: int = 40, length: int = 300) -> ModelProto:
    """Reductions of rows, of one kind each, and a scan."""
    shape = f"float[{count}, {length}]"
    results = f"{shape} soft, {shape} norm, int64[{count}] best, {shape} sums"
    text = f"""rows ({shape} x) => ({results}) <int64 axis = {{1}}> {{
        scale = ReduceMax <axes = [0], keepdims = 0> (x)
        bias = ReduceMean <axes = [0], keepdims = 0> (x)
        soft = Softmax <axis = -1> (x)
        norm = LayerNormalization <axis = -1> (x, scale, bias)
        best = ArgMax <axis = -1, keepdims = 0> (x)
        sums = CumSum (x, axis)
    }}"""
    return parser.parse_model(model(text))
