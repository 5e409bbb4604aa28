"""The tables: which networks, on which processors, and the target of each."""

from __future__ import annotations

from dataclasses import dataclass

#: Those of bench/models.py in float32 that the geometric mean is over.
FLOATS = (
    *("mobilenet_v2", "mobilenet_v1", "efficientnet_lite0", "resnet18", "squeezenet", "minilm_128", "lstm", "gru"),
    *("ds_cnn", "mlperf_tiny_vww_f32", "mlperf_tiny_resnet_f32", "autoencoder"),
)
#: Of integers: QDQ models of ONNX, then those of TensorFlow Lite.
INTEGERS = (
    *("resnet18_int8", "mobilenet_v2_int8", "mobilenet_v2_100_224_u8", "mlperf_tiny_kws_int8", "mlperf_tiny_vww_int8"),
    *("mlperf_tiny_resnet_int8", "mlperf_tiny_ad_int8"),
)


@dataclass(frozen=True)
class Level:
    """A processor that is emulated, by the target that bundles are compiled for.

    Args:
        target: its `runs_on` says how it is emulated.
    """

    title: str
    target: str


FLOAT_LEVELS = (Level("fp32, Cortex-A72", "arm64"),)
INTEGER_LEVELS = (
    Level("int8, Cortex-A72: no dot products", "arm64"),
    Level("int8, Neoverse N1: dot products", "arm64-dotprod"),
    Level("int8, i8mm: products of tiles", "arm64-i8mm"),
)
TABLES = {
    "fp32": tuple((level, FLOATS) for level in FLOAT_LEVELS),
    "int8": tuple((level, INTEGERS) for level in INTEGER_LEVELS),
}
