"""Many pictures at once, for the Qwen3-VL models.

The library looks at the pictures of a batch one after another: every layer of the vision tower runs its
attention once per picture, and positions are counted row by row, each with its wait for the device. For a
small model with a thousand pictures that is nearly all of its time. Pictures of one size are one more
dimension of a tensor, and positions are sums along the row: the same numbers, in a few operations.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Grid = tuple[int, int, int]
"""Patches of a picture: frames, rows, columns."""

MORE_OUTPUTS = ("output_hidden_states", "output_attentions")
PREPARED = frozenset({"cu_seqlens", "max_seqlen", "position_ids", "interp_indices", "interp_weights"})


def see_many_at_once(model: Any) -> bool:
    """Change a loaded model so that it does; whether it is of a kind that is known here. Others stay."""
    try:
        from transformers.models.qwen3_vl import modeling_qwen3_vl as library
    except ImportError:
        return False
    known: dict[type, tuple[str, Callable[..., Any]]] = {
        library.Qwen3VLVisionModel: ("forward", _look),
        library.Qwen3VLVisionAttention: ("forward", _attend),
        library.Qwen3VLVisionPatchEmbed: ("forward", _embed_patches),
        library.Qwen3VLModel: ("get_rope_index", _positions),
    }
    found = False
    for module in model.modules():
        if type(module) in known:  # a class made from it may work otherwise
            name, method = known[type(module)]
            setattr(module, name, MethodType(method, module))
            found = True
    return found


def _look(tower: Any, hidden_states: Tensor, grid_thw: Tensor, **options: Any) -> Any:
    """The vision tower over pictures of one size: its layers see them as a batch."""
    from transformers.models.qwen3_vl.modeling_qwen3_vl import BaseModelOutputWithDeepstackFeatures
    from transformers.utils.generic import is_flash_attention_requested

    grid = _common_grid(grid_thw)
    if grid is None or _is_special(options, tower.config) or is_flash_attention_requested(tower.config):
        return type(tower).forward(tower, hidden_states, grid_thw, **options)
    indices, weights, places = _layout(tower, grid, hidden_states.device)
    patches = tower.patch_embed(hidden_states)
    learned = (tower.pos_embed(indices) * weights[:, :, None]).sum(1)
    states = patches.view(len(grid_thw), len(places), -1) + learned.to(patches.dtype)
    turns = tower.rotary_pos_emb(states, places)
    deep = []
    for number, block in enumerate(tower.blocks):
        states = block(states, cu_seqlens=None, position_embeddings=turns)
        if number in tower.deepstack_visual_indexes:
            merger = tower.deepstack_merger_list[tower.deepstack_visual_indexes.index(number)]
            deep.append(merger(states))
    return BaseModelOutputWithDeepstackFeatures(
        last_hidden_state=states.flatten(0, 1), pooler_output=tower.merger(states), deepstack_features=deep
    )


def _common_grid(grid_thw: Tensor) -> Grid | None:
    """The size that all pictures have, if they have one; films, which are several pictures each, have not."""
    grids = {(int(frames), int(rows), int(columns)) for frames, rows, columns in grid_thw.tolist()}
    grid = grids.pop() if len(grids) == 1 else None
    return grid if grid is not None and grid[0] == 1 else None


def _is_special(options: dict[str, Any], config: Any) -> bool:
    """Whether more than the result is wanted, or something was computed beforehand."""
    more = any(options.get(name) or getattr(config, name, False) for name in MORE_OUTPUTS)
    return more or options.get("return_dict") is False or not PREPARED.isdisjoint(options)


def _layout(tower: Any, grid: Grid, device: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Where the patches of one picture are: in the learned grid, with their weights, and for the rotation."""
    import torch
    from transformers.vision_utils import (
        get_vision_interpolation_indices_and_weights,
        get_vision_position_ids,
    )

    kept: dict[tuple[Grid, Any], tuple[Tensor, Tensor, Tensor]] = tower.__dict__.setdefault("_layouts", {})
    if (grid, device) not in kept:
        with torch.inference_mode(False):  # kept for training too, whoever asks first
            one = torch.tensor([grid])
            indices, weights = get_vision_interpolation_indices_and_weights(
                one,
                num_grid_per_side=tower.num_grid_per_side,
                mode=tower.interpolation_mode,
                align_corners=tower.interpolation_align_corners,
                spatial_merge_size=tower.spatial_merge_size,
            )
            places = get_vision_position_ids(one, tower.spatial_merge_size)
            kept[grid, device] = (indices.to(device), weights.to(device), places.to(device))
    return kept[grid, device]


