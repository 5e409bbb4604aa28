"""Networks of torchvision, timm and transformers, as their packages define them: whether any architecture is a cliff.

Names begin with the package: `tv-`, `timm-` or `hf-`. bench/export_architecture.py writes them to ONNX, with random
weights of a fixed seed; this list needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Architecture:
    """A network of a package.

    Args:
        package: "torchvision", "timm" or "transformers".
        model: the builder's name there, or the class of transformers.
        inputs: shapes by name; names that begin with "input_ids" are tokens, "attention_mask" is ones, others are
            floats.
        options: of the builder, or of the configuration of transformers.
    """

    package: str
    model: str
    inputs: Mapping[str, Shape]
    options: Mapping[str, Any] = field(default_factory=dict)


def _image(side: int) -> dict[str, Shape]:
    return {"x": (1, 3, side, side)}


def _torchvision(model: str, side: int = 224, **options: Any) -> tuple[str, Architecture]:
    return f"tv-{model}", Architecture("torchvision", model, _image(side), options)


def _timm(model: str, side: int = 224, **options: Any) -> tuple[str, Architecture]:
    return f"timm-{model}", Architecture("timm", model, _image(side), options)


def _transformers(
    name: str, model: str, inputs: Mapping[str, Shape] | None = None, **options: Any
) -> tuple[str, Architecture]:
    """Two inputs of 128 tokens where none are given; small vocabularies, because only their last product takes time."""
    given = {"input_ids": (1, 128), "attention_mask": (1, 128)} if inputs is None else inputs
    return f"hf-{name}", Architecture("transformers", model, given, options)


_TOKENS: dict[str, Shape] = {"input_ids": (1, 128)}
_BERT = {"vocab_size": 8000, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}
_SIX: dict[str, Any] = {**_BERT, "num_hidden_layers": 6}
_DECODER: dict[str, Any] = {
    **{"vocab_size": 4000, "hidden_size": 256, "num_attention_heads": 8, "num_hidden_layers": 4, "use_cache": False}
}
_SMALL: dict[str, Any] = {
    "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536,
}  # fmt: skip
_VISION: dict[str, Any] = {"hidden_size": 192, "num_attention_heads": 3, "num_hidden_layers": 12}

ARCHITECTURES: dict[str, Architecture] = dict(
    (
        # ------------------------------------------------------------ convolutional
        _torchvision("alexnet"),
        _torchvision("vgg11"),
        _torchvision("resnet34", zero_init_residual=True),
        _torchvision("resnext50_32x4d", zero_init_residual=True),
        _torchvision("regnet_x_400mf"),
        _torchvision("regnet_y_400mf"),
        _torchvision("densenet121"),
        _torchvision("shufflenet_v2_x1_0"),
        _torchvision("mnasnet1_0"),
        _torchvision("mobilenet_v3_large"),
        _torchvision("efficientnet_v2_s"),
        _torchvision("convnext_tiny"),
        _torchvision("inception_v3", 299, aux_logits=False, init_weights=True),
        _timm("mobilenetv2_100"),
        _timm("mobilenetv4_hybrid_medium"),
        _timm("tf_efficientnet_lite0"),
        _timm("tf_efficientnetv2_b0"),
        _timm("convnextv2_atto"),
        _timm("inception_next_atto"),
        _timm("ghostnet_100"),
        _timm("mixnet_s"),
        _timm("res2net50_14w_8s"),
        _timm("resnest14d"),
        _timm("hrnet_w18_small"),
        _timm("darknet53"),
        _timm("fbnetv3_b"),
        _timm("spnasnet_100"),
        _timm("skresnet18"),
        _timm("eca_nfnet_l0"),
        _timm("resnetv2_50x1_bit"),
        _timm("seresnext26d_32x4d"),
        _timm("gernet_s"),
        _timm("dpn48b"),
        _timm("repvit_m0_9"),
        _timm("mambaout_femto"),
        _timm("focalnet_tiny_srf"),
        _timm("convmixer_768_32", 112),
        # ------------------------------------------------------------ attention and mixing over images
        _torchvision("swin_t"),
        _torchvision("maxvit_t"),
        _timm("vit_tiny_patch16_224"),
        _timm("deit_tiny_distilled_patch16_224"),
        _timm("cait_xxs24_224"),
        _timm("poolformer_s12"),
        _timm("pvt_v2_b0"),
        _timm("twins_svt_small"),
        _timm("twins_pcpvt_small"),
        _timm("xcit_nano_12_p16_224"),
        _timm("mixer_s32_224"),
        _timm("gmlp_ti16_224"),
        _timm("resmlp_12_224"),
        _timm("levit_128s"),
        _timm("tiny_vit_5m_224"),
        _timm("fastvit_t8", 256),
        _timm("edgenext_xx_small", 256),
        _timm("efficientformer_l1"),
        _timm("efficientformerv2_s0"),
        _timm("mobilevit_xxs", 256),
        _timm("mobilevitv2_050", 256),
        _timm("coatnet_nano_rw_224"),
        _timm("efficientvit_b0"),
        _timm("convit_tiny"),
        _timm("visformer_tiny"),
        _timm("coat_lite_tiny"),
        _timm("nest_tiny"),
        _timm("gcvit_xxtiny"),
        _timm("davit_tiny"),
        _timm("volo_d1_224"),
        _timm("sequencer2d_s"),
        _timm("botnet26t_256", 256),
        _timm("halonet26t", 256),
        _timm("lambda_resnet26t", 256),
        # ------------------------------------------------------------ segmentation and detection
        _torchvision("deeplabv3_mobilenet_v3_large", weights_backbone=None),
        _torchvision("deeplabv3_resnet50", weights_backbone=None),
        _torchvision("fcn_resnet50", weights_backbone=None),
        _torchvision("ssdlite320_mobilenet_v3_large", 320, weights_backbone=None),
        _transformers("segformer_b0", "SegformerForSemanticSegmentation", {"pixel_values": (1, 3, 256, 256)}),
        # ------------------------------------------------------------ over tokens
        _transformers("bert", "BertModel", **_SIX),
        _transformers(
            "deberta_v2",
            "DebertaV2Model",
            **_SIX,
            relative_attention=True,
            position_buckets=64,
            norm_rel_ebd="layer_norm",
            share_att_key=True,
            pos_att_type=["p2c", "c2p"],
            position_biased_input=False,
            max_relative_positions=-1,
        ),
        _transformers("mobilebert", "MobileBertModel", vocab_size=8000, num_hidden_layers=6),
        _transformers("squeezebert", "SqueezeBertModel", **_SIX, embedding_size=384),
        _transformers(
            "funnel",
            "FunnelBaseModel",
            vocab_size=8000,
            d_model=256,
            n_head=4,
            d_head=64,
            d_inner=1024,
            block_sizes=[2, 2, 2],
        ),
        _transformers("convbert", "ConvBertModel", **_SIX, embedding_size=128),
        _transformers(
            "fnet", "FNetModel", _TOKENS, vocab_size=8000, hidden_size=384, intermediate_size=1536, num_hidden_layers=6
        ),
        _transformers("llama", "LlamaForCausalLM", _TOKENS, **_DECODER, intermediate_size=688, num_key_value_heads=4),
        _transformers(
            "qwen3", "Qwen3ForCausalLM", _TOKENS, **_DECODER, intermediate_size=688, num_key_value_heads=2, head_dim=32
        ),
        _transformers(
            "mamba",
            "MambaForCausalLM",
            {"input_ids": (1, 32)},
            vocab_size=4000,
            hidden_size=192,
            num_hidden_layers=2,
            state_size=8,
            use_cache=False,
        ),
        _transformers(
            "t5_encoder", "T5EncoderModel", vocab_size=8000, d_model=384, d_kv=64, d_ff=1024, num_layers=6, num_heads=6
        ),
        # ------------------------------------------------------------ audio, and images beside words
        _transformers(
            "whisper_encoder",
            "WhisperEncoder",
            {"input_features": (1, 80, 1000)},
            d_model=384,
            encoder_layers=4,
            encoder_attention_heads=6,
            encoder_ffn_dim=1536,
            max_source_positions=500,
        ),
        _transformers(
            "wav2vec2",
            "Wav2Vec2Model",
            {"input_values": (1, 16000)},
            **_SMALL,
            conv_dim=(256,) * 7,
        ),
        _transformers(
            "hubert",
            "HubertModel",
            {"input_values": (1, 16000)},
            **_SMALL,
            conv_dim=(256,) * 7,
            feat_extract_norm="layer",
            do_stable_layer_norm=True,
            conv_bias=True,
        ),
        _transformers(
            "ast", "ASTModel", {"input_values": (1, 256, 128)}, **_VISION, intermediate_size=768, max_length=256
        ),
        _transformers(
            "clip_vision",
            "CLIPVisionModel",
            {"pixel_values": (1, 3, 224, 224)},
            **_SMALL,
            patch_size=32,
        ),
        _transformers(
            "clip_text",
            "CLIPTextModel",
            {"input_ids": (1, 77)},
            vocab_size=8000,
            **_SMALL,
            eos_token_id=2,
        ),
        _transformers(
            "dinov2", "Dinov2Model", {"pixel_values": (1, 3, 224, 224)}, **_VISION, patch_size=14, image_size=224
        ),
    )
)

#: Quantized by ONNX Runtime, as NAME_int8.
QUANTIZED = (
    *(
        "tv-resnet34",
        "timm-mobilenetv2_100",
        "tv-regnet_x_400mf",
        "tv-shufflenet_v2_x1_0",
        "timm-tf_efficientnet_lite0",
    ),
    "timm-vit_tiny_patch16_224",
)
ARCHITECTURES_INT8 = tuple(f"{name}_int8" for name in QUANTIZED)
