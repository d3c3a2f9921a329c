"""FSDP and DeepSpeed with the launch files that ship: two processes learn what one does."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from interleave.train.logs import read_log
from interleave.train.models import gather_output_layer

LAUNCH = Path(__file__).parents[3] / "launch"
SETTINGS = ("training.steps=3", "training.device_batch=2", "training.log_every=1", "training.save_every=2")
SECONDS = 1500
"""DeepSpeed compiles a part of itself at its first start."""


def command(toy: Path, data: Path, out: Path, *more: str) -> list[str]:
    words = ["train", "sft", "critic", "--data", str(data), "--model", str(toy), "--config", "debug-sft"]
    for setting in (*SETTINGS, *more):
        words += ["--set", setting]
    return [*words, "--out", str(out)]


def run(words: list[str]) -> None:
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    known = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
    }
    done = subprocess.run(
        [sys.executable, "-m", *words], env={**os.environ, **known}, capture_output=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]


def launched(file: str, words: list[str]) -> None:
    """What the launch file starts, but two processes, on a CPU, in float32."""
    start = ["accelerate.commands.launch", "--config_file", str(LAUNCH / file)]
    run([*start, "--num_processes", "2", "--mixed_precision", "no", "-m", "shard_on_cpu", *words])


def losses(out: Path) -> list[float]:
    return [line["loss"] for line in read_log(out / "log.jsonl") if "loss" in line]


def processes(out: Path) -> int:
    return int(json.loads((out / "checkpoints" / "checkpoint-3" / "whole.json").read_text())["processes"])


def assert_equal(one: Path, many: Path) -> None:
    assert losses(many) == pytest.approx(losses(one), rel=1e-5)
    assert (processes(one), processes(many)) == (1, 2)
    expected, found = (load_file(out / "model" / "model.safetensors") for out in (one, many))
    assert expected.keys() == found.keys()
    apart = {name: float((expected[name] - found[name]).abs().mean()) for name in expected}
    assert max(apart.values()) < 1e-5, max(apart, key=lambda name: apart[name])


@pytest.fixture(scope="module")
def one_process(toy: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("alone") / "out"
    run(["interleave", *command(toy, data, out)])
    return out


@pytest.mark.slow
def test_fsdp_learns_what_one_process_does(toy: Path, data: Path, one_process: Path, tmp_path: Path) -> None:
    launched("accelerate-fsdp.yaml", command(toy, data, tmp_path / "out"))
    assert_equal(one_process, tmp_path / "out")
    files = {path.name for path in (tmp_path / "out" / "checkpoints" / "checkpoint-3").iterdir()}
    assert {"model.safetensors", "rng_state_0.pth", "rng_state_1.pth"} <= files


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("deepspeed"), reason="needs deepspeed")
def test_deepspeed_learns_what_one_process_does(
    toy: Path, data: Path, one_process: Path, tmp_path: Path
) -> None:
    launched("accelerate-deepspeed-zero3.yaml", command(toy, data, tmp_path / "out"))
    assert_equal(one_process, tmp_path / "out")
    assert (tmp_path / "out" / "checkpoints" / "checkpoint-3" / "zero_to_fp32.py").is_file()


def test_a_layer_that_fsdp_has_divided_is_gathered_and_others_are_left_alone() -> None:
    class Divided(torch.nn.Linear):
        gathered = 0

        def unshard(self) -> None:
            self.gathered += 1

    class Model(torch.nn.Module):
        def __init__(self, head: torch.nn.Module) -> None:
            super().__init__()
            self.head = head

        def get_output_embeddings(self) -> Any:
            return self.head

    divided = Divided(2, 2)
    gather_output_layer(Model(divided))
    gather_output_layer(Model(torch.nn.Linear(2, 2)))
    assert divided.gathered == 1
