"""`data select` on run folders: the same bytes whatever the order, everything accounted for."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from run_folders import REFUSED, REJECTED, UNREADABLE, Try, random_collection, write_run

from interleave.cli.main import run
from interleave.errors import InputError, RunError
from interleave.train.data.manifest import read_manifest
from interleave.train.data.outputs import atomic_folder
from interleave.train.data.select import stage
from interleave.train.data.select.rules import ThresholdOptions
from interleave.train.data.select.selection import read_collection_paths, read_selection
from interleave.train.data.select.stage import SelectOptions, select

FULL_DISK = """
import resource, sys
sys.dont_write_bytecode = True  # the limit would cut compiled files of the package, for every later process
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
from interleave.cli.main import main
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("selecting")
    return [random_collection(root / name, Random(name), 12) for name in ("first", "second")]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_K13_the_same_bytes_whatever_the_order_of_the_collections(
    collections: list[Path], tmp_path: Path
) -> None:
    select(collections, tmp_path / "a")
    select([*reversed(collections), collections[0]], tmp_path / "b")
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


@pytest.mark.slow
def test_K13_the_same_bytes_whatever_the_number_of_workers(
    collections: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "BATCH_RUNS", 1)
    for workers in (1, 3):
        select(collections, tmp_path / str(workers), SelectOptions(workers=workers))
    assert bytes_of(tmp_path / "1") == bytes_of(tmp_path / "3")


def test_K13_the_same_bytes_whatever_the_order_of_the_scores(collections: list[Path], tmp_path: Path) -> None:
    select([collections[0]], tmp_path / "a")
    other = tmp_path / "first"
    shutil.copytree(collections[0], other)
    path = other / "scores" / "made.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(Random(1).sample(lines, len(lines))))
    select([other], tmp_path / "b")
    assert (tmp_path / "a/selection.jsonl").read_bytes() == (tmp_path / "b/selection.jsonl").read_bytes()


def test_K12_there_is_a_line_for_every_attempt_and_the_manifest_counts_them(
    collections: list[Path], tmp_path: Path
) -> None:
    manifest = select(collections, tmp_path / "out")
    lines = list(read_selection(tmp_path / "out"))
    attempts = {
        (folder.name, run_folder.relative_to(folder).as_posix(), step["plan"]["number"], attempt["number"])
        for folder in collections
        for record in folder.rglob("run.json")
        for run_folder in [record.parent]
        for step in json.loads(record.read_text())["steps"]
        for attempt in step["attempts"]
    }
    assert {(each.collection, each.run, each.step, each.attempt) for each in lines} == attempts
    assert len(lines) == len(attempts) == manifest.counts["attempts"]
    for part in ("sft", "rl", "dropped"):
        assert manifest.counts[part] == sum(each.part == part for each in lines)
    assert manifest.counts["sft rows"] == sum(each.copies for each in lines if each.part == "sft")
    assert read_manifest(tmp_path / "out" / "selection.manifest.json") == manifest


def test_every_reason_is_told(tmp_path: Path) -> None:
    good = [Try(semantics=9.0)]
    write_run(tmp_path / "col", "falls", [[Try(REJECTED, 9, 9), Try(semantics=3.0)]])
    write_run(tmp_path / "col", "low", [[Try(REJECTED, 1, 1)]])
    write_run(tmp_path / "col", "silent", [[Try(REJECTED, 8, 8, refined=None), Try(UNREADABLE), Try(None)]])
    write_run(tmp_path / "col", "unscored", [[Try(semantics=None), Try(failure="no answer")]])
    for number in range(8):
        write_run(tmp_path / "col", f"good-{number}", [good])
    options = SelectOptions(ThresholdOptions(max_fall=1, min_best=4), balanced=False)
    manifest = select([tmp_path / "col"], tmp_path / "out", options)
    assert {name: number for name, number in manifest.counts.items() if ":" in name} == {
        "dropped: falling scores": 2,
        "dropped: persistently low": 1,
        "dropped: refused without a better prompt": 1,
        "dropped: unreadable verdict": 1,
        "dropped: not judged": 1,
        "dropped: no score": 1,
        "dropped: score failed": 1,
    }
    assert manifest.counts["sft"] == 8


