"""Downloading a data set's images: many at once, each whole or not there, none twice.

Run again to continue: files that exist are kept, addresses that will never answer are listed in
`not_available.jsonl` and left out, and the rest is tried again.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from PIL import Image

from interleave import __version__
from interleave.plugin import make_folder, write_atomic

GONE = "not_available.jsonl"
MAX_BYTES = 64_000_000
SECONDS = 30
FINAL_STATUSES = (400, 401, 403, 404, 405, 406, 410, 451)

Ending = Literal["there", "loaded", "gone", "failed"]


@dataclass(frozen=True)
class Ended:
    """What became of one image."""

    name: str
    ending: Ending
    reason: str = ""


def download(
    urls: Mapping[str, str], folder: Path, *, workers: int, retry_gone: bool = False
) -> Iterator[Ended]:
    """Download images by name below a folder; yield each when it is on disk or has failed."""
    make_folder(folder)
    gone = {} if retry_gone else _gone(folder / GONE)
    waiting = iter(urls.items())
    with ThreadPoolExecutor(workers) as pool, (folder / GONE).open("a", encoding="utf-8") as log:
        while batch := list(islice(waiting, workers * 8)):
            for ended in pool.map(lambda pair: _ended(pair[0], pair[1], folder, gone), batch):
                if ended.ending == "gone" and ended.name not in gone:
                    log.write(json.dumps({"name": ended.name, "reason": ended.reason}) + "\n")
                    log.flush()
                yield ended


def _gone(path: Path) -> dict[str, str]:
    found = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
            found[str(row["name"])] = str(row["reason"])
        except (ValueError, KeyError, TypeError):
            continue  # cut off by a crash
    return found


def _ended(name: str, url: str, folder: Path, gone: Mapping[str, str]) -> Ended:
    path = folder / name
    if path.is_file():
        return Ended(name, "there")
    if name in gone:
        return Ended(name, "gone", gone[name])
    try:
        data = _fetched(url)
        with Image.open(BytesIO(data)) as image:
            image.verify()
    except urllib.error.HTTPError as error:
        return Ended(name, "gone" if error.code in FINAL_STATUSES else "failed", f"HTTP {error.code}")
    except (_RefusedError, Image.DecompressionBombError) as error:
        return Ended(name, "gone", str(error))
    except (OSError, ValueError, SyntaxError) as error:
        is_image = "identify" in str(error) or isinstance(error, SyntaxError)
        return Ended(name, "gone" if is_image else "failed", "not an image" if is_image else str(error)[:200])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    except OSError as error:
        return Ended(name, "failed", str(error)[:200])
    return Ended(name, "loaded")


class _RefusedError(Exception):
    """An address that is never asked."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        refuse_private(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def refuse_private(url: str) -> None:
    """Raise for addresses that are not of the public web: a data set must not reach into this network."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _RefusedError("not an address of the web")
    for *_, (host, *_) in socket.getaddrinfo(parts.hostname, parts.port or 0, type=socket.SOCK_STREAM):
        if not ipaddress.ip_address(str(host).partition("%")[0]).is_global:
            raise _RefusedError("an address inside a private network")


def _fetched(url: str) -> bytes:
    refuse_private(url)
    request = urllib.request.Request(url, headers={"User-Agent": f"interleavethinker/{__version__}"})
    opener = urllib.request.build_opener(_Redirects())
    with opener.open(request, timeout=SECONDS) as response:
        data: bytes = response.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _RefusedError(f"larger than {MAX_BYTES // 1_000_000} MB")
    return data
