"""RISEBench: data, questions, marks, both rules of accuracy, the score as meant and as printed, the board."""

from __future__ import annotations

import csv
import json
import os
import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from judge_server import judge_server
from PIL import Image

from interleave.bench.base import Context, Dataset, Item, JudgeRecord, MissingOutput, Unparsed
from interleave.bench.benchmarks.rise import GROUPS, SIDE, Rise, Rise64, asked_of, score
from interleave.bench.outputs import Output, OutputPart
from interleave.bench.prompts import official_prompts, reworded_prompts
from interleave.bench.published import published_rows
from interleave.bench.scoring import Missing, Outcome, Scorable
from interleave.cli.main import run
from interleave.errors import InputError

RISE = Rise()
SIZES = dict(zip(GROUPS, Rise.counts, strict=True))
ROWS: list[dict[str, Any]] = [
    {"category": "temporal_reasoning", "reference": "it is old"},
    {"category": "temporal_reasoning", "reference": "it is gone", "consistency_free": True},
    {"category": "causal_reasoning", "reference": "it is broken", "reasoning_img": True},
    {"category": "spatial_reasoning", "reference": "it stands on its head"},
    {"category": "spatial_reasoning", "reference": "seen from above", "reasoning_img": True},
    {"category": "spatial_reasoning", "reference": "not used", "reference_img": "ref.png"},
    {"category": "logical_reasoning", "reference_txt": "the answer is 2"},
    {"category": "logical_reasoning", "reference_img": "ref.png"},
    {"category": "logical_reasoning", "reference_img": "ref.png", "reasoning_wo_ins": True},
]


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals have tests of their own."""
    monkeypatch.setattr("interleave.bench.statistics.RESAMPLES", 20)


def rows_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"index": f"{row['category']}_{number}", "instruction": f"task {number}.", "image": "in.png", **row}
        for number, row in enumerate(rows, start=1)
    ]


def write_data(folder: Path, rows: list[dict[str, Any]], *, file: str = Rise.file) -> Path:
    """The data as it lies on the Hub, unpacked."""
    (folder / "data").mkdir(parents=True)
    for name, colour in (("in.png", "red"), ("ref.png", "lime")):
        Image.new("RGB", (1000, 100), colour).save(folder / "data" / name)
    (folder / file).write_text(json.dumps(rows_of(rows)))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    return RISE.read(write_data(tmp_path / "data", ROWS))


def marked(item: Item, consistency: int | None, reasoning: int | None, quality: int | None = None) -> Any:
    """The records of an item with these marks."""
    values = {"consistency": consistency, "reasoning": reasoning, "quality": quality}
    return {
        key: JudgeRecord(item=item.id, key=key, output="x", status="ok", value=value)
        if (value := values[key.removeprefix("logical_")]) is not None
        else JudgeRecord(item=item.id, key=key, output="x", status="unparsed")
        for key in RISE.keys(item, None)
    }


def measures(item: Item, records: Any, missing: Missing = "zero") -> dict[str, float | None]:
    keys = {item.id: RISE.keys(item, None)}
    return Scorable(RISE, [item], keys, {item.id: records}, missing).item_measures[item.id]


# --- data


def test_data(data: Dataset) -> None:
    assert [len(RISE.keys(item, None)) for item in data.items] == [3, 2, 3, 3, 3, 3, 2, 2, 2]
    assert "9 items (2 temporal, 1 causal, 3 spatial, 3 logical), 1 of them without" in data.notes[0]
    assert "the whole benchmark has 360" in data.notes[0]
    assert data.items[0].prompt == "task 1."
    assert data.items[0].request.images[0].size == (1000, 100)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"category": "magical_reasoning", "reference": "x"}, "category"),
        ({"category": "temporal_reasoning"}, "no reference"),
        ({"category": "temporal_reasoning", "reference": "x", "image": "../in.png"}, "outside"),
        ({"category": "temporal_reasoning", "reference": "x", "index": "a/b"}, "valid file name"),
        ({"category": "temporal_reasoning", "reference": "x", "image": "gone.png"}, "missing"),
        (
            {"category": "temporal_reasoning", "reference": "x", "index": "temporal_reasoning_1"},
            "duplicate item",
        ),
    ],
)
def test_data_of_another_form_is_refused(row: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        RISE.read(write_data(tmp_path / "data", [ROWS[0], row]))


def test_flags_that_are_false_or_missing_are_not_set(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "consistency_free": flag} for flag in (True, 1.0, False, None, float("nan"))]
    items = RISE.read(write_data(tmp_path / "data", rows)).items
    assert [item.facts["free"] for item in items] == [True, True, False, False, False]


def test_the_small_set_has_no_flags_and_its_own_place(tmp_path: Path) -> None:
    write_data(tmp_path / "clone", [ROWS[0], ROWS[7]], file="data/data_total.json")
    data = Rise64().read(tmp_path / "clone")
    assert "the whole benchmark has 64" in data.notes[0]
    five = marked(data.items[0], 5, 3, 5)
    found = measures(data.items[0], five)
    assert found["score"] == found["score_compat"] == 25 * (0.3 * 5 + 0.5 * 3 + 0.2 * 5 - 1)
    for name in ("in.png", "ref.png"):
        (tmp_path / "clone" / "data" / name).unlink()
    assert any("no images" in note for note in Rise64().read(tmp_path / "clone").notes)
    with pytest.raises(InputError, match=Rise.file):
        RISE.read(tmp_path / "clone")


def test_the_archive_of_the_hub_is_unpacked_once(tmp_path: Path) -> None:
    folder = write_data(tmp_path / "hub", ROWS)
    unpacked = RISE.read(folder).revision
    with zipfile.ZipFile(folder / "data.zip", "w") as packed:
        for path in (folder / "data").iterdir():
            packed.write(path, f"data/{path.name}")
        packed.writestr("data/run.py", "raise SystemExit")
    for path in (folder / "data").iterdir():
        path.unlink()
    (folder / "data").rmdir()
    assert RISE.read(folder).revision == unpacked
    assert sorted(path.name for path in (folder / "data").iterdir()) == ["in.png", "ref.png"]
    (folder / "data.zip").unlink()
    assert RISE.read(folder).revision == unpacked


@pytest.mark.parametrize("name", ["../out.png", "/out.png"])
def test_an_archive_never_writes_outside(name: str, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / Rise.file).write_text(json.dumps(rows_of(ROWS[:1])))
    with zipfile.ZipFile(tmp_path / "hub" / "data.zip", "w") as packed:
        packed.writestr(name, "x")
    with pytest.raises(InputError, match="outside"):
        RISE.read(tmp_path / "hub")
    assert sorted(path.name for path in (tmp_path / "hub").iterdir()) == ["data.zip", Rise.file]


# --- questions


def test_each_item_is_asked_as_upstream_asks(data: Dataset) -> None:
    asked = [
        [
            (asked.template, asked.shows_reference)
            for kind in ("consistency", "reasoning")
            for asked in [asked_of(item, kind)]
        ]
        for item in data.items
    ]
    assert asked == [
        [("consistency", True), ("reasoning", False)],
        [("consistency", True), ("reasoning", False)],
        [("consistency", True), ("reasoning_with_input", True)],
        [("consistency_spatial", True), ("reasoning_spatial", False)],
        [("consistency_spatial", True), ("reasoning_spatial_with_input", True)],
        [("consistency_spatial", True), ("reasoning_spatial_image", True)],
        [("consistency_logical_text", True), ("reasoning_logical_text", False)],
        [("consistency_logical_image", True), ("reasoning_logical_image", True)],
        [("consistency_logical_image", True), ("reasoning_logical_image_alone", True)],
    ]
    assert asked_of(data.items[0], "quality") == ("quality", False)
    assert asked_of(data.items[3], "quality") == ("quality_spatial", False)


def test_images_are_small_and_in_their_order(data: Dataset, tmp_path: Path) -> None:
    Image.new("RGB", (1600, 160), "blue").save(tmp_path / "made.png")
    context = Context(reworded_prompts("rise"), tmp_path)

    def shown(number: int, key: str) -> list[tuple[int, ...]]:
        output = Output(item="x", parts=(OutputPart(image="made.png"),))
        question = RISE.question(key, data.items[number], output, context)
        images = [part.image for part in question.messages[-1].parts if hasattr(part, "image")]
        assert all(image.size == (SIDE, 77) for image in images)
        return [tuple(round(value / 255) for value in image.getpixel((5, 5))) for image in images]

    red, green, blue = (1, 0, 0), (0, 1, 0), (0, 0, 1)
    assert shown(0, "consistency") == [red, blue]
    assert shown(0, "reasoning") == shown(0, "quality") == [blue]
    assert shown(2, "reasoning") == [red, blue]
    assert shown(5, "consistency") == shown(5, "reasoning") == [green, blue]  # not with the image before
    assert shown(6, "logical_consistency") == [red, blue]
    assert shown(6, "logical_reasoning") == [blue]
    assert shown(7, "logical_consistency") == shown(8, "logical_reasoning") == [green, blue]
    with pytest.raises(MissingOutput):
        RISE.question("quality", data.items[0], Output(item="x", parts=(OutputPart(text="no"),)), context)


def test_replies(data: Dataset, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "made.png")
    context = Context(reworded_prompts("rise"), tmp_path)
    output = Output(item="x", parts=(OutputPart(image="made.png"),))
    parse = RISE.question("quality", data.items[0], output, context).parse
    for reply in (
        "**Final Score:** **4**",
        "Score 5 is for saints.\nFinal Score: 4/5",
        "final scores: 4.",
        "Final Score\n4",
    ):
        assert parse(reply) == 4
    for reply in (
        "",
        "4",
        "**Final Score:** **1-5**",
        "Final Score: 4\nFinal Score: 5",
        "Final Score: 6",
        "Final Score: 0",
        "Final Score: 4.5",
        "Final Scores: 4, 5",
        "Final Score: X",
        "Final Score: 4/10",
    ):
        with pytest.raises(Unparsed):
            parse(reply)
    logical = RISE.question("logical_reasoning", data.items[6], output, context).parse
    assert [logical(f"**Final Score**: **{bit}**") for bit in (0, 1)] == [0, 1]
    with pytest.raises(Unparsed):
        logical("Final Score: 5")


# --- numbers


@pytest.mark.parametrize(
    ("marks", "ignoring", "expected"),
    [
        ({"consistency": 4, "reasoning": 3, "quality": 5}, False, 1.2 + 1.5 + 1.0),
        ({"consistency": 4, "reasoning": 3, "quality": 5}, True, 2.4 + 1.0),
        ({"reasoning": 3, "quality": 5}, False, 2.4 + 1.0),
        ({"consistency": 5, "reasoning": 1}, False, (1.5 + 0.7) / 2),
        ({"consistency": 1, "reasoning": 5}, False, 0.3 + 3.5),
        ({"consistency": 5, "reasoning": 1, "quality": 5}, False, (1.5 + 0.5 + 1.0) / 2),
        ({"consistency": 1, "reasoning": 1, "quality": 1}, False, 1.0),
    ],
)
def test_scores(marks: dict[str, float], ignoring: bool, expected: float) -> None:
    assert score(marks, ignoring=ignoring) == pytest.approx(expected)


def test_an_item_is_solved_where_all_its_marks_are_best(data: Dataset) -> None:
    plain, free, logical = data.items[0], data.items[1], data.items[6]
    accuracies = [
        [found["acc_v1"], found["acc_v2"]]
        for found in (
            measures(plain, marked(plain, 5, 5, 5)),
            measures(plain, marked(plain, 4, 5, 5)),
            measures(free, marked(free, None, 5, 5)),
            measures(free, marked(free, None, 5, 4)),
            measures(logical, marked(logical, 1, 1)),
            measures(logical, marked(logical, 0, 1)),
        )
    ]
    assert accuracies == [[1, 1], [0, 0], [0, 1], [0, 0], [1, 1], [0, 0]]
    found = measures(logical, marked(logical, 0, 1))
    assert (found["consistency"], found["reasoning"], found["quality"]) == (0, 100, None)
    assert measures(free, marked(free, None, 5, 4))["consistency"] is None


def test_the_slip_of_the_script_has_its_own_number(data: Dataset) -> None:
    plain, logical = data.items[0], data.items[6]
    found = measures(plain, marked(plain, 1, 5, 5))
    assert found["score"] == pytest.approx(25 * (0.3 + 2.5 + 1.0 - 1))
    assert found["score_compat"] == 100  # as if consistency were not asked for
    found = measures(logical, marked(logical, 0, 1))
    assert found["score"] == found["score_compat"] == pytest.approx(25 * (0.3 + 3.5 - 1))


def test_what_a_failed_question_counts_as(data: Dataset) -> None:
    plain = data.items[0]
    failed = marked(plain, None, 5, 5)
    assert measures(plain, failed, "zero")["score"] == pytest.approx(25 * (0.3 + 2.5 + 1.0 - 1))
    assert set(measures(plain, failed, "drop").values()) == {None}
    official = measures(plain, failed, "official")
    assert (official["acc_v1"], official["acc_v2"]) == (0, 0)
    assert official["score"] is official["reasoning"] is official["quality"] is None
    with pytest.raises(InputError, match="no number while"):
        measures(plain, {}, "official")
    logical = data.items[6]
    assert measures(logical, {}, "zero")["score"] == 0


# --- the whole


def test_the_whole_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs of a double, judged well, unreadably and not at all; the layout out and in again."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    folder = write_data(tmp_path / "data", ROWS)

    def says(text: str, number: int) -> str | None:
        if "0 or 1" in text:
            return None if "task 8." in text else "It is so.\n**Final Score**: **1**"
        return "Final Score: 1-5" if "it is broken" in text else "It is so.\nFinal Score: 5"

    doubles = ["--planner", "scripted", "--critic", "scripted", "--generator", "solid?size=64"]
    common = ["bench", "rise", "--data", str(folder), "--out", "out", "--json", *doubles]
    with judge_server(says) as judge:
        assert run([*common, "all", "--system", "base", "--judge", judge.spec]) == 1
        outcome = Outcome.model_validate(json.loads(capsys.readouterr().out)["outcome"])
        assert run([*common, "export"]) == 0
    values = {number.name: number.value for number in outcome.numbers}
    assert outcome.statuses == {"ok": 20, "unparsed": 1, "refused": 2}
    assert values["risebench_acc_v2"] == pytest.approx(100 * 7 / 9)
    assert values["risebench_acc_v1"] == pytest.approx(100 * 6 / 9)
    assert outcome.by_group["causal"][0].value == 0
    official = Path(capsys.readouterr().out.split()[-1])
    back = list(RISE.import_outputs(RISE.read(folder), official))
    assert [output.item for output in back] == [item.id for item in RISE.read(folder).items]
    assert (official / "images" / "spatial_reasoning" / "spatial_reasoning_4.png").exists()
    with pytest.raises(InputError, match="no image"):
        list(RISE.import_outputs(RISE.read(folder), tmp_path))


def write_sheet(path: Path, rows: list[list[Any]]) -> None:
    """A table as XlsxWriter makes it: texts are kept apart, empty cells are left out."""
    texts: list[str] = []
    lines = []
    for number, row in enumerate(rows, start=1):
        cells = []
        for column, value in zip("ABCDEFGH", row, strict=False):
            if isinstance(value, str):
                texts.append(value)
                cells.append(f'<c r="{column}{number}" t="s"><v>{len(texts) - 1}</v></c>')
            elif value is not None:
                cells.append(f'<c r="{column}{number}"><v>{value}</v></c>')
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    shared = "".join(f"<si><t>{escape(text)}</t></si>" for text in texts)
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("xl/sharedStrings.xml", f"<sst {space}>{shared}</sst>")
        book.writestr(
            "xl/worksheets/sheet1.xml",
            f"<worksheet {space}><sheetData>{''.join(lines)}</sheetData></worksheet>",
        )


def test_the_table_of_upstreams_script_is_read(data: Dataset, tmp_path: Path) -> None:
    names = ["index", "Reasoning", "ApprConsistency", "VisualPlausibility", "judge_cons", "judge_reas"]
    ids = [item.id for item in data.items]
    write_sheet(
        tmp_path / "model_judge.xlsx",
        [
            names,
            [ids[0], 5, 4, 3, "a < b & Final Score: 4", "Final Score: 5"],
            [ids[1], 5, None, 3],
            [ids[2]],
            [ids[6], 5, 1],
            [ids[7], 3, 1],
        ],
    )
    found = [
        (each.item, each.key, each.status, each.value) for each in RISE.import_judgements(data, tmp_path)
    ]
    assert found == [
        (ids[0], "consistency", "ok", 4),
        (ids[0], "reasoning", "ok", 5),
        (ids[0], "quality", "ok", 3),
        (ids[1], "reasoning", "ok", 5),
        (ids[1], "quality", "ok", 3),
        (ids[2], "consistency", "unparsed", None),
        (ids[2], "reasoning", "unparsed", None),
        (ids[2], "quality", "unparsed", None),
        (ids[6], "logical_consistency", "ok", 0),
        (ids[6], "logical_reasoning", "ok", 1),
        (ids[7], "logical_consistency", "ok", 0),
        (ids[7], "logical_reasoning", "unparsed", None),
    ]
    assert next(RISE.import_judgements(data, tmp_path)).reply == "a < b & Final Score: 4"
    write_sheet(tmp_path / "other.xlsx", [names, ["nobody", 5]])
    with pytest.raises(InputError, match="unknown item"):
        list(RISE.import_judgements(data, tmp_path / "other.xlsx"))
    (tmp_path / "model.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(InputError, match=r"judge\.xlsx"):
        list(RISE.import_judgements(data, tmp_path / "model.pkl"))


@pytest.mark.parametrize(
    "part", ["no table", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', '<worksheet xmlns="x"/>', None]
)
def test_what_is_no_table_is_refused(part: str | None, data: Dataset, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a_judge.xlsx", "w") as book:
        if part is not None:
            book.writestr("xl/worksheets/sheet1.xml", part)
    with pytest.raises(InputError):
        list(RISE.import_judgements(data, tmp_path))
    (tmp_path / "a_judge.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError):
        list(RISE.import_judgements(data, tmp_path))


def test_the_words_of_a_checkout(tmp_path: Path) -> None:
    lines = [
        f'{place.name} = """{key}: {{instruct}}, {{reference}}"""'
        for key, place in RISE.official_prompts.items()
    ]
    (tmp_path / "utils.py").write_text("import pickle\n" + "\n".join(lines))
    prompts = official_prompts(tmp_path, RISE.official_prompts)
    assert prompts.fill("quality_spatial", instruction="I", reference="R") == "quality_spatial: I, R"
    assert set(prompts.templates) == set(reworded_prompts("rise").templates)
    assert Rise64.asks_as == "rise"


# --- goldens


def accuracy(solved: dict[str, int]) -> float:
    """Our accuracy of so many solved items of each group, from the judge's records on."""
    items, records = [], {}
    facts = {"free": False, "column": True}
    for group, size in SIZES.items():
        best = 1 if group == "logical" else 5
        right, wrong = (marked(Item("", group, (), facts), best, mark, 5) for mark in (best, best - 1))
        for number in range(size):
            items.append(Item(f"{group}_{number}", group, (), facts))
            records[items[-1].id] = right if number < solved[group] else wrong
    keys = {item.id: RISE.keys(item, None) for item in items}
    table = Scorable(RISE, items, keys, records).table()
    return 100 * RISE.numbers()[0].aggregate(table)


