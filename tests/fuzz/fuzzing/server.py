"""Requests to the generator server, as bytes on a connection: parsed as uvicorn does it, answered by the app.

The app, its door and its pool are the real ones; so is the worker, a process that draws with `solid`.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import json
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar
from urllib.parse import unquote

import h11

from fuzzing import images, target
from interleave.images import decode_image
from interleave.service.generator.app import build_app
from interleave.service.generator.metrics import Metrics
from interleave.service.generator.pool import Pool
from interleave.service.generator.request_handling import Service
from interleave.service.generator.server import HEADER_BYTES
from interleave.service.http.auth import Access

T = TypeVar("T")
TOKEN = "canary-5b1f9d"
OVERLOADED = {429, 503, 504}
"""Answers that a lonely client must never get."""


@dataclass
class Answer:
    """What came back."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""


class House:
    """A loop in a thread of its own, with the server in it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True, name="fuzzed-server").start()
        self.wait(self._open())
        atexit.register(self.close)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    async def _open(self) -> None:
        metrics = Metrics()
        self.pool = Pool("solid?size=64", observer=metrics, ignored=frozenset({"user_tag"}))
        metrics.watch(self.pool)
        service = Service(self.pool, ("solid",), metrics, created=0)
        self.open_app = build_app(service, Access(None))
        self.guarded_app = build_app(service, Access(TOKEN))
        self.pool.start()
        await self.pool.loaded_info()

    def close(self) -> None:
        if self.loop.is_running():
            self.wait(self.pool.stop())
            self.loop.call_soon_threadsafe(self.loop.stop)

    def answer(self, app: Any, scope: dict[str, Any], body: list[bytes]) -> Answer:
        return self.wait(_answered(app, scope, body))


async def _answered(app: Any, scope: dict[str, Any], body: list[bytes]) -> Answer:
    """One request through an ASGI app; a client that has sent everything stays until it is answered."""
    answer, sent = Answer(), list(body)

    async def receive() -> dict[str, Any]:
        if sent:
            piece = sent.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(sent)}
        await asyncio.Event().wait()
        raise AssertionError("unreachable: the event is never set")

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert not answer.status, "two answers to one request"
            answer.status, answer.headers = message["status"], list(message["headers"])
        else:
            answer.body += message.get("body", b"")

    await app(scope, receive, send)
    return answer


@cache
def house() -> House:
    return House()


def parsed(data: bytes) -> tuple[dict[str, Any], list[bytes]] | None:
    """The scope and the body that uvicorn would make of these bytes; None where it refuses them itself."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES)
    scope, body = None, list[bytes]()
    try:
        connection.receive_data(data)
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                scope = _scope(event)
            elif isinstance(event, h11.Data):
                body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage) and scope is not None:
                return scope, body or [b""]
            else:
                return None
    except (h11.RemoteProtocolError, UnicodeDecodeError):
        return None


def _scope(event: h11.Request) -> dict[str, Any]:
    raw_path, _, query = event.target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": event.http_version.decode("ascii"),
        "server": ("127.0.0.1", 8011),
        "client": ("127.0.0.1", 50000),
        "scheme": "http",
        "method": event.method.decode("ascii"),
        "root_path": "",
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": query,
        "headers": [(name.lower(), value) for name, value in event.headers],
        "state": {},
    }


def request(
    method: str, path: str, body: bytes = b"", kind: str = "application/json", **headers: str
) -> bytes:
    lines = {"Host": "127.0.0.1:8011", **({"Content-Type": kind} if body else {}), **headers}
    lines["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def with_length(data: bytes, where: int = 0, how: int = 0, what: int = 0) -> bytes:
    """The request with a Content-Length that is right again."""
    head, gap, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body)]) + gap + body


def form(*fields: tuple[str, str | bytes]) -> tuple[bytes, str]:
    """A multipart form: texts as fields, bytes as files."""
    parts = []
    for name, value in fields:
        is_file = isinstance(value, bytes)
        more = '; filename="a.png"\r\nContent-Type: image/png' if is_file else ""
        coded = value if isinstance(value, bytes) else value.encode()
        parts.append(
            b'--XX\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'
            % (name.encode(), more.encode(), coded)
        )
    return b"".join(parts) + b"--XX--\r\n", "multipart/form-data; boundary=XX"


def as_json(**values: Any) -> bytes:
    return json.dumps(values).encode()


def json_seeds() -> list[bytes]:
    png = base64.b64encode(images.seeds()[0]).decode()
    return [
        request("POST", "/edit", as_json(prompt="a frog", image=png, seed=7, enhance_prompt=False)),
        request(
            "POST", "/edit", as_json(prompt="a frog", image=[png, f"data:image/png;base64,{png}"], width=64)
        ),
        request(
            "POST", "/generate", as_json(prompt="a frog", seed=1, aspect_ratio="1:1", negative_prompt="")
        ),
        request(
            "POST",
            "/v1/images/generations",
            as_json(
                prompt="a",
                n=2,
                size="64x64",
                response_format="b64_json",
                output_format="jpeg",
                user="u",
                seed=3,
            ),
        ),
    ]


def form_seeds() -> list[bytes]:
    png = images.seeds()[0]
    edit = form(("prompt", "a frog"), ("seed", "7"), ("image_file", png))
    edits = form(
        ("prompt", "a"), ("image[]", png), ("image[]", png), ("n", "1"), ("output_compression", "100")
    )
    return [request("POST", "/edit-upload", *edit), request("POST", "/v1/images/edits", *edits)]


