"""API keys, which go from the environment into one header and nowhere else.

`http_client.py` adds a key to a request when it sends it, and only if the request goes to the key's server.
SDKs get a placeholder, so no client, log line, traceback or run folder ever holds the key. Messages of
servers are redacted.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import SecretStr

from interleave import ConfigurationError
from interleave.plugin import redaction

PLACEHOLDER = "kept-out-of-sight"
"""The key passed to SDKs, which require one."""

OPENAI_URL = "https://api.openai.com/v1"
GEMINI_URL = "https://generativelanguage.googleapis.com"
"""The addresses of OpenAI's and Google's services."""
GEMINI_VERSION = "v1beta"
"""The version of Google's API that has its newest models."""

KEY_VARIABLES = {
    "api.openai.com": "OPENAI_API_KEY",
    "openrouter.ai": "OPENROUTER_API_KEY",
    "openai.azure.com": "AZURE_OPENAI_API_KEY",
    "cognitiveservices.azure.com": "AZURE_OPENAI_API_KEY",
    "services.ai.azure.com": "AZURE_OPENAI_API_KEY",
    "generativelanguage.googleapis.com": "GEMINI_API_KEY",
}
"""The variable that holds each host's key; the key of one service is never sent to another."""


@dataclass(frozen=True)
class Key:
    """A key, the variable it came from and the header it goes into."""

    variable: str
    secret: SecretStr
    header: str = "Authorization"
    prefix: str = "Bearer "

    def header_value(self) -> str:
        return f"{self.prefix}{self.secret.get_secret_value()}"


def key_for(
    url: str, chosen: str | None, *, header: str = "Authorization", prefix: str = "Bearer "
) -> Key | None:
    """Return the key for an address, from the variable `chosen` or the host's usual one, or None.

    Raises `ConfigurationError` if the variable is not set, or if the host's key would be sent unencrypted.
    """
    variable = chosen or usual_variable(url)
    if variable is None:
        _refuse_plain_text(url)
        return None
    secret = os.environ.get(variable, "").strip()
    if not secret:
        raise ConfigurationError(
            f"{urlsplit(url).hostname} needs a key, and the environment variable {variable} is not set: "
            f"export {variable}=… (or name another variable with ?key=NAME)"
        )
    if not re.fullmatch(r"[\x21-\x7e]+", secret):
        raise ConfigurationError(
            f"the environment variable {variable} holds no valid key: it has spaces or non-ASCII characters"
        )
    redaction.keep_secret(secret, variable)
    return Key(variable, SecretStr(secret), header, prefix)


def usual_variable(url: str) -> str | None:
    """Return the variable that holds the key of a well-known host, if the address is https at port 443."""
    parts = urlsplit(url)
    if parts.scheme.lower() != "https" or parts.port not in (None, 443):
        return None
    return _variable_for_host(parts.hostname or "")


def _variable_for_host(host: str) -> str | None:
    host = host.lower()
    # URL parsers disagree about unusual characters, so a host with any of them gets no key.
    if not re.fullmatch(r"[a-z0-9.-]+", host):
        return None
    for known, variable in KEY_VARIABLES.items():
        if host == known or host.endswith(f".{known}"):
            return variable
    return None


def _refuse_plain_text(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme.lower() == "http" and _variable_for_host(parts.hostname or ""):
        raise ConfigurationError(f"{url!r} would send the prompts and the key unencrypted: use https://")


def origin_of(url: str) -> str:
    """Return the scheme, host and port of an address; a key is sent to one origin only."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
    shown = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}.get(scheme)
    return f"{scheme}://{shown}" + (f":{parts.port}" if parts.port not in (None, usual) else "")
