"""The integer networks of the benchmark: those of bench/networks.py, quantized by ONNX Runtime, and trained ones.

    python integers.py NETWORK.onnx TARGET.onnx

QDQ form, activations uint8, weights int8 per channel: what ONNX Runtime and OpenVINO advise on this kind of machine.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np

#: Names of what `--int8` measures: NETWORK_int8 is made here, the others are folders of trained models.
INTEGERS = (
    *("mobilenet_v1_int8", "mobilenet_v2_int8", "resnet18_int8", "resnet50_int8", "ds_cnn_int8", "minilm_l6_v2_int8"),
    *("mobilenet_v2_100_224_u8", "mlperf_tiny_resnet_int8", "mlperf_tiny_vww_int8", "mlperf_tiny_kws_int8"),
    "mlperf_tiny_ad_int8",
)


def quantize(source: Path, target: Path) -> None:
    """Writes the network with 8-bit integers, calibrated on random inputs."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, model: Any, count: int = 4):
            random = np.random.default_rng(0)
            stored = {t.name for t in model.graph.initializer}
            given = [value for value in model.graph.input if value.name not in stored]
            sizes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in given}
            self.left = [
                {name: random.standard_normal(shape, dtype=np.float32) for name, shape in sizes.items()}
                for _ in range(count)
            ]

        def get_next(self) -> dict[str, Any] | None:
            return self.left.pop() if self.left else None

    logging.disable(logging.WARNING)
    prepared = target.with_suffix(".prepared.onnx")
    quant_pre_process(str(source), str(prepared))
    quantize_static(
        str(prepared),
        str(target),
        Samples(onnx.load(prepared)),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    prepared.unlink()


if __name__ == "__main__":
    quantize(Path(sys.argv[1]), Path(sys.argv[2]))
