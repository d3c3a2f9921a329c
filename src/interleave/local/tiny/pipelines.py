"""Tiny pipelines of the diffusers classes, with random weights: one builder per family."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interleave import ConfigurationError
from interleave.local.checkpoints import Source
from interleave.local.families import family_of, own_code_of
from interleave.local.pipelines import SETTINGS_FILE, PipelineFolder, load_pipeline, own_class
from interleave.local.processors import image_text_processor
from interleave.local.silence import quiet_diffusers
from interleave.local.tiny.vlms import tiny_tokenizer, vocabulary_size

SIDE = 64
WEIGHT_SCALE = 3.0
"""Larger than usual initial weights, so that prompts and sources have a visible effect."""


def build_tiny_pipeline(folder: Path, pipeline: str, *, seed: int = 0) -> Path:
    """Write a tiny pipeline of this class, with call settings for images of 64 × 64 pixels."""
    import torch

    if pipeline not in BUILDERS:
        raise ConfigurationError(f"no tiny {pipeline!r} can be built. Known: {', '.join(sorted(BUILDERS))}")
    with quiet_diffusers():
        torch.manual_seed(seed)
        made, settings = BUILDERS[pipeline](pipeline)
        _scale_weights(made.transformer)
        made.save_pretrained(folder)
    (folder / SETTINGS_FILE).write_text(json.dumps({"width": SIDE, "height": SIDE, **settings}), "utf-8")
    return folder


def build_tiny_lora(folder: Path, pipeline_folder: Path, *, seed: int = 1) -> Path:
    """Write LoRA weights for the transformer of a tiny pipeline; return the file."""
    import torch
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    with quiet_diffusers():
        found = PipelineFolder.find(Source(str(pipeline_folder)), trust_remote_code=False)
        made = load_pipeline(found, dtype=torch.float32, quantization="none", trust_remote_code=False)
        torch.manual_seed(seed)
        lora = LoraConfig(r=2, lora_alpha=8, target_modules=["to_q", "to_v"], init_lora_weights=False)
        made.transformer.add_adapter(lora)
        type(made).save_lora_weights(
            folder, transformer_lora_layers=get_peft_model_state_dict(made.transformer)
        )
    return folder / "pytorch_lora_weights.safetensors"


def _scale_weights(transformer: Any) -> None:
    import torch

    with torch.no_grad():
        for weights in transformer.parameters():
            if weights.ndim > 1 and not weights.any():  # OmniGen2 starts some layers at zero
                weights.normal_(std=0.1)
            elif weights.ndim > 1:
                weights.mul_(WEIGHT_SCALE)


def _flux2_klein(pipeline: str) -> tuple[Any, dict[str, Any]]:
    import diffusers
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = tiny_tokenizer()
    encoder = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=vocabulary_size(tokenizer),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=3,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=8,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
        )
    )
    made = getattr(diffusers, pipeline)(
        scheduler=_scheduler(use_dynamic_shifting=True),
        vae=_flux2_vae(),
        text_encoder=encoder,
        tokenizer=tokenizer,
        transformer=_flux2_transformer(guidance_embeds=False),
        is_distilled=True,
    )
    return made, {"text_encoder_out_layers": [1, 2, 3]}


def _flux2(pipeline: str) -> tuple[Any, dict[str, Any]]:
    from diffusers import Flux2Pipeline
    from transformers import Mistral3Config, Mistral3ForConditionalGeneration

    tokenizer = tiny_tokenizer()
    config = Mistral3Config(
        text_config={
            "model_type": "mistral",
            "vocab_size": vocabulary_size(tokenizer),
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 8,
        },
        vision_config={
            "model_type": "pixtral",
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 64,
            "patch_size": 16,
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
    )
    made = Flux2Pipeline(
        scheduler=_scheduler(use_dynamic_shifting=True),
        vae=_flux2_vae(),
        text_encoder=Mistral3ForConditionalGeneration(config),
        tokenizer=tokenizer,  # the full model's processor needs torchvision and is only used for text
        transformer=_flux2_transformer(guidance_embeds=True),
    )
    return made, {"text_encoder_out_layers": [1, 2, 3], "num_inference_steps": 2}


def _flux2_vae() -> Any:
    from diffusers import AutoencoderKLFlux2

    return AutoencoderKLFlux2(
        sample_size=32,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(8, 8, 8, 8),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
    )


def _flux2_transformer(*, guidance_embeds: bool) -> Any:
    from diffusers import Flux2Transformer2DModel

    return Flux2Transformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=48,
        timestep_guidance_channels=256,
        axes_dims_rope=[4, 4, 4, 4],
        guidance_embeds=guidance_embeds,
    )


def _flux1(pipeline: str) -> tuple[Any, dict[str, Any]]:
    import diffusers
    from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

    fill = pipeline == "FluxFillPipeline"
    tokenizer = tiny_tokenizer()
    words = vocabulary_size(tokenizer)
    clip = CLIPTextConfig(
        hidden_size=32,
        intermediate_size=32,
        num_attention_heads=4,
        num_hidden_layers=2,
        vocab_size=words,
        projection_dim=32,
        max_position_embeddings=77,
        bos_token_id=tokenizer.convert_tokens_to_ids("<|im_start|>"),
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    t5 = T5Config(vocab_size=words, d_model=32, d_ff=32, d_kv=8, num_heads=4, num_layers=2)
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1,
        in_channels=4 + 4 + 256 if fill else 4,  # latents, source latents, and the mask in blocks of 16×16
        out_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=[4, 4, 8],
        guidance_embeds=True,
    )
    made = getattr(diffusers, pipeline)(
        scheduler=_scheduler(),
        vae=_flux1_vae(),
        text_encoder=CLIPTextModel(clip),
        tokenizer=tiny_tokenizer(context=77),
        text_encoder_2=T5EncoderModel(t5),
        tokenizer_2=tokenizer,
        transformer=transformer,
    )
    return made, {"num_inference_steps": 2}


def _flux1_vae(*, latent_channels: int = 1) -> Any:
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        sample_size=32,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(4, 4, 4, 4),
        layers_per_block=1,
        latent_channels=latent_channels,
        norm_num_groups=1,
        use_quant_conv=False,
        use_post_quant_conv=False,
        shift_factor=0.0609,
        scaling_factor=1.5035,
    )


def _qwen_image(pipeline: str) -> tuple[Any, dict[str, Any]]:
    import diffusers
    from diffusers import AutoencoderKLQwenImage, QwenImageTransformer2DModel

    tokenizer = tiny_tokenizer()
    parts: dict[str, Any] = {
        "scheduler": _scheduler(),
        "vae": AutoencoderKLQwenImage(
            base_dim=2,
            z_dim=4,
            dim_mult=[1, 2, 4, 4],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
        ),
        "text_encoder": _qwen25_vl(tokenizer),
        "tokenizer": tokenizer,
        "transformer": QwenImageTransformer2DModel(
            patch_size=2,
            in_channels=16,
            out_channels=4,
            num_layers=2,
            attention_head_dim=16,
            num_attention_heads=3,
            joint_attention_dim=16,
            guidance_embeds=False,
            axes_dims_rope=(8, 4, 4),
        ),
    }
    if pipeline != "QwenImagePipeline":
        parts["processor"] = _qwen_processor(tokenizer)
    return getattr(diffusers, pipeline)(**parts), {"num_inference_steps": 2}


def _longcat(pipeline: str) -> tuple[Any, dict[str, Any]]:
    import diffusers
    from diffusers import LongCatImageTransformer2DModel

    tokenizer = tiny_tokenizer()
    made = getattr(diffusers, pipeline)(
        scheduler=_scheduler(use_dynamic_shifting=True),
        vae=_flux1_vae(latent_channels=16),  # hard-coded in the pipeline
        text_encoder=_qwen25_vl(tokenizer),
        tokenizer=tokenizer,
        text_processor=_qwen_processor(tokenizer),
        transformer=LongCatImageTransformer2DModel(
            patch_size=1,
            in_channels=64,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=16,
            pooled_projection_dim=16,
            axes_dims_rope=[4, 4, 8],
        ),
    )
    return made, {"num_inference_steps": 2}


def _omnigen2(pipeline: str) -> tuple[Any, dict[str, Any]]:
    own = own_code_of(pipeline)
    if own is None:
        raise ConfigurationError(f"{pipeline} is part of diffusers and has no separate package")
    family_of(pipeline).require_code()
    tokenizer = tiny_tokenizer()
    parts = {name: own_class(named) for name, named in own.parts.items()}
    made = own_class(own.pipeline)(
        transformer=parts["transformer"](
            patch_size=2,
            in_channels=4,
            hidden_size=48,
            num_layers=2,
            num_refiner_layers=1,
            num_attention_heads=4,
            num_kv_heads=2,
            multiple_of=16,
            axes_dim_rope=(4, 4, 4),
            axes_lens=(2048, 2048, 2048),
            text_feat_dim=16,
        ),
        vae=_flux1_vae(latent_channels=4),
        scheduler=parts["scheduler"](),
        mllm=_qwen25_vl(tokenizer),
        processor=_qwen_processor(tokenizer),
    )
    return made, {"num_inference_steps": 2}


def _qwen25_vl(tokenizer: Any) -> Any:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    def token(name: str) -> int:
        return int(tokenizer.convert_tokens_to_ids(name))

    return Qwen2_5_VLForConditionalGeneration(
        Qwen2_5_VLConfig(
            text_config={
                "vocab_size": vocabulary_size(tokenizer),
                "hidden_size": 16,
                "intermediate_size": 16,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "rope_parameters": {
                    "mrope_section": [1, 1, 2],
                    "rope_type": "default",
                    "rope_theta": 1_000_000.0,
                },
            },
            vision_config={
                "depth": 2,
                "hidden_size": 16,
                "intermediate_size": 16,
                "num_heads": 2,
                "out_hidden_size": 16,
            },
            image_token_id=token("<|image_pad|>"),
            video_token_id=token("<|video_pad|>"),
            vision_start_token_id=token("<|vision_start|>"),
            vision_end_token_id=token("<|vision_end|>"),
        )
    )


def _qwen_processor(tokenizer: Any) -> Any:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    limits = {"shortest_edge": 56 * 56, "longest_edge": 112 * 112}  # areas in pixels, despite the names
    return image_text_processor("qwen2_vl", tokenizer, Qwen2VLImageProcessorPil(size=limits))


def _scheduler(**options: Any) -> Any:
    from diffusers import FlowMatchEulerDiscreteScheduler

    return FlowMatchEulerDiscreteScheduler(**{"shift": 3.0, **options})


# OmniGenPipeline is missing: diffusers defines its processor only if torchvision is installed.
BUILDERS: dict[str, Callable[[str], tuple[Any, dict[str, Any]]]] = {
    "Flux2KleinPipeline": _flux2_klein,
    "Flux2KleinKVPipeline": _flux2_klein,
    "Flux2Pipeline": _flux2,
    "FluxPipeline": _flux1,
    "FluxKontextPipeline": _flux1,
    "FluxFillPipeline": _flux1,
    "QwenImagePipeline": _qwen_image,
    "QwenImageEditPipeline": _qwen_image,
    "QwenImageEditPlusPipeline": _qwen_image,
    "LongCatImagePipeline": _longcat,
    "LongCatImageEditPipeline": _longcat,
    "OmniGen2Pipeline": _omnigen2,
}
