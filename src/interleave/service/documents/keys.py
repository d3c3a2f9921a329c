"""Access control: API keys with scopes and quotas, hashed in a file, and guests without a key.

One key never sees the jobs of another. Keys are random, so a plain hash cannot be reversed by guessing. The
file may be changed with `interleave serve keys` while the service runs; a revoked key is refused from the
next request on.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError

from interleave import ConfigurationError
from interleave.plugin import Value, folder_lock, write_atomic
from interleave.service.documents.own_secrets import stored_secret
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.sessions import COOKIE, Sessions
from interleave.service.http.auth import OPEN_PATHS, refuse_foreign_names, refuse_foreign_pages, secret_of

log = logging.getLogger(__name__)
FILE_NAME = "keys.json"
LOCK_NAME = "keys.lock"
SCOPES = {
    "submit": "submit, cancel, delete and label its own jobs, upload images",
    "read": "see its own jobs and documents",
    "admin": "everything, of all keys, and the metrics",
}
PREFIX = "ilk-"
GOOGLE_KEY = "x-goog-api-key"
"""Header with the key of Google's clients."""
GUEST_COOKIE = "interleave-guest"
GUEST_SECRET = "guests.secret"
GUEST_SECONDS = 400 * 86400
"""Maximum lifetime of a cookie in browsers."""
GUESTS_MAY = frozenset({"submit", "read"})
_GUEST = re.compile(r"(guest-[0-9a-f]{24})\.([0-9a-f]{32})\Z")


class ApiKey(Value):
    """An API key as stored in the file, which never contains the secret."""

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created: float
    revoked: float | None = None
    max_jobs: int | None = Field(default=None, ge=1)
    """Maximum open jobs; `None` for the limit of the service."""
    per_hour: int | None = Field(default=None, ge=1)
    """Maximum submissions per hour; `None` for no limit."""


_KEYS: TypeAdapter[list[ApiKey]] = TypeAdapter(list[ApiKey])


@dataclass(frozen=True)
class Caller:
    """Sender of a request, with scopes and quotas."""

    key: str = ""
    scopes: frozenset[str] = frozenset(SCOPES)
    max_jobs: int | None = None
    per_hour: int | None = None
    is_guest: bool = False
    """Whether the sender is a visitor without an API key."""
    name: str = ""
    """Readable name of the API key."""

    def require(self, scope: str) -> None:
        if scope not in self.scopes and "admin" not in self.scopes:
            raise ApiRefusal(
                f"this key does not have the scope {scope!r}: ask the operator for one that does",
                status=403,
                code="insufficient_permissions",
            )

    @property
    def sees(self) -> str | None:
        """The key whose jobs it may see; `None` for all keys."""
        return None if "admin" in self.scopes else self.key


LOCAL_CALLER = Caller()
"""Sender on a service without keys, which only this machine can reach."""


def read_keys(path: Path) -> list[ApiKey]:
    """Return all keys of a file, including revoked ones; none if there is no file."""
    try:
        return _KEYS.validate_json(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValidationError) as error:
        raise ConfigurationError(f"the API keys in {path} cannot be read: {error}") from None


def add_key(
    path: Path,
    name: str,
    scopes: Sequence[str] = ("submit", "read"),
    *,
    max_jobs: int | None = None,
    per_hour: int | None = None,
) -> tuple[ApiKey, str]:
    """Create a key and return it with its secret, which is stored nowhere."""
    unknown = next((scope for scope in scopes if scope not in SCOPES), None)
    if unknown is not None or not scopes:
        raise ConfigurationError(f"no scope {unknown!r}; scopes are {', '.join(SCOPES)}")
    secret = PREFIX + secrets.token_urlsafe(32)
    key = ApiKey(
        id=f"key-{secrets.token_hex(6)}",
        name=name,
        digest=digest_of(secret),
        scopes=tuple(dict.fromkeys(scopes)),
        created=round(time.time(), 3),
        max_jobs=max_jobs,
        per_hour=per_hour,
    )
    with folder_lock(path.parent, LOCK_NAME):
        keys = read_keys(path)
        if any(each.name == name and each.revoked is None for each in keys):
            raise ConfigurationError(
                f"a key named {name!r} already exists: revoke it, or choose another name"
            )
        _write(path, [*keys, key])
    return key, secret


def revoke_key(path: Path, name: str) -> ApiKey:
    """Revoke the key with this name or id. Its jobs stay."""
    with folder_lock(path.parent, LOCK_NAME):
        keys = read_keys(path)
        found = next((key for key in keys if name in (key.name, key.id) and key.revoked is None), None)
        if found is None:
            raise ConfigurationError(f"no key {name!r} in {path}: see 'interleave serve keys list'")
        revoked = found.model_copy(update={"revoked": round(time.time(), 3)})
        _write(path, [revoked if key is found else key for key in keys])
    return revoked


def _write(path: Path, keys: list[ApiKey]) -> None:
    write_atomic(
        path, json.dumps([key.model_dump() for key in keys], indent=1).encode() + b"\n", private=True
    )


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def cookie_in(headers: Mapping[str, str], name: str) -> str | None:
    """Return a cookie of a request; the first if several have the name."""
    for pair in headers.get("cookie", "").split(";"):
        found, _, value = pair.strip().partition("=")
        if found == name:
            return value
    return None


