"""Exports architectures of torchvision, timm and transformers with random weights, beside what they compute.

Runs where PyTorch is installed: `ci/torch-models` makes such an environment. Each architecture becomes `NAME.pt2` and
`NAME.npz` with inputs `in0` ... and outputs `out0` ... in the order of the program.

    python bench/torch_export.py FOLDER [NAME ...]
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

VISION = (
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet",
    "inception_v3", "maxvit_t", "mnasnet1_0", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small",
    "regnet_x_400mf", "regnet_y_400mf", "resnet18", "resnet50", "resnext50_32x4d", "shufflenet_v2_x1_0",
    "squeezenet1_1", "swin_t", "swin_v2_t", "vgg11_bn", "vit_b_32", "wide_resnet50_2",
    "segmentation.deeplabv3_mobilenet_v3_large", "segmentation.fcn_resnet50",
    "segmentation.lraspp_mobilenet_v3_large", "video.r3d_18",
)  # fmt: skip
TIMM = (
    "beit_base_patch16_224", "cait_xxs24_224", "coat_lite_tiny", "convmixer_768_32", "convnextv2_atto",
    "crossvit_tiny_240", "cspresnet50", "deit_tiny_patch16_224", "dla34", "edgenext_xx_small",
    "efficientformer_l1", "fbnetc_100", "ghostnet_100", "hardcorenas_a", "hrnet_w18_small", "lcnet_050",
    "levit_128s", "mixer_s32_224", "mobilenetv4_conv_small", "mobilevit_xxs", "pit_ti_224", "poolformer_s12",
    "repvgg_a0", "res2net50_26w_4s", "rexnet_100", "tinynet_e", "xcit_nano_12_p16_224",
)  # fmt: skip
LANGUAGE = (
    "albert", "bart", "bert", "deberta", "deepseek_v3", "distilbert", "electra", "gemma2", "gpt2", "gpt_neo", "jamba",
    "llama", "mamba", "mistral", "mixtral", "mobilebert", "modernbert", "opt", "qwen2", "qwen2_moe", "roberta",
    "squeezebert", "t5", "vit", "wav2vec2", "whisper", "xlm_roberta",
)  # fmt: skip
NAMES = tuple(f"{kind}_{name}" for kind, names in (("tv", VISION), ("timm", TIMM), ("hf", LANGUAGE)) for name in names)


def main() -> int:
    warnings.filterwarnings("ignore")
    folder, chosen = Path(sys.argv[1]), sys.argv[2:] or NAMES
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in chosen:
        if (folder / f"{name}.npz").exists():
            continue
        try:
            export(name, folder)
            print("exported", name, flush=True)
        except Exception as problem:  # one of many architectures, whatever it dislikes
            failed += 1
            text = (str(problem).strip().splitlines() or [""])[0]
            print(f"{name}: not exported: {type(problem).__name__}: {text[:200]}", flush=True)
    return 0 if failed < len(chosen) else 1


def export(name: str, folder: Path) -> None:
    """Writes one architecture and its results."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    model, inputs = made(name)
    draw(model)
    model.eval()
    with torch.no_grad():
        results = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
        args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
        program = torch.export.export(model, args, kwargs, strict=False)
    torch.export.save(program, folder / f"{name}.pt2")
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
    given = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
    arrays = {f"in{n}": value.numpy() for n, value in enumerate(given)}
    arrays |= {f"out{n}": value.numpy() for n, value in enumerate(leaves)}
    np.savez(folder / f"{name}.npz", **arrays)


def draw(model: Any) -> None:
    """Statistics of batch normalization, and weights that begin at nothing, as if the model were trained."""
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    for parameter in model.parameters():
        # Heads and biases begin at 0, scales of residual branches near it: they would hide what they are applied to.
        if parameter.numel() and parameter.is_floating_point() and parameter.abs().max() < 1e-3:
            torch.nn.init.normal_(parameter, 0, 0.05)


def made(name: str) -> tuple[Any, Any]:
    """A model and its inputs."""
    import torch

    library, _, own = name.partition("_")
    if library == "tv":
        import torchvision

        where: Any = torchvision.models
        for part in own.split(".")[:-1]:
            where = getattr(where, part)
        settings: dict[str, Any] = {"weights": None}
        if own in ("googlenet", "inception_v3"):
            settings |= {"init_weights": False}
        if own.startswith("segmentation"):
            settings |= {"weights_backbone": None}
        model = getattr(where, own.split(".")[-1])(**settings)
        size = 299 if own == "inception_v3" else 128 if "." in own or own.startswith(("resnet50", "vgg")) else 224
        shape = (1, 3, 8, 64, 64) if own.startswith("video") else (1, 3, size, size)
        return model, (torch.randn(shape),)
    if library == "timm":
        import timm

        model = timm.create_model(own, pretrained=False)
        return model, (torch.randn(1, *model.pretrained_cfg["input_size"]),)
    return _LANGUAGE[own](own)


