"""Values of the pipeline. This module does no work and imports no model library.

Values parsed from outside (a model's reply, a file, HTTP, a profile) are pydantic `Value`s. Values that stay
in the process and may hold an image are frozen dataclasses.
"""

from __future__ import annotations

import json
import math
import operator
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticSerializationError

from interleave.errors import InputError
from interleave.text import MAX_FIELD_CHARACTERS, MAX_REQUEST_CHARACTERS, storable_in, unusable

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_REQUEST_IMAGES = 32
MAX_REQUEST_ASSETS = 32
_ASSET_NAME = re.compile(r"[^\W_][\w '.-]{0,59}\Z")


WRITTEN_IF_GIVEN: Any = Field(default=None, exclude_if=lambda value: value is None)
"""Field added later. Omitted if `None`, so that earlier versions can read the value."""


class Value(BaseModel):
    """A frozen record that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        """Return the record as JSON. Invalid Unicode is escaped, because one line must not stop a batch."""
        try:
            return super().model_dump_json(indent=indent, **options)
        except PydanticSerializationError:
            values = storable_in(self.model_dump(mode="json", **options))
            separators = None if indent else (",", ":")
            return json.dumps(values, ensure_ascii=False, indent=indent, separators=separators)


def _storable(text: str) -> str:
    if problem := unusable(text):
        raise ValueError(f"unusable text: {problem}")
    return text


Prose = Annotated[str, StringConstraints(max_length=MAX_FIELD_CHARACTERS), AfterValidator(_storable)]
"""Text written by a person or a model, of bounded length and valid Unicode."""
Title = Annotated[str, StringConstraints(max_length=120), AfterValidator(_storable)]
Heading = Annotated[str, StringConstraints(max_length=200), AfterValidator(_storable)]
Fraction = Annotated[float, Field(ge=0, le=1)]
AltText = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_storable)]
"""Title of a document, heading of a step, and alternative text of an image, as a person writes them."""


@dataclass(frozen=True)
class Text:
    """A text part of a request or message. `<image>` has no special meaning in it."""

    text: str


@dataclass(frozen=True)
class ImagePart:
    """An image part of a request or message."""

    image: Image


Part = Text | ImagePart


AssetName = Annotated[str, StringConstraints(pattern=r"^[^\W_][\w '.-]{0,59}$")]
"""Name of an asset: one or a few words, as used in prompts."""


AssetKind = Literal["character", "prop", "place", "style"]


def is_asset_name(name: str) -> bool:
    return _ASSET_NAME.match(name) is not None


@dataclass(frozen=True)
class GivenAsset:
    """A named thing that must look the same in all images, given by the user as an image or a description."""

    name: str
    image: Image | None = None
    kind: AssetKind = "character"
    description: str = ""

    def __post_init__(self) -> None:
        if not is_asset_name(self.name):
            raise InputError(
                f"{self.name!r:.80} is not a valid asset name: use one or a few words, as in prompts"
            )
        if self.kind not in get_args(AssetKind):
            raise InputError(f"the kind of {self.name!r} must be one of {', '.join(get_args(AssetKind))}")
        if len(self.description) > MAX_FIELD_CHARACTERS:
            raise InputError(
                f"the description of {self.name!r} is longer than {MAX_FIELD_CHARACTERS:,} characters"
            )
        if problem := unusable(self.description):
            raise InputError(f"the description of {self.name!r} cannot be used: {problem}")
        if self.image is None and not self.description.strip():
            raise InputError(f"the asset {self.name!r} has neither an image nor a description: add one")


@dataclass(frozen=True)
class Reading:
    """A request as its planner reads it, if that differs from what the user wrote."""

    parts: tuple[Part, ...]
    captions: tuple[str, ...] = ()
    """The user's own sentences, one for each step. Empty if the planner writes the captions."""
    notes: tuple[str, ...] = ()
    """Notes for readers: exchanged, corrected and omitted words."""

    def applied_to(self, plan: Plan) -> Plan:
        """Return the plan with these notes and, if it has a step for each, these captions."""
        steps = plan.steps
        if len(self.captions) == len(steps):
            pairs = zip(steps, self.captions, strict=True)
            steps = tuple(step.model_copy(update={"caption": caption}) for step, caption in pairs)
        return plan.model_copy(update={"steps": steps, "notes": self.notes})


