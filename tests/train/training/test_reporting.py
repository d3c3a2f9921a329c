"""What leaves a training: logs for other programs, the upload of the result, and the page of samples."""

from __future__ import annotations

import importlib.util
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from making import critic_rl_rows, critic_sft_rows, write_rows
from PIL import Image

from interleave.errors import ConfigurationError, MissingDependency, StorageError
from interleave.train.cli.train import app
from interleave.train.grpo import train_grpo
from interleave.train.logs import prepare_reporters, reporters
from interleave.train.preflight import print_plan
from interleave.train.publishing import TrainedModel, upload, write_card
from interleave.train.recipes import TrainingJob, load_recipe
from interleave.train.rewards.samples import Case, Result, Sample
from interleave.train.samples_page import SamplePage, rows_of
from interleave.train.sft import train_sft
from interleave.train.trainers.trl import ScoredBatch

REWARD = {"reward.generator": "world", "reward.scorer": "oracle"}


def test_the_trainers_own_reporters_are_taken_by_name() -> None:
    assert reporters(()) == []
    assert reporters(("tensorboard", "tensorboard")) == [], "our own log writes its files"
    with pytest.raises(ConfigurationError, match=r"'wandbb' is unknown.*wandb"):
        reporters(("wandbb",))


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_one_that_is_not_installed_is_named_before_anything_is_loaded(
    name: str, data: Path, tmp_path: Path
) -> None:
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"does not apply: {name} is installed")
    changes = {"model.name": "./no-such-model", "training.report_to": [name]}
    job = TrainingJob("critic", load_recipe(None, task="sft", changes=changes), data, tmp_path / "out")
    grpo = replace(job, task="grpo", recipe=load_recipe(None, task="grpo", changes=changes | REWARD))
    for work, asked in ((train_sft, job), (train_grpo, grpo), (print_plan, job)):
        with pytest.raises(MissingDependency, match=f"pip install {name}"):
            work(asked)
    assert not (tmp_path / "out").exists()


def test_wandb_writes_into_the_output_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_DIR", raising=False)
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    prepare_reporters(("trackio",), tmp_path / "out")
    assert "WANDB_DIR" not in os.environ
    prepare_reporters(("wandb",), tmp_path / "out")
    assert Path(os.environ["WANDB_DIR"]) == tmp_path / "out"
    assert os.environ["WANDB_PROJECT"] == "mine", "what the user says counts"
    monkeypatch.delenv("WANDB_DIR")


