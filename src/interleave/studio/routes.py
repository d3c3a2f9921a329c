"""The routes of the studio, besides those that every client of the service has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from interleave.service.documents.guests import Guests
from interleave.service.documents.keys import COOKIE, Caller, KeyAccess
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.requests import value_json
from interleave.service.documents.service import Documents
from interleave.service.http.auth import secret_of
from interleave.service.http.middleware import CALLER
from interleave.studio.page import PageFile
from interleave.studio.start import StartFacts

if TYPE_CHECKING:
    from starlette.requests import Request

SESSION_SECONDS = 90 * 86400


class PageRoutes:
    """The page, what it is told first, and signing in."""

    def __init__(self, documents: Documents, access: KeyAccess, page: PageFile) -> None:
        self.documents = documents
        self.access = access
        self.page = page
        self.facts = StartFacts(documents)

    async def show(self, request: Request) -> Response:
        """`GET /`."""
        page = await self.documents.in_thread(self.page.read)
        headers = {
            "content-security-policy": page.policy,
            "etag": page.etag,
            "cache-control": "no-cache",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
        }
        guests = self.access.guests
        if isinstance(guests, Guests) and not isinstance(request.scope[CALLER], Caller):
            embedded = (self.documents.settings.public_url or "").startswith("https:")
            headers["set-cookie"] = guests.new_cookie(embedded=embedded)
        if request.headers.get("if-none-match") == page.etag:
            return Response(status_code=304, headers=headers)
        return Response(page.body, headers=headers, media_type="text/html; charset=utf-8")

    async def start(self, request: Request) -> Response:
        caller = request.scope[CALLER]
        if not isinstance(caller, Caller):
            return value_json(self.facts.signed_out())
        return value_json(await self.documents.in_thread(self.facts.of, caller, self.access.has_keys))

    async def sign_in(self, request: Request) -> Response:
        """Keep the key of this request in a cookie that scripts cannot read."""
        secret = secret_of(request.headers.get("authorization", ""))
        if secret is None or self.access.caller_with(secret) is None:
            raise ApiRefusal("send the key as Authorization: Bearer KEY", status=401, code="invalid_api_key")
        response = Response(status_code=204)
        self._set(request, response, secret, SESSION_SECONDS)
        return response

    async def sign_out(self, request: Request) -> Response:
        response = Response(status_code=204)
        self._set(request, response, "", 0)
        return response

    def _set(self, request: Request, response: Response, secret: str, seconds: int) -> None:
        response.set_cookie(
            COOKIE,
            secret,
            max_age=seconds,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
