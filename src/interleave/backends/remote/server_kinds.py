"""What answers at an address that does not know our request, and how it is used instead.

After a 404 or 405 a few harmless addresses of well-known servers are asked, and what they tell is added to
the error.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interleave.backends.remote.http_client import EXPECT_ANYTHING
from interleave.backends.remote.http_errors import shorten
from interleave.backends.remote.limits import UnreadableJson, parse_json
from interleave.errors import BackendError
from interleave.text import one_line

if TYPE_CHECKING:
    import httpx2

PROBE_SECONDS = 5.0
MAX_VALUES = 200_000
MAX_PATHS = 8
DESCRIBE = "describe its fields in a file and use json:./FILE.toml@{url}"
_TITLE = re.compile(rb"<title[^>]{0,200}>([^<]{1,200})", re.IGNORECASE)

Recognize = Callable[[Any], str | None]


def _from_openapi(found: Any) -> str | None:
    """What a description of an API says, as FastAPI serves it."""
    paths = found.get("paths") if isinstance(found, dict) else None
    if not isinstance(paths, dict):
        return None
    if "/sdapi/v1/txt2img" in paths:
        return "Stable Diffusion web UI: use json:automatic1111@{url}"
    if "/predictions" in paths:
        return "a Cog container: use json:cog@{url}"
    if any(path.endswith("/images/generations") for path in paths):
        return "a server of OpenAI's Images API: use openai-images:MODEL@{url}/v1"
    posts = [path for path, calls in paths.items() if isinstance(calls, dict) and "post" in calls]
    if not posts:
        return None
    listed = ", ".join(one_line(str(path), 60) for path in posts[:MAX_PATHS])
    return f"an API with {shorten(listed)}: {DESCRIBE}"


def _comfyui(found: Any) -> str | None:
    known = isinstance(found, dict) and "devices" in found and "system" in found
    return "ComfyUI: use comfyui:WORKFLOW.json@{url}" if known else None


def _openai(found: Any) -> str | None:
    listed = found.get("data") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        return None
    named = next((each["id"] for each in listed if isinstance(each, dict) and each.get("id")), "MODEL")
    model = shorten(one_line(str(named), 60))
    return f"a server of OpenAI's API: use openai-images:{model}@{{url}}/v1 if its model draws"


def _gradio(found: Any) -> str | None:
    known = isinstance(found, dict) and "components" in found and "dependencies" in found
    return "a Gradio page, whose API needs a small plugin (interleave.generators)" if known else None


KINDS: tuple[tuple[str, Recognize], ...] = (
    ("/openapi.json", _from_openapi),
    ("/system_stats", _comfyui),
    ("/v1/models", _openai),
    ("/config", _gradio),
)


@asynccontextmanager
async def naming_what_is_there(http: httpx2.AsyncClient, url: str) -> AsyncGenerator[None]:
    """Add to a 404 or 405 what answers at this address, and what to use instead."""
    try:
        yield
    except BackendError as error:
        if error.status not in (404, 405):
            raise
        found = await kind_of_server(http)
        told = found.replace("{url}", url) if found else f"nothing we know; {DESCRIBE.replace('{url}', url)}"
        raise BackendError(
            f"{url} answered {error.status}: it does not take this request. There is {told}",
            kind=error.kind,
            status=error.status,
        ) from None


async def kind_of_server(http: httpx2.AsyncClient) -> str | None:
    """What answers there, and what to use; `{url}` stands for its address. None if it cannot be told."""
    for path, recognize in KINDS:
        body = await _body_of(http, path)
        try:
            said = recognize(parse_json(body, max_values=MAX_VALUES)) if body else None
        except UnreadableJson:
            continue
        if said is not None:
            return said
    title = _TITLE.search(await _body_of(http, "/"))
    if title is None:
        return None
    name = shorten(html.unescape(title[1].decode("utf-8", "replace")))
    return f"a web page, {name!r}; if it has an API, {DESCRIBE}"


async def _body_of(http: httpx2.AsyncClient, path: str) -> bytes:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return bytes((await http.get(path, extensions=EXPECT_ANYTHING)).content)
    except (BackendError, TimeoutError):
        return b""
