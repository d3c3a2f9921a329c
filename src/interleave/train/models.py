"""Loads the model to train: weights, frozen parts, adapter and processor."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from peft.helpers import disable_input_dtype_casting
from transformers import AutoModelForImageTextToText, BatchFeature

from interleave import ConfigurationError
from interleave.local.checkpoints import Source, check_model, find_model, read_json, refuse_bad_fit
from interleave.local.library_errors import as_configuration_error
from interleave.local.processors import load_processor
from interleave.local.qwen3_vl.batched_vision import batch_vision
from interleave.local.qwen3_vl.uint8_pixels import flat, use_uint8_pixels
from interleave.local.silence import quiet
from interleave.train.recipes import ModelPart

PREFIX = "transformers:"


@dataclass(frozen=True)
class TrainableModel:
    """A model ready for a trainer, with its processor and adapter."""

    folder: Path
    model: Any
    processor: Any
    base: str
    """Name of the base model in a spec: its Hub name or its path."""
    lora: Any
    """A `LoraConfig`, or None if the weights themselves are trained."""


def model_source(part: ModelPart) -> Source:
    """Locate the model of a recipe; it may be a spec `transformers:…` without options."""
    name = part.name.removeprefix(PREFIX)
    if not name:
        raise ConfigurationError("which model? Name it with --model ORG/NAME, or --model ./FOLDER")
    if "?" in name:
        raise ConfigurationError(f"{part.name!r}: write the model without the options of a spec")
    if Path(name).is_dir() and not name.startswith(("/", ".", "~")):
        name = f"./{name}"
    return Source(name, part.revision)


def load_trainable_model(part: ModelPart, *, picture_cache_mb: int = 0) -> TrainableModel:
    """Load the model and its processor for a trainer."""
    avoid_cudnn_attention()
    source = model_source(part)
    folder = find_model(source)
    check_model(folder, source, trust_remote_code=False)
    model = _load(folder, source, part)
    freeze(model, part)
    processor = load_sized_processor(folder, source, part)
    if not use_uint8_pixels(model, processor) and picture_cache_mb:
        cache = FeatureCache(picture_cache_mb * 1_000_000)
        processor.image_processor = caching_image_processor(processor.image_processor, cache)
    base = str(folder.absolute()) if source.is_path else source.model
    return TrainableModel(folder, model, processor, base, lora_config(part))


def avoid_cudnn_attention() -> None:
    """Disable cuDNN attention, so that torch uses its other kernels.

    cuDNN's backward pass can return NaN gradients with a mask if the length modulo 128 is 64 (torch 2.11 and
    later on H100 and H200, pytorch/pytorch#196678).
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


def load_sized_processor(folder: Path, source: Source, part: ModelPart) -> Any:
    """Load the processor of a model, with the image size limits of the recipe."""
    model_type = str(read_json(folder / "config.json", source).get("model_type"))
    with quiet(), as_configuration_error(f"the processor in {folder} cannot be loaded"):
        processor = load_processor(folder, model_type)
    limits = dict(getattr(processor.image_processor, "size", None) or {})
    wanted = {"shortest_edge": part.min_pixels, "longest_edge": part.max_pixels}  # areas, despite their names
    changed = {name: pixels for name, pixels in wanted.items() if pixels is not None}
    if changed:
        processor.image_processor.size = {**limits, **changed}
    return processor


def freeze(model: Any, part: ModelPart) -> None:
    """Freeze the vision tower if `train_vision` is false."""
    if part.train_vision:
        return
    tower = next((module for name, module in model.named_modules() if name.split(".")[-1] == "visual"), None)
    if tower is None:
        raise ConfigurationError(
            f"model.train_vision = false: a {type(model).__name__} has no part named 'visual' to freeze"
        )
    tower.requires_grad_(False)


def lora_config(part: ModelPart) -> Any:
    """Return the configuration of the adapter to train, or None to train the weights."""
    if not part.lora_rank:
        return None
    return LoraConfig(
        r=part.lora_rank,
        lora_alpha=part.lora_alpha or 2 * part.lora_rank,
        lora_dropout=part.lora_dropout,
        target_modules=list(part.lora_targets),
        task_type="CAUSAL_LM",
    )


@contextmanager
def uncast_adapter_inputs(model: Any, *, wanted: bool) -> Iterator[None]:
    """Pass half-precision inputs to float32 adapters, as autocast would cast them back anyway.

    The library casts an adapter's input to float32, and autocast casts it back. The numbers are the same, but
    each adapted matrix costs two copies, one of which is kept for the backward pass.
    """
    if not wanted:
        yield
        return
    with disable_input_dtype_casting(model):
        yield


def gather_output_layer(model: Any) -> None:
    """Gather the output layer's weights under FSDP until the backward pass has used them.

    TRL computes the loss from these weights without calling the layer, which accelerate wraps as a separate
    FSDP unit. TRL then gathers them itself and each process keeps only the gradient of its own rows, so the
    layer silently learns from a part of every batch. Gathered by FSDP, its gradient is averaged.
    """
    head = model.get_output_embeddings()
    if hasattr(head, "unshard"):
        head.unshard()


def _load(folder: Path, source: Source, part: ModelPart) -> Any:
    with quiet(), as_configuration_error(f"the model in {folder} cannot be loaded"):
        model, info = AutoModelForImageTextToText.from_pretrained(
            folder,
            dtype=torch.float32 if part.weights == "float32" else torch.bfloat16,
            attn_implementation=None if part.attention == "auto" else part.attention,
            use_safetensors=True,
            local_files_only=True,
            ignore_mismatched_sizes=True,  # rejected below, with the file name
            output_loading_info=True,
        )
    refuse_bad_fit(folder, info, source)
    batch_vision(model)
    return model


class FeatureCache:
    """Cache of image processor outputs by image content: groups and epochs repeat the same images."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._kept: OrderedDict[bytes, tuple[Any, Any]] = OrderedDict()
        self._bytes = 0

    def get(self, image: Any, compute: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
        """Return the features of an image, computed if not cached; the oldest entries are evicted."""
        key = hashlib.blake2b(image.tobytes(), digest_size=16, salt=_salt(image.size)).digest()
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        features = self._kept[key] = compute()
        self._bytes += features[0].nbytes
        while self._bytes > self.budget_bytes and len(self._kept) > 1:
            _, (oldest, _) = self._kept.popitem(last=False)
            self._bytes -= oldest.nbytes
        return features


def caching_image_processor(original: Any, cache: FeatureCache) -> Any:
    """Return an image processor with the settings and saved name of `original`, and a cache."""
    base: Any = type(original)
    saved_name = original.to_dict()["image_processor_type"]

    class CachingImageProcessor(base):  # type: ignore[misc]
        def __call__(self, images: Any, **options: Any) -> Any:
            def compute(image: Any) -> tuple[Any, Any]:
                features = super(CachingImageProcessor, self).__call__(
                    [image], **{**options, "return_tensors": "pt"}
                )
                return features["pixel_values"], features["image_grid_thw"]

            made = [cache.get(image, partial(compute, image)) for image in flat(images)]
            pixels, grids = (torch.cat([each[place] for each in made]) for place in (0, 1))
            return BatchFeature({"pixel_values": pixels, "image_grid_thw": grids})

        def to_dict(self) -> dict[str, Any]:
            return {**super().to_dict(), "image_processor_type": saved_name}

    replacement = CachingImageProcessor()
    replacement.__dict__.update(vars(original))
    return replacement


def _salt(size: tuple[int, int]) -> bytes:
    return size[0].to_bytes(4, "big") + size[1].to_bytes(4, "big")