def test_no_filter_drops_only_what_can_be_no_row(tmp_path: Path) -> None:
    write_run(tmp_path / "col", "falls", [[Try(REJECTED, 9, 9), Try(semantics=1.0)]])
    write_run(tmp_path / "col", "unscored", [[Try(semantics=None)]])
    for number in range(5):
        write_run(tmp_path / "col", f"good-{number}", [[Try()]])
    manifest = select([tmp_path / "col"], tmp_path / "out", SelectOptions(ThresholdOptions(filtered=False)))
    assert manifest.counts["dropped"] == manifest.counts["dropped: no score"] == 1
    assert all(each.copies == 1 for each in read_selection(tmp_path / "out") if each.part != "dropped")


def test_thresholds_are_stored_and_a_selection_made_with_them_again_is_the_same(
    collections: list[Path], tmp_path: Path
) -> None:
    given = SelectOptions(ThresholdOptions(min_best=3.0))
    used = select(collections, tmp_path / "a", given).options
    wishes = ThresholdOptions(used["max_fall"], used["min_best"], used["variance"])
    select(collections, tmp_path / "b", SelectOptions(wishes))
    assert (tmp_path / "a/selection.jsonl").read_bytes() == (tmp_path / "b/selection.jsonl").read_bytes()


def test_the_command_prints_thresholds_and_counts(
    collections: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "select", *map(str, collections), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == str(tmp_path / "out")
    assert "goes to RL" in printed.err and "dropped" in printed.err


def mostly_accepted_at_once(folder: Path) -> Path:
    """What a good generator leaves: most steps are drawn once, and only the others have refusals."""
    write_run(folder, "at-once", [[Try()]] * 64)
    write_run(folder, "again", [[Try(REJECTED, 1 + number / 2, 8), Try()] for number in range(11)])
    return folder


def test_where_most_steps_are_accepted_at_once_both_parts_have_both_judgements(tmp_path: Path) -> None:
    manifest = select([mostly_accepted_at_once(tmp_path / "col")], tmp_path / "out")
    for part in ("sft", "rl"):
        assert 0 < manifest.counts[f"{part} rows accepted"] < manifest.counts[f"{part} rows"]
    assert manifest.notes == ()


@pytest.mark.parametrize(
    ("wish", "part", "judgement"),
    [
        (["--variance", "0"], "sft", "an acceptance"),
        (["--ratio", "2"], "sft", "an acceptance"),
    ],
)
def test_a_part_with_one_judgement_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wish: list[str], part: str, judgement: str
) -> None:
    collection = mostly_accepted_at_once(tmp_path / "col")
    assert run(["data", "select", str(collection), "--out", str(tmp_path / "out"), *wish]) == 0
    said = capsys.readouterr().err
    [note] = read_manifest(tmp_path / "out" / "selection.manifest.json").notes
    assert note in said and f"every row of {part} is {judgement}" in note
    assert "53 rows, all of them acceptances" in said  # RL has borrowed eleven


def test_a_part_of_refusals_only_is_told(tmp_path: Path) -> None:
    write_run(tmp_path / "col", "run", [[REFUSED], [REFUSED]])
    [note] = select([tmp_path / "col"], tmp_path / "out").notes
    assert "every row of sft is a refusal" in note


def test_a_selection_with_nothing_for_rl_says_how_to_have_some(tmp_path: Path) -> None:
    write_run(tmp_path / "col", "run", [[REFUSED, Try()]] * 4)
    [note] = select([tmp_path / "col"], tmp_path / "out").notes
    assert "nothing goes to RL" in note
    options = SelectOptions(ThresholdOptions(variance=0))
    assert select([tmp_path / "col"], tmp_path / "all", options).counts["rl"] == 8


@pytest.mark.parametrize("ratio", ["0", "-1", "nan", "inf"])
def test_a_ratio_that_means_nothing_is_refused(
    collections: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], ratio: str
) -> None:
    command = ["data", "select", *map(str, collections), "--out", str(tmp_path / "out"), "--ratio", ratio]
    assert run(command) == 2
    assert "must be above 0" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_selection_is_not_overwritten_unasked(collections: list[Path], tmp_path: Path) -> None:
    select(collections, tmp_path / "out")
    before = bytes_of(tmp_path / "out")
    with pytest.raises(RunError, match="--replace"):
        select(collections, tmp_path / "out", SelectOptions(seed=3))
    assert bytes_of(tmp_path / "out") == before
    select(collections, tmp_path / "out", SelectOptions(seed=3), replace=True)
    assert read_manifest(tmp_path / "out/selection.manifest.json").options["seed"] == 3