@dataclass(frozen=True)
class Request:
    """A user's request: text and images, in order."""

    parts: tuple[Part, ...]
    assets: tuple[GivenAsset, ...] = ()
    """Named things that must look the same in all images. No step edits them."""
    reading: Reading | None = None
    """The request as its planner reads it. `None`: as written."""

    def __post_init__(self) -> None:
        if not any(isinstance(part, ImagePart) or part.text.strip() for part in self.parts):
            raise InputError(
                "the request is empty: describe what to draw, e.g. 'show step by step how a frog grows up'"
            )
        if len(self.text) > MAX_REQUEST_CHARACTERS:
            raise InputError(
                f"the request has {len(self.text):,} characters, more than the {MAX_REQUEST_CHARACTERS:,} "
                "allowed: shorten it"
            )
        if problem := unusable(self.text):
            raise InputError(f"the request cannot be used: {problem}")
        if (images := len(self.all_images)) > MAX_REQUEST_IMAGES:
            raise InputError(
                f"the request has {images} images, more than the {MAX_REQUEST_IMAGES} allowed: send fewer"
            )
        if len(self.assets) > MAX_REQUEST_ASSETS:
            raise InputError(
                f"the request has {len(self.assets)} assets, more than the {MAX_REQUEST_ASSETS} allowed"
            )
        names = [asset.name.lower() for asset in self.assets]
        for asset in self.assets:
            if names.count(asset.name.lower()) > 1:
                raise InputError(f"two assets are named {asset.name!r}: rename one")

    @classmethod
    def of(cls, request: str | Path | Request | Iterable[str | Path | Image | Part]) -> Request:
        """Return a request from text, or from texts and images (or paths of images) in order."""
        if isinstance(request, Request):
            return request
        if isinstance(request, str | Path):
            request = [request]
        if not isinstance(request, Iterable) or isinstance(request, Mapping | bytes):
            raise InputError(f"a request is text, or text and images in order, not {type(request).__name__}")
        return cls(tuple(_as_part(item) for item in request))

    @property
    def text(self) -> str:
        """Text of the request, one line per part."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def as_read(self) -> Request:
        """The request with the parts that its planner reads."""
        return replace(self, parts=self.reading.parts) if self.reading else self

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(part.image for part in self.parts if isinstance(part, ImagePart))

    @property
    def pictures(self) -> tuple[Image, ...]:
        """Old name of `images`, removed in 1.0."""
        warnings.warn("Request.pictures is now Request.images", DeprecationWarning, stacklevel=2)
        return self.images

    @property
    def all_images(self) -> tuple[Image, ...]:
        """Images of the request and of its assets."""
        return (*self.images, *(asset.image for asset in self.assets if asset.image is not None))


def _as_part(item: str | Path | Image | Part) -> Part:
    from PIL.Image import Image

    from interleave.images import as_rgb, read_image

    if isinstance(item, Text | ImagePart):
        return item
    if isinstance(item, str):
        return Text(item)
    if isinstance(item, Path):
        return ImagePart(read_image(item))
    if isinstance(item, Image):
        return ImagePart(item if item.mode == "RGB" else as_rgb(item))
    raise InputError(f"a part of a request is text, an image or the path of one, not {type(item).__name__}")


class Asset(Value):
    """A named thing that must look the same in all steps of a document."""

    name: AssetName
    kind: AssetKind = "character"
    description: Prose = ""
    """Description that is added to every prompt with the asset."""
    step: int | None = Field(default=None, ge=1)
    """Step whose image is the reference. `None`: the user's image, if there is one."""


class Lettering(Value):
    """Words set upon an image by the program, letter by letter. They are no part of the prompt."""

    kind: Literal["caption", "speech", "label"]
    text: Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_storable)]
    target: Annotated[str, StringConstraints(max_length=120), AfterValidator(_storable)] = ""
    """Who speaks, or the thing that is labelled, in the words of the prompt."""
    at: tuple[Fraction, Fraction] | None = None
    """Its point in the image, as fractions of width and height from the top left."""


class PlanStep(Value):
    """One step of the answer: text, and one image unless `prompt` is `None`."""

    number: int = Field(ge=1, le=1_000_000)
    name: Prose | None = None
    instruction: Prose | None = None
    """Description of the step for a person."""
    prompt: Prose | None = None
    """Prompt for the generator. `None` for a text-only step."""
    caption: Prose | None = None
    """Text shown with the image. For a text-only step, its whole text."""
    sources: tuple[int, ...] | None = None
    """Earlier steps whose images this one starts from. `None`: use the run's rule."""
    assets: tuple[AssetName, ...] | None = WRITTEN_IF_GIVEN
    """Assets in the image. `None`: those that its texts name."""
    scene: Prose | None = WRITTEN_IF_GIVEN
    """Description of the whole image, to draw it without the previous image."""
    lettering: tuple[Lettering, ...] | None = WRITTEN_IF_GIVEN
    """Words to set upon its image."""
    needs: tuple[int, ...] | None = WRITTEN_IF_GIVEN
    """Earlier steps that this one depends on. It starts from the image of the last of them, or from the
    user's image if empty. `None`: the previous step."""

    @property
    def text(self) -> str:
        """Text of the step for readers."""
        return self.caption or self.instruction or self.name or ""

    @model_validator(mode="after")
    def a_step_says_something(self) -> PlanStep:
        if self.prompt is not None and not self.prompt.strip():
            raise ValueError(
                f"step {self.number} has a blank prompt: write one, or null for a step of text only"
            )
        if self.prompt is None and not self.text.strip():
            raise ValueError(f"step {self.number} has neither a prompt nor any text")
        return self


