"""Causal attention without a mask, for rows padded on the right.

A token attends only to earlier tokens, and padding on the right comes last, so no token with a loss attends
to it. A mask would change nothing, but it has one number per pair of tokens of every row, and it rules out
the fast kernels, which are causal and take no other mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def unmasked_attention(model: Any) -> Iterator[None]:
    """Drop the attention mask of the language model inside the block, if that is faster."""
    with ExitStack() as hooks:
        for module in _language_models(model):
            hook = module.register_forward_pre_hook(_drop_mask, with_kwargs=True)
            hooks.callback(hook.remove)
        yield


def _language_models(model: Any) -> list[Any]:
    """Return Qwen3-VL language models with `sdpa`; other kernels need the mask for padding or causality."""
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextModel

    return [
        module
        for module in model.modules()
        if isinstance(module, Qwen3VLTextModel) and module.config._attn_implementation == "sdpa"
    ]


def _drop_mask(module: Any, arguments: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return arguments, {**options, "attention_mask": None}
