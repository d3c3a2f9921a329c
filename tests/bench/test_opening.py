"""OpenING: marks of documents, verdicts on pairs in both orders, upstream's tables from upstream's files."""

from __future__ import annotations

import asyncio
import csv
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.bench.base import Context, Dataset, Item, JudgeRecord, MissingOutput, Unparsed
from interleave.bench.benchmarks.opening import CRITERIA, SCORES, OpenING
from interleave.bench.benchmarks.opening_pairs import (
    FORWARD,
    REVERSE,
    RULES,
    VERDICTS,
    OpenINGPairs,
    swapped,
    verdict_of,
    win_rates,
)
from interleave.bench.judge import Judged, JudgeSession
from interleave.bench.outputs import Output, OutputPart
from interleave.bench.prompts import official_prompts, reworded_prompts
from interleave.bench.published import published_rows
from interleave.bench.scoring import Missing, Scorable
from interleave.cli.main import run
from interleave.errors import InputError
from interleave.types import ImagePart


class TestJudge:
    """Answers by a rule of all the words it is sent; None is a refusal."""

    __test__ = False
    capabilities = VlmCapabilities()

    def __init__(self, says: Callable[[str], str | None]) -> None:
        self.says = says

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        said = self.says(messages[-1].text)
        return Reply("", "content_filter") if said is None else Reply(said)


