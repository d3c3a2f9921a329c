"""Edits of different pictures in one FLUX.2 batch.

The pipeline shows all the sources it is given to every prompt of a batch. Told how many belong to each,
it can show each prompt its own; the sources of all prompts must be of the same sizes. They are encoded
together, and travel to the device as bytes.
"""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

PLAIN = {"do_normalize": True, "do_binarize": False, "do_convert_grayscale": False}
"""Settings under which an image processor makes nothing but numbers from -1 to 1 of a picture's bytes."""


def stack_sources(pipeline: Any) -> None:
    """Let this pipeline take the sources of all prompts in one list, first those of the first prompt."""
    pipeline.prepare_image_latents = MethodType(_prepare_image_latents, pipeline)
    images = pipeline.image_processor
    if all(images.config.get(name) is value for name, value in PLAIN.items()):
        images.preprocess = MethodType(_preprocess, images)


def _prepare_image_latents(
    pipeline: Any, images: list[Any], batch_size: int, generator: Any, device: Any, dtype: Any
) -> tuple[Any, Any]:
    """Latents and places of the sources, those of each prompt in its own row."""
    import torch

    each = len(images) // batch_size
    if batch_size == 1:
        floats = [_as_floats(image, device) for image in images]
        one = generator[0] if isinstance(generator, list) else generator
        prepare = type(pipeline).prepare_image_latents
        return prepare(  # type: ignore[no-any-return]
            pipeline, images=floats, batch_size=1, generator=one, device=device, dtype=dtype
        )
    # The latents are the likeliest ones, so that no generator has a part in them.
    stacked = [_as_floats(torch.cat(images[place::each]), device).to(dtype) for place in range(each)]
    latents = [pipeline._encode_vae_image(sources, generator=None) for sources in stacked]
    places = pipeline._prepare_image_ids([latent[:1] for latent in latents])
    packed = torch.cat([pipeline._pack_latents(latent) for latent in latents], dim=1)
    return packed.to(device), places.repeat(batch_size, 1, 1).to(device)


def _preprocess(images: Any, image: Any, height: Any = None, width: Any = None, **options: Any) -> Any:
    """A picture of the right size as its bytes; any other as the library does it."""
    import torch
    from PIL.Image import Image

    if not isinstance(image, Image) or image.mode != "RGB" or image.size != (width, height):
        return type(images).preprocess(images, image, height=height, width=width, **options)
    return torch.from_numpy(np.array(image)[None]).permute(0, 3, 1, 2)


def _as_floats(image: Tensor, device: Any) -> Tensor:
    import torch

    if image.dtype is not torch.uint8:
        return image.to(device)
    return 2.0 * (image.to(device).float() / 255.0) - 1.0
