"""Questions of the Qwen3-VL models, read by the library a few at a time, into a cache cut into pieces.

Rows stand in the cache from its beginning, each as long as it is, so that padding is left behind here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from interleave.backends.qwen3_vl.decoder_layer import likeliest

if TYPE_CHECKING:
    from torch import Tensor

READ_TOGETHER = 8192
"""Tokens of questions that are read at once: more would need memory and gain no time."""

Cache = list[tuple["Tensor", "Tensor"]]
"""Keys and values of every layer: rows × heads × pieces × tokens × head."""


class Read(NamedTuple):
    """What reading has brought for every question."""

    tokens: Tensor
    """The first of its answer,"""
    chances: Tensor
    """how likely that is,"""
    ahead: Tensor
    """and how far its position is ahead of the number of tokens: pictures count otherwise."""


def read_questions(
    model: Any, inputs: dict[str, Tensor], pictures: Sequence[int], lengths: list[int], cache: Cache
) -> Read:
    """Read questions, padded on the left, that show so many pictures each."""
    import torch
    from transformers import DynamicCache

    read: list[Read] = []
    for rows, part in _parts(inputs, pictures, lengths):
        places, ahead = _positions(model, part)
        blank = DynamicCache(config=model.model.language_model.config)
        seen = model(**part, position_ids=places, use_cache=True, logits_to_keep=1, past_key_values=blank)
        width = part["input_ids"].shape[1]
        for layer, (keys, values) in zip(seen.past_key_values.layers, cache, strict=True):
            for number, row in enumerate(rows):
                pad = width - lengths[row]
                _put(keys[row], layer.keys[number, :, pad:])
                _put(values[row], layer.values[number, :, pad:])
        read.append(Read(*likeliest(seen.logits[:, -1]), ahead.flatten()))
    return Read(*(torch.cat(each) for each in zip(*read, strict=True)))


def _positions(model: Any, part: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Positions of all tokens, and how far the next one is ahead of the number of tokens."""
    import torch

    ids, mask = part["input_ids"], part.get("attention_mask")
    if "image_grid_thw" in part:
        places, ahead = model.model.get_rope_index(
            ids, part["mm_token_type_ids"], image_grid_thw=part["image_grid_thw"], attention_mask=mask
        )
        return places, ahead
    there = torch.ones_like(ids) if mask is None else mask
    counted = (there.cumsum(-1) - 1).clamp(min=0)
    return counted.expand(3, *ids.shape), torch.zeros_like(ids[:, :1])


def _parts(
    inputs: dict[str, Tensor], pictures: Sequence[int], lengths: list[int]
) -> Iterator[tuple[range, dict[str, Tensor]]]:
    """The questions, a few at a time, with what belongs to them and no more padding than they need."""
    width = inputs["input_ids"].shape[1]
    grids = inputs.get("image_grid_thw")
    patches = [] if grids is None else grids.prod(dim=1).tolist()
    first = shown = looked_at = 0
    while first < len(lengths):
        last = first + 1
        while last < len(lengths) and max(lengths[first : last + 1]) * (last + 1 - first) <= READ_TOGETHER:
            last += 1
        longest = max(lengths[first:last])
        part: dict[str, Tensor] = {
            name: inputs[name][first:last, width - longest :]
            for name in ("input_ids", "mm_token_type_ids")
            if name in inputs
        }
        if min(lengths[first:last]) < longest:
            part["attention_mask"] = inputs["attention_mask"][first:last, width - longest :]
        count = sum(pictures[first:last])
        if grids is not None and count:
            here = sum(patches[shown : shown + count])
            part["pixel_values"] = inputs["pixel_values"][looked_at : looked_at + here]
            part["image_grid_thw"] = grids[shown : shown + count]
            shown, looked_at = shown + count, looked_at + here
        yield range(first, last), part
        first = last


def _put(row: Tensor, states: Tensor) -> None:
    """Keys or values of a whole question into the pieces of its row."""
    row.flatten(1, 2)[:, : states.shape[1]].copy_(states)
