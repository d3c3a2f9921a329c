"""Edits of different pictures in one FLUX.2 batch.

The pipeline shows all the sources it is given to every prompt of a batch. Told how many belong to each,
it can show each prompt its own; the sources of all prompts must be of the same sizes.
"""

from __future__ import annotations

from types import MethodType
from typing import Any


def stack_sources(pipeline: Any) -> None:
    """Let this pipeline take the sources of all prompts in one list, first those of the first prompt."""

    def prepare_image_latents(
        self: Any, images: list[Any], batch_size: int, generator: Any, device: Any, dtype: Any
    ) -> tuple[Any, Any]:
        import torch

        each = len(images) // batch_size
        prepare = type(self).prepare_image_latents
        generators = generator if isinstance(generator, list) else [generator] * batch_size
        rows = [
            prepare(
                self,
                images=images[row * each : (row + 1) * each],
                batch_size=1,
                generator=generators[row],
                device=device,
                dtype=dtype,
            )
            for row in range(batch_size)
        ]
        return torch.cat([latents for latents, _ in rows]), torch.cat([ids for _, ids in rows])

    pipeline.prepare_image_latents = MethodType(prepare_image_latents, pipeline)
