"""Prefill: the prompts of Qwen3-VL through the library's forward pass, a few at a time, into a KV cache.

Every row of the KV cache starts at its first token, so the padding of the prompts is dropped here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

PREFILL_TOKENS = 8192
"""Prompt tokens per forward pass: more would take memory and save no time."""

KvCache = list[tuple[Tensor, Tensor]]
"""Keys and values of every layer: rows × heads × blocks × tokens × head."""


class Prefilled(NamedTuple):
    """What the prefill leaves for the decode, one value per prompt."""

    logits: Tensor
    """Of the first token of the reply."""
    rope_delta: Tensor
    """Position of the next token minus the number of tokens: a picture has fewer positions than tokens."""


def prefill(
    model: Any,
    inputs: dict[str, Tensor],
    pictures: Sequence[int],
    lengths: list[int],
    kv_cache: KvCache,
    copies: int = 1,
) -> Prefilled:
    """Fill the KV cache with left-padded prompts; `pictures` says how many each of them shows.

    Each prompt is read once, and fills as many rows as it has `copies`.
    """
    from transformers import DynamicCache

    chunks: list[Prefilled] = []
    for rows, chunk in _chunks(inputs, pictures, lengths):
        positions, rope_delta = _positions(model, chunk)
        empty = DynamicCache(config=model.model.language_model.config)
        output = model(
            **chunk, position_ids=positions, use_cache=True, logits_to_keep=1, past_key_values=empty
        )
        width = chunk["input_ids"].shape[1]
        for layer, (keys, values) in zip(output.past_key_values.layers, kv_cache, strict=True):
            for index, row in enumerate(rows):
                padding = width - lengths[row]
                for copy in range(row * copies, (row + 1) * copies):
                    _store(keys[copy], layer.keys[index, :, padding:])
                    _store(values[copy], layer.values[index, :, padding:])
        chunks.append(Prefilled(output.logits[:, -1], rope_delta.flatten()))
    return Prefilled(*(torch.cat(field) for field in zip(*chunks, strict=True)))


def _positions(model: Any, chunk: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The rope positions of all tokens, and the rope delta of every row."""
    ids, mask = chunk["input_ids"], chunk.get("attention_mask")
    if "image_grid_thw" in chunk:
        positions, rope_delta = model.model.get_rope_index(
            ids, chunk["mm_token_type_ids"], image_grid_thw=chunk["image_grid_thw"], attention_mask=mask
        )
        return positions, rope_delta
    unpadded = torch.ones_like(ids) if mask is None else mask
    counted = (unpadded.cumsum(-1) - 1).clamp(min=0)
    return counted.expand(3, *ids.shape), torch.zeros_like(ids[:, :1])


def _chunks(
    inputs: dict[str, Tensor], pictures: Sequence[int], lengths: list[int]
) -> Iterator[tuple[range, dict[str, Tensor]]]:
    """The prompts, a few at a time, with their pictures and no more padding than they need."""
    width = inputs["input_ids"].shape[1]
    grids = inputs.get("image_grid_thw")
    patches = [] if grids is None else grids.prod(dim=1).tolist()
    first = first_picture = first_patch = 0
    while first < len(lengths):
        last = first + 1
        while last < len(lengths) and max(lengths[first : last + 1]) * (last + 1 - first) <= PREFILL_TOKENS:
            last += 1
        longest = max(lengths[first:last])
        chunk: dict[str, Tensor] = {
            name: inputs[name][first:last, width - longest :]
            for name in ("input_ids", "mm_token_type_ids")
            if name in inputs
        }
        if min(lengths[first:last]) < longest:
            chunk["attention_mask"] = inputs["attention_mask"][first:last, width - longest :]
        picture_count = sum(pictures[first:last])
        if grids is not None and picture_count:
            patch_count = sum(patches[first_picture : first_picture + picture_count])
            chunk["pixel_values"] = inputs["pixel_values"][first_patch : first_patch + patch_count]
            chunk["image_grid_thw"] = grids[first_picture : first_picture + picture_count]
            first_picture, first_patch = first_picture + picture_count, first_patch + patch_count
        yield range(first, last), chunk
        first = last


def _store(row: Tensor, states: Tensor) -> None:
    """Copy the keys or values of a whole prompt into the blocks of its row."""
    row.flatten(1, 2)[:, : states.shape[1]].copy_(states)
