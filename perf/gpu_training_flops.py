"""How much arithmetic a row of training is, counted from the shapes: what is needed, without recomputing."""

from __future__ import annotations

from random_models import Size


def sft_flops(size: Size, tokens: int, images: int, *, answer: int, adapter: bool) -> float:
    """Floating-point operations to learn from one row of `tokens`, of which `answer` are learned.

    Forwards, and backwards to the activations; to the weights too unless only an adapter is trained, whose
    own arithmetic is counted at rank 32. The vision tower is held still: forwards alone.
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
    """One image through the vision tower, and what joins it to the language model."""
    vision, patches = size.vision, (size.side // 16) ** 2
    wide, inner = vision["hidden_size"], vision["intermediate_size"]
    blocks = vision["depth"] * (2 * patches * (4 * wide**2 + 2 * wide * inner) + 4 * patches**2 * wide)
    merged = 4 * wide
    joins = 1 + len(vision["deepstack_visual_indexes"])
    return float(blocks + joins * 2 * patches // 4 * (merged**2 + merged * size.text["hidden_size"]))
