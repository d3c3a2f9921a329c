"""WISE in both versions: data, judge, layout, numbers, and the boards recomputed."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
from judge_server import judge_server
from PIL import Image

from interleave.bench.base import JudgeRecord, Unparsed
from interleave.bench.benchmarks.wise import CATEGORIES, KEY, WiseLegacy, WiseVerified
from interleave.bench.numbers import Table
from interleave.bench.prompts import official_prompts, reworded_prompts
from interleave.bench.published import published_rows
from interleave.bench.scoring import Missing, Outcome, Scorable
from interleave.bench.stages import open_workspace
from interleave.cli.main import run
from interleave.errors import InputError

IDS = {
    "wise": {"culture": (1, 2), "time": (401,), "space": (568,), "biology": (701,), "physics": (801,)}
    | {"chemistry": (901,)},
    "wise-verified": {"culture": (1, 2), "time": (401,), "space": (521,), "biology": (641,)}
    | {"physics": (761,), "chemistry": (881,)},
}
FILE_OF = {"culture": 0, "time": 1, "space": 1, "biology": 2, "physics": 2, "chemistry": 2}
VERSIONS = [WiseLegacy(), WiseVerified()]


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals have tests of their own."""
    monkeypatch.setattr("interleave.bench.statistics.RESAMPLES", 20)


def write_data(folder: Path, version: WiseLegacy | WiseVerified) -> Path:
    """A checkout with seven prompts."""
    files: list[list[dict[str, Any]]] = [[], [], []]
    for group, ids in IDS[version.name].items():
        for number in ids:
            files[FILE_OF[group]].append(
                {
                    "Prompt": f"the hint {number}",
                    "Explanation": f"the meaning {number}",
                    "Category": CATEGORIES[group].capitalize(),
                    "Subcategory": "any",
                    "prompt_id": number,
                }
            )
    target = folder / version.folders[0]
    target.mkdir(parents=True)
    for name, rows in zip(version.files, files, strict=True):
        (target / name).write_text(json.dumps(rows))
    (target / "merge.json").write_text("[]")  # upstream's copy of all three is not read
    return folder


def write_images(folder: Path, ids: list[str]) -> Path:
    folder.mkdir()
    for place, each in enumerate(ids):
        Image.new("RGB", (8, 8), (place, 0, 0)).save(folder / f"{each}.png")
    return folder


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_data(version: WiseLegacy | WiseVerified, tmp_path: Path) -> None:
    data = version.read(write_data(tmp_path / "data", version))
    assert [item.id for item in data.items][:3] == ["1", "2", "401"]
    assert {item.group for item in data.items} == set(CATEGORIES)
    assert data.items[0].prompt == "the hint 1"
    assert any("1,000" in note for note in data.notes)
    assert abs(sum(version.weights.values()) - 1) < 1e-9
    assert version.category(0) is None and version.category(1001) is None


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_weights_are_the_shares_of_the_prompts(version: WiseLegacy | WiseVerified) -> None:
    groups = [version.category(number) for number in range(1, 1001)]
    assert {name: round(groups.count(name) / 1000, 3) for name in CATEGORIES} == dict(version.weights)


def test_the_other_version_is_refused(tmp_path: Path) -> None:
    verified = write_data(tmp_path / "data", VERSIONS[1]) / "data_verified"
    for theirs, ours in zip(WiseVerified.files, WiseLegacy.files, strict=True):
        (verified / theirs).rename(verified / ours)
    with pytest.raises(InputError, match="other version"):
        WiseLegacy().read(verified)
    (verified / WiseLegacy.files[2]).unlink()
    with pytest.raises(InputError, match="missing"):
        WiseLegacy().read(verified)
    with pytest.raises(InputError, match="checkout"):
        WiseLegacy().read(tmp_path)


