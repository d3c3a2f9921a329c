"""One server on the loopback that speaks every wire a remote backend speaks, and fails on demand.

It runs in a thread of its own, on bare sockets, so that it can break off anywhere. Images are drawn by the
double `solid`, so that they depend on prompt, seed and sources as a model's would; answers of planner and
critic follow a rule of their text. Every request is kept: the ledger of what was really asked.
"""

from __future__ import annotations

import asyncio
import base64
import email.parser
import email.policy
import hashlib
import json
import re
import socket
import struct
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image

from interleave.backends.fakes import _plan
from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave.images import decode_image, encode_png
from interleave.types import Text

SIDE = 64
PAINTER = load_generator(f"solid?size={SIDE}")


@dataclass
class Asked:
    """One request, as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> list[tuple[str, str | bytes]]:
        """The fields of a multipart form: files as bytes, the others as text."""
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + self.body)
        fields: list[tuple[str, str | bytes]] = []
        for part in message.iter_parts():
            data = part.get_payload(decode=True)
            name = str(part.get_param("name", header="content-disposition"))
            fields.append((name, data if part.get_filename() else data.decode()))
        return fields

    @property
    def fields(self) -> dict[str, str]:
        return {name: value for name, value in self.form if isinstance(value, str)}

    @property
    def files(self) -> list[tuple[str, bytes]]:
        return [(name, value) for name, value in self.form if isinstance(value, bytes)]


@dataclass
class Answer:
    """What a request gets."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})

    @classmethod
    def of(cls, value: Any, status: int = 200, **headers: str) -> Answer:
        return cls(json.dumps(value).encode(), status, {"Content-Type": "application/json", **headers})


Fault = Callable[["Exchange"], Awaitable[None]]


@dataclass
class Exchange:
    """One request under way, for faults to spoil."""

    server: Loopback
    asked: Asked
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answer: Callable[[], Awaitable[Answer]]

    async def send(self, answer: Answer, *, cut_at: int | None = None, length: int | None = None) -> None:
        size = len(answer.body) if length is None else length
        head = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
        start = f"HTTP/1.1 {answer.status} Whatever\r\nContent-Length: {size}\r\n{head}\r\n"
        self.writer.write(start.encode() + answer.body[:cut_at])
        await self.writer.drain()


