"""Trials of real models: small tasks whose right results are known without a judge.

The contract says whether a backend can be used at all. A trial says how well it does its work: whether a
planner writes the steps that were asked for, whether a critic tells right images from wrong ones, whether a
generator changes what it should and keeps the rest, and whether a native system writes text and images.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from PIL import Image, ImageDraw

from interleave import (
    DocumentModel,
    ImagePart,
    ImageRequest,
    InterleaveError,
    Outcome,
    Request,
    Slot,
    Text,
)
from interleave.diagnostics.budget import Budget, OutOfBudget
from interleave.plugin import agents, critic_input, drift, load_pack

SIDE = 512
RED, GREEN, BLUE = "#d22020", "#20a040", "#2040d2"


@dataclass
class Trial:
    """One task and what came of it."""

    name: str
    status: str = "held"
    """`held`, `failed` or `not tried`."""
    reason: str = ""
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)
    images: list[Image.Image] = field(default_factory=list)


Task = Callable[[Trial], Awaitable[None]]


def scene(circle: str | None = None, *, square: str | None = None) -> Image.Image:
    """Draw a circle on the left and a square on the right of a white image."""
    image = Image.new("RGB", (SIDE, SIDE), "white")
    draw = ImageDraw.Draw(image)
    if circle:
        draw.ellipse((60, 180, 220, 340), fill=circle)
    if square:
        draw.rectangle((300, 180, 460, 340), fill=square)
    return image


async def try_model(role: str, backend: Any, budget: Budget) -> AsyncIterator[Trial]:
    """Do the tasks of a role with a model and yield each result."""
    tasks = TASKS["document" if isinstance(backend, DocumentModel) else role](backend, budget)
    for name, task in tasks.items():
        trial = Trial(name)
        began = time.monotonic()
        try:
            async with asyncio.timeout(max(1.0, budget.max_seconds - budget.seconds)):
                await task(trial)
        except OutOfBudget as limit:
            trial.status, trial.reason = "not tried", str(limit)
        except TimeoutError:
            trial.status, trial.reason = "failed", "no answer before the time limit"
        except InterleaveError as error:
            trial.status, trial.reason = "failed", str(error)
        trial.seconds = round(time.monotonic() - began, 2)
        yield trial


def _expect(trial: Trial, met: bool, otherwise: str) -> None:
    if not met and trial.status == "held":
        trial.status, trial.reason = "failed", otherwise


# planners

PLANS: dict[str, tuple[Request, int | None]] = {
    "a story in three images": (Request.of("How a frog grows up, in three pictures"), 3),
    "instructions in four images": (Request.of("How to fold a paper boat, in four pictures"), 4),
    "an answer without images": (
        Request.of("Why do leaves change colour in autumn? Only text, no pictures."),
        0,
    ),
    "a continuation of an image": (
        Request.of(
            [scene(RED), "Continue this picture in two pictures: add a blue square, then turn it green."]
        ),
        2,
    ),
}
"""Requests, with the number of images that each asks for."""


def _planner_tasks(vlm: Any, budget: Budget) -> dict[str, Task]:
    planner = agents.planner_from(vlm, load_pack(agents.DEFAULT_PACK), max_steps=12).agent

    def task(request: Request, images: int | None) -> Task:
        async def plan(trial: Trial) -> None:
            before = budget.calls
            made = await planner.plan(request)
            drawn = sum(step.prompt is not None for step in made.steps)
            trial.details = {
                "steps": len(made.steps),
                "images": drawn,
                "replies": budget.calls - before,
                "plan": [{"text": step.text, "prompt": step.prompt} for step in made.steps],
            }
            _expect(trial, drawn == images, f"{drawn} images in the plan, {images} were asked for")

        return plan

    return {name: task(*asked) for name, asked in PLANS.items()}


# critics

CIRCLE, BOTH = scene(RED), scene(RED, square=BLUE)
VERDICTS: dict[str, tuple[str, tuple[Image.Image, ...], Image.Image, bool]] = {
    "a right first image": ("a red circle on a white background", (), CIRCLE, True),
    "a wrong first image": ("a red circle on a white background", (), scene(square=BLUE), False),
    "a right edit": ("add a blue square to the right of the circle", (CIRCLE,), BOTH, True),
    "an edit that changed nothing": (
        "add a blue square to the right of the circle",
        (CIRCLE,),
        CIRCLE,
        False,
    ),
    "an edit that lost something": (
        "add a blue square to the right of the circle",
        (CIRCLE,),
        scene(square=BLUE),
        False,
    ),
    "an edit of the wrong thing": ("turn the square green", (BOTH,), scene(GREEN, square=BLUE), False),
    "an edit of the right thing": ("turn the square green", (BOTH,), scene(RED, square=GREEN), True),
}
"""A prompt, the image before, the image after, and whether it is right."""


def _critic_tasks(vlm: Any, budget: Budget) -> dict[str, Task]:
    critic = agents.critic_from(vlm, load_pack(agents.DEFAULT_PACK)).agent

    def task(prompt: str, before: tuple[Image.Image, ...], after: Image.Image, is_right: bool) -> Task:
        async def judge(trial: Trial) -> None:
            verdict = await critic.judge(critic_input(prompt, prompt, before, after, Slot(1, 1)))
            trial.details = {
                "right": is_right,
                "outcome": str(verdict.outcome),
                "confidence": verdict.confidence,
                "reasoning": verdict.reasoning,
                "refined_prompt": verdict.refined_prompt,
            }
            _expect(trial, verdict.outcome is not Outcome.UNREADABLE, "the reply could not be read")
            said = "accepted" if verdict.accepted else "rejected"
            _expect(
                trial,
                verdict.accepted == is_right,
                f"{said}, and the image is {'right' if is_right else 'wrong'}",
            )
            needs_prompt = verdict.outcome is Outcome.REJECTED
            _expect(
                trial, not needs_prompt or bool(verdict.refined_prompt), "rejected without a better prompt"
            )

        return judge

    return {name: task(*asked) for name, asked in VERDICTS.items()}


# generators

EDITS = {
    "a first image": "a red circle on a white background",
    "an edit": "add a blue square to the right of the circle and keep everything else",
    "an edit of the edit": "turn the blue square green and keep everything else",
}
NOTHING_CHANGED = 0.001


def _generator_tasks(generator: Any, budget: Budget) -> dict[str, Task]:
    made: list[Image.Image] = [] if generator.capabilities.text_to_image else [CIRCLE]

    def task(seed: int, prompt: str) -> Task:
        async def generate(trial: Trial) -> None:
            sources = tuple(made[-1:]) if generator.capabilities.max_sources else ()
            image = await generator.generate(ImageRequest(prompt, seed, sources, Slot(seed)))
            trial.details = {"size": list(image.size), "sources": len(sources)}
            trial.images = [image]
            if sources:
                moved = drift.step_drift(sources[-1], image, None, {}, None)
                trial.details |= {"changed": moved.changed, "likeness": moved.likeness}
                _expect(trial, (moved.changed or 0) > NOTHING_CHANGED, "the edit changed nothing")
            made.append(image)

        return generate

    return {name: task(seed, prompt) for seed, (name, prompt) in enumerate(EDITS.items(), start=1)}


# native systems


def _document_tasks(model: Any, budget: Budget) -> dict[str, Task]:
    def task(request: Request, wanted: int | None) -> Task:
        async def write(trial: Trial) -> None:
            events = [event async for event in model.write(request)]
            texts = [event.text for event in events if isinstance(event, Text)]
            trial.images = [event.image for event in events if isinstance(event, ImagePart)]
            trial.details = {
                "images": len(trial.images),
                "sizes": [list(image.size) for image in trial.images],
                "texts": texts,
            }
            _expect(trial, any(text.strip() for text in texts), "the document has no text")
            found = len(trial.images)
            _expect(trial, found == wanted, f"{found} images, {wanted} were asked for")

        return write

    return {name: task(*asked) for name, asked in PLANS.items()}


TASKS: dict[str, Callable[[Any, Budget], dict[str, Task]]] = {
    "planner": _planner_tasks,
    "critic": _critic_tasks,
    "generator": _generator_tasks,
    "document": _document_tasks,
    "scorer": lambda backend, budget: {},
}
