"""Types of the document JSON, for the API description; tests check responses against them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from interleave import Asset, Plan, PlanStep, Verdict
from interleave.plugin import Value, config, drift, runs, types
from interleave.service.generator.parameters import MAX_SEED

MAY_LACK = ConfigDict(json_schema_serialization_defaults_required=False)
"""Fields with a default may be missing in a response."""
MAX_NUMBER = 1_000_000
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
Number = Annotated[int, Field(ge=1, le=MAX_NUMBER)]

Status = Literal["queued", "in_progress", "held", "asked", "completed", "incomplete", "failed", "cancelled"]
StepState = Literal["text", "accepted", "forced", "chosen", "unfinished"]


class ErrorFacts(Value):
    """Error details for people and programs."""

    model_config = MAY_LACK

    message: str
    type: str
    param: str | None
    code: str | None
    nearest: list[str] = Field(default_factory=list)
    """Accepted requests near the refused one, if the request was the reason."""
    exchanges: dict[str, str] = Field(default_factory=dict)
    """Unknown words and the known ones that the option `nearest` puts in their place."""


class ErrorBody(Value):
    """Body of every error response."""

    error: ErrorFacts


class DocumentError(Value):
    """Reason why a job failed."""

    model_config = MAY_LACK

    code: str
    message: str
    nearest: list[str] | None = None


class Attempt(Value):
    """One generated image of a step, with the critic's verdict."""

    number: int
    prompt: str
    seed: int
    picture: str
    verdict: Verdict | None
    draw_seconds: float
    judge_seconds: float
    cost: float | None
    bad_replies: list[str]
    take: int
    aim: str | None
    generator: str | None
    inherited: bool


class Step(Value):
    """One step of a document."""

    number: int
    name: str | None
    """Heading that readers see: a person's, else the plan's; null if it has none or if it equals the text."""
    text: str
    """Text that readers see: a person's, else the plan's."""
    alt: str | None
    """Alternative text of its image; null if it has no image."""
    place: int | None
    """Place in the document, from 1; null if the step is hidden."""
    words_for: str | None
    """Prompt for which its text was written, if its image was redrawn with another one; else null."""
    redraws: list[int]
    """Later steps that a redraw of this one redraws too, unless they are kept."""
    redraw_seconds: dict[int, float]
    """Expected seconds to redraw this step and each of those, by number."""
    picture: str | None
    before: str | None
    """Source image of the step; the latest if there are several."""
    accepted: bool
    shown: int | None
    forced: bool
    finished: bool
    state: StepState
    by_hand: runs.ByHand | None
    drift: drift.StepDrift | None
    """Drift of its image from its source image; null if not measured."""
    attempts: list[Attempt]


class GivenAsset(Value):
    """A named asset of the request that must stay consistent."""

    name: str
    kind: types.AssetKind
    description: str
    picture: str | None
    """Address of its image; null if it has none, or before the job starts."""


class Decision(Value):
    """A decision about a run."""

    kind: Literal["plan", "redraw", "choice", "generator", "branch"]
    step: int | None
    attempt: int | None
    prompt: str | None
    seed: int | None
    kept: dict[int, int]
    by: str
    time: float
    undone: bool
    cause: Literal["rollback", "drift", "audit"] | None = None
    """Reason for an automatic decision; null for a person's decision."""


class NewStep(Value):
    """A step to add."""

    prompt: str
    """What its image shows."""
    text: str = ""
    name: str = ""
    """Its heading."""


class StepWords(Value):
    """The words of one step."""

    number: int
    name: str
    text: str
    alt: str | None
    """Alternative text of its image; null for the text of the step."""
    hidden: bool
    """Whether the document leaves the step out."""
    lettering: list[types.Lettering]
    """Words set upon its image."""


class Words(Value):
    """All words of a document. What was changed is here; the plan keeps the original."""

    title: str
    order: list[int]
    """All steps in the order to show them."""
    steps: list[StepWords]


class EditedStepWords(Value):
    """Changes of the words of one step; fields that are omitted stay unchanged."""

    number: int
    name: str | None = None
    text: str | None = None
    alt: str | None = None
    hidden: bool | None = None
    lettering: list[types.Lettering] | None = None


class ExportTexts(Value):
    """Body of `POST /v1/documents/{id}/document.FORMAT`."""

    texts: Annotated[tuple[str, ...], Field(max_length=20)] = ()
    """Files of words in other languages, as `document.texts` makes them."""


class EditedWords(Value):
    """Changes of the words of a document; fields that are omitted stay unchanged."""

    title: str | None = None
    order: list[int] | None = None
    """The first steps to show, in order; the others follow in the order of the plan."""
    steps: list[EditedStepWords] | None = None
    keep: list[int] | None = None
    """Steps whose text fits their redrawn image."""


class Undoable(Value):
    """The last edit in effect, which an undo removes."""

    kind: Literal["words", "redraw", "choice", "generator"]
    step: int | None


class DocumentPart(Value):
    """A part of the request: a text, or the address of an image (null before the job starts)."""

    model_config = MAY_LACK

    text: str | None = None
    picture: str | None = None


