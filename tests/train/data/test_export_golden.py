"""Every format as it is committed.

TRL's rows are loaded by `datasets`, as TRL does. LLaMA-Factory, ms-swift, verl and EasyR1 are not among the
project's packages: their rows are held against the form that they document.

When a change to the rows is meant, write them anew: python tests/train/data/test_export_golden.py
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from run_folders import SIZE

from interleave.train.data.export.images import ImageForm, white_image
from interleave.train.data.export.stage import ExportOptions, export
from interleave.train.data.formats import FORMATS
from interleave.train.data.select.rules import ThresholdOptions
from interleave.train.data.select.stage import SelectOptions, select
from interleave.train.data.sequences import SequenceOptions, make_sequences

HERE = Path(__file__).parent / "golden"
COLLECTION = HERE / "collection"


def make_export(root: Path) -> Path:
    """The golden collection through select and export, in all formats; needs the pack to be installed."""
    select(
        [COLLECTION],
        root / "selection",
        SelectOptions(ThresholdOptions(max_fall=1, min_best=1, variance=1), seed=2),
    )
    options = ExportOptions(formats=tuple(FORMATS), prompts="tiny", validation=0.3)
    export(root / "selection", root / "rows", options)
    for reflection in (False, True):
        name = "reflection" if reflection else "easy"
        make_sequences(
            [COLLECTION], root / "rows" / "sequences" / f"{name}.json", SequenceOptions(reflection)
        )
    return root / "rows"


def install_pack(config: Path) -> None:
    shutil.copytree(HERE / "prompts" / "tiny", config / "prompts" / "tiny")


def readable(root: Path) -> dict[str, dict[str, Any]]:
    """The files of an export by format, images by the hash of their bytes."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(root.rglob("*")):
        place = path.relative_to(root)
        is_file_of_rows = path.suffix in (".json", ".jsonl", ".parquet") and ".manifest" not in path.name
        if is_file_of_rows and len(place.parts) > 1:
            found.setdefault(place.parts[0], {})[str(Path(*place.parts[1:]))] = _read(path, root)
    return found


def _read(path: Path, root: Path) -> Any:
    if path.suffix == ".parquet":
        import pyarrow.parquet

        rows = _hashed(pyarrow.parquet.read_table(path).to_pylist())
        return json.loads(_without_canvas(json.dumps(rows)))
    text = path.read_text("utf-8").replace(str(root), "EXPORT")
    text = _without_canvas(text)
    text = re.sub(r'"[./]*/tests/train/data/golden/collection', '"COLLECTION', text)
    text = text.replace(os.path.relpath(COLLECTION, path.parent), "COLLECTION")
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def _without_canvas(text: str) -> str:
    """The white canvas is made anew by every export: how it was compressed is the library's business."""
    name = white_image(SIZE).name
    return text.replace(f"{name[:2]}/{name}", "CANVAS").replace(name, "CANVAS").replace(name[:-4], "CANVAS")


