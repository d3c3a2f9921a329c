"""What remote services answer, as bytes on a connection, read by our clients and the SDKs they use.

An input begins with the path it answers, on a line of its own; requests to other paths get a good answer.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import json
import os
import threading
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

from PIL import Image

from fuzzing import attempt, check_message, scratch, target
from interleave.agents.critic import acceptance_probability
from interleave.agents.documents import DocumentPlanner, WrittenDocument, plan_of, texts_of
from interleave.backends.protocols import ImageRequest, Message, Reply, Sampling
from interleave.backends.registry import load_agent, load_generator, load_vlm
from interleave.errors import BackendError
from interleave.images import encode_png
from interleave.redaction import redacted_model
from interleave.remote import comfyui
from interleave.remote.endpoints import read_endpoints
from interleave.remote.http_errors import retry_after, status_error
from interleave.runs.journal import CallFailed, Replied
from interleave.text import storable
from interleave.types import ImagePart, Request, Text

T = TypeVar("T")
KEY = "canary-9ef40b8827d1c3"
VARIABLE = "FUZZ_API_KEY"
SECONDS = 20
"""The clients' deadline: never met, as every connection is closed when its answer is sent."""


class Services:
    """A server on the loopback that answers what it is told to, and the clients that ask it."""

    def __init__(self) -> None:
        self.raw: dict[str, bytes] = {}
        """What is sent to requests whose path begins so, as it is."""
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True, name="fuzzed-services").start()
        self.port = self.wait(self._listen())
        self.backends: dict[str, Any] = {}
        atexit.register(self.close)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    async def _listen(self) -> int:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self.server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                ),
                0,
            )
            await reader.readexactly(length)
            path = head.split(b" ")[1].decode()
            longest = max((each for each in self.raw if path.startswith(each)), key=len, default=None)
            writer.write(self.raw[longest] if longest is not None else good(path))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def close(self) -> None:
        if self.loop.is_running():
            self.wait(self._end())
            self.loop.call_soon_threadsafe(self.loop.stop)

    async def _end(self) -> None:
        self.server.close()
        await self.loop.shutdown_asyncgens()

    def backend(self, spec: str, load: Callable[[str], Any]) -> Any:
        """The client of a spec, made once, its key from the environment."""
        if spec not in self.backends:
            before = os.environ.get(VARIABLE)
            os.environ[VARIABLE] = KEY
            try:
                self.backends[spec] = load(spec.replace("PORT", str(self.port)))
            finally:
                os.environ.pop(VARIABLE) if before is None else os.environ.update({VARIABLE: before})
        return self.backends[spec]


@cache
def services() -> Services:
    return Services()


@cache
def png() -> bytes:
    return encode_png(Image.new("RGB", (16, 16), "teal"))


def coded() -> str:
    return base64.b64encode(png()).decode()


def http(value: Any, status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; bytes as they are, anything else as JSON."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {text}\r\n" for name, text in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def good(path: str) -> bytes:
    """How a ComfyUI that works answers."""
    if path.startswith("/prompt"):
        return http({"prompt_id": "job", "number": 1, "node_errors": {}})
    if path.startswith("/history"):
        image = {"filename": "a.png", "subfolder": "", "type": "output"}
        return http(
            {
                "job": {
                    "outputs": {"9": {"images": [image]}},
                    "status": {"status_str": "success", "messages": []},
                }
            }
        )
    if path.startswith("/queue"):
        return http({"queue_running": [], "queue_pending": []})
    if path.startswith("/upload"):
        return http({"name": "a.png", "subfolder": "", "type": "input"})
    if path.startswith("/view"):
        return http(png(), **{"Content-Type": "image/png"})
    return http({}, "404 Not Found")


def answering(path: str, raw: bytes) -> bytes:
    return path.encode() + b"\n" + raw


def with_length(data: bytes) -> bytes:
    """The answer with a Content-Length that is right again."""
    head, gap, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body)]) + gap + body


HEADERS = (
    *(
        b"HTTP/1.1 429 Busy",
        b"HTTP/1.1 503 x",
        b"HTTP/1.1 400 Bad",
        b"HTTP/1.1 302 x",
        b"HTTP/1.1 204 x",
        b"HTTP/1.1 100 x\r\n\r\n",
    ),
    *(
        b"Retry-After: 3\r\n",
        b"Retry-After: 1e400\r\n",
        b"retry-after-ms: -1\r\n",
        b"Content-Encoding: gzip\r\n",
    ),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n",
        KEY.encode(),
        b"Bearer " + KEY.encode(),
    ),
)


