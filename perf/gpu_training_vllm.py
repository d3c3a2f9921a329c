"""Measures answers by vLLM in a separate process: 4 prompts with two images each, 8 samples of 300 tokens.

    PYTHONPATH=/opt/vllm python perf/gpu_training_vllm.py FOLDER TOKENS GATE

It imports vLLM, waits for the file GATE, builds the engine and generates the answers twice, each time for
new prompts. FOLDER has a model's settings without weights, `prompts.json` and images. The weights are vLLM's
random ones. The timing does not depend on them, since each answer has all its tokens. Lines that begin with
`{` are results.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

COPIES = 8
CACHE_BYTES = 24_000_000_000


def main(folder: Path, tokens: int, gate: Path) -> None:
    started = time.perf_counter()
    import vllm

    prompts = prompts_in(folder)
    half = len(prompts) // 2
    options = engine_options(folder, COPIES * half)
    version, engine_class = vllm.__version__, vllm.LLM  # the attribute access imports it
    failed = prepare(vllm, options)
    say("vllm imported", version=version, seconds=time.perf_counter() - started, failed=failed)
    parent = os.getppid()
    while not gate.exists():
        if os.getppid() != parent:
            return
        time.sleep(0.05)
    started = time.perf_counter()
    engine = engine_class(**options)
    say("vllm ready", seconds=time.perf_counter() - started)
    sampling = vllm.SamplingParams(
        n=COPIES, temperature=1.0, max_tokens=tokens, ignore_eos=True, detokenize=False
    )
    for number, some in (("first", prompts[:half]), ("second", prompts[half:])):
        answer(engine, sampling, some, number)
    if hasattr(engine, "reset_prefix_cache"):
        # as after a weight update; processed images may still be cached
        engine.reset_prefix_cache()
        answer(engine, sampling, prompts[:half], "third, images known")


def engine_options(folder: Path, answers: int) -> dict[str, Any]:
    return {
        "model": str(folder),
        "load_format": "dummy",
        "dtype": "bfloat16",
        "max_model_len": 8192,
        "max_num_seqs": answers,
        "max_num_batched_tokens": 16_384,
        "gpu_memory_utilization": 0.5,  # only checked: the cache size is set separately
        "kv_cache_memory_bytes": CACHE_BYTES,
        "limit_mm_per_prompt": {"image": 2, "video": 0},
        "skip_mm_profiling": True,
        # Graphs of whole decode steps without torch.compile, which would take longer than the measurement.
        "compilation_config": {
            "mode": 0,
            "cudagraph_mode": "FULL_DECODE_ONLY",
            "cudagraph_capture_sizes": [answers],
        },
    }


def prepare(vllm: Any, options: dict[str, Any]) -> str | None:
    """Inspect the model's settings before the device is needed: vLLM caches the result."""
    try:
        vllm.EngineArgs(**options).create_engine_config()
        import vllm.model_executor.models.qwen3_vl
        import vllm.v1.engine.llm_engine
        import vllm.v1.worker.gpu_worker
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return None


def answer(engine: Any, sampling: Any, prompts: list[Any], number: str) -> None:
    started = time.perf_counter()
    made = engine.generate(prompts, sampling, use_tqdm=False)
    spent = time.perf_counter() - started
    lengths = [len(one.token_ids) for each in made for one in each.outputs]
    say(
        "rollouts",
        by="vLLM",
        time=number,
        answers=len(lengths),
        seconds=spent,
        tokens=sum(lengths),
        shortest=min(lengths),
        tokens_a_second=sum(lengths) / spent,
        question=len(made[0].prompt_token_ids),
    )


def prompts_in(folder: Path) -> list[dict[str, Any]]:
    from PIL import Image

    return [
        {
            "prompt": each["text"],
            "multi_modal_data": {
                "image": [Image.open(folder / name).convert("RGB") for name in each["pictures"]]
            },
        }
        for each in json.loads((folder / "prompts.json").read_text())
    ]


def say(what: str, **figures: Any) -> None:
    print(json.dumps({"what": what, **figures}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
