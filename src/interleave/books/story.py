"""A book from a Markdown file: one page for each sentence, planned in one piece or in chapters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from interleave import Asked, InputError, Plan, PlanStep, UnknownWords, plan
from interleave.books.texts import markdown_story

Planner = Callable[[str], Plan]
LONGEST_CHAPTER = 8
"""Sentences to plan together, if the planner cannot plan all of them."""


def read_story(path: Path) -> tuple[str, list[str]]:
    """Return the title and the sentences of a story."""
    title, sentences = markdown_story(path)
    if not sentences:
        raise InputError(f"{path} has no sentence: write one for each page, each in its own line")
    return title or path.stem.replace("-", " ").replace("_", " ").capitalize(), sentences


def plan_story(sentences: list[str], **choices: Any) -> Plan:
    """Return a plan with one step for each sentence, whose caption is the sentence.

    A planner that cannot plan all of them at once plans chapters; each begins with an image of its own.
    """

    def planner(text: str) -> Plan:
        return plan(text, **choices)

    chapters = [_planned(planner, sentences)] if len(sentences) > LONGEST_CHAPTER else [None]
    if chapters[0] is None:
        pieces = range(0, len(sentences), LONGEST_CHAPTER)
        parts = [sentences[start : start + LONGEST_CHAPTER] for start in pieces]
        chapters = [chapter for part in parts for chapter in _divided(planner, part)]
    return _joined([chapter for chapter in chapters if chapter], sentences)


def _planned(planner: Planner, sentences: list[str]) -> Plan | None:
    """Return the plan of these sentences; `None` if the planner cannot make one with a step for each."""
    try:
        made = planner("\n".join(sentences))
    except (Asked, UnknownWords, InputError):
        return None
    return made if len(made.steps) == len(sentences) else None


def _divided(planner: Planner, sentences: list[str]) -> list[Plan]:
    """Return plans of these sentences in as few chapters as the planner can make by halving."""
    made = _planned(planner, sentences)
    if made is not None:
        return [made]
    if len(sentences) > 1:
        half = len(sentences) // 2
        return [*_divided(planner, sentences[:half]), *_divided(planner, sentences[half:])]
    made = planner(sentences[0])  # raises what the planner says about this sentence
    return [made.model_copy(update={"steps": made.steps[-1:]})] if len(made.steps) == 1 else [_merged(made)]


def _merged(made: Plan) -> Plan:
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
