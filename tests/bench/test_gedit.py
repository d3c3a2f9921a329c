"""GEdit-Bench: data as rows and as tables, the official layout, the judge, the numbers by hand."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
from images import put_image
from judge_server import importing, judge_server, printed_numbers
from PIL import Image

from interleave.bench import statistics
from interleave.bench.base import Context, Unparsed
from interleave.bench.benchmarks.gedit import TYPES, GEdit
from interleave.bench.outputs import Output, OutputPart
from interleave.bench.prompts import reworded_prompts
from interleave.cli.main import run
from interleave.errors import InputError
from interleave.types import ImagePart

DOUBLES = ["--planner", "scripted", "--critic", "scripted", "--generator", "solid?size=64"]


def row(key: str, task: str, language: str = "en", **more: Any) -> dict[str, Any]:
    return {
        "key": key,
        "task_type": task,
        "instruction": f"edit {key}",
        "instruction_language": language,
        "Intersection_exist": True,
        "input_image": f"images/{key}.png",
        **more,
    }


ROWS = [
    row("a", "color_alter"),
    row("b", "color_alter", Intersection_exist=False),
    row("c", "text_change"),
    row("d", "text_change", "cn"),
]


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 20)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for each in ROWS:
        put_image(folder / each["input_image"])
    (folder / "rows.jsonl").write_text("\n".join(json.dumps(each) for each in ROWS))
    return folder


@pytest.fixture
def edits(tmp_path: Path) -> Path:
    """What a system has made, in the official layout: all but one, in another size."""
    folder = tmp_path / "results" / "system"
    for each in ROWS[:3]:
        task, language = each["task_type"], each["instruction_language"]
        put_image(folder / "fullset" / task / language / f"{each['key']}.png", "blue", (50, 50))
    return folder


def says(text: str, number: int) -> str | None:
    if "Instruction for the edit" not in text:
        return '{"score": [9, 9], "reasoning": "good"}'
    if "edit a" in text:
        return "||V^=^V||" + '{"score": [4, 10]}' + "||V^=^V||"
    if "edit b" in text:
        return "I would say 3 or 4."
    return None


def bench(*arguments: str) -> int:
    return run(["bench", "gedit", *arguments])


def test_good_unreadable_refused_and_missing(
    data: Path, edits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with judge_server(says) as judge:
        common = importing(data, edits, judge)
        assert bench(*common) == 1
        scored = json.loads(capsys.readouterr().out)["outcome"]
        # SC, PQ and so on; the reply that cannot be read is asked for three times, the refusal once
        assert sorted(judge.images) == [1, 1, 1, 2, 2, 2, 2, 2]
        assert scored["statuses"] == {"ok": 4, "unparsed": 1, "refused": 1, "missing_output": 2}
        assert bench("score", *common) == 1
        zero = printed_numbers(capsys.readouterr().out)
        assert bench("score", *common, "--missing", "drop") == 1
        drop = printed_numbers(capsys.readouterr().out)
        assert bench("score", *common, "--missing", "official") == 1
        official = printed_numbers(capsys.readouterr().out)
    # two types; a: sqrt(4 × 9) = 6, b: 0, c: 0
    assert zero["O_en"] == pytest.approx((6 + 0) / 2 / 2)
    assert zero["SC_en"] == pytest.approx((4 + 0) / 2 / 2)
    assert zero["O_en_intersection"] == pytest.approx(6 / 2)
    assert zero["O_cn"] == 0
    assert drop["O_en"] == 6
    assert drop["O_cn"] is None
    assert official == drop


def test_a_system_is_run_on_the_sources(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with judge_server(lambda *_: '{"score": [9, 4]}') as judge:
        assert bench("--data", str(data), "--out", "out", *DOUBLES, "--judge", judge.spec, "--json") == 0
        assert printed_numbers(capsys.readouterr().out)["O_cn"] == 4
        assert bench("export", "--data", str(data), "--out", "out", *DOUBLES) == 0
    official = Path(capsys.readouterr().out.strip())
    exported = official / "fullset" / "color_alter" / "en"
    assert sorted(path.name for path in exported.iterdir()) == [
        "a.png",
        "a_SRCIMG.png",
        "b.png",
        "b_SRCIMG.png",
    ]
    with Image.open(exported / "a_SRCIMG.png") as source:
        assert source.size == (24, 16)
    dataset = GEdit().read(data)
    assert [output.item for output in GEdit().import_outputs(dataset, official)] == [
        item.id for item in dataset.items
    ]


def test_the_judge_sees_the_edit_in_the_size_of_its_source(data: Path, edits: Path) -> None:
    benchmark = GEdit()
    dataset = benchmark.read(data)
    output = next(iter(benchmark.import_outputs(dataset, edits / "fullset")))
    context = Context(reworded_prompts("gedit"), edits)
    for key, sizes in (("sc", [(24, 16)] * 2), ("pq", [(24, 16)])):
        question = benchmark.question(key, dataset.items[0], output, context)
        shown = [part.image for part in question.messages[0].parts if isinstance(part, ImagePart)]
        assert [image.size for image in shown] == sizes
    with pytest.raises(Unparsed, match="no image"):
        benchmark.question(
            "sc", dataset.items[0], Output(item="x", parts=(OutputPart(text="words"),)), context
        )


def test_what_upstream_wrote_for_its_judge(
    data: Path, edits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["source_image", "edited_image", "instruction", "sementics_score", "quality_score"]
    names += ["intersection_exist", "instruction_language"]
    table = tmp_path / "judged" / "system_color_alter_gpt_score.csv"
    table.parent.mkdir()
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for key, sc in (("a", 4), ("b", 8.5)):
            edited = f"/results/system/fullset/color_alter/en/{key}.png"
            writer.writerow({"edited_image": edited, "sementics_score": sc, "quality_score": 9})
    given = ["--data", str(data), "--import", str(edits), "--out", "out", "--missing", "drop", "--json"]
    assert bench(*given, "--import-judge", str(table.parent)) == 1
    assert printed_numbers(capsys.readouterr().out)["O_en"] == pytest.approx(
        (6 + math.sqrt(8.5 * 9)) / 2, abs=1e-6
    )
    table.write_text(table.read_text().replace("color_alter/en/a", "color_alter/en/z"))
    with pytest.raises(InputError, match="unknown item"):
        list(GEdit().import_judgements(GEdit().read(data), table))


def test_images_in_tables_are_put_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    image = put_image(tmp_path / "a.png").read_bytes()
    rows = [{**row("a", "color_alter"), "input_image": {"bytes": image, "path": "a.png"}}]
    (tmp_path / "data").mkdir()
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "data" / "train.parquet")
    dataset = GEdit().read(tmp_path / "data")
    assert dataset.items[0].request.images[0].size == (24, 16)
    assert dataset.items[0].facts["source"].is_relative_to(tmp_path / "cache")
    assert GEdit().read(tmp_path / "data") == dataset


@pytest.mark.parametrize(
    "bad",
    [
        row("a", "no_such_type"),
        row("a", "color_alter", "fr"),
        row("a", "color_alter", Intersection_exist=None),
        row("a", "color_alter", instruction=None),
        row("a", "color_alter", input_image=None),
    ],
)
def test_rows_of_another_form_are_refused(tmp_path: Path, bad: dict[str, Any]) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(bad))
    with pytest.raises(InputError, match="row 1"):
        GEdit().read(tmp_path)


def test_folders_without_data_or_outputs_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \.parquet"):
        GEdit().read(tmp_path / "empty")
    with pytest.raises(InputError, match="official layout"):
        list(GEdit().import_outputs(GEdit().read(data), tmp_path))
    (data / "rows.jsonl").write_text("\n".join(json.dumps(ROWS[0]) for _ in range(2)))
    with pytest.raises(InputError, match="duplicate item"):
        GEdit().read(data)


def test_there_are_eleven_types() -> None:
    assert len(TYPES) == 11
