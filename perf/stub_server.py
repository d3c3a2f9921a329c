"""An HTTP server that plays planner, critic and generator, and keeps a ledger of all calls."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave.images import decode_image, encode_png

PAINTER = load_generator("solid?size=64")
STEPS = 4


class StubServer:
    """Plans four steps and rejects the first image of the second one. Every answer takes `delay` seconds."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.asked: list[tuple[float, str]] = []
        """Time and digest of every call."""
        server = self

        class Handler(_Handler):
            stub = server

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self.http.server_port}"
        self.specs = ["--generator", url, "--critic", f"openai:m@{url}/v1", "--planner", f"openai:m@{url}/v1"]

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


class _Handler(BaseHTTPRequestHandler):
    stub: StubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.reply({"status": "Healthy", "gpu_manager_ready": True})

    def do_POST(self) -> None:
        body = self.rfile.read(length := int(self.headers["Content-Length"]))
        if len(body) < length:
            return  # the caller has been killed
        self.stub.asked.append((time.time(), hashlib.sha256(self.path.encode() + body).hexdigest()))
        time.sleep(self.stub.delay)
        given = json.loads(body)
        self.reply(words(body.decode()) if "messages" in given else image(given))

    def reply(self, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        with suppress(ConnectionError):  # the caller has been killed
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: Any) -> None:
        pass


def image(given: dict[str, Any]) -> dict[str, Any]:
    source = given.get("image")
    sources = (decode_image(base64.b64decode(source)),) if source else ()
    drawn = asyncio.run(PAINTER.generate(ImageRequest(given["prompt"], given["seed"], sources)))
    name, encoded = "edited_image" if sources else "image", base64.b64encode(encode_png(drawn)).decode()
    return {"success": True, "task_id": "t", name: encoded, "seed": given["seed"], "gpu_id": 0, "error": None}


def words(question: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"previous_step_success": True, "refine_prompt": ""}
    if "previous_step_success" not in question:
        answer = {"execution_plan": [step(number) for number in range(1, STEPS + 1)]}
    elif "Draw part 2" in question and "once more" not in question:
        answer = {"previous_step_success": False, "refine_prompt": "Draw part 2 once more"}
    message = {"role": "assistant", "content": f"<think>…</think><answer>{json.dumps(answer)}</answer>"}
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050},
    }


def step(number: int) -> dict[str, Any]:
    """Return a step of the plan."""
    name = f"Part {number}"
    prompt = f"Draw part {number}"
    return {
        "step_number": number,
        "step_name": name,
        "instruction": name,
        "prompt": prompt,
        "auxiliary_text": None,
    }