def plain_seeds() -> list[bytes]:
    return [
        request("GET", "/"),
        request("GET", "/health"),
        request("GET", "/status?x=1"),
        request("GET", "/v1/models/solid", Origin="http://127.0.0.1:8011"),
        request("GET", "/metrics", Accept="*/*"),
        request("GET", "/v1/models", Host="[::1]:8011"),
    ]


WORDS = (
    *(
        b'"prompt"',
        b'"image"',
        b'"seed"',
        b'"n"',
        b'"size"',
        b'"width"',
        b'"model"',
        b'"mask"',
        b'"user_tag"',
        b"solid",
    ),
    *(
        b'"num_inference_steps"',
        b'"guidance_scale"',
        b'"stream"',
        b'"quality"',
        b'"background"',
        b'"aspect_ratio"',
    ),
    *(
        b"1.0",
        b"1e3",
        b"64x64",
        b"0:0",
        b"1:1",
        b"auto",
        b"--XX",
        b"--XX--",
        b'; name="seed"',
        b'; filename="x"',
        b"boundary=",
    ),
    *(
        b"Content-Type: ",
        b"application/json",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Encoding: gzip\r\n",
        b"Expect: 100-continue\r\n",
    ),
    *(
        b"Origin: http://[\r\n",
        b"Origin: null\r\n",
        b"Host: ",
        b"Host: [::1\r\n",
        b"Authorization: Basic Og==\r\n",
        b"charset=utf-16",
    ),
    *(
        b"/edit",
        b"/v1/images/edits",
        b"/v1/models/",
        b"//",
        b"?a=b",
        b"%",
        b"\r\n",
        b"\r\n\r\n",
        b"X-A: \xff\r\n",
    ),
)


def check(data: bytes, *, drawing: bool) -> bool:
    """An answer in the words of the wire, no fault of our own, and nothing left behind."""
    heard = parsed(data)
    if heard is None:
        return False
    scope, body = heard
    answer = house().answer(house().open_app, scope, body)
    assert answer.status and answer.status != 500, f"{answer.status}: {answer.body[:300]!r}"
    assert answer.status not in OVERLOADED, f"{answer.status}: {answer.body[:300]!r}"
    check_head(answer)
    assert house().pool.memory.held == 0 and not house().pool.waiting
    if scope["method"] != "HEAD" and scope["path"] != "/metrics":
        value = json.loads(answer.body)
        assert isinstance(value, dict)
        if drawing and answer.status == 200 and scope["method"] == "POST":
            check_image(value)
        elif answer.status >= 400:
            check_refusal(value, scope["path"])
    return answer.status == 200


def check_head(answer: Answer) -> None:
    names = [name.lower() for name, _ in answer.headers]
    assert b"x-request-id" in names and b"x-content-type-options" in names
    for name, value in answer.headers:
        assert not any(byte in name + value for byte in b"\r\n\x00"), "a header breaks its line"


def check_image(value: dict[str, Any]) -> None:
    coded = value.get("edited_image") or value.get("image") or value["data"][0]["b64_json"]
    assert decode_image(base64.b64decode(coded, validate=True)).size == (64, 64)


def check_refusal(value: dict[str, Any], path: str) -> None:
    if path.startswith("/v1/") or (not path.startswith("/") and isinstance(value["error"], dict)):
        assert isinstance(value["error"]["message"], str) and value["error"]["type"]
    else:
        assert value["success"] is False and isinstance(value["detail"], str)


@target(json_seeds, words=WORDS, examples=48, mutators={"mend the length": with_length})
def json_wire(data: bytes) -> bool:
    return check(with_length(data), drawing=True)


@target(form_seeds, words=WORDS, examples=32, mutators={"mend the length": with_length})
def form_wire(data: bytes) -> bool:
    return check(with_length(data), drawing=True)


@target(lambda: [*plain_seeds(), *json_seeds()[2:3]], words=WORDS, examples=32)
def heads(data: bytes) -> bool:
    """Request lines and headers of every kind, framing included."""
    return check(data, drawing=True)


def token_seeds() -> list[bytes]:
    basic = base64.b64encode(f"x:{TOKEN}".encode()).decode()
    return [
        request("GET", "/status", Authorization=f"Bearer {TOKEN}"),
        request("GET", "/v1/models", Authorization=f"Basic {basic}", Host="example.org"),
        request("GET", "/health"),
    ]


@target(
    token_seeds, words=(b"Bearer ", b"Basic ", TOKEN.encode(), b"authorization: ", b"/health", b"%2fhealth")
)
def token(data: bytes) -> bool:
    """Without the token nobody learns more than whether the server is alive."""
    heard = parsed(data)
    if heard is None:
        return False
    scope, body = heard
    answer = house().answer(house().guarded_app, scope, body)
    assert answer.status and answer.status != 500, f"{answer.status}: {answer.body[:300]!r}"
    check_head(answer)
    told = b" ".join(value for name, value in scope["headers"] if name == b"authorization")
    if TOKEN.encode() not in told and base64.b64encode(f"x:{TOKEN}".encode())[3:-3] not in told:
        assert answer.status in (401, 403, 414) or scope["path"] == "/health", f"let in with {told!r}"
    assert TOKEN.encode() not in answer.body
    return answer.status == 200