def _hashed(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"sha256 {hashlib.sha256(value).hexdigest()}"
    if isinstance(value, dict):
        return {key: _hashed(each) for key, each in value.items()}
    return [_hashed(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("golden")
    install_pack(root / "config")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTERLEAVE_CONFIG", str(root / "config"))
        return make_export(root)


@pytest.mark.parametrize("name", [*FORMATS, "sequences"])
def test_the_rows_are_as_they_were(rows: Path, name: str) -> None:
    expected = json.loads((HERE / f"{name}.json").read_text("utf-8"))
    assert readable(rows)[name] == expected


# The documented forms


def every(rows: Path, pattern: str) -> list[Any]:
    found: list[Any] = []
    for path in sorted(rows.glob(pattern)):
        if path.suffix == ".parquet":
            found += _read(path, rows)
        else:
            found += map(json.loads, path.read_text("utf-8").splitlines())
    return found


def slots(messages: list[dict[str, str]]) -> int:
    return sum(message["content"].count("<image>") for message in messages)


def test_datasets_loads_the_rows_of_trl_with_images(rows: Path, tmp_path: Path) -> None:
    from datasets import Image, List, Value, load_dataset

    for kind in ("planner_sft", "critic_sft", "agent_sft", "critic_rl"):
        data = load_dataset(
            "parquet", data_files=str(rows / "trl" / f"{kind}.parquet"), cache_dir=str(tmp_path / "cache")
        )["train"]
        assert data.features["images"] == List(Image())
        assert data.features["prompt"].feature["content"] == List(
            {"type": Value("string"), "text": Value("string")}
        )
        for row in data:
            parts = [part for message in row["prompt"] for part in message["content"]]
            assert sum(part["type"] == "image" for part in parts) == len(row["images"])
            assert all(image.size == (8, 6) for image in row["images"])
            if kind == "critic_rl":
                assert {type(row[name]) for name in ("semantics", "quality")} == {float}
                assert isinstance(row["success"], bool) and isinstance(row["sources"], list)
            else:
                [answer] = row["completion"]
                assert answer["role"] == "assistant"


def test_llamafactory_finds_its_files_and_as_many_images_as_marks(rows: Path) -> None:
    folder = rows / "llamafactory"
    info = json.loads((folder / "dataset_info.json").read_text())
    assert set(info) >= {"interleave_planner_sft", "interleave_critic_sft", "interleave_agent_sft"}
    for entry in info.values():
        assert entry["formatting"] == "sharegpt"
        assert entry["columns"] == {"messages": "messages", "images": "images"}
        for row in json.loads((folder / entry["file_name"]).read_text("utf-8")):
            roles = [message[entry["tags"]["role_tag"]] for message in row["messages"]]
            assert roles == ["system", "user", "assistant"]
            assert slots(row["messages"]) == len(row["images"])
            assert all((folder / image).is_file() for image in row["images"])


REWRITTEN_BY_SWIFT = {
    *("query", "prompt", "input", "instruction", "question", "problem"),
    *("response", "answer", "output", "target", "targets", "solution", "text", "completion", "content"),
}


def test_swift_gets_messages_images_and_columns_it_does_not_rewrite(rows: Path) -> None:
    for row in every(rows, "swift/**/*.jsonl"):
        assert slots(row["messages"]) == len(row["images"])
        assert not set(row) & REWRITTEN_BY_SWIFT
    for row in every(rows, "swift/**/critic_rl.jsonl"):
        assert [message["role"] for message in row["messages"]] == ["system", "user"]
        assert {"planned_prompt", "used_prompt", "sources", "success", "semantics", "quality"} <= set(row)


def test_verl_gets_what_its_reward_needs_in_its_own_columns(rows: Path) -> None:
    for row in every(rows, "verl/**/critic_rl.parquet"):
        assert set(row) == {"data_source", "prompt", "images", "ability", "reward_model", "extra_info"}
        assert row["reward_model"]["style"] == "rule"
        assert {"split", "index"} <= set(row["extra_info"])
        assert set(row["reward_model"]["ground_truth"]) == {"success", "semantics", "quality"}
        assert slots(row["prompt"]) == len(row["images"]) == 2
        assert all(set(image) == {"bytes"} for image in row["images"])
    for row in every(rows, "verl/**/*_sft.parquet"):
        assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant"]
        assert slots(row["messages"]) == len(row["images"])


def test_easyr1_gets_everything_in_three_columns(rows: Path) -> None:
    for row in every(rows, "easyr1/**/critic_rl.jsonl"):
        assert set(row) == {"problem", "images", "answer"}
        assert row["problem"].count("<image>") == len(row["images"]) == 2
        assert {"success", "semantics", "quality", "planned_prompt"} <= set(json.loads(row["answer"]))
        assert all((rows / "easyr1" / image).is_file() for image in row["images"])


def test_the_reference_gets_absolute_paths_and_its_own_name_for_the_white_canvas(rows: Path) -> None:
    found = every(rows, "reference/**/critic_rl.jsonl")
    assert any("data/interleave/white.png" in row["origin_image_path"] for row in found)
    for row in found:
        assert set(row) == {
            *("origin_prompt", "rewritten_prompt", "origin_image_path", "edited_image_path", "evaluation")
        }
        assert set(row["evaluation"]) == {"semantics", "quality", "success"}
        for key in ("origin_image_path", "edited_image_path"):
            assert Path(row[key]).is_absolute() and Path(row[key]).is_file()


def test_formats_that_cannot_be_trained_on_are_not_written(rows: Path) -> None:
    kinds = {name: {Path(file).stem for file in files} for name, files in readable(rows).items()}
    assert "critic_rl" not in kinds["llamafactory"]
    assert kinds["easyr1"] == kinds["reference"] == {"critic_rl"}


def test_images_by_reference_are_named_and_can_be_opened(rows: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    options = ExportOptions(
        formats=tuple(FORMATS), prompts="default", images=ImageForm.REFERENCED, validation=0
    )
    export(rows.parent / "selection", tmp_path / "out", options)
    [row, *_] = json.loads((tmp_path / "out/llamafactory/critic_sft.json").read_text())
    assert all(Path(image).is_absolute() and Path(image).is_file() for image in row["images"])
    data = load_dataset(
        "parquet", data_files=str(tmp_path / "out/trl/critic_rl.parquet"), cache_dir=str(tmp_path / "cache")
    )["train"]
    assert all(image.size == (8, 6) for row in data for image in row["images"])
    [row, *_] = every(tmp_path / "out", "verl/critic_rl.parquet")
    assert all(set(image) == {"image"} and Path(image["image"]).is_file() for image in row["images"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["INTERLEAVE_CONFIG"] = f"{scratch}/config"
        install_pack(Path(scratch) / "config")
        made = readable(make_export(Path(scratch)))
    for name, files in made.items():
        text = json.dumps(files, ensure_ascii=False, indent=1)
        (HERE / f"{name}.json").write_text(text + "\n", "utf-8")
