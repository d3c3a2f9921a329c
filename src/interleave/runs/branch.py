"""A branch: a run folder that begins as a copy of another run and differs from a given step.

The parent run is not changed. Its images are hard-linked if the file system allows it, else copied. Its
journal is copied line by line, followed by a line that names the parent. Calls of the parent are counted in
the parent only.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from interleave.errors import RunError, StorageError
from interleave.files import make_folder, remove_temporaries_of, sync_folder, write_new
from interleave.redaction import redacted_model
from interleave.runs.decisions import DecidedRun, MadeDecision, new_step_lines, redraw_line, still_written
from interleave.runs.folder import IMAGES_FOLDER as IMAGES
from interleave.runs.folder import ImageStore, refuse_foreign_folder
from interleave.runs.journal import Branched, JournalReader, Line, Replied, is_being_written
from interleave.runs.journal_files import JOURNAL_NAME, DigestChain, has_journal
from interleave.runs.record import RunRecord, image_names, read_record


def branch_run(
    folder: str | Path,
    out: str | Path,
    step: int,
    *,
    prompt: str | None = None,
    seed: int | None = None,
    generator: str | None = None,
    by: str = "",
) -> RunRecord:
    """Copy a run into a new folder in which `step`, and the steps that follow from it, are to be redrawn.

    Nothing is drawn until the new run is continued. Returns its record.
    """
    branch = check_branch(folder, out, step, prompt=prompt, seed=seed, generator=generator, by=by)
    branch.write()
    return read_record(out)


@dataclass(frozen=True)
class CheckedBranch:
    """A branch that passed its checks and is not on disk yet."""

    parent: Path
    run: DecidedRun
    """The new run, in its own folder."""

    def write(self) -> None:
        """Write the folder of the new run."""
        out = self.run.folder
        try:
            make_folder(out)
            remove_temporaries_of(out)
            _copy_images(
                self.parent, out, [*image_names(self.run.record), *_document_images(self.run.entries)]
            )
            _write_journal(out, self.run.entries)
        except OSError as error:
            raise StorageError.at(out, error) from error


def check_branch(
    folder: str | Path,
    out: str | Path,
    step: int,
    *,
    prompt: str | None = None,
    seed: int | None = None,
    generator: str | None = None,
    by: str = "",
) -> CheckedBranch:
    """Check a branch as `branch_run` does, without writing anything."""

    def redraw(run: DecidedRun) -> tuple[int, list[MadeDecision]]:
        return step, [redraw_line(run, step, prompt=prompt, seed=seed, generator=generator, by=by)]

    return _checked(Path(folder), Path(out), redraw, by)


def check_new_step(
    folder: str | Path,
    out: str | Path,
    after: int,
    *,
    prompt: str,
    text: str = "",
    name: str = "",
    by: str = "",
) -> CheckedBranch:
    """Check a branch with one more step, shown after step `after`; 0 for before all. Nothing is written.

    It starts from the image of that step, or of the last one shown before it; no other step is redrawn.
    """
    return _checked(
        Path(folder),
        Path(out),
        lambda run: new_step_lines(run, after, prompt, text=text, name=name, by=by),
        by,
    )


def _checked(
    folder: Path, out: Path, lines_of: Callable[[DecidedRun], tuple[int, list[MadeDecision]]], by: str
) -> CheckedBranch:
    """Check a branch with the lines of `lines_of`, which also returns the step where it differs."""
    if is_being_written(folder):
        raise still_written(folder)
    reader = JournalReader(folder)
    run = DecidedRun.of(folder, reader.read_new())
    step, lines = lines_of(run)
    branched = Branched(parent=folder.absolute().name, parent_journal=reader.position, step=step, by=by)
    _refuse_target(out)
    if problem := next(filter(None, map(ImageStore(folder).problem_with, image_names(run.record))), None):
        raise problem
    return CheckedBranch(folder, DecidedRun.of(out, [*run.entries, branched, *lines]))


def _document_images(entries: Sequence[Line]) -> list[str]:
    """Return the images of a native system's document, of which some may not be shown yet."""
    replies = (entry for entry in entries if isinstance(entry, Replied))
    return [part.image for reply in replies for part in reply.document if part.image]


def _refuse_target(out: Path) -> None:
    """Refuse a folder that holds anything but images of an unfinished branch."""
    if has_journal(out):
        raise RunError(f"{out} already holds a run: choose another folder with out=")
    if out.is_dir() and all(name == IMAGES or _is_temporary(name) for name in os.listdir(out)):
        return
    refuse_foreign_folder(out)


def _is_temporary(name: str) -> bool:
    return name.startswith(f".{JOURNAL_NAME}.") and name.endswith(".tmp")


def _copy_images(folder: Path, out: Path, names: Sequence[str]) -> None:
    """Link or copy the images; stored images are never changed in place, so links are safe."""
    source, target = ImageStore(folder), ImageStore(out)
    make_folder(target.folder)
    for name in names:
        target.copy_original(name, source)
        if target.has(name):
            continue
        with suppress(FileNotFoundError):
            target.path(name).unlink()
        try:
            os.link(source.path(name), target.path(name))
        except OSError:  # another file system, or one without links
            shutil.copyfile(source.path(name), target.path(name))
            _sync_file(target.path(name))
    sync_folder(target.folder)


def _sync_file(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _write_journal(out: Path, lines: Sequence[Line]) -> None:
    """Write the whole journal atomically; raise if another process has written one meanwhile."""
    chain = DigestChain()
    data = b"".join(chain.seal(redacted_model(line).model_dump_json().encode()) + b"\n" for line in lines)
    temporary = out / f".{JOURNAL_NAME}.{secrets.token_hex(6)}.tmp"
    try:
        write_new(str(temporary), data)
        try:
            os.link(temporary, out / JOURNAL_NAME)
        except FileExistsError:
            raise RunError(f"{out} already holds a run: choose another folder with out=") from None
        except OSError:  # no links on this file system
            os.replace(temporary, out / JOURNAL_NAME)
    finally:
        with suppress(OSError):
            temporary.unlink()
    sync_folder(out)
