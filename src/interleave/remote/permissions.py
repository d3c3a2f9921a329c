"""Permissions that a run folder needs from its user for these backends: see `--allow`.

Without permission, no key is sent to an address, except the usual key of a well-known service. No file of
this machine is sent to another one or chooses the servers and the requests. No price is read from a folder
for a service that is paid with its usual key.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from interleave.plugin import Spec
from interleave.remote.documents import api_of
from interleave.remote.json_api import is_shipped
from interleave.remote.keys import GEMINI_URL, OPENAI_URL, origin_of, usual_variable

DEFAULT_URLS = {"openai": OPENAI_URL, "openai-images": OPENAI_URL, "gemini": GEMINI_URL}
"""The default address of each backend."""
PRICES = ("price", "price_in", "price_out")

Asked = Iterator[tuple[str, str]]
"""Values for `--allow`, each with its meaning."""


def asked_of(spec: Spec) -> Asked:
    """Yield the permissions that the spec of one of these backends needs."""
    if spec.name == "document":
        spec = api_of(spec)
    urls = [url for url in (spec.base_url or DEFAULT_URLS.get(spec.name, "")).split(",") if url]
    yield from _keys(spec, urls)
    yield from _files(spec, urls)
    yield from _prices(spec, urls)


def _keys(spec: Spec, urls: list[str]) -> Asked:
    key = spec.options.get("key")
    if key is None:
        return
    for url in urls:
        if usual_variable(url) != key:
            yield (f"{key}@{origin_of(url)}", f"send {key} to {origin_of(url)}")
    if not urls:
        yield (f"{key}@{spec.model}", f"send {key} to the servers in {spec.model!r}")


def _files(spec: Spec, urls: list[str]) -> Asked:
    if spec.name == "http" and not urls and "key" not in spec.options:
        yield (f"addresses@{spec.model}", f"call the servers listed in {spec.model!r}")
    if spec.name == "json" and spec.model and not is_shipped(spec.model):
        for url in urls:
            meaning = f"send requests described by {spec.model!r}, and the key it names, to {origin_of(url)}"
            yield (f"{spec.model}@{origin_of(url)}", meaning)
        if not urls:
            meaning = f"call the server that {spec.model!r} names, with the key it names"
            yield (f"addresses@{spec.model}", meaning)
    if spec.name == "comfyui":
        for url in urls:
            for file in filter(None, [spec.model, spec.options.get("text")]):
                if not _is_this_machine(url):
                    yield f"{file}@{origin_of(url)}", f"send the file {file!r} to {origin_of(url)}"


def _prices(spec: Spec, urls: list[str]) -> Asked:
    """Yield prices that need permission: a price of 0 in a folder would defeat the user's --max-cost."""
    prices = "&".join(f"{name}={spec.options[name]}" for name in PRICES if name in spec.options)
    for url in urls if prices else ():
        if usual_variable(url) is not None:
            yield (f"{prices}@{origin_of(url)}", f"count {prices} as the price of {origin_of(url)}")


def _is_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
