"""The loaded models of a service: each set is loaded once, in a thread, and shared by all jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from interleave.agents.prompts import PromptPack
from interleave.config.run_config import RunConfig
from interleave.runs.models import Models
from interleave.runs.resolve import Choices, load_models, unchanged_pack

log = logging.getLogger(__name__)
Observe = Callable[[Models], Models]


class ModelShelf:
    """Loads models on demand. A job keeps those it was submitted with, also after a restart with others."""

    def __init__(
        self, config: RunConfig, pack: PromptPack, chosen: Choices, observe: Observe = lambda models: models
    ) -> None:
        self.config = config
        self._chosen = chosen
        self._pack = pack
        self._observe = observe
        self._loading: dict[tuple[str, ...], asyncio.Task[Models]] = {}

    @property
    def state(self) -> str:
        """`loading`, `ready` or `failed`: of the models that new jobs get."""
        task = self._loading.get(_identity(self.config))
        if task is None or not task.done():
            return "loading"
        return "failed" if task.cancelled() or task.exception() else "ready"

    def start(self) -> asyncio.Task[Models]:
        """Begin to load the models of new jobs."""
        return self._task(self.config)

    async def models_for(self, config: RunConfig) -> Models:
        return await asyncio.shield(self._task(config))

    def _task(self, config: RunConfig) -> asyncio.Task[Models]:
        identity = _identity(config)
        task = self._loading.get(identity)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._loading[identity] = asyncio.create_task(self._load(config))
        return task

    async def _load(self, config: RunConfig) -> Models:
        if _identity(config) == _identity(self.config):
            pack, chosen = self._pack, self._chosen
        else:
            pack, chosen = unchanged_pack(config), Choices()
        without_plan = config.model_copy(update={"plan": None})
        return self._observe(await asyncio.to_thread(load_models, without_plan, pack, chosen))


class NoModels(ModelShelf):
    """For a service that leaves all jobs to workers: it loads nothing, and is ready at once."""

    @property
    def state(self) -> str:
        return "ready"

    def start(self) -> asyncio.Task[Models]:
        async def never() -> Models:
            models: Models = await asyncio.get_running_loop().create_future()
            return models

        return asyncio.create_task(never())


def _identity(config: RunConfig) -> tuple[str, ...]:
    """What decides which models a configuration needs: its rules do not."""
    roles = (config.planner, config.critic, config.generator)
    return (*(role.spec for role in roles), config.prompts.digest)