@pytest.mark.parametrize(
    ("reply", "marks"),
    [
        ("Consistency: 2\nRealism: 1\nAesthetic Quality: 0", (2, 1, 0)),
        ("**Consistency:** 2\n**Realism**: 1\n**Aesthetic Quality** 0", (2, 1, 0)),
        ("2\n1\n0", (2, 1, 0)),
        ("<think>Consistency: 0</think>Consistency: 2/2, Realism: 1/2, Aesthetic quality: 0/2", (2, 1, 0)),
    ],
)
def test_marks_are_read(reply: str, marks: tuple[int, ...]) -> None:
    assert tuple(WiseLegacy().parse(reply).values()) == marks


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Consistency: 2\nRealism: 1",
        "Consistency: 3\nRealism: 1\nAesthetic Quality: 0",
        "Consistency: 1.5\nRealism: 1\nAesthetic Quality: 0",
        "Consistency: 0-2\nRealism: 1\nAesthetic Quality: 0",
        "Consistency: 2\nRealism: 1\nAesthetic Quality: 0\nor rather Consistency: 1",
        "Consistency: 2/10\nRealism: 1\nAesthetic Quality: 0",
        "2\n1",
        "2\n1\n0\n1",
        "3\n1\n1",
    ],
)
def test_marks_are_never_made_up(reply: str) -> None:
    with pytest.raises(Unparsed):
        WiseLegacy().parse(reply)


def test_bits() -> None:
    parse = WiseVerified().parse
    assert [parse(each) for each in ("Score: 1", "**Score:** 0", "<think>1\n0</think>\n1", "Score：1")] == [
        1,
        0,
        1,
        1,
    ]
    for each in ("", "Score: 2", "Score: 0 or 1", "Score: 1\nScore: 0", "0\n1", "Score: high", "Score: 0.5"):
        with pytest.raises(Unparsed):
            parse(each)


def outcome(version: WiseLegacy | WiseVerified, data: Any, values: dict[str, Any], missing: Missing) -> Table:
    records = {
        item: {KEY: JudgeRecord(item=item, key=KEY, output="x", status="ok", value=value)}
        for item, value in values.items()
        if value is not None
    }
    keys = {item.id: [KEY] for item in data.items}
    return Scorable(version, data.items, keys, records, missing).table()


def test_numbers_by_hand(tmp_path: Path) -> None:
    legacy = WiseLegacy()
    data = legacy.read(write_data(tmp_path / "data", legacy))
    marks = {"consistency": 2, "realism": 1, "aesthetic_quality": 0}  # (1.4 + 0.2) / 2 = 0.8
    values: dict[str, Any] = {item.id: marks for item in data.items}
    numbers = {number.name: number for number in legacy.numbers()}
    table = outcome(legacy, data, values | {"2": dict.fromkeys(marks, 0)}, "zero")
    assert numbers["wise_legacy"].aggregate(table) == pytest.approx(0.4 * 0.4 + 0.6 * 0.8)
    assert numbers["item_mean"].aggregate(table) == pytest.approx(0.8 * 6 / 7)
    assert numbers["unweighted_compat"].aggregate(table) == pytest.approx((0.4 + 5 * 0.8) / 6)
    assert numbers["consistency"].aggregate(table) == pytest.approx(12 / 7)
    values["2"] = None
    assert numbers["wise_legacy"].aggregate(outcome(legacy, data, values, "zero")) == pytest.approx(0.64)
    assert numbers["wise_legacy"].aggregate(outcome(legacy, data, values, "drop")) == pytest.approx(0.8)
    with pytest.raises(InputError, match="no number while '2'"):
        outcome(legacy, data, values, "official")
    values["401"] = None  # a category without a value leaves no overall
    gone = numbers["wise_legacy"].aggregate(outcome(legacy, data, values, "drop"))
    assert gone != gone


def test_bits_by_hand(tmp_path: Path) -> None:
    verified = WiseVerified()
    data = verified.read(write_data(tmp_path / "data", verified))
    values: dict[str, Any] = dict.fromkeys((item.id for item in data.items), 1) | {"2": 0, "521": 0}
    table = outcome(verified, data, values, "official")
    assert verified.numbers()[0].aggregate(table) == pytest.approx(0.2 + 4 * 0.12)


