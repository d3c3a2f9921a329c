"""A name that was given in a folder is on disk only when the folder is synced: none is forgotten."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
from interleave.backends.fakes import ScriptedVlm
from interleave.config.run_config import PackConfig
from interleave.errors import StorageError
from interleave.files import make_folder, sync_folder
from interleave.images import encode_png
from interleave.runs.folder import open_journal
from interleave.train.data import outputs
from interleave.train.data.import_runs.records import ImportedAttempt, ImportedRun
from interleave.train.data.import_runs.run_folder import STAGING, write_run
from interleave.train.data.outputs import atomic_file, atomic_folder
from interleave.types import Plan, PlanStep

REQUEST = "A frog in one picture"


class Names:
    """Names that were given in folders and are not yet on disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pending: set[Path] = set()
        self.given = 0
        self._folders: dict[int, Path] = {}
        self._mkdir, self._open, self._fsync = os.mkdir, os.open, os.fsync
        self._sync_all, self._exchange = outputs.sync_file_system, outputs.exchange
        for name in ("mkdir", "open", "fsync"):
            monkeypatch.setattr(os, name, getattr(self, name))
        for name in ("rename", "replace"):
            monkeypatch.setattr(os, name, self._moving(getattr(os, name)))
        monkeypatch.setattr(outputs, "exchange", self.exchange)
        monkeypatch.setattr(outputs, "sync_file_system", self.sync_all)

    def give(self, path: Any) -> None:
        self.pending.add(Path(path).absolute())
        self.given += 1

    def mkdir(self, path: Any, *arguments: Any, **options: Any) -> None:
        self._mkdir(path, *arguments, **options)
        self.give(path)

    def open(self, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        is_new = "dir_fd" not in options and flags & os.O_CREAT and not os.path.lexists(path)
        handle = self._open(path, flags, *arguments, **options)
        if is_new and not str(path).endswith(".lock"):  # a lock is only for the living
            self.give(path)
        if flags & os.O_DIRECTORY:
            self._folders[handle] = Path(path).absolute()
        return handle

    def fsync(self, handle: int) -> None:
        self._fsync(handle)
        if folder := self._folders.get(handle):
            self.pending = {path for path in self.pending if path.parent != folder}

    def _moving(self, move: Any) -> Any:
        def moved(source: Any, target: Any, **options: Any) -> None:
            move(source, target, **options)
            self.pending.discard(Path(source).absolute())
            self.give(target)

        return moved

    def exchange(self, one: Path, other: Path) -> bool:
        done = self._exchange(one, other)
        if done:
            self.give(other)
        return done

    def sync_all(self, handle: int) -> None:
        self._sync_all(handle)
        self.pending.clear()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


def test_the_names_of_a_run_are_on_disk_before_its_first_call(
    names: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete, seen = ScriptedVlm.complete, []

    async def ask(self: Any, messages: Any, sampling: Any) -> Any:
        seen.append((names.given, set(names.pending)))
        return await complete(self, messages, sampling)

    monkeypatch.setattr(ScriptedVlm, "complete", ask)
    interleave.generate(REQUEST, out=tmp_path / "one" / "two" / "run")
    assert seen[0] == (4, set())  # three folders and the journal
    assert all(not pending for _, pending in seen)
    assert not names.pending
    assert names.given >= 8  # and the folder of images, an image, the record and the page


def test_the_names_of_a_batch_are_on_disk(names: Names, tmp_path: Path) -> None:
    interleave.generate_many([REQUEST, "A cat in one picture"], out=tmp_path / "deep" / "many")
    assert not names.pending
    assert names.given > 15


def test_the_names_of_an_output_are_on_disk(names: Names, tmp_path: Path) -> None:
    for content in ("old", "new"):
        with atomic_folder(tmp_path / "deep" / "er" / "rows", "made.json", replace=True) as folder:
            (folder / "made.json").write_text(content)
        assert not names.pending
    with atomic_file(tmp_path / "deep" / "est" / "rows.jsonl") as file:
        file.write(b"{}\n")
    assert not names.pending
    assert names.given >= 8


def test_the_names_of_an_imported_run_are_on_disk(names: Names, tmp_path: Path) -> None:
    (tmp_path / "drawn.png").write_bytes(encode_png(Image.new("RGB", (8, 8))))
    out = tmp_path / "imported"
    out.mkdir()
    names.pending.clear()
    plan = Plan(steps=(PlanStep(number=1, prompt="a frog"),))
    run = ImportedRun("x", ("A frog",), plan, (ImportedAttempt(1, "a frog", tmp_path / "drawn.png"),))
    write_run(run, out / "runs" / "ab" / "x", out, PackConfig(name="default", version="1", digest=""))
    aside = {path for path in names.pending if STAGING in path.parts}  # made aside, and moved when complete
    assert names.pending <= {out / STAGING} | aside
    assert (out / "runs" / "ab" / "x" / "journal.jsonl").exists()


def test_the_name_of_a_file_of_scores_is_on_disk(names: Names, tmp_path: Path) -> None:
    open_journal(tmp_path / "made" / "scores", "scripted.jsonl").close()
    assert not names.pending
    assert names.given == 3


def test_a_folder_that_cannot_be_synced_because_nobody_may_read_it_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in ((errno.EACCES, "open"), (errno.EINVAL, "fsync")):
        with monkeypatch.context() as patched:

            def fails(*_: Any, number: int = number) -> int:
                raise OSError(number, os.strerror(number))

            patched.setattr(os, name, fails)
            sync_folder(tmp_path)


def test_a_folder_whose_sync_fails_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(StorageError, match="Input/output error"):
        make_folder(tmp_path / "new")


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "file" / "below")
