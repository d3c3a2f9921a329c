"""Measures verdicts by vLLM for comparison: the critic's question on two images, a reply of 300 tokens.

    python perf/gpu_vllm.py FOLDER --results results.json

FOLDER is written by `perf/gpu_attempt.py --question FOLDER`: the critic's configuration and its question. The
weights are vLLM's dummies, also random. It runs in a separate process, with vLLM first on the path, and
imports nothing of this project. To start quickly it uses two sizes of CUDA graphs and no profiling.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # a second process would repeat all imports
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

CONTEXT = 8192
WARM_UP_TOKENS = 8
CACHE_GIB = 18
"""Size of the KV cache: 32 verdicts take 13 GB."""


def main() -> None:
    options = _options()
    started = time.perf_counter()
    from vllm import LLM, SamplingParams, __version__

    imported = time.perf_counter()
    model = LLM(
        model=str(options.folder),
        load_format="dummy",
        dtype="bfloat16",
        max_model_len=CONTEXT,
        max_num_seqs=max(options.together),
        max_num_batched_tokens=CONTEXT,
        gpu_memory_utilization=options.share,
        kv_cache_memory_bytes=CACHE_GIB * 2**30,
        limit_mm_per_prompt={"image": 2, "video": 0},
        skip_mm_profiling=True,
        mm_processor_cache_gb=0,
        compilation_config={"cudagraph_capture_sizes": sorted(options.together)},
        disable_log_stats=True,
    )
    _note(
        options.results,
        what="vllm started",
        version=__version__,
        importing=round(imported - started, 1),
        starting=round(time.perf_counter() - imported, 1),
    )
    _wait_for(options.after)
    few, all_tokens = (
        SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        for tokens in (WARM_UP_TOKENS, options.tokens)
    )
    question = (options.folder / "question.txt").read_text("utf-8")
    for turn in range(options.repeat + 1):
        for together in options.together:
            asked = [
                _asked(question, 1000 * turn + 10 * together + number, options.side)
                for number in range(together)
            ]
            begun = time.perf_counter()
            replies = model.generate(asked, all_tokens if turn else few, use_tqdm=False)
            seconds = time.perf_counter() - begun
            if turn:  # the first is a warm-up
                _note(
                    options.results,
                    what="vllm",
                    together=together,
                    each=round(seconds / together, 4),
                    seconds=round(seconds, 3),
                    milliseconds_per_token=round(1000 * seconds / options.tokens, 2),
                    tokens=sorted({len(reply.outputs[0].token_ids) for reply in replies}),
                    question_tokens=sorted({len(reply.prompt_token_ids or []) for reply in replies}),
                    version=__version__,
                )


def _asked(question: str, seed: int, side: int) -> dict[str, Any]:
    """Build the question about two new images."""
    return {
        "prompt": question,
        "multi_modal_data": {"image": [_image(2 * seed, side), _image(2 * seed + 1, side)]},
    }


def _image(seed: int, side: int) -> Any:
    import numpy
    from PIL import Image

    coarse = numpy.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=numpy.uint8)
    return Image.fromarray(coarse).resize((side, side))


def _wait_for(path: Path | None) -> None:
    """Wait at most three minutes for a file, so that no other measurement runs at the same time."""
    end = time.monotonic() + 180
    while path is not None and not path.exists() and time.monotonic() < end:
        time.sleep(0.2)


def _note(results: Path | None, **row: Any) -> None:
    print(json.dumps(row), flush=True)
    if results:
        rows = json.loads(results.read_text()) if results.exists() else []
        results.write_text(json.dumps([*rows, row], indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--together", type=lambda text: [int(each) for each in text.split(",")], default=[1, 32]
    )
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--side", type=int, default=1024, help="side of the images in pixels")
    parser.add_argument("--repeat", type=int, default=2, help="timed turns")
    parser.add_argument("--share", type=float, default=0.32, help="maximum share of the device's memory")
    parser.add_argument("--after", type=Path, help="measure when this file exists")
    parser.add_argument("--results", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
