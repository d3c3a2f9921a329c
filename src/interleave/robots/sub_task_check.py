"""Check a sub-task by camera images before and after it; a failed check has the next instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from interleave import Critic, ImagePart, Outcome, ReplyError, Verdict, VisionLanguageModel
from interleave.plugin import PromptPack, agents, ask, critic_input, read_verdict

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class SubTaskInput:
    """A sub-task that a robot has tried, and the camera images before and after it."""

    instruction: str
    before: Image
    after: Image


class SubTaskCheck(Protocol):
    """A check whether a sub-task is done. A rejection's refined prompt is the robot's next instruction."""

    async def check(self, seen: SubTaskInput) -> Verdict: ...


class VlmSubTaskCheck:
    """A check that prompts a vision-language model."""

    def __init__(self, vlm: VisionLanguageModel, pack: PromptPack) -> None:
        self.vlm = vlm
        self.pack = pack

    async def check(self, seen: SubTaskInput) -> Verdict:
        """Return the verdict; an unreadable reply is a separate outcome, never "not done"."""
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
    """Return `agent` if it has a `check` method, else wrap it as a critic."""
    check: SubTaskCheck = agent if hasattr(agent, "check") else CriticAsCheck(agent)
    return check


class CriticAsCheck:
    """A critic as a check: it judges the image after as if it were generated from the image before."""

    def __init__(self, critic: Critic) -> None:
        self.critic = critic

    async def check(self, seen: SubTaskInput) -> Verdict:
        said = seen.instruction
        return await self.critic.judge(critic_input(said, said, (seen.before,), seen.after))
