"""Load what robots need of a profile: its critic as a check of sub-tasks, its planner as an annotator."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any

from interleave import ConfigurationError
from interleave.plugin import LoadedAgent, PromptPack, RetriedVlm, agents, resolve, runs, split_choices
from interleave.robots.annotator import Annotator, VlmAnnotator
from interleave.robots.sub_task_check import SubTaskCheck, VlmSubTaskCheck, as_check

PROMPTS = ("robot_check", "robot_segments", "robot_boundary")
"""The prompts of a pack that are for robots."""
FRAMES_ON_SHEETS = 60
"""Frames that a model is shown at once, on contact sheets."""
COLUMNS = 5


def load_check(*, profile: str | None = None, critic: Any = None, prompts: str | None = None) -> SubTaskCheck:
    """A check of sub-tasks by a critic: that of a profile, or the one that is named or given."""
    config, pack, chosen = _resolved(profile, critic, prompts)
    loaded = check_from(runs.load_agent(chosen.critic, config.critic, "critic"), pack)
    return loaded.with_calls_through(lambda vlm: RetriedVlm("the critic", vlm))


@dataclass(frozen=True)
class LoadedAnnotator:
    """An annotator, with what decides how its annotations come out."""

    annotator: Annotator
    spec: str
    prompts: str
    at_once: int
    """The frames that it is shown at once."""


def load_annotator(
    *,
    profile: str | None = None,
    annotator: Any = None,
    prompts: str | None = None,
    at_once: int | None = None,
) -> LoadedAnnotator:
    """An annotator: the planner of a profile, or the model that is named or given."""
    config, pack, chosen = _resolved(profile, annotator, prompts)
    single = pack.description.single_frames
    loaded = annotator_from(
        runs.load_agent(chosen.planner, config.planner, "planner"), pack, columns=None if single else COLUMNS
    )
    return LoadedAnnotator(
        loaded.with_calls_through(lambda vlm: RetriedVlm("the annotator", vlm)),
        config.planner.identity,
        f"{pack.name}/{pack.digest_of(PROMPTS)}",
        at_once or single or FRAMES_ON_SHEETS,
    )


def check_from(backend: Any, pack: PromptPack) -> LoadedAgent[SubTaskCheck]:
    """A check of sub-tasks from a model, an object that checks by itself, or any object that judges."""
    if not agents.is_prompted(backend):
        return LoadedAgent(as_check(backend))
    return agents.agent_from(backend, lambda vlm: VlmSubTaskCheck(vlm, pack))


def annotator_from(backend: Any, pack: PromptPack, *, columns: int | None) -> LoadedAgent[Annotator]:
    """An annotator from a vision-language model, or from an object that finds sub-tasks by itself."""
    if not agents.is_prompted(backend) and not iscoroutinefunction(getattr(backend, "segments", None)):
        raise ConfigurationError(
            "the annotator must be a vision-language model, or an object with 'async def segments(…)' and "
            f"'async def boundary(…)'; this is a {type(backend).__name__}"
        )
    return agents.agent_from(backend, lambda vlm: VlmAnnotator(vlm, pack, columns=columns))


def _resolved(profile: str | None, agent: Any, prompts: str | None) -> tuple[Any, PromptPack, Any]:
    """The configuration with one model in both roles, so that its words suit it whichever it plays."""
    given = {"profile": profile, "planner": agent, "critic": agent, "prompts": prompts}
    chosen, _ = split_choices(given)
    config, pack = resolve(chosen)
    return config, pack, chosen
