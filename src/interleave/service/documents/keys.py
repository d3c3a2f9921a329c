"""Who may do what: API keys, hashed at rest in a file, with scopes and quotas; and guests without one.

One key never sees the jobs of another. Keys are random, so a plain hash of one cannot be reversed by
guessing. The file may be changed while the service runs, with `interleave serve keys`; a revoked key is
refused from the next request on.
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
"""The header in which Google's clients send their key."""
COOKIE = "interleave-key"
"""The cookie in which the studio's page sends it: images and downloads carry no header."""
GUEST_COOKIE = "interleave-guest"
GUEST_SECRET = "guests.secret"
GUEST_SECONDS = 400 * 86400
"""As long as browsers keep a cookie at most."""
GUESTS_MAY = frozenset({"submit", "read"})
_GUEST = re.compile(r"(guest-[0-9a-f]{24})\.([0-9a-f]{32})\Z")


class ApiKey(Value):
    """An API key as the file holds it: never the key itself."""

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created: float
    revoked: float | None = None
    max_jobs: int | None = Field(default=None, ge=1)
    """The most jobs that may wait or run at once; None for the service's own limit."""
    per_hour: int | None = Field(default=None, ge=1)
    """The most jobs that may be submitted in an hour; None for no limit."""


_KEYS: TypeAdapter[list[ApiKey]] = TypeAdapter(list[ApiKey])


@dataclass(frozen=True)
class Caller:
    """Who sent a request, and what they may do."""

    key: str = ""
    scopes: frozenset[str] = frozenset(SCOPES)
    max_jobs: int | None = None
    per_hour: int | None = None
    is_guest: bool = False
    """Whether it is a visitor without an API key."""
    name: str = ""
    """The name of the API key, for people."""

    def require(self, scope: str) -> None:
        if scope not in self.scopes and "admin" not in self.scopes:
            raise ApiRefusal(
                f"this key has not the scope {scope!r}: ask the operator for one that has",
                status=403,
                code="insufficient_permissions",
            )

    @property
    def sees(self) -> str | None:
        """The key whose jobs it sees; None for those of all keys."""
        return None if "admin" in self.scopes else self.key


ANYBODY = Caller()
"""Whoever reaches a service without keys, which only this machine can."""


def read_keys(path: Path) -> list[ApiKey]:
    """All keys of a file, revoked ones too; none where there is no file."""
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
    """A new key, and the secret that is shown once and stored nowhere."""
    unknown = next((scope for scope in scopes if scope not in SCOPES), None)
    if unknown is not None or not scopes:
        raise ConfigurationError(f"there is no scope {unknown!r}: scopes are {', '.join(SCOPES)}")
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
                f"there is a key named {name!r} already: revoke it, or take another name"
            )
        _write(path, [*keys, key])
    return key, secret


def revoke_key(path: Path, name: str) -> ApiKey:
    """Revoke the key with this name or id; its jobs stay."""
    with folder_lock(path.parent, LOCK_NAME):
        keys = read_keys(path)
        found = next((key for key in keys if name in (key.name, key.id) and key.revoked is None), None)
        if found is None:
            raise ConfigurationError(f"there is no key {name!r} in {path}: see 'interleave serve keys list'")
        revoked = found.model_copy(update={"revoked": round(time.time(), 3)})
        _write(path, [revoked if key is found else key for key in keys])
    return revoked


def _write(path: Path, keys: list[ApiKey]) -> None:
    write_atomic(path, json.dumps([key.model_dump() for key in keys], indent=1).encode() + b"\n")
    os.chmod(path, 0o600)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def cookie_in(headers: Mapping[str, str], name: str) -> str | None:
    """A cookie of a request; of several with one name, the first."""
    for pair in headers.get("cookie", "").split(";"):
        found, _, value = pair.strip().partition("=")
        if found == name:
            return value
    return None


@dataclass(frozen=True)
class GuestQuota:
    """What one guest may do."""

    max_jobs: int = 2
    """Documents that wait or are made at once."""
    per_hour: int = 20


class Guests:
    """Visitors of a public studio without an API key, each of whom sees their own documents only.

    A guest is identified by a signed cookie that comes with the page. Without the cookie the same visitor is
    a new guest: the quota keeps fair users apart, and the limits of the service hold for all of them.
    """

    def __init__(self, folder: Path, quota: GuestQuota) -> None:
        self.path = folder / GUEST_SECRET
        self.quota = quota
        self._secret = b""

    def caller_in(self, headers: Mapping[str, str]) -> Caller | None:
        """The guest who sent a request; None where it has no cookie of ours."""
        found = _GUEST.match(cookie_in(headers, GUEST_COOKIE) or "")
        if found is None or not hmac.compare_digest(self._signature(found[1]), found[2]):
            return None
        return Caller(found[1], GUESTS_MAY, self.quota.max_jobs, self.quota.per_hour, is_guest=True)

    def new_cookie(self, *, embedded: bool) -> str:
        """The header that sets a guest's cookie.

        `embedded`: also where the page is in a frame of another site, which needs HTTPS.
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
    """Checks the headers of every request against the keys in a file, which is read again when it changes.

    Without any key only this machine is served, unless there are guests. A file whose keys are all revoked
    refuses every other machine.
    """

    def __init__(self, path: Path, guests: Guests | None = None) -> None:
        """`guests` tells who has no key and may do something nevertheless."""
        self.path = path
        self.guests = guests
        self.is_open: Callable[[str], bool] = OPEN_PATHS.__contains__
        """Whether a path needs no key; the application knows, which has the routes."""
        self._stamp: tuple[int, ...] | None = None
        self._by_digest: dict[str, ApiKey] = {}
        self.has_keys = False
        self._refresh()

    def check(self, path: str, headers: Mapping[str, str]) -> Caller | None:
        """Raise a `Refusal` for a request that is not authorized; returns who sent it."""
        refuse_foreign_pages(headers)
        self._refresh()
        if not self.has_keys and self.guests is None:
            refuse_foreign_names(headers)
            return ANYBODY
        given = secret_of(headers.get("authorization", "")) or headers.get(GOOGLE_KEY)
        secret = given or cookie_in(headers, COOKIE)
        if secret and (caller := self.caller_with(secret)) is not None:
            return caller
        if self.guests is not None and (guest := self.guests.caller_in(headers)) is not None:
            return guest
        if not self.is_open(path):
            raise ApiRefusal(
                "an API key is needed: send Authorization: Bearer KEY, or x-goog-api-key: KEY",
                status=401,
                code="invalid_api_key",
            )
        return None

    def caller_with(self, secret: str) -> Caller | None:
        """Who has this key; None where there is no such key, or it was revoked."""
        key = self._by_digest.get(digest_of(secret))
        if key is None:
            return None
        return Caller(key.id, frozenset(key.scopes), key.max_jobs, key.per_hour, name=key.name)

    def _refresh(self) -> None:
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return
        try:
            keys = read_keys(self.path)
        except ConfigurationError as error:
            if self._stamp is None:
                raise
            log.error("%s; the keys from before stay in force", error)
            self._stamp = stamp
            return
        if self.has_keys and not keys:
            log.error("%s is gone: nobody is let in until it is back", self.path)
        self._stamp = stamp
        self._by_digest = {key.digest: key for key in keys if key.revoked is None}
        self.has_keys = self.has_keys or bool(keys)  # a file that vanishes does not open the service


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)
