"""Rows are found, looked through and refused by number before anything is trained."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from making import critic_rl_rows, critic_sft_rows, planner_sft_rows, write_rows
from PIL import Image

from interleave.errors import ConfigurationError, InputError
from interleave.training.recipes import load_recipe
from interleave.training.rows import find_rows, inspect_rows, read_rows
from interleave.training.running import Orders, open_rows


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return critic_sft_rows(4, side=64)


def inspect(path: Path, task: Any = "critic", **options: Any) -> Any:
    files, _ = find_rows(path, task)
    return inspect_rows(read_rows(files, task), task, folder=files.folder, **options)


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
    with pytest.raises(ConfigurationError, match=r"no planner_sft.parquet \(there is critic_sft.parquet\)"):
        find_rows(tmp_path, "planner")
    with pytest.raises(InputError, match="no column 'sources'"):
        read_rows(find_rows(tmp_path / "critic_sft.parquet", "grpo")[0], "grpo")
    (tmp_path / "planner_sft.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        read_rows(find_rows(tmp_path, "planner")[0], "planner")


def test_pictures_may_be_files_beside_the_rows(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    Image.new("RGB", (64, 64), "red").save(tmp_path / "one.png")
    row = {**rows[0], "images": [{"bytes": None, "path": "one.png"}] * 2}
    write_rows(tmp_path / "critic_sft.parquet", [row])
    read = read_rows(find_rows(tmp_path, "critic")[0], "critic")[0]
    assert read["images"][1].getpixel((0, 0)) == (255, 0, 0)


def broken_png(rows: list[dict[str, Any]]) -> None:
    rows[2]["images"][1] = {"bytes": rows[2]["images"][1]["bytes"][:-40], "path": None}


def missing_file(rows: list[dict[str, Any]]) -> None:
    rows[2]["images"][0] = {"bytes": None, "path": "gone.png"}


def no_picture(rows: list[dict[str, Any]]) -> None:
    rows[2]["images"][0] = {"bytes": None, "path": None}


def one_too_few(rows: list[dict[str, Any]]) -> None:
    rows[2]["images"].pop()


def no_answer(rows: list[dict[str, Any]]) -> None:
    rows[2]["completion"][0]["content"][0]["text"] = "it looks fine"


@pytest.mark.parametrize("spoil", [broken_png, missing_file, no_picture, one_too_few, no_answer])
def test_K15_a_row_that_cannot_be_used_is_named_by_its_number(spoil: Any, tmp_path: Path) -> None:
    rows = critic_sft_rows(4, side=64)
    spoil(rows)
    write_rows(tmp_path / "critic_sft.parquet", rows)
    with pytest.raises(InputError, match="row 3 cannot be used: "):
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
    with pytest.raises(InputError, match="row 2 cannot be used"):
        inspect(tmp_path, "grpo")


@pytest.mark.parametrize("workers", [0, 2])
def test_K13_several_processes_find_what_one_finds(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interleave.training.rows.MANY_PICTURES", 4)
    rows = critic_sft_rows(4, side=64)
    write_rows(tmp_path / "critic_sft.parquet", [*rows, rows[0]])
    found = inspect(tmp_path, workers=workers)
    assert (found.rows, found.pictures, found.duplicates) == (5, 10, 1)


def orders(tmp_path: Path, **options: Any) -> Orders:
    recipe = load_recipe(None, task="sft", changes={"training.validate_every": 5})
    return Orders("critic", recipe, tmp_path, tmp_path / "out", **options)


def test_K14_validation_rows_that_are_trained_on_are_reported_or_refused(tmp_path: Path) -> None:
    rows = critic_sft_rows(4, side=64)
    write_rows(tmp_path / "critic_sft.parquet", rows)
    write_rows(tmp_path / "validation" / "critic_sft.parquet", [rows[1], *planner_sft_rows(0)])
    said: list[str] = []
    assert open_rows(orders(tmp_path), said.append).inspection.leaked == 1  # type: ignore[union-attr]
    assert "1 of 1 validation rows are also trained on" in " ".join(said)
    with pytest.raises(ConfigurationError, match="--fail-on-leak"):
        open_rows(orders(tmp_path, fail_on_leak=True), said.append)
