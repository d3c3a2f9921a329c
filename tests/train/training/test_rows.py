"""Rows are found, looked through and refused by number before anything is trained."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from making import critic_rl_rows, critic_sft_rows, planner_sft_rows, write_rows
from PIL import Image

from interleave.errors import ConfigurationError, InputError
from interleave.train.inspection import bad_rows, inspect_rows, open_rows
from interleave.train.recipes import TrainingJob, load_recipe
from interleave.train.rows import check_columns, find_rows, read_rows


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return critic_sft_rows(4, side=64)


def inspect(path: Path, task: Any = "critic", **options: Any) -> Any:
    files, _ = find_rows(path, task)
    rows = read_rows(files, task)
    found = inspect_rows(rows, task, folder=files.folder, **options)
    if found.bad:
        raise bad_rows(rows, files, found.bad)
    return found


def test_an_export_is_found_by_its_folder_its_subfolder_or_its_file(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    write_rows(tmp_path / "export" / "trl" / "critic_sft.parquet", rows)
    write_rows(tmp_path / "export" / "trl" / "validation" / "critic_sft.parquet", rows[:1])
    for data in (tmp_path / "export", tmp_path / "export" / "trl"):
        train, validation = find_rows(data, "critic")
        assert train.paths[0].name == "critic_sft.parquet"
        assert validation is not None
    assert find_rows(train.paths[0], "critic") == (train, None)
    assert inspect(tmp_path / "export").rows == 4


def test_what_is_not_there_is_said(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        find_rows(tmp_path / "nowhere", "critic")
    write_rows(tmp_path / "critic_sft.parquet", rows)
    with pytest.raises(ConfigurationError, match="contains critic_sft but no planner_sft"):
        find_rows(tmp_path, "planner")
    with pytest.raises(InputError, match="no column 'sources'"):
        read_rows(find_rows(tmp_path / "critic_sft.parquet", "grpo")[0], "grpo")
    (tmp_path / "planner_sft.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        read_rows(find_rows(tmp_path, "planner")[0], "planner")


def test_an_export_without_rows_for_rl_says_what_there_is(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="contains no parquet file: make rows with"):
        find_rows(tmp_path, "grpo")
    for name in ("critic_sft", "agent_sft"):
        write_rows(tmp_path / "trl" / f"{name}.parquet", rows)
    there = "/trl contains agent_sft, critic_sft but no critic_rl: the selection has no part 'rl'"
    with pytest.raises(ConfigurationError, match=there):
        find_rows(tmp_path, "grpo")


def test_images_may_be_files_beside_the_rows(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    Image.new("RGB", (64, 64), "red").save(tmp_path / "one.png")
    row = {**rows[0], "images": [{"bytes": None, "path": "one.png"}] * 2}
    write_rows(tmp_path / "critic_sft.parquet", [row])
    read = read_rows(find_rows(tmp_path, "critic")[0], "critic")[0]
    assert read["images"][1].getpixel((0, 0)) == (255, 0, 0)


def broken_png(rows: list[dict[str, Any]]) -> None:
    rows[2]["images"][1] = {"bytes": rows[2]["images"][1]["bytes"][:-40], "path": None}


def missing_file(rows: list[dict[str, Any]]) -> None:
    rows[2]["images"][0] = {"bytes": None, "path": "gone.png"}


def no_image(rows: list[dict[str, Any]]) -> None:
    rows[2]["images"][0] = {"bytes": None, "path": None}


def one_too_few(rows: list[dict[str, Any]]) -> None:
    rows[2]["images"].pop()


def no_answer(rows: list[dict[str, Any]]) -> None:
    rows[2]["completion"][0]["content"][0]["text"] = "it looks fine"


@pytest.mark.parametrize("spoil", [broken_png, missing_file, no_image, one_too_few, no_answer])
def test_K15_a_row_that_cannot_be_used_is_named_by_its_number(spoil: Any, tmp_path: Path) -> None:
    rows = critic_sft_rows(4, side=64)
    spoil(rows)
    write_rows(tmp_path / "critic_sft.parquet", rows)
    with pytest.raises(InputError, match=r"1 of 4 rows cannot .*/critic_sft.parquet row 3 \('critic/2'\): "):
        inspect(tmp_path)


MESSAGES = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
ODD_COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "numbers for messages": ("prompt", [1, 2, 3, 4]),
    "text for messages": ("prompt", ["x"] * 4),
    "messages that are texts": ("prompt", [["x"]] * 4),
    "messages without parts": ("prompt", [[{"role": "user", "content": "x"}]] * 4),
    "messages without a role": ("prompt", [[{"content": [{"type": "text", "text": "x"}]}]] * 4),
    "parts that are texts": ("prompt", [[{"role": "user", "content": ["x"]}]] * 4),
    "parts whose text is a number": (
        "prompt",
        [[{"role": "user", "content": [{"type": "text", "text": 1}]}]] * 4,
    ),
    "nothing but nulls": ("completion", [None] * 4),
    "a nested list of messages": ("completion", [[MESSAGES]] * 4),
    "images that are texts": ("images", [["a.png"]] * 4),
    "images that are numbers": ("images", [[1]] * 4),
    "images in no list": ("images", [{"bytes": b"", "path": ""}] * 4),
    "images of other fields": ("images", [[{"url": "x"}]] * 4),
    "pictures whose bytes are text": ("images", [[{"bytes": "x", "path": "x"}]] * 4),
    "pictures whose path is a number": ("images", [[{"bytes": b"x", "path": 1}]] * 4),
}


@pytest.mark.parametrize("odd", ODD_COLUMNS)
def test_a_column_of_another_form_is_refused_by_name(odd: str, tmp_path: Path) -> None:
    column, values = ODD_COLUMNS[odd]
    table = pa.Table.from_pylist(critic_sft_rows(4, side=64))
    table = table.set_column(table.column_names.index(column), column, pa.array(values))
    pq.write_table(table, tmp_path / "critic_sft.parquet")
    with pytest.raises(InputError, match=rf"critic_sft.parquet: the column '{column}' holds .*, not lists"):
        inspect(tmp_path)


def test_a_column_that_no_library_can_read_is_refused_by_name() -> None:
    table = pa.Table.from_pylist(critic_sft_rows(4, side=64))
    spans = pa.array([pa.scalar((1, 2, 3), pa.month_day_nano_interval())] * 4)
    with pytest.raises(InputError, match=r"x\.parquet: the column 'spans' holds month_day_nano_interval"):
        check_columns(table.append_column("spans", spans).schema, Path("x.parquet"), "critic")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("prompt", None),
        ("prompt", [None]),
        ("prompt", [{"role": "user", "content": None}]),
        ("prompt", [{"role": "user", "content": [None]}]),
        ("completion", None),
        ("completion", [None]),
        ("images", [None, None]),
    ],
)
def test_a_row_with_a_null_in_it_is_named(column: str, value: Any, tmp_path: Path) -> None:
    rows = critic_sft_rows(4, side=64)
    rows[2][column] = value
    write_rows(tmp_path / "critic_sft.parquet", rows)
    with pytest.raises(InputError, match=r"sft.parquet row 3 \('critic/2'\): a(n image| value) is null"):
        inspect(tmp_path)


@pytest.mark.parametrize(
    ("column", "value"),
    [("semantics", None), ("semantics", math.nan), ("quality", 10.5), ("quality", -1.0), ("success", None)],
)
def test_K12_a_row_whose_scores_or_label_are_missing_is_named(
    column: str, value: Any, tmp_path: Path
) -> None:
    rows = critic_rl_rows(3, side=64)
    rows[1][column] = value
    write_rows(tmp_path / "critic_rl.parquet", rows)
    with pytest.raises(
        InputError, match=r"critic_rl.parquet row 2 \('rl/1'\): '?(semantics|quality|success)"
    ):
        inspect(tmp_path, "grpo")


@pytest.mark.parametrize("workers", [0, 2])
def test_K13_several_processes_find_what_one_finds(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interleave.train.inspection.MANY_IMAGES", 4)
    rows = critic_sft_rows(4, side=64)
    write_rows(tmp_path / "critic_sft.parquet", [*rows, rows[0]])
    found = inspect(tmp_path, workers=workers)
    assert (found.rows, found.images, found.duplicates) == (5, 10, 1)


def job(tmp_path: Path, **options: Any) -> TrainingJob:
    recipe = load_recipe(None, task="sft", changes={"training.validate_every": 5})
    return TrainingJob("critic", recipe, tmp_path, tmp_path / "out", **options)


@pytest.fixture
def spoiled(tmp_path: Path) -> Path:
    """Nine rows in two files; all but the first and the last cannot be used."""
    rows = critic_sft_rows(9, side=64)
    for row in rows[1:8]:
        row["images"] = row["images"][:1]
    write_rows(tmp_path / "critic_sft-1.parquet", rows[:4])
    write_rows(tmp_path / "critic_sft-2.parquet", rows[4:])
    return tmp_path


def test_K15_all_bad_rows_are_named_by_file_number_and_id(spoiled: Path) -> None:
    with pytest.raises(InputError) as caught:
        open_rows(job(spoiled), lambda message: None)
    said = str(caught.value)
    assert said.startswith("7 of 9 rows cannot be used: ")
    assert f"{spoiled}/critic_sft-1.parquet row 2 ('critic/1'): it has 1 images for 2 placeholders" in said
    assert f"{spoiled}/critic_sft-2.parquet row 1 ('critic/4'): " in said
    assert "; and 2 more. Fix the export, or skip such rows with --skip-bad" in said


def test_K15_bad_rows_are_left_out_if_the_user_says_so(spoiled: Path) -> None:
    said: list[str] = []
    rows = open_rows(job(spoiled, skip_bad=True), said.append)
    assert rows.train["id"] == ["critic/0", "critic/8"]
    assert any("7 rows skipped" in line for line in said)
    assert rows.digest != rows.files.digest, "another training than that on all rows"
    with pytest.raises(ConfigurationError, match="cannot be combined"):
        open_rows(job(spoiled, skip_bad=True, trust_data=True), said.append)


def test_K14_validation_rows_that_are_trained_on_are_reported_or_refused(tmp_path: Path) -> None:
    rows = critic_sft_rows(4, side=64)
    write_rows(tmp_path / "critic_sft.parquet", rows)
    write_rows(tmp_path / "validation" / "critic_sft.parquet", [rows[1], *planner_sft_rows(0)])
    said: list[str] = []
    assert open_rows(job(tmp_path), said.append).inspection.leaked == 1  # type: ignore[union-attr]
    assert "1 of 1 validation rows are also training rows" in " ".join(said)
    with pytest.raises(ConfigurationError, match="--fail-on-leak"):
        open_rows(job(tmp_path, fail_on_leak=True), said.append)


def as_text(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Messages as a chat template joins their parts."""
    return [
        (message["role"], "".join(part.get("text", "<image>") for part in message["content"]))
        for message in messages
    ]


