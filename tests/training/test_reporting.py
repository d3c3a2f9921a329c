"""What leaves a training: logs for other programs, the upload of the result, and the page of samples."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from making import critic_sft_rows, write_rows

from interleave.errors import ConfigurationError, MissingDependency, StorageError
from interleave.training.hub import upload
from interleave.training.recipes import load_recipe
from interleave.training.reporting import reporters
from interleave.training.run import TrainingJob
from interleave.training.samples_page import spread
from interleave.training.sft import train_sft


def test_the_trainers_own_reporters_are_taken_by_name() -> None:
    assert reporters(()) == []
    assert reporters(("tensorboard",)) == ["tensorboard"]
    with pytest.raises(ConfigurationError, match=r"'wandbb' is unknown.*wandb"):
        reporters(("wandbb",))


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_one_that_is_not_installed_is_named(name: str) -> None:
    try:
        __import__(name)
    except ImportError:
        with pytest.raises(MissingDependency, match=f"pip install {name}"):
            reporters((name,))


def test_a_training_reports_where_it_is_told(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    changes: dict[str, Any] = {
        "model.name": str(toy),
        "training.batch": 2,
        "training.steps": 1,
        "training.report_to": ["tensorboard"],
    }
    train_sft(TrainingJob("critic", load_recipe(None, task="sft", changes=changes), data, tmp_path / "out"))
    assert list((tmp_path / "board").rglob("events.*")), "written by the trainer's own reporter"
    assert list((tmp_path / "out" / "tensorboard").glob("events.*")), "ours stays as it was"


class Hub(BaseHTTPRequestHandler):
    """As much of the Hub as an upload of small files needs."""

    seen: ClassVar[list[tuple[str, Any]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        Hub.seen.append((self.path, lines))
        if self.path.endswith("/create"):
            answer: dict[str, Any] = {"url": f"http://{self.headers['Host']}/me/critic"}
        elif "/preupload/" in self.path:
            files = [{"path": each["path"], "uploadMode": "regular"} for each in lines[0]["files"]]
            answer = {"files": [{**each, "shouldIgnore": False} for each in files]}
        else:
            answer = {"commitUrl": f"http://{self.headers['Host']}/me/critic/commit/1", "commitOid": "1" * 40}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    Hub.seen.clear()
    yield address
    server.shutdown()
    server.server_close()


def test_a_result_is_uploaded_to_the_hub(hub: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    upload(tmp_path, "me/critic")
    paths = [path for path, _ in Hub.seen]
    assert paths[0] == "/api/repos/create"
    asked = Hub.seen[0][1][0]
    assert asked.get("private") is True or asked.get("visibility") == "private"
    commit = next(lines for path, lines in Hub.seen if "/commit/" in path)
    assert [each["value"]["path"] for each in commit if each["key"] == "file"] == ["config.json"]


def test_an_upload_that_fails_says_where_the_result_is(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=rf"the result is in {tmp_path}.*hf upload"):
        upload(tmp_path, "no/such/name")


def test_the_page_shows_different_rows() -> None:
    group = ["a"] * 8 + ["b"] * 8 + ["c"] * 8
    assert spread(group, 4) == [0, 1, 8, 16]
    assert spread(["a", "a#2", "a#3", "b"], 2) == [0, 3], "copies are one row"
    assert spread(["a", "b"], 8) == [0, 1]


def test_the_page_after_fine_tuning_shows_no_row_twice_while_there_are_others(
    toy: Path, tmp_path: Path
) -> None:
    rows = critic_sft_rows(8, side=64)
    copies = [{**rows[0], "id": f"{rows[0]['id']}#{number}"} for number in range(2, 9)]
    (tmp_path / "rows").mkdir()
    write_rows(tmp_path / "rows" / "critic_sft.parquet", [rows[0], *copies, *rows[1:]])
    changes = {"model.name": str(toy), "training.batch": 2, "training.steps": 1}
    recipe = load_recipe(None, task="sft", changes=changes)
    train_sft(TrainingJob("critic", recipe, tmp_path / "rows", tmp_path / "out"))
    page = (tmp_path / "out" / "samples.html").read_text("utf-8")
    assert all(str(row["id"]) in page for row in rows)
