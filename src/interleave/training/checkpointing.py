"""What both trainers do the same way: sealed checkpoints, steps that are skipped, ends in good order."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

from interleave.errors import ConfigurationError, InterleaveError, LimitReached
from interleave.files import write_atomic
from interleave.training import checkpoints

MOST_BAD_STEPS = 3
COUNTERS = "counters.json"
COUNTED = {"_total_train_tokens"}
"""What TRL counts up and does not save."""
SUMS = "since_last_line"


class TrainingBroken(InterleaveError):
    """Training cannot go on as it is: what it does is no longer learning."""


def keeping(base: type) -> Any:
    """A trainer class that seals its checkpoints and keeps the last few."""

    class Keeping(base):  # type: ignore[misc]
        keep = 3
        watch: Watch
        _sums: dict[str, Any] | None = None
        """Sums of the checkpoint gone on from, until they are taken up."""

        def get_batch_samples(self, *arguments: Any, **options: Any) -> Any:
            self._take_up_sums()
            started = time.perf_counter()
            batches = super().get_batch_samples(*arguments, **options)
            self._metrics["train"]["time/data"].append(time.perf_counter() - started)
            return batches

        def create_model_card(self, *arguments: Any, **options: Any) -> None:
            """None: a card would hold paths of this machine."""

        def _save_checkpoint(self, model: Any, trial: Any) -> None:
            folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
            if (folder / checkpoints.SEAL).is_file():
                return  # saved at this step already
            with checkpoints.storing(folder):
                super()._save_checkpoint(model, trial)
                counters = self._counters()
                self.accelerator.wait_for_everyone()
                if self.accelerator.is_main_process:
                    write_atomic(folder / COUNTERS, json.dumps(counters).encode())
                    checkpoints.seal(
                        folder, step=self.state.global_step, processes=self.accelerator.num_processes
                    )
            if self.accelerator.is_main_process:
                checkpoints.prune(folder.parent, self.keep)

        def _counters(self) -> dict[str, Any]:
            """What goes on counting, and the sums since the last line of the log; every process asks."""
            counted = {name: getattr(self, name) for name in COUNTED if hasattr(self, name)}
            sums = {
                "logged": self._globalstep_last_logged,
                "loss": float(self.accelerator.gather(self._tr_loss).mean()),
                "figures": dict(self._metrics["train"]),
                "skipped": self.watch.skipped,
            }
            return {**counted, SUMS: sums}

        def _take_up_sums(self) -> None:
            """Go on with the sums as they were, so that the next line is that of an undisturbed run.

            The trainer sets its sums to zero after a checkpoint is loaded: they come back at the first batch.
            """
            if self._sums is None:
                return
            sums, self._sums = self._sums, None
            self._globalstep_last_logged = sums["logged"]
            self._tr_loss.fill_(sums["loss"])
            self._metrics["train"].update(sums["figures"])
            self.watch.skipped = sums["skipped"]

        def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None:
            super()._load_optimizer_and_scheduler(checkpoint)
            if checkpoint is not None:
                counters = json.loads((Path(checkpoint) / COUNTERS).read_text("utf-8"))
                self._sums = counters.get(SUMS)
                for name in COUNTED & counters.keys():
                    setattr(self, name, counters[name])

    Keeping.__name__ = Keeping.__qualname__ = f"Keeping{base.__name__}"
    return Keeping


def watching(base: type) -> Any:
    """The callback that skips bad steps and ends the training in order; `base` is `TrainerCallback`."""

    class Watching(base):  # type: ignore[misc]
        def __init__(self, watch: Watch) -> None:
            self.watch = watch

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **known: Any) -> None:
            self.watch.before_update(known["model"])

        def on_step_end(self, args: Any, state: Any, control: Any, **known: Any) -> None:
            self.watch.after_step(state.global_step, control)

    return Watching


class Watch:
    """Looks at every step, and says when to stop."""

    def __init__(self, *, max_minutes: float | None = None, cycle: int = 1) -> None:
        self.cycle = cycle
        """Steps that belong together: training stops, and is saved, only between cycles."""
        self.ends_at = math.inf if max_minutes is None else time.monotonic() + 60 * max_minutes
        self.bad_steps = 0
        self.skipped = 0
        """Steps that left the weights alone."""
        self.reason: InterleaveError | None = None
        """Why training stopped before its end."""

    def stop(self, reason: InterleaveError) -> None:
        """Stop after the cycle under way, with everything saved."""
        self.reason = self.reason or reason

    def before_update(self, model: Any) -> None:
        """Leave the weights alone where gradients are not numbers, or where there is nothing to learn.

        An optimizer passes over weights without a gradient: neither momentum nor decay moves them.
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
                    f"the gradient was not a number in {self.bad_steps} steps running; they were skipped and "
                    "the state is saved. Start again from it with a lower training.learning_rate"
                )
            )

    def after_step(self, step: int, control: Any) -> None:
        if self.reason is None and time.monotonic() >= self.ends_at:
            self.stop(LimitReached("stopped at --max-minutes: the same command goes on"))
        if self.reason is not None and step % self.cycle == 0:
            control.should_save = True
            control.should_training_stop = True


def gradient_size(model: Any) -> float:
    """How large all gradients are together, over all processes; not finite when one of them is not."""
    import torch

    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    if not gradients:
        return 0.0
    size = torch.stack([norm.to(gradients[0].device) for norm in torch._foreach_norm(gradients)]).sum()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        size = size.to_local() if hasattr(size, "to_local") else size
        torch.distributed.all_reduce(size)
    return float(size)


def refuse_other_processes(checkpoint: Path, processes: int) -> None:
    """Refuse to go on with another number of processes: rows would come in another order."""
    trained_with = checkpoints.read_seal(checkpoint).processes
    if trained_with != processes:
        raise ConfigurationError(
            f"{checkpoint} was trained by {trained_with} processes, and this is {processes}: start as many, "
            "or train on from it as a new run with --model"
        )
