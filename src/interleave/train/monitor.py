"""Checks the gradients of every step and decides when training stops."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from transformers import TrainerCallback

from interleave import InterleaveError, LimitReached

MOST_BAD_STEPS = 3


class TrainingBroken(InterleaveError):
    """The training diverged: its gradients are no longer finite."""


class TrainingMonitor:
    """Checks the gradients of every step and decides when to stop."""

    def __init__(self, *, max_minutes: float | None = None, cycle: int = 1) -> None:
        self.cycle = cycle
        """Steps per cycle: training stops, and is saved, only between cycles."""
        self.ends_at = math.inf if max_minutes is None else time.monotonic() + 60 * max_minutes
        self.bad_steps = 0
        self.skipped = 0
        """Number of skipped updates."""
        self.reason: InterleaveError | None = None
        """Why training stopped early."""

    def stop(self, reason: InterleaveError) -> None:
        """Stop after the current cycle, with everything saved."""
        self.reason = self.reason or reason

    def before_update(self, model: Any) -> None:
        """Skip the update if gradients are not finite, or all zero.

        An optimizer skips weights without a gradient: neither momentum nor weight decay moves them.
        """
        size = gradient_size(model)
        self.bad_steps = 0 if math.isfinite(size) else self.bad_steps + 1
        if size and math.isfinite(size):
            return
        self.skipped += 1
        for weights in model.parameters():
            weights.grad = None
        if self.bad_steps >= MOST_BAD_STEPS:
            self.stop(
                TrainingBroken(
                    f"the gradient was not finite in {self.bad_steps} consecutive steps; they were skipped "
                    "and the state is saved. Resume from it with a lower training.learning_rate"
                )
            )

    def after_step(self, step: int, control: Any) -> None:
        if self.reason is None and time.monotonic() >= self.ends_at:
            self.stop(LimitReached("stopped at --max-minutes; run the same command to continue"))
        if self.reason is not None and step % self.cycle == 0:
            control.should_save = True
            control.should_training_stop = True


class MonitorCallback(TrainerCallback):  # type: ignore[misc]
    """Calls the monitor at every step of the trainer."""

    def __init__(self, monitor: TrainingMonitor) -> None:
        self.monitor = monitor

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        self.monitor.before_update(known["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        self.monitor.after_step(state.global_step, control)


def gradient_size(model: Any) -> float:
    """Return the sum of all gradient norms over all processes; not finite if one of them is not."""
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    if not gradients:
        return 0.0
    size = torch.stack([norm.to(gradients[0].device) for norm in torch._foreach_norm(gradients)]).sum()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        size = size.to_local() if hasattr(size, "to_local") else size
        torch.distributed.all_reduce(size)
    return float(size)
