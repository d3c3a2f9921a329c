"""The loaded models of a service: each set is loaded once, in a thread, and shared by all jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from interleave.plugin import Models, PromptPack, RunConfig, backends, load_models, runs

log = logging.getLogger(__name__)
Observe = Callable[[Models], Models]


@dataclass(frozen=True)
class Offer:
    """Models that a client may choose, by the name of their profile."""

    config: RunConfig
    pack: PromptPack
    chosen: runs.Choices

    @property
    def is_whole_profile(self) -> bool:
        """Whether its models are those of its profile, with none replaced."""
        return not any((self.chosen.planner, self.chosen.critic, self.chosen.generator, self.chosen.prompts))


class ModelShelf:
    """Loads models on demand. A job keeps those it was submitted with, also after a restart with others."""

    def __init__(
        self,
        config: RunConfig,
        pack: PromptPack,
        chosen: runs.Choices,
        observe: Observe = lambda models: models,
        others: Mapping[str, Offer] | None = None,
    ) -> None:
        """`others` are what clients may choose besides, by name."""
        self.config = config
        self.own = Offer(config, pack, chosen)
        self.others = dict(others or {})
        self._observe = observe
        self._loading: dict[tuple[str, ...], asyncio.Task[Models]] = {}

    @property
    def state(self) -> Literal["loading", "ready", "failed"]:
        """`loading`, `ready` or `failed`: of the models that new jobs get."""
        task = self._loading.get(_identity(self.config))
        if task is None or not task.done():
            return "loading"
        return "failed" if task.cancelled() or task.exception() else "ready"

    def start(self) -> asyncio.Task[Models]:
        """Begin to load the models of new jobs."""
        return self._task(self.config)

    def config_for(self, model: str) -> RunConfig:
        """The configuration that a client names; its own name, or none that is known, is the first one."""
        return self.others[model].config if model in self.others else self.config

    def offer_of(self, config: RunConfig) -> Offer | None:
        """What is offered with the models of this configuration."""
        identity = _identity(config)
        offers = (self.own, *self.others.values())
        return next((each for each in offers if _identity(each.config) == identity), None)

    def refuse_unavailable(self, config: RunConfig) -> None:
        """Raise where the models of an earlier job, no longer offered, cannot be had; loads no weights."""
        if self.offer_of(config) is not None:
            return
        runs.refuse_objects(config)
        runs.unchanged_pack(config)
        for role in ("planner", "critic", "generator"):
            backends.refuse_unloadable(getattr(config, role).parsed, role)

    async def models_for(self, config: RunConfig) -> Models:
        return await asyncio.shield(self._task(config))

    def _task(self, config: RunConfig) -> asyncio.Task[Models]:
        identity = _identity(config)
        task = self._loading.get(identity)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._loading[identity] = asyncio.create_task(self._load(config))
        return task

    async def _load(self, config: RunConfig) -> Models:
        offer = self.offer_of(config)
        pack, chosen = (offer.pack, offer.chosen) if offer else (runs.unchanged_pack(config), runs.Choices())
        without_plan = config.model_copy(update={"plan": None})
        return self._observe(await asyncio.to_thread(load_models, without_plan, pack, chosen))


class NoModels(ModelShelf):
    """For a service that leaves all jobs to workers: it loads nothing, and is ready at once."""

    @property
    def state(self) -> Literal["loading", "ready", "failed"]:
        return "ready"

    def start(self) -> asyncio.Task[Models]:
        async def never() -> Models:
            models: Models = await asyncio.get_running_loop().create_future()
            return models

        return asyncio.create_task(never())

    def refuse_unavailable(self, config: RunConfig) -> None:
        """Nothing is refused: the workers have the models."""


def _identity(config: RunConfig) -> tuple[str, ...]:
    """What decides which models a configuration needs: its rules do not."""
    roles = (config.planner, config.critic, config.generator)
    return (*(role.spec for role in roles), config.prompts.digest)
