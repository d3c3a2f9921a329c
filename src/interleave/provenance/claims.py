"""The statements of a manifest: who made a file from what. Prompts are in it only on request, paths never.

A manifest is the JSON that c2pa takes: actions, further assertions, and ingredients by their ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from interleave import __version__
from interleave.provenance.origins import Origin

SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/"
AI_IMAGE = f"{SOURCE_TYPE}trainedAlgorithmicMedia"
AI_DOCUMENT = f"{SOURCE_TYPE}compositeWithTrainedAlgorithmicMedia"
PROGRAM_IMAGE = f"{SOURCE_TYPE}algorithmicMedia"
FAKES = {"solid"}
"""Generators that are no trained models."""
ORIGINAL, CHANGED_ORIGINAL = "original", "changed-original"
"""Ids of the ingredient that is the file of a generator: its pixels kept, or changed by drift control."""
RUN_LABEL = "interleavethinker.run"
"""Label of our own assertion: step, attempt, prompt and journal."""
SOFTWARE = "InterleaveThinker"
Relationship = Literal["parentOf", "componentOf", "inputTo"]


@dataclass(frozen=True)
class Ingredient:
    """A file that another one was made from. Its credentials are continued, if it has some."""

    id: str
    title: str
    relationship: Relationship
    media_type: str
    data: bytes

    @property
    def stated(self) -> dict[str, str]:
        return {"title": self.title, "relationship": self.relationship, "label": self.id}


@dataclass(frozen=True)
class Statements:
    """What a manifest says."""

    title: str
    media_type: str
    actions: tuple[dict[str, Any], ...]
    run: dict[str, Any]
    ingredients: tuple[Ingredient, ...] = ()

    def manifest(self) -> dict[str, Any]:
        assertions = [{"label": "c2pa.actions.v2", "data": {"actions": list(self.actions)}}]
        if self.run:
            assertions.append({"label": RUN_LABEL, "data": self.run})
        return {
            "claim_generator_info": [{"name": SOFTWARE, "version": __version__}],
            "title": self.title,
            "format": self.media_type,
            "assertions": assertions,
        }


def image_statements(
    origin: Origin,
    media_type: str,
    ingredients: Sequence[Ingredient],
    *,
    prompts: str = "no",
    journal: dict[str, Any] | None = None,
) -> Statements:
    """Return the statements of an image. Its parent, if any, is the first ingredient."""
    run: dict[str, Any] = {} if origin.is_given else {"step": origin.step, "attempt": origin.attempt}
    if origin.prompt and prompts == "text":
        run["prompt"] = origin.prompt
    elif origin.prompt and prompts == "hash":
        run["prompt_sha256"] = hashlib.sha256(origin.prompt.encode()).hexdigest()
    title = "Image given by the user" if origin.is_given else f"Image of step {origin.step}"
    if journal and not origin.is_given:
        run["journal"] = journal
    return Statements(title, media_type, _image_actions(origin, ingredients), run, tuple(ingredients))


def _image_actions(origin: Origin, ingredients: Sequence[Ingredient]) -> tuple[dict[str, Any], ...]:
    parents = [each.id for each in ingredients if each.relationship == "parentOf"]
    inputs = [each.id for each in ingredients if each.relationship == "inputTo"]
    opened: dict[str, Any] = {"action": "c2pa.opened", "parameters": {"ingredientIds": parents}}
    if origin.is_given:
        return (opened,)
    kind = PROGRAM_IMAGE if origin.model in FAKES else AI_IMAGE
    made: dict[str, Any] = {
        "action": "c2pa.edited" if parents else "c2pa.created",
        "digitalSourceType": kind,
        "softwareAgent": {"name": origin.model},
    }
    if original := {ORIGINAL, CHANGED_ORIGINAL}.intersection(parents):
        opened["digitalSourceType"] = kind
        action = "c2pa.transcoded" if ORIGINAL in original else "c2pa.edited"
        made = {"action": action, "softwareAgent": {"name": SOFTWARE}}
    if inputs:
        made["parameters"] = {"ingredientIds": inputs}
    return (opened, made) if parents else (made,)


def document_statements(
    media_type: str, ingredients: Sequence[Ingredient], *, planner: str, journal: dict[str, Any]
) -> Statements:
    """Return the statements of a document with its images as components."""
    made = {"action": "c2pa.created", "digitalSourceType": AI_DOCUMENT, "softwareAgent": {"name": SOFTWARE}}
    placed = {"action": "c2pa.placed", "parameters": {"ingredientIds": [each.id for each in ingredients]}}
    run = {"planner": planner, "journal": journal}
    actions = (made, placed) if ingredients else (made,)
    return Statements("Document", media_type, actions, run, tuple(ingredients))
