"""Spec strings: ``name[:model][@base_url][?key=value&…]``, one line that names a backend and its options.

solid?delay=0.2                        a backend with an option
scripted:./replies.jsonl               a model that starts with / or . is a local path
openai:qwen3-vl@http://host:8000/v1    a model behind a server
http://host:8011,http://host:8012      servers that speak for themselves
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from interleave.errors import ConfigurationError

_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")
_BASE_URL = re.compile(r"@(?=https?://)")
_SERVER = re.compile(r"https?://", re.IGNORECASE)


@dataclass(frozen=True)
class Spec:
    """A backend by name, as written in a spec string or a profile table."""

    name: str
    model: str | None = None
    base_url: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        text = self.name if self.name != "http" else ""
        text += f":{self.model}" if self.model else ""
        if self.base_url:
            text += ("@" if text else "") + self.base_url
        if self.options:
            text += "?" + "&".join(f"{key}={value}" for key, value in sorted(self.options.items()))
        return text


def parse_spec(text: str) -> Spec:
    """Read a spec string; raises `ConfigurationError` that says which piece is wrong."""
    address, has_options, query = text.strip().partition("?")
    options = _parse_options(query, text) if has_options else {}
    if _SERVER.match(address):
        return Spec("http", None, _checked_url(address, text), options)
    named, has_base, base = _split_base_url(address)
    name, has_model, model = named.partition(":")
    if not _NAME.match(name):
        raise ConfigurationError(
            f"{text!r} is not a backend spec: write name[:model][@base_url][?key=value], "
            "e.g. 'solid?delay=0.2'"
        )
    if has_model and not model:
        raise ConfigurationError(
            f"the spec {text!r} has a ':' but no model after it: name one, or drop the ':'"
        )
    return Spec(name, model or None, _checked_url(base, text) if has_base else None, options)


def _split_base_url(address: str) -> tuple[str, bool, str]:
    pieces = _BASE_URL.split(address, maxsplit=1)
    return (pieces[0], True, pieces[1]) if len(pieces) == 2 else (address, False, "")


def _parse_options(query: str, text: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        raise ConfigurationError(f"the options of {text!r} are not key=value pairs joined by '&'") from None
    options = dict(pairs)
    if len(options) < len(pairs):
        raise ConfigurationError(f"an option of {text!r} is given twice")
    return options


def _checked_url(urls: str, text: str) -> str:
    for url in urls.split(","):
        parts = urlsplit(url)
        if not parts.hostname:
            raise ConfigurationError(f"{url!r} in {text!r} is not an address: write e.g. http://host:8000/v1")
        if parts.username or parts.password:
            raise ConfigurationError(
                f"the address of {parts.hostname} carries a user name or password: "
                "keys come from the environment, never from a spec"
            )
    return urls
