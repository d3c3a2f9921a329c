"""CoMM: the data's forms, three calls that depend on each other, marks, and the official layout."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from judge_server import judge_server
from PIL import Image

from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.bench.base import Context, Dataset, JudgeRecord, MissingOutput, Unparsed
from interleave.bench.benchmarks.comm import (
    DESCRIPTIONS,
    DOCUMENT,
    FIDELITY,
    CoMM,
    CoMMContinue,
    CoMMDocument,
)
from interleave.bench.judge import Judged, JudgeSession
from interleave.bench.outputs import Output, OutputPart
from interleave.bench.prompts import official_prompts, reworded_prompts
from interleave.bench.published import published_rows
from interleave.bench.scoring import Missing, Scorable
from interleave.cli.main import run
from interleave.errors import InputError
from interleave.types import ImagePart

PROMPTS = reworded_prompts("comm")


class TestJudge:
    """Answers by a rule of all the words it is sent; None is a refusal."""

    __test__ = False
    capabilities = VlmCapabilities()

    def __init__(self, says: Callable[[str], str | None]) -> None:
        self.says = says

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        said = self.says("\n".join(message.text for message in messages))
        return Reply("", "content_filter") if said is None else Reply(said)


DOUBLES = ["--planner", "scripted", "--critic", "scripted", "--generator", "solid?size=64"]


def image(path: Path, colour: str = "red", size: tuple[int, int] = (40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def row(identity: str, steps: int, *, images: int = 1, **more: Any) -> dict[str, Any]:
    made = [
        [
            {"type": "text", "content": f"Do part {step}."},
            *(
                {"type": "image", "url": "http://x", "image_path": f"{identity}-{step}-{n}.png"}
                for n in range(images)
            ),
        ]
        for step in range(steps)
    ]
    return {"data_id": identity, "title": f"topic {identity}", "step_info": made, "summary_info": "", **more}


def data(folder: Path, *rows: dict[str, Any], rotten: tuple[str, ...] = ()) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "test.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    for each in rows:
        for step in each["step_info"]:
            for piece in step:
                if piece["type"] == "image" and piece["image_path"] not in rotten:
                    image(folder / "images" / piece["image_path"])
    return folder


def answer(folder: Path, item: str, steps: int = 2) -> Output:
    parts = []
    for number in range(steps):
        image(folder / f"{item}-{number}.png", "blue", (1024, 512))
        parts += [OutputPart(text=f"Then {number}."), OutputPart(image=f"{item}-{number}.png")]
    return Output(item=item, parts=tuple(parts))


def marks(
    style: Any = 8, entity: Any = 7, trend: Any = 6, complete: Any = 9, quality: Any = 10
) -> dict[str, Any]:
    overall = {"style_consistency": style, "entity_consistency": entity, "trend_consistency": trend}
    return {
        "scores": {
            "Image_Coherence": {"overall_score": {**overall, "overall_consistency": 7}},
            "Completeness": {"Score": complete},
            "Image_Quality": {"Score": quality},
        }
    }


def descriptions(first: int, count: int) -> dict[str, Any]:
    return {"Tasks": {"Any": {f"Content of Image {n}": f"a thing {n}" for n in range(first, first + count)}}}


def fidelity(score: Any = 5) -> dict[str, Any]:
    return {"Consistency": {"image_1_score": 1, "overall_score": score, "Justification": ""}}


def test_task_3_gives_half_of_the_steps_and_task_4_only_the_topic(tmp_path: Path) -> None:
    folder = data(tmp_path / "d", row("a", 5, dataset_type="wikihow"), row("b", 1))
    continued, document = CoMMContinue().read(folder), CoMMDocument().read(folder)
    assert [item.id for item in continued.items] == ["a"] and [i.id for i in document.items] == ["a", "b"]
    item = continued.items[0]
    assert item.group == "wikihow" and item.facts["first"] == 3
    shown = [
        part if isinstance(part, str) else part.name
        for part in item.parts
        if not isinstance(part, Image.Image)
    ]
    assert shown[1:-1] == ["(1) Do part 0.", "a-0-0.png", "(2) Do part 1.", "a-1-0.png"]
    assert [path.name for path in item.facts["references"]] == ["a-2-0.png", "a-3-0.png", "a-4-0.png"]
    assert document.items[0].parts == ("Write step-by-step instructions with images about topic a.",)
    assert any("one step" in note for note in continued.notes)


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    rows = [row("a", 4), row("rot", 4), row("full", 4, images=5), row("bare", 4, images=0)]
    folder = data(tmp_path / "d", *rows, rotten=("rot-0-0.png",))
    found = CoMMContinue().read(folder)
    assert [item.id for item in found.items] == ["a"]
    said = " ".join(found.notes)
    assert "1 documents without images" in said
    assert "1 items are left out because input images" in said
    assert "10 images or more" in said
    assert len(CoMMDocument().read(folder).items) == 3  # task 4 needs none of the images


def test_pickled_and_foreign_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_data.pth").write_bytes(b"\x80\x04.")
    for given in (tmp_path, tmp_path / "test_data.pth"):
        with pytest.raises(InputError, match="can run code"):
            CoMMContinue().read(given)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="neither"):
        CoMMContinue().read(tmp_path / "empty")
    outside = row("a", 4)
    outside["step_info"][0][1]["image_path"] = "../secret.png"
    image(tmp_path / "secret.png")
    folder = data(tmp_path / "d", row("b", 4))
    (folder / "test.jsonl").write_text(json.dumps(outside) + "\n" + json.dumps(row("b", 4)))
    assert [item.id for item in CoMMContinue().read(folder).items] == ["b"]
    for broken in ({"data_id": "a"}, {**row("a", 2), "step_info": [[{"type": "video"}]]}, {"step_info": []}):
        (folder / "test.jsonl").write_text(json.dumps(broken))
        with pytest.raises(InputError, match="row 1"):
            CoMMDocument().read(folder)
    (folder / "test.jsonl").write_text((json.dumps(row("a", 2)) + "\n") * 2)
    with pytest.raises(InputError, match="duplicate item"):
        CoMMDocument().read(folder)


def question_text(message: Message) -> str:
    """What is asked, whatever its line breaks."""
    said = ("PICTURE" if isinstance(part, ImagePart) else part.text for part in message.parts)
    return " ".join(" ".join(said).split())


def test_the_three_questions(tmp_path: Path) -> None:
    benchmark = CoMMContinue()
    item = benchmark.read(data(tmp_path / "d", row("a", 4))).items[0]
    output = answer(tmp_path, "a")
    context = Context(PROMPTS, tmp_path)
    whole = benchmark.question(DOCUMENT, item, output, context)
    said = question_text(whole.messages[1])
    assert "INPUT:" in said and "(2) Do part 1. <Img_1> PICTURE </Img_1>" in said
    assert "OUTPUT: (1) Then 0. <Img_2> PICTURE </Img_2> (2) Then 1. <Img_3> PICTURE </Img_3>" in said
    assert whole.sampling.temperature == 1.0
    sizes = [part.image.size for part in whole.messages[1].parts if isinstance(part, ImagePart)]
    assert sizes == [(40, 30), (40, 30), (512, 256), (512, 256)]
    hidden = benchmark.question(DESCRIPTIONS, item, output, context)
    assert "<Img_1> PICTURE </Img_1>" in question_text(hidden.messages[1])
    assert "<Img_2> </Img_2>" in question_text(hidden.messages[1])
    with pytest.raises(Unparsed, match="did not describe"):
        benchmark.question(FIDELITY, item, output, context)
    said_before = JudgeRecord(
        item="a", key=DESCRIPTIONS, output="", status="ok", value=["one", "two", "three"]
    )
    pairs = benchmark.question(
        FIDELITY, item, output, Context(PROMPTS, tmp_path, {DESCRIPTIONS: said_before})
    )
    assert question_text(pairs.messages[1]) == (
        "<Description_0> one </Description_0> <Img_0> PICTURE </Img_0> "
        "<Description_1> two </Description_1> <Img_1> PICTURE </Img_1> <Description_2> three </Description_2>"
    )
    with pytest.raises(MissingOutput):
        benchmark.question(DESCRIPTIONS, item, Output(item="a", parts=(OutputPart(text="x"),)), context)


def test_at_most_ten_images_are_shown(tmp_path: Path) -> None:
    benchmark = CoMMContinue()
    item = benchmark.read(data(tmp_path / "d", row("a", 4, images=2))).items[0]
    question = benchmark.question(DOCUMENT, item, answer(tmp_path, "a", 9), Context(PROMPTS, tmp_path))
    assert sum(isinstance(part, ImagePart) for part in question.messages[1].parts) == 10
    assert "Then 5." in question.messages[1].text and "Then 6." not in question.messages[1].text


def parsers(tmp_path: Path) -> Mapping[str, Callable[[str], Any]]:
    benchmark = CoMMContinue()
    item = benchmark.read(data(tmp_path / "d", row("a", 4))).items[0]
    said = JudgeRecord(item="a", key=DESCRIPTIONS, output="", status="ok", value=["x", "y"])
    context = Context(PROMPTS, tmp_path, {DESCRIPTIONS: said})
    output = answer(tmp_path, "a")
    return {key: benchmark.question(key, item, output, context).parse for key in benchmark.keys(item, output)}


def test_replies_are_read_and_nothing_is_invented(tmp_path: Path) -> None:
    parse = parsers(tmp_path)
    read = parse[DOCUMENT](f"Here it is:\n```json\n{json.dumps(marks(style='NA', quality=None))}\n```")
    assert read == {
        "Sty": None,
        "Enti": 7.0,
        "Tren": 6.0,
        "Comp": 9.0,
        "ImgQ": None,
        "overall_consistency": 7.0,
    }
    assert parse[DESCRIPTIONS](json.dumps(descriptions(2, 3))) == ["a thing 2", "a thing 3", "a thing 4"]
    assert parse[FIDELITY](json.dumps(fidelity("6"))) == 6.0
    assert parse[FIDELITY](json.dumps(fidelity("NA"))) == 0.0
    for key, reply in (
        (DOCUMENT, "It is good."),
        (DOCUMENT, json.dumps(marks(style=11))),
        (DOCUMENT, json.dumps(marks(style="0-10"))),
        (DOCUMENT, json.dumps({"scores": {"Image_Coherence": {}}})),
        (DOCUMENT, json.dumps({"scores": 5})),
        (DESCRIPTIONS, json.dumps(descriptions(0, 2))),
        (DESCRIPTIONS, json.dumps(descriptions(2, 1))),
        (DESCRIPTIONS, json.dumps({"Tasks": []})),
        (FIDELITY, json.dumps(fidelity(True))),
        (FIDELITY, json.dumps({"Consistency": {}})),
    ):
        with pytest.raises(Unparsed):
            parse[key](reply)


def outcome(work: Judged, missing: Missing) -> dict[str, float]:
    items = work.dataset.items
    keys = {item.id: work.keys(item) for item in items}
    scorable = Scorable(work.benchmark, items, keys, work.records(), missing)
    table = scorable.table()
    found = {number.name: number.aggregate(table) for number in work.benchmark.numbers()}
    return {**found, "coverage": len(scorable.covered) / len(items)}


def test_a_sample_with_a_failed_call_drops_out_officially_and_counts_nothing_here(tmp_path: Path) -> None:
    def says(text: str) -> str | None:
        if "Descriptions" in text:
            return None if "topic refused" in text else json.dumps(descriptions(0, 2))
        if text.startswith(PROMPTS.templates[FIDELITY]):
            return json.dumps(fidelity(4))
        return "no marks" if "topic junk" in text else json.dumps(marks(style="NA"))

    rows = [row(name, 2) for name in ("good", "refused", "junk", "gone")]
    dataset = CoMMDocument().read(data(tmp_path / "d", *rows))
    outputs = {name: answer(tmp_path, name) for name in ("good", "refused", "junk")}
    work = Judged(CoMMDocument(), dataset, outputs, tmp_path, "test:judge", PROMPTS)

    async def ask() -> list[JudgeRecord]:
        session = JudgeSession(work, TestJudge(says), reasks=0)
        return [record async for record in session.run(concurrency=4)]

    records = {(record.item, record.key): record.status for record in asyncio.run(ask())}
    assert records["refused", DESCRIPTIONS] == "refused" and records["refused", FIDELITY] == "unparsed"
    assert records["junk", DOCUMENT] == "unparsed" and records["gone", DOCUMENT] == "missing_output"
    official = outcome(work, "official")
    assert official == {
        "Sty": 0.0,
        "Enti": 7.0,
        "Tren": 6.0,
        "Comp": 9.0,
        "ImgQ": 10.0,
        "IRS": 4.0,
        "overall_consistency": 7.0,
        "coverage": 0.25,
    }
    zero = outcome(work, "zero")
    assert (zero["Comp"], zero["IRS"]) == (9 * 2 / 4, 4 * 2 / 4)


def test_outputs_go_through_the_official_layout_and_come_back(tmp_path: Path) -> None:
    benchmark = CoMMContinue()
    dataset = benchmark.read(data(tmp_path / "d", row("a", 4)))
    benchmark.export(dataset, {"a": answer(tmp_path, "a")}, tmp_path, tmp_path / "out")
    sample = tmp_path / "out" / "a_task3"
    result = json.loads((sample / "results.json").read_text())
    assert result["model_output"] == "(3) Then 0. <IMAGE> (4) Then 1. <IMAGE>"
    assert result["model_input"].count("<IMAGE>") == 2
    assert result["input_image_list"] == ["input_1.png", "input_2.png"]
    assert result["output_gt_image_list"] == ["output_gt_3.png", "output_gt_4.png"]
    assert result["prediction_image_list"] == ["predict_3.png", "predict_4.png"]
    assert (sample / "origin" / "output_gt_4.png").exists() and (sample / "predict_3.png").exists()
    back = next(benchmark.import_outputs(dataset, tmp_path / "out"))
    assert back.texts == ("(3) Then 0.", "(4) Then 1.")
    assert [Path(name).name for name in back.images] == result["prediction_image_list"]
    again = benchmark.read(tmp_path / "out")  # the folders of results are data too
    assert again.items[0].id == "a" and again.items[0].facts["first"] == 3
    assert sum(isinstance(part, Path) for part in again.items[0].parts) == 2
    benchmark.export(again, {"a": back}, tmp_path, tmp_path / "second")
    assert json.loads((tmp_path / "second" / "a_task3" / "results.json").read_text()) == result
    with pytest.raises(InputError, match="unknown item"):
        list(benchmark.import_outputs(Dataset((), "r", "s"), tmp_path / "out"))
    (sample / "predict_3.png").unlink()
    with pytest.raises(InputError, match=r"predict_3\.png"):
        list(benchmark.import_outputs(dataset, tmp_path / "out"))


def test_judgements_of_the_official_script_are_read(tmp_path: Path) -> None:
    benchmark = CoMMDocument()
    dataset = benchmark.read(data(tmp_path / "d", row("a", 2), row("b", 2), row("c", 2)))
    judged = {
        "coherence_score": {
            "style_consistency": 8,
            "entity_consistency": None,
            "trend_consistency": "NA",
            "overall_consistency": 7,
        },
        "completeness": {"Score": 6, "Justification": ""},
        "Image_Quality": {"Score": 9, "Justification": ""},
        "text fidelity to images": {"Score": 3, "Justification": ""},
    }
    for name, content in (("a", judged), ("b", "Invalid input string")):
        (tmp_path / "r" / f"{name}_task4").mkdir(parents=True)
        (tmp_path / "r" / f"{name}_task4" / "evaluation_results.json").write_text(json.dumps(content))
    records: dict[str, dict[str, JudgeRecord]] = {}
    for record in benchmark.import_judgements(dataset, tmp_path / "r"):
        records.setdefault(record.item, {})[record.key] = record
    assert list(records) == ["a"]
    keys = {item.id: benchmark.keys(item, None) for item in dataset.items}
    scorable = Scorable(benchmark, dataset.items, keys, records, "official")
    assert scorable.item_measures["a"] == {
        "Sty": 8.0,
        "Enti": 0.0,
        "Tren": 0.0,
        "Comp": 6.0,
        "ImgQ": 9.0,
        "overall_consistency": 7.0,
        "IRS": 3.0,
    }
    assert set(scorable.item_measures["b"].values()) == {None}


def test_the_words_of_a_checkout(tmp_path: Path) -> None:
    for place in CoMM.official_prompts.values():
        (tmp_path / place.file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place.file).write_text("Mark it: {not a gap}")
    prompts = official_prompts(tmp_path, CoMM.official_prompts)
    assert prompts.label == "official" and set(prompts.templates) == {DOCUMENT, DESCRIPTIONS, FIDELITY}
    assert set(PROMPTS.templates) == set(prompts.templates)


def test_published_rows() -> None:
    names = {number.name for number in CoMMContinue().numbers()}
    for benchmark, count in (("comm-continue", 5), ("comm-document", 6)):
        rows = published_rows(benchmark)
        assert len(rows) == count and all(set(each.numbers) <= names for each in rows)


def test_the_whole_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("interleave.bench.statistics.RESAMPLES", 20)
    data(tmp_path / "d", row("a", 2))

    def says(text: str, number: int) -> str:
        if "Descriptions" in text:
            return json.dumps(descriptions(0, text.count("</Img_") - 1))
        return json.dumps(fidelity(8) if "Description_0" in text else marks())

    with judge_server(says) as judge:
        common = ["comm-document", "--data", "d", "--out", "out", *DOUBLES, "--judge", judge.spec]
        assert run(["bench", *common, "--json"]) == 0
        scored = json.loads(capsys.readouterr().out)
        assert len(judge.questions) == 3 and judge.images[1] == 0
    assert [number["value"] for number in scored["outcome"]["numbers"]] == [8, 7, 6, 9, 10, 8, 7]
    assert run(["bench", common[0], "export", *common[1:]]) == 0
    assert os.path.exists("out/official/attempts-5/a_task4/results.json")