def counts_of(printed: dict[str, float]) -> dict[str, int]:
    return {group: round(share * SIZES[group] / 100) for group, share in printed.items()}


def test_rows_of_the_paper_are_whole_numbers_of_items() -> None:
    rows = [row for row in published_rows("rise") if row.note.endswith("rule not stated")]
    found = {}
    for row in rows:
        counts = counts_of(row.groups)
        assert all(abs(100 * counts[group] / SIZES[group] - row.groups[group]) < 0.051 for group in GROUPS)
        assert accuracy(counts) == pytest.approx(row.numbers["risebench_acc_v1"], abs=0.051)
        found[row.system] = sum(counts.values())
    assert found == {
        "InterleaveThinker + FLUX.2-klein-9B": 104,
        "FLUX.2-klein-9B alone": 48,
        "InterleaveThinker + Qwen-Image-Edit-2511": 108,
        "Qwen-Image-Edit-2511 alone": 70,
    }


def test_golden_board() -> None:
    path = Path(os.environ.get("INTERLEAVE_BENCH_DATA", "nowhere"), "RISEBench", "leaderboard.csv")
    if not path.exists():
        pytest.skip("INTERLEAVE_BENCH_DATA has no such file")
    rows = [
        row for row in csv.reader(path.read_text("utf-8").splitlines()) if len(row) == 6 and row[0] != "Model"
    ]
    assert len(rows) == 20
    for name, *printed in rows:
        *shares, whole = map(float, printed)
        counts = counts_of(dict(zip(GROUPS, shares, strict=True)))
        # some rows were cut off and not rounded: 1.1 is 1 of 85
        for group, share in zip(GROUPS, shares, strict=True):
            assert abs(100 * counts[group] / SIZES[group] - share) < 0.1, (name, group)
        assert accuracy(counts) == pytest.approx(whole, abs=0.1), name


def test_golden_data() -> None:
    folder = Path(os.environ.get("INTERLEAVE_BENCH_DATA", "nowhere"), "RISEBench")
    if not folder.exists():
        pytest.skip("INTERLEAVE_BENCH_DATA has no such folder")
    data = Rise64().read(folder)
    assert [sum(item.group == group for item in data.items) for group in GROUPS] == [16, 16, 16, 16]
    assert sum(item.facts["solution"] is not None for item in data.items) == 12
