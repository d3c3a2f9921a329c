"""The log of a training: lines on the terminal, `log.jsonl`, TensorBoard, and reporters such as wandb.

TensorBoard's files are always written to the output folder. wandb writes there too, and uploads only if its
user is logged in and WANDB_MODE is not offline. trackio writes to its own local folder.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from interleave import ConfigurationError, MissingDependency
from interleave.plugin import did_you_mean, write_atomic

LOG_NAME = "log.jsonl"
TENSORBOARD = "tensorboard"
PROJECT = "interleave"
SHOWN = {
    "loss": "loss {:.4f}",
    "reward": "reward {:.3f}",
    "reward/format": "format {:.2f}",
    "judgement/accuracy": "judgement {:.2f}",
    "reward/semantics": "semantics {:.3f}",
    "reward/masked": "masked {:.0f}",
    "mean_token_accuracy": "tokens right {:.3f}",
    "kl": "KL {:.4f}",
    "completions/mean_length": "length {:.0f}",
    "eval_loss": "validation loss {:.4f}",
    "eval_reward": "validation reward {:.3f}",
    "learning_rate": "lr {:.2g}",
    "time/generate": "generate {:.1f} s",
    "time/reward": "reward {:.1f} s",
    "time/update": "update {:.1f} s",
}
"""Metrics shown on the terminal, in this order."""
TIMES = ("time/", "step_time", "runtime", "per_second", "epoch_time", "from_cache")
"""Name parts of machine-dependent metrics, which are ignored when two logs are compared."""


class TrainingLog:
    """Writes every logged step to the terminal, to `log.jsonl` and to TensorBoard."""

    def __init__(self, out: Path, say: Callable[[str], None], *, total: int | None = None) -> None:
        self.path = out / LOG_NAME
        self.say = say
        self.total = total
        self._board_folder = out / TENSORBOARD
        self._board: Any = None

    def begin(self, step: int) -> None:
        """Resume after this step and drop later lines: their steps will be repeated."""
        kept = [line for line in read_log(self.path) if line["step"] <= step]
        write_atomic(self.path, "".join(json.dumps(line) + "\n" for line in kept).encode())
        self._board = _board(self._board_folder, step)
        if self._board is None:
            self.say("TensorBoard is not installed; log.jsonl has every figure")

    def write(self, step: int, figures: Mapping[str, Any]) -> None:
        numbers = {name: value for name, value in figures.items() if _is_number(value)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **numbers}) + "\n")
        if self._board is not None:
            for name, value in numbers.items():
                self._board.add_scalar(name, value, step)
        self.say(self.line(step, numbers))

    def line(self, step: int, figures: Mapping[str, Any]) -> str:
        shown = [form.format(figures[name]) for name, form in SHOWN.items() if name in figures]
        of = f"/{self.total}" if self.total else ""
        return "  ".join([f"step {step}{of}", *shown])

    def end(self) -> None:
        if self._board is not None:
            self._board.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a log, without an incomplete last line."""
    lines = []
    for line in path.read_text("utf-8").splitlines() if path.is_file() else []:
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def comparable(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a log without machine-dependent metrics: equal trainings have equal logs."""
    return [
        {name: value for name, value in line.items() if not any(word in name for word in TIMES)}
        for line in lines
    ]


class LoggingCallback(TrainerCallback):  # type: ignore[misc]
    """Writes what the trainer logs to a `TrainingLog`, in the main process."""

    def __init__(self, log: TrainingLog) -> None:
        self.log = log

    def on_train_begin(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        self.log.total = state.max_steps
        if state.is_world_process_zero:
            self.log.begin(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **known: Any) -> None:
        if state.is_world_process_zero and logs and "train_runtime" not in logs:
            self.log.write(state.global_step, logs)

    def on_train_end(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        if state.is_world_process_zero:
            self.log.end()


def say_on_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _board(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(log_dir=str(folder), purge_step=step + 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def reporters(names: Sequence[str]) -> list[str]:
    """Return the trainer's reporters of these names; raises if one is unknown or not installed.

    TensorBoard is left out: our log always writes its files.
    """
    from transformers.integrations import INTEGRATION_TO_CALLBACK, get_available_reporting_integrations

    known = sorted(INTEGRATION_TO_CALLBACK)
    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise ConfigurationError(f"--report-to: {name!r} is unknown. {did_you_mean(name, known)}")
        if name not in get_available_reporting_integrations():
            raise MissingDependency(
                f"--report-to: {name!r} is not installed. Install it with: pip install {name}"
            )
    return [name for name in dict.fromkeys(names) if name != TENSORBOARD]


def prepare_reporters(names: Sequence[str], folder: Path) -> None:
    """Set the folders that reporters write to, unless the user has."""
    if "wandb" in names:
        folder.mkdir(parents=True, exist_ok=True)  # if it is missing, wandb uses a temporary folder
        os.environ.setdefault("WANDB_DIR", str(folder))
        os.environ.setdefault("WANDB_PROJECT", PROJECT)
