"""Source pictures as a diffusers pipeline takes them: scaled, padded, and stacked for batches.

FLUX.2 pipelines condition every prompt of a batch on all the sources they are given. `stack_sources` gives
each prompt its own; the sources of all prompts must have the same sizes. They are encoded together, and moved
to the device as uint8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image as pillow
from PIL import ImageOps
from torch import Tensor

if TYPE_CHECKING:
    from PIL.Image import Image

Size = tuple[int, int]
MIN_SIDE = 64
MAX_RATIO = 8
SIDE_MULTIPLE = 16
"""Sides are multiples of this: pipelines round others down, and a picture must have the size asked for."""
MOST_ROUNDINGS = 20
"""The rounding of a size settles after a few turns."""
PLAIN_SETTINGS = {"do_normalize": True, "do_binarize": False, "do_convert_grayscale": False}
"""Settings under which an image processor only maps a picture's bytes to floats from -1 to 1."""


def usable_source(image: Image) -> Image:
    """The picture as every pipeline accepts it: a tiny one is enlarged, a strip gets white margins."""
    image = image if image.mode == "RGB" else image.convert("RGB")
    least = min(image.size)
    if least < MIN_SIDE:
        scale = MIN_SIDE / least
        # The long side of a strip is capped: its margins would make the canvas far too large.
        longest = MIN_SIDE * MAX_RATIO * 2
        size = [max(1, min(math.ceil(side * scale), longest)) for side in image.size]
        image = image.resize((size[0], size[1]), pillow.Resampling.BICUBIC)
    short = max(MIN_SIDE, math.ceil(max(image.size) / MAX_RATIO))
    return on_canvas(image, (max(image.width, short), max(image.height, short)), enlarge=False)


def as_mask(image: Image) -> Image:
    """A mask as pipelines take it: grey levels, in RGB."""
    return image.convert("L").convert("RGB")


def on_canvas(image: Image, size: tuple[int, int], *, enlarge: bool = True) -> Image:
    """The whole picture, centred on a white canvas of this size."""
    if image.size == size:
        return image
    if enlarge:
        return ImageOps.pad(image, size, pillow.Resampling.BICUBIC, color="white")
    canvas = pillow.new("RGB", size, "white")
    canvas.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
    return canvas


def size_like(
    image: Image, size: tuple[int, int], *, multiple: int = SIDE_MULTIPLE, sizes: Sequence[Size] = ()
) -> Size:
    """A size of about as many pixels as `size`, with the aspect ratio of a picture.

    It is one that keeps itself: a picture of this size gets the same size again, so that no step of a chain
    of edits is scaled. `sizes` are those that a model was trained with; without, sides are multiples.
    """
    if sizes:
        return min(
            sizes, key=lambda each: abs(math.log(each[0] / each[1]) - math.log(image.width / image.height))
        )
    area, found = size[0] * size[1], image.size
    for _ in range(MOST_ROUNDINGS):
        rounded = _rounded(found, area, multiple)
        if rounded == found:
            break
        found = rounded
    return found


def _rounded(size: Size, area: int, multiple: int) -> Size:
    ratio = min(max(size[0] / size[1], 1 / MAX_RATIO), MAX_RATIO)
    width, height = (round(math.sqrt(each) / multiple) * multiple for each in (area * ratio, area / ratio))
    return max(width, MIN_SIDE), max(height, MIN_SIDE)


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
    from PIL.Image import Image

    if not isinstance(image, Image) or image.mode != "RGB" or image.size != (width, height):
        return type(processor).preprocess(processor, image, height=height, width=width, **options)
    return torch.from_numpy(np.array(image)[None]).permute(0, 3, 1, 2)


def _as_floats(image: Tensor, device: Any) -> Tensor:
    if image.dtype is not torch.uint8:
        return image.to(device)
    return 2.0 * (image.to(device).float() / 255.0) - 1.0
