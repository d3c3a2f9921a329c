"""Structured logs: one JSON object per line, each with the ids of the request and the job.

A job keeps the id of the HTTP request that submitted it, so one search finds the request, the job and its
model calls, even after a restart.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from interleave.plugin import redaction

_IDS: ContextVar[dict[str, str]] = ContextVar("interleave_log_ids", default={})  # noqa: B039 - never changed


@contextmanager
def job_context(job: str, request: str) -> Iterator[None]:
    """Add these ids to everything logged inside the block."""
    token = _IDS.set({"job": job, "request": request})
    try:
        yield
    finally:
        _IDS.reset(token)


class JsonFormatter(logging.Formatter):
    """Formatter of log records as JSON lines; it escapes control characters and removes secrets."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_IDS.get(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return redaction.redacted(json.dumps(fields, ensure_ascii=False, default=str), message=True)
