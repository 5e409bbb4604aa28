"""Translators of TensorFlow's operators into core operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from sterna.frontends.custom import translations
from sterna.frontends.tensorflow.operators import (
    arithmetic,
    convolution,
    counting,
    decoding,
    diagonals,
    differences,
    images,
    lists,
    matrices,
    numbers,
    pictures,
    quantized,
    ragged,
    recurrent,
    segments,
    selection,
    shapes,
    sound,
    spectra,
    uniform,
    windows,
)
from sterna.frontends.tensorflow.translation import Translator

_MODULES = (
    arithmetic, convolution, counting, decoding, diagonals, differences, images, lists, matrices, numbers, pictures,
    quantized, ragged, recurrent, segments, selection, shapes, sound, spectra, uniform, windows,
)  # fmt: skip

_CELL = ("i", "cs", "f", "o", "ci", "co", "h")
#: Names of results of operators with several, as functions name them.
OUTPUTS: dict[str, tuple[str, ...]] = {
    "Switch": ("output_false", "output_true"),
    "Merge": ("output", "value_index"),
    "TopKV2": ("values", "indices"), "TopK": ("values", "indices"),
    "Unique": ("y", "idx"), "UniqueV2": ("y", "idx"),
    "UniqueWithCounts": ("y", "idx", "count"), "UniqueWithCountsV2": ("y", "idx", "count"),
    "DynamicPartition": ("outputs",), "LogMatrixDeterminant": ("sign", "log_abs_determinant"),
    "ListDiff": ("out", "idx"), "Qr": ("q", "r"), "Svd": ("s", "u", "v"), "Lu": ("lu", "p"),
    "SelfAdjointEigV2": ("e", "v"), "SoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "ApproxTopK": ("values", "indices"), "StatelessRandomGetKeyCounter": ("key", "counter"),
    "TensorArrayV3": ("handle", "flow"),
    "TensorListPopBack": ("output_handle", "tensor"),
    "NonMaxSuppressionV4": ("selected_indices", "valid_outputs"),
    "NonMaxSuppressionV5": ("selected_indices", "selected_scores", "valid_outputs"),
    "CombinedNonMaxSuppression": ("nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"),
    "FusedBatchNorm": ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"),
    "FusedBatchNormV2": ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"),
    "FusedBatchNormV3": ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"),
    "QuantizedResizeBilinear": ("resized_images", "out_min", "out_max"),
    "RaggedGather": ("output_nested_splits", "output_dense_values"),
    "RaggedRange": ("rt_nested_splits", "rt_dense_values"),
    "RaggedTensorToSparse": ("sparse_indices", "sparse_values", "sparse_dense_shape"),
    "LSTMBlockCell": _CELL, "BlockLSTM": _CELL, "BlockLSTMV2": _CELL,
    "GRUBlockCell": ("r", "u", "c", "h"),
    "MaxPoolWithArgmax": ("output", "argmax"),
    "QuantizeV2": ("output", "output_min", "output_max"),
    **dict.fromkeys(
        ("QuantizeDownAndShrinkRange", "QuantizedConcat", "QuantizedConcatV2", "QuantizedReshape", "Requantize"),
        ("output", "output_min", "output_max"),
    ),
    **dict.fromkeys(
        ("QuantizedConv2D", "QuantizedDepthwiseConv2D", "QuantizedAvgPool", "QuantizedMaxPool"),
        ("output", "min_output", "max_output"),
    ),
    "QuantizedBiasAdd": ("output", "min_out", "max_out"),
    "QuantizedMatMul": ("out", "min_out", "max_out"),
    **dict.fromkeys(
        ("QuantizedAdd", "QuantizedMul"),
        ("z", "min_z", "max_z"),
    ),
    "RequantizationRange": ("output_min", "output_max"),
    **dict.fromkeys(
        ("QuantizedRelu", "QuantizedRelu6", "QuantizedReluX"),
        ("activations", "min_activations", "max_activations"),
    ),
    "FractionalAvgPool": ("output", "row_pooling_sequence", "col_pooling_sequence"),
    "FractionalMaxPool": ("output", "row_pooling_sequence", "col_pooling_sequence"),
    "CTCBeamSearchDecoder": ("decoded_indices", "decoded_values", "decoded_shape", "log_probability"),
    "CTCGreedyDecoder": ("decoded_indices", "decoded_values", "decoded_shape", "log_probability"),
    "SparseSoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
}  # fmt: skip


#: Operators whose first results are each several: how many of the names are so, and the attribute that says how many.
SEVERAL = {"CTCBeamSearchDecoder": (3, "top_paths"), "RaggedGather": (1, "OUTPUT_RAGGED_RANK")}


def is_translated(op: str) -> bool:
    """Whether there is a translator of an operator."""
    return op in translations("tensorflow") or op in translators()


@cache
def translators() -> Mapping[str, Translator]:
    """Operators and their translators; not to be changed."""
    table: dict[str, Translator] = {}
    for module in _MODULES:
        table.update(module.TRANSLATORS)
    return MappingProxyType(table)


def translator_of(op: str) -> Translator:
    """The translator of an operator, which there is."""
    return translations("tensorflow").get(op) or translators()[op]
