"""Attention without a mask, for rows that are padded at their ends.

A token looks at those before it, and padding at the end comes after every other token: nothing that is
learned from ever sees it. A mask changes nothing then, but it is one number for every pair of tokens of every
row, and keeps the fast kernels away, which know how to look back and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def padded_at_the_end(model: Any) -> Iterator[None]:
    """Within it, the language model looks back without a mask, where its attention gains by that."""
    with ExitStack() as hooks:
        for module in _language_models(model):
            hook = module.register_forward_pre_hook(_without_mask, with_kwargs=True)
            hooks.callback(hook.remove)
        yield


def _language_models(model: Any) -> list[Any]:
    """Those of Qwen3-VL, with `sdpa`: other kernels skip padding by the mask, or need one to look back."""
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextModel

    return [
        module
        for module in model.modules()
        if isinstance(module, Qwen3VLTextModel) and module.config._attn_implementation == "sdpa"
    ]


def _without_mask(module: Any, arguments: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return arguments, {**options, "attention_mask": None}