def test_the_commands_take_both_options(monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    seen: list[Any] = []
    monkeypatch.setattr(
        "interleave.train.cli.train._run", lambda train, job: seen.append(job.recipe.training) or 0
    )
    words = ["--report-to", "tensorboard", "--report-to", "wandb", "--push-to", "me/critic"]
    for command in (["sft", "critic"], ["grpo"]):
        done = CliRunner().invoke(app, [*command, "--data", ".", *words], catch_exceptions=False)
        assert done.exit_code == 0
    assert [(each.report_to, each.push_to) for each in seen] == [(("tensorboard", "wandb"), "me/critic")] * 2


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


def files_of(commit: Any) -> list[str]:
    return sorted(each["value"]["path"] for each in commit if each["key"] == "file")


def is_private(asked: Any) -> bool:
    return asked.get("private") is True or asked.get("visibility") == "private"


def test_a_result_is_uploaded_to_a_private_repository(hub: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert upload(tmp_path, "me/critic").startswith(hub)
    assert Hub.seen[0][0] == "/api/repos/create"
    assert is_private(Hub.seen[0][1][0])
    commit = next(lines for path, lines in Hub.seen if "/commit/" in path)
    assert files_of(commit) == ["config.json"]


def test_an_upload_that_fails_says_where_the_result_is(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=rf"the result is in {tmp_path}.*same command again.*hf upload"):
        upload(tmp_path, "no/such/name")


def test_a_training_is_uploaded_with_its_card_and_again_when_it_is_done(
    hub: str, toy: Path, data: Path, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {
        "model.name": str(toy),
        "training.batch": 2,
        "training.steps": 1,
        "training.push_to": "me/critic",
    }
    job = TrainingJob("critic", load_recipe(None, task="sft", changes=changes), data, tmp_path / "out")
    said: list[str] = []
    train_sft(job, said.append)
    assert Hub.seen[0][0] == "/api/repos/create", "before the training"
    commit = next(lines for path, lines in Hub.seen if "/commit/" in path)
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= set(files_of(commit))
    assert said[-1] == f"uploaded to {hub}/me/critic"
    Hub.seen.clear()
    train_sft(job, said.append)
    assert any("/commit/" in path for path, _ in Hub.seen), "the same command uploads a finished training"
    card = (tmp_path / "out" / "model" / "README.md").read_text("utf-8")
    assert "4 rows of the export" in card
    assert "| steps | 1 |" in card
    assert "| loss | " in card
    assert "library_name: transformers" in card
    assert str(tmp_path) not in card, "no path of this machine"
    assert str(toy) not in card


def test_a_repository_that_cannot_be_written_to_ends_the_command_before_it_begins(
    data: Path, tmp_path: Path
) -> None:
    changes = {"model.name": "./no-such-model", "training.push_to": "no/such/name"}
    job = TrainingJob("critic", load_recipe(None, task="sft", changes=changes), data, tmp_path / "out")
    with pytest.raises(ConfigurationError, match="--push-to 'no/such/name': cannot upload there"):
        train_sft(job)


def test_a_card_names_models_and_no_addresses(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "model.lora_rank": 8,
        "reward.generator": "http://10.1.2.3:8011",
        "reward.scorer": "openai:judge@http://10.1.2.4/v1?key=KEY",
    }
    recipe = load_recipe(None, task="grpo", changes=changes)
    base = "Qwen/Qwen3-VL-8B-Instruct"
    facts = TrainedModel("grpo", recipe, base, Path("/data/export"), 7, "abc", 12, tmp_path / "log.jsonl")
    card = write_card(tmp_path, facts).read_text("utf-8")
    assert f"base_model: {base}" in card
    assert "library_name: peft" in card
    assert "scored by `openai:judge`" in card
    assert "10.1.2" not in card
    assert "KEY" not in card


def test_the_page_shows_a_row_once_with_the_answers_to_it() -> None:
    group = ["a"] * 3 + ["b"] * 2 + ["c", "c#2"]
    assert rows_of(group) == [[0, 1, 2], [3, 4], [5, 6]], "copies are one row"


def test_the_page_of_grpo_has_one_card_for_a_row(tmp_path: Path) -> None:
    samples = [Sample.of_row({**row, "sources": []}) for row in critic_rl_rows(2) for _ in range(8)]
    results = [Result(0.5 + place / 100, None, Case.SUCCESS) for place in range(16)]
    page = SamplePage(tmp_path, "GRPO")
    image = Image.new("RGB", (8, 8))
    page.add(3, ScoredBatch(samples, [f"reply {n}" for n in range(16)], results), [[image, image]] * 16)
    assert [len(card.answers) for card in page.shown] == [4, 4]
    text = page.write().read_text("utf-8")
    assert text.count("<article>") == 2
    assert text.count("<figcaption>before</figcaption>") == 2
    assert "reply 0" in text
    assert "reply 8" in text


def test_the_page_after_fine_tuning_shows_no_row_twice(toy: Path, tmp_path: Path) -> None:
    rows = critic_sft_rows(8, side=64)
    copies = [{**rows[0], "id": f"another-{number}"} for number in range(2, 9)]
    (tmp_path / "rows").mkdir()
    write_rows(tmp_path / "rows" / "critic_sft.parquet", [rows[0], *copies, *rows[1:]])
    changes = {"model.name": str(toy), "training.batch": 2, "training.steps": 1}
    recipe = load_recipe(None, task="sft", changes=changes)
    train_sft(TrainingJob("critic", recipe, tmp_path / "rows", tmp_path / "out"))
    page = (tmp_path / "out" / "samples.html").read_text("utf-8")
    assert "another" not in page, "also where the ids differ"
    assert len({str(row["id"]) for row in rows if str(row["id"]) in page}) == page.count("<article>")
