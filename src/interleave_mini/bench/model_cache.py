"""Models that several runs of a table share: loaded once, and asked the same thing once.

Rows that differ in their critic alone have the same plans and the same first attempts. With one memory for
all of them these are made once, and the rows are compared without the chance of a second drawing.
"""

from __future__ import annotations

from typing import Any

from interleave.agents.loading import critic_from, planner_from
from interleave.agents.prompts import PromptPack
from interleave.backends.protocols import ImageGenerator
from interleave.backends.registry import load_agent as load_agent_by_spec
from interleave.backends.registry import load_generator
from interleave.config.run_config import RoleConfig, RunConfig
from interleave.runs.models import Models
from interleave.runs.resolve import Choices, load_agent
from interleave_mini.bench.cached_models import RememberingGenerator, remembering_agent


class SharedModels:
    """Loads what a run asks for, unless it is there already."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, str], Any] = {}
        self._remembering: dict[tuple[str, str], Any] = {}

    def models_of(self, config: RunConfig, pack: PromptPack, chosen: Choices) -> Models:
        """The models of a run, with the memory they have of the runs before."""
        return Models(
            planner=planner_from(
                self._with_memory(chosen.planner, config.planner, "planner"), pack, max_steps=config.max_steps
            ),
            critic=critic_from(self._with_memory(chosen.critic, config.critic, "critic"), pack),
            generator=self._painter(config.generator.spec),
        )

    def generator(self, spec: str) -> ImageGenerator:
        """The bare generator of a spec."""
        key = ("generator", spec)
        if key not in self._loaded:
            self._loaded[key] = load_generator(spec)
        generator: ImageGenerator = self._loaded[key]
        return generator

    def agent(self, spec: str, role: str) -> Any:
        """The bare planner or critic of a spec, or the model that plays it."""
        key = (role, spec)
        if key not in self._loaded:
            self._loaded[key] = load_agent_by_spec(spec, role)
        return self._loaded[key]

    def forget(self) -> None:
        """Drop the memories, not the models: other tasks ask other things."""
        self._remembering.clear()

    def _painter(self, spec: str) -> ImageGenerator:
        key = ("generator", spec)
        if key not in self._remembering:
            self._remembering[key] = RememberingGenerator(self.generator(spec))
        painter: ImageGenerator = self._remembering[key]
        return painter

    def _with_memory(self, chosen: Any, role: RoleConfig, name: str) -> Any:
        if chosen is not None and not isinstance(
            chosen, str
        ):  # a part of the system itself, of this run alone
            return remembering_agent(load_agent(chosen, role, name))
        key = (name, role.spec)
        if key not in self._remembering:
            self._remembering[key] = remembering_agent(self.agent(role.spec, name))
        return self._remembering[key]
