"""Keys that must not get out: what a message says about them is struck out before anybody reads it."""

from __future__ import annotations

import logging
import os
import re

_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)S?$", re.IGNORECASE)
_SHORTEST = 8
"""Shorter values would be found in innocent words."""


def without_secrets(text: str) -> str:
    """The text with the values of keys and tokens of this process's environment struck out."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _NAMES.search(name):
            text = text.replace(value, "…")
    return text


class RedactingFormatter(logging.Formatter):
    """Log lines without secrets, tracebacks of other people's libraries included."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def log_to(logger: logging.Logger, form: str, level: int) -> None:
    """Send a logger's lines to standard error in this form, redacted."""
    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter(form))
    logger.handlers = [handler]
    logger.setLevel(level)
