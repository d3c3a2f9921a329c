"""A book from a Markdown file: one page for each sentence, planned by chapter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from interleave import InputError, Plan, PlanStep, ReplyError, plan
from interleave.books.texts import markdown_story

Planner = Callable[[str], Plan]


def read_story(path: Path) -> tuple[str, list[list[str]]]:
    """Return the title and the sentences of a story by chapter."""
    title, chapters = markdown_story(path)
    if not chapters:
        raise InputError(f"{path} has no sentence: write one for each page, each in its own line")
    return title or path.stem.replace("-", " ").replace("_", " ").capitalize(), chapters


def plan_story(chapters: list[list[str]], **choices: Any) -> Plan:
    """Return a plan with one step for each sentence, whose caption is the sentence.

    Each chapter begins with an image of its own. One that the planner cannot plan at once is divided.
    """

    def planner(text: str) -> Plan:
        return plan(text, **choices)

    made = [each for chapter in chapters for each in _planned(planner, chapter)]
    return _joined(made, [sentence for chapter in chapters for sentence in chapter])


def _planned(planner: Planner, sentences: list[str]) -> list[Plan]:
    """Return plans of these sentences, in as few parts as the planner can make by halving."""
    try:
        made = planner("\n".join(sentences))
    except (InputError, ReplyError) as error:
        if len(sentences) == 1:
            raise InputError(f"{sentences[0]!r} cannot be planned: {error}") from None
    else:
        if len(made.steps) == len(sentences):
            return [made]
        if len(sentences) == 1:
            return [_first_image(made)]
    half = len(sentences) // 2
    return [*_planned(planner, sentences[:half]), *_planned(planner, sentences[half:])]


def _first_image(made: Plan) -> Plan:
    """Return a plan with the one step that a sentence needs: its first image, which shows the whole scene."""
    first = next((step for step in made.steps if step.prompt is not None), made.steps[0])
    return made.model_copy(update={"steps": (first,)})


def _joined(chapters: list[Plan], sentences: list[str]) -> Plan:
    """Return one plan of all chapters, with the sentences as captions."""
    steps: list[PlanStep] = []
    words = iter(sentences)
    for chapter in chapters:
        offset = len(steps) + 1 - chapter.steps[0].number
        for place, step in enumerate(chapter.steps):
            changes: dict[str, Any] = {"number": len(steps) + 1, "caption": next(words), "name": None}
            if step.sources is not None:
                changes["sources"] = tuple(number + offset for number in step.sources)
            if step.needs is not None:
                changes["needs"] = tuple(number + offset for number in step.needs)
            if place == 0 and steps:
                changes["sources"] = ()  # a chapter begins with an image of its own
            steps.append(step.model_copy(update=changes))
    assets = {asset.name.lower(): asset for chapter in chapters for asset in chapter.assets}
    return Plan(
        steps=tuple(steps), assets=tuple(each.model_copy(update={"step": None}) for each in assets.values())
    )
