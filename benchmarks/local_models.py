"""What a token costs: plain `generate` beside our compiled step in a static cache, at the size of 8B.

    python benchmarks/local_models.py            # on a CUDA machine: Qwen3-VL-8B in shape, random weights
    python benchmarks/local_models.py --tiny     # anywhere: the same code at toy size

Two pictures of 1024×1024 and some words go in, as a critic sees them; `--tokens` come out. The limit is what
the memory of the device allows: every weight must be read once for each token.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch
from PIL import Image
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from interleave.backends.local.batching import lane_of
from interleave.backends.local.decoding import Decoder, Question, prepare_cuda_graphs
from interleave.backends.local.processors import image_text_processor
from interleave.backends.protocols import Message
from interleave.backends.tiny.tokenizers import tiny_tokenizer
from interleave.types import Picture, Text

REAL = {
    "text": {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
    },
    "vision": {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16},
    "deepstack": [8, 16, 24],
    "mrope": [24, 20, 20],
    "side": 1024,
}
TINY = {
    "text": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 512,
    },
    "vision": {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2},
    "deepstack": [0],
    "mrope": [4, 2, 2],
    "side": 128,
}
BYTES_PER_SECOND = {"H200": 4.2e12, "H100": 3.0e12, "A100": 1.9e12}


def build(size: dict[str, Any], device: torch.device, dtype: torch.dtype) -> Decoder:
    """A model of this shape with random weights, made on its device."""
    tokenizer = tiny_tokenizer()
    rope = {
        "rope_type": "default",
        "rope_theta": 5e6,
        "mrope_section": size["mrope"],
        "mrope_interleaved": True,
    }
    config = Qwen3VLConfig(
        text_config={
            **size["text"],
            "max_position_embeddings": 262_144,
            "rope_parameters": rope,
            "tie_word_embeddings": False,
        },
        vision_config={
            **size["vision"],
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": size["text"]["hidden_size"],
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": size["deepstack"],
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
        vision_start_token_id=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
        tie_word_embeddings=False,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            model = Qwen3VLForConditionalGeneration(config).eval()
    finally:
        torch.set_default_dtype(before)
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    area = size["side"] ** 2
    pictures = Qwen2VLImageProcessorPil(
        patch_size=16, temporal_patch_size=2, merge_size=2, size={"shortest_edge": 4096, "longest_edge": area}
    )
    decoder = Decoder(model, image_text_processor("qwen3_vl", tokenizer, pictures))
    decoder.ends = frozenset({size["text"]["vocab_size"] - 1})  # random weights hardly ever say it
    return decoder


def question(side: int, tokens: int, *, compiled: bool) -> Question:
    pair = tuple(Picture(Image.effect_noise((side, side), 60).convert("RGB")) for _ in range(2))
    words = Text("Compare the picture before with the picture after. " * 20)
    messages = (Message("user", (*pair, words)),)
    return Question(messages, tokens, probabilities=True, static=compiled, compiled=compiled)


def timed(decoder: Decoder, asked: list[Question]) -> float:
    if decoder.model.device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    replies = decoder.answer(asked)
    seconds = time.perf_counter() - started
    assert all(
        reply.usage["completion_tokens"] == each.max_tokens
        for reply, each in zip(replies, asked, strict=True)
    )
    return seconds


def measure(decoder: Decoder, side: int, tokens: int, batch: int, *, compiled: bool) -> dict[str, float]:
    """Seconds until the first token and for each further one, after a warm-up at the same sizes."""
    long = [question(side, tokens, compiled=compiled)] * batch
    short = [question(side, 1, compiled=False)] * batch
    warm_up = timed(decoder, long)
    first = min(timed(decoder, short) for _ in range(2))
    whole = min(timed(decoder, long) for _ in range(2))
    return {"warm_up": warm_up, "first": first, "whole": whole, "per_token": (whole - first) / (tokens - 1)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="toy size, on the CPU")
    parser.add_argument("--tokens", type=int, help="how long a reply is [300; 24 with --tiny]")
    parser.add_argument("--batches", default="1,4,8", help="how many replies at once, e.g. 1,4,8")
    parser.add_argument("--no-compile", action="store_true", help="only the plain path")
    options = parser.parse_args()
    size = TINY if options.tiny else REAL
    tokens = options.tokens or (24 if options.tiny else 300)
    device = torch.device("cpu" if options.tiny else "cuda")
    dtype = torch.float32 if options.tiny else torch.bfloat16
    lane = lane_of(str(device))  # everything in one thread, as in use: CUDA graphs belong to it
    if device.type == "cuda":
        lane.submit(prepare_cuda_graphs).result()
    decoder = lane.submit(build, size, device, dtype).result()
    weights = sum(
        each.numel() * each.element_size()
        for name, each in decoder.model.named_parameters()
        if "visual" not in name and "embed_tokens" not in name  # of an embedding one row is read
    )
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    speed = next((value for key, value in BYTES_PER_SECOND.items() if key in name), None)
    limit = f"{1000 * weights / speed:.1f} ms" if speed else "not known here"
    print(f"{name}: {weights / 1e9:.2f} GB of weights per token, limit {limit}")
    for batch in (int(each) for each in options.batches.split(",")):
        for compiled in (False,) if options.no_compile else (False, True):
            work = lane.submit(measure, decoder, size["side"], tokens, batch, compiled=compiled)
            row = {
                "path": "compiled" if compiled else "plain",
                "batch": batch,
                "tokens": tokens,
                **work.result(),
            }
            print(
                json.dumps({key: round(v, 5) if isinstance(v, float) else v for key, v in row.items()}),
                flush=True,
            )


if __name__ == "__main__":
    main()
