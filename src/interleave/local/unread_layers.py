"""Drop the layers of a text encoder whose states a pipeline does not use.

FLUX.2 klein uses the states of three middle layers of its text encoder, a full language model. The later
layers and the output layer take time and gigabytes, and their results are discarded.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from torch import nn

LAYERS = "text_encoder_out_layers"
"""The parameter of a pipeline that names the layers it reads."""


def drop_unread_layers(pipeline: Any, read: Sequence[int] | None) -> int:
    """Drop the layers after the last one that is read; return the number of dropped layers.

    `read` has the pipeline's layer numbers; None means the pipeline's default.
    """
    encoder: Any = getattr(pipeline, "text_encoder", None)
    if type(encoder).__name__ != "Qwen3ForCausalLM" or LAYERS not in _parameters(pipeline):
        return 0
    last = max(read or _parameters(pipeline)[LAYERS].default)
    layers = encoder.model.layers
    kept = min(last + 1, len(layers))  # one more, because the states of the last layer are normalized
    dropped = len(layers) - kept
    encoder.model.layers = layers[:kept]
    encoder.config.num_hidden_layers = kept
    encoder.lm_head = nn.Identity()
    return dropped


def _parameters(pipeline: Any) -> Any:
    return inspect.signature(type(pipeline).__call__).parameters