def tokens() -> Any:
    import torch

    return torch.randint(5, 90, (1, 12))


def text_model(own: str) -> tuple[Any, Any]:
    """A model of tokens in two layers."""
    import transformers

    wide = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "vocab_size": 100,
    }
    names = {
        "albert": ("Albert", {**wide, "embedding_size": 16}), "bert": ("Bert", wide),
        "deberta": ("DebertaV2", wide), "electra": ("Electra", {**wide, "embedding_size": 16}),
        "distilbert": ("DistilBert", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 100}),
        "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100}),
        "gpt_neo": ("GPTNeo", {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 100,
                               "attention_types": [[["global", "local"], 1]]}),
        "llama": ("Llama", {**wide, "num_key_value_heads": 2}),
        "mistral": ("Mistral", {**wide, "num_key_value_heads": 2}),
        "qwen2": ("Qwen2", {**wide, "num_key_value_heads": 2}), "mobilebert": ("MobileBert", {
            **wide, "embedding_size": 32, "intra_bottleneck_size": 32}),
        "mixtral": ("Mixtral", {**wide, "num_key_value_heads": 2, "num_local_experts": 4}),
        "qwen2_moe": ("Qwen2Moe", {**wide, "num_key_value_heads": 2, "moe_intermediate_size": 16, "num_experts": 4,
                                   "shared_expert_intermediate_size": 32, "num_experts_per_tok": 2}),
        "deepseek_v3": ("DeepseekV3", {**wide, "num_key_value_heads": 4, "moe_intermediate_size": 16,
                                       "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
                                       "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "v_head_dim": 8,
                                       "qk_nope_head_dim": 8, "first_k_dense_replace": 1}),
        "jamba": ("Jamba", {**wide, "num_key_value_heads": 2, "num_experts": 2, "use_mamba_kernels": False,
                            "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
                            "expert_layer_offset": 1, "mamba_d_state": 8}),
        "mamba": ("Mamba", {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 100, "state_size": 8}),
        "gemma2": ("Gemma2", {**wide, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 8}),
        "modernbert": ("ModernBert", {**wide, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                                      "cls_token_id": 1, "sep_token_id": 2}),
        "opt": ("OPT", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64,
                        "vocab_size": 100, "word_embed_proj_dim": 32}),
        "roberta": ("Roberta", wide), "xlm_roberta": ("XLMRoberta", wide),
        "squeezebert": ("SqueezeBert", {**wide, "embedding_size": 32}),
    }  # fmt: skip
    prefix, settings = names[own]
    config = getattr(transformers, f"{prefix}Config")(**settings)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    model = getattr(transformers, f"{prefix}Model")(config)
    return model, {"input_ids": tokens()}


def two_sided_model(own: str) -> tuple[Any, Any]:
    """An encoder and a decoder."""
    import torch
    import transformers

    if own == "t5":
        config = transformers.T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
        config.use_cache = False
        return transformers.T5Model(config), {"input_ids": tokens(), "decoder_input_ids": tokens()}
    if own == "bart":
        config = transformers.BartConfig(
            vocab_size=100, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, use_cache=False,
        )  # fmt: skip
        return transformers.BartModel(config), {"input_ids": tokens(), "decoder_input_ids": tokens()}
    config = transformers.WhisperConfig(
        vocab_size=100, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=50, use_cache=False,
        pad_token_id=1, bos_token_id=2, eos_token_id=3, decoder_start_token_id=2,
    )  # fmt: skip
    return transformers.WhisperModel(config), {
        "input_features": torch.randn(1, 80, 100), "decoder_input_ids": tokens()
    }  # fmt: skip


def sound_or_image_model(own: str) -> tuple[Any, Any]:
    """A model of waves or of pictures."""
    import torch
    import transformers

    wide = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    if own == "vit":
        model = transformers.ViTModel(transformers.ViTConfig(**wide, image_size=64))
        return model, {"pixel_values": torch.randn(1, 3, 64, 64)}
    config = transformers.Wav2Vec2Config(
        **wide, vocab_size=32, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 2),
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    return transformers.Wav2Vec2Model(config), {"input_values": torch.randn(1, 3200)}


_LANGUAGE: dict[str, Callable[[str], tuple[Any, Any]]] = {
    **dict.fromkeys(LANGUAGE, text_model),
    **dict.fromkeys(("t5", "bart", "whisper"), two_sided_model),
    **dict.fromkeys(("vit", "wav2vec2"), sound_or_image_model),
}

if __name__ == "__main__":
    sys.exit(main())
