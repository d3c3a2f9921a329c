"""Layers compiled, for small models: most of their time goes to moving numbers, not to arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def compiled_layers(model: Any, *, wanted: bool = True) -> Iterator[None]:
    """Within it, layers that repeat run compiled, each kind once for all shapes; weights and names stay."""
    layers = _layers(model) if wanted else []
    for layer in layers:
        layer.compile(dynamic=True)
    try:
        yield
    finally:
        for layer in layers:  # writing answers would compile them again, for every length
            layer._compiled_call_impl = None


def _layers(model: Any) -> list[Any]:
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextDecoderLayer, Qwen3VLVisionBlock

    kinds = (Qwen3VLTextDecoderLayer, Qwen3VLVisionBlock)
    return [module for module in model.modules() if isinstance(module, kinds)]
