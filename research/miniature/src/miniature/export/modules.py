"""The eight parts of the miniature that become graphs, each as a module of tensors in and tensors out.

Each module calls the layers of the library's own classes. Positions, masks and noise are arguments, so that a
graph has no control flow and one graph serves every batch size, length and image size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from interleave.local.qwen3_vl.batched_vision import batch_vision


class VisionGraph(nn.Module):  # type: ignore[misc]
    """The vision tower of Qwen3-VL over images of one size."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        batch_vision(model)
        self.tower = model.model.visual

    def forward(self, patches: Tensor, taps: Tensor, weights: Tensor, positions: Tensor) -> Tensor:
        """Return the features of each image: images × merged patches × width.

        `taps` and `weights` (patches × 4) interpolate learned positions; `positions` are rows and columns.
        """
        images, count = patches.shape[:2]
        embedded = self.tower.patch_embed(patches.flatten(0, 1))
        learned = (self.tower.pos_embed(taps) * weights[:, :, None]).sum(1)
        states = embedded.view(images, count, -1) + learned
        rope = self.tower.rotary_pos_emb(states, positions)
        for block in self.tower.blocks:
            states = block(states, cu_seqlens=None, position_embeddings=rope)
        merged: Tensor = self.tower.merger(states)
        return merged.view(images, count // self.tower.spatial_merge_unit, -1)


class DecoderGraph(nn.Module):  # type: ignore[misc]
    """The language model of Qwen3-VL: some tokens after a KV cache of fixed capacity.

    A step of one token is bound by the number of operations, so projections of the same input are one product
    of concatenated weights, and queries and keys are rotated together. Keys and values of the new tokens are
    returned and not concatenated with the cache, which is large: the caller writes them into it.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.text = model.model.language_model
        self.lm_head = model.lm_head

    def forward(
        self, embeddings: Tensor, cosines: Tensor, sines: Tensor, mask: Tensor, cache: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the logits after the last token, and the keys and values of all new tokens.

        `cosines` and `sines` are rows × 1 × tokens × width, the first half of the sines negated. `mask` is
        added to scores (rows × 1 × 1 × tokens × all keys). `cache` holds keys and values of each layer in
        turn (rows × heads × capacity × width).
        """
        states, written = embeddings, []
        for index, layer in enumerate(self.text.layers):
            past = (cache[2 * index], cache[2 * index + 1])
            normed = _rms_norm(layer.input_layernorm, states)
            attended, *new = _attend(layer.self_attn, normed, (cosines, sines), mask, *past)
            written += new
            states = states + attended
            states = states + _mlp(layer.mlp, _rms_norm(layer.post_attention_layernorm, states))
        return self.lm_head(_rms_norm(self.text.norm, states[:, -1])), written


def _rms_norm(norm: Any, states: Tensor) -> Tensor:
    return functional.rms_norm(states, norm.weight.shape, norm.weight, norm.variance_epsilon)


def _mlp(mlp: Any, states: Tensor) -> Tensor:
    both = functional.linear(states, torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]))
    half = both.shape[-1] // 2
    output: Tensor = mlp.down_proj(functional.silu(both[..., :half]) * both[..., half:])
    return output