class Loopback:
    """The server. `fault` says what becomes of the n-th request; `mood` what good-looking answers hold."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.fault: Callable[[int, Asked], Fault | None] = lambda number, asked: None
        self.mood = "well"
        self.hangs: Callable[[], None] = lambda: None
        """Called when a request will not be answered: only the client's deadline is left to wait for."""
        self.delay = 0.0
        self.free = threading.Event()
        """Answers are kept back until it is set."""
        self.free.set()
        self.healthy = True
        self.health: dict[str, Any] = {"status": "Healthy", "gpu_manager_ready": True}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.uploads: dict[str, bytes] = {}
        self.cancelled: list[str] = []
        self.looks_in_queue = 0
        """How often ComfyUI is asked before a workflow of ours is no longer in its queue."""
        self.in_flight = self.most_in_flight = 0
        self._number = 0
        self._open: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait(120)

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)

        async def listen() -> None:
            self._stop = asyncio.Event()
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26)
            self.port = self._server.sockets[0].getsockname()[1]
            ready.set()
            await self._stop.wait()
            self._server.close()
            for task in list(self._open):
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

        self._loop.run_until_complete(listen())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(120)

    def reset(self) -> None:
        """As new, for the next test."""
        self.asked.clear()
        self.fault = lambda number, asked: None
        self.hangs = lambda: None
        self.free.set()
        self.mood, self.delay, self.healthy, self._number = "well", 0.0, True, 0
        self.health = {"status": "Healthy", "gpu_manager_ready": True}
        self.jobs.clear()
        self.uploads.clear()
        self.cancelled.clear()
        self.looks_in_queue = 0
        self.in_flight = self.most_in_flight = 0

    def fails_with(self, fault: Fault) -> None:
        self.fault = lambda number, asked: fault

    def of(self, path: str) -> list[Asked]:
        return [asked for asked in self.asked if path in asked.path]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                self._number += 1
                exchange = Exchange(self, asked, reader, writer, lambda asked=asked: self._answer(asked))
                fault = self.fault(self._number, asked)
                if fault is not None:
                    await fault(exchange)
                    break
                await exchange.send(await exchange.answer())
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, asked: Asked) -> Answer:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
            while not self.free.is_set():
                await asyncio.sleep(0.01)
            return await self._route(asked)
        finally:
            self.in_flight -= 1

    async def _route(self, asked: Asked) -> Answer:
        path = asked.path
        for pattern, handler in ROUTES:
            if re.search(pattern, path):
                return await handler(self, asked)
        return Answer.of({"detail": "Not Found"}, 404)

    # Images and words

    async def image(self, prompt: str, seed: int, sources: list[bytes]) -> bytes:
        if self.mood == "no image":
            return b"this is no picture at all"
        if self.mood == "one pixel":
            return encode_png(Image.new("RGB", (1, 1)))
        if self.mood == "huge picture":
            return huge_png()
        images = tuple(decode_image(source) for source in sources)
        return encode_png(await PAINTER.generate(ImageRequest(prompt, seed, images)))

    async def encoded(self, prompt: str, seed: int, sources: list[bytes]) -> str:
        if self.mood == "garbage":
            return "%%% this is not base64 %%%"
        return base64.b64encode(await self.image(prompt, seed, sources)).decode()

    def words(self, system: str, text: str) -> str:
        if '"previous_step_success"' in system:
            prompt = text.rpartition("The prompt that made the second picture:")[2]
            even = re.search(r"part (\d*[02468]) ", prompt)
            if even and "once more" not in prompt:
                return _answer(
                    {"previous_step_success": False, "refine_prompt": f"Add part {even[1]} once more"}
                )
            return _answer({"previous_step_success": True, "refine_prompt": ""})
        if '"execution_plan"' in system:
            return _plan((Text(text),))
        return f"I see: {text[:40]} [{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}]"

    # Wires

    async def chat(self, asked: Asked) -> Answer:
        question = asked.json
        system = " ".join(_text_of(m["content"]) for m in question["messages"] if m["role"] == "system")
        text = " ".join(_text_of(m["content"]) for m in question["messages"] if m["role"] == "user")
        if self.mood == "empty":
            return Answer.of(
                {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
            )
        if self.mood == "filtered":
            message = {"role": "assistant", "content": None, "refusal": "I can't help with that."}
            return Answer.of(_completion(message, "stop"))
        message = {"role": "assistant", "content": self.words(system, text)}
        choice = {}
        if question.get("logprobs"):
            choice["logprobs"] = {
                "content": [_logprob(piece) for piece in re.findall(r"\w+|\W", message["content"])]
            }
        return Answer.of(_completion(message, "stop", **choice))

    async def images(self, asked: Asked) -> Answer:
        edit = asked.path.endswith("edits")
        fields = asked.fields if edit else asked.json
        sources = [data for name, data in asked.files if name.startswith("image")] if edit else []
        if self.mood == "empty":
            return Answer.of({"created": 1, "data": []})
        if self.mood == "filtered":
            error = {
                "code": "moderation_blocked",
                "type": "image_generation_user_error",
                "message": "Rejected",
            }
            return Answer.of({"error": error}, 400)
        encoded = await self.encoded(fields["prompt"], int(fields.get("seed", 0)), sources)
        return Answer.of({"created": 1, "data": [{"b64_json": encoded}]})

    async def gemini(self, asked: Asked) -> Answer:
        question = asked.json
        parts = [part for content in question["contents"] for part in content["parts"]]
        text = " ".join(part["text"] for part in parts if "text" in part)
        if self.mood == "empty":
            return Answer.of({"candidates": []})
        if self.mood == "filtered":
            return Answer.of({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
        if "IMAGE" not in question.get("generationConfig", {}).get("responseModalities", []):
            system = " ".join(part["text"] for part in question.get("systemInstruction", {}).get("parts", []))
            return Answer.of(_candidate([{"text": self.words(system, text)}]))
        if self.mood == "words only":
            return Answer.of(_candidate([{"text": "Here is a description of a cat instead."}]))
        sources = [
            base64.urlsafe_b64decode(part["inlineData"]["data"]) for part in parts if "inlineData" in part
        ]
        encoded = await self.encoded(text, 0, sources)
        drawn = {"inlineData": {"mimeType": "image/png", "data": encoded}}
        return Answer.of(_candidate([{"text": "Here you are."}, drawn]))

    async def service(self, asked: Asked) -> Answer:
        question = asked.json
        if self.mood == "empty":
            return Answer.of({"success": True, "task_id": "t"})
        if self.mood == "filtered":
            return Answer.of({"detail": {"code": "content_filter"}, "error": {"code": "content_filter"}}, 400)
        source = question.get("image")
        sources = [base64.b64decode(source)] if source else []
        drawn_with = question.get("seed", 0)
        seed = drawn_with + 1 if self.mood == "mixed up" else drawn_with
        encoded = await self.encoded(question["prompt"], drawn_with, sources)
        key = "edited_image" if asked.path == "/edit" else "image"
        told = {"success": True, "task_id": "t", key: encoded, "seed": seed, "gpu_id": 0, "error": None}
        return Answer.of({**told, "original_prompt": question["prompt"]} if key == "edited_image" else told)

    async def webui(self, asked: Asked) -> Answer:
        """The API of Stable Diffusion web UI."""
        question = asked.json
        if self.mood == "empty":
            return Answer.of({"images": [], "parameters": {}, "info": "{}"})
        if self.mood == "filtered":
            return Answer.of({"error": {"code": "content_filter", "message": "no"}}, 400)
        sources = [base64.b64decode(each) for each in question.get("init_images", [])]
        encoded = await self.encoded(question["prompt"], question["seed"], sources)
        return Answer.of({"images": [encoded], "parameters": {}, "info": "{}"})

    async def predictions(self, asked: Asked) -> Answer:
        """A Cog container, which says in an answer of 200 that it failed."""
        given = asked.json["input"]
        if self.mood == "failed job":
            return Answer.of({"status": "failed", "error": "CUDA out of memory", "output": None})
        source = given.get("image")
        sources = [base64.b64decode(source.removeprefix("data:image/png;base64,"))] if source else []
        encoded = await self.encoded(given["prompt"], given["seed"], sources)
        return Answer.of({"status": "succeeded", "output": [f"data:image/png;base64,{encoded}"]})

    async def paint(self, asked: Asked) -> Answer:
        """An API as people write it: a form in, the address of a file out."""
        form = (
            parse_qs(asked.body.decode(), keep_blank_values=True) if not asked.body.startswith(b"--") else {}
        )
        fields = {name: value[0] for name, value in form.items()} or asked.fields
        sources = [] if form else [data for name, data in asked.files if name == "start"]
        name = f"{len(self.uploads) + 1}.png"
        self.uploads[name] = await self.image(fields["prompt"], int(fields["seed"]), sources)
        host = "http://elsewhere.example" if self.mood == "elsewhere" else ""
        return Answer.of({"result": {"files": [f"{host}/files/{name}"]}})

    async def file(self, asked: Asked) -> Answer:
        return Answer(self.uploads[asked.path.rpartition("/")[2]], 200, {"Content-Type": "image/png"})

    async def say_health(self, asked: Asked) -> Answer:
        return Answer.of(self.health, 200 if self.healthy else 503)

    async def upload(self, asked: Asked) -> Answer:
        ((name, data),) = asked.files
        filename = re.search(rb'filename="([^"]+)"', asked.body)
        assert name == "image" and filename is not None
        self.uploads[filename[1].decode()] = data
        return Answer.of({"name": filename[1].decode(), "subfolder": "", "type": "input"})

    async def prompt(self, asked: Asked) -> Answer:
        if self.mood == "filtered":
            return Answer.of({"error": {"type": "content_filter", "message": "no"}, "node_errors": {}}, 400)
        job = f"job-{len(self.jobs) + 1}"
        self.jobs[job] = asked.json["prompt"]
        return Answer.of({"prompt_id": job, "number": 1, "node_errors": {}})

    async def history(self, asked: Asked) -> Answer:
        job = asked.path.rpartition("/")[2]
        if self.mood == "slow job":
            self.hangs()
        if job not in self.jobs or self.mood in ("lost", "slow job"):
            return Answer.of({})
        if self.mood == "failed job":
            told = ["execution_error", {"exception_message": "CUDA out of memory"}]
            return Answer.of({job: {"outputs": {}, "status": {"status_str": "error", "messages": [told]}}})
        if self.mood == "cancelled job":
            told = ["execution_interrupted", {"prompt_id": job, "node_id": "3", "executed": []}]
            return Answer.of({job: {"outputs": {}, "status": {"status_str": "error", "messages": [told]}}})
        images = (
            [] if self.mood == "empty" else [{"filename": f"{job}.png", "subfolder": "", "type": "output"}]
        )
        status = {"status_str": "success", "completed": True, "messages": []}
        return Answer.of({job: {"outputs": {"9": {"images": images}}, "status": status}})

    async def queue(self, asked: Asked) -> Answer:
        if asked.method == "POST":
            self.cancelled += asked.json["delete"]
            return Answer(b"", 200, {})
        ours = [] if self.mood == "lost" else [[0, job, {}, {}, []] for job in self.jobs]
        if self.looks_in_queue:
            self.looks_in_queue -= 1
            return Answer.of({"queue_running": [[0, "another", {}, {}, []]], "queue_pending": ours})
        return Answer.of({"queue_running": ours, "queue_pending": []})

    async def forget(self, asked: Asked) -> Answer:
        assert asked.json["free_memory"]
        if self.mood == "files deleted":
            self.mood = "well"
        return Answer(b"", 200, {})

    async def interrupt(self, asked: Asked) -> Answer:
        self.cancelled.append(f"interrupted {asked.json['prompt_id']}")
        return Answer(b"", 200, {})

    async def view(self, asked: Asked) -> Answer:
        if self.mood == "files deleted":
            return Answer(b"", 404, {})
        graph = self.jobs[asked.query["filename"].removesuffix(".png")]
        loaded = [n["inputs"]["image"] for n in graph.values() if n["class_type"] == "LoadImage"]
        seed = next(n["inputs"]["seed"] for n in graph.values() if "seed" in n["inputs"])
        text = graph["6"]["inputs"]["text"]
        if self.mood == "garbage":
            return Answer(b"%%%", 200, {"Content-Type": "image/png"})
        data = await self.image(text, seed, [self.uploads[name] for name in loaded])
        return Answer(data, 200, {"Content-Type": "image/png"})


ROUTES: list[tuple[str, Callable[[Loopback, Asked], Awaitable[Answer]]]] = [
    (r"/chat/completions$", Loopback.chat),
    (r"/images/(generations|edits)$", Loopback.images),
    (r":generateContent$", Loopback.gemini),
    (r"^/(edit|generate)$", Loopback.service),
    (r"^/sdapi/v1/(txt2img|img2img)$", Loopback.webui),
    (r"^/predictions$", Loopback.predictions),
    (r"^/paint$", Loopback.paint),
    (r"^/files/", Loopback.file),
    (r"^/health$", Loopback.say_health),
    (r"^/upload/image$", Loopback.upload),
    (r"^/prompt$", Loopback.prompt),
    (r"^/history/", Loopback.history),
    (r"^/queue$", Loopback.queue),
    (r"^/interrupt$", Loopback.interrupt),
    (r"^/free$", Loopback.forget),
    (r"^/view$", Loopback.view),
]

WORKFLOW = {
    "3": {"class_type": "KSampler", "inputs": {"seed": 1, "positive": ["6", 0], "negative": ["7", 0]}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat", "clip": ["4", 1]}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "ugly", "clip": ["4", 1]}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["8", 0], "filename_prefix": "x"}},
}
EDITING = {
    **WORKFLOW,
    "10": {"class_type": "LoadImage", "inputs": {"image": "example.png"}},
    "12": {"class_type": "LoadImage", "inputs": {"image": "example.png"}},
    "15": {"class_type": "LoadImage", "inputs": {"image": "example.png"}},
}
"""Two workflows in ComfyUI's API form: one draws from text, one from three images."""


# Faults of the wire, each for any request

CLOSING = {"Connection": "close"}
"""The server closes the connection after a fault; without this header a client may try to reuse it."""


def status(code: int, body: Any = None, **headers: str) -> Fault:
    told = {"error": {"message": f"told {code}", "type": "some_error"}} if body is None else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def fault(exchange: Exchange) -> None:
        await exchange.send(Answer.of(told, code, **CLOSING, **named))

    return fault


def page(body: bytes, content_type: str, code: int = 200, **headers: str) -> Fault:
    async def fault(exchange: Exchange) -> None:
        await exchange.send(Answer(body, code, {"Content-Type": content_type, **CLOSING, **headers}))

    return fault


async def reset(exchange: Exchange) -> None:
    sock = exchange.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    exchange.writer.transport.abort()


async def hang(exchange: Exchange) -> None:
    exchange.server.hangs()
    await exchange.reader.read()  # until the client has gone


async def hang_mid_body(exchange: Exchange) -> None:
    answer = await exchange.answer()
    await exchange.send(answer, cut_at=len(answer.body) // 2)
    await hang(exchange)


async def drip(exchange: Exchange) -> None:
    await exchange.send(Answer(b""), length=10_000)
    for number in range(9_999):
        exchange.writer.write(b" ")
        await exchange.writer.drain()
        if number == 3:
            exchange.server.hangs()
        await asyncio.sleep(0.1)


async def truncated(exchange: Exchange) -> None:
    answer = await exchange.answer()
    await exchange.send(answer, cut_at=len(answer.body) // 2)


async def wrong_length(exchange: Exchange) -> None:
    answer = await exchange.answer()
    await exchange.send(answer, length=len(answer.body) + 100)


async def bad_chunk(exchange: Exchange) -> None:
    exchange.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n{}\r\n")
    await exchange.writer.drain()


async def no_http(exchange: Exchange) -> None:
    exchange.writer.write(b"220 smtp.example ESMTP ready\r\n\r\n")
    await exchange.writer.drain()


async def many_headers(exchange: Exchange) -> None:
    exchange.writer.write(b"HTTP/1.1 200 OK\r\n" + b"X-Pad: " + b"a" * 1_000_000 + b"\r\n\r\n{}")
    await exchange.writer.drain()


async def endless(exchange: Exchange) -> None:
    exchange.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
    for _ in range(2000):
        exchange.writer.write(b" " * 1_000_000)
        await exchange.writer.drain()


async def endless_error(exchange: Exchange) -> None:
    exchange.writer.write(b"HTTP/1.1 500 Oh\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
    for _ in range(2000):
        exchange.writer.write(b" " * 1_000_000)
        await exchange.writer.drain()


async def endless_headers(exchange: Exchange) -> None:
    exchange.writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000_000):
        exchange.writer.write(b"X-%d: y\r\n" % number)
        await exchange.writer.drain()


async def interim(exchange: Exchange) -> None:
    for number in range(1_000_000):
        exchange.writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await exchange.writer.drain()
        if number == 3:
            exchange.server.hangs()
        await asyncio.sleep(0.1)


async def gzip_bomb(exchange: Exchange) -> None:
    body = zlib.compress(bytes(50_000_000), level=1, wbits=31) if not BOMBS else BOMBS[0]
    BOMBS[:] = [body]
    await exchange.send(Answer(body, 200, {"Content-Type": "application/json", "Content-Encoding": "gzip"}))


BOMBS: list[bytes] = []


async def late(exchange: Exchange) -> None:
    answer = await exchange.answer()
    await hang(exchange)
    await exchange.send(answer)


def huge_png(side: int = 17_400) -> bytes:
    """A sound PNG of 300 megapixels in a few hundred kilobytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    row = bytes(1 + (side + 7) // 8)
    packer = zlib.compressobj(1)
    pixels = b"".join([*(packer.compress(row * 100) for _ in range(side // 100)), packer.flush()])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines if line}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    return Asked(method, parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()}, headers, body)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content if part["type"] == "text")


def _answer(value: Any) -> str:
    return f"<think>I looked.</think><answer>{json.dumps(value)}</answer>"


def _logprob(piece: str) -> dict[str, Any]:
    return {"token": piece, "logprob": -0.1, "bytes": list(piece.encode()), "top_logprobs": []}


def _completion(message: dict[str, Any], finish_reason: str, **choice: Any) -> dict[str, Any]:
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason, **choice}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050},
    }


def _candidate(parts: list[dict[str, Any]], reason: str = "STOP") -> dict[str, Any]:
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 50, "totalTokenCount": 1050},
    }


@pytest.fixture(scope="session")
def the_loopback() -> Iterator[Loopback]:
    server = Loopback()
    yield server
    server.stop()


@pytest.fixture
def loopback(the_loopback: Loopback) -> Loopback:
    """The server, as new, with the workflows for ComfyUI beside it."""
    the_loopback.reset()
    Path("edit.json").write_text(json.dumps(EDITING), "utf-8")
    Path("text.json").write_text(json.dumps(WORKFLOW), "utf-8")
    return the_loopback
