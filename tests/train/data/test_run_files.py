"""The run files of an export: lengths that lose no row, settings that name what is there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
from run_folders import random_collection

from interleave.train.data.export.stage import ExportOptions, export
from interleave.train.data.formats.run_files import STEP, RowLengths
from interleave.train.data.select.stage import select

yaml = pytest.importorskip("yaml")

FORMATS = ("llamafactory", "swift", "easyr1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    root = tmp_path_factory.mktemp("run_files")
    select([random_collection(root / "col", Random("run files"), 30)], root / "selection")
    manifest = export(root / "selection", root / "rows", ExportOptions(FORMATS, validation=0.2))
    return root / "rows", manifest


def arguments(script: Path, folder: Path) -> list[str]:
    """What a script would hand to its trainer, whose command is replaced by one that prints."""
    prints = 'printf "%s\\n" "$@"'
    programs = {"swift": prints, "python": f'[ "$1" = -c ] && echo /r.py || {prints}'}
    for name, text in programs.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    specs = {"GENERATOR": "http://a:1,http://b:2", "SCORER": "openai:m@http://h/v1?timeout=3", "MODEL": "/m"}
    environment = {**os.environ, **specs, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run([script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("kind", ["planner_sft", "critic_sft", "agent_sft"])
def test_llamafactory_cuts_no_row(made: tuple[Path, Any], kind: str) -> None:
    folder, manifest = made
    settings = yaml.safe_load((folder / "llamafactory" / f"train_{kind}.yaml").read_text("utf-8"))
    longest = manifest.counts.get(f"{kind} tokens, longest") or manifest.counts["planner_sft tokens, longest"]
    assert settings["cutoff_len"] > longest
    assert settings["template"] == "qwen3_vl_nothink"
    info = yaml.safe_load((folder / "llamafactory" / "dataset_info.json").read_text("utf-8"))
    for key in ("dataset", "eval_dataset"):
        assert (folder / "llamafactory" / info[settings[key]]["file_name"]).is_file()


@pytest.mark.parametrize("kind", ["planner_sft", "critic_sft", "critic_rl"])
def test_ms_swift_drops_no_row(made: tuple[Path, Any], kind: str, tmp_path: Path) -> None:
    folder, manifest = made
    given = arguments(folder / "swift" / f"train_{kind}.sh", tmp_path)
    options = dict(zip(given[1::2], given[2::2], strict=True))
    assert int(options["--max_length"]) > manifest.counts[f"{kind} tokens, longest"]
    assert options["--model_type"] == "qwen3_vl", "which ms-swift does not guess for a folder"
    assert (folder / "swift" / options["--dataset"]).is_file()
    assert (folder / "swift" / options["--val_dataset"]).is_file() or "--split_dataset_ratio" in options
    if kind == "critic_rl":
        assert options["--reward_funcs"] == "interleave"
        assert options["--per_device_train_batch_size"] == options["--num_generations"], "one process a group"


def test_easyr1_keeps_every_row_and_adds_no_prompt(made: tuple[Path, Any], tmp_path: Path) -> None:
    folder, manifest = made
    given = arguments(folder / "easyr1" / "train_critic_rl.sh", tmp_path)
    options = dict(each.split("=", 1) for each in given[2:])
    assert int(options["data.max_prompt_length"]) > manifest.counts["critic_rl tokens, longest"]
    assert options["data.format_prompt"] == "null"
    assert options["data.image_dir"] == str(folder / "easyr1")
    assert Path(options["data.train_files"]).is_file() and Path(options["data.val_files"]).is_file()


def test_small_exports_name_no_validation_rows(tmp_path: Path) -> None:
    select([random_collection(tmp_path / "col", Random("small"), 30)], tmp_path / "selection")
    export(tmp_path / "selection", tmp_path / "rows", ExportOptions(FORMATS, validation=0))
    settings = yaml.safe_load((tmp_path / "rows/llamafactory/train_critic_sft.yaml").read_text("utf-8"))
    assert "eval_dataset" not in settings
    (tmp_path / "bin").mkdir()
    given = arguments(tmp_path / "rows/swift/train_critic_rl.sh", tmp_path / "bin")
    assert given[given.index("--split_dataset_ratio") + 1] == "0"
    given = arguments(tmp_path / "rows/easyr1/train_critic_rl.sh", tmp_path / "bin")
    [validation] = [each for each in given if each.startswith("data.val_files=")]
    assert Path(validation.split("=")[1]).is_file(), "it is opened, though nothing is validated"


def test_an_estimate_leaves_more_room_than_a_count() -> None:
    counted, estimated = (RowLengths({"critic_rl": 10_000}, counted=each) for each in (True, False))
    assert 10_000 < counted.limit("critic_rl") < estimated.limit("critic_rl")
    assert counted.limit("critic_rl") % STEP == 0
    both = RowLengths({"planner_sft": 9_000, "critic_sft": 100}, counted=True)
    assert both.limit("agent_sft") == both.limit("planner_sft")
