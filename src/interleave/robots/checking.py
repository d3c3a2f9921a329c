"""Load the models of a profile for robots: its critic as a sub-task check, its planner as an annotator."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any

from interleave import ConfigurationError
from interleave.plugin import LoadedAgent, PromptPack, RetriedVlm, agents, resolve, runs, split_choices
from interleave.robots.annotator import Annotator, VlmAnnotator
from interleave.robots.sub_task_check import SubTaskCheck, VlmSubTaskCheck, as_check

PROMPTS = ("robot_check", "robot_segments", "robot_boundary")
"""A pack's prompts for robots."""
FRAMES_ON_SHEETS = 60
"""Frames per call on contact sheets."""
COLUMNS = 5


def load_check(*, profile: str | None = None, critic: Any = None, prompts: str | None = None) -> SubTaskCheck:
    """Load a sub-task check by a critic: `critic`, a spec or an object, or that of a profile."""
    config, pack, chosen = _resolved(profile, critic, prompts)
    loaded = check_from(runs.load_agent(chosen.critic, config.critic, "critic"), pack)
    return loaded.with_calls_through(lambda vlm: RetriedVlm("the critic", vlm))


@dataclass(frozen=True)
class LoadedAnnotator:
    """An annotator and its settings."""

    annotator: Annotator
    spec: str
    prompts: str
    window: int
    """Frames per call."""


def load_annotator(
    *,
    profile: str | None = None,
    annotator: Any = None,
    prompts: str | None = None,
    window: int | None = None,
) -> LoadedAnnotator:
    """Load an annotator: `annotator`, a spec or an object, or the planner of a profile."""
    config, pack, chosen = _resolved(profile, annotator, prompts)
    single = pack.description.single_frames
    loaded = annotator_from(
        runs.load_agent(chosen.planner, config.planner, "planner"), pack, columns=None if single else COLUMNS
    )
    return LoadedAnnotator(
        loaded.with_calls_through(lambda vlm: RetriedVlm("the annotator", vlm)),
        config.planner.identity,
        f"{pack.name}/{pack.digest_of(PROMPTS)}",
        window or single or FRAMES_ON_SHEETS,
    )


def check_from(backend: Any, pack: PromptPack) -> LoadedAgent[SubTaskCheck]:
    """Return a sub-task check from a model, an object with `check`, or a critic."""
    if not agents.is_prompted(backend):
        return LoadedAgent(as_check(backend))
    return agents.agent_from(backend, lambda vlm: VlmSubTaskCheck(vlm, pack))


def annotator_from(backend: Any, pack: PromptPack, *, columns: int | None) -> LoadedAgent[Annotator]:
    """Return an annotator from a vision-language model, or from an object with `segments`."""
    if not agents.is_prompted(backend) and not iscoroutinefunction(getattr(backend, "segments", None)):
        raise ConfigurationError(
            "the annotator must be a vision-language model, or an object with 'async def segments(…)' and "
            f"'async def boundary(…)', not a {type(backend).__name__}"
        )
    return agents.agent_from(backend, lambda vlm: VlmAnnotator(vlm, pack, columns=columns))


def _resolved(profile: str | None, agent: Any, prompts: str | None) -> tuple[Any, PromptPack, Any]:
    """Resolve a configuration with one model as planner and critic, so that its prompts fit both roles."""
    given = {"profile": profile, "planner": agent, "critic": agent, "prompts": prompts}
    chosen, _ = split_choices(given)
    config, pack = resolve(chosen)
    return config, pack, chosen
