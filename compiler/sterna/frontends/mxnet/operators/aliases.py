"""Names that MXNet has for one operator: those of 2.0, of NumPy's interface, and of sparse tensors."""

from __future__ import annotations

#: Of NumPy's interface, by the older or the internal name of the same operator.
NUMPY = {
    **{f"_npi_{name}": f"_np_{name}" for name in (
        "all", "any", "copy", "cumsum", "diag", "max", "min", "prod", "squeeze", "sum", "transpose", "repeat",
    )},
    "_np_amax": "_np_max", "_np_amin": "_np_min", "_np_product": "_np_prod", "_np_sometrue": "_np_any",
    "_npi_amax": "_np_max", "_npi_amin": "_np_min", "_npi_amp_cast": "amp_cast",
    "_npi_amp_multicast": "amp_multicast", "_npi_array_split": "_npi_split", "_npi_copyto": "_copyto",
    "_npi_unravel_index": "_unravel_index",
    "_npx__random_categorical": "_sample_categorical",
    "_npx_add_n": "add_n", "_npx_batch_norm_with_relu": "_contrib_BatchNormWithReLU",
    "_npx_box_decode": "_contrib_box_decode", "_npx_box_iou": "_contrib_box_iou", "_npx_box_nms": "_contrib_box_nms",
    "_npx_broadcast_greater": "broadcast_greater", "_npx_broadcast_like": "broadcast_like", "_npx_cond": "_cond",
    "_npx_deformable_convolution": "_contrib_DeformableConvolution", "_npx_digamma": "digamma",
    "_npx_erfinv": "erfinv", "_npx_foreach": "_foreach", "_npx_gamma": "gamma", "_npx_gammaln": "gammaln",
    **{f"_npx_interleaved_matmul_{name}": f"_contrib_interleaved_matmul_{name}" for name in (
        "encdec_qk", "encdec_valatt", "selfatt_qk", "selfatt_valatt",
    )},
    "_npx_modulated_deformable_convolution": "_contrib_ModulatedDeformableConvolution", "_npx_norm": "norm",
    "_npx_pad": "Pad", "_npx_round_ste": "_contrib_round_ste", "_npx_sequence_last": "SequenceLast",
    "_npx_sequence_reverse": "SequenceReverse", "_npx_sign_ste": "_contrib_sign_ste",
    "_npx_slice_channel": "SliceChannel", "_npx_slice_like": "slice_like", "_npx_softsign": "softsign",
    "_npx_stop_gradient": "BlockGrad", "_npx_sync_batch_norm": "_contrib_SyncBatchNorm",
    "_npx_while_loop": "_while_loop",
    "_npx_contrib_quantize": "_contrib_quantize", "_npx_contrib_quantize_v2": "_contrib_quantize_v2",
    **{f"_npx_{name}": f"_contrib_{name}" for name in (
        "quantized_act", "quantized_conv", "quantized_elemwise_add", "quantized_elemwise_mul", "quantized_embedding",
        "quantized_flatten", "quantized_fully_connected", "quantized_pooling", "quantized_reshape",
        "quantized_transpose", "requantize",
    )},
    "quantized_reshape": "_contrib_quantized_reshape", "quantized_transpose": "_contrib_quantized_transpose",
}  # fmt: skip
#: Operators of sparse tensors compute the same of dense ones.
SPARSE = {f"_sparse_{name}": name for name in (
    "ElementWiseSum", "Embedding", "FullyConnected", "LinearRegressionOutput", "LogisticRegressionOutput",
    "MAERegressionOutput", "_contrib_round_ste", "_contrib_sign_ste", "abs", "add_n", "arccos", "arccosh", "arcsin",
    "arcsinh", "arctan", "arctanh", "broadcast_add", "broadcast_div", "broadcast_minus", "broadcast_mul",
    "broadcast_plus", "broadcast_sub", "cast_storage", "cbrt", "ceil", "clip", "concat", "cos", "cosh", "degrees",
    "digamma", "dot", "elemwise_add", "elemwise_div", "elemwise_mul", "elemwise_sub", "exp", "expm1", "fix", "floor",
    "gamma", "gammaln", "log", "log10", "log1p", "log2", "log_sigmoid", "make_loss", "mean", "mish", "negative",
    "norm", "radians", "relu", "rint", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "slice", "sqrt", "square",
    "stop_gradient", "sum", "tan", "tanh", "trunc", "where", "zeros_like",
)}  # fmt: skip
ALIASES = NUMPY | SPARSE