def test_a_folder_that_holds_other_things_is_refused(collections: list[Path], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("work of years")
    with pytest.raises(RunError, match="has other files"):
        select(collections, tmp_path / "mine", replace=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "work of years"


def test_an_error_on_the_way_leaves_nothing_behind(tmp_path: Path) -> None:
    write_run(tmp_path / "col", "run", [[Try()]])
    (tmp_path / "col/scores/made.jsonl").write_text(
        '{"run": "run", "step": 1, "attempt": 1, "semantics": NaN, "quality": 1}\n'
    )
    with pytest.raises(InputError, match="is not a score"):
        select([tmp_path / "col"], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".out.lock")) == [
        "col"
    ]


def test_scores_of_attempts_that_are_not_there_are_told(tmp_path: Path) -> None:
    write_run(tmp_path / "col", "run", [[Try()]])
    with open(tmp_path / "col/scores/made.jsonl", "a") as file:
        file.write('{"run": "gone", "step": 1, "attempt": 1, "semantics": 1, "quality": 1}\n')
    assert "1 score of attempts that are not there" in select([tmp_path / "col"], tmp_path / "out").notes


def test_two_scorers_need_a_choice(tmp_path: Path) -> None:
    write_run(tmp_path / "col", "run", [[REFUSED, Try()]])
    shutil.copy(tmp_path / "col/scores/made.jsonl", tmp_path / "col/scores/other.jsonl")
    with pytest.raises(InputError, match="made, other"):
        select([tmp_path / "col"], tmp_path / "out")
    select([tmp_path / "col"], tmp_path / "out", SelectOptions(scores="other"))


def test_a_moved_collection_is_found_again_when_told(tmp_path: Path) -> None:
    write_run(tmp_path / "col", "run", [[Try()]])
    select([tmp_path / "col"], tmp_path / "out")
    (tmp_path / "col").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="--collection"):
        read_collection_paths(tmp_path / "out")
    assert read_collection_paths(tmp_path / "out", [tmp_path / "elsewhere"]) == {
        "col": tmp_path / "elsewhere"
    }


def test_collections_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    for place in ("a", "b"):
        write_run(tmp_path / place / "col", "run", [[Try()]])
    select([tmp_path / "b" / "col", tmp_path / "a" / "col"], tmp_path / "out")
    assert [each.collection for each in read_selection(tmp_path / "out")] == ["col", "col-2"]


def test_two_processes_do_not_make_the_same_folder(tmp_path: Path) -> None:
    write_run(tmp_path / "col", "run", [[Try()]])
    with atomic_folder(tmp_path / "out", "x"), pytest.raises(RunError, match="another process"):
        select([tmp_path / "col"], tmp_path / "out")


def test_what_a_process_left_half_made_is_cleared(tmp_path: Path) -> None:
    write_run(tmp_path / "col", "run", [[Try()]])
    (tmp_path / ".out.making").mkdir()
    (tmp_path / ".out.making" / "half").write_text("of it")
    select([tmp_path / "col"], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["col", "out"]
    assert not (tmp_path / "out" / "half").exists()


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["select", "export", "sequences"])
def test_a_full_disk_leaves_nothing_behind_and_says_so(tmp_path: Path, stage: str) -> None:
    """A limit on the size of files stands in for a disk that has no room."""
    for number in range(9):
        write_run(tmp_path / "col", f"run-{number}", [[REFUSED, Try()], [Try()]])
    select([tmp_path / "col"], tmp_path / "selection")
    source = "selection" if stage == "export" else "col"
    before = sorted(path.name for path in tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, "data", stage, source, "--out", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert "no partial output is left" in done.stderr and "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_collection_without_scores_gives_rows_for_a_planner(tmp_path: Path) -> None:
    from interleave.train.data.export.stage import ExportOptions, export

    collection = random_collection(tmp_path / "unscored", Random("unscored"), 5)
    shutil.rmtree(collection / "scores")
    manifest = select([collection], tmp_path / "chosen")
    assert manifest.counts["sft"] == manifest.counts["rl"] == 0
    assert manifest.counts["dropped"] == manifest.counts["attempts"]
    assert any("'unscored' was never scored" in note for note in manifest.notes)
    rows = export(tmp_path / "chosen", tmp_path / "rows", ExportOptions(("swift",), validation=0))
    assert rows.counts["swift/train/planner_sft"] > 0
    assert "swift/train/critic_sft" not in rows.counts
    with pytest.raises(InputError, match="has no scores"):
        select([collection], tmp_path / "named", SelectOptions(scores="oracle"))
