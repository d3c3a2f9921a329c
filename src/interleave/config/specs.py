"""Spec strings: ``name[:model][@base_url][?key=value&…]`` names a backend and its options.

solid?delay=0.2                        a backend with an option
scripted:./replies.jsonl               a model that starts with / or . is a local path
openai:qwen3-vl@http://host:8000/v1    a model behind a server
http://host:8011,http://host:8012      servers of the `http` backend, whose name may be omitted

Option values may be percent-encoded; a ``+`` is a plus.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit

from pydantic import Field

from interleave.errors import ConfigurationError
from interleave.text import unusable
from interleave.types import Value

_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")
_BASE_URL = re.compile(r"@(?=https?://)", re.IGNORECASE)
_SERVER = re.compile(r"https?://", re.IGNORECASE)
_BARE_HOST = re.compile(r"@(?:|localhost\b.*|[\w.-]+:\d+(?:/.*)?)\Z", re.DOTALL)
_READABLE = "/:,@+"
"""Characters of an option value that are not percent-encoded."""


@dataclass(frozen=True)
class Spec:
    """A backend by name, as written in a spec string or a profile table."""

    name: str
    model: str | None = None
    base_url: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        name_is_implied = self.name == "http" and self.base_url and not self.model
        text = "" if name_is_implied else self.name
        text += f":{self.model}" if self.model else ""
        if self.base_url:
            text += ("@" if text else "") + self.base_url
        if self.options:
            text += "?" + "&".join(
                f"{_quoted(key)}={_quoted(self.options[key])}" for key in sorted(self.options)
            )
        return text


class BackendOptions(Value):
    """Options of every backend, which the core enforces. Each backend adds its own."""

    concurrency: int | None = Field(default=None, ge=1, le=100_000)
    """Maximum concurrent calls."""
    timeout: float | None = Field(default=None, gt=0, le=86_400)
    """Seconds for one try. Known queueing time does not count."""


class CriticOptions(Value):
    """Options of every vision-language model used as a critic."""

    strict: float | None = Field(default=None, ge=0, le=1)
    """Probability of "this image is right" from which on an image is accepted. `None`: use the critic's
    own judgement."""
    quick: float | None = Field(default=None, ge=0.5, le=1)
    """Probability of "this image is right", before the critic has reasoned, from which on an image is
    accepted at once. `None`: always reason."""


TUNING = frozenset({*BackendOptions.model_fields, "key", "port", "probe"})
"""Options that affect the speed of a run, not its result."""


def without_tuning(spec: Spec) -> Spec:
    """Return the spec with only the options that affect the result of a run."""
    return replace(spec, options={key: value for key, value in spec.options.items() if key not in TUNING})


@lru_cache(maxsize=1024)
def parse_spec(text: str) -> Spec:
    """Return the parsed spec string. Raises `ConfigurationError` that names the wrong part."""
    if problem := unusable(unquote(text)):
        raise ConfigurationError(f"the spec {_shown(text)} cannot be used: {problem}")
    address, has_options, query = text.strip().partition("?")
    options = _parse_options(query, text) if has_options else {}
    if _SERVER.match(address):
        return Spec("http", None, _checked_urls(address, text), options)
    named, *base = _BASE_URL.split(address, maxsplit=1)
    name, has_model, model = named.partition(":")
    if not _NAME.match(name):
        raise ConfigurationError(
            f"{_shown(text)} is not a backend spec: write name[:model][@base_url][?key=value], "
            "e.g. 'solid?delay=0.2'"
        )
    if has_model:
        _check_model(model, text)
    return Spec(name, model or None, _checked_urls(base[0], text) if base else None, options)


def _check_model(model: str, text: str) -> None:
    if not model.strip():
        raise ConfigurationError(
            f"the spec {_shown(text)} has a ':' but no model after it: name one, or drop the ':'"
        )
    # As part of the model's name, such an address would send the request to another server.
    if not model.startswith(("/", ".")) and _BARE_HOST.search(model):
        raise ConfigurationError(
            f"no address after {text.partition('@')[0] + '@'!r}: write e.g. @http://host:8000/v1"
        )


def _parse_options(query: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for piece in query.split("&"):
        key, has_value, value = piece.partition("=")
        if not key or not has_value:
            raise ConfigurationError(f"the options of {_shown(text)} are not key=value pairs joined by '&'")
        key, value = _unquoted(key, text), _unquoted(value, text)
        if key in options:
            raise ConfigurationError(f"the option {key!r} of {_shown(text)} is given twice")
        options[key] = value
    return options


def _checked_urls(urls: str, text: str) -> str:
    """Return the addresses, joined by commas. Raises for an invalid one or one with a password."""
    checked = [url.strip() for url in urls.split(",")]
    for url in checked:
        if "@" in url:
            raise ConfigurationError(
                f"an address in {_shown(text)} contains a user name or password: "
                "keys come from the environment, never from a spec"
            )
        if not _is_address(url):
            raise ConfigurationError(
                f"an address in {_shown(text)} is invalid: write e.g. http://host:8000/v1"
            )
    return ",".join(checked)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(_SERVER.match(url) and parts.hostname and parts.port != 0 and not re.search(r"\s", url))
    except ValueError:  # a port that is not a number, or an incomplete IPv6 address
        return False


def _shown(text: str) -> str:
    """Return the spec for error messages, without a possible password."""
    start, end = text.find("//") + 2, text.rfind("@")
    return repr(f"{text[:start]}…{text[end:]}" if 2 <= start <= end else text)


def _quoted(value: str) -> str:
    return quote(value, safe=_READABLE)


def _unquoted(value: str, text: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"an option of {_shown(text)} has percent codes that are not UTF-8"
        ) from None
