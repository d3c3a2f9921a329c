"""Keys that must not get out: what a message says about them is struck out before anybody reads it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)S?$", re.IGNORECASE)
_SHORTEST = 8
"""Shorter values would be found in innocent words."""


def without_secrets(text: str) -> str:
    """The text with the values of keys and tokens of this process's environment struck out."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _names_a_secret(name):
            text = text.replace(value, "…")
    return text


@lru_cache(maxsize=4096)  # the names are looked at for every line of the log
def _names_a_secret(name: str) -> bool:
    return _NAMES.search(name) is not None


class RedactingFormatter(logging.Formatter):
    """Log lines without secrets, tracebacks of other people's libraries included."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


@contextmanager
def logging_to_stderr(form: str) -> Iterator[None]:
    """Everything that is logged meanwhile, by whomever, goes to standard error in this form, redacted."""
    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.setFormatter(RedactingFormatter(form))
    before, root.handlers = root.handlers, [handler]
    try:
        yield
    finally:
        root.handlers = before
