"""The vision tower of Qwen3-VL, batched over all images.

The library processes the images of a batch one by one: every layer of the vision tower runs its attention
once per image, and rope positions are computed row by row, each with a device synchronization. For a small
model with a thousand images that is nearly all of its time. Here images of one size are a batch
dimension, and positions are cumulative sums along the row: the same numbers, in a few operations.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

Grid = tuple[int, int, int]
"""Patches of an image: frames × rows × columns."""

EXTRA_OUTPUTS = ("output_hidden_states", "output_attentions")
PRECOMPUTED = frozenset({"cu_seqlens", "max_seqlen", "position_ids", "interp_indices", "interp_weights"})

_PATCH_POSITIONS: WeakKeyDictionary[Any, dict[tuple[Grid, Any], tuple[Tensor, Tensor, Tensor]]] = (
    WeakKeyDictionary()
)
"""Cache by vision tower, then by grid and device."""


def batch_vision(model: Any) -> bool:
    """Patch the Qwen3-VL modules of a loaded model; return whether it has any."""
    try:
        from transformers.models.qwen3_vl import modeling_qwen3_vl as library
    except ImportError:
        return False
    replacements: dict[type, tuple[str, Callable[..., Any]]] = {
        library.Qwen3VLVisionModel: ("forward", _vision_forward),
        library.Qwen3VLVisionAttention: ("forward", _attention_forward),
        library.Qwen3VLVisionPatchEmbed: ("forward", _patch_embed_forward),
        library.Qwen3VLModel: ("get_rope_index", _get_rope_index),
    }
    found = False
    for module in model.modules():
        if type(module) in replacements:  # a subclass may work differently
            name, method = replacements[type(module)]
            setattr(module, name, MethodType(method, module))
            found = True
    return found


def _vision_forward(tower: Any, hidden_states: Tensor, grid_thw: Tensor, **options: Any) -> Any:
    """Run the vision tower over images of one size as a batch."""
    from transformers.models.qwen3_vl.modeling_qwen3_vl import BaseModelOutputWithDeepstackFeatures
    from transformers.utils.generic import is_flash_attention_requested

    grid = _common_grid(grid_thw)
    if grid is None or _needs_library(options, tower.config) or is_flash_attention_requested(tower.config):
        return type(tower).forward(tower, hidden_states, grid_thw, **options)
    indices, weights, positions = _positions_in_grid(tower, grid, hidden_states.device)
    patches = tower.patch_embed(hidden_states)
    learned = (tower.pos_embed(indices) * weights[:, :, None]).sum(1)
    states = patches.view(len(grid_thw), len(positions), -1) + learned.to(patches.dtype)
    rope = tower.rotary_pos_emb(states, positions)
    deepstack = []
    for index, block in enumerate(tower.blocks):
        states = block(states, cu_seqlens=None, position_embeddings=rope)
        if index in tower.deepstack_visual_indexes:
            merger = tower.deepstack_merger_list[tower.deepstack_visual_indexes.index(index)]
            deepstack.append(merger(states))
    return BaseModelOutputWithDeepstackFeatures(
        last_hidden_state=states.flatten(0, 1),
        pooler_output=tower.merger(states),
        deepstack_features=deepstack,
    )


def _common_grid(grid_thw: Tensor) -> Grid | None:
    """Return the grid that all images share, or None; the library processes videos."""
    grids = {(int(frames), int(rows), int(columns)) for frames, rows, columns in grid_thw.tolist()}
    grid = grids.pop() if len(grids) == 1 else None
    return grid if grid is not None and grid[0] == 1 else None


def _needs_library(options: dict[str, Any], config: Any) -> bool:
    """Return whether the call requests extra outputs or passes precomputed inputs."""
    extra = any(options.get(name) or getattr(config, name, False) for name in EXTRA_OUTPUTS)
    return extra or options.get("return_dict") is False or not PRECOMPUTED.isdisjoint(options)


def _positions_in_grid(tower: Any, grid: Grid, device: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return, for one image's patches, indices and weights of the learned positions, and rope positions."""
    from transformers.vision_utils import (
        get_vision_interpolation_indices_and_weights,
        get_vision_position_ids,
    )

    cached = _PATCH_POSITIONS.setdefault(tower, {})
    if (grid, device) not in cached:
        with torch.inference_mode(False):  # training could not use an inference tensor later
            grids = torch.tensor([grid])
            indices, weights = get_vision_interpolation_indices_and_weights(
                grids,
                num_grid_per_side=tower.num_grid_per_side,
                mode=tower.interpolation_mode,
                align_corners=tower.interpolation_align_corners,
                spatial_merge_size=tower.spatial_merge_size,
            )
            positions = get_vision_position_ids(grids, tower.spatial_merge_size)
            cached[grid, device] = (indices.to(device), weights.to(device), positions.to(device))
    return cached[grid, device]


