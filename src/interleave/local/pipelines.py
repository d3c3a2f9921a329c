"""Loading of a diffusers pipeline and its call settings, part by part, so that every error names a file."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import Field, ValidationError

from interleave import ConfigurationError
from interleave.local.checkpoints import (
    Source,
    check_pipeline,
    check_weights_file,
    find_pipeline,
    find_weights,
    refuse_bad_fit,
)
from interleave.local.direct_loading import (
    load_image_part,
    load_language_model,
    may_load_directly,
)
from interleave.local.families import OwnCode, own_code_of
from interleave.local.library_errors import as_configuration_error
from interleave.local.options import Offload, Quantization
from interleave.local.processors import has_torchvision, load_without_videos
from interleave.local.silence import quiet_diffusers
from interleave.local.transformer_file import load_transformer_file
from interleave.plugin import Value, first_problem

SETTINGS_FILE = "interleave.json"
"""The file with the call settings in a pipeline's folder."""
QWEN_PROCESSORS = {"Qwen2VLProcessor": "qwen2_vl", "Qwen2_5_VLProcessor": "qwen2_5_vl"}


@dataclass(frozen=True)
class PipelineFolder:
    """A checked folder of a pipeline."""

    path: Path
    source: Source
    index: dict[str, Any]
    """The content of its model_index.json."""
    transformer: Source | None = None
    """The file with the transformer's weights, if they are not in the folder."""

    @classmethod
    def find(
        cls, source: Source, trust_remote_code: bool, transformer: Source | None = None
    ) -> PipelineFolder:
        """Find the folder of a pipeline; reject unsafe or broken files in it."""
        elsewhere = ("transformer",) if transformer else ()
        path = find_pipeline(source, elsewhere)
        index = check_pipeline(path, source, trust_remote_code=trust_remote_code, without_weights=elsewhere)
        return cls(path, source, index, transformer)

    @property
    def class_name(self) -> str:
        return str(self.index["_class_name"])


class CallSettings(Value):
    """Arguments of a pipeline's call; the spec overrides them, and the family has the defaults."""

    num_inference_steps: int | None = Field(default=None, ge=1, le=1000)
    guidance_scale: float | None = Field(default=None, ge=0, le=100)
    width: int | None = Field(default=None, ge=64, le=4096, multiple_of=16)
    height: int | None = Field(default=None, ge=64, le=4096, multiple_of=16)
    max_sequence_length: int | None = Field(default=None, ge=8, le=65_536)
    text_encoder_out_layers: tuple[int, ...] | None = Field(default=None, min_length=1)
    """The text encoder layers whose hidden states go to the transformer."""
    max_sources: int | None = Field(default=None, ge=0, le=16)
    """The number of source images in training."""


def read_settings(folder: Path) -> CallSettings:
    """Read the settings of a model folder; all unset if it has no such file."""
    path = folder / SETTINGS_FILE
    try:
        return CallSettings.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return CallSettings()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror})") from None
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":
            known = ", ".join(CallSettings.model_fields)
            raise ConfigurationError(
                f"{path} has an unknown key {first['loc'][-1]!r}. Known: {known}"
            ) from None
        raise ConfigurationError(f"{path}: {first_problem(error)}") from None


def load_pipeline(
    folder: PipelineFolder,
    *,
    dtype: torch.dtype,
    quantization: Quantization,
    trust_remote_code: bool,
    device: torch.device | None = None,
) -> Any:
    """Load the pipeline of a folder; read its weights straight to `device` if given."""
    import diffusers

    own = own_code_of(folder.class_name)
    with quiet_diffusers():
        parts = {
            name: part
            for name, value in folder.index.items()
            if isinstance(value, list) and value[0] is not None and not name.startswith("_")
            if (part := _load_part(folder, name, value, dtype, quantization, own, device)) is not None
        }
        if own is not None:
            with as_configuration_error(f"the pipeline in {folder.path} cannot be loaded"):
                pipeline = own_class(own.pipeline)(**parts)
            pipeline.set_progress_bar_config(disable=True)
            return pipeline
        kind = getattr(diffusers, folder.index["_class_name"], diffusers.DiffusionPipeline)
        with as_configuration_error(f"the pipeline in {folder.path} cannot be loaded"):
            pipeline = kind.from_pretrained(
                folder.path,
                **parts,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=trust_remote_code,
            )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def move_to_device(pipeline: Any, device: torch.device, offload: Offload) -> None:
    """Move a pipeline to its device; with offload, parts are moved there only while they compute."""
    if offload != "none" and device.type == "cpu":
        raise ConfigurationError(f"?offload={offload} needs a GPU, and this is a CPU: omit it")
    with as_configuration_error("the generator does not fit on its device"):
        if offload == "model":
            pipeline.enable_model_cpu_offload(device=device)
        elif offload == "sequential":
            pipeline.enable_sequential_cpu_offload(device=device)
        else:
            pipeline.to(device)


