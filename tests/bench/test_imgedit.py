"""ImgEdit-Bench: three lines of a reply, the rule that judges forget, upstream's files, numbers by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from images import put_image
from judge_server import importing, judge_server, printed_numbers

from interleave.bench import statistics
from interleave.bench.base import Unparsed
from interleave.bench.benchmarks.imgedit import COUNTS, LABELS, PLACES, ImgEdit, official_scores, read_three
from interleave.bench.numbers import Table
from interleave.bench.prompts import official_prompts, reworded_prompts
from interleave.bench.published import published_rows
from interleave.cli.main import run
from interleave.errors import InputError

ROWS = {
    "7": {"id": "animal/1.jpg", "prompt": "turn it blue", "edit_type": "adjust"},
    "8": {"id": "animal/2.jpg", "prompt": "make it vague", "edit_type": "adjust"},
    "9": {"id": "style/1.jpg", "prompt": "as a woodcut", "edit_type": "style"},
}


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 20)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for row in ROWS.values():
        put_image(folder / "Benchmark" / "singleturn" / row["id"])
    (folder / "basic_edit.json").write_text(json.dumps(ROWS))
    return folder


@pytest.fixture
def edits(tmp_path: Path) -> Path:
    for key in ROWS:
        put_image(tmp_path / "edits" / f"{key}.png", "blue")
    return tmp_path / "edits"


def reply(kind: str, *scores: int) -> str:
    lines = [f"{label}: {score}" for label, score in zip(LABELS[kind], scores, strict=True)]
    return "\n".join(["Brief reasoning: it is so.", *lines])


def says(text: str, number: int) -> str:
    if "vague" in text:
        return "Brief reasoning: it was not to be seen.\nPrompt Compliance: between 2 and 3"
    return reply("adjust", 4, 3, 3) if "blue" in text else reply("style", 2, 5, 5)


def bench(*arguments: str) -> int:
    return run(["bench", "imgedit", *arguments])


def test_the_chain(
    data: Path, edits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with judge_server(says) as judge:
        common = importing(data, edits, judge)
        assert bench(*common) == 1
        zero = printed_numbers(capsys.readouterr().out)
        assert judge.images == [2] * 5  # one of the three is asked for three times
        assert bench("score", *common, "--missing", "official") == 1
        official = printed_numbers(capsys.readouterr().out)
    assert official["overall"] == pytest.approx((3.33 + 4) / 2)
    assert official["item_avg"] == pytest.approx((3.33 + 4) / 2)
    assert official["overall_capped"] == pytest.approx((10 / 3 + 2) / 2, abs=1e-6)
    assert official["rule_kept"] == 50
    assert zero["overall"] == pytest.approx(((3.33 + 1) / 2 + 4) / 2)
    assert zero["item_avg"] == pytest.approx((3.33 + 1 + 4) / 3, abs=1e-6)


def test_what_upstream_wrote_for_its_judge(
    data: Path, edits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = {"7": reply("adjust", 1, 4, 4), "8": {"error": "no answer"}, "9": "nothing to read"}
    (edits / "result.json").write_text(json.dumps(stored))
    given = ["--data", str(data), "--import", str(edits), "--out", "out", "--missing", "official", "--json"]
    assert bench(*given, "--import-judge", str(edits)) == 1
    printed = capsys.readouterr().out
    assert json.loads(printed)["outcome"]["statuses"] == {"ok": 1, "api_error": 1, "unparsed": 1}
    assert printed_numbers(printed)["overall"] == 3
    assert printed_numbers(printed)["overall_capped"] == 1


def test_the_layout_goes_out_and_comes_back(data: Path, edits: Path, tmp_path: Path) -> None:
    benchmark = ImgEdit()
    dataset = benchmark.read(data)
    outputs = {output.item: output for output in benchmark.import_outputs(dataset, edits)}
    benchmark.export(dataset, outputs, tmp_path, tmp_path / "again")
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == ["7.png", "8.png", "9.png"]
    assert [output.item for output in benchmark.import_outputs(dataset, tmp_path / "again")] == list(ROWS)
    assert dataset.items[0].request.images[0].size == (24, 16)


@pytest.mark.parametrize(
    "text",
    [
        reply("adjust", 4, 3, 2),
        reply("adjust", 4, 3, 2).replace(": ", ":"),
        "**Prompt Compliance**: 4\n- **Visual Seamlessness:** 3/5\n3. Physical & Detail Fidelity: 2.",
        "Visual Seamlessness: 3\nPhysical & Detail Fidelity: 2\nPrompt Compliance: 4",
        "First: 4\nSecond: 3\nThird: 2",
        "<think>Prompt Compliance: 1</think>" + reply("adjust", 4, 3, 2),
    ],
)
def test_what_can_be_read(text: str) -> None:
    assert read_three(text, LABELS["adjust"]) == [4, 3, 2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I am sorry, I cannot help with that.",
        "Prompt Compliance: 4\nVisual Seamlessness: 3",
        reply("adjust", 4, 3, 6),
        reply("adjust", 4, 3, 0),
        reply("adjust", 4, 3, 2) + "\nPrompt Compliance: 5",
        reply("adjust", 4, 3, 2) + "\nOverall: 3",
        "Prompt Compliance: 4\nVisual Seamlessness: 3\nPhysical & Detail Fid",
    ],
)
def test_what_cannot_be_read_has_no_score(text: str) -> None:
    with pytest.raises(Unparsed):
        read_three(text, LABELS["adjust"])


def test_upstream_reads_any_line_with_a_number() -> None:
    assert official_scores("Note: 12\nPrompt Compliance: 4\n **Visual**: 3 \nOther: 2.5") == [12, 4, 3]
    assert official_scores("a: b: 3") == []


def test_templates_are_found_in_a_checkout(tmp_path: Path) -> None:
    file = tmp_path / PLACES["add"].file
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({kind: f"{kind}: <edit_prompt>." for kind in LABELS}))
    found = official_prompts(tmp_path, PLACES)
    assert found.fill("add", instruction="a hat") == "add: a hat."
    assert set(found.templates) == set(reworded_prompts("imgedit").templates)
    for broken in ("[]", "{", '{"add": 1}'):
        file.write_text(broken)
        with pytest.raises(InputError):
            official_prompts(tmp_path, PLACES)


@pytest.mark.parametrize(
    "row", [3, {}, {**ROWS["7"], "edit_type": "dance"}, {**ROWS["7"], "prompt": None}, {**ROWS["7"], "id": 3}]
)
def test_rows_of_another_form_are_refused(tmp_path: Path, row: Any) -> None:
    (tmp_path / "basic_edit.json").write_text(json.dumps({"1": row}))
    with pytest.raises(InputError, match="'1'"):
        ImgEdit().read(tmp_path)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"basic_edit\.json"):
        ImgEdit().read(tmp_path)
    (tmp_path / "basic_edit.json").write_text(json.dumps(ROWS))
    notes = ImgEdit().read(tmp_path).notes
    assert "737 items of 9 types" in notes[1]
    assert notes[2].startswith("3 source images")
    assert sum(COUNTS.values()) == 737


TYPES = ("add", "adjust", "extract", "replace", "remove", "background", "style", "compose", "action")
PUBLISHED = {
    "Nano Banana": (4.62, 4.41, 3.68, 4.34, 4.39, 4.40, 4.18, 3.72, 4.83),
    "FLUX.1-Kontext-dev": (3.99, 3.88, 2.19, 4.27, 3.13, 3.98, 4.51, 3.23, 4.18),
    "Qwen-Image-Edit-2511": (4.54, 4.57, 4.13, 4.70, 4.46, 4.36, 4.89, 4.16, 4.81),
}


@pytest.mark.parametrize("system", list(PUBLISHED))
def test_published_totals_are_means_of_the_types(system: str) -> None:
    table = Table(TYPES, {"score": PUBLISHED[system]})
    printed = {row.system: row.numbers["overall"] for row in published_rows("imgedit")}[system]
    assert ImgEdit().numbers()[0].aggregate(table) == pytest.approx(printed, abs=0.006)
