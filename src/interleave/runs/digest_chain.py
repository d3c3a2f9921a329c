"""Digests that tie the lines of a journal together, so that no line changes, goes, comes or moves unnoticed.

Every line ends with a digest of its own content and of the digest of the line before it. A journal that was
begun without digests gets them from the first line that is added; that one takes in everything before it.
They are against damage, not against forgery: whoever can write the file can compute them.
"""

from __future__ import annotations

import hashlib
import re

from interleave.types import Value

DIGEST_BYTES = 8
_SEAL = re.compile(rb',"digest":"([0-9a-f]{16})"\}')


class Mark(Value):
    """How far a journal goes."""

    lines: int = 0
    digest: str = ""
    """That of its last line; empty where that has none."""


class BrokenChain(ValueError):
    """A line does not follow from the one before it; the message says what is wrong with it."""


class Chain:
    """The lines of a journal so far, as far as the next one must know them."""

    def __init__(self) -> None:
        self.lines = 0
        self.digest = b""
        self._before = hashlib.blake2b(digest_size=DIGEST_BYTES)
        """Of everything, as long as no line has a digest."""

    @classmethod
    def at_the_end_of(cls, data: bytes) -> Chain:
        """The chain after these whole lines, which are taken as they are."""
        chain = cls()
        chain.lines = data.count(b"\n")
        chain.digest = digest_at_the_end_of(data)
        if not chain.digest:
            chain._before.update(data)
        return chain

    @property
    def mark(self) -> Mark:
        return Mark(lines=self.lines, digest=self.digest.decode())

    def seal(self, line: bytes) -> bytes:
        """The JSON object of the next line with its digest as the last field."""
        self.digest = self._next(line)
        self.lines += 1
        return b'%b,"digest":"%b"}' % (line[:-1], self.digest)

    def unseal(self, line: bytes) -> bytes:
        """The next line without its digest; raises `BrokenChain` when it is not the one that was written."""
        found = _SEAL.search(line, max(0, len(line) - _SEAL_BYTES))
        if found is None:
            if self.digest:
                raise BrokenChain("it has no digest, and the line before it has one")
            self._before.update(line + b"\n")
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

    def goes_on_in(self, rest: bytes) -> bool:
        """Whether the next line stands whole in what has no line break: then the break itself was altered.

        A line that was never finished ends somewhere in itself, or in the zeros of a disk that lost power.
        """
        return any(
            self._next(rest[: found.start()] + b"}") == found.group(1)
            for found in _SEAL.finditer(rest)
            if rest[found.end() : found.end() + 1] not in (b"", b"\0")
        )

    def _next(self, content: bytes) -> bytes:
        before = self.digest or self._before.hexdigest().encode()
        return hashlib.blake2b(before + content, digest_size=DIGEST_BYTES).hexdigest().encode()


_SEAL_BYTES = len(b',"digest":""}') + 2 * DIGEST_BYTES


def digest_at_the_end_of(data: bytes) -> bytes:
    """The digest of the last of these whole lines; empty where it has none."""
    found = _SEAL.search(data, max(0, len(data) - _SEAL_BYTES - 1))
    return found.group(1) if found and data.endswith(b"}\n") else b""