@dataclass(frozen=True)
class GuestQuota:
    """Quota of one guest."""

    max_jobs: int = 2
    """Maximum open jobs."""
    per_hour: int = 20


class Guests:
    """Visitors of a public studio without an API key, each limited to their documents.

    A signed cookie, set with the page, identifies a guest. Without it the same visitor is a new guest,
    so the quota only separates those who keep it; the limits of the service hold for all guests together.
    """

    def __init__(self, folder: Path, quota: GuestQuota) -> None:
        self.path = folder / GUEST_SECRET
        self.quota = quota
        self._secret = b""

    def caller_in(self, headers: Mapping[str, str]) -> Caller | None:
        """Return the guest who sent a request; `None` if it has no valid cookie."""
        found = _GUEST.match(cookie_in(headers, GUEST_COOKIE) or "")
        if found is None or not hmac.compare_digest(self._signature(found[1]), found[2]):
            return None
        return Caller(found[1], GUESTS_MAY, self.quota.max_jobs, self.quota.per_hour, is_guest=True)

    def new_cookie(self, *, embedded: bool) -> str:
        """Return the header that sets a guest's cookie.

        With `embedded`, it also works in a frame of another site, which needs HTTPS.
        """
        id_ = f"guest-{secrets.token_hex(12)}"
        where = "SameSite=None; Secure; Partitioned" if embedded else "SameSite=Strict"
        return (
            f"{GUEST_COOKIE}={id_}.{self._signature(id_)}; Path=/; HttpOnly; Max-Age={GUEST_SECONDS}; {where}"
        )

    def _signature(self, id_: str) -> str:
        self._secret = self._secret or stored_secret(self.path)
        return hmac.new(self._secret, id_.encode(), hashlib.sha256).hexdigest()[:32]


class KeyAccess:
    """Header check against the keys in a file, which is read again when it changes.

    Without any key the service accepts only this machine, unless guests are allowed. If all keys of the file
    are revoked, every request without a valid key is refused.
    """

    def __init__(self, path: Path, guests: Guests | None = None) -> None:
        """`guests` identifies visitors without a key; `None` refuses them."""
        self.path = path
        self.guests = guests
        self.sessions = Sessions(path.parent)
        self.is_open: Callable[[str], bool] = OPEN_PATHS.__contains__
        """Returns whether a path needs no key; set by the application, which has the routes."""
        self._stamp: tuple[int, ...] | None = None
        self._by_digest: dict[str, ApiKey] = {}
        self._by_id: dict[str, ApiKey] = {}
        self.has_keys = False
        self._refresh()

    def check(self, path: str, headers: Mapping[str, str]) -> Caller | None:
        """Return the sender of a request; raise a `Refusal` if it is not authorized."""
        refuse_foreign_pages(headers)
        self._refresh()
        if not self.has_keys and self.guests is None:
            refuse_foreign_names(headers)
            return LOCAL_CALLER
        secret = secret_of(headers.get("authorization", "")) or headers.get(GOOGLE_KEY)
        caller = self.caller_with(secret) if secret else self._caller_of_session(headers)
        if caller is not None:
            return caller
        if self.guests is not None and (guest := self.guests.caller_in(headers)) is not None:
            return guest
        if not self.is_open(path):
            raise ApiRefusal(
                "an API key is required: send Authorization: Bearer KEY, or x-goog-api-key: KEY",
                status=401,
                code="invalid_api_key",
            )
        return None

    def caller_with(self, secret: str) -> Caller | None:
        """Return the sender with this key; `None` if it is unknown or revoked."""
        return _caller(self._by_digest.get(digest_of(secret)))

    def session_for(self, secret: str) -> str | None:
        """Return a session token for this key; `None` if it is unknown or revoked."""
        key = self._by_digest.get(digest_of(secret))
        return self.sessions.token(key.id, key.digest) if key is not None else None

    def _caller_of_session(self, headers: Mapping[str, str]) -> Caller | None:
        token = cookie_in(headers, COOKIE)
        key = self.sessions.key_in(token, self._digest_of_key) if token else None
        return _caller(self._by_id[key]) if key else None

    def _digest_of_key(self, id_: str) -> str | None:
        key = self._by_id.get(id_)
        return key.digest if key is not None else None

    def _refresh(self) -> None:
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return
        try:
            keys = read_keys(self.path)
        except ConfigurationError as error:
            if self._stamp is None:
                raise
            log.error("%s; the previous keys stay valid", error)
            self._stamp = stamp
            return
        if self.has_keys and not keys:
            log.error("%s is gone: all requests are refused until it is restored", self.path)
        self._stamp = stamp
        self._by_digest = {key.digest: key for key in keys if key.revoked is None}
        self._by_id = {key.id: key for key in self._by_digest.values()}
        self.has_keys = self.has_keys or bool(keys)  # a missing file must not open the service


def _caller(key: ApiKey | None) -> Caller | None:
    if key is None:
        return None
    return Caller(key.id, frozenset(key.scopes), key.max_jobs, key.per_hour, name=key.name)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)
