"""Addresses of images that work without an API key, for those who have been told them.

A browser that shows an answer sends no key with `<img>`. So the address in an answer carries a signature of
the job and the image: whoever has it may see this image, until its document is deleted, and nothing else.
A client that sends an answer back in the next request names images by these addresses; they are then read
from disk, and nothing is fetched.
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
SECRET_NAME = "images.secret"
SIGNATURE_CHARACTERS = 32
_PATH = rf"{PREFIX}(resp_[0-9a-f]{{48}})/([0-9a-f]{{{SIGNATURE_CHARACTERS}}})/([0-9a-f]{{64}}\.png)"
_ADDRESS = re.compile(rf"(?:https?://[^/\s]{{1,300}})?{_PATH}\Z")
_MARKDOWN = re.compile(rf"!\[[^\]\n]{{0,300}}\]\(((?:https?://[^/\s()]{{1,300}})?{_PATH})\)")
_HOST = re.compile(r"[A-Za-z0-9.\-]{1,253}(:[0-9]{1,5})?\Z|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?\Z")


@dataclass(frozen=True)
class SharedImage:
    """An image of a job, and the signature that allows to see it."""

    job: str
    signature: str
    name: str


class ImageAddresses:
    """Makes and checks the addresses of the images of a service."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SECRET_NAME
        self._secret = b""

    def prepare(self) -> None:
        """Read the secret, or make it: before anybody waits for an answer that needs it."""
        self._key()

    def path_of(self, job: str, name: str) -> str:
        """The address without the host."""
        return f"{PREFIX}{job}/{self._signature(job, name)}/{name}"

    def allows(self, image: SharedImage) -> bool:
        return hmac.compare_digest(self._signature(image.job, image.name), image.signature)

    def _signature(self, job: str, name: str) -> str:
        digest = hmac.new(self._key(), f"{job}/{name}".encode(), hashlib.sha256).hexdigest()
        return digest[:SIGNATURE_CHARACTERS]

    def _key(self) -> bytes:
        """The secret of this service: addresses outlive a restart."""
        self._secret = self._secret or stored_secret(self.path)
        return self._secret


def origin_of(scheme: str, host: str) -> str:
    """What stands before a path in an address, as the client itself has called us; empty where unclear."""
    return f"{scheme}://{host}" if scheme in ("http", "https") and _HOST.match(host) else ""


def shared_image(url: str) -> SharedImage | None:
    """The image that an address of this form names, whatever the host: only the signature counts."""
    found = _ADDRESS.match(url) if len(url) < 1000 else None
    return SharedImage(*found.groups()) if found else None


def split_at_images(text: str) -> Iterator[str | SharedImage]:
    """The texts and images of Markdown in which images stand by their addresses."""
    at = 0
    for found in _MARKDOWN.finditer(text):
        if text[at : found.start()].strip():
            yield text[at : found.start()]
        yield SharedImage(*found.groups()[1:])
        at = found.end()
    if text[at:].strip() or not at:
        yield text[at:]
