"""The digest chain of a journal: a line that is changed, removed, added or moved is noticed.

Every line ends with a digest of its own content and of the digest of the line before it. A journal that was
begun without digests gets them from the first line that is added; its digest covers everything before it.
The chain protects against damage, not against forgery: any writer of the file can compute it.
"""

from __future__ import annotations

import hashlib
import re

from interleave.errors import BrokenChain
from interleave.types import Value

DIGEST_BYTES = 8
_SEAL = re.compile(rb',"digest":"([0-9a-f]{16})"\}')


class JournalPosition(Value):
    """A place in a journal: after this many lines, the last of which has this digest."""

    lines: int = 0
    digest: str = ""
    """Empty where the last line has none."""


class DigestChain:
    """The state of the chain after the lines so far: what the digest of the next line is computed from."""

    def __init__(self) -> None:
        self.lines = 0
        self.digest = b""
        self._undigested = hashlib.blake2b(digest_size=DIGEST_BYTES)
        """Over everything, as long as no line has a digest."""

    @classmethod
    def at_end_of(cls, data: bytes) -> DigestChain:
        """The chain after these complete lines, which are not checked."""
        chain = cls()
        chain.lines = data.count(b"\n")
        chain.digest = last_digest(data)
        if not chain.digest:
            chain._undigested.update(data)
        return chain

    @property
    def position(self) -> JournalPosition:
        return JournalPosition(lines=self.lines, digest=self.digest.decode())

    def seal(self, line: bytes) -> bytes:
        """The next line, a JSON object, with its digest as the last field."""
        self.digest = self._next(line)
        self.lines += 1
        return b'%b,"digest":"%b"}' % (line[:-1], self.digest)

    def unseal(self, line: bytes) -> bytes:
        """The next line without its digest; raises `BrokenChain` where it is not what was written."""
        found = _SEAL.search(line, max(0, len(line) - _SEAL_BYTES))
        if found is None:
            if self.digest:
                raise BrokenChain("it has no digest, and the line before it has one")
            self._undigested.update(line + b"\n")
            self.lines += 1
            return line
        content = line[: found.start()] + b"}"
        if self._next(content) != found.group(1):
            raise BrokenChain(
                "its digest does not fit: it was altered, or lines before it are missing or moved"
            )
        self.digest = found.group(1)
        self.lines += 1
        return content

    def continues_in(self, rest: bytes) -> bool:
        """Whether bytes without a line break hold the whole next line: then the break itself was altered.

        A torn line, never finished, ends inside itself, or in the zeros of a disk that lost power.
        """
        return any(
            self._next(rest[: found.start()] + b"}") == found.group(1)
            for found in _SEAL.finditer(rest)
            if rest[found.end() : found.end() + 1] not in (b"", b"\0")
        )

    def _next(self, content: bytes) -> bytes:
        before = self.digest or self._undigested.hexdigest().encode()
        return hashlib.blake2b(before + content, digest_size=DIGEST_BYTES).hexdigest().encode()


_SEAL_BYTES = len(b',"digest":""}') + 2 * DIGEST_BYTES


def last_digest(data: bytes) -> bytes:
    """The digest of the last of these complete lines; empty where it has none."""
    found = _SEAL.search(data, max(0, len(data) - _SEAL_BYTES - 1))
    return found.group(1) if found and data.endswith(b"}\n") else b""
