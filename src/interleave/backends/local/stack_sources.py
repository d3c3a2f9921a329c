"""Edits of different pictures in one FLUX.2 batch.

The pipeline conditions every prompt of a batch on all the sources it is given. Here each prompt gets its own;
the sources of all prompts must have the same sizes. They are encoded together, and moved to the device as
uint8.
"""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

PLAIN_SETTINGS = {"do_normalize": True, "do_binarize": False, "do_convert_grayscale": False}
"""Settings under which an image processor only maps a picture's bytes to floats from -1 to 1."""


def stack_sources(pipeline: Any) -> None:
    """Patch a pipeline to take the sources of all prompts in one list, those of the first prompt first."""
    pipeline.prepare_image_latents = MethodType(_prepare_image_latents, pipeline)
    processor = pipeline.image_processor
    if all(processor.config.get(name) is value for name, value in PLAIN_SETTINGS.items()):
        processor.preprocess = MethodType(_preprocess, processor)


def _prepare_image_latents(
    pipeline: Any, images: list[Any], batch_size: int, generator: Any, device: Any, dtype: Any
) -> tuple[Any, Any]:
    """Latents and position ids of the sources, those of each prompt in its own row."""
    import torch

    per_prompt = len(images) // batch_size
    if batch_size == 1:
        floats = [_as_floats(image, device) for image in images]
        one = generator[0] if isinstance(generator, list) else generator
        prepare = type(pipeline).prepare_image_latents
        return prepare(  # type: ignore[no-any-return]
            pipeline, images=floats, batch_size=1, generator=one, device=device, dtype=dtype
        )
    # The latents are the mode of their distribution, so the generators are not used.
    stacked = [
        _as_floats(torch.cat(images[index::per_prompt]), device).to(dtype) for index in range(per_prompt)
    ]
    latents = [pipeline._encode_vae_image(sources, generator=None) for sources in stacked]
    position_ids = pipeline._prepare_image_ids([latent[:1] for latent in latents])
    packed = torch.cat([pipeline._pack_latents(latent) for latent in latents], dim=1)
    return packed.to(device), position_ids.repeat(batch_size, 1, 1).to(device)


def _preprocess(processor: Any, image: Any, height: Any = None, width: Any = None, **options: Any) -> Any:
    """A picture of the right size as uint8; any other as the library does it."""
    import torch
    from PIL.Image import Image

    if not isinstance(image, Image) or image.mode != "RGB" or image.size != (width, height):
        return type(processor).preprocess(processor, image, height=height, width=width, **options)
    return torch.from_numpy(np.array(image)[None]).permute(0, 3, 1, 2)


def _as_floats(image: Tensor, device: Any) -> Tensor:
    import torch

    if image.dtype is not torch.uint8:
        return image.to(device)
    return 2.0 * (image.to(device).float() / 255.0) - 1.0
