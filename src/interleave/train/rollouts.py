"""Decodes answers for GRPO by CUDA graphs instead of the library's `generate`.

The decoder reads the weights in training, so nothing is sent to another engine. Matrices are read in place.
LoRA adapters, which are trained in float32, are copied before each generation in the dtype of the matrices.
The prompt of a group is prefilled once for all its answers.

If the model or a setting is not supported, or weights are sharded, the library generates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from interleave.local.compile_blocks import is_large
from interleave.local.devices import release_memory
from interleave.local.qwen3_vl.cuda_graph_decode import CudaGraphDecoder, supports
from interleave.local.qwen3_vl.token_choice import RandomChoice
from interleave.train.recipes import GrpoPart

Ended = Callable[[int, list[int]], None]
"""Callback with the position and the tokens of an answer as soon as it is complete."""
WHOLE_IN_EACH_PROCESS = ("NO", "MULTI_GPU", "MULTI_CPU")
"""Accelerate's distribution types in which each process has all weights."""


class Rollouts:
    """Samples answers to prompts from a model in training."""

    def __init__(
        self,
        model: Any,
        settings: GrpoPart,
        *,
        suppressed: Sequence[int],
        eos_ids: Sequence[int],
        pad_id: int,
    ) -> None:
        """`model` is the library's model, without trainer wrappers."""
        self.decoder = CudaGraphDecoder(model)
        self.settings = settings
        self.eos_ids = frozenset(eos_ids)
        self.pad_id = pad_id
        self.choice = RandomChoice(settings.temperature, torch.tensor(suppressed, device=model.device))
        self.compiled = model.device.type == "cuda" and is_large(model)

    def answers(
        self,
        prompts: Sequence[Sequence[int]],
        fields: dict[str, Any],
        images: Sequence[int],
        copies: int,
        ended: Ended | None = None,
    ) -> list[list[int]]:
        """Return `copies` consecutive answers to each prompt.

        `fields` are the processor's outputs for the prompts except the tokens, `images` the number of images
        of each prompt.
        """
        model = self.decoder.model
        was_training = model.training
        model.eval()  # no dropout, and no gradient checkpointing, which has no KV cache
        try:
            with torch.no_grad():
                self.decoder.update_adapters()
                return self._decoded(prompts, fields, images, copies, ended)
        finally:
            model.train(was_training)
            # The update needs the memory of the KV cache, so the captured graphs are dropped.
            self.decoder.free_memory()
            release_memory(model.device)

    def _decoded(
        self,
        prompts: Sequence[Sequence[int]],
        fields: dict[str, Any],
        images: Sequence[int],
        copies: int,
        ended: Ended | None,
    ) -> list[list[int]]:
        made: list[list[int]] = []
        batch = max(1, self.settings.rollout_batch // copies)
        for start in range(0, len(prompts), batch):
            some = slice(start, start + batch)
            inputs = self._inputs(prompts[some], _share(fields, images, some))
            replies = self.decoder.generate(
                inputs,
                images[some],
                [self.settings.max_completion] * (len(inputs["input_ids"]) * copies),
                lambda row: False,
                eos_ids=self.eos_ids,
                compiled=self.compiled,
                choice=self.choice,
                copies=copies,
                ended=self._shifted(ended, start * copies),
            )
            made.extend(self._ended(reply.ids) for reply in replies)
        return made

    def _shifted(self, ended: Ended | None, first: int) -> Ended | None:
        """Return a callback for the rows of a batch that starts at answer `first`."""
        if ended is None:
            return None
        return lambda row, ids: ended(first + row, self._ended(ids))

    def _inputs(self, prompts: Sequence[Sequence[int]], fields: dict[str, Any]) -> dict[str, Tensor]:
        """Return a left-padded batch of prompts on the device."""
        device = self.decoder.model.device
        longest = max(map(len, prompts))

        def padded(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
            return torch.tensor([[fill] * (longest - len(row)) + list(row) for row in rows], device=device)

        inputs = {
            "input_ids": padded(prompts, self.pad_id),
            "attention_mask": padded([[1] * len(prompt) for prompt in prompts], 0),
        }
        for name, values in fields.items():
            inputs[name] = values.to(device) if isinstance(values, Tensor) else padded(values, 0)
        return inputs

    def _ended(self, ids: list[int]) -> list[int]:
        """Return an answer up to and including its end token."""
        ids = ids[: self.settings.max_completion]
        end = next((place for place, token in enumerate(ids) if token in self.eos_ids), len(ids))
        return ids[: end + 1]


def rollouts_for(
    trainer: Any, settings: GrpoPart, *, suppressed: Sequence[int], eos_ids: Sequence[int]
) -> Rollouts | None:
    """Return a CUDA graph decoder if it is requested and supported, else None."""
    accelerator = trainer.accelerator
    if settings.rollouts == "library":
        return None
    model = accelerator.unwrap_model(trainer.model)
    model = model.get_base_model() if hasattr(model, "get_base_model") else model
    if settings.rollouts == "auto" and not (accelerator.device.type == "cuda" and is_large(model)):
        return None
    kind = str(getattr(accelerator.distributed_type, "value", accelerator.distributed_type))
    plain = settings.top_p == 1 and settings.top_k == 0
    if kind not in WHOLE_IN_EACH_PROCESS or not plain or not supports(model):
        return None
    pad_id = int(trainer.processing_class.tokenizer.pad_token_id)
    return Rollouts(model, settings, suppressed=suppressed, eos_ids=eos_ids, pad_id=pad_id)


def run_lengths(names: Sequence[Any]) -> list[int]:
    """Return the lengths of runs of equal names: `a a b` gives 2, 1."""
    lengths: list[int] = []
    for place, name in enumerate(names):
        if place and names[place - 1] == name:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


def _share(fields: dict[str, Any], images: Sequence[int], some: slice) -> dict[str, Any]:
    """Return the part of the fields that belongs to the prompts in `some`."""
    first, last = sum(images[: some.start]), sum(images[: some.stop])
    grids = fields.get("image_grid_thw")
    shares: dict[str, Any] = {}
    for name, values in fields.items():
        if name == "pixel_values":
            ends = [0, *grids.prod(dim=1).cumsum(0).tolist()] if grids is not None else [0]
            shares[name] = values[ends[first] : ends[last]]
        elif name == "image_grid_thw":
            shares[name] = values[first:last]
        else:
            shares[name] = values[some]
    return {name: values for name, values in shares.items() if len(values)}
