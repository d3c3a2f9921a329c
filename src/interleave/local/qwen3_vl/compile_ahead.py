"""Compile the decode step of a Qwen3-VL while its weights are still being read.

Compiling needs the shapes of one layer and no weights, and takes longer than reading all weights. The layer
for several rows and the kernels for a single row are compiled in two parallel threads, on a layer of
placeholder numbers. Models of the same shape are compiled once. A failure here occurs again at the first use
and is reported there.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from interleave.local.fp8 import FLOAT8
from interleave.local.qwen3_vl.cuda_graph_decode import BLOCK_MULTIPLE, BLOCK_SIZE, single_row_kernels
from interleave.local.qwen3_vl.decoder_layer import Float8Weights, LayerWeights, Projection, compiled_layer

log = logging.getLogger(__name__)

MODULES = (
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "triton",
    "interleave.local.qwen3_vl.single_row_kernels",
)
"""Imported before the threads start: threads that import concurrently can see half of a module."""

_COMPILING: dict[tuple[object, ...], list[Future[None]]] = {}
"""Started work by shape, dtype and device."""


def compile_ahead(text: Any, dtype: torch.dtype, device: torch.device, float8: bool = False) -> None:
    """Start to compile for a model with this text configuration."""
    shape = (text.hidden_size, text.intermediate_size, text.num_attention_heads, text.num_key_value_heads)
    key = (*shape, text.head_dim, text.vocab_size, dtype, device, float8)
    if key in _COMPILING:
        return
    with suppress(ImportError):
        for name in MODULES:
            importlib.import_module(name)
    threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="interleave-compile")
    works = (_compile_several, _compile_single)
    _COMPILING[key] = [threads.submit(_tried, work, text, dtype, device, float8) for work in works]
    threads.shutdown(wait=False)


def wait_until_compiled() -> None:
    """Wait until all started work is done."""
    for futures in list(_COMPILING.values()):
        for future in futures:
            future.result()


def _tried(work: Any, text: Any, dtype: torch.dtype, device: torch.device, float8: bool) -> None:
    try:
        with torch.inference_mode():
            work(text, dtype, device, float8)
    except Exception as error:
        log.debug("compiling ahead failed: %s", str(error)[:300])


def _compile_several(text: Any, dtype: torch.dtype, device: torch.device, float8: bool) -> None:
    """Compile the layer for two or more rows."""
    compiled_layer()(*layer_inputs(text, dtype, device, rows=2, float8=float8))


def _compile_single(text: Any, dtype: torch.dtype, device: torch.device, float8: bool) -> None:
    """Compile the kernels for one row."""
    hidden, weights, keys, *rest = layer_inputs(text, dtype, device, rows=1, float8=float8)
    head = torch.empty(text.vocab_size, text.hidden_size, dtype=dtype, device=device)
    kernels = single_row_kernels(weights, head, keys)
    if kernels is None:
        return
    single = kernels(weights, keys)
    single.layer(hidden, weights, keys, *rest)
    single.logits(hidden, weights.input_norm, head, text.rms_norm_eps)


def layer_inputs(
    text: Any, dtype: torch.dtype, device: torch.device, *, rows: int, float8: bool = False
) -> tuple[Any, ...]:
    """Return arguments of a layer with the right shapes and placeholder numbers."""

    def made(*shape: int, kind: torch.dtype = dtype) -> Tensor:
        return torch.zeros(shape, dtype=kind, device=device)

    keys, values = (
        made(rows, text.num_key_value_heads, BLOCK_MULTIPLE, BLOCK_SIZE, text.head_dim) for _ in range(2)
    )
    with torch.inference_mode(False):  # like the weights of a model
        weights = _weights(text, dtype, device, float8)
    return (
        made(rows, text.hidden_size),
        weights,
        keys,
        values,
        made(rows, text.head_dim),
        made(rows, text.head_dim),
        made(rows, kind=torch.long),
        made(rows, BLOCK_MULTIPLE, BLOCK_SIZE, kind=torch.float32),
        text.rms_norm_eps,
    )


def _weights(text: Any, dtype: torch.dtype, device: torch.device, float8: bool) -> LayerWeights:
    hidden, inner, head = text.hidden_size, text.intermediate_size, text.head_dim
    queries, pairs = text.num_attention_heads * head, text.num_key_value_heads * head

    def made(*shape: int) -> Tensor:
        return torch.nn.Parameter(torch.zeros(shape, dtype=dtype, device=device))

    def matrix(height: int, width: int) -> Projection:
        if not float8:
            return made(height, width)
        rounded = torch.zeros(height, width, dtype=FLOAT8, device=device)
        return Float8Weights(rounded, torch.ones(height, device=device))

    return LayerWeights(
        input_norm=made(hidden),
        query=matrix(queries, hidden),
        key=matrix(pairs, hidden),
        value=matrix(pairs, hidden),
        query_norm=made(head),
        key_norm=made(head),
        out=matrix(hidden, queries),
        post_attention_norm=made(hidden),
        gate=matrix(inner, hidden),
        up=matrix(inner, hidden),
        down=matrix(hidden, inner),
    )


def can_compile_ahead(model_type: str) -> bool:
    """Return whether this package decodes such a model, and a compiler is available."""
    return model_type == "qwen3_vl" and importlib.util.find_spec("triton") is not None
