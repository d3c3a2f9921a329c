"""Measures GRPO steps at full size: with generator and scorer on the device, within 80 GB, with drawing over
HTTP, and with drawing during the rollout."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from gpu_bench import GB, Bench
from gpu_training_answers import Lengths, Script
from gpu_training_command import CHECKPOINTING, log_of, train
from gpu_training_flops import sft_flops
from gpu_training_models import Makers
from gpu_training_pool import Pool
from gpu_training_rows import write_critic_rows
from gpu_training_watch import Watch

from interleave.train import grpo

WIDE = {"training.device_batch": 2, CHECKPOINTING: False, "grpo.rollout_batch": 64}
SMALL_CARD = 78.0
"""Gigabytes available to torch on a card of 80: the driver needs some too."""
ELSEWHERE_SECONDS = 0.45
"""Seconds per image of a pool on other devices: a third of the time of klein-9B on one of them."""


@dataclass
class Steps:
    """One training of a few steps."""

    makers: Makers
    prompts: int
    count: int
    changes: dict[str, Any]
    given: float | None = None
    """Limit of device memory in gigabytes."""
    drawn_by: str = "this process"
    lengths: Lengths | None = None
    alternating: bool = False
    """Whether every second step draws during the rollout."""
    settings: dict[str, Any] = field(default_factory=dict)


class CardPeak:
    """Peak gigabytes of the device used by all processes, polled four times per second."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.most = bench, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> CardPeak:
        self._thread.start()
        return self

    def __exit__(self, *arguments: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.25):
            self.most = max(self.most, self.bench.card_memory())


def measure_grpo(bench: Bench, folder: Path) -> None:
    """Measure steps with 8 answers per prompt; generator and scorer are on the same device.

    With `--prompts 4` one image of four is wrong, so that a quarter of all answers needs a redraw.
    """
    makers = kept_makers(bench, scorer=True)
    run_steps(bench, folder, Steps(makers, bench.options.prompts, bench.options.grpo_steps, WIDE))


def measure_grpo80(bench: Bench, folder: Path) -> None:
    """Measure the same within 80 GB: external scorer, gradient checkpointing, smaller rollout batches."""
    makers = kept_makers(bench, scorer=False)
    settings = {"training.device_batch": 1, CHECKPOINTING: True, "grpo.rollout_batch": 16}
    with ExitStack() as ending:
        if bench.device.type == "cuda":
            whole = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(SMALL_CARD * GB / whole)
            ending.callback(torch.cuda.set_per_process_memory_fraction, 1.0)
        run_steps(bench, folder, Steps(makers, 1, 1, settings, given=SMALL_CARD))


def measure_pool(bench: Bench, folder: Path) -> None:
    """Measure the same as `grpo`, with images drawn over HTTP by servers on the same device."""
    pool = bench.pool = getattr(bench, "pool", None) or Pool(bench, folder)  # type: ignore[attr-defined]
    started = time.perf_counter()
    try:
        spec = pool.ready()
        bench.note("pool", servers=len(pool.servers), waited_for=time.perf_counter() - started)
        makers = Makers(bench, scorer=True, pool=spec)
        by = f"{len(pool.servers)} over HTTP"
        steps = Steps(makers, bench.options.prompts, bench.options.grpo_steps, WIDE, drawn_by=by)
        run_steps(bench, folder, steps)
        makers.free()
    finally:
        pool.close()
        bench.pool = None  # type: ignore[attr-defined]


def measure_overlap(bench: Bench, folder: Path) -> None:
    """Measure answers of different lengths with an external generator, drawing after or during the rollout.

    The generator takes the time of a pool on other devices and uses none of this one.
    """
    makers = Makers(bench, scorer=False, seconds=ELSEWHERE_SECONDS)
    shortest = bench.tokens // 3 if not bench.options.toy else bench.tokens - 8

    def length(place: int) -> int:
        return shortest + (bench.tokens - shortest) * (place % 8) // 7

    by = f"elsewhere, {ELSEWHERE_SECONDS} s an image"
    steps = Steps(makers, 1, 4, WIDE, drawn_by=by, lengths=length, alternating=True)
    steps.settings = {"reward.during_rollout": True}
    run_steps(bench, folder, steps)


def kept_makers(bench: Bench, *, scorer: bool) -> Makers:
    """Return generator and scorer of the previous part if they are still loaded."""
    makers = getattr(bench, "makers", None) or Makers(bench, scorer=scorer)
    bench.makers = makers  # type: ignore[attr-defined]
    makers.begin_again(scorer=scorer)
    return makers


def drop_makers(bench: Bench) -> None:
    if makers := getattr(bench, "makers", None):
        makers.free()
    bench.makers = None  # type: ignore[attr-defined]


def run_steps(bench: Bench, folder: Path, steps: Steps) -> None:
    name = f"grpo-{time.time_ns()}"
    out, rows = folder / name, folder / f"{name}-rows"
    write_critic_rows(bench, rows, steps.prompts, wrong=max(1, steps.prompts // 4))
    settings = {
        "training.steps": steps.count,
        "training.warmup": 0,
        "training.save_every": 1000,
        "training.workers": 0 if bench.options.toy else 2,
        "grpo.prompts": steps.prompts,
        "grpo.samples": 8,
        "grpo.max_completion": 2 * bench.tokens,
        "grpo.rollouts": "graphs",
        **steps.changes,
        **steps.settings,
    }
    script = Script(folder / "model", bench.tokens)
    bench.free()
    bench.memory()
    with CardPeak(bench) as card:
        watch = Watch(bench)
        early: list[Any] = []

        def begin(number: int) -> None:
            """Assign calls to this step, and toggle drawing during the rollout."""
            steps.makers.step = number
            if steps.alternating:
                early or early.append(watch.trainer.early)
                watch.trainer.early = early[0] if number % 2 else None

        watch.begin = begin
        watch.logged = lambda: note_step(bench, steps, watch, log_of(out), settings, card, script)
        job = {"task": "grpo", "out": str(out), "rows": str(rows), "settings": settings, "unsaved": True}
        with watch.watching(grpo, "add_callbacks"), script.spoken(steps.lengths):
            train(bench, folder, {**job, "redraws": steps.makers.redrawer()})
    watch.trainer = None


def note_step(
    bench: Bench,
    steps: Steps,
    watch: Watch,
    log: list[dict[str, Any]],
    settings: dict[str, Any],
    card: CardPeak,
    script: Script,
) -> None:
    """Record the last step as soon as it is done."""
    number, line, makers, answers = len(log) - 1, log[-1], steps.makers, 8 * steps.prompts
    tokens = (line["num_tokens"] - (log[-2]["num_tokens"] if number else 0)) / answers
    length = line["completions/mean_length"]
    flops = sft_flops(bench.size, int(tokens), 2, answer=int(length), adapter=True)
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
        images=makers.count("drawing", number),
        misread=makers.misread,
        update=update,
        update_share_of_peak=answers * flops / update / bench.peak,  # type: ignore[attr-defined]
        length=length,
        answers_as_said=f"{script.as_said} of {script.written}",
        tokens_an_answer=tokens,
        reward_mean=line["reward"],
        loss=line["loss"],
        gradient=line.get("grad_norm"),
        gigabytes=bench.peak_memory(),
        card_gigabytes=card.most,
        memory_given=steps.given,
        drawn_by=steps.drawn_by,
        during_rollout=bool(number % 2) if steps.alternating else False,
        checkpointing=settings[CHECKPOINTING],
        device_batch=settings["training.device_batch"],
        scorer="on the device" if makers.scorer else "elsewhere, taking no time",
    )
