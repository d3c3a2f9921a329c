"""Keys of services: from the environment into one header, and nowhere else.

A key is put on a request at the last moment, in the door (`door.py`). SDKs are built with a placeholder, so
no client, log line, traceback or run folder ever holds the real one, and what servers say is redacted.
"""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from pydantic import SecretStr

from interleave.errors import ConfigurationError

PLACEHOLDER = "kept-out-of-sight"
"""What SDKs are told the key is: they insist on one."""
REDACTED = "[key]"
SHOWN_ENDS = 8
"""Servers like to repeat the first or last letters of a key: so many are enough to be redacted."""

HOME_OF_KEYS = {
    "api.openai.com": "OPENAI_API_KEY",
    "openrouter.ai": "OPENROUTER_API_KEY",
    "openai.azure.com": "AZURE_OPENAI_API_KEY",
    "cognitiveservices.azure.com": "AZURE_OPENAI_API_KEY",
    "services.ai.azure.com": "AZURE_OPENAI_API_KEY",
    "generativelanguage.googleapis.com": "GEMINI_API_KEY",
}
"""Hosts that get a key without being told: the key of one service is never sent to another."""


@dataclass(frozen=True)
class Key:
    """A key, the variable it came from and the header it goes into."""

    variable: str
    secret: SecretStr
    header: str = "Authorization"
    prefix: str = "Bearer "

    def header_value(self) -> str:
        return f"{self.prefix}{self.secret.get_secret_value()}"

    def redact(self, text: str) -> str:
        """The text without the key, whole, encoded or in part."""
        secret = self.secret.get_secret_value()
        plain = base64.b64encode(secret.encode()).decode()
        forms = {
            secret,
            quote(secret, safe=""),
            plain,
            plain.rstrip("="),
            base64.b64encode(plain.encode()).decode(),
        }
        if len(secret) >= 2 * SHOWN_ENDS:
            forms |= {secret[:SHOWN_ENDS], secret[-SHOWN_ENDS:]}
        for form in sorted(forms, key=len, reverse=True):
            text = text.replace(form, REDACTED)
        return text


def key_for(
    url: str, chosen: str | None, *, header: str = "Authorization", prefix: str = "Bearer "
) -> Key | None:
    """The key for an address: of the variable the user named, or of the host's own; None where it needs none.

    Raises `ConfigurationError` when the variable is not set.
    """
    variable = chosen or usual_variable(url)
    if variable is None:
        return None
    secret = os.environ.get(variable, "").strip()
    if not secret:
        raise ConfigurationError(
            f"{urlsplit(url).hostname} needs a key, and the environment variable {variable} is not set: "
            f"export {variable}=… (or name another variable with ?key=NAME)"
        )
    if not re.fullmatch(r"[\x21-\x7e]+", secret):
        raise ConfigurationError(
            f"what the environment variable {variable} holds cannot be a key: it has spaces or odd letters"
        )
    return Key(variable, SecretStr(secret), header, prefix)


def usual_variable(url: str) -> str | None:
    """The variable that holds the key of a well-known host."""
    host = (urlsplit(url).hostname or "").lower()
    for known, variable in HOME_OF_KEYS.items():
        if host == known or host.endswith(f".{known}"):
            return variable
    return None
