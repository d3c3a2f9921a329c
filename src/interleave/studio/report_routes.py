"""Reports in the studio: a listing for readers, and files for holders of a ticket.

A page is shown in a sandboxed frame, and its images can be clicked. The policy in the response header
applies: no script of the page runs, only images of the same folder load, and the page has an opaque origin,
so that it can read or request nothing else. One script of ours is allowed by its hash. It reports clicked
images and the shown page to the studio, which trusts neither.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from starlette.responses import HTMLResponse, Response

from interleave.plugin import files
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.routes import OPEN, Call, ReadCall, Router, per_service, value_json
from interleave.studio.page import hashes, policy
from interleave.studio.reports import PREFIX, ReportFolders
from interleave.studio.schemas import Reports

FILE_ROUTE = PREFIX + "{ticket}/{path:path}"
MAX_BYTES = 200_000_000
COPIES = 3
"""Memory to prepare a page, as a multiple of its size."""
SCRIPT = """
const say = (words) => parent.postMessage({ interleave: "report", ...words }, "*");
say({ at: location.pathname, hash: location.hash });
addEventListener("hashchange", () => say({ at: location.pathname, hash: location.hash }));
addEventListener("click", (event) => {
  const image = event.target instanceof Element ? event.target.closest("img") : null;
  if (!image?.currentSrc) return;
  event.preventDefault();
  const all = [...document.images].filter((each) => each.currentSrc);
  say({ image: image.currentSrc, alt: image.alt, number: all.indexOf(image) + 1, of: all.length });
}, true);
const style = document.createElement("style");
style.textContent = "img { cursor: zoom-in; }";
document.head.append(style);
"""
HEAD_BYTES = 20_000
"""The first bytes of a page, searched for its policy."""
_OWN_POLICY = re.compile(
    rb"<meta\s[^<>]{0,200}http-equiv=[\"']?content-security-policy[^<>]{0,2000}>", re.IGNORECASE
)
"""A page's own policy, removed because it would forbid our script. The header is at least as strict."""
_HEAD = re.compile(rb"<head\b[^<>]{0,200}>", re.IGNORECASE)


def report_router(reports: Sequence[Path], frame_ancestors: tuple[str, ...]) -> Router:
    """Return the routes of `/v1/studio/reports`, for the reports in these folders."""
    routes = _ReportRoutes(reports, frame_ancestors)
    router = Router()
    router.get("/v1/studio/reports", response_model=Reports)(routes.listing)
    router.get(FILE_ROUTE, response_class=HTMLResponse, openapi_extra=OPEN)(routes.file)
    return router


class _ReportRoutes:
    def __init__(self, reports: Sequence[Path], frame_ancestors: tuple[str, ...]) -> None:
        self._folders = per_service(lambda documents: ReportFolders(reports, documents.folders.root))
        self.headers = {
            "content-security-policy": report_policy(frame_ancestors),
            "cache-control": "private, no-cache",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
        }

    async def listing(self, call: ReadCall) -> Response:
        """Reports under the studio's folders."""
        if call.caller.is_guest:
            raise ApiRefusal("guests see no reports", status=403, code="insufficient_permissions")
        folders = await self._folders(call.request)
        return value_json(await call.documents.in_thread(folders.listing))

    async def file(self, call: Call, ticket: str, path: str) -> Response:
        """A file of a report folder. It needs no key, because its ticket is signed."""
        folders = await self._folders(call.request)
        found = await call.documents.in_thread(folders.file, ticket, path)
        if found is None:
            raise unknown("report", path)
        try:
            size = found.path.stat().st_size
            await call.lease.reserve(COPIES * min(size, MAX_BYTES), asyncio.get_running_loop().time() + 60)
            data = await call.documents.in_thread(lambda: files.read_bytes(found.path, most_bytes=MAX_BYTES))
        except OSError:
            raise unknown("report", path) from None
        body = await call.documents.in_thread(framed_page, data) if found.is_page else data
        call.lease.keep(len(body))
        return Response(body, headers=self.headers, media_type=found.media_type)


def report_policy(frame_ancestors: tuple[str, ...] = ()) -> str:
    """Return the policy of all files sent from a report folder."""
    rules = {
        "default-src": ["'none'"],
        "script-src": hashes([SCRIPT]),
        "style-src": ["'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'self'", *frame_ancestors],
        "sandbox": ["allow-scripts"],
    }
    return policy(rules)


def framed_page(page: bytes) -> bytes:
    """Insert our script into a report's head, or at its end if it has none."""
    head, rest = _OWN_POLICY.sub(b"", page[:HEAD_BYTES]), page[HEAD_BYTES:]
    script = b"<script>" + SCRIPT.encode() + b"</script>"
    found = _HEAD.search(head)
    if found is None:
        return b"".join((head, rest, script))
    return b"".join((head[: found.end()], script, head[found.end() :], rest))
