"""Refusals of the document service, in the error format of OpenAI's API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails
from starlette.responses import Response

from interleave.plugin import problem_with
from interleave.service.generator import openai_images_api as openai
from interleave.service.http.refusals import Refusal, error_response

_SENTENCES = re.compile(r"(?<=[.!?”]) (?=[A-Z“])")
_OPTIONS = re.compile(r"\binterleave \w|(?<!\S)--\w|(?<!\S)[a-z_]+=\S")


class ApiRefusal(Refusal):
    """A refusal with a machine-readable code, whose status is sent unchanged."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        nearest: Sequence[str] = (),
        exchanges: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(message, **{"status": 400, **more})
        self.code = code
        self.nearest = tuple(nearest)
        """Accepted requests near the refused one."""
        self.exchanges = dict(exchanges or {})
        """Unknown words and the known ones that the option `nearest` puts in their place."""


def unknown(what: str, id_: str) -> ApiRefusal:
    """Return the same refusal for an id that does not exist, was deleted, or belongs to another key."""
    return ApiRefusal(f"{what} with id {id_[:80]!r} not found", status=404, code="not_found")


def invalid_parameter(error: ErrorDetails) -> ApiRefusal:
    """Return the refusal of a parameter in the path, the query or the headers."""
    place, name = str(error["loc"][0]), str(error["loc"][-1])
    if place == "path":
        return unknown(name, str(error["input"]))
    if error["type"] in ("literal_error", "enum"):
        expected = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        return ApiRefusal(f"{name} must be one of {expected}", parameter=name)
    return ApiRefusal(f"{name} {problem_with(error)}", parameter=name)


def for_clients(message: str) -> str:
    """Return a message without its advice about command options or Python parameters."""
    first, *others = _SENTENCES.split(message)
    kept = [said for each in others if (said := _without_advice(each, otherwise=""))]
    return " ".join([_without_advice(first, otherwise=first), *kept])


def _without_advice(sentence: str, *, otherwise: str) -> str:
    said, _, advice = sentence.partition(": ")
    if _OPTIONS.search(advice):
        return said
    return otherwise if _OPTIONS.search(said) else sentence


def error_body(reason: Refusal) -> dict[str, Any]:
    """Return a refusal as error JSON."""
    body = openai.refusal(reason)
    if isinstance(reason, ApiRefusal):
        body["error"]["code"] = reason.code
        if reason.nearest:
            body["error"]["nearest"] = list(reason.nearest)
        if reason.exchanges:
            body["error"]["exchanges"] = reason.exchanges
    return body


def status_of(reason: Refusal) -> int:
    return reason.status if isinstance(reason, ApiRefusal) else openai.status_of(reason)


def refusal_response(reason: Refusal) -> Response:
    return error_response(reason, error_body(reason), status_of(reason))
