"""The page of the studio: one self-contained file, and the policy under which browsers run it."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

PAGE = Path(__file__).parent / "static" / "studio.html"
NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>interleave</title></head>
<body><p>The page of the studio is missing from this installation. Build it with
<code>npm ci &amp;&amp; npm run build</code> in the folder <code>studio</code>, or install it again.</p>
</body></html>
"""


@dataclass(frozen=True)
class Page:
    """The page as it is sent."""

    body: bytes
    policy: str
    etag: str


class PageFile:
    """A page on disk, read again when it changes."""

    def __init__(self, path: Path = PAGE, *, frame_ancestors: tuple[str, ...] = ()) -> None:
        self.path = path
        self.frame_ancestors = frame_ancestors
        """Sites that may show the page in a frame."""
        self._stamp: tuple[int, int] | None = None
        self._page: Page | None = None

    def read(self) -> Page:
        """The page; reads the disk, so run it in a thread."""
        try:
            found = self.path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            if self._page is None or stamp != self._stamp:
                self._page, self._stamp = self._made(self.path.read_text("utf-8")), stamp
            return self._page
        except FileNotFoundError:
            return self._made(NOT_BUILT)

    def _made(self, text: str) -> Page:
        body = text.replace("\r\n", "\n").encode()
        policy = page_policy(body.decode(), self.frame_ancestors)
        return Page(body, policy, f'"{hashlib.sha256(body + policy.encode()).hexdigest()[:32]}"')


def page_policy(page: str, frame_ancestors: tuple[str, ...] = ()) -> str:
    """A Content-Security-Policy that allows the scripts and styles in a page by their hashes alone."""
    inline = _Inline()
    inline.feed(page)
    inline.close()
    rules = {
        "default-src": ["'none'"],
        "script-src": _hashes(inline.found["script"]),
        "style-src": _hashes(inline.found["style"]),
        "img-src": ["'self'", "data:", "blob:"],
        "font-src": ["data:"],
        "connect-src": ["'self'"],
        "frame-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": list(frame_ancestors) or ["'none'"],
    }
    return "; ".join(f"{name} {' '.join(values)}" for name, values in rules.items())


def _hashes(texts: list[str]) -> list[str]:
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return [f"'sha256-{digest}'" for digest in digests] or ["'none'"]


class _Inline(HTMLParser):
    """Collects the contents of the scripts and styles of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: dict[str, list[str]] = {"script": [], "style": []}
        self._in: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.found:
            self._in = tag
            self.found[tag].append("")

    def handle_data(self, data: str) -> None:
        if self._in is not None:
            self.found[self._in][-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == self._in:
            self._in = None
