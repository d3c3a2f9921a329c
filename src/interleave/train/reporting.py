"""Places for the log of a training beside its own folder: wandb, trackio and other reporters.

TensorBoard's files are always written, into the output folder. wandb writes there too, and only sends where
its user is logged in and WANDB_MODE does not say offline; trackio writes to its own folder on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from interleave import ConfigurationError, MissingDependency
from interleave.plugin import did_you_mean

TENSORBOARD = "tensorboard"
PROJECT = "interleave"


def reporters(names: Sequence[str]) -> list[str]:
    """The trainer's own reporters of these names; raises for one that is unknown or not installed.

    TensorBoard is left out: our log writes its files, with or without being asked.
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
    """Say where reporters write, unless the user has."""
    if "wandb" in names:
        folder.mkdir(parents=True, exist_ok=True)  # where it is missing, wandb takes a temporary folder
        os.environ.setdefault("WANDB_DIR", str(folder))
        os.environ.setdefault("WANDB_PROJECT", PROJECT)
