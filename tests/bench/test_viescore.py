"""VIEScore as a test of judges: ratings and images in, correlations out, by hand on a small museum."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from images import put_image
from judge_server import judge_server

from interleave.bench import statistics
from interleave.bench.base import Context
from interleave.bench.benchmarks.viescore import MODELS, TASKS, VIEScore
from interleave.bench.prompts import reworded_prompts
from interleave.cli.main import run
from interleave.errors import InputError
from interleave.types import ImagePart

UIDS = ("u1.jpg", "u2.jpg", "u3.jpg", "u4.jpg")
EDITS, TEXTS = "ImagenHub_Subject-Driven_IE", "ImagenHub_Text-Guided_IG"
RATINGS = {"u1.jpg": "[0, 1]", "u2.jpg": "[0.5, 1]", "u3.jpg": "[0.5,0.5]", "u4.jpg": "[1, 1]"}
"""Of all raters. SC: 0, .5, .5, 1; PQ: 1, 1, .5, 1; O: 0, .707, .5, 1."""


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 20)


def put_ratings(folder: Path, task: str, model: str) -> None:
    target = folder / "human" / task
    target.mkdir(parents=True)
    lines = [f"uid\t{model}\tImagic", *(f"{uid}\t{cell}\t[0, 0]" for uid, cell in RATINGS.items())]
    for rater in (1, 2, 3):
        (target / f"x_rater{rater}.tsv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    put_ratings(folder, EDITS, "DreamEdit")
    put_ratings(folder, TEXTS, "SD")
    for task, shown, asked in (
        (EDITS, ("input", "token", "DreamEdit"), "subject"),
        (TEXTS, ("SD",), "prompt"),
    ):
        for uid in UIDS:
            for name in shown:
                put_image(folder / "museum" / task / name / uid)
        index = {uid: {asked: f"a_{uid[:2]}"} for uid in UIDS}
        (folder / "museum" / task / "dataset_lookup.json").write_text(json.dumps(index))
    return folder


def says(text: str, number: int) -> str | None:
    for place, uid in enumerate(UIDS):
        if f"Subject: a {uid[:2]}" in text:  # in the order of the raters, but for one swap
            return json.dumps({"score": [(1, 5, 4, 9)[place], 10]})
        if f"Text: a_{uid[:2]}" in text:  # the other way round
            return f"[{9 - 2 * place}]"
    return '{"score": [6, 8]}'


def bench(*arguments: str) -> int:
    return run(["bench", "viescore", *arguments])


def values(printed: str) -> dict[str, float | None]:
    return {each["name"]: each["value"] for each in json.loads(printed)["outcome"]["numbers"]}


def test_the_chain(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with judge_server(says) as judge:
        common = ["--data", str(data), "--out", "out", "--judge", judge.spec, "--json"]
        assert bench(*common) == 0
        found = values(capsys.readouterr().out)
        assert sorted(judge.images) == [1] * 12 + [3] * 4
    # ranks of people 1, 2.5, 2.5, 4 against 1, 3, 2, 4 and 4, 3, 2, 1
    edits, texts = 4.5 / math.sqrt(4.5 * 5), -4.5 / math.sqrt(4.5 * 5)
    assert found["SC_spearman"] == pytest.approx(math.tanh((math.atanh(edits) + math.atanh(texts)) / 2))
    assert found["SC_spearman_notebook"] == pytest.approx(
        math.tanh((math.tanh(edits) + math.tanh(texts)) / 2)
    )
    assert found["PQ_spearman"] is None  # the judge gave every image the same
    assert found["O_spearman"] is not None


def test_what_the_judge_is_asked(data: Path) -> None:
    benchmark = VIEScore()
    dataset = benchmark.read(data)
    item = next(item for item in dataset.items if item.id == f"{EDITS}/DreamEdit/u2.jpg")
    context = Context(reworded_prompts("viescore"), data)
    for key, images in (("sc", 3), ("pq", 1)):
        (message,) = benchmark.question(key, item, None, context).messages
        assert sum(isinstance(part, ImagePart) for part in message.parts) == images
        assert ("Subject: a u2" in message.text) == (key == "sc")
    assert item.facts["human"] == {"SC": 0.5, "PQ": 1, "O": pytest.approx(math.sqrt(0.5))}
    assert not any("Imagic" in item.id for item in dataset.items)
    assert dataset.notes[1] == f"the whole benchmark has {MODELS} models"


def test_what_upstream_stored_is_read_without_its_guesses(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results_x" / EDITS / "DreamEdit"
    folder.mkdir(parents=True)
    said = {
        "u1.jpg": {"score": [1, 5], "reasoning": "bad"},
        "u2.jpg": {"score": 7, "reasoning": None},
        "u3.jpg": {"score": [4], "reasoning": "guess_if_cannot_parse | I cannot"},
        "u4.jpg": {"score": [8.5, 99]},
        "u9.jpg": {"score": [1]},
    }
    (folder / "SC.json").write_text(json.dumps(said))
    dataset = VIEScore().read(data)
    records = {
        record.item[-6:]: record for record in VIEScore().import_judgements(dataset, folder.parents[1])
    }
    assert [record.status for record in records.values()] == ["ok", "ok", "unparsed", "unparsed"]
    assert [record.value for record in records.values()] == [[1, 5], [7], None, None]
    assert records["u3.jpg"].reason == "upstream picked a random score"
    (folder / "SC.json").write_text('{"u1.jpg": {}}')
    with pytest.raises(InputError, match="no 'score'"):
        list(VIEScore().import_judgements(dataset, folder.parents[1]))
    with pytest.raises(InputError, match="results_"):
        list(VIEScore().import_judgements(dataset, tmp_path))


def test_without_the_museum_nobody_can_be_asked(tmp_path: Path) -> None:
    put_ratings(tmp_path, EDITS, "DreamEdit")
    dataset = VIEScore().read(tmp_path)
    assert dataset.notes[-1].startswith("4 have no prompt or image here")
    with pytest.raises(InputError, match=r"dataset_lookup\.json"):
        VIEScore().question("sc", dataset.items[0], None, Context(reworded_prompts("viescore"), tmp_path))


@pytest.mark.parametrize("cell", ["[0.3, 1]", "[1]", "", "one", "[1, 1, 1]", "[[1], 1]"])
def test_ratings_of_another_form_are_refused(tmp_path: Path, cell: str) -> None:
    put_ratings(tmp_path, EDITS, "DreamEdit")
    sheet = tmp_path / "human" / EDITS / "x_rater2.tsv"
    sheet.write_text(sheet.read_text().replace("[0.5, 1]", cell))
    with pytest.raises(InputError, match=r"x_rater2\.tsv:3"):
        VIEScore().read(tmp_path)


def test_raters_must_have_rated_the_same(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rater1"):
        VIEScore().read(tmp_path)
    put_ratings(tmp_path, EDITS, "DreamEdit")
    sheet = tmp_path / "human" / EDITS / "x_rater3.tsv"
    sheet.write_text(sheet.read_text().replace("u4", "u5"))
    with pytest.raises(InputError, match="not all raters"):
        VIEScore().read(tmp_path)
    sheet.write_text(sheet.read_text().replace("u5", "u3"))
    with pytest.raises(InputError, match="'uid' is"):
        VIEScore().read(tmp_path)
    sheet.unlink()
    with pytest.raises(InputError, match="2 raters"):
        VIEScore().read(tmp_path)


def test_there_are_29_models_in_seven_tasks() -> None:
    assert (len(TASKS), MODELS) == (7, 29)
