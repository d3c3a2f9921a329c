"""Causal attention without a mask, for rows that are padded on the right.

A token attends only to those before it, and padding on the right comes after every other token, so nothing
that is learned from attends to it. A mask would change nothing then, but it has one number for every pair of
tokens of every row, and it rules out the fast kernels, which are causal and take no other mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def unmasked_attention(model: Any) -> Iterator[None]:
    """Drop the attention mask of the language model while the block runs, where that is faster."""
    with ExitStack() as hooks:
        for module in _language_models(model):
            hook = module.register_forward_pre_hook(_drop_mask, with_kwargs=True)
            hooks.callback(hook.remove)
        yield


def _language_models(model: Any) -> list[Any]:
    """Those of Qwen3-VL with `sdpa`: other kernels skip padding by the mask, or need it to be causal."""
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextModel

    return [
        module
        for module in model.modules()
        if isinstance(module, Qwen3VLTextModel) and module.config._attn_implementation == "sdpa"
    ]


def _drop_mask(module: Any, arguments: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return arguments, {**options, "attention_mask": None}