def test_the_whole_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Images from elsewhere; a judge that is good, contradicts itself, or refuses."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    data = write_data(tmp_path / "data", VERSIONS[0])
    images = write_images(tmp_path / "pictures", ["1", "2", "401", "568", "701", "801"])  # 901 is missing

    def says(text: str, number: int) -> str | int | None:
        if "meaning 401" in text:
            return "Consistency: 2\nConsistency: 1\nRealism: 1\nAesthetic Quality: 1"
        if "meaning 568" in text:
            return None
        return "Consistency: 2\nRealism: 2\nAesthetic Quality: 2"

    with judge_server(says) as judge:
        common = ["bench", "wise", "--data", str(data), "--out", "out", "--judge", judge.spec, "--json"]
        assert run([*common, "all", "--import", str(images)]) == 1  # not all is covered
        outcome = Outcome.model_validate(json.loads(capsys.readouterr().out)["outcome"])
        assert set(judge.images) == {1}
        assert outcome.statuses == {"ok": 4, "unparsed": 1, "refused": 1, "missing_output": 1}
        assert outcome.numbers[0].value == pytest.approx(0.6)
        assert {name: numbers[0].value for name, numbers in outcome.by_group.items()} == {
            "culture": 1.0,
            "time": 0.0,
            "space": 0.0,
            "biology": 1.0,
            "physics": 1.0,
            "chemistry": 0.0,
        }
        assert run([*common, "score", "--missing", "official"]) != 0
        capsys.readouterr()
        before = len(judge.questions)
        Image.new("RGB", (8, 8), "blue").save(images / "1.png")  # another image is another output
        run([*common, "all", "--import", str(images)])
        assert ["meaning 1\n" in text for text in judge.questions[before:]] == [True]


def test_layout_and_judgements_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verified = VERSIONS[1]
    data = write_data(tmp_path / "data", verified)
    ids = [item.id for item in verified.read(data).items]
    images = write_images(tmp_path / "pictures", ids)
    common = ["bench", "wise-verified", "--data", str(data), "--out", "out"]
    assert run([*common, "run", "--import", str(images)]) == 0
    assert run([*common, "export"]) == 0
    official = Path(capsys.readouterr().out.split()[-1])
    assert sorted(path.stem for path in official.glob("*.png")) == sorted(ids)
    for each in ids:
        with Image.open(official / f"{each}.png") as ours, Image.open(images / f"{each}.png") as theirs:
            assert ours.tobytes() == theirs.tobytes()
    results = images / "Results-qwen35"
    results.mkdir()
    rows = [{"prompt_id": int(each), "Subcategory": "any", "score": 1.0} for each in ids]
    rows[0]["score"] = "broken"
    (results / "a_scores_results.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (results / "a_full_results.json").write_text(
        json.dumps([{"prompt_id": int(ids[1]), "evaluation": "Score: 1"}])
    )
    assert run([*common, "judge", "--import-judge", str(results)]) == 0
    capsys.readouterr()
    run([*common, "score", "--import-judge", str(results), "--json"])
    outcome = Outcome.model_validate(json.loads(capsys.readouterr().out)["outcome"])
    assert outcome.statuses == {"ok": 6, "unparsed": 1}
    assert outcome.numbers[0].value == pytest.approx(0.8)
    assert "@Results-qwen35@imported-" in outcome.numbers[0].id  # not asked in our words, nor by us
    records = list(verified.import_judgements(verified.read(data), results))
    assert records[1].reply == "Score: 1"
    (results / "b.jsonl").write_text('{"prompt_id": 999, "score": 1}')
    with pytest.raises(InputError, match="999"):
        list(verified.import_judgements(verified.read(data), results))
    with pytest.raises(InputError, match="no image"):
        list(verified.import_outputs(verified.read(data), tmp_path))


def test_an_answer_without_an_image_is_no_answer(tmp_path: Path) -> None:
    from interleave.bench.base import Context, MissingOutput
    from interleave.bench.outputs import Output, OutputPart

    item = VERSIONS[0].read(write_data(tmp_path / "data", VERSIONS[0])).items[0]
    context = Context(reworded_prompts("wise"), tmp_path)
    with pytest.raises(MissingOutput):
        VERSIONS[0].question(KEY, item, Output(item="1", parts=(OutputPart(text="no"),)), context)


