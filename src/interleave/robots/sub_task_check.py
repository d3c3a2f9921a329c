"""The camera's images before and after a sub-task → done or not, and what the robot has to do now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from interleave import Critic, ImagePart, Outcome, ReplyError, Verdict, VisionLanguageModel
from interleave.plugin import PromptPack, agents, ask, critic_input, read_verdict

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class SubTaskInput:
    """Everything that is known of a sub-task which a robot has tried."""

    instruction: str
    before: Image
    after: Image


class SubTaskCheck(Protocol):
    """Says whether a sub-task is done. The refined prompt of a rejection is what the robot has to do now."""

    async def check(self, seen: SubTaskInput) -> Verdict: ...


class VlmSubTaskCheck:
    """A check that prompts a vision-language model."""

    def __init__(self, vlm: VisionLanguageModel, pack: PromptPack) -> None:
        self.vlm = vlm
        self.pack = pack

    async def check(self, seen: SubTaskInput) -> Verdict:
        """The verdict; a reply that stays unreadable is an outcome of its own, never "not done"."""
        messages = self.pack.messages(
            "robot_check",
            {
                "instruction": seen.instruction,
                "before": (ImagePart(seen.before),),
                "after": (ImagePart(seen.after),),
            },
        )
        sampling = agents.critic_sampling(self.vlm.capabilities.token_probabilities)
        try:
            return await ask(self.vlm, messages, read_verdict, sampling=sampling, pack=self.pack)
        except ReplyError as error:
            return Verdict(outcome=Outcome.UNREADABLE, reasoning=str(error))


def as_check(agent: Any) -> SubTaskCheck:
    """An object that checks by itself, or any critic."""
    check: SubTaskCheck = agent if hasattr(agent, "check") else CriticAsCheck(agent)
    return check


class CriticAsCheck:
    """Any critic as a check: the image after is judged as if it had been drawn from the one before."""

    def __init__(self, critic: Critic) -> None:
        self.critic = critic

    async def check(self, seen: SubTaskInput) -> Verdict:
        said = seen.instruction
        return await self.critic.judge(critic_input(said, said, (seen.before,), seen.after))