@pytest.mark.parametrize("form", ["embedded", "referenced"])
def test_rows_for_verl_are_those_for_trl(form: str, tmp_path: Path) -> None:
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
    from random import Random

    from run_folders import random_collection  # type: ignore[import-not-found]

    from interleave.train.data.export.images import ImageForm
    from interleave.train.data.export.stage import ExportOptions, export
    from interleave.train.data.select.stage import select

    select([random_collection(tmp_path / "col", Random("verl"), 30)], tmp_path / "chosen")
    for name in ("trl", "verl"):
        options = ExportOptions((name,), validation=0, images=ImageForm(form))
        export(tmp_path / "chosen", tmp_path / name, options)
    found = [find_rows(tmp_path / name, "grpo")[0] for name in ("trl", "verl")]
    assert [files.folder.name for files in found] == ["trl", "verl"]
    trl, verl = (read_rows(files, "grpo") for files in found)
    assert len(trl) == len(verl) > 0
    for mine, theirs in zip(trl, verl, strict=True):
        for name in mine.keys() - {"prompt", "images", "sources"}:
            assert mine[name] == theirs[name]
        assert as_text(mine["prompt"]) == as_text(theirs["prompt"])
        for name in ("images", "sources"):
            assert [each.tobytes() for each in mine[name]] == [each.tobytes() for each in theirs[name]]
