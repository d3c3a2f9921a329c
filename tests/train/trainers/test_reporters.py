"""wandb and trackio as they are installed: a training of ours reports to them on this machine alone."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from driven import Material, Trainer


@pytest.fixture(scope="module")
def training(
    trainer: Callable[[str], Trainer], material: Material, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The output folder of a training that reports to both."""
    folder = tmp_path_factory.mktemp("reported")
    words = ["-m", "interleave", "train", "sft", "critic", "--data", material.export, "--steps", "2"]
    words += ["--config", "debug-sft", "--model", material.model, "--out", folder / "out"]
    words += ["--report-to", "tensorboard", "--report-to", "wandb", "--report-to", "trackio"]
    done = subprocess.run(
        [str(trainer("reporters").python), *map(str, words)],
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "WANDB_MODE": "offline",
            "TRACKIO_DIR": str(folder / "trackio"),
            "HF_HUB_OFFLINE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_wandb_keeps_its_run_in_the_output_folder(training: Path) -> None:
    runs = list((training / "out" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(runs) == 1
    assert runs[0].stat().st_size > 0
    assert not (training / "wandb").exists()


def test_trackio_has_the_figures_of_the_steps(training: Path) -> None:
    (database,) = (training / "trackio").glob("interleave*.db")
    with sqlite3.connect(database) as connection:
        logged = [json.loads(line) for (line,) in connection.execute("select metrics from metrics")]
    assert {line.get("train/global_step") for line in logged} >= {1, 2}
    assert any("loss" in name for line in logged for name in line)


def test_tensorboards_files_are_written_once(training: Path) -> None:
    assert len(list(training.rglob("events.out.tfevents.*"))) == 1
