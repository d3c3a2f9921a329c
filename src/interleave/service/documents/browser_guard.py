"""CSRF protection: requests from a browser that change something need a header of the studio's page.

A page of another site cannot send that header: CORS would require a permission that is never given. Other
clients do not need it.
"""

from __future__ import annotations

from interleave.service.documents.refusals import ApiRefusal
from interleave.service.http.middleware import Application, Scope, Send
from interleave.service.http.request_bodies import Receive

HEADER = "x-interleave-studio"
READING = frozenset({"GET", "HEAD"})
BROWSERS_SEND = frozenset({b"origin", b"sec-fetch-site"})


class ChangesGuard:
    """ASGI application that passes read-only requests, and changes with the header."""

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in READING:
            names = {name.lower() for name, _ in scope["headers"]}
            if names & BROWSERS_SEND and HEADER.encode() not in names:
                raise ApiRefusal(
                    f"changes from a browser need the header {HEADER}, which the studio page sends",
                    status=403,
                    code="header_missing",
                )
        await self.app(scope, receive, send)
