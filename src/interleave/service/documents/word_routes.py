"""Routes for the document as readers see it, and for changes of its words."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from starlette.responses import Response

from interleave.plugin import Value, journal, runs
from interleave.service.documents import schemas as wire
from interleave.service.documents.bodies import json_object
from interleave.service.documents.decision_routes import decide
from interleave.service.documents.document_routes import SeenRun
from interleave.service.documents.routes import IDEMPOTENT, Router, SubmitCall, value_json

router = Router(prefix="/v1/documents/{id}")


class ShownStep(Value):
    """A step as readers see it."""

    step: int
    """Number of the step in the plan, which decisions name."""
    number: int
    """Number that readers see."""
    name: str
    text: str
    alt: str
    note: str
    """Remark for the editor if the text was written for an earlier image; else empty."""
    picture: str | None
    """Signed address of the full image, which needs no API key; without the host."""


class ShownDocument(Value):
    """`GET /v1/documents/{id}/shown`: without hidden steps, in order, with a person's words."""

    title: str
    steps: list[ShownStep]


class EditedWords(journal.Words):
    """Changes of the words of a document. Fields that are omitted stay unchanged."""


@router.get("/shown", response_model=ShownDocument)
async def shown(run: SeenRun) -> Response:
    """Get the document as readers see it."""
    document = runs.as_shown(run.started)
    sign = partial(run.call.documents.addresses.path_of, run.job.id)
    steps = [
        ShownStep(
            step=each.record.plan.number,
            **{name: getattr(each, name) for name in ("number", "name", "text", "alt", "note")},
            picture=sign(each.record.attempt.image) if each.record.attempt else None,
        )
        for each in document.steps
    ]
    return value_json(ShownDocument(title=document.title, steps=steps))


@router.post("/words", response_model=wire.ResponseObject, dependencies=IDEMPOTENT)
async def edit_words(
    call: SubmitCall, id: str, body: Annotated[dict[str, Any], json_object(EditedWords)]
) -> Response:
    """Change the title, names, texts, order or visibility of steps. No model is called."""
    return await decide(call, id, body, partial(runs.words_line, given=body, by=call.caller.key))
