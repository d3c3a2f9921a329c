"""Measures training at full size: supervised fine-tuning and GRPO of Qwen3-VL-8B on one device.

    python perf/gpu_training.py --parts lora,full --profile --results results.json
    python perf/gpu_training.py --parts kill,overfit --results results.json
    python perf/gpu_training.py --parts grpo,grpo80,rollouts,pool,overlap --results results.json
    python perf/gpu_training.py --parts rollouts,vllm --vllm-path FOLDER --results results.json
    python perf/gpu_training.py --toy                                    # all parts at toy size, anywhere

The commands are the product's: `interleave train sft critic` and `interleave train grpo` with a shipped
recipe. Only checkpoint loading is replaced: the full-size model with random weights is built on the device,
which takes seconds. Rows are a critic's: two images of 1024×1024, the unchanged prompt, and an answer of 300
tokens. GRPO decodes exactly that many, whatever the model generates. Each figure comes with the device's
speed at a large matrix product, measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import signal
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from gpu_bench import Bench
from gpu_limits import measure_ceilings
from gpu_training_command import CHECKPOINTING, log_of, train, wait_for
from gpu_training_flops import sft_flops
from gpu_training_grpo import drop_makers, measure_grpo, measure_grpo80, measure_overlap, measure_pool
from gpu_training_kill import Resumed
from gpu_training_models import write_model_settings
from gpu_training_pool import Pool
from gpu_training_rows import write_critic_rows
from gpu_training_vllm_process import StartedVllm
from gpu_training_watch import Watch
from random_models import REAL, TOY

from interleave.train import sft

PARTS = ("grpo", "grpo80", "lora", "full", "kill", "rollouts", "pool", "overlap", "overfit")
"""All parts except `vllm`, which must be installed. After `grpo`, `grpo80` uses the same generator."""
NEEDED = {
    "grpo": 60,
    "grpo80": 30,
    "lora": 20,
    "full": 25,
    "kill": 35,
    "rollouts": 25,
    "pool": 60,
    "overlap": 28,
    "vllm": 50,
    "overfit": 30,
}
"""Approximate seconds of a part on an H200: with `--until`, it does not start with less time left."""
ENDING = 8
"""Seconds that an interrupted part may still take."""
ROWS_A_STEP = 8


def main(arguments: Sequence[str] | None = None) -> None:
    started = time.perf_counter()
    options = parse(arguments)
    bench = bench_of(options)
    if options.child:
        wait_for(options.wait)
        train(bench, Path(options.child), json.loads(options.settings))
        return
    folder = Path(tempfile.mkdtemp(prefix="training-"))
    parts = options.parts.split(",")
    bench.ahead = {}  # type: ignore[attr-defined]
    try:
        write_model_settings(bench, folder / "model")
        write_critic_rows(bench, folder / "rows", options.rows)
        if "kill" in parts:
            bench.ahead["kill"] = Resumed(bench, folder)  # type: ignore[attr-defined]
        if "vllm" in parts:
            bench.ahead["vllm"] = StartedVllm(bench, folder)  # type: ignore[attr-defined]
        bench.peak = measure_ceilings(bench).operations_per_second  # type: ignore[attr-defined]
        bench.note("ready", seconds=time.perf_counter() - started)
        done: set[str] = set()
        for place, part in enumerate(parts):
            later = parts[place + 1 :]
            left = options.until - (time.perf_counter() - started) if options.until else math.inf
            left -= kept_for_later(part, later)
            if part in done or left < NEEDED[part]:
                bench.note("skipped", part=part, seconds_left=left)
                continue
            measured(bench, part, folder, later, left)
            done.add(part)
    finally:
        for waiting in bench.ahead.values():  # type: ignore[attr-defined]
            waiting.end()
        if pool := getattr(bench, "pool", None):
            pool.close()
        shutil.rmtree(folder, ignore_errors=True)


def kept_for_later(part: str, later: Sequence[str]) -> float:
    """Return the seconds that a less important part reserves for the next one."""
    return NEEDED["vllm"] + ENDING if part == "overlap" and "vllm" in later else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--parts", default=",".join(PARTS), help="in this order; a skipped part may be repeated"
    )
    parser.add_argument("--toy", action="store_true")
    parser.add_argument(
        "--steps", type=int, default=4, help="steps per variant of SFT; the first is not counted"
    )
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=300, help="tokens per answer")
    parser.add_argument("--variants", default="", help="variants of SFT by number [all]")
    parser.add_argument("--prompts", type=int, default=4, help="prompts per GRPO step, 8 answers each")
    parser.add_argument("--grpo-steps", type=int, default=2)
    parser.add_argument("--servers", type=int, default=1, help="servers in the part 'pool'")
    parser.add_argument("--limit", default="", help="seconds per part: 120, or lora=60,full=50")
    parser.add_argument(
        "--until", type=int, default=0, help="seconds in total; parts that need more are skipped"
    )
    parser.add_argument("--library-tokens", type=int, default=40, help="tokens per answer of the library")
    parser.add_argument("--vllm-path", default="", help="folder with vLLM, first on the path of its process")
    parser.add_argument("--profile", action="store_true", help="break down the last step of each variant")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--settings", default="{}", help=argparse.SUPPRESS)
    parser.add_argument("--wait", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def bench_of(options: argparse.Namespace) -> Bench:
    cuda = torch.cuda.is_available() and not options.toy
    if options.toy:
        options.tokens = min(options.tokens, 48)
    return Bench(
        options,
        TOY if options.toy else REAL,
        torch.device("cuda" if cuda else "cpu"),
        torch.bfloat16 if cuda else torch.float32,
        options.tokens,
    )


def measured(bench: Bench, part: str, folder: Path, later: Sequence[str], left: float) -> None:
    """Measure one part; if it fails, the others are still measured."""
    started = time.perf_counter()
    if part == "kill" and "pool" in later:  # the servers load while nothing is timed
        bench.pool = Pool(bench, folder)  # type: ignore[attr-defined]
    try:
        with _limited(min(limit_of(bench.options.limit, part), left)):
            MEASURES[part](bench, folder)
    except Exception as error:
        traceback.print_exc()
        bench.note("failed", part=part, error=f"{type(error).__name__}: {str(error)[:300]}")
    except SystemExit as error:
        bench.note("failed", part=part, error=f"exit {error.code}")
    if not {"grpo", "grpo80"} & set(later[:1]):
        drop_makers(bench)
    bench.free()
    bench.note("part", part=part, seconds=time.perf_counter() - started, held=bench.held_memory())


def limit_of(limits: str, part: str) -> float:
    """Return the seconds for a part: one number for all, or one per part."""
    if not limits:
        return math.inf
    if limits.isdecimal():
        return float(limits)
    own = dict(each.split("=") for each in limits.split(","))
    return float(own.get(part, math.inf))


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Abort after `seconds`. A compilation may take longer than the machine is available."""

    def give_up(*arguments: object) -> None:
        raise TimeoutError(f"not done after {seconds:.0f} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds if math.isfinite(seconds) else 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


# Supervised fine-tuning


def lora_variants(bench: Bench) -> list[dict[str, Any]]:
    return [
        {CHECKPOINTING: True, "training.device_batch": 2},
        {CHECKPOINTING: False, "training.device_batch": 2},
        {CHECKPOINTING: False, "training.device_batch": 4},
        {CHECKPOINTING: False, "training.device_batch": 2, "training.compile": True},
        {CHECKPOINTING: False, "training.device_batch": 4, "training.compile": True},
        {CHECKPOINTING: True, "training.device_batch": 8},
    ]


def measure_lora(bench: Bench, folder: Path) -> None:
    """Train an adapter by the recipe `single-gpu-lora-sft`, with and without gradient checkpointing."""
    variants = lora_variants(bench)
    wanted = bench.options.variants
    for number in [int(each) for each in wanted.split(",")] if wanted else range(len(variants)):
        try:
            measure_sft(bench, folder, "sft, LoRA", variants[number])
        except (SystemExit, Exception) as error:
            bench.note("failed", part=f"lora {number}", error=f"{type(error).__name__}: {str(error)[:300]}")


def measure_full(bench: Bench, folder: Path) -> None:
    """Train all weights of the language model, in bf16 with the optimizer's states in bf16."""
    changes = {"model.lora_rank": 0, "training.learning_rate": 1e-5, CHECKPOINTING: True}
    measure_sft(bench, folder, "sft, all weights", {**changes, "training.device_batch": 2})


def measure_sft(bench: Bench, folder: Path, what: str, changes: dict[str, Any]) -> None:
    out = folder / f"out-{time.time_ns()}"
    settings = {
        "training.steps": bench.options.steps + bench.options.profile,
        "training.batch": ROWS_A_STEP,
        "training.save_every": 1000,
        "training.log_every": 1,
        "training.workers": 0 if bench.options.toy else 4,
        **changes,
    }
    bench.free()
    bench.memory()
    held = bench.held_memory()
    watch = Watch(bench, profile_last=bench.options.profile)
    with watch.watching(sft, "add_callbacks"):
        # saving would take longer than the steps
        train(bench, folder, {"task": "sft", "out": str(out), "settings": settings, "unsaved": True})
    lines = log_of(out)
    tokens = lines[-1]["num_tokens"] / len(lines)
    spent = statistics.median(watch.steps[1 : bench.options.steps])
    rank = int(changes.get("model.lora_rank", 32))
    flops = ROWS_A_STEP * sft_flops(
        bench.size, int(tokens / ROWS_A_STEP), 2, answer=bench.tokens, adapter=rank > 0
    )
    bench.note(
        what,
        checkpointing=settings[CHECKPOINTING],
        device_batch=settings["training.device_batch"],
        compiled=bool(settings.get("training.compile")),
        rows=ROWS_A_STEP,
        seconds=spent,
        slowest=max(watch.steps[1:]),
        first=watch.steps[0],
        tokens_a_second=tokens / spent,
        rows_a_second=ROWS_A_STEP / spent,
        tokens_a_row=tokens / ROWS_A_STEP,
        teraflop=flops / 1e12,
        share_of_peak=flops / spent / bench.peak,  # type: ignore[attr-defined]
        gigabytes=bench.memory(),
        held_before=held,
        losses=[round(line["loss"], 4) for line in lines],
        waited_for_data=statistics.median(line["time/data"] for line in lines),
        **({"parts": watch.profile} if watch.profile else {}),
    )
    shutil.rmtree(out, ignore_errors=True)


OVERFIT = {
    "training.steps": 12,
    "training.batch": 4,
    "training.device_batch": 2,
    "training.learning_rate": 1e-3,
    "training.schedule": "constant",
    "training.warmup": 0,
    "training.save_every": 4,
    "training.log_every": 1,
    CHECKPOINTING: False,
}


def overfit_job(bench: Bench, folder: Path, name: str) -> dict[str, Any]:
    """Return a job that repeats four rows, with a model that does not know the answers."""
    few = folder / "few"
    if not few.exists():
        write_critic_rows(bench, few, 4, answers=1)
    settings = {**OVERFIT, "training.workers": 0 if bench.options.toy else 2}
    return {"task": "sft", "out": str(folder / name), "rows": str(few), "taught": False, "settings": settings}


def measure_overfit(bench: Bench, folder: Path) -> None:
    """Check that the loss falls."""
    train(bench, folder, overfit_job(bench, folder, "undisturbed"))
    losses = [line["loss"] for line in log_of(folder / "undisturbed")]
    bench.note("overfit", losses=[round(loss, 4) for loss in losses], gigabytes=bench.memory())


# The rest


def measure_rollouts(bench: Bench, folder: Path) -> None:
    """Measure answers alone: ours, and the library's `generate` for comparison."""
    from gpu_training_rollouts import measure

    measure(bench, folder)


def measure_kill(bench: Bench, folder: Path) -> None:
    """Kill the command with signal 9 after its first checkpoint, run it again, and compare."""
    resumed: Resumed = bench.ahead.pop("kill", None) or Resumed(bench, folder)  # type: ignore[attr-defined]
    try:
        resumed.measure()
    finally:
        resumed.end()


def measure_vllm(bench: Bench, folder: Path) -> None:
    """Measure the same answers as in `rollouts` by vLLM, in a separate process."""
    started: StartedVllm = bench.ahead.pop("vllm", None) or StartedVllm(bench, folder)  # type: ignore[attr-defined]
    try:
        started.measure()
    finally:
        started.end()


MEASURES: dict[str, Callable[[Bench, Path], None]] = {
    "lora": measure_lora,
    "full": measure_full,
    "overfit": measure_overfit,
    "rollouts": measure_rollouts,
    "grpo": measure_grpo,
    "pool": measure_pool,
    "grpo80": measure_grpo80,
    "overlap": measure_overlap,
    "kill": measure_kill,
    "vllm": measure_vllm,
}


if __name__ == "__main__":
    main()
