"""Counts the arithmetic of a training row from the shapes, without recomputed activations."""

from __future__ import annotations

from random_models import Size


def sft_flops(size: Size, tokens: int, images: int, *, answer: int, adapter: bool) -> float:
    """Count the floating-point operations to train on one row of `tokens`, `answer` of them with loss.

    Counts the forward pass, the backward pass to the activations, and that to the weights unless only an
    adapter is trained, which counts at rank 32. The vision tower is frozen: forward pass only.
    """
    text = size.text
    wide, inner = text["hidden_size"], text["intermediate_size"]
    heads, kv = (text[name] * text["head_dim"] for name in ("num_attention_heads", "num_key_value_heads"))
    layer = wide * (2 * heads + 2 * kv + 3 * inner)
    lora = 32 * (4 * wide + 2 * heads + 2 * kv + 3 * (wide + inner)) if adapter else 0
    passes = 2 if adapter else 3
    linear = 2 * tokens * text["num_hidden_layers"] * (passes * layer + 3 * lora)
    attention = 3 * 2 * tokens**2 * heads * text["num_hidden_layers"]  # causal: half of all pairs
    head = passes * 2 * answer * wide * text["vocab_size"]
    return float(linear + attention + head + images * image_flops(size))


def image_flops(size: Size) -> float:
    """Count the operations of one image in the vision tower and the projector."""
    vision, patches = size.vision, (size.side // 16) ** 2
    wide, inner = vision["hidden_size"], vision["intermediate_size"]
    blocks = vision["depth"] * (2 * patches * (4 * wide**2 + 2 * wide * inner) + 4 * patches**2 * wide)
    merged = 4 * wide
    joins = 1 + len(vision["deepstack_visual_indexes"])
    return float(blocks + joins * 2 * patches // 4 * (merged**2 + merged * size.text["hidden_size"]))
