"""Prefill of Qwen3-VL prompts into a KV cache by the library's forward pass, a few prompts at a time.

Every row of the KV cache starts at its first token, so the padding of the prompts is dropped here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from interleave.local.qwen3_vl.kept_prefixes import KeptPrefixes, Prefix, prefix_of

PREFILL_TOKENS = 8192
"""Prompt tokens per forward pass; more would cost memory and save no time."""

KvCache = list[tuple[Tensor, Tensor]]
"""Keys and values of every layer: rows × heads × blocks × tokens × head."""


class Prefilled(NamedTuple):
    """The result of the prefill, one value per prompt."""

    logits: Tensor
    """Logits of the first token of the reply."""
    rope_delta: Tensor
    """Position of the next token minus the number of tokens: an image has fewer positions than tokens."""


def prefill(
    model: Any,
    inputs: dict[str, Tensor],
    images: Sequence[int],
    lengths: list[int],
    kv_cache: KvCache,
    copies: int = 1,
    kept: KeptPrefixes | None = None,
) -> Prefilled:
    """Fill the KV cache with left-padded prompts; `images` has the number of images per prompt.

    Each prompt is read once and fills `copies` rows. If its prefix is in `kept`, only the rest is read.
    """
    prompts = _prompts(inputs, images, lengths) if kept is not None else []
    prefixes = [_prefix_of(prompt) for prompt in prompts] or [None] * len(lengths)
    states = [kept.get(prefix) if kept is not None else None for prefix in prefixes]
    unread = [row for row in range(len(lengths)) if states[row] is None]
    done: dict[int, tuple[Tensor, Tensor]] = {}
    for places, chunk in _chunks(*_selected(inputs, images, lengths, unread)):
        rows = [unread[place] for place in places]
        read, rope_delta = _read(model, chunk)
        for index, row in enumerate(rows):
            padding = chunk["input_ids"].shape[1] - lengths[row]
            found = [(layer.keys[index], layer.values[index]) for layer in read.past_key_values.layers]
            found = [(keys[:, padding:], values[:, padding:]) for keys, values in found]
            _fill(kv_cache, row, copies, found)
            _keep(kept, prefixes[row], found)
            done[row] = read.logits[index, -1], rope_delta.flatten()[index]
    for row, before in enumerate(states):
        if before is not None:
            read, rope_delta = _read(model, prompts[row], before)
            layers = read.past_key_values.layers
            _fill(kv_cache, row, copies, [(layer.keys[0], layer.values[0]) for layer in layers])
            done[row] = read.logits[0, -1], rope_delta.flatten()[0]
    return Prefilled(
        *(torch.stack(field) for field in zip(*(done[row] for row in sorted(done)), strict=True))
    )


def _read(
    model: Any, prompt: dict[str, Tensor], before: list[tuple[Tensor, Tensor]] | None = None
) -> tuple[Any, Tensor]:
    """Run the model on prompts; return its output and their rope deltas. `before` has a cached prefix."""
    from transformers import DynamicCache

    positions, rope_delta = _positions(model, prompt)
    cache = DynamicCache(config=model.model.language_model.config)
    if before is not None:
        for index, (keys, values) in enumerate(before):
            cache.update(keys[None], values[None], index)
        prompt, positions = _after(prompt, positions, before[0][0].shape[1])
    output = model(**prompt, position_ids=positions, use_cache=True, logits_to_keep=1, past_key_values=cache)
    return output, rope_delta


def _after(prompt: dict[str, Tensor], positions: Tensor, length: int) -> tuple[dict[str, Tensor], Tensor]:
    """Return a prompt from its last image on, which starts after `length` tokens."""
    grid = prompt["image_grid_thw"][-1:]
    rest: dict[str, Tensor] = {
        name: prompt[name][:, length:] for name in ("input_ids", "mm_token_type_ids") if name in prompt
    }
    pixels = prompt["pixel_values"][-int(grid.prod()) :]
    return {**rest, "pixel_values": pixels, "image_grid_thw": grid}, positions[:, :, length:]


def _prefix_of(prompt: dict[str, Tensor]) -> Prefix | None:
    if "image_grid_thw" not in prompt or "mm_token_type_ids" not in prompt:
        return None
    patches = prompt["image_grid_thw"].prod(dim=1).tolist()
    return prefix_of(prompt["input_ids"][0], prompt["mm_token_type_ids"][0], prompt["pixel_values"], patches)


def _keep(kept: KeptPrefixes | None, prefix: Prefix | None, states: list[tuple[Tensor, Tensor]]) -> None:
    if kept is not None and prefix is not None:
        length = prefix.length
        kept.keep(prefix, [(keys[:, :length], values[:, :length]) for keys, values in states])


def _fill(kv_cache: KvCache, row: int, copies: int, states: list[tuple[Tensor, Tensor]]) -> None:
    """Copy the keys and values of one prompt into the rows of its replies."""
    for (keys, values), (new_keys, new_values) in zip(kv_cache, states, strict=True):
        for copy in range(row * copies, (row + 1) * copies):
            _store(keys[copy], new_keys)
            _store(values[copy], new_values)


def _prompts(inputs: dict[str, Tensor], images: Sequence[int], lengths: list[int]) -> list[dict[str, Tensor]]:
    """Return every prompt separately, without padding."""
    made: list[dict[str, Tensor]] = []
    for row in range(len(lengths)):
        chosen, shown, length = _selected(inputs, images, lengths, [row])
        made.extend(chunk for _, chunk in _chunks(chosen, shown, length))
    return made


def _selected(
    inputs: dict[str, Tensor], images: Sequence[int], lengths: list[int], rows: list[int]
) -> tuple[dict[str, Tensor], list[int], list[int]]:
    """Return the inputs of some prompts, with their image counts and lengths."""
    shown, length = [images[row] for row in rows], [lengths[row] for row in rows]
    if len(rows) == len(lengths):
        return inputs, shown, length
    chosen = {
        name: value[rows] for name, value in inputs.items() if name not in ("pixel_values", "image_grid_thw")
    }
    grids = inputs.get("image_grid_thw")
    if grids is not None and any(shown):
        of_rows = grids.split(list(images))
        pixels = inputs["pixel_values"].split([int(grid.prod(dim=1).sum()) for grid in of_rows])
        chosen["image_grid_thw"] = torch.cat([of_rows[row] for row in rows])
        chosen["pixel_values"] = torch.cat([pixels[row] for row in rows])
    return chosen, shown, length


def _positions(model: Any, chunk: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the rope positions of all tokens, and the rope delta of every row."""
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
    inputs: dict[str, Tensor], images: Sequence[int], lengths: list[int]
) -> Iterator[tuple[range, dict[str, Tensor]]]:
    """Yield the prompts in small groups with their images and minimal padding."""
    width = inputs["input_ids"].shape[1]
    grids = inputs.get("image_grid_thw")
    patches = [] if grids is None else grids.prod(dim=1).tolist()
    first = first_image = first_patch = 0
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
        image_count = sum(images[first:last])
        if grids is not None and image_count:
            patch_count = sum(patches[first_image : first_image + image_count])
            chunk["pixel_values"] = inputs["pixel_values"][first_patch : first_patch + patch_count]
            chunk["image_grid_thw"] = grids[first_image : first_image + image_count]
            first_image, first_patch = first_image + image_count, first_patch + patch_count
        yield range(first, last), chunk
        first = last


def _store(row: Tensor, states: Tensor) -> None:
    """Copy the keys or values of a whole prompt into the blocks of its row."""
    row.flatten(1, 2)[:, : states.shape[1]].copy_(states)