def _attend(
    attention: Any,
    states: Tensor,
    rope: tuple[Tensor, Tensor],
    mask: Tensor,
    past_keys: Tensor,
    past_values: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend to the cache and to the new tokens; query heads that share keys are one axis of a product."""
    rows, tokens, _ = states.shape
    width, groups = attention.head_dim, attention.num_key_value_groups
    heads, capacity = past_keys.shape[1:3]
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    projected = functional.linear(states, torch.cat([each.weight for each in projections]))
    by_head = projected.view(rows, tokens, -1, width).transpose(1, 2)
    own = groups * heads
    query = _rms_norm(attention.q_norm, by_head[:, :own]) * attention.scaling
    both = torch.cat([query, _rms_norm(attention.k_norm, by_head[:, own : own + heads])], dim=1)
    swapped = torch.cat([both[..., width // 2 :], both[..., : width // 2]], dim=-1)
    both = both * rope[0] + swapped * rope[1]
    query, keys, values = both[:, :own], both[:, own:], by_head[:, own + heads :]
    query = query.reshape(rows, heads, groups * tokens, width)
    old, new = query @ past_keys.transpose(2, 3), query @ keys.transpose(2, 3)
    scores = torch.cat([old, new], dim=-1).view(rows, heads, groups, tokens, capacity + tokens) + mask
    weights = scores.softmax(dim=-1).view(rows, heads, groups * tokens, capacity + tokens)
    mixed = weights[..., :capacity] @ past_values + weights[..., capacity:] @ values
    mixed = mixed.view(rows, heads * groups, tokens, width).transpose(1, 2).reshape(rows, tokens, -1)
    return attention.o_proj(mixed), keys, values


class TextEncoderGraph(nn.Module):  # type: ignore[misc]
    """The text encoder of FLUX.2: hidden states of some layers, side by side."""

    def __init__(self, encoder: Any, layers: tuple[int, ...]) -> None:
        super().__init__()
        self.encoder = encoder.model
        self.layers = layers

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return rows × tokens × (layers × width); `mask` is added to scores (rows × 1 × tokens × tokens)."""
        positions = torch.arange(ids.shape[1])[None]
        output = self.encoder(
            input_ids=ids,
            attention_mask={"full_attention": mask},
            position_ids=positions,
            output_hidden_states=True,
            use_cache=False,
        )
        return torch.cat([output.hidden_states[layer] for layer in self.layers], dim=-1)


class TransformerGraph(nn.Module):  # type: ignore[misc]
    """The transformer of FLUX.2, with its rotary embeddings as an input."""

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        from diffusers.models.transformers import transformer_flux2

        transformer.pos_embed = _GivenRope()
        transformer_flux2.apply_rotary_emb = _rotate
        self.transformer = transformer

    def forward(self, latents: Tensor, prompt: Tensor, sigma: Tensor, rope: Tensor) -> Tensor:
        """Return the velocity of all latents; `rope` has cosines and sines of text, then latents."""
        words = prompt.shape[1]
        velocity: Tensor = self.transformer(
            hidden_states=latents,
            encoder_hidden_states=prompt,
            timestep=sigma,
            img_ids=rope[words:],
            txt_ids=rope[:words],
            return_dict=False,
        )[0]
        return velocity


class _GivenRope(nn.Module):  # type: ignore[misc]
    """Takes the place of the position embedding: its input has cosines and sines side by side."""

    def forward(self, rope: Tensor) -> tuple[Tensor, ...]:
        cosines, sines = rope.chunk(2, dim=-1)
        return cosines, sines


def _rotate(states: Tensor, rope: tuple[Tensor, Tensor], sequence_dim: int = 1) -> Tensor:
    """Rotate pairs of numbers by a product with a constant: strided slices take longer on a CPU."""
    width = states.shape[-1]
    even = torch.arange(0, width, 2)
    turn = torch.zeros(width, width)
    turn[even + 1, even], turn[even, even + 1] = -1.0, 1.0
    cosines, sines = (each[None, :, None] for each in rope)
    return states * cosines + (states @ turn) * sines


class VaeEncoderGraph(nn.Module):  # type: ignore[misc]
    """Pixels from -1 to 1 → normalized latents, 2×2 of them as channels."""

    def __init__(self, vae: Any) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, pixels: Tensor) -> Tensor:
        moments = self.vae.quant_conv(self.vae.encoder(pixels))
        latents = moments[:, : moments.shape[1] // 2]
        rows, channels, height, width = latents.shape
        grid = latents.view(rows, channels, height // 2, 2, width // 2, 2).permute(0, 1, 3, 5, 2, 4)
        mean, deviation = _latent_statistics(self.vae)
        return (grid.reshape(rows, channels * 4, height // 2, width // 2) - mean) / deviation


class VaeDecoderGraph(nn.Module):  # type: ignore[misc]
    """Normalized latents, 2×2 of them as channels → pixels from -1 to 1."""

    def __init__(self, vae: Any) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, latents: Tensor) -> Tensor:
        mean, deviation = _latent_statistics(self.vae)
        rows, channels, height, width = latents.shape
        grid = (latents * deviation + mean).view(rows, channels // 4, 2, 2, height, width)
        grid = grid.permute(0, 1, 4, 2, 5, 3).reshape(rows, channels // 4, height * 2, width * 2)
        pixels: Tensor = self.vae.decoder(self.vae.post_quant_conv(grid))
        return pixels


def _latent_statistics(vae: Any) -> tuple[Tensor, Tensor]:
    shape = (1, -1, 1, 1)
    variance = vae.bn.running_var.view(shape) + vae.config.batch_norm_eps
    return vae.bn.running_mean.view(shape), variance.sqrt()
