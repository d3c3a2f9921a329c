"""Runs `interleave train …` with a shipped recipe and models built on the device instead of loaded ones."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_bench import Bench
from gpu_training_models import learner_for

from interleave.cli.main import main as command
from interleave.train import grpo, run, sft

CHECKPOINTING = "model.gradient_checkpointing"
POLL_SECONDS = 0.05


def train(bench: Bench, folder: Path, job: dict[str, Any]) -> None:
    """Run the command in this process.

    A job has `task`, `out` and `settings`, and optionally `rows` (a folder), `redraws` (the redrawer),
    `taught` (False: the model does not know the answers), `unsaved` (nothing is saved at the end) and `order`
    (a file for the digests of batches).
    """
    recipe = f"single-gpu-lora-{job['task']}"
    words = ["train", job["task"], *(["critic"] if job["task"] == "sft" else [])]
    words += ["--data", job.get("rows", str(folder / "rows")), "--config", recipe, "--out", job["out"]]
    words += ["--model", str(folder / "model"), "--trust-data"]
    for name, value in job["settings"].items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    if job["task"] == "grpo":
        # names that always exist; the models in memory replace them
        words += ["--generator", "solid", "--scorer", "transformers:none"]
    with _replaced(bench, folder, job):
        try:
            command(words)
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(f"the command ended with {ended.code}") from None


@contextmanager
def _replaced(bench: Bench, folder: Path, job: dict[str, Any]) -> Iterator[None]:
    """Replace model loading, and skip or record what the measurement requires."""
    load_reward = grpo.load_reward

    def load(part: Any, **options: Any) -> Any:
        return learner_for(bench, part, folder / "model", taught=job.get("taught", True))

    def reward(recipe: Any, redraws: Any = None) -> Any:
        return load_reward(recipe, job.get("redraws"))

    changes: list[tuple[Any, str, Any]] = [
        (sft, "load_trainable_model", load),
        (grpo, "load_trainable_model", load),
        (grpo, "load_reward", reward),
        (sft, "sft_page", lambda *arguments: None),  # would take half a minute at the end
    ]
    if job.get("unsaved"):  # with all weights trained, weights and optimizer are 70 GB
        nothing = lambda *arguments, **options: ""  # noqa: E731
        changes += [
            (trainer, "_save_checkpoint", nothing) for trainer in (sft.AgentTrainer, grpo.CriticTrainer)
        ]
        changes.append((run, "_finish", nothing))
    if job.get("order"):
        changes.append((sft.AgentTrainer, "compute_loss", _noting_order(Path(job["order"]))))
    with _changed(changes):
        yield


@contextmanager
def _changed(changes: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Set attributes temporarily."""
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in changes]
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            delattr(owner, name) if value is None else setattr(owner, name, value)


def _noting_order(path: Path) -> Any:
    """Return a `compute_loss` that appends a digest of each batch to a file: the order of the data."""
    compute = sft.AgentTrainer.compute_loss

    def noting(trainer: Any, model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        digest = hashlib.sha256(inputs["input_ids"].cpu().numpy().tobytes()).hexdigest()[:12]
        with path.open("a") as file:
            file.write(f"{trainer.state.global_step + 1} {digest}\n")
        return compute(trainer, model, inputs, *arguments, **options)

    return noting


class Child:
    """The command in a separate process, which imports its modules and then waits for `go`."""

    def __init__(self, bench: Bench, folder: Path, job: dict[str, Any], name: str) -> None:
        self._gate = folder / f"{name}.go"
        words = ["--child", str(folder), "--settings", json.dumps(job), "--wait", str(self._gate)]
        words += ["--tokens", str(bench.tokens), *(["--toy"] if bench.options.toy else [])]
        script = Path(__file__).with_name("gpu_training.py")
        self.process = subprocess.Popen([sys.executable, str(script), *words], env=os.environ)

    def go(self) -> subprocess.Popen[bytes]:
        self._gate.touch()
        return self.process

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def wait_for(gate: str) -> None:
    """Wait until the file exists; exit if the parent process has died."""
    parent = os.getppid()
    while gate and not Path(gate).exists():
        if os.getppid() != parent:
            sys.exit(1)
        time.sleep(POLL_SECONDS)


def log_of(out: Path) -> list[dict[str, Any]]:
    return [line for line in lines_of(out / "log.jsonl") if "loss" in line]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