def image(path: Path, size: tuple[int, int] = (40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, "red").save(path)


def row(
    identity: str, *, image: str | None = None, answer: Sequence[tuple[str, str | None]] = ()
) -> dict[str, Any]:
    asked = [
        {"image": image, "text": f"<BEGIN> Explain {identity}. <image>"},
        {"image": None, "text": " <image>"},
    ]
    return {
        "total_uid": identity,
        "meta_task_id": identity[:2],
        "meta_task_name": f"task {identity[:2]}",
        "subtask_id": "1",
        "subtask_name": "s",
        "data_id": "1",
        "conversations": [
            {"input": asked},
            {
                "output": [
                    {"text": text, "image": name} for text, name in answer or [("It is so. <image>", None)]
                ]
            },
        ],
    }


def checkout(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    data = folder / "OpenING-benchmark"
    data.mkdir(parents=True)
    (data / "test_data.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    image(data / "images" / "x" / "1-i-1.jpg")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        row("1500001", image="./images/x/1-i-1.jpg"),
        row("0100002", image="./images/x/gone.jpg"),
        row("0100003"),
    ]
    return checkout(tmp_path / "checkout", rows)


def answer(base: Path, item: str) -> Output:
    for number in range(2):
        image(base / f"{item}{number}.png", (200, 100))
    parts = [
        OutputPart(text="First."),
        OutputPart(image=f"{item}0.png"),
        OutputPart(image=f"{item}1.png"),
        OutputPart(text="Last."),
    ]
    return Output(item=item, parts=tuple(parts))


def scores(**other: Any) -> dict[str, Any]:
    marks = {name: place for place, name in enumerate(CRITERIA, start=3)} | other
    return {CRITERIA[name]: {"Score": mark, "Justification": ""} for name, mark in marks.items()}


def test_the_data_is_read(folder: Path) -> None:
    found = OpenING().read(folder)
    assert found.items[0].id == "1500001" and found.items[0].group == "task 15"
    text, path = found.items[0].parts
    assert text == "Explain 1500001." and isinstance(path, Path) and path.is_file()
    assert any("1 input images are not in the folder" in note for note in found.notes)
    assert any("2,160" in note for note in found.notes)
    assert [item.id for item in OpenING().read(folder / "OpenING-benchmark").items] == [
        i.id for i in found.items
    ]
    with pytest.raises(InputError, match=r"test_data\.jsonl"):
        OpenING().read(folder / "OpenING-benchmark" / "images")
    path = folder / "OpenING-benchmark" / "test_data.jsonl"
    path.write_text(json.dumps(row("1", image="../../secret.jpg")))
    with pytest.raises(InputError, match="is outside"):
        OpenING().read(folder)
    for broken in ({**row("1"), "conversations": []}, {**row("1"), "total_uid": 5}):
        path.write_text(json.dumps(broken))
        with pytest.raises(InputError, match="row 1"):
            OpenING().read(folder)
    path.write_text(json.dumps(row("1")) + "\n" + json.dumps(row("1")))
    with pytest.raises(InputError, match="duplicate item"):
        OpenING().read(folder)


def shown(message: Message) -> str:
    return " ".join("PICTURE" if isinstance(part, ImagePart) else part.text for part in message.parts)


def test_the_judge_sees_square_images_with_running_numbers(folder: Path, tmp_path: Path) -> None:
    item = OpenING().read(folder).items[0]
    context = Context(reworded_prompts("opening"), tmp_path)
    question = OpenING().question(SCORES, item, answer(tmp_path, "a"), context)
    assert shown(question.messages[1]).startswith(
        "INPUT: Explain 1500001. <IMG_0></IMG_0> PICTURE OUTPUT: First. <IMG_1></IMG_1> PICTURE "
        "<IMG_2></IMG_2> PICTURE Last."
    )
    sizes = {part.image.size for part in question.messages[1].parts if isinstance(part, ImagePart)}
    assert sizes == {(512, 512)}
    lost = OpenING().read(folder).items[1]
    with pytest.raises(MissingOutput, match=r"gone\.jpg"):
        OpenING().question(SCORES, lost, answer(tmp_path, "a"), context)
    parse = question.parse
    assert parse(json.dumps(scores()))["content_richness"] == 9.0
    assert parse(json.dumps({"scores": scores()})) == parse(f"```json\n{json.dumps(scores())}\n```")
    for broken in (
        "Good.",
        json.dumps(scores(correctness=None)),
        json.dumps(scores(correctness=11)),
        json.dumps({"scores": {"Correctness": 5}}),
        json.dumps({"Correctness": {"Score": 5}}),
    ):
        with pytest.raises(Unparsed):
            parse(broken)


def numbers(work: Judged, missing: Missing) -> dict[str, float]:
    items = work.dataset.items
    scorable = Scorable(work.benchmark, items, {i.id: work.keys(i) for i in items}, work.records(), missing)
    table = scorable.table()
    return {number.name: number.aggregate(table) for number in work.benchmark.numbers()}


def judged(work: Judged, says: Callable[[str], str | None]) -> dict[tuple[str, str], str]:
    async def ask() -> list[JudgeRecord]:
        session = JudgeSession(work, TestJudge(says), reasks=0)
        return [record async for record in session.run(concurrency=2)]

    return {(record.item, record.key): record.status for record in asyncio.run(ask())}


def test_marks_are_rounded_before_they_are_averaged(tmp_path: Path) -> None:
    names = ["0100001", "0100002", "0100003", "0100004", "0100005"]
    dataset = OpenING().read(checkout(tmp_path / "c", [row(name) for name in names]))
    outputs = {name: answer(tmp_path, name) for name in names[:4]}
    work = Judged(OpenING(), dataset, outputs, tmp_path, "test:judge", reworded_prompts("opening"))
    given = {
        "0100001": scores(),
        "0100002": scores(correctness=4),
        "0100003": scores(correctness=4),
        "0100004": scores(completeness=None),
    }
    statuses = judged(work, lambda text: json.dumps(next(given[name] for name in given if name in text)))
    assert statuses["0100004", SCORES] == "unparsed" and statuses["0100005", SCORES] == "missing_output"
    official = numbers(work, "official")
    assert official["correctness"] == 3.67 and official["content_richness"] == 9.0
    assert official["overall"] == round((3.67 + 4 + 5 + 6 + 7 + 8 + 9) / 7, 2)
    assert numbers(work, "zero")["content_richness"] == round(27 / 5, 2)


def test_outputs_go_through_the_official_layout_and_come_back(folder: Path, tmp_path: Path) -> None:
    benchmark = OpenING()
    dataset = benchmark.read(folder)
    benchmark.export(dataset, {"1500001": answer(tmp_path, "1500001")}, tmp_path, tmp_path / "out")
    written = json.loads((tmp_path / "out" / "InterleaveThinker_output" / "1500001.json").read_text())
    assert written["conversations"][1]["output"] == [
        {"text": "First.", "image": "1500001-o-0.png"},
        {"text": "", "image": "1500001-o-1.png"},
        {"text": "Last.", "image": None},
    ]
    assert written["conversations"][0] == dataset.items[0].facts["row"]["conversations"][0]
    back = next(benchmark.import_outputs(dataset, tmp_path / "out"))
    assert back.texts == ("First.", "Last.") and len(back.images) == 2 and Path(back.images[0]).is_file()
    (tmp_path / "out" / "Other_output").mkdir()
    with pytest.raises(InputError, match="2 systems"):
        next(benchmark.import_outputs(dataset, tmp_path / "out"))
    (tmp_path / "out" / "Other_output" / "9.json").write_text("{}")
    with pytest.raises(InputError, match="unknown item"):
        next(benchmark.import_outputs(dataset, tmp_path / "out" / "Other_output"))


def test_scores_of_the_official_script_are_read(folder: Path, tmp_path: Path) -> None:
    dataset = OpenING().read(folder)
    path = tmp_path / "scores.json"
    rows = [
        {"data_id": "1500001", "model": {"id": "1", "name": "X"}, "score": scores()},
        {"instance_id": "0100003", "model": {"name": "X"}, "score": scores(correctness=None)},
        {"data_id": "1500001", "model": {"id": "2", "name": "Y"}, "score": {}},
    ]
    path.write_text(json.dumps(rows))
    with pytest.raises(InputError, match="X, Y"):
        list(OpenING().import_judgements(dataset, path))
    with pytest.raises(InputError, match="'Z'"):
        list(OpenING().import_judgements(dataset, Path(f"{path}#Z")))
    found = list(OpenING().import_judgements(dataset, Path(f"{path}#X")))
    assert [(record.item, record.status) for record in found] == [("1500001", "ok"), ("0100003", "unparsed")]


# pairs


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("A is better", "A"),
        ("**B is better**.", "B"),
        ("B", "B"),
        ("Tie(A better)", "Tie(A)"),
        ('"tie (B better)"', "Tie(B)"),
        ("<think>A is better, or not</think>B is better", "B"),
    ],
)
def test_verdicts_are_read(reply: str, verdict: str) -> None:
    assert verdict_of(reply) == verdict