class Chapter(Value):
    """Progress of a plan that is written in chapters."""

    number: int = Field(ge=1)
    """Number of the last planned chapter."""
    first: int = Field(default=1, ge=1)
    """Number of its first step."""
    summary: Prose = ""
    """Summary up to its end, for planning the next chapter."""
    is_last: bool = False
    """Whether the document ends with this chapter."""


class Plan(Value):
    """Plan of the whole answer, or of its chapters so far."""

    steps: tuple[PlanStep, ...] = Field(min_length=1)
    reasoning: Annotated[str, AfterValidator(_storable)] = ""
    """Reasoning in the planner's reply."""
    assets: tuple[Asset, ...] = Field(default=(), exclude_if=operator.not_)
    chapter: Chapter | None = WRITTEN_IF_GIVEN
    """Last planned chapter, if the plan is written in chapters."""
    notes: tuple[Prose, ...] = Field(default=(), exclude_if=operator.not_)
    """Notes for readers about words of the request that were exchanged, corrected or left out."""

    @property
    def is_unfinished(self) -> bool:
        """Whether another chapter must be planned."""
        return self.chapter is not None and not self.chapter.is_last

    def continued(self, steps: tuple[PlanStep, ...], assets: tuple[Asset, ...], chapter: Chapter) -> Plan:
        """Return the plan with another chapter. `assets` are all assets so far."""
        more = {"steps": (*self.steps, *steps), "assets": assets, "chapter": chapter}
        return Plan.model_validate({**dict(self), **more})

    @model_validator(mode="after")
    def assets_are_known(self) -> Plan:
        names = [asset.name.lower() for asset in self.assets]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two assets are named {twice!r}")
        drawn = {step.number for step in self.steps if step.prompt is not None}
        for asset in self.assets:
            if asset.step is not None and asset.step not in drawn:
                raise ValueError(
                    f"the asset {asset.name!r} is taken from step {asset.step}, which has no image"
                )
        return self

    @model_validator(mode="after")
    def steps_follow_each_other(self) -> Plan:
        first = self.steps[0].number
        for position, step in enumerate(self.steps):
            if step.number != first + position:
                raise ValueError(
                    f"step numbers must follow each other: expected {first + position}, found {step.number}"
                )
        return self

    @model_validator(mode="after")
    def needs_are_earlier_steps(self) -> Plan:
        first = self.steps[0].number
        for step in self.steps:
            if late := [number for number in step.needs or () if not first <= number < step.number]:
                raise ValueError(f"step {step.number} needs step {late[0]}, which is no step before it")
        return self

    @model_validator(mode="after")
    def sources_are_earlier_images(self) -> Plan:
        drawn: set[int] = set()
        for step in self.steps:
            if missing := set(step.sources or ()) - drawn:
                raise ValueError(
                    f"step {step.number} starts from step {min(missing)}, which has no image before it"
                )
            if step.prompt is not None:
                drawn.add(step.number)
        return self


class Question(Value):
    """What a planner asks back if its plan does not fit the request."""

    text: str
    """The question in plain words."""
    understood: tuple[str, ...] = ()
    """Things of the request that the plan has."""
    missing: tuple[str, ...] = ()
    """What the plan lacks, or has against the request."""


class Asked(InputError):
    """The plan does not fit the request, so the planner asks back and nothing is drawn."""

    def __init__(self, question: Question, plan: Plan) -> None:
        super().__init__(question.text)
        self.question = question
        self.plan = plan
        """The plan that does not fit, to edit."""


class Outcome(StrEnum):
    """Result of a critic's reply about an image."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNREADABLE = "unreadable"
    """No reply of the critic could be parsed. The attempt counts as unjudged, not as rejected."""


class Verdict(Value):
    """The critic's judgement of one attempt."""

    outcome: Outcome
    reasoning: str = ""
    refined_prompt: Prose | None = None
    """Prompt for the next attempt if the image is rejected."""
    confidence: float | None = Field(default=None, ge=0, le=1)
    """Critic's probability that the image is right, if its backend gives token probabilities."""

    @property
    def accepted(self) -> bool:
        return self.outcome is Outcome.ACCEPTED


class Finding(Value):
    """An image of a finished document that contradicts the others."""

    step: int = Field(ge=1)
    reasoning: str = ""
    prompt: Prose | None = None
    """Better prompt for the step. `None`: keep its prompt."""
    assets: tuple[str, ...] = ()
    """Assets that look different from the other steps."""


class Scores(Value):
    """A scorer's scores for one image, 0 to 10."""

    semantics: float = Field(ge=0, le=10)
    """Whether the image follows the prompt and nothing else changed: the lower of the two scores."""
    quality: float = Field(ge=0, le=10)
    """Image quality: the lower score of naturalness and freedom from artifacts."""

    @property
    def overall(self) -> float:
        return math.sqrt(self.semantics * self.quality)


@dataclass(frozen=True)
class Slot:
    """Position of a model call in a run, for journals and logs. Models do not receive it."""

    step: int = 0
    attempt: int = 0
    call: int = 1
    """Number of the call within its role and run, from 1."""
