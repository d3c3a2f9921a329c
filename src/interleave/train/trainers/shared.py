"""Reward core and samples for the reward functions of other trainers.

Options come as keyword arguments if the trainer passes them on, else from the environment:
INTERLEAVE_GENERATOR, INTERLEAVE_SCORER, INTERLEAVE_PROMPTS, INTERLEAVE_IMAGES (the base folder of relative
image paths; or ROOT_IMAGE_DIR), INTERLEAVE_REWARD_SEED, INTERLEAVE_CONCURRENCY, INTERLEAVE_DEADLINE. The
weights of the reward are INTERLEAVE_REWARD_FORM, INTERLEAVE_REWARD_ACCEPTED_FAILURES and so on.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Hashable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from interleave import ConfigurationError, InputError, read_image
from interleave.plugin import agents, backends, images, load_pack, runs
from interleave.train.rewards.core import CONCURRENCY, RewardCore
from interleave.train.rewards.formula import Weights
from interleave.train.rewards.health import (
    FailureLimits,
    Health,
    RewardUnhealthy,
    Screened,
    filled_with_group_mean,
    screened,
)
from interleave.train.rewards.redraws import load_redrawer
from interleave.train.rewards.samples import Case, Result, Sample

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
OPTIONS = {
    "generator": "INTERLEAVE_GENERATOR",
    "scorer": "INTERLEAVE_SCORER",
    "prompts": "INTERLEAVE_PROMPTS",
    "images": "INTERLEAVE_IMAGES",
    "seed": "INTERLEAVE_REWARD_SEED",
    "concurrency": "INTERLEAVE_CONCURRENCY",
    "deadline": "INTERLEAVE_DEADLINE",
}
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 60.0
SWIFT_FOLDER = "ROOT_IMAGE_DIR"
"""ms-swift's variable for the image folder, which its users set anyway."""


def chosen(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a reward, from keywords and the environment."""
    given = {name: options.get(name, os.environ.get(variable)) for name, variable in OPTIONS.items()}
    for name in ("generator", "scorer"):
        if not given[name]:
            raise ConfigurationError(f"which {name}? Set {OPTIONS[name]} to its spec, e.g. http://host:8011")
    return {name: str(value) for name, value in given.items() if value is not None}


def core_of(options: Mapping[str, Any]) -> RewardCore:
    """Return the reward core for these options; a process has one per set of options."""
    chosen_weights = {
        name: options.get(name, os.environ.get(f"INTERLEAVE_REWARD_{name.upper()}"))
        for name in Weights.model_fields
    }
    weights = {name: str(value) for name, value in chosen_weights.items() if value is not None}
    return _core(tuple(sorted(chosen(options).items())), tuple(sorted(weights.items())))


@cache
def _core(options: tuple[tuple[str, str], ...], weights: tuple[tuple[str, str], ...]) -> RewardCore:
    given = dict(options)
    pack = load_pack(given.get("prompts", agents.DEFAULT_PACK))
    redraws = load_redrawer(given["generator"], given["scorer"], pack)
    return RewardCore(
        redraws,
        Weights.model_validate(dict(weights)),
        concurrency=int(given.get("concurrency", CONCURRENCY)),
        deadline=float(given.get("deadline", backends.IMAGE_DEADLINE_SECONDS)),
        seed=int(given.get("seed", 0)),
        answers=pack.answers,
    )


def sample_of(record: Mapping[str, Any], images: str | None = None) -> Sample:
    """Build a sample from a record whose images are bytes, paths or images."""
    folder = Path(images or image_folder() or ".")
    sources = [as_image(each, folder) for each in _listed(record.get("sources"))]
    return Sample.of_row({**record, "sources": sources})


def image_folder() -> str | None:
    """Return the base folder of relative paths from the environment."""
    return os.environ.get(OPTIONS["images"]) or os.environ.get(SWIFT_FOLDER)


def as_image(stored: Any, folder: Path) -> Image:
    """Convert an image from any of the forms that trainers pass."""
    from PIL.Image import Image

    if isinstance(stored, Image):
        return images.as_rgb(stored)
    if isinstance(stored, bytes):
        return images.decode_image(stored)
    if isinstance(stored, Mapping):
        if isinstance(stored.get("bytes"), bytes):
            return images.decode_image(stored["bytes"])
        stored = stored.get("image") or stored.get("path")
        if isinstance(stored, Image):
            return images.as_rgb(stored)
    if isinstance(stored, str):
        return read_image(folder / stored.removeprefix("file://"))
    raise InputError(f"an image of a row has type {type(stored).__name__}, not bytes or a path")


def screen(
    samples: Sequence[Sample], results: Sequence[Result], limits: FailureLimits = FailureLimits()
) -> Screened:
    """Screen the rewards of a step; the replies to one row are a group."""
    drawn = [result.case is Case.REDRAWN for result in results]
    return screened([result.total for result in results], drawn, [sample.id for sample in samples], limits)


def pauses(patience: float, first: float = FIRST_PAUSE_SECONDS) -> Iterator[float]:
    """Yield the seconds to wait before each retry, `patience` in total."""
    return runs.backoff_delays(first, LONGEST_PAUSE_SECONDS, patience)


@cache
def health() -> Health:
    """Return the reward health of this process."""
    return Health()


def filled_step(samples: Sequence[Sample], results: Sequence[Result], trainer: str) -> list[float]:
    """Return the rewards of a step for a trainer that cannot mask; raises if too many failed."""
    return filled_rewards(
        [result.total for result in results],
        [result.case is Case.REDRAWN for result in results],
        [sample.id for sample in samples],
        [result.cause for result in results if result.cause],
        trainer,
    )[0]


def filled_rewards(
    totals: Sequence[float | None],
    drawn: Sequence[bool],
    groups: Sequence[Hashable],
    causes: Sequence[str],
    trainer: str,
) -> tuple[list[float], tuple[float | None, ...]]:
    """Do the same for plain rewards; also return the rewards to learn from, None for the others."""
    step = screened(totals, drawn, groups)
    health().note(step, causes)
    saved = f"{trainer} resumes from its last checkpoint"
    if step.discarded:
        raise RewardUnhealthy(
            f"reward_unhealthy: {step.failed} of {step.needed} redraws failed ({causes[0]}). {saved}: "
            "fix the generator or the scorer, then run the same command again"
        )
    if health().unhealthy:
        raise health().complaint(saved=saved)
    return filled_with_group_mean(totals, step.totals, groups), step.totals


def record_of(result: Result, sample: Sample) -> dict[str, float]:
    """Return the parts of a reward as numbers that a trainer can log."""
    parts = result.parts.model_dump() if result.parts else {}
    return {
        **{name: float(value) for name, value in parts.items()},
        "judged_right": float(result.judged is sample.success),
        "masked": float(result.total is None),
        "redrawn": float(result.scores is not None),
        "seconds": result.timing.all,
    }


class BackgroundLoop:
    """An event loop in a separate thread, for trainers that call from any thread or loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True, name="interleave-rewards").start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def join(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))


@cache
def reward_loop() -> BackgroundLoop:
    """Return the one loop of this process, so that all calls share the concurrency limit and the cache."""
    return BackgroundLoop()


def _listed(value: Any) -> list[Any]:
    """Return a list from a list, an array or None."""
    try:
        return [] if value is None else list(value)
    except TypeError:
        raise InputError(f"the sources of a row have type {type(value).__name__}, not list") from None