def _attend(
    attention: Any,
    hidden_states: Tensor,
    cu_seqlens: Tensor | None,
    position_embeddings: Any = None,
    **options: Any,
) -> Any:
    """Attention within each picture of a batch: one call for all of them."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.models.qwen3_vl.modeling_qwen3_vl import (
        apply_rotary_pos_emb_vision,
        eager_attention_forward,
    )

    if cu_seqlens is not None:  # pictures of several sizes, one after another in one long row
        own = type(attention).forward
        return own(attention, hidden_states, cu_seqlens, position_embeddings=position_embeddings, **options)
    pictures, patches, width = hidden_states.shape
    parts = attention.qkv(hidden_states).view(pictures, patches, 3, attention.num_heads, -1)
    query, key, value = parts.unbind(2)
    query, key = apply_rotary_pos_emb_vision(query, key, *position_embeddings)
    attend = ALL_ATTENTION_FUNCTIONS.get_interface(
        attention.config._attn_implementation, eager_attention_forward
    )
    seen, _ = attend(
        attention,
        *(part.transpose(1, 2) for part in (query, key, value)),
        attention_mask=None,
        scaling=attention.scaling,
        dropout=attention.attention_dropout if attention.training else 0.0,
        is_causal=False,
    )
    return attention.proj(seen.reshape(pictures, patches, width))


def _embed_patches(embedding: Any, hidden_states: Tensor) -> Tensor:
    """A convolution whose steps are as wide as its window is one product of matrices, and faster as such."""
    import torch

    weight = embedding.proj.weight
    if type(embedding.proj) is not torch.nn.Conv3d or weight.dim() != 5:  # adapted, or kept elsewhere
        return type(embedding).forward(embedding, hidden_states)
    patches = hidden_states.to(weight.dtype).view(-1, weight[0].numel())
    embedded: Tensor = torch.nn.functional.linear(patches, weight.flatten(1), embedding.proj.bias)
    return embedded


def _positions(
    model: Any,
    input_ids: Tensor,
    mm_token_type_ids: Tensor,
    image_grid_thw: Tensor | None = None,
    video_grid_thw: Tensor | None = None,
    attention_mask: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """The three positions of every token, and by how much counting on differs from the row's length."""
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
    merge = model.config.vision_config.spatial_merge_size
    return picture_positions(input_ids, mm_token_type_ids, image_grid_thw, attention_mask, merge)


def picture_positions(
    input_ids: Tensor, kinds: Tensor, grids: Tensor, attention_mask: Tensor | None, merge: int
) -> tuple[Tensor, Tensor]:
    """A word moves the count on by one; a picture by its longer side, and its tokens are a grid from there.

    Words have the kind 0, tokens of pictures 1, with a word between two pictures. Tokens that are masked have
    no position. Nothing here waits for the device.
    """
    import torch

    there = torch.ones_like(input_ids).bool() if attention_mask is None else attention_mask.bool()
    in_picture = (kinds == 1) & there
    first = in_picture & ~torch.nn.functional.pad(in_picture, (1, 0))[:, :-1]
    number = (first.flatten().cumsum(0) - 1).clamp(0, len(grids) - 1).view_as(input_ids)
    grids = grids.to(input_ids.device)
    rows, columns = (grids[:, axis] // merge for axis in (1, 2))
    height, width = rows[number], columns[number]
    longer = torch.maximum(grids[:, 1], grids[:, 2]).div(merge, rounding_mode="floor")[number]
    moved = torch.where(in_picture, longer * first, there.long())
    start = moved.cumsum(1) - torch.where(in_picture, longer, moved)
    place = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
    begun = torch.where(first, place, 0).cummax(1).values
    within = torch.where(in_picture, place - begun, 0)
    steps = (within // (height * width), within % (height * width) // width, within % width)
    positions = torch.stack([(start + step) * there for step in steps]).to(input_ids.dtype)
    ahead = positions.amax(dim=(0, 2)) + 1 - there.sum(dim=1)
    return positions, ahead.unsqueeze(1)