def asked(
    data: bytes,
    spec: str,
    load: Callable[[str], Any],
    ask: Callable[[Any], Coroutine[Any, Any, T]],
    *,
    wait: Callable[[Coroutine[Any, Any, T]], T] | None = None,
    framed: bool = True,
) -> T | None:
    """What a client makes of an answer; None where it says in a typed error why it makes nothing of it."""
    path, _, raw = data.partition(b"\n")
    here = services()
    here.raw = {path.decode("latin-1") or "/": with_length(raw) if framed else raw}
    backend = here.backend(spec, load)
    try:
        return (wait or here.wait)(ask(backend))
    except BackendError as error:
        check_error(error)
        return None


def check_error(error: BackendError) -> None:
    check_message(str(error))
    assert KEY not in str(error), "an error tells the key"
    assert error.retry_after is None or 0 <= error.retry_after < float("inf")
    line = CallFailed(role="planner", call=1, error=str(error), transient=error.transient)
    assert CallFailed.model_validate_json(line.model_dump_json().encode()) == line


def check_reply(reply: Reply) -> None:
    """A reply can be journalled as the run does it, and costs what can be added up."""
    assert isinstance(reply, Reply) and isinstance(reply.text, str) and isinstance(reply.finish_reason, str)
    assert all(isinstance(number, int) and number >= 0 for number in reply.usage.values()), reply.usage
    assert reply.cost is None or 0 <= reply.cost < float("inf"), f"a cost of {reply.cost}"
    assert all(0 <= token.probability <= 1 for token in reply.tokens), "a probability that is none"
    probability = acceptance_probability(reply)
    assert probability is None or 0 <= probability <= 1
    line = Replied(
        role="critic",
        call=1,
        fingerprint="x",
        text=storable(reply.text),
        finish_reason=reply.finish_reason,
        usage=reply.usage,
        cost=reply.cost,
        tokens=tuple((storable(token.text), token.probability) for token in reply.tokens),
        seconds=0.0,
    )
    kept = redacted_model(line).model_dump_json()
    assert KEY not in kept, "the journal tells the key"
    assert Replied.model_validate_json(kept.encode()).text == redacted_model(line).text


QUESTION = (Message("user", (Text("How a frog grows up"),)),)
DRAWING = ImageRequest("a frog", 7)


def chat_seeds() -> list[bytes]:
    said = '<think>Yes.</think>{"success": true}'
    logprobs = {
        "content": [
            {"token": piece, "logprob": -0.1, "bytes": list(piece.encode()), "top_logprobs": []}
            for piece in said
        ]
    }
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    told = {"role": "assistant", "content": said}
    thinking = {"role": "assistant", "content": "Done.", "reasoning_content": "Hm.", "refusal": None}
    details = {**usage, "completion_tokens_details": {"reasoning_tokens": 3}}
    choice = {"index": 0, "message": told, "finish_reason": "stop", "logprobs": logprobs}
    other = {"index": 0, "message": thinking, "finish_reason": "length"}
    return [
        answering("/v1", http({**head, "choices": [choice], "usage": usage})),
        answering("/v1", http({**head, "choices": [other], "usage": details}, **{"x-request-id": "a"})),
    ]


CHAT_WORDS = (
    b'"content": 5',
    b'"finish_reason": 5',
    b'"logprob": NaN',
    b'"choices": [{}]',
    b'"content": [{"text": "a"}]',
    b'"refusal": "no"',
)


@target(chat_seeds, words=(*HEADERS, *CHAT_WORDS), examples=32, weight=0.5)
def openai_chat(data: bytes) -> bool:
    options = f"key={VARIABLE}&price_in=1&price_out=2&logprobs=true&timeout={SECONDS}"
    return answered(data, f"openai:m@http://127.0.0.1:PORT/v1?{options}")


@target(chat_seeds, words=HEADERS, examples=16, weight=0.3)
def framing(data: bytes) -> bool:
    """Answers whose length, coding or end is not what their head says."""
    return answered(data, f"openai:m@http://127.0.0.1:PORT/v1?timeout={SECONDS}", framed=False)


def answered(data: bytes, spec: str, **more: Any) -> bool:
    sampling = Sampling(token_probabilities=True)
    reply = asked(
        data,
        spec,
        lambda spec: load_vlm(spec, "critic"),
        lambda vlm: vlm.complete(QUESTION, sampling),
        **more,
    )
    if reply is not None:
        check_reply(reply)
    return reply is not None


def gemini_seeds() -> list[bytes]:
    parts = [{"text": "Hm.", "thought": True}, {"text": "Done."}]
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 16}
    candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
    return [answering("/", http({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}))]