@pytest.mark.parametrize(
    "reply", ["", "Tie", "Neither is better", "A is better. B is better", "a is better", "A or B"]
)
def test_what_is_no_verdict_is_none(reply: str) -> None:
    with pytest.raises(Unparsed):
        verdict_of(reply)


def test_a_verdict_in_the_other_order() -> None:
    assert [swapped(verdict) for verdict in VERDICTS] == ["B", "A", "Tie(B)", "Tie(A)"]


def pair(item: str, first: str, second: str, winner: str) -> dict[str, Any]:
    names = {"model_A": {"id": "1", "name": first}, "model_B": {"id": "2", "name": second}}
    return {"data_id": item, **names, "winner": winner}


def arena(folder: Path, pairs: Sequence[dict[str, Any]], name: str = "judge_modelAB_results.json") -> Path:
    (folder / "Interleaved_Arena").mkdir(exist_ok=True)
    (folder / "Interleaved_Arena" / name).write_text(json.dumps(pairs))
    return folder / "Interleaved_Arena" / name


def documents(folder: Path, model: str, *items: str, ending: str = "json") -> None:
    place = folder / "gen_outputs" / f"{model}_output"
    for item in items:
        image(place / f"{item}-o-0.jpg")
        made = row(item, answer=[(f"{model} says so <image>", f"{item}-o-0.jpg"), ("and more", "gone.jpg")])
        (place / f"{item}.{ending}").write_text(json.dumps(made, indent=1))


def test_pairs_are_judged_in_both_orders(folder: Path, tmp_path: Path) -> None:
    arena(
        folder,
        [
            pair("1500001", "good", "anole", "A"),
            pair("1500001", "anole", "Human", "Tie(A)"),
            pair("0100003", "good", "anole", "Tie(B)"),
            pair("0100003", "good", "absent", "B"),
        ],
    )
    documents(folder, "good", "1500001", "0100003")
    documents(folder, "anole", "1500001", "0100003", ending="jsonl")
    benchmark = OpenINGPairs()
    dataset = benchmark.read(folder)
    assert [item.group for item in dataset.items] == ["unseen models"] * 3 + ["seen models"]
    assert any("3 pairs have both documents" in note for note in dataset.notes)
    context = Context(reworded_prompts("opening-pairs"), tmp_path)
    asked = [
        shown(benchmark.question(key, dataset.items[0], None, context).messages[1])
        for key in (FORWARD, REVERSE)
    ]
    assert " ".join(asked[0].split()).startswith(
        "<INPUT>: Explain 1500001. <IMG_0></IMG_0> PICTURE <OUTPUT_A>: good says so <IMG_1></IMG_1> PICTURE "
        "and more <OUTPUT_B>: anole says so <IMG_2></IMG_2> PICTURE and more"
    )
    assert "<OUTPUT_A>: anole says so" in asked[1]
    with pytest.raises(MissingOutput, match="absent"):
        benchmark.question(FORWARD, dataset.items[3], None, context)

    def says(text: str) -> str | None:
        if "0100003" in text:  # always the first, until it says both
            return "A is better" if "<OUTPUT_A>: good" in text else "A is better, B is better"
        if "It is so." in text:
            return None
        return "A is better" if "<OUTPUT_A>: good" in text else "Tie(B better)"

    work = Judged(benchmark, dataset, {}, tmp_path, "test:judge", context.prompts)
    statuses = judged(work, says)
    assert statuses == {
        ("1500001/good/anole", FORWARD): "ok",
        ("1500001/good/anole", REVERSE): "ok",
        ("1500001/anole/Human", FORWARD): "refused",
        ("1500001/anole/Human", REVERSE): "refused",
        ("0100003/good/anole", FORWARD): "ok",
        ("0100003/good/anole", REVERSE): "unparsed",
        ("0100003/good/absent", FORWARD): "missing_output",
        ("0100003/good/absent", REVERSE): "missing_output",
    }
    dropped = numbers(work, "drop")
    # good/anole: A and, turned round, Tie(A), against A; the third: A against Tie(B)
    assert dropped["agreement_fdt"] == 0.5 and dropped["agreement_fdt_forward"] == 0.5
    assert dropped["agreement_with_ties"] == 0.25 and dropped["agreement_with_ties_forward"] == 0.5
    assert dropped["agreement_no_ties"] == 1.0
    assert dropped["order_consistency"] == 1.0 and dropped["first_preferred"] == pytest.approx((0.5 + 1) / 2)
    zero = numbers(work, "zero")
    assert zero["agreement_fdt"] == 0.25 and zero["agreement_no_ties"] == 0.5


