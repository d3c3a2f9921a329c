"""Tests `kill -9` and resume at full size: the command is killed after its first checkpoint and run again.

On a GPU two uninterrupted trainings differ in their last digits. So the comparison covers the order of the
data, which must be equal to the last batch, and losses and adapters, relative to the difference that the
killed training had to an uninterrupted one before it was killed.
"""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import torch
from gpu_bench import Bench
from gpu_training_command import CHECKPOINTING, POLL_SECONDS, Child, folder_size, lines_of, log_of, train
from safetensors.torch import load_file

STEPS, SAVED, KILLED = 4, 2, 3
ROWS_A_STEP = 4


def job_of(bench: Bench, folder: Path, name: str) -> dict[str, Any]:
    """Return a job with a model that does not know the answers, and other rows in every step."""
    settings = {
        "training.steps": STEPS,
        "training.batch": ROWS_A_STEP,
        "training.device_batch": 2,
        "training.schedule": "constant",
        "training.warmup": 0,
        "training.save_every": SAVED,
        "training.log_every": 1,
        "training.workers": 0 if bench.options.toy else 2,
        CHECKPOINTING: True,
    }
    out, order = str(folder / name), str(folder / f"{name}.order")
    return {"task": "sft", "out": out, "order": order, "taught": False, "settings": settings}


class Resumed:
    """Two processes for one training: the killed one and the resumed one."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench, self.folder = bench, folder
        job = job_of(bench, folder, "killed")
        self.children = [Child(bench, folder, job, name) for name in ("first", "second")]

    def end(self) -> None:
        for child in self.children:
            child.end()

    def measure(self) -> None:
        started = time.perf_counter()
        first = self.children[0].go()
        found: dict[str, Any] = {}
        killing = threading.Thread(target=self._kill, args=(first, found), daemon=True)
        killing.start()
        # an uninterrupted one runs at the same time, because no speed is measured here
        train(self.bench, self.folder, job_of(self.bench, self.folder, "kill-undisturbed"))
        killing.join()
        killed_after = time.perf_counter() - started
        code = self.children[1].go().wait()
        self.bench.note(
            "kill -9",
            killed_by=first.returncode,
            until_killed=killed_after,
            returned=code,
            again=time.perf_counter() - started - killed_after,
            **found,
            **self._compared(found["losses_before"]),
        )

    def _kill(self, process: Any, found: dict[str, Any]) -> None:
        """Kill the process after the step that follows its first checkpoint."""
        out = self.folder / "killed"
        sealed = out / "checkpoints" / f"checkpoint-{SAVED}" / "whole.json"
        while process.poll() is None and not (sealed.exists() and _steps(out) >= KILLED):
            time.sleep(POLL_SECONDS / 5)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found["steps_logged_when_killed"] = _steps(out)
        found["losses_before"] = [line["loss"] for line in log_of(out)]
        found["checkpoint_megabytes"] = folder_size(sealed.parent) / 1e6
        found["adapter_before"] = _difference(self.folder, SAVED)

    def _compared(self, before: list[float]) -> dict[str, Any]:
        whole, again = (log_of(self.folder / name) for name in ("kill-undisturbed", "killed"))
        losses, resumed = ([line["loss"] for line in lines] for lines in (whole, again))
        orders = [_order(self.folder / f"{name}.order") for name in ("kill-undisturbed", "killed")]
        return {
            "losses": losses,
            "losses_resumed": resumed,
            "same_steps": [line["step"] for line in whole] == [line["step"] for line in again],
            "same_data": orders[0] == orders[1],
            "same_tokens": [line.get("num_tokens") for line in whole]
            == [line.get("num_tokens") for line in again],
            "run_to_run": max(abs(one - other) for one, other in zip(losses, before, strict=False)),
            "resumed_apart": max(abs(one - other) for one, other in zip(losses, resumed, strict=True)),
            "adapter_after": _difference(self.folder, STEPS),
            "equal": losses == resumed,
        }


def _steps(out: Path) -> int:
    try:
        return len(lines_of(out / "log.jsonl"))
    except ValueError:  # an incomplete line
        return 0


def _order(path: Path) -> dict[str, list[str]]:
    """Return the batches by step; a repeated step keeps its last batches."""
    steps: dict[str, list[str]] = {}
    lines = [line.split() for line in path.read_text().splitlines()]
    per_step = ROWS_A_STEP // 2
    for step, digest in lines:
        steps.setdefault(step, []).append(digest)
    return {step: digests[-per_step:] for step, digests in steps.items()}


def _difference(folder: Path, step: int) -> float | None:
    """Return the distance between the adapters of both trainings, relative to their norm."""
    one, other = (
        folder / name / "checkpoints" / f"checkpoint-{step}" / "adapter_model.safetensors"
        for name in ("kill-undisturbed", "killed")
    )
    until = time.monotonic() + 20  # the uninterrupted one may be behind
    while not (one.parent / "whole.json").exists() and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    if not (one.exists() and other.exists()):
        return None
    weights, others = load_file(one), load_file(other)
    learned = [name for name in weights if "lora_B" in name]  # zero at the start
    apart = sum(float((weights[name].double() - others[name].double()).square().sum()) for name in learned)
    size = sum(float(weights[name].double().square().sum()) for name in learned)
    return float(torch.tensor(apart / size).sqrt()) if size else None
