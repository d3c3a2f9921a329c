"""Cache of the loaded models: each set is loaded once, in a thread, and shared by all jobs."""

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
    """A set of models that clients may choose by profile name."""

    config: RunConfig
    pack: PromptPack
    chosen: runs.Choices

    @property
    def is_whole_profile(self) -> bool:
        """Whether all its models are those of its profile."""
        return not any((self.chosen.planner, self.chosen.critic, self.chosen.generator, self.chosen.prompts))


class ModelCache:
    """Models loaded on demand. A job keeps its models, even after a restart with other ones."""

    def __init__(
        self,
        config: RunConfig,
        pack: PromptPack,
        chosen: runs.Choices,
        observe: Observe = lambda models: models,
        others: Mapping[str, Offer] | None = None,
    ) -> None:
        """`others` are further choices of clients, by name."""
        self.config = config
        self.own = Offer(config, pack, chosen)
        self.others = dict(others or {})
        self._observe = observe
        self._loading: dict[tuple[str, ...], asyncio.Task[Models]] = {}

    @property
    def state(self) -> Literal["loading", "ready", "failed"]:
        """State of the models for new jobs: `loading`, `ready` or `failed`."""
        task = self._loading.get(_identity(self.config))
        if task is None or not task.done():
            return "loading"
        return "failed" if task.cancelled() or task.exception() else "ready"

    def start(self) -> asyncio.Task[Models]:
        """Start loading the models for new jobs."""
        return self._task(self.config)

    def config_for(self, model: str) -> RunConfig:
        """Return the configuration of a model name; the default one for unknown names."""
        return self.others[model].config if model in self.others else self.config

    def offer_of(self, config: RunConfig) -> Offer | None:
        """Return the offer with the models of this configuration, if any."""
        identity = _identity(config)
        offers = (self.own, *self.others.values())
        return next((each for each in offers if _identity(each.config) == identity), None)

    def refuse_unavailable(self, config: RunConfig) -> None:
        """Raise if the models of an earlier job are no longer available. Loads no weights."""
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


class NoModels(ModelCache):
    """Cache of a service that leaves all jobs to workers: loads nothing and is always ready."""

    @property
    def state(self) -> Literal["loading", "ready", "failed"]:
        return "ready"

    _never: asyncio.Task[Models] | None = None

    def start(self) -> asyncio.Task[Models]:
        async def never() -> Models:
            models: Models = await asyncio.get_running_loop().create_future()
            return models

        self._never = self._never or asyncio.create_task(never())
        return self._never

    def refuse_unavailable(self, config: RunConfig) -> None:
        """Refuse nothing: the workers have the models."""


def _identity(config: RunConfig) -> tuple[str, ...]:
    """Return the part of a configuration that decides which models it needs."""
    roles = (config.planner, config.critic, config.generator)
    return (*(role.spec for role in roles), config.prompts.digest)
