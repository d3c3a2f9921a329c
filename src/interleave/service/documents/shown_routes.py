"""The route of a document as readers see it."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response

from interleave.plugin import Value, runs
from interleave.service.documents.document_routes import SeenRun
from interleave.service.documents.routes import Router, value_json

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
