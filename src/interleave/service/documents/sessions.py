"""Sessions of browsers: a signed token that expires, in a cookie in place of the API key.

The token names a key and the time of its end. Its signature covers the hash of the key, so the token ends
with the key. It survives restarts, and is valid for all services on the same folder.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Callable
from pathlib import Path

from interleave.service.documents.own_secrets import stored_secret

COOKIE = "interleave-session"
KEY_COOKIE = "interleave-key"
"""Cookie of earlier versions, which held the key itself. It is removed, and never read."""
SESSION_SECONDS = 24 * 3600
SECRET_NAME = "sessions.secret"
_TOKEN = re.compile(r"(key-[0-9a-f]{12})\.([0-9]{1,12})\.([0-9a-f]{64})\Z")


class Sessions:
    """Signer and verifier of session tokens."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = folder / SECRET_NAME
        self.clock = clock
        self._secret = b""

    def token(self, key: str, digest: str) -> str:
        """Return a new token for the key with this id and hash."""
        ends = int(self.clock()) + SESSION_SECONDS
        return f"{key}.{ends}.{self._signature(key, digest, str(ends))}"

    def key_in(self, token: str, digest_of: Callable[[str], str | None]) -> str | None:
        """Return the id of the key of a valid token. `digest_of` returns the hash of a key in force."""
        found = _TOKEN.match(token)
        if found is None or int(found[2]) <= self.clock():
            return None
        digest = digest_of(found[1])
        if digest is None or not hmac.compare_digest(self._signature(found[1], digest, found[2]), found[3]):
            return None
        return found[1]

    def _signature(self, key: str, digest: str, ends: str) -> str:
        self._secret = self._secret or stored_secret(self.path)
        return hmac.new(self._secret, f"{key} {digest} {ends}".encode(), "sha256").hexdigest()
