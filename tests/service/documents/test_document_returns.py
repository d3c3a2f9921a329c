"""Clients that are cut off in the middle of a stream, and come back for the rest."""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from running import HeldGenerator, Service, service

ASKED = {"input": "How a frog grows up, in three pictures", "background": True}


def events_of(running: Service, id_: str, after: int, most: int) -> list[dict[str, Any]]:
    """Some events of a stream, whose connection is then reset without a goodbye."""
    host, port = "127.0.0.1", int(running.url.rpartition(":")[2])
    with socket.create_connection((host, port), timeout=60) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        path = f"/v1/responses/{id_}?stream=true&starting_after={after}"
        line.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        found: list[dict[str, Any]] = []
        with line.makefile("rb") as lines:
            for text in lines:
                if text.startswith(b"data: "):
                    found.append(json.loads(text.removeprefix(b"data: ")))
                    if len(found) == most:
                        break
    return found


@pytest.mark.parametrize("most", [1, 3, 7])
def test_who_is_cut_off_again_and_again_gets_every_event_once(tmp_path: Path, most: int) -> None:
    """The service is started anew as well, while the second image is being drawn."""
    with service(tmp_path, generator=HeldGenerator(free=1)) as first:
        id_ = first.http.post("/v1/responses", json=ASKED).json()["id"]
        first.until(lambda: len(first.generator.calls) == 2)
        seen = events_of(first, id_, -1, most)
        seen += events_of(first, id_, seen[-1]["sequence_number"], 2)
        first.until(lambda: not len(first.documents.broadcaster))
    with service(tmp_path) as second:
        while seen[-1]["type"] != "response.completed":
            seen += events_of(second, id_, seen[-1]["sequence_number"], most)
        whole = events_of(second, id_, -1, 1000)
        drawn = len(second.generator.calls)
    assert [event["sequence_number"] for event in seen] == list(range(len(whole)))
    assert seen == whole
    assert drawn == 3  # the second image, which was open, its second attempt, and the third