@target(gemini_seeds, words=(*HEADERS, b'"finishReason": "SAFETY"', b'"blockReason": "OTHER"'), weight=0.5)
def gemini_chat(data: bytes) -> bool:
    options = f"key={VARIABLE}&price_in=1&price_out=2&timeout={SECONDS}"
    return answered(data, f"gemini:m@http://127.0.0.1:PORT?{options}")


def drawn(data: bytes, spec: str, **more: Any) -> bool:
    image = asked(data, spec, load_generator, lambda generator: generator.generate(DRAWING), **more)
    if image is not None:
        assert isinstance(image, Image.Image) and image.mode == "RGB"
    return image is not None


@target(
    lambda: [
        answering("/v1", http({"created": 1, "data": [{"b64_json": coded()}], "usage": {"total_tokens": 3}}))
    ],
    words=(*HEADERS, b'"url": "http://x/a.png"', b'"data": [null]'),
    weight=0.5,
)
def openai_images(data: bytes) -> bool:
    return drawn(data, f"openai-images:m@http://127.0.0.1:PORT/v1?key={VARIABLE}&timeout={SECONDS}")


def gemini_image_seeds() -> list[bytes]:
    parts = [{"text": "Here."}, {"inlineData": {"mimeType": "image/png", "data": coded()}}]
    candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
    return [answering("/", http({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 3}}))]


@target(gemini_image_seeds, words=HEADERS, weight=0.5)
def gemini_images(data: bytes) -> bool:
    return drawn(data, f"gemini:m@http://127.0.0.1:PORT?key={VARIABLE}&timeout={SECONDS}")


def written(data: bytes, spec: str) -> bool:
    """A native system's answer becomes a document with a plan, or a typed error."""

    async def write(planner: DocumentPlanner) -> WrittenDocument:
        return await planner.write(Request.of("a frog"))

    made = asked(data, spec, lambda spec: DocumentPlanner(load_agent(spec, "planner")), write)
    if made is None:
        return False
    document: WrittenDocument = made
    assert document.end.cost is None or 0 <= document.end.cost < float("inf")
    plan = plan_of(texts_of(document.parts), Request.of("a frog"), document.end.finish_reason)
    images = [part for part in document.parts if isinstance(part, ImagePart)]
    assert sum(step.prompt is not None for step in plan.steps) == len(images)
    assert KEY not in plan.model_dump_json(), "the plan tells the key"
    return True


@target(gemini_image_seeds, words=(*HEADERS, b'"finishReason": "IMAGE_SAFETY"'), weight=0.3)
def gemini_documents(data: bytes) -> bool:
    return written(data, f"document:gemini:m@http://127.0.0.1:PORT?key={VARIABLE}&timeout={SECONDS}&price=1")


def openai_document_seeds() -> list[bytes]:
    output = [
        {"type": "message", "content": [{"type": "output_text", "text": "An egg.", "annotations": []}]},
        {"type": "image_generation_call", "status": "completed", "result": coded()},
    ]
    usage = {"input_tokens": 3, "output_tokens": 2}
    return [answering("/v1/responses", http({"id": "r", "output": output, "usage": usage}))]


@target(openai_document_seeds, words=(*HEADERS, b'"status": "failed"', b'"refusal": "no"'), weight=0.3)
def openai_documents(data: bytes) -> bool:
    return written(data, f"document:openai:m@http://127.0.0.1:PORT/v1?key={VARIABLE}&timeout={SECONDS}")


