"""Trains generator, planner and critic beside each other on one GPU, each from trained weights.

    python research/miniature/train_together.py OUT START --minutes 24

START has the folders `pipeline`, `planner` and `critic`; the agents have tokens for the words of the world
(`interleave mini grow-vocabulary`). Small models leave a GPU idle between their kernels: three trainings at
once take about half as long as one after the other (with NVIDIA's MPS; without it, more).

The generator stops halfway for a snapshot, whose images the critic learns in its second half.
OUT/generator/pipeline, OUT/planner/model and OUT/critic-2/model are the results, OUT/*.log what was printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

PLANNER = (
    "plan-worked×12,plan-frames×8,plan-story×7,plan-continue×2,plan-know,plan-edit×2,plan-plain×3,"
    "plan-annotate×2,plan-robot,segment,again,plan-wider×2,look,compare"
)
CRITIC = "look×2,compare,check,verdict×7,audit×2,audit-plan×7,done"
VAE_MINUTES = 1.5
STARTING, COMPILING, EVALUATING = 70.0, 60.0, 75.0
"""Seconds of the generator that are no training: start, compilation and looks, and evaluation at the end."""


class Trainings:
    """The commands, and the time by which all of them have ended."""

    def __init__(self, out: Path, start: Path, minutes: float, workers: int) -> None:
        self.out, self.start, self.workers = out, start, str(workers)
        self.began, self.end = time.monotonic(), 60 * minutes
        self.has_snapshot = threading.Event()
        out.mkdir(parents=True, exist_ok=True)

    def run(self) -> None:
        threads = [threading.Thread(target=part) for part in (self.generator, self.planner, self.critic)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def generator(self) -> None:
        training = self.end - STARTING - 60 * VAE_MINUTES - 2 * COMPILING - EVALUATING
        options = ["--start", self.start / "pipeline", "--tune-vae", VAE_MINUTES, "--vae-learning-rate", 6e-4]
        options += ["--vae-minutes", 0, "--flow-minutes", round(training / 60, 2), "--eval-items", 24]
        self.train("generator", "generator", *options, "--max-minutes", round(training / 120, 2))
        shutil.copytree(self.out / "generator" / "pipeline", self.out / "snapshot", dirs_exist_ok=True)
        self.has_snapshot.set()
        self.train("generator", "generator", *options)

    def planner(self) -> None:
        dropout = ("--dropout", 0.1)
        self.vision("planner", self.start / "planner", PLANNER, *dropout, until=self.end - 60, rate=1.2e-3)

    def critic(self) -> None:
        self.vision("critic-1", self.start / "critic", CRITIC, until=0.55 * self.end, examined=0)
        self.has_snapshot.wait()
        drawn = ("--generator", self.out / "snapshot", "--generated-images", 3000)
        first = self.out / "critic-1" / "model"
        self.vision("critic-2", first, CRITIC, *drawn, until=self.end - 90, rate=5e-4)

    def vision(
        self,
        name: str,
        model: Path,
        exercises: str,
        *more: object,
        until: float,
        rate: float = 8e-4,
        examined: int = 1024,
    ) -> None:
        minutes = round((until - (time.monotonic() - self.began)) / 60, 2)
        options = ("--minutes", minutes, "--learning-rate", rate, "--eval-items", examined)
        self.train(name, "vision", model, *options, "--exercises", exercises, *more)

    def train(self, name: str, command: str, *options: object) -> None:
        words = [sys.executable, "-m", "interleave", "mini", "train", command]
        words += map(str, (*options, "--out", self.out / name, "--workers", self.workers))
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "2",
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        }
        with (self.out / f"{name}.log").open("a") as log:
            subprocess.run(words, stdout=log, stderr=log, env=environment)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("start", type=Path)
    parser.add_argument("--minutes", type=float, default=24)
    parser.add_argument("--workers", type=int, default=4)
    given = parser.parse_args()
    Trainings(given.out, given.start, given.minutes, given.workers).run()


if __name__ == "__main__":
    main()
