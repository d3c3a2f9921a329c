"""The last look at the whole: which finished images contradict the plan or each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from interleave.agents.critic import Critic, critic_input
from interleave.agents.prompts import PromptPack, ask
from interleave.agents.replies import FINDINGS_SCHEMA, parse_findings
from interleave.backends.protocols import Reply, Sampling, VisionLanguageModel
from interleave.errors import ReplyError
from interleave.types import Asset, Finding, ImagePart, Outcome, Part, PlanStep, Slot, Text

if TYPE_CHECKING:
    from PIL.Image import Image

AUDIT_ATTEMPTS = 1_000_000
"""Verdicts of audits are journalled under numbers of attempts that no drawing has: this, plus the round."""


@dataclass(frozen=True)
class FinishedStep:
    """A step of the document as an auditor sees it."""

    step: PlanStep
    image: Image
    prompt: str
    """The prompt that made the image."""


@dataclass(frozen=True)
class Document:
    """All finished images, in order, and the things that must stay the same."""

    steps: tuple[FinishedStep, ...]
    assets: tuple[Asset, ...] = ()
    round: int = 1


@runtime_checkable
class Auditor(Protocol):
    """Looks at a whole document and names the steps that contradict it."""

    async def audit(self, document: Document) -> tuple[Finding, ...]: ...


class CriticAsAuditor:
    """A critic that audits image by image: each is judged by the description of its whole scene.

    A step without such a description is left out: the critic saw it when it was drawn.
    """

    def __init__(self, critic: Critic) -> None:
        self.critic = critic

    async def audit(self, document: Document) -> tuple[Finding, ...]:
        findings = []
        for each in document.steps:
            scene = each.step.scene
            if scene is None:
                continue
            slot = Slot(each.step.number, AUDIT_ATTEMPTS + document.round)
            verdict = await self.critic.judge(critic_input(scene, scene, (), each.image, slot))
            if verdict.outcome is Outcome.REJECTED:
                findings.append(Finding(step=each.step.number, reasoning=verdict.reasoning))
        return tuple(findings)


class VlmAuditor:
    """An auditor that shows a vision-language model the whole document at once."""

    def __init__(self, vlm: VisionLanguageModel, pack: PromptPack) -> None:
        self.vlm = vlm
        self.pack = pack

    async def audit(self, document: Document) -> tuple[Finding, ...]:
        """The findings; none where the reply stays unreadable, since nothing is redone without a reason."""
        numbers = {each.step.number for each in document.steps}

        def read(reply: Reply) -> tuple[Finding, ...]:
            findings = parse_findings(reply)
            if unknown := {each.step for each in findings} - numbers:
                raise ReplyError(f"there is no step {min(unknown)} in the document", reply=reply.text)
            return findings

        slot = Slot(document.steps[0].step.number, AUDIT_ATTEMPTS + document.round)
        messages = self.pack.messages("auditor", {"document": tuple(document_parts(document))})
        try:
            return await ask(
                self.vlm, messages, read, sampling=Sampling(schema=FINDINGS_SCHEMA, slot=slot), pack=self.pack
            )
        except ReplyError:
            return ()


def document_parts(document: Document) -> list[Part]:
    """The document as a model sees it: the assets, then every step with its image."""
    parts: list[Part] = []
    for asset in document.assets:
        parts.append(Text(f"Must stay the same: {asset.name}. {asset.description}".strip() + "\n"))
    for each in document.steps:
        said = each.step.scene or each.step.text or each.prompt
        parts += [Text(f"Step {each.step.number}: {said}\n"), ImagePart(each.image), Text("\n")]
    return parts
