"""The studio's page: one self-contained file, its Content-Security-Policy, and its routes."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated

from fastapi import Depends
from starlette.responses import HTMLResponse, Response

from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.routes import (
    OPEN,
    Call,
    RequestContext,
    Router,
    per_service,
    value_json,
)
from interleave.service.documents.sessions import COOKIE, KEY_COOKIE, SESSION_SECONDS
from interleave.service.http.auth import secret_of
from interleave.service.http.middleware import CALLER
from interleave.studio.schemas import Start
from interleave.studio.start import StartFacts

PAGE = Path(__file__).parent / "static" / "studio.html"
NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>interleave</title></head>
<body><p>The page of the studio is missing from this installation. Build it with
<code>npm ci &amp;&amp; npm run build</code> in the folder <code>studio</code>, or install it again.</p>
</body></html>
"""


@dataclass(frozen=True)
class Page:
    """The page as sent."""

    body: bytes
    packed: bytes
    """The body, compressed."""
    policy: str
    etag: str


class PageFile:
    """A page on disk, read again when it changes."""

    def __init__(self, path: Path = PAGE, *, frame_ancestors: tuple[str, ...] = ()) -> None:
        self.path = path
        self.frame_ancestors = frame_ancestors
        """Sites that may embed the page in a frame."""
        self._stamp: tuple[int, int] | None = None
        self._page: Page | None = None

    def read(self) -> Page:
        """Return the page. Reads the disk, so run it in a thread."""
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
        digest = hashlib.sha256(body + policy.encode()).hexdigest()[:32]
        return Page(body, gzip.compress(body, mtime=0), policy, f'W/"{digest}"')


def page_router(page: PageFile) -> Router:
    """Return the routes of the page, its initial data, and signing in."""
    routes = _PageRoutes(page)
    router = Router()
    router.get("/", response_class=HTMLResponse, openapi_extra=OPEN)(routes.show)
    router.get("/v1/studio/start", response_model=Start, openapi_extra=OPEN)(start)
    router.post("/v1/studio/session", status_code=204)(sign_in)
    router.delete("/v1/studio/session", status_code=204)(sign_out)
    return router


class _PageRoutes:
    def __init__(self, page: PageFile) -> None:
        self.page = page

    async def show(self, call: Call) -> Response:
        """The studio's page. It makes a visitor without a key a guest, if guests are allowed."""
        request, documents = call.request, call.documents
        page = await documents.in_thread(self.page.read)
        headers = {
            "content-security-policy": page.policy,
            "etag": page.etag,
            "cache-control": "no-cache",
            "vary": "Accept-Encoding",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
        }
        guests = request.app.state.access.guests
        if guests is not None and not isinstance(request.scope[CALLER], Caller):
            embedded = (documents.settings.public_url or "").startswith("https:")
            headers["set-cookie"] = guests.new_cookie(embedded=embedded)
        if request.headers.get("if-none-match") == page.etag:
            return Response(status_code=304, headers=headers)
        packed = "gzip" in request.headers.get("accept-encoding", "")
        response = HTMLResponse(
            page.packed if packed else page.body,
            headers=headers | ({"content-encoding": "gzip"} if packed else {}),
        )
        if KEY_COOKIE in request.cookies:
            response.delete_cookie(KEY_COOKIE)
        return response


async def start(call: Call, facts: Annotated[StartFacts, Depends(per_service(StartFacts))]) -> Response:
    """Features and settings of the studio."""
    caller = call.request.scope[CALLER]
    if not isinstance(caller, Caller):
        return value_json(facts.signed_out())
    return value_json(
        await call.documents.in_thread(facts.of, caller, call.request.app.state.access.has_keys)
    )


async def sign_in(call: Call) -> Response:
    """Start a session with the key of this request, in a cookie that scripts cannot read."""
    secret = secret_of(call.request.headers.get("authorization", ""))
    token = call.request.app.state.access.session_for(secret) if secret is not None else None
    if token is None:
        raise ApiRefusal("send the key as Authorization: Bearer KEY", status=401, code="invalid_api_key")
    return _with_cookie(call, token, SESSION_SECONDS)


async def sign_out(call: Call) -> Response:
    """End the session."""
    return _with_cookie(call, "", 0)


def _with_cookie(call: RequestContext, token: str, seconds: int) -> Response:
    response = Response(status_code=204)
    response.set_cookie(
        COOKIE,
        token,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=_came_by_https(call),
    )
    return response


def _came_by_https(call: RequestContext) -> bool:
    """Return whether the browser called by HTTPS, as a proxy in front of the service says.

    Anyone may send the header of a proxy, but it can only restrict the sender's own cookie.
    """
    forwarded = call.request.headers.get("x-forwarded-proto", "")
    return "https" in (forwarded, (call.documents.settings.public_url or "").partition(":")[0])


def page_policy(page: str, frame_ancestors: tuple[str, ...] = ()) -> str:
    """Return a Content-Security-Policy that allows only the page's own scripts and styles, by hash."""
    inline = _Inline()
    inline.feed(page)
    inline.close()
    rules = {
        "default-src": ["'none'"],
        "script-src": hashes(inline.found["script"]),
        "style-src": hashes(inline.found["style"]),
        "img-src": ["'self'", "data:", "blob:"],
        "font-src": ["data:"],
        "connect-src": ["'self'"],
        "frame-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": list(frame_ancestors) or ["'none'"],
    }
    return policy(rules)


def policy(rules: Mapping[str, Sequence[str]]) -> str:
    """Format a Content-Security-Policy header."""
    return "; ".join(f"{name} {' '.join(values)}" for name, values in rules.items())


def hashes(texts: Sequence[str]) -> list[str]:
    """Return the sources that allow these scripts or styles and no others."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return [f"'sha256-{digest}'" for digest in digests] or ["'none'"]


class _Inline(HTMLParser):
    """Collects the scripts and styles of a page."""

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