class Facts(Value):
    """Details of a job in the field `interleave`; all from `reason` on exist once it has started."""

    model_config = MAY_LACK

    document: str
    cancelling: bool
    held: bool
    parent: str | None
    reason: str | None = None
    """Why it ended; the question of a job that is `asked`."""
    understood: list[str] | None = None
    """Things of the request that the plan of an asked job has."""
    missing: list[str] | None = None
    """What the plan of an asked job lacks."""
    nearest: list[str] = Field(default_factory=list)
    """Requests near that of an asked job that its planner can do; only in the document."""
    assets: list[GivenAsset] = Field(default_factory=list)
    audits: list[runs.AuditRecord] = Field(default_factory=list)
    """Results of the audits of the whole document."""
    plan: Plan | None = None
    words: Words | None = None
    """Title, headings, texts, alternative texts, order and visibility; null while the plan waits."""
    steps: list[Step] = Field(default_factory=list)
    forced: list[int] = Field(default_factory=list)
    calls: runs.CallCounts | None = None
    cost: float | None = None
    seconds: float | None = None
    models: dict[Literal["planner", "critic", "generator"], str] = Field(default_factory=dict)
    seed: int | None = None
    max_attempts: int | None = None
    notes: list[str] = Field(default_factory=list)
    """Words that were exchanged, corrected or left out, and remarks about the models."""
    decisions: list[Decision] = Field(default_factory=list)


class Summary(Value):
    """A job in a list."""

    id: str
    object: Literal["document"]
    status: Status
    created_at: int
    finished_at: int | None
    title: str
    error: DocumentError | None
    metadata: dict[str, str]
    previous_response_id: str | None


class Document(Facts, Summary):
    """`GET /v1/documents/{id}`."""

    model_config = MAY_LACK

    profile: str
    command: str
    """The command that makes the document as it was first planned."""
    request: list[DocumentPart]
    undoable: Undoable | None
    """The edit that the next undo removes; null if there is none."""
    links: dict[str, str]


class Documents(Value):
    """`GET /v1/documents`."""

    object: Literal["list"]
    data: list[Summary]
    has_more: bool


class Steps(Value):
    """`GET /v1/documents/{id}/steps`."""

    object: Literal["list"]
    data: list[Step]


class InputAsset(Value):
    """A named asset that must stay consistent: an image, a description, or both."""

    name: types.AssetName
    kind: types.AssetKind = "character"
    description: str = ""
    image_url: str | None = None
    """The image as a `data:` URL."""
    file_id: str | None = None
    """Id of an uploaded image."""


class OwnOptions(Value):
    """Options in the field `interleave` of a request."""

    seed: int | None = None
    max_attempts: int | None = None
    sources: config.SourceRule | None = None
    webhook: str | None = None
    hold_plan: bool = False
    assets: list[InputAsset] | None = None
    sheets: bool | None = None
    """Whether to generate reference sheets for assets that have a description but no image."""
    nearest: bool | None = None
    """Whether to exchange words that the planner does not know for their neighbours."""


class InputText(Value):
    type: Literal["input_text"]
    text: str


class InputImage(Value):
    """An image as a `data:` URL, or the id of an upload."""

    type: Literal["input_image"]
    image_url: str | None = None
    file_id: str | None = None


class InputMessage(Value):
    role: Literal["user", "system", "developer", "assistant"]
    content: str | list[InputText | InputImage]


class Submission(Value):
    """Body of `POST /v1/responses`. Parameters without effect are refused."""

    input: str | list[InputMessage]
    model: str | None = None
    background: bool = False
    stream: bool = False
    previous_response_id: str | None = None
    instructions: str | None = None
    metadata: dict[str, str] | None = None
    interleave: OwnOptions | None = None


class ResponseObject(Value):
    """A Response of OpenAI's API; the fields not listed here are as in that API."""

    model_config = ConfigDict(**MAY_LACK, extra="allow")

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    model: str
    background: bool
    output: list[dict[str, Any]]
    error: dict[str, Any] | None
    incomplete_details: dict[str, str] | None
    previous_response_id: str | None
    interleave: Facts


class Deleted(Value):
    id: str
    object: str
    deleted: bool


class EditedStep(PlanStep):
    """A step of an edited plan, numbered by its position."""

    number: int = 1


class EditedAsset(Asset):
    """An asset of an edited plan."""


class EditedPlan(Value):
    steps: list[EditedStep]
    assets: list[EditedAsset] | None = None
    """Assets of the plan; the default is those of the held plan."""


class Release(Value):
    """The plan to draw; the default is the held plan."""

    plan: EditedPlan | None = None


class Redraw(Value):
    prompt: types.Prose | None = None
    seed: Seed | None = None
    only_step: bool | None = None
    """Whether later steps keep their images."""


class Choose(Value):
    attempt: Number
    only_step: bool | None = None


class BranchOff(Value):
    step: Number
    prompt: types.Prose | None = None
    seed: Seed | None = None


class Nothing(Value):
    """An empty object."""


class File(Value):
    """An uploaded image."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: Literal["processed"]


class Upload(Value):
    """A form with one image."""

    file: Annotated[str, Field(json_schema_extra={"format": "binary"})]
    purpose: Literal["vision", "user_data", "assistants"] = "vision"


class Files(Value):
    object: Literal["list"]
    data: list[File]
    has_more: bool


class Health(Value):
    """`GET /health`."""

    status: str
    models: Literal["loading", "ready", "failed"]
    queued: int
    in_progress: int


class Readiness(Value):
    """`GET /health/ready`; the status is 503 if there are reasons."""

    status: Literal["ready", "not ready"]
    reasons: list[str]


class LoopState(Value):
    """A background loop."""

    seconds: float
    """Time since it was last alive."""
    max_seconds: float


class Liveness(Value):
    """`GET /health/live`; the status is 503 if there are reasons."""

    status: Literal["live", "failing"]
    reasons: list[str]
    loops: dict[str, LoopState]
