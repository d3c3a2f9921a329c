"""Measures loading critic, planner and generator from files in memory to a device."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from gpu_bench import GB, PLAN, Bench
from gpu_command import CRITIC, KLEIN, PLANNER
from random_models import fill_randomly, folder_of, verdict, write_hub

from interleave.config.specs import Spec
from interleave.local.checkpoints import Source
from interleave.local.diffusers_generator import DiffusersGenerator
from interleave.local.tiny.vlms import split_into_distinct
from interleave.local.transformers_vlm import LoadedModel, TransformersVlm, load_shared


@dataclass
class LoadedModels:
    critic: LoadedModel
    planner: LoadedModel
    klein: Any


def load_from_files(bench: Bench, vlm_options: TransformersVlm.Options) -> LoadedModels:
    """Load the models as `interleave generate --profile klein` does, from files in memory.

    The layers in the files are zeros. After loading, random numbers replace them, because zeros are
    multiplied faster than other numbers.
    """
    home = Path(tempfile.mkdtemp(prefix="interleave-", dir=_memory()))
    try:
        words = {PLANNER: split_into_distinct(PLAN), CRITIC: verdict(bench.tokens)}
        started = time.perf_counter()
        write_hub(home, bench.size, words=words, klein=KLEIN, weights="sparse", device=bench.device)
        writing = time.perf_counter() - started
        bench.free()
        before = torch.cuda.memory_allocated() if bench.device.type == "cuda" else 0
        started = time.perf_counter()
        planner, critic = (
            load_shared(Source(str(folder_of(home, name))), vlm_options) for name in (PLANNER, CRITIC)
        )
        bench.settle()
        language = time.perf_counter() - started
        generator = DiffusersGenerator(
            spec=Spec("diffusers", str(folder_of(home, KLEIN))),
            options=DiffusersGenerator.Options(device=bench.device.type, compile=False),
        )
        bench.settle()
        both = time.perf_counter() - started
        held = torch.cuda.memory_allocated() - before if bench.device.type == "cuda" else 0
        for name, loaded in ((PLANNER, planner), (CRITIC, critic)):  # decode steps compiled and captured
            TransformersVlm(spec=Spec("transformers", name), options=vlm_options, loaded=loaded)
        bench.settle()
        ready = time.perf_counter() - started
        bench.note(
            "loading",
            seconds=both,
            language_models=language,
            generator=both - language,
            gigabytes=held / GB,
            gigabytes_per_second=held / GB / both,
            ready=ready,
            writing=writing,
        )
    finally:
        shutil.rmtree(home, ignore_errors=True)
    for model in (planner.decoder.model, critic.decoder.model):
        fill_randomly(model, bench.size, but=("lm_head", "embed_tokens"))
    for part in (generator.pipeline.transformer, generator.pipeline.text_encoder):
        for module in part.modules():  # as `build_klein` leaves them
            if isinstance(module, torch.nn.Linear | torch.nn.Embedding):
                module.reset_parameters()
    return LoadedModels(critic, planner, generator.pipeline)


def _memory() -> Path | None:
    """Return a folder in memory, or None."""
    return Path("/dev/shm") if Path("/dev/shm").is_dir() else None
