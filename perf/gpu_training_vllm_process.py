"""Starts the vLLM process, passes it prompts and reads its results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet
from gpu_bench import Bench
from transformers import PreTrainedTokenizerFast

from interleave.local.saved_models import make_loadable

QUIET = {
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_DEEP_GEMM": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",
}
"""Environment: one process, no telemetry, and no kernels that must be compiled first."""


class StartedVllm:
    """A process that is importing vLLM."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        given = folder / "vllm"
        write_prompts(folder, given, 2 * bench.options.prompts)
        self._gate, self._said = folder / "vllm.go", folder / "vllm.log"
        paths = [bench.options.vllm_path, os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        script = Path(__file__).with_name("gpu_training_vllm.py")
        with self._said.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(given), str(bench.tokens), str(self._gate)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )

    def measure(self) -> None:
        started = time.perf_counter()
        self._gate.touch()
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                if line.startswith("{"):
                    row: dict[str, Any] = json.loads(line)
                    self.bench.note(row.pop("what"), **row, since_let_go=time.perf_counter() - started)
            if code := self._process.wait():
                raise RuntimeError(f"vLLM ended with {code}")
        except BaseException:
            print(self._said.read_text()[-3000:], flush=True)
            raise

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def write_prompts(folder: Path, given: Path, count: int) -> None:
    """Write the prompts of the first rows for vLLM, with model settings that it can read."""
    shutil.copytree(folder / "model", given)
    make_loadable(given)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(given)
    rows = pyarrow.parquet.read_table(folder / "rows" / "critic_rl.parquet").slice(0, count).to_pylist()
    prompts = []
    for number, row in enumerate(rows):
        names = [f"{number}-{place}.png" for place in range(len(row["images"]))]
        for name, image in zip(names, row["images"], strict=True):
            (given / name).write_bytes(image["bytes"])
        messages = [
            {
                **message,
                "content": [
                    {name: value for name, value in part.items() if value is not None}
                    for part in message["content"]
                ],
            }
            for message in row["prompt"]
        ]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        prompts.append({"text": text, "pictures": names})
    (given / "prompts.json").write_text(json.dumps(prompts))