UPSTREAM = '''
def build_evaluation_messages(prompt_data, image_base64):
    return [
        {"role": "system", "content": [{"type": "text", "text": "Be strict."}]},
        {"role": "user", "content": [
            {"type": "text", "text": f"""Look.
{prompt_data['Prompt']} means {prompt_data['Explanation']}."""},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image_base64}"}},
        ]},
    ]
'''


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_the_words_of_a_checkout(version: WiseLegacy | WiseVerified, tmp_path: Path) -> None:
    path = tmp_path / version.official_prompts["user"].file
    path.parent.mkdir(exist_ok=True)
    path.write_text(UPSTREAM)
    prompts = official_prompts(tmp_path, version.official_prompts)
    assert prompts.templates["system"] == "Be strict."
    assert prompts.fill("user", prompt="P", explanation="E") == "Look.\nP means E."
    assert set(reworded_prompts(version.name).templates) == set(prompts.templates)
    path.write_text("def build_evaluation_messages(): pass")
    with pytest.raises(InputError, match="another version"):
        official_prompts(tmp_path, version.official_prompts)


# --- goldens


def overall(version: WiseLegacy | WiseVerified, categories: dict[str, float]) -> float:
    """Our overall of published categories."""
    measure = version.numbers()[0].measures[0]
    return version.numbers()[0].aggregate(Table(list(categories), {measure: list(categories.values())}))


def test_rows_of_the_paper_recompute() -> None:
    found = [
        round(overall(WiseLegacy(), row.groups), 4)
        for row in published_rows("wise")
        if "InterleaveThinker" in row.system or row.system.endswith(" alone")
    ]
    assert sorted(found) == [0.4743, 0.5983, 0.7223, 0.7330]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_published_rows_are_those_of_their_categories(version: WiseLegacy | WiseVerified) -> None:
    rows = [row for row in published_rows(version.name) if row.groups]
    off = [
        row.system
        for row in rows
        if abs(overall(version, row.groups) - row.numbers[version.numbers()[0].name]) > 0.01
    ]
    assert off == (["BAGEL"] if version.name == "wise" else [])


def board(name: str) -> Path:
    path = Path(os.environ.get("INTERLEAVE_BENCH_DATA", "nowhere"), "WISE", name)
    if not path.exists():
        pytest.skip("INTERLEAVE_BENCH_DATA has no such file")
    return path


def test_golden_board_of_the_first_release() -> None:
    rows = [
        row
        for row in csv.reader(board("leaderboard_legacy.csv").read_text("utf-8").splitlines())
        if len(row) == 8 and row[0] != "Model"
    ]
    off = {}
    for name, *printed in rows:
        *categories, whole = map(float, printed)
        ours = overall(WiseLegacy(), dict(zip(CATEGORIES, categories, strict=True)))
        if abs(ours - whole) > 0.01:
            off[name] = round(ours, 4)
    assert len(rows) == 37
    assert off == {"BAGEL": 0.5013, "OpenUni-B-512": 0.4193}


def test_golden_board_of_the_verified() -> None:
    """Each category is a whole number of images, and these make the overall to its last digit."""
    version = WiseVerified()
    groups = [version.category(number) for number in range(1, 1001)]
    exact = []
    rows = list(csv.DictReader(board("leaderboard_verified.csv").read_text("utf-8").splitlines()))
    for row in rows:
        bits: list[float | None] = []
        for name in CATEGORIES:
            size = groups.count(name)
            right = round(float(row[name.upper()]) * size)
            if abs(right / size - float(row[name.upper()])) > 5.1e-5:
                break
            bits += [1.0] * right + [0.0] * (size - right)
        else:
            table = Table([str(group) for group in groups], {"score": bits})
            if round(version.numbers()[0].aggregate(table), 4) == float(row["Overall"]):
                exact.append(row["Model"])
    assert (len(rows), len(exact)) == (23, 22)
    assert "DeepGen 1.0" not in exact


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_golden_data(version: WiseLegacy | WiseVerified, tmp_path: Path) -> None:
    board(".")
    data = open_workspace(version, tmp_path).dataset
    assert len(data.items) == 1000
    assert [int(item.id) for item in data.items] == list(range(1, 1001))