def test_win_rates_by_the_four_rules() -> None:
    first, second = np.array([0.0, 0, 1, 0]), np.array([1.0, 1, 0, 2])
    codes = np.array([float(VERDICTS.index(each)) for each in ("A", "Tie(B)", "Tie(A)", "B")])
    rates = {rule: win_rates(first, second, [codes], rule, 4).tolist() for rule in RULES}
    assert rates["fdt"][:3] == [0.25, 2 / 3, 1.0]
    assert rates["no_tie"][:3] == [0.5, 0.0, 1.0]
    assert rates["tie_0"][:3] == [0.25, 0.0, 1.0]
    assert rates["tie_half"][:3] == [0.5, 1 / 3, 1.0]
    assert all(np.isnan(each[3]) for each in rates.values())


def test_verdicts_of_the_official_script_are_read(folder: Path) -> None:
    arena(folder, [pair("1", "x", "y", "A"), pair("2", "x", "y", "B")])
    rows = [pair("1", "x", "y", "Tie(A)"), pair("2", "x", "y", "Tie("), pair("3", "x", "y", "A")]
    path = arena(folder, rows, "gpt.json")
    found = list(OpenINGPairs().import_judgements(OpenINGPairs().read(folder), path))
    assert [(record.item, record.status, record.value) for record in found] == [
        ("1/x/y", "ok", "Tie(A)"),
        ("2/x/y", "unparsed", None),
    ]
    for broken in (pair("1", "x", "y", "Tie"), {"data_id": "1"}):
        arena(folder, [broken])
        with pytest.raises(InputError, match="no"):
            OpenINGPairs().read(folder)


def test_prompts_and_published_rows(tmp_path: Path) -> None:
    for benchmark in (OpenING(), OpenINGPairs()):
        for place in benchmark.official_prompts.values():
            (tmp_path / place.file).parent.mkdir(exist_ok=True)
            python = 'def get_gpt4answer():\n    return {"text": "Only JSON!"}\n'
            (tmp_path / place.file).write_text(python if place.name else "Judge!")
        official = official_prompts(tmp_path, benchmark.official_prompts)
        assert set(official.templates) == set(reworded_prompts(benchmark.name).templates)
        rows = published_rows(benchmark.name)
        assert rows and all(set(each.numbers) <= {n.name for n in benchmark.numbers()} for each in rows)


def test_imported_verdicts_on_the_command_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("interleave.bench.statistics.RESAMPLES", 20)
    arena(folder, [pair("1", "x", "y", "A"), pair("2", "y", "z", "B"), pair("3", "z", "x", "Tie(A)")])
    path = arena(folder, [pair("1", "x", "y", "A"), pair("2", "y", "z", "A")], "gpt.json")
    given = ["--data", str(folder), "--out", "out", "--import-judge", str(path), "--missing", "official"]
    assert run(["bench", "opening-pairs", *given, "--json"]) == 1  # the third pair has no verdict
    scored = json.loads(capsys.readouterr().out)
    outcome = scored["outcome"]
    assert scored["judge"] == "gpt" and outcome["coverage"] == 0.6667
    found = {number["name"]: number["value"] for number in outcome["numbers"]}
    assert found["agreement_fdt_forward"] == 50.0 and found["order_consistency"] is None
    run(["bench", "opening-pairs", *given[:-2], "--json"])  # the third counts as wrong, the other order not
    zero = {each["name"]: each["value"] for each in json.loads(capsys.readouterr().out)["outcome"]["numbers"]}
    assert zero["agreement_fdt_forward"] == zero["agreement_fdt"] == pytest.approx(100 / 3, abs=1e-4)


