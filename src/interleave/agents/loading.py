"""Planners, critics and scorers from backends, which are either prompted or compute their answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from interleave.agents.auditor import Auditor, CriticAsAuditor, VlmAuditor
from interleave.agents.critic import Critic, Scorer, VlmCritic, VlmScorer
from interleave.agents.documents import DocumentPlanner
from interleave.agents.planner import ChapterPlanner, Planner, VlmChapterPlanner, VlmPlanner
from interleave.agents.prompts import PromptPack
from interleave.backends.protocols import DocumentModel, VisionLanguageModel
from interleave.backends.registry import is_agent
from interleave.config.specs import Spec
from interleave.errors import ConfigurationError

A = TypeVar("A")
METHODS = {"planner": "plan", "critic": "judge", "scorer": "score"}


@dataclass(frozen=True)
class LoadedAgent(Generic[A]):
    """A planner, critic or scorer, and the model that it prompts, if any."""

    agent: A
    vlm: VisionLanguageModel | None = None
    """`None` for an agent that computes its answers. It is free and has no concurrency limit."""
    build: Callable[[VisionLanguageModel], A] | None = None
    """Function that builds the same agent with another model."""

    def with_calls_through(self, wrap: Callable[[VisionLanguageModel], VisionLanguageModel]) -> A:
        """Return the agent with its model wrapped, to journal or retry calls; unchanged without one."""
        return self.agent if self.vlm is None or self.build is None else self.build(wrap(self.vlm))

    def wrapped(self, wrap: Callable[[Any], Any]) -> LoadedAgent[A]:
        """Return a copy with the model wrapped, or the agent itself if it has no model."""
        if isinstance(self.agent, DocumentPlanner):  # more than a plan is read from it
            return self
        if self.vlm is None or self.build is None:
            return replace(self, agent=wrap(self.agent))
        return _prompted(wrap(self.vlm), self.build)

    @property
    def model(self) -> VisionLanguageModel | DocumentModel | None:
        """The model that it calls, if any."""
        return self.agent.model if isinstance(self.agent, DocumentPlanner) else self.vlm

    @property
    def concurrency(self) -> int | None:
        return self.model.capabilities.concurrency if self.model else None

    @property
    def knows_its_price(self) -> bool:
        return self.model is None or self.model.capabilities.knows_its_price

    @property
    def typical_price(self) -> float | None:
        return self.model.capabilities.typical_price if self.model else None


def planner_from(
    backend: Any,
    pack: PromptPack,
    *,
    max_steps: int,
    chapter_steps: int | None = None,
    scenes: bool = False,
) -> LoadedAgent[Planner]:
    """Return a planner from a vision-language model, or from an object that plans without one.

    With `chapter_steps`, it plans in chapters of at most that many steps. With `scenes`, it describes the
    whole scene of every step.
    """
    if chapter_steps is not None:
        return _chapter_planner_from(backend, pack, max_steps, chapter_steps)
    if isinstance(backend, DocumentModel):
        return LoadedAgent(DocumentPlanner(backend))
    check = getattr(backend, "plan_check", None)
    return agent_from(
        backend, lambda vlm: VlmPlanner(vlm, pack, max_steps=max_steps, check=check, scenes=scenes)
    )


def _chapter_planner_from(
    backend: Any, pack: PromptPack, max_steps: int, chapter_steps: int
) -> LoadedAgent[Planner]:
    can = pack.description.chapters if is_prompted(backend) else isinstance(backend, ChapterPlanner)
    if not can:
        raise ConfigurationError(
            f"chapter_steps={chapter_steps}: this planner writes whole plans only. Use a general model as "
            "planner (planner=SPEC), or drop chapter_steps="
        )
    return agent_from(
        backend,
        lambda vlm: VlmChapterPlanner(vlm, pack, max_steps=max_steps, chapter_steps=chapter_steps),
    )


def critic_from(
    backend: Any, pack: PromptPack, *, strict: float | None = None, quick: float | None = None
) -> LoadedAgent[Critic]:
    """Return a critic from a vision-language model, or from an object that judges without one."""
    return agent_from(backend, lambda vlm: VlmCritic(vlm, pack, strict=strict, quick=quick))


def auditor_from(critic: Critic) -> Auditor:
    """Return the auditor of a critic: itself, a model for the whole document, or image by image."""
    if isinstance(critic, Auditor):
        return critic
    if isinstance(critic, VlmCritic) and critic.pack.description.audits == "document":
        return VlmAuditor(critic.vlm, critic.pack)
    return CriticAsAuditor(critic)


def scorer_from(backend: Any, pack: PromptPack) -> LoadedAgent[Scorer]:
    """Return a scorer from a vision-language model, or from an object that scores without one."""
    return agent_from(backend, lambda vlm: VlmScorer(vlm, pack))


def agent_from(backend: Any, build: Callable[[VisionLanguageModel], A]) -> LoadedAgent[A]:
    """Return the agent that `build` makes from a model. An object that computes is used directly."""
    return _prompted(backend, build) if is_prompted(backend) else LoadedAgent(backend)


def _prompted(vlm: VisionLanguageModel, build: Callable[[VisionLanguageModel], A]) -> LoadedAgent[A]:
    return LoadedAgent(build(vlm), vlm, build)


def is_prompted(backend: Spec | object) -> bool:
    """Return whether a backend, or its spec, is a model that needs a prompt pack."""
    if isinstance(backend, Spec):
        return not is_agent(backend)
    return isinstance(backend, VisionLanguageModel)


def refuse_unusable_object(given: object, role: str) -> None:
    """Refuse a Python object that neither implements a role nor can be prompted for it."""
    method = METHODS[role]
    if has_async(given, method) or (has_async(given, "complete") and hasattr(given, "capabilities")):
        return
    if role == "planner" and isinstance(given, DocumentModel) and not isinstance(given, type):
        return
    raise ConfigurationError(
        f"the {role} must be an object with 'async def {method}(…)', or a model with 'capabilities' and "
        f"'async def complete(messages, sampling)'; this is {described(given)}"
    )


def has_async(given: object, method: str) -> bool:
    """Return whether `given` is an object, not a class, with this async method."""
    return not isinstance(given, type) and inspect.iscoroutinefunction(getattr(given, method, None))


def described(given: object) -> str:
    """Describe an object that was passed in place of a model, for an error message."""
    if isinstance(given, type):
        return f"the class {given.__name__}, not an object of it"
    return f"a {type(given).__name__}"
