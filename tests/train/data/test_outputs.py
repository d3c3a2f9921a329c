"""Outputs that are replaced: whatever fails and wherever the process dies, a complete one is never lost."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interleave.errors import RunError, StorageError
from interleave.train.data import outputs
from interleave.train.data.outputs import atomic_file, atomic_folder, exchange

sys.path.insert(0, str(Path(__file__).parents[2] / "runs"))
from crashing import KILLED, CrashServer

MARKER = "made.json"
MOST = 100


def make(out: Path, content: str, *, replace: bool = True) -> None:
    """An output of two files, one of them in a folder of its own."""
    with atomic_folder(out, MARKER, replace=replace) as folder:
        (folder / "rows").mkdir()
        (folder / "rows" / "train.jsonl").write_text(content)
        (folder / MARKER).write_text(content)


def content(out: Path) -> str | None:
    """What a complete output holds; None where there is none, and a failure where it is not complete."""
    if not out.exists():
        return None
    told = (out / MARKER).read_text()
    assert (out / "rows" / "train.jsonl").read_text() == told
    return told


def beside(out: Path) -> set[str]:
    return {path.name for path in out.parent.iterdir()} - {out.name}


class Fault:
    """Makes the n-th call of several functions fail, counted together; and unless once, all after it."""

    def __init__(self, at: int, *, once: bool) -> None:
        self.at, self.once, self.calls = at, once, 0

    def on(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self.at or (self.calls > self.at and not self.once):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return function(*arguments, **options)

        return call


@pytest.fixture(params=["in one step", "in two"])
def swapping(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of putting an output in its place: the second is that of systems without the first."""
    if request.param == "in two":
        monkeypatch.setattr(outputs, "exchange", lambda one, other: False)
    return str(request.param)


@pytest.mark.parametrize("once", [True, False], ids=["once", "from then on"])
def test_whatever_rename_or_sync_fails_a_complete_output_is_kept(
    swapping: str, once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = 0
    for at in range(1, MOST):
        out = tmp_path / f"at-{at}" / "rows"
        make(out, "old")
        fault = Fault(at, once=once)
        with monkeypatch.context() as patched:
            for name in ("rename", "replace", "fsync"):
                patched.setattr(os, name, fault.on(getattr(os, name)))
            for name in ("exchange", "sync_file_system"):
                patched.setattr(outputs, name, fault.on(getattr(outputs, name)))
            try:
                make(out, "new")
            except StorageError as error:
                assert "Input/output error" in str(error)
                failures += 1
        if fault.calls < at:
            assert content(out) == "new"
            break
        if content(out) is None:  # the disk failed again when it was to be moved back
            assert not once
            assert (out.parent / ".rows.old" / MARKER).read_text() == "old"
        with pytest.raises(RunError, match="already exists"):
            make(out, "another", replace=False)
        assert content(out) in ("old", "new")
        make(out, "newest")
        assert content(out) == "newest"
        assert not beside(out)
    assert failures >= 3


def test_a_failed_rename_says_where_the_finished_output_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "rows", "old")
    with monkeypatch.context() as patched:
        patched.setattr(outputs, "exchange", lambda one, other: False)
        patched.setattr(os, "rename", Fault(2, once=False).on(os.rename))
        with pytest.raises(StorageError, match=r"its previous content is in .*\.rows\.old"):
            make(tmp_path / "rows", "new")


def test_what_was_set_aside_is_moved_back_and_never_deleted(tmp_path: Path) -> None:
    make(tmp_path / "rows", "old")
    (tmp_path / "rows").rename(tmp_path / ".rows.old")  # as a kill between two renames leaves it
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "rows", MARKER, replace=True):
        assert content(tmp_path / "rows") == "old"
        raise ZeroDivisionError
    assert content(tmp_path / "rows") == "old"
    assert not beside(tmp_path / "rows")


def test_what_was_set_aside_goes_where_another_kind_of_output_is_asked_for(tmp_path: Path) -> None:
    make(tmp_path / "rows", "old")
    (tmp_path / "rows").rename(tmp_path / ".rows.old")
    with pytest.raises(RunError, match="has other files"), atomic_folder(tmp_path / "rows", "other.json"):
        pass
    assert content(tmp_path / "rows") == "old"


def test_an_interrupt_right_after_the_swap_leaves_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "rows", "old")

    def interrupted(one: Path, other: Path) -> bool:
        if not exchange(one, other):
            pytest.skip("does not apply: this file system does not exchange names")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(outputs, "exchange", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path / "rows", "new")
    assert content(tmp_path / "rows") == "new"
    assert content(tmp_path / ".rows.making") == "old"  # deleted only when the new names are on disk


def test_a_link_to_a_folder_on_another_disk_stays_one(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    make(tmp_path / "disk" / "rows", "old")
    (tmp_path / "rows").symlink_to("disk/rows")
    make(tmp_path / "rows", "new")
    assert (tmp_path / "rows").is_symlink()
    assert content(tmp_path / "disk" / "rows") == "new"
    assert not beside(tmp_path / "disk" / "rows")


def test_a_disk_that_could_not_write_something_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are written in the background; that one of them failed is known only by asking."""
    make(tmp_path / "rows", "old")
    with monkeypatch.context() as patched:
        patched.setattr(outputs, "sync_file_system", Fault(1, once=True).on(outputs.sync_file_system))
        with pytest.raises(StorageError, match="no partial output is left"):
            make(tmp_path / "rows", "new")
    assert content(tmp_path / "rows") == "old"
    assert not beside(tmp_path / "rows")


def test_a_file_whose_rename_fails_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_text("old")
    monkeypatch.setattr(os, "replace", Fault(1, once=True).on(os.replace))
    with pytest.raises(StorageError), atomic_file(tmp_path / "rows.jsonl", replace=True) as file:
        file.write(b"new")
    assert (tmp_path / "rows.jsonl").read_text() == "old"
    assert not beside(tmp_path / "rows.jsonl")


@pytest.fixture(scope="module")
def server() -> Iterator[CrashServer]:
    running = CrashServer()
    yield running
    running.close()


@pytest.mark.slow
@pytest.mark.parametrize("in_one_step", [True, False], ids=["in one step", "in two"])
def test_A01_killed_at_every_touch_of_the_disk_an_output_is_not_lost(
    in_one_step: bool, server: CrashServer, tmp_path: Path
) -> None:
    kills = 0
    for at in range(1, MOST):
        out = tmp_path / f"at-{at}" / "rows"
        make(out, "old")
        order = {"ledger": out.parent / "ledger", "output": str(out), "exchange": in_one_step}
        status = server.run(**order, kill_at=at)
        (out.parent / "ledger").unlink()
        if status == 0:
            assert content(out) == "new"
            break
        assert status == KILLED
        kills += 1
        if in_one_step:  # at no moment is there none
            assert content(out) in ("old", "new")
        with pytest.raises(RunError, match="already exists"):
            make(out, "another", replace=False)
        assert content(out) in ("old", "new")
        make(out, "newest")
        assert content(out) == "newest"
        assert not beside(out)
    assert kills > 10
