"""Operators of MXNet 1.9 and 2.0 that are known and not translated, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_FLOAT_MODEL = "compile the float model, and quantize it with Sterna (docs/quantize.md)"
_FUSED = "export the model without a backend's fused operators (`optimize_for`, MXNET_SUBGRAPH_BACKEND)"
_TRAINING = "leave it out: it is of training"
_SPARSE = "it is of sparse tensors, which Sterna does not have: compute its result before, and make it an input"
_PROGRAM = "it is a program of Python or of the library, which the file does not hold: register a translation"
_PICTURES = "decode and resize pictures before, and make them an input"
_REJECTION = "MXNet draws it by rejection: draw the numbers before, and make them an input"
_COMPLEX = "its results are complex numbers, which MXNet itself does not have: use eigh of a symmetric matrix"
_UNWRITTEN = "register a translation: there is none yet"


def _names(text: str, fix: str) -> dict[str, str]:
    return dict.fromkeys(text.split(), fix)


REFUSED: Mapping[str, str] = MappingProxyType(
    {
        **_names(
            """
            _contrib_calibrate_entropy _contrib_intgemm_fully_connected _contrib_intgemm_maxabsolute
            _contrib_intgemm_prepare_data _contrib_intgemm_prepare_weight _contrib_intgemm_take_weight
             _npx_contrib_calibrate_entropy _npx_intgemm_fully_connected
            _npx_intgemm_maxabsolute _npx_intgemm_prepare_data _npx_intgemm_prepare_weight _npx_intgemm_take_weight
            """,
            _FLOAT_MODEL,
        ),
        **_names(
            """
            _CachedOp _CachedOpThreadSafe _FusedOp _TensorRT _sg_mkldnn_conv _sg_mkldnn_fully_connected
            _sg_mkldnn_selfatt_qk _sg_mkldnn_selfatt_valatt _sg_onednn_batch_dot _sg_onednn_conv
            _sg_onednn_fully_connected _sg_onednn_selfatt_qk _sg_onednn_selfatt_valatt
            """,
            _FUSED,
        ),
        **_names(
            """
            CTCLoss _adabelief_update _adamw_update _contrib_CTCLoss _contrib_MultiBoxTarget
            _contrib_bipartite_matching _contrib_box_encode _contrib_ctc_loss _contrib_group_adagrad_update
            _contrib_hawkesll _image_random_brightness _image_random_color_jitter _image_random_contrast
            _image_random_crop _image_random_flip_left_right _image_random_flip_top_bottom _image_random_hue
            _image_random_lighting _image_random_resized_crop _image_random_saturation _mp_adabelief_update
            _mp_adamw_update _multi_adabelief_update _multi_adamw_update _multi_lamb_update _multi_lans_update
            _multi_mp_adabelief_update _multi_mp_adamw_update _multi_mp_lamb_update _multi_mp_lans_update
            _npi_all_finite _npi_multi_all_finite _npx__image_random_brightness _npx__image_random_color_jitter
            _npx__image_random_contrast _npx__image_random_crop _npx__image_random_flip_left_right
            _npx__image_random_flip_top_bottom _npx__image_random_hue _npx__image_random_lighting
            _npx__image_random_resized_crop _npx__image_random_saturation _npx_bipartite_matching _npx_box_encode
            _npx_ctc_loss _npx_multibox_target _sample_unique_zipfian _sparse_adagrad_update _sparse_adam_update
            _sparse_ftrl_update _sparse_sgd_mom_update _sparse_sgd_update adam_update all_finite ctc_loss
            ftml_update ftrl_update lamb_update_phase1 lamb_update_phase2 mp_lamb_update_phase1
            mp_lamb_update_phase2 mp_nag_mom_update mp_sgd_mom_update mp_sgd_update multi_all_finite multi_lars
            multi_mp_sgd_mom_update multi_mp_sgd_update multi_sgd_mom_update multi_sgd_update multi_sum_sq
            nag_mom_update preloaded_multi_mp_sgd_mom_update preloaded_multi_mp_sgd_update
            preloaded_multi_sgd_mom_update preloaded_multi_sgd_update reset_arrays rmsprop_update rmspropalex_update
            sgd_mom_update sgd_update signsgd_update signum_update softmax_cross_entropy
            """,
            _TRAINING,
        ),
        **_names(
            """
            _contrib_dgl_adjacency _contrib_dgl_csr_neighbor_non_uniform_sample
            _contrib_dgl_csr_neighbor_uniform_sample _contrib_dgl_graph_compact _contrib_dgl_subgraph
            _contrib_edge_id _contrib_getnnz
            """,
            _SPARSE,
        ),
        **_names(
            """
            Custom _CustomFunction _NDArray _Native _NoGradient _imdecode _npi_Custom _npi_share_memory
            _onehot_encode _set_value fill_element_0index
            """,
            _PROGRAM,
        ),
        **_names(
            """
            _cvcopyMakeBorder _cvimdecode _cvimread _cvimresize _npi_cvimdecode _npi_cvimread _npi_cvimresize
            """,
            _PICTURES,
        ),
        **_names(
            """
            _npx__random_multinomial _npx_scalar_poisson _npx_tensor_poisson _random_binomial _random_gamma
            _random_gamma_like _random_generalized_negative_binomial _random_generalized_negative_binomial_like
            _random_negative_binomial _random_negative_binomial_like _random_poisson _random_poisson_like
            _sample_binomial _sample_gamma _sample_generalized_negative_binomial _sample_negative_binomial
            _sample_poisson random_binomial random_gamma random_generalized_negative_binomial
            random_negative_binomial random_poisson sample_binomial sample_gamma
            sample_generalized_negative_binomial sample_negative_binomial sample_poisson
            """,
            _REJECTION,
        ),
        **_names("_npi_eig _npi_eigvals", _COMPLEX),
        **_names("_contrib_RROIAlign _npi_advanced_indexing_multiple", _UNWRITTEN),
    }
)  # fmt: skip
