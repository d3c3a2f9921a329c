"""What a planner knows of a request, before it is sent: its words are checked without a model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from interleave import ConfigurationError, InputError, Request, Text, UnknownWords
from interleave.plugin import Value, runs
from interleave.service.documents.bodies import json_body
from interleave.service.documents.refusals import for_clients
from interleave.service.documents.routes import Router, SubmitCall, value_json
from interleave.service.documents.service import Documents, suggestions_for
from interleave.service.documents.submissions import model_in

MAX_CHARACTERS = 5000
"""Longer requests are checked when they are sent."""
router = Router(prefix="/v1/studio")


class RequestToCheck(Value):
    """A request that is being typed."""

    text: str
    model: str | None = None
    """Its profile; null for the default one."""


class CheckedRequest(Value):
    """What a planner would say to a request."""

    accepted: bool
    """Whether the planner takes its words. Its plan may still not fit."""
    message: str = ""
    """Why it is refused."""
    exchanges: dict[str, str] = Field(default_factory=dict)
    """Unknown words and the known ones that the option `nearest` puts in their place."""
    understood: list[str] = Field(default_factory=list)
    """The user's sentences that become the texts of the steps, if the planner takes them one to one."""
    notes: list[str] = Field(default_factory=list)
    """Words that are corrected or left out."""
    nearest: list[str] = Field(default_factory=list)
    """Requests near a refused one that can be done."""


@router.post("/check", response_model=CheckedRequest)
async def check(call: SubmitCall, body: Annotated[RequestToCheck, json_body(RequestToCheck)]) -> Response:
    """Check the words of a request. No model is called, and nothing is stored."""
    return value_json(await call.documents.in_thread(checked, call.documents, body))


def checked(documents: Documents, asked: RequestToCheck) -> CheckedRequest:
    text = asked.text.strip()
    config = documents.model_cache.config_for(model_in(asked.model, documents.settings.models))
    if not text or len(text) > MAX_CHARACTERS:
        return CheckedRequest(accepted=True)
    try:
        reading = runs.adapted_request(Request((Text(text),)), config).reading
    except (InputError, ConfigurationError) as error:
        return CheckedRequest(
            accepted=False,
            message=for_clients(str(error)),
            exchanges=error.nearest if isinstance(error, UnknownWords) else {},
            nearest=suggestions_for(text, config.planner),
        )
    if reading is None:
        return CheckedRequest(accepted=True)
    return CheckedRequest(accepted=True, understood=list(reading.captions), notes=list(reading.notes))
