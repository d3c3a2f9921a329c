"""Collections with a run that is damaged, or was continued and killed: the others are not its victims."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from collections_made import SMALL, collect, write_requests

import interleave
from interleave.api import reopen_run
from interleave.cli.main import run
from interleave.config.run_config import Limits
from interleave.errors import RunError
from interleave.train.data.trajectories import Trajectory, read_trajectory, run_names

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def the_collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs, scored."""
    folder = tmp_path_factory.mktemp("collected")
    assert collect(write_requests(3, str(folder / "requests.jsonl")), str(folder / "made")) == 0
    assert run(["data", "score", str(folder / "made"), "--scorer", "scripted"]) == 0
    return folder / "made"


@pytest.fixture
def made(the_collection: Path, tmp_path: Path) -> Path:
    shutil.copytree(the_collection, tmp_path / "made")
    return Path("made")


def move_a_line(folder: Path, *, digests: bool) -> None:
    """Put the first verdict before its image; a journal of before the digests is refused for that alone."""
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    verdict = next(place for place, line in enumerate(lines) if b'"event":"judged"' in line)
    lines.insert(2, lines.pop(verdict))
    if not digests:
        lines = [line[: line.rindex(b',"digest"')] + b"}\n" for line in lines]
    journal.write_bytes(b"".join(lines))
    (folder / "run.json").unlink()


@pytest.mark.parametrize("digests", [True, False], ids=["with digests", "without"])
def test_B08_one_damaged_run_does_not_end_a_stage(
    made: Path, digests: bool, capsys: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = run_names(made)[1]
    move_a_line(made / damaged, digests=digests)
    Path("made/index.jsonl").unlink()  # else its runs are not even opened
    for command in (
        ["show", "made"],
        ["data", "score", "made", "--scorer", "scripted"],
        ["data", "select", "made", "--out", "selection", "--workers", "1"],
        ["data", "export", "selection", "--out", "rows", "--format", "swift", "--workers", "1"],
        ["data", "report", "made", "--out", "report.html"],
        ["data", "sequences", "made", "--out", "sequences.jsonl", "--workers", "1"],
    ):
        caplog.clear()
        assert run(command) == 0, command
        assert f"made/{damaged}/journal.jsonl:3 is damaged" in caplog.text, command
    capsys.readouterr()
    manifest = json.loads(Path("selection/selection.manifest.json").read_text())
    assert (manifest["counts"]["runs"], manifest["counts"]["runs left out"]) == (2, 1)
    assert "1 run left out: damaged" in manifest["notes"]
    assert run(["show", "made", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["damaged"] == 1


def test_a_gallery_shows_the_runs_that_are_not_damaged(made: Path) -> None:
    from interleave.batches.batch import read_index
    from interleave.render.gallery import write_gallery

    damaged = run_names(made)[1]
    move_a_line(made / damaged, digests=True)
    page = write_gallery(made, read_index(made), {}).read_text("utf-8")
    assert (page.count("<article"), page.count("no images")) == (3, 1)


async def some_of(folder: Path, events: int) -> None:
    """Take a run up, and leave it as a kill does: without an end in its journal, and with its old record."""
    async with aclosing(reopen_run(folder, Limits()).stream()) as stream:
        for _ in range(events):
            await anext(stream)
        record, page = (folder / "run.json").read_bytes(), (folder / "document.html").read_bytes()
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    assert b'"event":"ended"' in lines[-1]
    (folder / "journal.jsonl").write_bytes(b"".join(lines[:-1]))
    (folder / "run.json").write_bytes(record)
    (folder / "document.html").write_bytes(page)


def short_run(folder: Path) -> Path:
    interleave.generate("A frog in four pictures", out=folder, generator=SMALL, max_calls=4)
    assert interleave.read_record(folder).status == "short"
    return folder


@pytest.mark.parametrize("digests", [True, False], ids=["with digests", "without"])
def test_a_run_that_was_continued_and_killed_is_read_as_what_it_is(tmp_path: Path, digests: bool) -> None:
    folder = short_run(tmp_path / "run")
    before = read_trajectory(tmp_path, "run")
    assert isinstance(before, Trajectory)
    asyncio.run(some_of(folder, 9))
    if not digests:
        journal, record = folder / "journal.jsonl", json.loads((folder / "run.json").read_text())
        lines = journal.read_bytes().splitlines()
        journal.write_bytes(b"".join(line[: line.rindex(b',"digest"')] + b"}\n" for line in lines))
        del record["journal"]
        (folder / "run.json").write_text(json.dumps(record))
    assert json.loads((folder / "run.json").read_text())["status"] == "short"
    assert read_trajectory(tmp_path, "run") == interleave.read_record(folder).status == "interrupted"


def test_a_run_that_ended_and_was_killed_before_its_record_has_all_its_images(tmp_path: Path) -> None:
    folder = short_run(tmp_path / "run")
    old = (folder / "run.json").read_bytes()
    interleave.generate("A frog in four pictures", out=folder, generator=SMALL, max_calls=8)
    now = interleave.read_record(folder)
    assert now.status == "short"
    (folder / "run.json").write_bytes(old)
    trajectory = read_trajectory(tmp_path, "run")
    assert isinstance(trajectory, Trajectory)
    assert trajectory.record == now
    assert len(list(trajectory.attempts())) > sum(len(step.attempts) for step in json_steps(old))


def json_steps(record: bytes) -> list[interleave.runs.record.StepRecord]:
    return list(interleave.RunRecord.model_validate_json(record).steps)


def test_a_page_of_before_is_not_shown_for_a_run_that_has_gone_on(tmp_path: Path, capsys: Captured) -> None:
    folder = short_run(tmp_path / "run")
    asyncio.run(some_of(folder, 9))
    before = (folder / "document.html").read_bytes()
    assert run(["show", str(folder)]) == 0
    assert (folder / "document.html").read_bytes() != before


def test_a_journal_that_lost_its_end_is_damaged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    interleave.generate("A frog in two pictures", out=tmp_path / "run", generator=SMALL)
    journal = tmp_path / "run" / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-3]))
    assert read_trajectory(tmp_path, "run") == "damaged"
    assert "has lost its end" in caplog.text
    interleave.generate("A frog in two pictures", out=tmp_path / "run", generator=SMALL)
    assert isinstance(read_trajectory(tmp_path, "run"), Trajectory)


