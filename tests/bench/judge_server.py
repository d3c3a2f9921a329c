"""A judge on a loopback server, asked through the real SDK; a function of the words decides what it says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Says = Callable[[str, int], "str | int | None"]
"""The reply to a question and its number: a text, an HTTP status to fail with, or None for a refusal."""


@dataclass
class JudgeServer:
    """What was asked, and where."""

    url: str
    questions: list[str] = field(default_factory=list)
    images: list[int] = field(default_factory=list)

    @property
    def spec(self) -> str:
        return f"openai:judge@{self.url}/v1"


@contextmanager
def judge_server(says: Says) -> Iterator[JudgeServer]:
    """A judge that answers for as long as the context lasts."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text, images = _asked(body)
            with lock:
                judge.questions.append(text)
                judge.images.append(images)
                number = len(judge.questions)
            reply = says(text, number)
            if isinstance(reply, int):
                self._send(reply, {"error": {"message": "the judge is away"}})
                return
            finish = "stop" if reply is not None else "content_filter"
            message = {"role": "assistant", "content": reply or ""}
            self._send(
                200,
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "judge",
                    "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
                },
            )

        def _send(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    judge = JudgeServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield judge
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def importing(data: Path, outputs: Path, judge: JudgeServer) -> list[str]:
    """The options of `bench` that take outputs made elsewhere to this judge."""
    paths = ["--data", str(data), "--import", str(outputs), "--out", "out"]
    return [*paths, "--judge", judge.spec, "--json"]


def printed_numbers(printed: str) -> dict[str, float | None]:
    """The numbers of what `bench --json` prints, by name."""
    return {each["name"]: each["value"] for each in json.loads(printed)["outcome"]["numbers"]}


def _asked(body: dict[str, Any]) -> tuple[str, int]:
    texts, images = [], 0
    for message in body["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for part in parts:
            if part["type"] == "text":
                texts.append(part["text"])
            else:
                images += 1
    return "\n".join(texts), images
