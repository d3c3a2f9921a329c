"""Source images stacked for the batches of a diffusers pipeline.

FLUX.2 pipelines condition every prompt of a batch on all sources. `stack_sources` gives each prompt its own
sources; those of all prompts must have the same sizes. They are moved to the device as uint8 and encoded
together. Their latents are cached, because every attempt at a step has the same source.
"""

from __future__ import annotations

import hashlib
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interleave.local.source_images import KeptLatents

PLAIN_SETTINGS = {"do_normalize": True, "do_binarize": False, "do_convert_grayscale": False}
"""Settings under which an image processor only maps an image's bytes to floats from -1 to 1."""


def stack_sources(pipeline: Any) -> None:
    """Patch a pipeline to take the sources of all prompts in one list, ordered by prompt."""
    pipeline.prepare_image_latents = MethodType(_prepare_image_latents, pipeline)
    pipeline.kept_latents = KeptLatents()
    processor = pipeline.image_processor
    if all(processor.config.get(name) is value for name, value in PLAIN_SETTINGS.items()):
        processor.preprocess = MethodType(_preprocess, processor)


def _prepare_image_latents(
    pipeline: Any, images: list[Any], batch_size: int, generator: Any, device: Any, dtype: Any
) -> tuple[Any, Any]:
    """Return latents and position ids of the sources, one row per prompt."""
    if batch_size == 1:
        return _latents_alone(pipeline, images, generator, device, dtype)
    per_prompt = len(images) // batch_size
    latents = [_encoded(pipeline, images[index::per_prompt], device, dtype) for index in range(per_prompt)]
    position_ids = pipeline._prepare_image_ids([latent[:1] for latent in latents])
    packed = torch.cat([pipeline._pack_latents(latent) for latent in latents], dim=1)
    return packed.to(device), position_ids.repeat(batch_size, 1, 1).to(device)


def _latents_alone(
    pipeline: Any, images: list[Any], generator: Any, device: Any, dtype: Any
) -> tuple[Any, Any]:
    """Return the library's latents, cached apart from those of batches, which differ in their last digits."""
    kept, key = pipeline.kept_latents, _digest(images, "alone")
    found = kept.get(key)
    if found is None:
        one = generator[0] if isinstance(generator, list) else generator
        prepare = type(pipeline).prepare_image_latents
        floats = [_as_floats(image, device) for image in images]
        found = prepare(pipeline, images=floats, batch_size=1, generator=one, device=device, dtype=dtype)
        kept.keep(key, found)
    latents, position_ids = found
    return latents, position_ids


def _encoded(pipeline: Any, images: list[Any], device: Any, dtype: Any) -> Tensor:
    """Return the latents of sources; those not cached are encoded together."""
    kept = pipeline.kept_latents
    keys = [_digest([image], "together") for image in images]
    found = {key: kept.get(key) for key in keys}
    missing = {key: image for key, image in zip(keys, images, strict=True) if found[key] is None}
    if missing:
        # The latents are the mode of their distribution, so the generators are not used.
        stacked = _as_floats(torch.cat(list(missing.values())), device).to(dtype)
        latents = pipeline._encode_vae_image(stacked, generator=None)
        for key, latent in zip(missing, latents.split(1), strict=True):
            found[key] = latent
            kept.keep(key, latent)
    return torch.cat([found[key] for key in keys])


def _digest(images: list[Any], how: str) -> bytes:
    """Return a digest of the pixels of images."""
    digest = hashlib.sha256(how.encode())
    for image in images:
        plain = image.cpu().contiguous()
        digest.update(f"{plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(plain.view(torch.uint8).numpy())
    return digest.digest()


def _preprocess(processor: Any, image: Any, height: Any = None, width: Any = None, **options: Any) -> Any:
    """Return an image of the right size as uint8; preprocess any other with the library."""
    from PIL.Image import Image

    if not isinstance(image, Image) or image.mode != "RGB" or image.size != (width, height):
        return type(processor).preprocess(processor, image, height=height, width=width, **options)
    return torch.from_numpy(np.array(image)[None]).permute(0, 3, 1, 2)


def _as_floats(image: Tensor, device: Any) -> Tensor:
    if image.dtype is not torch.uint8:
        return image.to(device)
    return 2.0 * (image.to(device).float() / 255.0) - 1.0
