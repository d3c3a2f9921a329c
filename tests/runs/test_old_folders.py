"""Run folders that release 0.1.0 wrote, before the modules moved, are read and resumed as they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import interleave
from interleave.cli.main import run
from interleave.runs.journal import Drawn, Replied, read_journal

OLD = Path(__file__).parent / "old_folders"
DOUBLES = {"planner": "scripted", "critic": "scripted", "generator": "solid?size=64"}


def copy_of(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD / name, tmp_path / name))


def cut_after(folder: Path, lines: int) -> None:
    """Leave what a process killed after so many entries would have left."""
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:lines]))
    (folder / "run.json").unlink(missing_ok=True)


def results(folder: Path) -> list[tuple[str, int]]:
    return [(entry.role, entry.call) for entry in read_journal(folder) if isinstance(entry, Replied | Drawn)]


@pytest.mark.parametrize("name", ["doubles", "world", "mini"])
def test_a_finished_run_resumes_without_a_call(name: str, tmp_path: Path) -> None:
    folder = copy_of(name, tmp_path)
    journal = (folder / "journal.jsonl").read_bytes()
    resumed = interleave.resume(folder)
    assert resumed.status == "done"
    assert (folder / "journal.jsonl").read_bytes() == journal
    assert (folder / "document.html").exists()


@pytest.mark.parametrize("name", ["doubles", pytest.param("world", marks=pytest.mark.slow)])
def test_a_run_cut_after_any_entry_ends_as_the_whole_one_did(name: str, tmp_path: Path) -> None:
    whole = interleave.comparable(copy_of(name, tmp_path))
    entries = len((OLD / name / "journal.jsonl").read_bytes().splitlines())
    for kept in range(1, entries):
        folder = copy_of(name, tmp_path / str(kept))
        cut_after(folder, kept)
        before = results(folder)
        assert interleave.resume(folder).status == "done"
        assert interleave.comparable(folder) == whole
        assert results(folder)[: len(before)] == before


def test_a_run_of_the_miniature_goes_on_from_its_last_image(tmp_path: Path) -> None:
    folder = copy_of("mini", tmp_path)
    drawn = [number for number, entry in enumerate(read_journal(folder), 1) if isinstance(entry, Drawn)]
    cut_after(folder, drawn[-1])
    before = results(folder)
    assert interleave.resume(folder).status == "done"
    assert results(folder)[: len(before)] == before


def test_a_person_can_decide_about_an_old_run(tmp_path: Path) -> None:
    folder = copy_of("doubles", tmp_path)
    whole, before = interleave.comparable(folder), len(results(folder))
    interleave.redraw_step(folder, 1, prompt="something else")
    assert interleave.resume(folder).status == "done"
    assert len(results(folder)) > before
    interleave.undo_decision(folder)
    again = interleave.resume(folder).record
    shown = [step.shown for step in again.steps]
    assert shown == [step["shown"] for step in whole["steps"]]


def test_a_batch_goes_on_with_what_it_lacks(tmp_path: Path) -> None:
    folder = copy_of("batch", tmp_path)
    requests = tmp_path / "requests.jsonl"
    requests.write_bytes((OLD / "requests.jsonl").read_bytes())
    killed, untouched, never_begun = sorted(path.parent for path in folder.rglob("journal.jsonl"))
    kept = (untouched / "journal.jsonl").read_bytes()
    cut_after(killed, 9)
    shutil.rmtree(never_begun)
    index = [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]
    ended = [row for row in index if Path(row["folder"]).name == untouched.name]
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ended))
    options = [part for role, spec in DOUBLES.items() for part in (f"--{role}", spec)]
    assert run(["generate", "--requests", str(requests), *options, "--out", str(folder)]) == 0
    assert (untouched / "journal.jsonl").read_bytes() == kept
    for trajectory in (killed, untouched, never_begun):
        assert interleave.comparable(trajectory)["status"] == "done"
