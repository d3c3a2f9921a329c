"""A disk that fails: at the n-th write, sync, rename or open, for every n. Nothing kept is ever lost."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import interleave
from held import held_after, release, wait_until_held
from interleave.backends.fakes import ScriptedVlm, SolidGenerator
from interleave.cli.main import run
from interleave.errors import ConfigurationError, RunError, StorageError
from interleave.runs.journal import Drawn, Replied, is_being_written, read_journal
from sampling import one_in
from work import HANGS_AFTER

REQUEST = "A frog in two pictures"
MOST = 200


class Fault:
    """Makes the n-th call of a function fail; and unless once, every one after it, as a full disk does."""

    def __init__(self, function: Callable[..., Any], at: int, number: int, *, once: bool = False) -> None:
        self.function = function
        self.at = at
        self.number = number
        self.once = once
        self.calls = 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == self.at or (self.calls > self.at and not self.once):
            raise OSError(self.number, os.strerror(self.number))
        return self.function(*arguments, **options)


FAULTS = {
    "B01 write": (os, "write", errno.ENOSPC),
    "B04 sync of the journal": (os, "fdatasync", errno.EIO),
    "B04 sync of a file": (os, "fsync", errno.EIO),
    "B05 rename": (os, "replace", errno.EXDEV),
    "B18 open": (os, "open", errno.EMFILE),
}


def results(folder: Path) -> list[tuple[str, int]]:
    if not (folder / "journal.jsonl").exists():
        return []
    return [(e.role, e.call) for e in read_journal(folder) if isinstance(e, Replied | Drawn)]


@pytest.mark.parametrize("once", one_in(2, [False, True]), ids=["from then on", "once"])
@pytest.mark.parametrize("fault", FAULTS)
def test_B01_B04_B05_the_nth_failure_is_said_and_the_run_goes_on_later(
    fault: str, once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"generator": "solid?size=64"}
    interleave.generate(REQUEST, out=tmp_path / "whole", **small)
    whole = interleave.comparable(tmp_path / "whole")
    module, name, number = FAULTS[fault]
    original = getattr(module, name)
    failures = 0
    for at in range(1, MOST):
        folder = tmp_path / f"at-{at}"
        failing = Fault(original, at, number, once=once)
        with monkeypatch.context() as patched:
            patched.setattr(module, name, failing)
            try:
                status = interleave.generate(REQUEST, out=folder, **small).status
            except (RunError, ConfigurationError) as error:  # of the folder, or of the profile
                assert os.strerror(number) in str(error)
                status = "refused"
        if failing.calls < at:
            break  # it ended before the n-th call: every one has had its turn
        failures += 1
        kept = results(folder)
        assert interleave.generate(REQUEST, out=folder, **small).status == "done"
        assert interleave.comparable(folder) == whole
        assert results(folder)[: len(kept)] == kept
        assert len(results(folder)) == 7  # no result is there twice
        assert status != "done" or name in ("open", "fsync", "replace")
        assert not list(folder.rglob(".*.tmp"))
    assert failures >= 3


def test_B01_a_full_disk_ends_with_3_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", Fault(os.write, 9, errno.ENOSPC))
        assert run(["generate", REQUEST, "--out", "run"]) == 3
    err = capsys.readouterr().err
    assert "No space left on device" in err
    assert "interleave resume run" in err
    assert run(["resume", "run"]) == 0


def test_B01_what_is_on_disk_is_shown_when_the_disk_is_full(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", Fault(os.write, 12, errno.ENOSPC))
        assert run(["generate", REQUEST, "--out", "run", "--json"]) == 3
    result = json.loads(capsys.readouterr().out)
    assert result["status"] == "failed"
    drawn = sum(isinstance(entry, Drawn) for entry in read_journal(Path("run")))
    assert sum(step["attempts"] for step in result["steps"]) == drawn >= 1


def test_the_folder_is_held_until_its_pages_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []

    def look(folder: Path, record: Any) -> None:
        held.append(is_being_written(folder))

    monkeypatch.setattr("interleave.api.write_document", look)
    interleave.generate(REQUEST, out=tmp_path / "run")
    assert held == [True]
    assert not is_being_written(tmp_path / "run")


def test_B04_after_a_failed_sync_nothing_more_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    sync = os.fdatasync

    def fails_once(file: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise OSError(errno.EIO, "Input/output error")
        sync(file)

    monkeypatch.setattr(os, "fdatasync", fails_once)
    with pytest.raises(StorageError):
        interleave.generate(REQUEST, out=tmp_path / "run")
    assert read_journal(tmp_path / "run")[-1].event != "ended"


def test_B06_a_folder_that_cannot_be_written_is_refused_before_the_first_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(RunError, match="Read-only file system"):
        interleave.generate(REQUEST, out="run")


def test_B14_a_file_system_without_locks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(RunError, match="does not support locks"):
        interleave.generate(REQUEST, out="run")


def test_B20_a_planted_symlink_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "journal.jsonl").symlink_to(target)
    with pytest.raises(RunError):
        interleave.generate(REQUEST, out=tmp_path / "run")
    assert target.read_text() == "mine"


def test_B06_a_folder_removed_under_way_ends_the_run_with_an_error(tmp_path: Path) -> None:
    import asyncio
    import shutil

    async def vanish() -> object:
        async for event in interleave.stream(REQUEST, out=tmp_path / "run"):
            if isinstance(event, interleave.Drawn):
                shutil.rmtree(tmp_path / "run")
        return event

    ended = asyncio.run(vanish())
    assert isinstance(ended, interleave.RunResult)
    assert ended.status == "failed"
    assert isinstance(ended.error, StorageError)


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_B06_a_journal_that_is_taken_away_under_way_ends_the_run_with_an_error(
    how: str, tmp_path: Path
) -> None:
    import asyncio

    async def lose() -> object:
        async for event in interleave.stream(REQUEST, out=tmp_path / "run"):
            if isinstance(event, interleave.Drawn):
                journal = tmp_path / "run" / "journal.jsonl"
                copy = journal.read_bytes()
                journal.unlink()
                if how == "replaced":  # as programs do that keep folders alike
                    journal.write_bytes(copy)
        return event

    ended = asyncio.run(lose())
    assert isinstance(ended, interleave.RunResult)
    assert isinstance(ended.error, StorageError)
    assert "removed or replaced" in str(ended.error)
    assert ended.status == "failed"


def test_B06_a_folder_that_cannot_be_read_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> list[str]:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "listdir", fails)
    with pytest.raises(RunError, match=r"cannot be read \(Permission denied\)"):
        interleave.generate(REQUEST, out=tmp_path)


def test_what_a_dead_process_left_of_a_batch_is_swept(tmp_path: Path) -> None:
    interleave.generate_many([REQUEST], out=tmp_path)
    (tmp_path / ".batch.json.0123456789ab.tmp").write_text("{")
    (tmp_path / ".index.html.0123456789ab.tmp").write_text("another process may be at it")
    interleave.generate_many([REQUEST], out=tmp_path)
    assert [path.name for path in tmp_path.glob(".*.tmp")] == [".index.html.0123456789ab.tmp"]


def test_what_a_dead_process_left_and_nobody_can_remove_is_in_nobodys_way(tmp_path: Path) -> None:
    folder = interleave.generate(REQUEST, out=tmp_path / "run", max_calls=3).folder
    (folder / "images" / ".left.0123.tmp").mkdir()
    assert interleave.generate(REQUEST, out=folder).status == "done"


@pytest.mark.parametrize("jump", [-1e9, 3600.0, -3600.0, 1e10], ids=["1970", "+1h", "-1h", "far"])
def test_J03_a_clock_that_jumps_changes_nothing(
    jump: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interleave.generate(REQUEST, out=tmp_path / "whole")
    clock, calls = time.time, 0

    def jumping() -> float:
        nonlocal calls
        calls += 1
        return clock() + (jump if calls % 2 else 0)

    monkeypatch.setattr(time, "time", jumping)
    record = interleave.generate(REQUEST, out=tmp_path / "run").record
    assert interleave.comparable(tmp_path / "run") == interleave.comparable(tmp_path / "whole")
    assert 0 <= record.seconds < 600


def test_A15_a_journal_of_a_newer_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    folder = interleave.generate(REQUEST, out=tmp_path / "run").folder
    journal = folder / "journal.jsonl"
    newer = journal.read_text().replace('"version":1', '"version":2', 1)
    journal.write_text(newer)
    with pytest.raises(RunError, match="format version 2"):
        interleave.generate(REQUEST, out=folder)
    assert journal.read_text() == newer


def test_B08_a_torn_last_line_is_dropped_with_a_notice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    interleave.generate(REQUEST, out=tmp_path / "run", max_calls=4)
    journal = tmp_path / "run" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-5])
    assert interleave.generate(REQUEST, out=tmp_path / "run").status == "done"
    assert "dropped an unfinished last line" in caplog.text


def test_B11_missing_and_altered_images_are_redrawn_only_if_the_user_says_so(tmp_path: Path) -> None:
    whole = interleave.comparable(interleave.generate(REQUEST, out=tmp_path / "whole").folder)
    folder = interleave.generate(REQUEST, out=tmp_path / "run").folder
    first, second, *_ = sorted((folder / "images").iterdir())
    first.unlink()
    second.write_bytes(b"not an image")
    with pytest.raises(RunError, match="redraw=True"):
        interleave.generate(REQUEST, out=folder)
    run_again = interleave.generate(REQUEST, out=folder, redraw=True)
    assert run_again.status == "done"
    assert interleave.comparable(folder) == whole
    assert run_again.record.calls.repeated == 2
    assert run_again.record.calls.critic == 3  # the images came out the same, so nobody judged them again


def test_every_result_is_on_disk_before_the_next_call_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    def noted(name: str, what: str) -> None:
        function = getattr(os, name)

        def note(*arguments: Any, **options: Any) -> Any:
            result = function(*arguments, **options)
            happened.append(what)
            return result

        monkeypatch.setattr(os, name, note)

    noted("fsync", "file or folder synced")
    noted("replace", "file named")
    noted("fdatasync", "journal synced")
    generate, complete = SolidGenerator.generate, ScriptedVlm.complete

    async def draw(self: Any, request: Any) -> Any:
        happened.append("draw")
        return await generate(self, request)

    async def ask(self: Any, messages: Any, sampling: Any) -> Any:
        happened.append("ask")
        return await complete(self, messages, sampling)

    monkeypatch.setattr(SolidGenerator, "generate", draw)
    monkeypatch.setattr(ScriptedVlm, "complete", ask)
    interleave.generate(REQUEST, out=tmp_path / "run")

    calls = [place for place, what in enumerate(happened) if what in ("draw", "ask")]
    assert len(calls) == 7
    for call, following in zip(calls, [*calls[1:], len(happened)], strict=True):
        after = happened[call + 1 : following]
        assert "journal synced" in after
        if happened[call] == "draw":  # the image's bytes, then its name, then the line that speaks of it
            steps = ["file or folder synced", "file named", "file or folder synced", "journal synced"]
            places = iter(after)
            assert all(step in places for step in steps)


def test_B16_a_second_process_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    arguments = ["generate", REQUEST, "--out", "run", "--generator", "solid?size=64"]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    first = subprocess.Popen(held_after(0, *arguments), **pipes)
    wait_until_held()
    follower = subprocess.Popen([sys.executable, "-m", "interleave", "show", "run", "--follow"], **pipes)
    assert run(arguments) == 2
    assert run(["show", "run", "--json"]) == 0
    release()
    first.communicate(timeout=HANGS_AFTER)
    assert first.returncode == 0
    out, err = follower.communicate(timeout=HANGS_AFTER)
    assert out.decode().strip() == "run/document.html"
    assert b"step 2, attempt 2: accepted" in err
    assert err.rstrip().endswith(b"done")


@pytest.mark.slow
def test_A08_a_stopped_process_keeps_its_folder_and_ends_right_when_it_goes_on(tmp_path: Path) -> None:
    arguments = ["generate", REQUEST, "--out", "run", "--generator", "solid?size=64"]
    process = subprocess.Popen(held_after(1, *arguments), stderr=subprocess.DEVNULL)
    wait_until_held()
    process.send_signal(signal.SIGSTOP)
    assert run(arguments) == 2
    release()
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=HANGS_AFTER) == 0
    interleave.generate(REQUEST, out="whole", generator="solid?size=64")
    assert interleave.comparable(Path("run")) == interleave.comparable(Path("whole"))


@pytest.mark.parametrize("left", [b"", b'{"status": "do'], ids=["empty", "half"])
def test_B10_a_torn_record_is_not_believed(left: bytes, tmp_path: Path) -> None:
    folder = interleave.generate(REQUEST, out=tmp_path / "run", max_calls=3).folder
    (folder / "run.json").write_bytes(left)
    assert interleave.generate(REQUEST, out=folder).status == "done"
    assert b'"status": "done"' in (folder / "run.json").read_bytes()


def test_B19_no_name_on_disk_is_ever_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = interleave.generate("青蛙怎样长大" * 500 + " frog" * 500 + ", in 1 step").folder
    assert max(len(path.name.encode()) for path in [folder, *folder.rglob("*")]) < 100


def test_a_run_whose_process_died_is_shown_as_interrupted(tmp_path: Path) -> None:
    folder = interleave.generate(REQUEST, out=tmp_path / "run", max_calls=3).folder
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))  # as if killed before it could say how it ended
    assert interleave.read_record(folder).status == "interrupted"