def chat_document_seeds() -> list[bytes]:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{coded()}"}}
    parts = {"role": "assistant", "content": [{"type": "text", "text": "An egg."}, image]}
    listed = {"role": "assistant", "content": "An egg.<image>", "images": [{"data": coded()}]}
    return [
        answering("/v1", http({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
        for message in (parts, listed)
    ]


@target(chat_document_seeds, words=(*HEADERS, *CHAT_WORDS, b'"url": "http://x/a.png"'), weight=0.3)
def chat_documents(data: bytes) -> bool:
    return written(data, f"document:chat:m@http://127.0.0.1:PORT/v1?key={VARIABLE}&timeout={SECONDS}")


def service_seeds() -> list[bytes]:
    told = {
        "success": True,
        "task_id": "t",
        "edited_image": coded(),
        "seed": 7,
        "original_prompt": "a frog",
        "error": None,
    }
    refused = {"success": False, "error": f"no Bearer {KEY}"}
    return [
        answering("/edit", http(told)),
        answering("/edit", http({**told, **refused, "success": True, "error": None})),
    ]


@target(
    service_seeds,
    words=(
        *HEADERS,
        b'"success": false',
        b'"error": "Bearer ' + KEY.encode() + b'"',
        b'"image": ""',
        b'"seed": 8',
    ),
    weight=0.5,
)
def edit_service(data: bytes) -> bool:
    # In a loop of its own: a server that fails is left alone for a while by the calls of the same loop.
    return drawn(data, f"http://127.0.0.1:PORT?key={VARIABLE}&timeout={SECONDS}&probe=3600", wait=asyncio.run)


WORKFLOW = {
    "3": {"class_type": "KSampler", "inputs": {"seed": 1, "positive": ["6", 0], "negative": ["7", 0]}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a frog"}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"text": ""}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["3", 0]}},
}


@cache
def workflow_file() -> Path:
    path = Path(mkdtemp(prefix="fuzz-workflow-")) / "text.json"
    path.write_text(json.dumps(WORKFLOW), "utf-8")
    return path


def comfyui_seeds() -> list[bytes]:
    failed = {
        "status_str": "error",
        "messages": [["execution_error", {"exception_message": "out of memory"}]],
    }
    history = good("/history").partition(b"\r\n\r\n")[2]
    return [
        *(answering(path, good(path)) for path in ("/prompt", "/history", "/queue", "/view")),
        answering("/history", http({**json.loads(history), "other": {"status": failed}})),
    ]


@target(comfyui_seeds, words=(*HEADERS, b'"job"', b'"status_str": "error"', b'"images": null'), weight=0.3)
def comfyui_answers(data: bytes) -> bool:
    # short: a server that is gone in the middle of a job is waited for until the deadline
    spec = f"comfyui:{workflow_file()}@http://127.0.0.1:PORT?key={VARIABLE}&timeout=1"
    pauses = comfyui.FIRST_POLL_SECONDS, comfyui.LONGEST_POLL_SECONDS
    comfyui.FIRST_POLL_SECONDS = comfyui.LONGEST_POLL_SECONDS = 0.0
    try:
        return drawn(data, spec)
    finally:
        comfyui.FIRST_POLL_SECONDS, comfyui.LONGEST_POLL_SECONDS = pauses


@target(
    lambda: [
        answering("/sdapi", http({"images": [coded()], "info": "{}"})),
    ],
    words=(*HEADERS, b'"images": ["http://x/a.png"]', b'"images": {"0": 1}', b'"error": [7]', b"404", b"405"),
    weight=0.5,
)
def json_answers(data: bytes) -> bool:
    return drawn(data, f"json:automatic1111@http://127.0.0.1:PORT?key={VARIABLE}&timeout={SECONDS}")


def refusal_seeds() -> list[bytes]:
    google = {
        "error": {
            "code": 429,
            "status": "RESOURCE_EXHAUSTED",
            "message": "slow",
            "details": [{"retryDelay": "3.5s"}],
        }
    }
    openai = {"error": {"code": "content_policy_violation", "type": "x", "message": "no", "param": None}}
    return [
        b"429\nRetry-After: 7\n\n" + json.dumps(google).encode(),
        b"400\nretry-after-ms: 700\n\n" + json.dumps(openai).encode(),
        b'503\nRetry-After: Wed, 21 Oct 2015 07:28:00 GMT\n\n{"detail": [{"loc": ["body"], "msg": "x"}]}',
        b"500\n\nInternal Server Error",
    ]


@target(
    refusal_seeds,
    words=(
        b"401",
        b"403",
        b"302",
        b'"retryDelay": "' + b"9" * 400 + b's"',
        b'"details"',
        b'"code": ["x"]',
        b'"message": {"a": 1}',
        b"\xd9\xa3",
    ),
    examples=48,
)
def refusals(data: bytes) -> bool:
    """Answers that are no success, of every dialect: one typed error with a wait that can be waited."""
    head, _, body = data.partition(b"\n\n")
    status, *lines = head.decode("latin-1").split("\n")
    if not (status.isascii() and status.isdigit() and 300 <= int(status[:6]) <= 599 and len(status) == 3):
        return False
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    waits = retry_after(headers)
    assert waits is None or 0 <= waits < float("inf")
    check_error(status_error("x", int(status), headers, body, key=None))
    return True


@target(
    [b"10.0.0.7\nhttp://host:8011 # a comment\n\nhost:99\n[::1]:8011\n"],
    words=(b"http://", b"https://[", b":99999", b":x", b"@", b"#"),
)
def endpoints(data: bytes) -> bool:
    with scratch() as folder:
        path = folder / "hosts"
        path.write_bytes(data)
        urls = attempt(lambda: read_endpoints(path, 8011))
        if not isinstance(urls, list):
            return False
        assert urls and all(
            url.lower().startswith(("http://", "https://")) and not set(url) & set(" \r\n\t@") for url in urls
        )
        return True
