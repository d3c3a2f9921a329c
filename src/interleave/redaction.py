"""Remove the API keys of this process from every text before it is stored or shown.

A key is registered here when it is read from the environment. Every text of a model or a server passes
through `redacted` before it reaches a journal, a page, an error, a log or the terminal, so that a server that
echoes its key cannot leak it into a folder that is shared later.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

if TYPE_CHECKING:
    from pydantic import BaseModel

Model = TypeVar("Model", bound="BaseModel")

REDACTED = "[key]"
LEAST_CHARACTERS = 12
"""Minimum length of a key. Shorter values are placeholders such as `EMPTY`, which are words in replies."""
ENDS = 8
"""Letters at the start or end of a key that are redacted in messages, because servers echo them."""

_SECRET_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)S?$", re.IGNORECASE)
_SECRETS: dict[str, str] = {}
"""Keys in use, and the environment variables they came from."""


def keep_secret(secret: str, variable: str) -> None:
    """Register a value to redact."""
    if len(secret) >= ENDS:
        _SECRETS[secret] = variable


def keep_environment_secret() -> None:
    """Register the value of every environment variable that is named like a key, token or password."""
    for variable, value in os.environ.items():
        if _SECRET_NAMES.search(variable) and not os.path.exists(value):  # skip paths of key files
            keep_secret(value, variable)


def redacted(text: str, *, message: bool = False) -> str:
    """Return the text without the keys in use, plain or encoded.

    With `message`, also remove short keys and the beginnings and ends of long ones. In the text of a model
    these may be words.
    """
    for secret in _SECRETS:
        if message or len(secret) >= LEAST_CHARACTERS:
            text = _without(secret, text)
        if message and len(secret) >= 2 * ENDS:
            text = _without_ends(secret, text)
    return text


def redacted_model(model: Model) -> Model:
    """Redact every text in a pydantic model. Returns the model itself if nothing changes."""
    if not _SECRETS:
        return model
    written = model.model_dump_json()
    clean = redacted(written)
    return model if clean == written else type(model).model_validate_json(clean)


def secret_in(text: str) -> str | None:
    """Return the environment variable of a key that the text contains, else `None`."""
    long_enough = (secret for secret in _SECRETS if len(secret) >= LEAST_CHARACTERS)
    return next((_SECRETS[secret] for secret in long_enough if _without(secret, text) != text), None)


class RedactingFormatter(logging.Formatter):
    """Formatter that removes keys from log lines, including tracebacks of libraries."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record), message=True)


@contextmanager
def redacted_logging(form: str | logging.Formatter) -> Iterator[None]:
    """Send all log records to standard error in this format, without keys, for the duration of the context.

    A custom formatter must remove the keys itself.
    """
    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.setFormatter(RedactingFormatter(form) if isinstance(form, str) else form)
    before, root.handlers = root.handlers, [handler]
    try:
        yield
    finally:
        root.handlers = before


def _without(secret: str, text: str) -> str:
    for form in _forms(secret):
        if form in text:
            text = text.replace(form, REDACTED)
    return text


@cache
def _forms(secret: str) -> tuple[str, ...]:
    """Return a secret and its URL, JSON and base64 encodings, longest first."""
    plain = secret.encode()
    once = base64.b64encode(plain).decode()
    forms = {
        secret,
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        base64.b64encode(once.encode()).decode(),
    }
    for place in range(3):  # within a longer text, base64 depends on the offset modulo 3
        forms |= {_in_base64(plain, place), _in_base64(plain, place).translate(_URL_SAFE)}
    return tuple(sorted(forms, key=len, reverse=True))


_URL_SAFE = str.maketrans("+/", "-_")


def _in_base64(secret: bytes, place: int) -> str:
    """Return the base64 of a secret at this offset, without the letters that also encode its neighbours."""
    encoded = base64.b64encode(bytes(place) + secret).decode()
    first = -(-8 * place // 6)
    last = (place + len(secret)) * 8 // 6
    return encoded[first:last]


def _without_ends(secret: str, text: str) -> str:
    """Return the text without prefixes and suffixes of the secret of at least ENDS letters."""
    for wanted, backwards in ((secret, False), (secret[::-1], True)):
        seen = text[::-1] if backwards else text
        mark = REDACTED[::-1] if backwards else REDACTED
        start = seen.find(wanted[:ENDS])
        while start >= 0:
            stop = start + ENDS
            while stop < len(seen) and stop - start < len(wanted) and seen[stop] == wanted[stop - start]:
                stop += 1
            seen = seen[:start] + mark + seen[stop:]
            start = seen.find(wanted[:ENDS], start + len(mark))
        text = seen[::-1] if backwards else seen
    return text
