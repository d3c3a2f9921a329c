"""Audits of a finished document: images that contradict the plan or each other."""

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
"""Offset of the attempt numbers under which audits are journalled, above those of images; plus the round."""


@dataclass(frozen=True)
class FinishedStep:
    """A step of the document for an auditor."""

    step: PlanStep
    image: Image
    prompt: str
    """Prompt that generated the image."""


@dataclass(frozen=True)
class Document:
    """All finished images in order, and the assets."""

    steps: tuple[FinishedStep, ...]
    assets: tuple[Asset, ...] = ()
    round: int = 1


@runtime_checkable
class Auditor(Protocol):
    """Finds the steps of a document that contradict the others."""

    async def audit(self, document: Document) -> tuple[Finding, ...]: ...


class CriticAsAuditor:
    """A critic that audits image by image, each against the description of its whole scene.

    Steps without such a description are skipped, because the critic has judged them before.
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
    """An auditor that prompts a vision-language model with the whole document."""

    def __init__(self, vlm: VisionLanguageModel, pack: PromptPack) -> None:
        self.vlm = vlm
        self.pack = pack

    async def audit(self, document: Document) -> tuple[Finding, ...]:
        """Return the findings. An unreadable reply gives none: no step is redrawn without a reason."""
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
    """Return the document as parts of a message: the assets, then every step with its image."""
    parts: list[Part] = []
    for asset in document.assets:
        parts.append(Text(f"Must stay the same: {asset.name}. {asset.description}".strip() + "\n"))
    for each in document.steps:
        said = each.step.scene or each.step.text or each.prompt
        parts += [Text(f"Step {each.step.number}: {said}\n"), ImagePart(each.image), Text("\n")]
    return parts