def test_a_record_that_cannot_be_read_is_made_up_for_by_the_journal(tmp_path: Path) -> None:
    interleave.generate("A frog in two pictures", out=tmp_path / "run", generator=SMALL)
    (tmp_path / "run" / "run.json").unlink()
    (tmp_path / "run" / "run.json").mkdir()
    assert isinstance(read_trajectory(tmp_path, "run"), Trajectory)


def test_a_step_whose_source_was_lost_is_refused_by_name(tmp_path: Path) -> None:
    from run_folders import Try, write_run

    folder = write_run(tmp_path, "run", [[Try()], [Try()]])
    record = json.loads((folder / "run.json").read_text())
    record["plan"]["steps"][1]["sources"] = record["steps"][1]["plan"]["sources"] = [1]
    record["steps"][0] |= {"attempts": [], "shown": None}
    (folder / "run.json").write_text(json.dumps(record))
    trajectory = read_trajectory(tmp_path, "run")
    assert isinstance(trajectory, Trajectory)
    with pytest.raises(RunError, match="step 2 starts from step 1, which has no image"):
        trajectory.sources_of(trajectory.record.steps[1])


DEPTH = 1200
"""More folders in each other than functions may call each other."""


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A run far down; made and removed step by step, because most of what works on whole paths would fail."""
    where = os.open(tmp_path, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=where)
        where = _moved(where, "d")
    os.close(os.open("journal.jsonl", os.O_CREAT | os.O_WRONLY, dir_fd=where))
    yield tmp_path
    os.unlink("journal.jsonl", dir_fd=where)
    for _ in range(DEPTH):
        where = _moved(where, "..")
        os.rmdir("d", dir_fd=where)
    os.close(where)


def _moved(where: int, name: str) -> int:
    try:
        return os.open(name, os.O_RDONLY, dir_fd=where)
    finally:
        os.close(where)


@pytest.mark.slow
def test_runs_are_found_however_deep_they_lie(deep: Path) -> None:
    assert run_names(deep) == ["/".join(["d"] * DEPTH)]
