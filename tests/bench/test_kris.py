"""KRIS-Bench: its kinds of questions, replies, upstream's files, and a published total from its parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from images import put_image
from judge_server import importing, judge_server, printed_numbers

from interleave.bench import statistics
from interleave.bench.base import Context, Unparsed
from interleave.bench.benchmarks.kris import COUNTS, KNOWLEDGE, KRIS, LEVELS, MEASURES, PLACES, read_scores
from interleave.bench.numbers import Table
from interleave.bench.prompts import official_prompts, reworded_prompts
from interleave.bench.published import published_rows
from interleave.cli.main import run
from interleave.errors import InputError
from interleave.types import ImagePart, Text


def row(instruction: str, *names: str, **more: str) -> dict[str, Any]:
    sources = names[0] if len(names) == 1 else list(names)
    return {"ori_img": sources, "gt_img": "", "ins_en": instruction, "explain_en": "", **more}


DATA = {
    "color_change": {"1": row("make it blue", "1.jpg")},
    "physics": {"1": row("let it fall", "1.jpg", explain_en="things fall down")},
    "viewpoint_change": {"1": row("from above", "1.jpg", gt_img="1_gt.jpg")},
    "temporal_prediction": {"3": row("frame 2", "3-1.jpg", "3-3.jpg", "3-4.jpg", gt_img="3-2.jpg")},
    "multi-element_composition": {"1": row("dress her", "1-1.jpg", "1-2.jpg")},
}


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 20)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "KRIS_Bench"
    for category, rows in DATA.items():
        for each in rows.values():
            names = each["ori_img"] if isinstance(each["ori_img"], list) else [each["ori_img"]]
            for name in filter(None, [*names, each["gt_img"]]):
                put_image(folder / category / name)
        (folder / category / "annotation.json").write_text(json.dumps(rows))
    return folder


@pytest.fixture
def edits(tmp_path: Path) -> Path:
    for category, rows in DATA.items():
        for key in rows:
            put_image(tmp_path / "edits" / category / f"{key}.jpg", "blue")
    return tmp_path / "edits"


def says(text: str, number: int) -> str | None:
    if "quality_score" in text:
        return '{"quality_score": 5, "reasoning": "clean"}'
    if "consistency_score" in text:
        return '```json\n{"consistency_score": "3", "reasoning": "partly"}\n```'
    if "knowledge_score" in text:
        return '{"instruction_score": 4, "knowledge_score": 2}'
    if "from above" in text:
        return "The instruction is followed in 4 of 5 points."
    return None if "dress" in text else "Instruction score: 2"


def bench(*arguments: str) -> int:
    return run(["bench", "kris", *arguments])


def test_the_chain(
    data: Path, edits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with judge_server(says) as judge:
        common = importing(data, edits, judge)
        assert bench(*common) == 1
        printed = capsys.readouterr().out
        assert json.loads(printed)["outcome"]["statuses"] == {"ok": 13, "unparsed": 1, "refused": 1}
        zero = printed_numbers(printed)
        assert bench("score", *common, "--missing", "official") == 1
        official = printed_numbers(capsys.readouterr().out)
    # five of VC 50, five of VQ 100, IF 25 75 25 and one of KP 25
    assert official["overall"] == pytest.approx((250 + 500 + 125 + 25) / 14, abs=1e-6)
    assert zero["overall"] == pytest.approx((250 + 500 + 125 + 25) / 16, abs=1e-6)
    assert official["IF"] == pytest.approx(125 / 3, abs=1e-6)
    assert zero["IF"] == pytest.approx(125 / 5)
    assert (official["VC"], official["VQ"], official["KP"]) == (50, 100, 25)
    assert official["conceptual"] == pytest.approx((50 + 100 + 75 + 25) / 4)


def test_what_the_judge_is_shown(data: Path, edits: Path) -> None:
    benchmark = KRIS()
    dataset = benchmark.read(data)
    outputs = {output.item: output for output in benchmark.import_outputs(dataset, edits)}
    context = Context(reworded_prompts("kris"), edits)
    shown = {}
    for item in dataset.items:
        for key in benchmark.keys(item, None):
            (message,) = benchmark.question(key, item, outputs[item.id], context).messages
            assert "{" not in "".join(
                gap for gap in ("{instruct}", "{N}", "{explanation}") if gap in message.text
            )
            first, *others = [part.text for part in message.parts if isinstance(part, Text)]
            said = [first.rsplit("\n", 1)[-1], *others]
            assert len(said) == sum(isinstance(part, ImagePart) for part in message.parts)
            shown[item.group, key] = said
    assert shown["color_change", "if"] == ["The original image:", "The edited image:"]
    assert shown["color_change", "vq"] == ["The edited image:"]
    assert shown["viewpoint_change", "if"][-1] == "The true image:"
    assert len(shown["viewpoint_change", "vc"]) == 2
    assert shown["temporal_prediction", "if"] == [
        "Frame 1 (reference):",
        "Frame 2 (generated):",
        "Frame 3 (reference):",
        "Frame 4 (reference):",
    ]
    assert len(shown["multi-element_composition", "vc"]) == 3
    assert ("physics", "if_kp") in shown


def test_what_upstream_wrote_for_its_judge(
    data: Path, edits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = {"consistency_score": 5, "instruction_score": 3, "knowledge_score": None, "quality_score": 4}
    (edits / "physics" / "metrics.json").write_text(json.dumps({"1": {**stored, "quality_reasoning": "ok"}}))
    other = {"consistency_score": 0, "instruction_score": 3, "quality_score": 4}
    (edits / "color_change" / "metrics.json").write_text(json.dumps({"1": other}))
    given = ["--data", str(data), "--import", str(edits), "--out", "out", "--missing", "official", "--json"]
    assert bench(*given, "--import-judge", str(edits)) == 1
    assert printed_numbers(capsys.readouterr().out)["overall"] == pytest.approx((100 + 50 + 75 + 50 + 75) / 5)
    with pytest.raises(InputError, match=r"metrics\.json"):
        list(KRIS().import_judgements(KRIS().read(data), data))


def test_the_layout_goes_out_and_comes_back(data: Path, edits: Path, tmp_path: Path) -> None:
    benchmark = KRIS()
    dataset = benchmark.read(data)
    outputs = {output.item: output for output in benchmark.import_outputs(dataset, edits)}
    benchmark.export(dataset, outputs, tmp_path, tmp_path / "again")
    assert (tmp_path / "again" / "temporal_prediction" / "3.jpg").read_bytes()[:2] == b"\xff\xd8"
    assert [output.item for output in benchmark.import_outputs(dataset, tmp_path / "again")] == list(outputs)
    assert len(dataset.items[-1].request.images) == 2


@pytest.mark.parametrize(
    "reply",
    [
        '{"instruction_score": 4, "knowledge_score": 2}',
        '{"instruction_score": "4", "knowledge_score": "2",}',
        "Instruction score: 4\n**Knowledge_Score**: 2",
        'First {"instruction_score": 4} and then {"knowledge_score": 2}',
    ],
)
def test_what_can_be_read(reply: str) -> None:
    assert read_scores(reply, ("IF", "KP")) == {"IF": 4, "KP": 2}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "4",
        "I give it 4/5.",
        '{"instruction_score": 4}',
        '{"instruction_score": 4, "knowledge_score": 0}',
        '{"instruction_score": 4, "knowledge_score": 6}',
        '{"instruction_score": 4, "knowledge_score": 2.5}',
        '{"instruction_score": 4, "knowledge_score": null}',
        "instruction_score: 4, knowledge_score: 2, or rather knowledge_score: 3",
        '{"instruction_score": 4, "knowledge_sc',
    ],
)
def test_what_cannot_be_read_has_no_score(reply: str) -> None:
    with pytest.raises(Unparsed):
        read_scores(reply, ("IF", "KP"))


def test_templates_are_found_in_a_checkout(tmp_path: Path) -> None:
    file = tmp_path / "utils" / "prompts.py"
    file.parent.mkdir()
    names = [place.name for place in PLACES.values()]
    file.write_text("\n".join(f'{name} = """{{instruct}} {{{{"x": 1}}}}"""' for name in names))
    found = official_prompts(tmp_path, PLACES)
    assert set(found.templates) == set(reworded_prompts("kris").templates)
    assert found.fill("vc", instruct="turn") == 'turn {"x": 1}'
    assert found.templates["vq"].endswith('{{"x": 1}}')  # upstream does not fill this one


@pytest.mark.parametrize(
    "rows", [{"1": 3}, {"1": {"ori_img": 3, "ins_en": "x"}}, {"1": {"ori_img": "a.jpg"}}]
)
def test_rows_of_another_form_are_refused(tmp_path: Path, rows: Any) -> None:
    (tmp_path / "physics").mkdir()
    (tmp_path / "physics" / "annotation.json").write_text(json.dumps(rows))
    with pytest.raises(InputError, match="physics/1"):
        KRIS().read(tmp_path)


def test_what_is_not_there_is_said(data: Path, tmp_path: Path) -> None:
    assert KRIS().read(data).notes[1] == "the whole benchmark has 1,267 items in 20 categories"
    with pytest.raises(InputError, match="no CATEGORY"):
        KRIS().read(tmp_path / "nothing")
    (data / "chess").mkdir()
    (data / "chess" / "annotation.json").write_text("{}")
    with pytest.raises(InputError, match="chess"):
        KRIS().read(data)


DIMENSIONS = (
    ("count_change", "color_change", "size_adjustment", "part_completion", "anomaly_correction"),
    ("viewpoint_change", "position_movement"),
    ("temporal_prediction",),
    ("humanities", "practical_knowledge"),
    ("biology", "chemistry", "geography", "medicine", "mathematics", "physics"),
    ("abstract_reasoning", "rule-based_reasoning"),
    ("multi-element_composition", "multi-instruction_execution"),
)
BAGEL = {
    "BAGEL": (
        (76.64, 74.45, 41.73),
        (70.25, 80.00, 37.00),
        (36.49, 61.82, 29.05),
        (76.20, 78.80, 37.00, 29.60),
        (69.59, 84.03, 40.27, 30.15),
        (80.17, 85.67, 26.33, 18.00),
        (40.17, 69.50, 42.00),
    ),
    "BAGEL with reasoning": (
        (75.09, 74.00, 53.18),
        (78.75, 87.25, 39.00),
        (48.31, 81.08, 46.62),
        (80.40, 79.40, 51.60, 42.80),
        (67.68, 82.95, 52.10, 42.88),
        (62.83, 79.67, 28.33, 21.67),
        (47.83, 66.83, 36.00),
    ),
}
"""VC, VQ, IF and KP of the seven dimensions, as BAGEL's EVAL.md (Apache-2.0) prints them."""


@pytest.mark.parametrize("system", list(BAGEL))
def test_a_published_total_follows_from_its_parts(system: str) -> None:
    groups: list[str] = []
    columns: dict[str, list[float | None]] = {measure: [] for measure in MEASURES}
    for members, means in zip(DIMENSIONS, BAGEL[system], strict=True):
        for category in members:
            groups += [category] * COUNTS[category]
            for place, measure in enumerate(MEASURES):
                columns[measure] += [means[place] if place < len(means) else None] * COUNTS[category]
    table = Table(groups, columns)
    published = {each.system: each.numbers for each in published_rows("kris")}[system]
    made = {number.name: number.aggregate(table) for number in KRIS().numbers()}
    for name, printed in published.items():
        assert made[name] == pytest.approx(printed, abs=0.02), name


def test_the_categories_are_all_somewhere() -> None:
    assert sum(COUNTS.values()) == 1267
    assert [name for members in LEVELS.values() for name in members] == list(COUNTS)
    assert [name for members in DIMENSIONS for name in members] == list(COUNTS)
    assert KNOWLEDGE[0] == "humanities" and KNOWLEDGE[-1] == "rule-based_reasoning" and len(KNOWLEDGE) == 10
