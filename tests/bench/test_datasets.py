"""Data from the Hub, a small one on the loopback: a folder goes on with the commit it began with."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("huggingface_hub")

from huggingface_hub import constants

from interleave.bench.benchmarks.ueval import UEval
from interleave.bench.datasets import HubData, find_data
from interleave.bench.stages import open_workspace
from interleave.errors import InputError

ROWS = [{"id": 1, "task": "art", "prompt": "Draw {}", "text_rubrics": ["it names it"], "image_rubrics": []}]


class Hub:
    """Two commits of one data set; `main` is the newer one once `newest` says so."""

    def __init__(self) -> None:
        self.commits = {letter * 40: {"test.json": json.dumps(ROWS).replace("{}", letter)} for letter in "ab"}
        self.newest = "a" * 40
        self.commits["a" * 40]["evil.pth"] = "code"
        self.served: list[str] = []


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            path = self.path.partition("?")[0].strip("/").split("/")
            data, headers = self._data(path)
            self.send_response(200 if data is not None else 404)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            if body and data:
                self.wfile.write(data)

        def _data(self, path: list[str]) -> tuple[bytes | None, dict[str, str]]:
            if "tree" in path and path[-1] not in state.commits:
                return None, {"X-Error-Code": "RevisionNotFound"}
            if "tree" in path:
                files = state.commits[path[-1]].items()
                tree = [
                    {"type": "file", "path": name, "size": len(text), "oid": name} for name, text in files
                ]
                return json.dumps(tree).encode(), {"Content-Type": "application/json"}
            if path[:2] == ["api", "datasets"]:
                asked = path[-1]
                commit = state.newest if asked == "main" else asked
                if commit not in state.commits:
                    return None, {"X-Error-Code": "RevisionNotFound"}
                siblings = [{"rfilename": name} for name in state.commits[commit]]
                info = {"id": "zlab-princeton/UEval", "sha": commit, "siblings": siblings}
                return json.dumps(info).encode(), {"Content-Type": "application/json"}
            if "resolve" in path:
                commit, name = path[-2], path[-1]
                state.served.append(name)
                return state.commits[commit][name].encode(), {"ETag": f'"{commit}"', "X-Repo-Commit": commit}
            return None, {}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INTERLEAVE_BENCH_DATA", raising=False)
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_folder_goes_on_with_the_commit_it_began_with(hub: Hub, tmp_path: Path) -> None:
    first = open_workspace(UEval(), tmp_path / "out")
    assert first.dataset.source == f"zlab-princeton/UEval@{'a' * 40}"
    assert first.dataset.items[0].prompt == "Draw a"
    first.describe("full", {})
    hub.newest = "b" * 40
    assert open_workspace(UEval(), tmp_path / "out").dataset.items[0].prompt == "Draw a"
    assert open_workspace(UEval(), tmp_path / "new").dataset.items[0].prompt == "Draw b"
    chosen = open_workspace(UEval(), tmp_path / "other", data_revision="a" * 40)
    assert chosen.dataset.items[0].prompt == "Draw a"


def test_pickles_are_not_even_fetched(hub: Hub) -> None:
    folder, _ = find_data("ueval", None, HubData("zlab-princeton/UEval"))
    assert [path.name for path in folder.iterdir()] == ["test.json"]
    assert "evil.pth" not in hub.served


def test_what_cannot_be_fetched_is_said_with_the_way_out(hub: Hub) -> None:
    with pytest.raises(InputError, match="give a folder with --data"):
        find_data("ueval", None, HubData("zlab-princeton/UEval", "c" * 40))
