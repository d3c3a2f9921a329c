"""The SDKs of OpenAI and Google on our HTTP client, without their own retries and without the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interleave.backends.remote.http_client import PerLoop, open_client, ssl_context
from interleave.backends.remote.keys import OPENAI_URL, PLACEHOLDER, Key

if TYPE_CHECKING:
    import httpx2
    from google.genai import Client
    from openai import AsyncOpenAI


def openai_clients(
    where: str,
    *,
    base_url: str,
    key: Key | None,
    seconds: float,
    max_bytes: int,
    api_version: str | None = None,
) -> PerLoop[AsyncOpenAI]:
    """OpenAI's client; with an `api_version` it speaks to Azure."""

    def wrap(http: httpx2.AsyncClient) -> AsyncOpenAI:
        from openai import AsyncOpenAI, Omit

        # The SDK would send the organization and project in the environment to every server.
        ids = ("OpenAI-Organization", "OpenAI-Project")
        return AsyncOpenAI(
            api_key=PLACEHOLDER,
            base_url=base_url,
            max_retries=0,
            default_query={"api-version": api_version} if api_version else None,
            default_headers=None if base_url == OPENAI_URL else dict.fromkeys(ids, Omit()),  # type: ignore[arg-type]
            http_client=http,
        )

    return PerLoop(
        lambda: open_client(where, base_url=base_url, seconds=seconds, key=key, max_bytes=max_bytes), wrap
    )


def gemini_clients(
    where: str, *, base_url: str, key: Key | None, seconds: float, max_bytes: int, api_version: str
) -> PerLoop[Client]:
    """Google's client for the Gemini API."""

    def wrap(http: httpx2.AsyncClient) -> Client:
        import httpx2
        from google.genai import Client
        from google.genai.types import HttpOptions

        # The SDK insists on a synchronous client as well, which is never used.
        unused = httpx2.Client(verify=ssl_context(), trust_env=False)
        # The version is always said: the default is that of the SDK or of the environment, and proxies that
        # speak this API may know only one.
        options = HttpOptions(
            base_url=base_url, api_version=api_version, httpx_async_client=http, httpx_client=unused
        )
        return Client(api_key=PLACEHOLDER, vertexai=False, http_options=options)

    return PerLoop(
        lambda: open_client(where, base_url=base_url, seconds=seconds, key=key, max_bytes=max_bytes), wrap
    )