# upstream's own files, where they are at hand


@pytest.fixture
def upstream() -> Path:
    path = Path(os.environ.get("INTERLEAVE_BENCH_DATA", "none"), "OpenING")
    if not (path / "Interleaved_Arena").is_dir():
        pytest.skip("INTERLEAVE_BENCH_DATA has no OpenING")
    return path


@pytest.mark.parametrize(
    ("judge", "pairs", "expected"),
    [
        ("gpt-judge_modelAB_results.json", 4302, (71.08, 51.93, 74.58)),
        ("intjudge_rag-judge_modelAB_results.json", 4301, (82.42, 66.45, 91.11)),
    ],
)
def test_upstreams_agreements(upstream: Path, judge: str, pairs: int, expected: tuple[float, ...]) -> None:
    benchmark = OpenINGPairs()
    dataset = benchmark.read(upstream)
    path = upstream / "Interleaved_Arena" / judge
    records = {record.item: {record.key: record} for record in benchmark.import_judgements(dataset, path)}
    assert len(dataset.items) == 4302 and len(records) == pairs
    scorable = Scorable(benchmark, dataset.items, {i.id: (FORWARD,) for i in dataset.items}, records, "drop")
    table = scorable.table()
    found = {number.name: number.aggregate(table) * number.scale for number in benchmark.numbers()}
    names = ("agreement_fdt_forward", "agreement_with_ties_forward", "agreement_no_ties_forward")
    assert tuple(round(found[name], 2) for name in names) == expected
    assert all(found[f"win_rate_rank_{rule}"] > 0.9 for rule in RULES)


def test_upstreams_win_rates(upstream: Path) -> None:
    """IntJudge's columns of the leaderboard; other rows stand there from a slightly larger set of pairs."""
    path = upstream / "Interleaved_Arena" / "intjudge_rag-judge_modelAB_results_new.json"
    rows = json.loads(path.read_text())
    names = sorted({each[side]["name"] for each in rows for side in ("model_A", "model_B")})
    first, second = (
        np.array([float(names.index(each[side]["name"])) for each in rows]) for side in ("model_A", "model_B")
    )
    codes = np.array([float(VERDICTS.index(each["winner"])) for each in rows])
    rates = {rule: win_rates(first, second, [codes], rule, len(names)) for rule in RULES}
    for name, *expected in (
        ("VILA-U", 68.66, 58.58, 36.94, 55.41),
        ("Emu3", 54.01, 54.48, 39.04, 53.21),
        ("SEED-X", 53.76, 54.32, 36.15, 52.88),
        ("Emu2", 36.60, 31.84, 19.36, 38.96),
        ("Show-o", 33.65, 24.22, 13.59, 35.53),
    ):
        place = names.index(name)
        assert [round(100 * float(rates[rule][place]), 2) for rule in RULES] == expected


def test_upstreams_table_of_marks(upstream: Path) -> None:
    """Cell by cell; some items stand in upstream's file twice and count twice there."""
    benchmark = OpenING()
    folder = upstream / "Interleaved_Arena"
    rows = json.loads((folder / "gpt-score_results.json").read_text())
    items = {each["data_id"]: Item(each["data_id"], "all") for each in rows}
    with (folder / "model_score_summaries.csv").open() as file:
        table = list(csv.DictReader(file))
    cells = 0
    for line in table:
        path = Path(f"{folder / 'gpt-score_results.json'}#{line['Model_Name']}")
        dataset = Dataset(tuple(items.values()), "r", "upstream")
        found = [
            (f"{place}", record) for place, record in enumerate(benchmark.import_judgements(dataset, path))
        ]
        scorable = Scorable(
            benchmark,
            [Item(name, "all") for name, _ in found],
            {name: (SCORES,) for name, _ in found},
            {name: {SCORES: record} for name, record in found},
            "official",
        )
        made = {n.name: n.aggregate(scorable.table()) for n in benchmark.numbers()}
        expected = {name: float(line[theirs]) for name, theirs in CRITERIA.items()} | {
            "overall": float(line["Overall"])
        }
        assert made == expected, line["Model_Name"]
        cells += len(expected)
    assert cells == 88
