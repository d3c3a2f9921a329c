"""Load what robots need of a profile: its critic as a check of sub-tasks, its planner as an annotator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interleave.agents.annotator import Annotator
from interleave.agents.loading import annotator_from, check_from
from interleave.agents.prompts import ROBOT_PROMPTS, PromptPack
from interleave.agents.robot_check import SubTaskCheck
from interleave.backends.retries import RetriedVlm
from interleave.runs.resolve import load_agent, resolve, split_choices

FRAMES_ON_SHEETS = 60
"""Frames that a model is shown at once, on contact sheets."""
COLUMNS = 5


def load_check(*, profile: str | None = None, critic: Any = None, prompts: str | None = None) -> SubTaskCheck:
    """A check of sub-tasks by a critic: that of a profile, or the one that is named or given."""
    config, pack, chosen = _resolved(profile, critic, prompts)
    loaded = check_from(load_agent(chosen.critic, config.critic, "critic"), pack)
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
        load_agent(chosen.planner, config.planner, "planner"), pack, columns=None if single else COLUMNS
    )
    return LoadedAnnotator(
        loaded.with_calls_through(lambda vlm: RetriedVlm("the annotator", vlm)),
        config.planner.identity,
        f"{pack.name}/{pack.digest_of(ROBOT_PROMPTS)}",
        at_once or single or FRAMES_ON_SHEETS,
    )


def _resolved(profile: str | None, agent: Any, prompts: str | None) -> tuple[Any, PromptPack, Any]:
    """The configuration with one model in both roles, so that its words suit it whichever it plays."""
    given = {"profile": profile, "planner": agent, "critic": agent, "prompts": prompts}
    chosen, _ = split_choices(given)
    config, pack = resolve(chosen)
    return config, pack, chosen
