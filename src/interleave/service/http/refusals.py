"""Refusals: why a request is not answered, with a status, and how that is sent."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from interleave import InterleaveError


class Refusal(InterleaveError):
    """A request is refused, with the HTTP status that says why."""

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
        """Seconds after which the same request may succeed, where known."""


def error_response(reason: Refusal, body: dict[str, Any], status: int) -> Response:
    """A refusal with the body and status that an API gives it."""
    headers = {} if reason.retry_after is None else {"retry-after": str(max(1, round(reason.retry_after)))}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(json.dumps(body), status, headers, media_type="application/json")
