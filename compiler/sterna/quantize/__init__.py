"""Float models made integer ones after training, from samples of what they will see.

    samples, model -> prepared model -> plan -> ranges -> which layers -> QDQ model, report

`prepare` brings the model into the form that everything else expects: constants are constants, batch normalization and
padding are part of the convolutions. `plan` says which nodes can compute with integers and which tensors that rounds;
`calibration` watches those tensors while the float model runs and gives each its range; `sensitivity` leaves layers
float until a bound on the error holds; `rewrite` writes QuantizeLinear and DequantizeLinear around what is left, so
that the result is an ONNX model like any other: `sterna compile` makes kernels on integers of it, as ONNX Runtime does.

Models are quantized as ONNX, not as graphs of core operators: names, open dimensions and whatever is not quantized stay
as they are in the source, anybody can read the result, and there is one way from it to integer kernels instead of two.
A TensorFlow Lite model is translated to ONNX first (`sterna.export`).
"""

from sterna.quantize.calibration import METHODS
from sterna.quantize.quantizer import Quantized, Settings, quantize_model

__all__ = ["METHODS", "Quantized", "Settings", "quantize_model"]
