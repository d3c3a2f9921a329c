"""What training costs at real size: supervised fine-tuning and GRPO of Qwen3-VL-8B on one device.

    python perf/gpu_training.py --parts lora,full --profile --results results.json
    python perf/gpu_training.py --parts overfit,kill --results results.json
    python perf/gpu_training.py --parts grpo,grpo80,rollouts --grpo-steps 2 --results results.json
    python perf/gpu_training.py --parts pool --grpo-steps 2 --servers 1 --results results.json
    python perf/gpu_training.py --toy                                    # all of it, small, anywhere

The commands are the product's: `interleave train sft critic` and `interleave train grpo` with a recipe that
ships. Only the loading of a checkpoint is replaced: the model, of its real size and with random weights, is
made on the device, which takes seconds. Rows are a critic's: two pictures of 1024×1024, the prompt as it is,
an answer of 300 tokens. Beside each figure stands the device's own speed at a large product of matrices,
measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from gpu_bench import GB, Bench
from gpu_limits import measure_ceilings
from gpu_training_flops import sft_flops
from gpu_training_models import Makers, learner_for, write_model_settings
from gpu_training_pool import serving
from gpu_training_rows import write_critic_rows
from gpu_training_watch import Watch
from random_models import REAL, TOY

from interleave.cli.main import main as command
from interleave.training import grpo, run, sft

PARTS = ("lora", "full", "overfit", "rollouts", "grpo", "pool", "grpo80", "kill")
CHECKPOINTING = "model.gradient_checkpointing"
ROWS_A_STEP = 8


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    bench = bench_of(options)
    if options.child:
        train(bench, Path(options.child), json.loads(options.settings))
        return
    folder = Path(tempfile.mkdtemp(prefix="training-"))
    try:
        bench.peak = measure_ceilings(bench).operations_per_second  # type: ignore[attr-defined]
        write_critic_rows(bench, folder / "rows", options.rows)
        write_model_settings(bench, folder / "model")
        for part in options.parts.split(","):
            measured(bench, part, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--toy", action="store_true")
    parser.add_argument(
        "--steps", type=int, default=4, help="of each variant of SFT; the first is not counted"
    )
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=300, help="of an answer")
    parser.add_argument("--variants", default="", help="of SFT, by their numbers; all of them unless told")
    parser.add_argument("--prompts", type=int, default=4, help="of a step of GRPO, each with 8 answers")
    parser.add_argument("--grpo-steps", type=int, default=2)
    parser.add_argument("--servers", type=int, default=1, help="that draw over HTTP in the part 'pool'")
    parser.add_argument("--limit", type=int, default=0, help="seconds after which a part is given up")
    parser.add_argument("--profile", action="store_true", help="where the last step of each variant goes")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--settings", default="{}", help=argparse.SUPPRESS)
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


def measured(bench: Bench, part: str, folder: Path) -> None:
    """One part; should it fail, the others are measured all the same."""
    started = time.perf_counter()
    try:
        with _limited(bench.options.limit):
            MEASURES[part](bench, folder)
    except Exception as error:
        traceback.print_exc()
        bench.note("failed", part=part, error=f"{type(error).__name__}: {str(error)[:300]}")
    except SystemExit as error:
        bench.note("failed", part=part, error=f"exit {error.code}")
    bench.free()
    bench.note("part", part=part, seconds=time.perf_counter() - started)


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Give up after so many seconds; 0: never. A compilation may take longer than a machine is lent for."""

    def give_up(*arguments: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


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
    """An adapter, by the recipe `single-gpu-lora-sft`, with and without recomputed activations."""
    variants = lora_variants(bench)
    wanted = bench.options.variants
    for number in [int(each) for each in wanted.split(",")] if wanted else range(len(variants)):
        try:
            measure_sft(bench, folder, "sft, LoRA", variants[number])
        except (SystemExit, Exception) as error:
            bench.note("failed", part=f"lora {number}", error=f"{type(error).__name__}: {str(error)[:300]}")


def measure_full(bench: Bench, folder: Path) -> None:
    """All weights of the language model, in bf16 with the optimizer's states in bf16."""
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
    watch = Watch(bench, profile_last=bench.options.profile)
    with watch.watching(sft, "add_callbacks"):
        unsaved = settings.get("model.lora_rank") == 0  # writing takes longer than the steps
        train(bench, folder, {"task": "sft", "out": str(out), "settings": settings, "unsaved": unsaved})
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
    """Four rows, over and over, by a model that does not know the answers."""
    few = folder / "few"
    if not few.exists():
        write_critic_rows(bench, few, 4, answers=1)
    settings = {**OVERFIT, "training.workers": 0 if bench.options.toy else 2}
    return {"task": "sft", "out": str(folder / name), "rows": str(few), "taught": False, "settings": settings}


def measure_overfit(bench: Bench, folder: Path) -> None:
    """The loss must fall."""
    train(bench, folder, overfit_job(bench, folder, "undisturbed"))
    losses = [line["loss"] for line in log_of(folder / "undisturbed")]
    bench.note("overfit", losses=[round(loss, 4) for loss in losses], gigabytes=bench.memory())


# GRPO

WIDE = {"training.device_batch": 2, CHECKPOINTING: False, "grpo.rollout_batch": 64}


def measure_rollouts(bench: Bench, folder: Path) -> None:
    """Answers alone: ours by batch size, and the library's `generate` for comparison."""
    from gpu_training_rollouts import measure

    measure(bench, folder)


def measure_grpo(bench: Bench, folder: Path) -> None:
    """Steps with 8 answers to each prompt; generator and scorer on the same device.

    With `--prompts 4` one picture of four is wrong, so that a quarter of all answers draws another.
    """
    makers = Makers(bench, scorer=True)
    grpo_steps(bench, folder, makers, bench.options.prompts, bench.options.grpo_steps, WIDE)
    makers.free()


def measure_pool(bench: Bench, folder: Path) -> None:
    """The same, the pictures drawn over HTTP by servers on the same device."""
    started = time.perf_counter()
    with serving(bench, folder, bench.options.servers) as pool:
        bench.note("pool", servers=bench.options.servers, ready_after=time.perf_counter() - started)
        makers = Makers(bench, scorer=True, pool=pool)
        by = f"{bench.options.servers} over HTTP"
        grpo_steps(bench, folder, makers, bench.options.prompts, bench.options.grpo_steps, WIDE, by=by)
        makers.free()


def measure_grpo80(bench: Bench, folder: Path) -> None:
    """The same within 80 GB: the scorer elsewhere, activations recomputed, fewer answers at once."""
    if bench.device.type == "cuda":
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(80 * GB / whole)
    makers = Makers(bench, scorer=False)
    settings = {"training.device_batch": 1, CHECKPOINTING: True, "grpo.rollout_batch": 16}
    grpo_steps(bench, folder, makers, 1, 1, settings, given=80)
    makers.free()
    if bench.device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(1.0)


def grpo_steps(
    bench: Bench,
    folder: Path,
    makers: Makers,
    prompts: int,
    steps: int,
    changes: dict[str, Any],
    given: float | None = None,
    by: str = "this process",
) -> None:
    name = f"grpo-{time.time_ns()}"
    out, rows = folder / name, folder / f"{name}-rows"
    write_critic_rows(bench, rows, prompts, wrong=max(1, prompts // 4))
    settings = {
        "training.steps": steps,
        "training.warmup": 0,
        "training.save_every": 1000,
        "training.workers": 0 if bench.options.toy else 2,
        "grpo.prompts": prompts,
        "grpo.samples": 8,
        "grpo.max_completion": 2 * bench.tokens,
        "grpo.rollouts": "graphs",
        **changes,
    }
    bench.memory()
    watch = Watch(bench)
    job = {"task": "grpo", "out": str(out), "rows": str(rows), "settings": settings}
    with watch.watching(grpo, "add_callbacks"):
        train(bench, folder, {**job, "redraws": makers.redrawer()})
    card, gigabytes, answers = bench.card_memory(), bench.memory(), 8 * prompts
    for number, line in enumerate(log_of(out)):
        tokens = line["num_tokens"] / (number + 1) / answers
        flops = sft_flops(bench.size, int(tokens), 2, answer=bench.tokens, adapter=True)
        update = line["time/update"] * answers / settings["training.device_batch"]
        bench.note(
            "grpo step",
            number=number + 1,
            answers=answers,
            whole=watch.steps[number],
            rollout=line["time/generate"],
            reward=line["time/reward"],
            drawing=makers.busy("drawing", number),
            scoring=makers.busy("scoring", number),
            pictures=makers.count("drawing", number),
            update=update,
            update_share_of_peak=answers * flops / update / bench.peak,  # type: ignore[attr-defined]
            length=line["completions/mean_length"],
            tokens_an_answer=tokens,
            reward_mean=line["reward"],
            loss=line["loss"],
            gradient=line.get("grad_norm"),
            gigabytes=gigabytes,
            card_gigabytes=card,
            memory_given=given,
            drawn_by=by,
            checkpointing=settings[CHECKPOINTING],
            device_batch=settings["training.device_batch"],
            scorer="on the device" if makers.scorer else "elsewhere, taking no time",
        )


# A kill


def measure_kill(bench: Bench, folder: Path) -> None:
    """Kill the command with signal 9 after its first checkpoint, start it again, compare with `overfit`."""
    if not (folder / "undisturbed").exists():
        measure_overfit(bench, folder)
        bench.free()
    job = overfit_job(bench, folder, "killed")
    killed_out = folder / "killed"
    started = time.perf_counter()
    killed = start_child(bench, folder, job)
    sealed = killed_out / "checkpoints" / "checkpoint-4" / "whole.json"
    while killed.poll() is None and not (sealed.exists() and len(lines_of(killed_out / "log.jsonl")) >= 6):
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = time.perf_counter()
    left = len(lines_of(killed_out / "log.jsonl"))
    code = start_child(bench, folder, job).wait()
    whole, resumed = log_of(folder / "undisturbed"), log_of(killed_out)
    bench.note(
        "kill -9",
        returned=code,
        killed_by=killed.returncode,
        until_killed=before - started,
        again=time.perf_counter() - before,
        steps_logged_when_killed=left,
        losses=[line["loss"] for line in whole],
        resumed=[line["loss"] for line in resumed],
        equal=[line["loss"] for line in whole] == [line["loss"] for line in resumed],
        checkpoint_megabytes=folder_size(killed_out / "checkpoints" / "checkpoint-12") / 1e6,
    )


def start_child(bench: Bench, folder: Path, job: dict[str, Any]) -> subprocess.Popen[bytes]:
    arguments = ["--child", str(folder), "--settings", json.dumps(job), "--tokens", str(bench.tokens)]
    toy = ["--toy"] if bench.options.toy else []
    return subprocess.Popen([sys.executable, __file__, *toy, *arguments], env=os.environ)


# The command


def train(bench: Bench, folder: Path, job: dict[str, Any]) -> None:
    """`interleave train …` with a recipe that ships, in this process, its model made on the device."""
    recipe = f"single-gpu-lora-{job['task']}"
    words = ["train", job["task"], *(["critic"] if job["task"] == "sft" else [])]
    words += ["--data", job.get("rows", str(folder / "rows")), "--config", recipe, "--out", job["out"]]
    words += ["--model", str(folder / "model")]
    for name, value in job["settings"].items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    if job["task"] == "grpo":
        # names that are always known; the models are those in memory
        words += ["--generator", "solid", "--scorer", "transformers:none"]
    with _replaced(bench, folder, job):
        try:
            command(words)
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(f"the command ended with {ended.code}") from None


@contextmanager
def _replaced(bench: Bench, folder: Path, job: dict[str, Any]) -> Iterator[None]:
    """Models made on the device in place of those that would be loaded."""
    before = {module: module.load_trainable_model for module in (sft, grpo)}
    load_reward, sft_page = grpo.load_reward, sft.sft_page

    def load(part: Any, **options: Any) -> Any:
        return learner_for(bench, part, folder / "model", taught=job.get("taught", True))

    def reward(recipe: Any, redraws: Any = None) -> Any:
        return load_reward(recipe, job.get("redraws"))

    for module in before:
        module.load_trainable_model = load
    grpo.load_reward = reward
    sft.sft_page = lambda *arguments: None  # type: ignore[assignment]  # half a minute of answers afterwards
    finish = run._finish
    if job.get("unsaved"):  # weights and optimizer are 70 GB
        sft.AgentTrainer._save_checkpoint = lambda *arguments: None  # type: ignore[method-assign]
        run._finish = lambda *arguments: ""  # type: ignore[assignment]
    try:
        yield
    finally:
        for module, original in before.items():
            module.load_trainable_model = original
        grpo.load_reward, sft.sft_page = load_reward, sft_page
        run._finish = finish
        if "_save_checkpoint" in vars(sft.AgentTrainer):
            del sft.AgentTrainer._save_checkpoint


def log_of(out: Path) -> list[dict[str, Any]]:
    return [line for line in lines_of(out / "log.jsonl") if "loss" in line]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


MEASURES: dict[str, Callable[[Bench, Path], None]] = {
    "lora": measure_lora,
    "full": measure_full,
    "overfit": measure_overfit,
    "rollouts": measure_rollouts,
    "grpo": measure_grpo,
    "pool": measure_pool,
    "grpo80": measure_grpo80,
    "kill": measure_kill,
}


if __name__ == "__main__":
    main()
