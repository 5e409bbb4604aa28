"""Translators of MXNet's operators into core operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from sterna.frontends.custom import translations
from sterna.frontends.mxnet.operators import (
    activations,
    arithmetic,
    attention,
    control,
    detection,
    filling,
    indexing,
    layers,
    linear_algebra,
    ordering,
    pooling,
    quantized,
    recurrent,
    reductions,
    regions,
    shapes,
    warping,
)
from sterna.frontends.mxnet.translation import Translator

_MODULES = (
    activations,
    arithmetic,
    attention,
    control,
    detection,
    filling,
    indexing,
    layers,
    linear_algebra,
    ordering,
    pooling,
    quantized,
    recurrent,
    reductions,
    regions,
    shapes,
    warping,
)
_FLOAT_MODEL = "compile the float model, and quantize it with Sterna (docs/quantize.md)"
_FUSED = "export the model without a backend's fused operators (`optimize_for`, MXNET_SUBGRAPH_BACKEND)"
_TRAINING = "leave it out: it is of training"

#: Operators that are known and not translated, and what to do.
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        **{
            f"_contrib_{name}": _FLOAT_MODEL
            for name in (
                "quantize_asym", "quantized_rnn",
            )
        },
        **{
            f"_sg_mkldnn_{name}": _FUSED
            for name in ("conv", "fully_connected", "selfatt_qk", "selfatt_valatt")
        },
        "_CachedOp": _FUSED,
        "_FusedOp": _FUSED,
        "_TensorRT": _FUSED,
        "CTCLoss": _TRAINING,
        "_contrib_CTCLoss": _TRAINING,
        "_contrib_MultiBoxTarget": _TRAINING,
        "_contrib_ctc_loss": _TRAINING,
        "ctc_loss": _TRAINING,
        "softmax_cross_entropy": _TRAINING,
    }
)  # fmt: skip


def is_translated(op: str) -> bool:
    """Whether there is a translator of an operator."""
    return op in translations("mxnet") or op in translators()


@cache
def translators() -> Mapping[str, Translator]:
    """All operators; not to be changed."""
    table: dict[str, Translator] = {}
    for module in _MODULES:
        table.update(module.TRANSLATORS)
    # Operators of sparse tensors compute the same of dense ones.
    table |= {f"_sparse_{name}": table[name] for name in _SPARSE}
    return MappingProxyType(table)


_SPARSE = (
    "ElementWiseSum", "Embedding", "FullyConnected", "LinearRegressionOutput", "LogisticRegressionOutput",
    "MAERegressionOutput", "abs", "add_n", "broadcast_add", "broadcast_div", "broadcast_minus", "broadcast_mul",
    "broadcast_plus", "broadcast_sub", "ceil", "clip", "concat", "cos", "dot", "elemwise_add", "elemwise_div",
    "elemwise_mul", "elemwise_sub", "exp", "expm1", "fix", "floor", "log", "log10", "log1p", "log2", "make_loss",
    "mean",
    "negative", "norm", "relu", "rint", "round", "rsqrt", "sigmoid", "sign", "sin", "slice", "sqrt", "square",
    "stop_gradient", "sum", "tan", "tanh", "trunc", "where", "zeros_like",
)  # fmt: skip


def translator_of(op: str) -> Translator:
    """The translator of an operator, which there is; a registered one comes first."""
    return translations("mxnet").get(op) or translators()[op]