def _attention_forward(
    attention: Any,
    hidden_states: Tensor,
    cu_seqlens: Tensor | None,
    position_embeddings: Any = None,
    **options: Any,
) -> Any:
    """Compute attention within each image, in one call for all images."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.models.qwen3_vl.modeling_qwen3_vl import (
        apply_rotary_pos_emb_vision,
        eager_attention_forward,
    )

    if cu_seqlens is not None:  # images of several sizes, concatenated into one sequence
        forward = type(attention).forward
        return forward(
            attention, hidden_states, cu_seqlens, position_embeddings=position_embeddings, **options
        )
    images, patches, width = hidden_states.shape
    qkv = attention.qkv(hidden_states).view(images, patches, 3, attention.num_heads, -1)
    query, key, value = qkv.unbind(2)
    query, key = apply_rotary_pos_emb_vision(query, key, *position_embeddings)
    attend = ALL_ATTENTION_FUNCTIONS.get_interface(
        attention.config._attn_implementation, eager_attention_forward
    )
    attended, _ = attend(
        attention,
        *(states.transpose(1, 2) for states in (query, key, value)),
        attention_mask=None,
        scaling=attention.scaling,
        dropout=attention.attention_dropout if attention.training else 0.0,
        is_causal=False,
    )
    return attention.proj(attended.reshape(images, patches, width))


def _patch_embed_forward(embedding: Any, hidden_states: Tensor) -> Tensor:
    """Compute the patch embedding as a matrix product, equal to a convolution with stride = kernel size."""
    weight = embedding.proj.weight
    if type(embedding.proj) is not torch.nn.Conv3d or weight.dim() != 5:  # wrapped by an adapter, or sharded
        return type(embedding).forward(embedding, hidden_states)
    patches = hidden_states.to(weight.dtype).view(-1, weight[0].numel())
    embedded: Tensor = torch.nn.functional.linear(patches, weight.flatten(1), embedding.proj.bias)
    return embedded


def _get_rope_index(
    model: Any,
    input_ids: Tensor,
    mm_token_type_ids: Tensor,
    image_grid_thw: Tensor | None = None,
    video_grid_thw: Tensor | None = None,
    attention_mask: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """Return the three rope positions of every token, and the rope delta of every row."""
    if video_grid_thw is not None or image_grid_thw is None or not len(image_grid_thw):
        return type(model).get_rope_index(  # type: ignore[no-any-return]
            model,
            input_ids,
            mm_token_type_ids,
            image_grid_thw=image_grid_thw,
            video_grid_thw=video_grid_thw,
            attention_mask=attention_mask,
            **options,
        )
    merge_size = model.config.vision_config.spatial_merge_size
    return image_positions(input_ids, mm_token_type_ids, image_grid_thw, attention_mask, merge_size)


def image_positions(
    input_ids: Tensor, token_types: Tensor, grids: Tensor, attention_mask: Tensor | None, merge_size: int
) -> tuple[Tensor, Tensor]:
    """Return rope positions: a text token advances by one, an image, a grid, by its longer side.

    Text tokens have the type 0 and image tokens 1, with text between two images. Masked tokens have the
    position 0. Nothing here synchronizes with the device.
    """
    unmasked = torch.ones_like(input_ids).bool() if attention_mask is None else attention_mask.bool()
    in_image = (token_types == 1) & unmasked
    first = in_image & ~torch.nn.functional.pad(in_image, (1, 0))[:, :-1]
    image = (first.flatten().cumsum(0) - 1).clamp(0, len(grids) - 1).view_as(input_ids)
    grids = grids.to(input_ids.device)
    rows, columns = (grids[:, axis] // merge_size for axis in (1, 2))
    height, width = rows[image], columns[image]
    longer = torch.maximum(grids[:, 1], grids[:, 2]).div(merge_size, rounding_mode="floor")[image]
    advance = torch.where(in_image, longer * first, unmasked.long())
    start = advance.cumsum(1) - torch.where(in_image, longer, advance)
    index = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
    image_start = torch.where(first, index, 0).cummax(1).values
    patch = torch.where(in_image, index - image_start, 0)
    offsets = (patch // (height * width), patch % (height * width) // width, patch % width)
    positions = torch.stack([(start + offset) * unmasked for offset in offsets]).to(input_ids.dtype)
    rope_delta = positions.amax(dim=(0, 2)) + 1 - unmasked.sum(dim=1)
    return positions, rope_delta.unsqueeze(1)
