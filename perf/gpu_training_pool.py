"""Draws rewards over HTTP: `interleave serve generator` with an image model built on the device.

The model is a plugin of the server, found by an entry point like any other. Only checkpoint loading is
replaced.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

import torch
from gpu_bench import Bench
from random_models import REAL, TOY, Size, build_klein

from interleave.config.specs import Spec
from interleave.local.diffusers_generator import DiffusersGenerator
from interleave.local.pipelines import CallSettings

KLEIN = "black-forest-labs/FLUX.2-klein-9B"
PATIENCE_SECONDS = 120.0
METADATA = "Metadata-Version: 2.1\nName: made-klein\nVersion: 1.0\n"
ENTRY_POINTS = "[interleave.generators]\nmade = gpu_training_pool:MadeGenerator\n"


class MadeGenerator(DiffusersGenerator):
    """FLUX.2-klein-9B with random weights, or its toy version."""

    class Options(DiffusersGenerator.Options):
        toy: bool = False

    def __init__(self, *, spec: Spec, options: Options) -> None:
        size = TOY if options.toy else REAL
        dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
        super().__init__(
            spec=Spec("diffusers", KLEIN),
            options=options,
            pipeline=build_klein(size, torch.device(options.device), dtype),
            settings=call_settings(size),
        )


def call_settings(size: Size) -> CallSettings:
    return CallSettings(width=size.side, height=size.side, text_encoder_out_layers=size.layers_shown)


class Pool:
    """Servers on the device, which start loading immediately."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        plugin = folder / "made-1.0.dist-info"
        plugin.mkdir(exist_ok=True)
        (plugin / "METADATA").write_text(METADATA)
        (plugin / "entry_points.txt").write_text(ENTRY_POINTS)
        self._said = folder / "servers.log"
        with self._said.open("w") as log:
            self.servers = [_start(bench, folder, log) for _ in range(bench.options.servers)]

    def ready(self) -> str:
        """Wait until all servers are ready; returns the spec of the pool."""
        urls = [_address(server) for server in self.servers]
        try:
            for url in urls:
                _wait_until_ready(url)
        except Exception:
            print(self._said.read_text()[-2000:], flush=True)
            raise
        return ",".join(urls)

    def close(self) -> None:
        for server in self.servers:
            server.kill()
        for server in self.servers:
            server.communicate()


def _start(bench: Bench, folder: Path, log: IO[str]) -> subprocess.Popen[str]:
    toy = "true" if bench.options.toy else "false"
    spec = f"made?toy={toy}&device={bench.device.type}&batch=4&compile=false"
    words = ["serve", "generator", "--generator", spec, "--port", "0", "--name", "klein"]
    paths = [str(folder), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.Popen(
        [sys.executable, "-m", "interleave", *words],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env=environment,
    )


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    return server.stdout.readline().strip()


def _wait_until_ready(url: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise TimeoutError(f"the server at {url} was not ready after {PATIENCE_SECONDS:g} s")
