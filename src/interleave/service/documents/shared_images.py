"""Signed image addresses, which work without an API key.

A browser that shows an answer sends no key with `<img>`. So the address in an answer carries a signature of
the job and the image. It gives access to this image only, until its document is deleted. A client that sends
an answer back in its next request refers to images by these addresses; the service reads them from disk and
fetches nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from interleave.service.documents.own_secrets import stored_secret

PREFIX = "/v1/pictures/"
ROUTE = "/v1/pictures/{id}/{signature}/{name}"
SECRET_NAME = "pictures.secret"
SIGNATURE_CHARACTERS = 32
_PATH = rf"{PREFIX}(resp_[0-9a-f]{{48}})/([0-9a-f]{{{SIGNATURE_CHARACTERS}}})/([0-9a-f]{{64}}\.png)"
_ADDRESS = re.compile(rf"(?:https?://[^/\s]{{1,300}})?{_PATH}\Z")
_MARKDOWN = re.compile(rf"!\[[^\]\n]{{0,300}}\]\(((?:https?://[^/\s()]{{1,300}})?{_PATH})\)")
_HOST = re.compile(r"[A-Za-z0-9.\-]{1,253}(:[0-9]{1,5})?\Z|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?\Z")


@dataclass(frozen=True)
class SharedImage:
    """An image of a job, and the signature that grants access to it."""

    job: str
    signature: str
    name: str


class ImageAddresses:
    """Signer and verifier of image addresses."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SECRET_NAME
        self._secret = b""

    def prepare(self) -> None:
        """Read or create the secret at startup, before a request needs it."""
        self._key()

    def path_of(self, job: str, name: str) -> str:
        """Return the path of an image address, without the host."""
        return f"{PREFIX}{job}/{self._signature(job, name)}/{name}"

    def allows(self, image: SharedImage) -> bool:
        return hmac.compare_digest(self._signature(image.job, image.name), image.signature)

    def _signature(self, job: str, name: str) -> str:
        digest = hmac.new(self._key(), f"{job}/{name}".encode(), hashlib.sha256).hexdigest()
        return digest[:SIGNATURE_CHARACTERS]

    def _key(self) -> bytes:
        """Return the secret of this service. It is on disk, so addresses survive a restart."""
        self._secret = self._secret or stored_secret(self.path)
        return self._secret


def origin_of(scheme: str, host: str) -> str:
    """Return the base URL from the client's request; empty if its host is invalid."""
    return f"{scheme}://{host}" if scheme in ("http", "https") and _HOST.match(host) else ""


def shared_image(url: str) -> SharedImage | None:
    """Return the image of a signed address on any host; only the signature counts."""
    found = _ADDRESS.match(url) if len(url) < 1000 else None
    return SharedImage(*found.groups()) if found else None


def split_at_images(text: str) -> Iterator[str | SharedImage]:
    """Split Markdown with signed image addresses into texts and images."""
    at = 0
    for found in _MARKDOWN.finditer(text):
        if text[at : found.start()].strip():
            yield text[at : found.start()]
        yield SharedImage(*found.groups()[1:])
        at = found.end()
    if text[at:].strip() or not at:
        yield text[at:]