def add_lora(pipeline: Any, source: Source, scale: float) -> Path:
    """Load LoRA weights into a pipeline; raise `ConfigurationError` if they fit no layer."""
    path = find_weights(source)
    check_weights_file(path, source)
    if not hasattr(pipeline, "load_lora_weights"):
        raise ConfigurationError(f"{type(pipeline).__name__} supports no LoRA: omit ?lora={source.model}")
    with quiet_diffusers(), as_configuration_error(f"the LoRA {path} does not fit {type(pipeline).__name__}"):
        pipeline.load_lora_weights(str(path.parent), weight_name=path.name, adapter_name="lora")
        if not any("lora" in names for names in pipeline.get_list_adapters().values()):
            raise ConfigurationError(
                f"the LoRA {path} fits no layer of {type(pipeline).__name__}: it is for another model"
            )
        pipeline.set_adapters(["lora"], [scale])
    return path


def fuse_lora(pipeline: Any) -> None:
    """Merge the loaded LoRA into the weights at its scale."""
    with quiet_diffusers():
        pipeline.fuse_lora(adapter_names=["lora"])
        pipeline.unload_lora_weights()


def use_lightning_schedule(pipeline: Any) -> None:
    """Set the schedule of the Lightning LoRAs' distillation: exponential, with a fixed shift of 3."""
    import math

    from diffusers import FlowMatchEulerDiscreteScheduler

    pipeline.scheduler = FlowMatchEulerDiscreteScheduler.from_config(
        pipeline.scheduler.config,
        base_shift=math.log(3),
        max_shift=math.log(3),
        shift=1.0,
        shift_terminal=None,
        use_dynamic_shifting=True,
        time_shift_type="exponential",
    )


def own_class(named: str) -> Any:
    """Import a class of a pipeline's package without the package's warnings about missing kernels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pkgutil.resolve_name(named)


def _load_part(
    pipeline: PipelineFolder,
    name: str,
    named: list[str],
    dtype: torch.dtype,
    quantization: Quantization,
    own: OwnCode | None,
    device: torch.device | None,
) -> Any | None:
    """Load a part with weights, or a processor without torchvision; None for parts the pipeline loads."""
    folder, source = pipeline.path / name, pipeline.source
    library, kind = named[0], named[1]
    if kind in QWEN_PROCESSORS and not has_torchvision():
        with as_configuration_error(f"the processor in {folder} cannot be loaded"):
            return load_without_videos(folder, QWEN_PROCESSORS[kind])
    if own is not None and name in own.parts:
        library, part = "diffusers", own_class(own.parts[name])
    elif library not in ("diffusers", "transformers"):
        return None
    else:
        part = getattr(importlib.import_module(library), kind, None)
    if part is None:
        raise ConfigurationError(
            f"{folder.parent / 'model_index.json'} names {library}.{kind}, which the installed {library} "
            f"does not have: upgrade it with pip install --upgrade {library}"
        )
    if not _has_weights(part):
        if own is None:
            return None
        with as_configuration_error(f"the part in {folder} cannot be loaded"):
            return part.from_pretrained(folder, local_files_only=True)
    if name == "transformer" and pipeline.transformer:
        return load_transformer_file(
            part,
            folder,
            pipeline.transformer,
            dtype=dtype,
            device=device or torch.device("cpu"),
            float8=quantization == "fp8",
        )
    with as_configuration_error(f"the part in {folder} cannot be loaded"):
        if quantization in ("none", "fp8") and _is_direct(part, library, own, device):
            load = load_image_part if library == "diffusers" else load_language_model
            model, info = load(part, folder, source, device, dtype=dtype)
        else:
            model, info = part.from_pretrained(
                folder,
                dtype=dtype,
                use_safetensors=True,
                local_files_only=True,
                ignore_mismatched_sizes=True,  # rejected below, naming the file
                output_loading_info=True,
                **_quantization_config(library, folder.name, quantization, dtype),
            )
    # A pipeline uses only the hidden states of a text encoder, and some are published without the head.
    refuse_bad_fit(folder, info, source, optional={"lm_head.weight"})
    return model.eval()


def _is_direct(part: Any, library: str, own: OwnCode | None, device: torch.device | None) -> bool:
    """Return whether a part's weights are read straight to a device: on a GPU, if known to be safe."""
    if device is None or device.type != "cuda" or own is not None:
        return False
    return library == "transformers" or may_load_directly(part)


def _has_weights(part: type) -> bool:
    from diffusers import ModelMixin
    from transformers import PreTrainedModel

    return isinstance(part, type) and issubclass(part, ModelMixin | PreTrainedModel)


def _quantization_config(
    library: str, name: str, quantization: Quantization, dtype: torch.dtype
) -> dict[str, Any]:
    """Return the bitsandbytes options of transformer and text encoder; the small VAE is not quantized."""
    if quantization in ("none", "fp8") or not name.startswith(("transformer", "text_encoder")):
        return {}
    if library == "diffusers":
        from diffusers import BitsAndBytesConfig
    else:
        from transformers import BitsAndBytesConfig
    if quantization == "8bit":
        return {"quantization_config": BitsAndBytesConfig(load_in_8bit=True)}
    return {
        "quantization_config": BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
        )
    }
