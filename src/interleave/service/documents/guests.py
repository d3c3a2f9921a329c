"""Guests: visitors of a public studio without an API key, each of whom sees their own documents only.

A guest is identified by a signed cookie that comes with the page. Without the cookie the same visitor is a
new guest: the quota of a guest keeps fair users apart, and the limits of the service hold for all of them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interleave.service.documents.keys import Caller, cookie_in
from interleave.service.documents.own_secrets import stored_secret

COOKIE = "interleave-guest"
SECRET_NAME = "guests.secret"
SECONDS = 400 * 86400
"""As long as browsers keep a cookie at most."""
MAY = frozenset({"submit", "read"})
_VALUE = re.compile(r"(guest-[0-9a-f]{24})\.([0-9a-f]{32})\Z")


@dataclass(frozen=True)
class GuestQuota:
    """What one guest may do."""

    max_jobs: int = 2
    """Documents that wait or are made at once."""
    per_hour: int = 20


class Guests:
    """Makes and checks the cookies of guests."""

    def __init__(self, folder: Path, quota: GuestQuota) -> None:
        self.path = folder / SECRET_NAME
        self.quota = quota
        self._secret = b""

    def caller_in(self, headers: Mapping[str, str]) -> Caller | None:
        """The guest who sent a request; None where it has no cookie of ours."""
        found = _VALUE.match(cookie_in(headers, COOKIE) or "")
        if found is None or not hmac.compare_digest(self._signature(found[1]), found[2]):
            return None
        return Caller(found[1], MAY, self.quota.max_jobs, self.quota.per_hour, is_guest=True)

    def new_cookie(self, *, embedded: bool) -> str:
        """The header that sets a guest's cookie.

        `embedded`: also where the page is in a frame of another site, which needs HTTPS.
        """
        id_ = f"guest-{secrets.token_hex(12)}"
        where = "SameSite=None; Secure; Partitioned" if embedded else "SameSite=Strict"
        return f"{COOKIE}={id_}.{self._signature(id_)}; Path=/; HttpOnly; Max-Age={SECONDS}; {where}"

    def _signature(self, id_: str) -> str:
        self._secret = self._secret or stored_secret(self.path)
        return hmac.new(self._secret, id_.encode(), hashlib.sha256).hexdigest()[:32]
