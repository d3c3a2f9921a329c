"""The output layer under FSDP: gathered by FSDP itself before a loss, so that its gradient is averaged.

TRL computes the loss from the output layer's weights without calling the layer. accelerate makes the layer a
unit of FSDP of its own, which FSDP gathers when it is called; so TRL gathers the weights itself, and each
process then keeps, for its share of them, the gradient of its own rows alone. Nothing fails, but the layer
learns from a part of every batch. Gathered by FSDP beforehand, its gradient goes the way of all others.
"""

from __future__ import annotations

from typing import Any


def gather_output_layer(model: Any) -> None:
    """Gather the output layer's weights until the backward pass has used them; nothing without FSDP."""
    head = model.get_output_embeddings()
    if hasattr(head, "unshard"):
        head.unshard()
