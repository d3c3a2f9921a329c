"""A row before it takes the form of any trainer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from interleave.backends.protocols import Message
from interleave.data.export.images import Exhibit
from interleave.data.export.splitting import TRAIN
from interleave.types import Picture

Kind = Literal["planner_sft", "critic_sft", "critic_rl", "agent_sft"]
PLANNER_SFT: Kind = "planner_sft"
CRITIC_SFT: Kind = "critic_sft"
CRITIC_RL: Kind = "critic_rl"
AGENT_SFT: Kind = "agent_sft"
"""One agent that does both jobs: the rows of `planner_sft` and `critic_sft` together."""
KINDS = (PLANNER_SFT, CRITIC_SFT, CRITIC_RL, AGENT_SFT)
SFT_KINDS = (PLANNER_SFT, CRITIC_SFT, AGENT_SFT)


@dataclass(frozen=True)
class Baseline:
    """What a reward must know of an attempt: where a redraw starts, and what it has to beat."""

    planned_prompt: str
    used_prompt: str
    """The prompt that drew the picture the critic sees."""
    before: Exhibit
    after: Exhibit
    sources: tuple[Exhibit, ...]
    """What the step was drawn from; none means text-to-image."""
    success: bool
    semantics: float
    quality: float


@dataclass(frozen=True)
class Row:
    """One example: what a model is shown, and what it should answer or has to beat."""

    id: str
    kind: Kind
    prompt: tuple[Message, ...]
    pictures: tuple[Exhibit, ...]
    """One for each picture of the prompt, in its order."""
    completion: str | None = None
    baseline: Baseline | None = None
    split: str = TRAIN

    def __post_init__(self) -> None:
        slots = sum(isinstance(part, Picture) for message in self.prompt for part in message.parts)
        if slots != len(self.pictures):
            raise ValueError(f"{self.id}: {slots} places for pictures, and {len(self.pictures)} pictures")
