"""Refusals of requests, each with a reason and a status, and their responses."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from interleave import InterleaveError


class Refusal(InterleaveError):
    """A request is refused, with a reason and an HTTP status."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 422,
        parameter: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.parameter = parameter
        self.retry_after = retry_after
        """Seconds after which the same request may succeed, if known."""


def error_response(reason: Refusal, body: dict[str, Any], status: int) -> Response:
    """Return a refusal as a response with the body and status of an API."""
    headers = {} if reason.retry_after is None else {"retry-after": str(max(1, round(reason.retry_after)))}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(json.dumps(body), status, headers, media_type="application/json")
