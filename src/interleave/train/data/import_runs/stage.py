"""`data import`: imports everything below a folder of the reference, one run folder per record.

An unusable record is reported with the reason. An unusual one is imported and reported too. Nothing is
skipped silently. The same command continues a killed import: existing runs are not written again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from interleave import InputError, InterleaveError, StorageError
from interleave.plugin import config, files, first_problem, load_pack, runs, text, write_atomic
from interleave.train.data.import_runs.records import (
    Answer,
    ImportedRun,
    find_image,
    is_result_list,
    read_answer,
    read_json,
    read_record,
    run_from_answer,
)
from interleave.train.data.import_runs.run_folder import STAGING, refuse_unusable, write_run
from interleave.train.data.manifest import Manifest, file_digest, write_manifest
from interleave.train.data.parallel_map import Progress

log = logging.getLogger(__name__)

RECORD = "execution_record.json"
REPORT = "import.jsonl"
MANIFEST = "import.manifest.json"
RUNS = "runs"


@dataclass(frozen=True)
class ImportResult:
    """The result of importing one record."""

    source: str
    run: str | None = None
    """Run folder relative to the collection; None if the record could not be imported."""
    problem: str | None = None
    warnings: tuple[str, ...] = ()

    def line(self) -> bytes:
        row = {
            "source": self.source,
            "run": self.run,
            "problem": self.problem,
            "warnings": list(self.warnings),
        }
        return json.dumps(text.storable_in(row), ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True)
class _RunSource:
    source: str
    read: Callable[[], ImportedRun]


@dataclass(frozen=True)
class _AnswerSource:
    """An answer, its result file, and its position there."""

    answer: Answer
    file: Path
    source: str


def import_all(
    src: Path, out: Path, *, pack: str = "default", progress: Progress = lambda done, total: None
) -> list[ImportResult]:
    """Import every record below the folder `src`, or the file `src`, into the collection `out`."""
    root = src if src.is_dir() else src.parent
    if not src.exists():
        raise InputError(f"{src} does not exist")
    if root.resolve().is_relative_to(out.resolve()):
        raise InputError(f"{out} contains the files to import: choose another folder with --out")
    sources, problems = _find(src, root, out)
    if not sources and not problems:
        raise InputError(f"{src} contains neither an {RECORD} nor a result list of the reference")
    runs.refuse_foreign_folder(out, marker=REPORT if (out / REPORT).exists() else RUNS)
    pack_config = load_pack(pack).identity
    results = list(problems)
    for done, each in enumerate(sources, start=1):
        results.append(_import_one(each, out, pack_config))
        progress(done, len(sources))
    _finish(results, out, pack)
    return results


def _import_one(source: _RunSource, out: Path, pack_config: config.PackConfig) -> ImportResult:
    name = f"{RUNS}/{hashlib.sha256(source.source.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"
    try:
        run = source.read()
        if not (out / name).exists():
            refuse_unusable(run)
            write_run(run, out / name, out, pack_config)
    except StorageError:
        raise  # a full disk does not depend on the record
    except InterleaveError as error:
        return ImportResult(source.source, problem=str(error))
    except ValidationError as error:  # a plan or verdict that our own types refuse
        return ImportResult(source.source, problem=first_problem(error))
    except Exception as error:  # a bug in one record must not end the others
        log.exception("importing %s failed in an unexpected way", text.visible(source.source))
        return ImportResult(source.source, problem=f"{type(error).__name__}: {error}")
    return ImportResult(source.source, run=name, warnings=run.warnings)


def _finish(results: list[ImportResult], out: Path, pack: str) -> None:
    shutil.rmtree(out / STAGING, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    ordered = sorted(results, key=lambda each: each.source)
    report = b"".join(each.line() for each in ordered)
    write_atomic(out / REPORT, report)
    manifest = Manifest(
        stage="import",
        options={"prompts": pack},
        inputs={REPORT: file_digest(out / REPORT)},
        counts={
            "records": len(results),
            "imported": sum(each.run is not None for each in results),
            "imported with warnings": sum(bool(each.warnings) for each in results),
            "not imported": sum(each.problem is not None for each in results),
        },
    )
    write_manifest(out / MANIFEST, manifest)


def _find(src: Path, root: Path, out: Path) -> tuple[list[_RunSource], list[ImportResult]]:
    """Return records and result items in a fixed order, and unreadable files; skips our own output."""
    problems: list[ImportResult] = []
    files = [src] if src.is_file() else list(_files_below(src, root, out, problems))
    records = {path for path in files if path.name == RECORD or (src.is_file() and not _holds_list(path))}
    answers: dict[str, _AnswerSource] = {}
    for path in (path for path in files if path not in records):
        try:
            value = read_json(path)
        except InputError as error:
            problems.append(ImportResult(_name(path, root), problem=str(error)))
            continue
        if is_result_list(value):
            _add_answers(value, path, root, answers, problems)
    by_folder = _by_folder(answers.values(), root)
    sources: list[_RunSource] = []
    used: set[str] = set()
    for path in sorted(records):
        given = answers.get(path.parent.name) or by_folder.get(path.parent.resolve())
        used |= {given.answer.id} if given else set()
        sources.append(_record_source(path, root, given.answer if given else None))
    sources += [_answer_source(each, root) for identity, each in answers.items() if identity not in used]
    return sources, problems


def _files_below(src: Path, root: Path, out: Path, problems: list[ImportResult]) -> Iterator[Path]:
    """Yield the JSON files below a folder, sorted; a link that leads out of it is reported, not followed."""
    root_path, output = root.resolve(), out.resolve()
    for path in sorted(_candidates(src)):
        try:
            place, mode = path.resolve(), path.stat().st_mode
        except (OSError, RuntimeError) as error:  # a broken link, or a loop
            problems.append(
                ImportResult(_name(path, root), problem=f"it cannot be read ({files.why(error)})")
            )
            continue
        if place.is_relative_to(output):
            continue
        if not place.is_relative_to(root_path):
            problems.append(ImportResult(_name(path, root), problem=f"it is a link that leads out of {root}"))
        elif stat.S_ISREG(mode):
            yield path
        elif not stat.S_ISDIR(mode):
            problems.append(ImportResult(_name(path, root), problem="it is not a regular file"))


def _candidates(src: Path) -> Iterator[Path]:
    """Yield the `*.json` files below a folder, and links to folders, which are not followed."""
    for folder, folders, names in os.walk(src):
        for name in folders:
            if (path := Path(folder, name)).is_symlink():
                yield path
        for name in names:
            if name.endswith(".json"):
                yield Path(folder, name)


def _holds_list(path: Path) -> bool:
    try:
        return isinstance(read_json(path), list)
    except InputError:
        return False


def _add_answers(
    items: list[Any], path: Path, root: Path, answers: dict[str, _AnswerSource], problems: list[ImportResult]
) -> None:
    for place, item in enumerate(items, start=1):
        source = f"{_name(path, root)}#{place}"
        try:
            answer = read_answer(item)
            earlier = answers.setdefault(answer.id, _AnswerSource(answer, path, source))
            if earlier.answer != answer:
                raise InputError(f"the id {answer.id[:80]!r} is already another answer's, {earlier.source}")
        except InputError as error:
            problems.append(ImportResult(source, problem=str(error)))


def _by_folder(answers: Iterable[_AnswerSource], root: Path) -> dict[Path, _AnswerSource]:
    """Map the folder of each answer's first image to the answer: a record in that folder belongs to it."""
    folders: dict[Path, _AnswerSource] = {}
    for each in answers:
        with suppress(InputError, IndexError):
            image = find_image(each.answer.images[0], each.file.parent, root)
            folders.setdefault(image.parent.resolve(), each)
    return folders


def _record_source(path: Path, root: Path, answer: Answer | None) -> _RunSource:
    source = _name(path, root)
    request_text, text = (answer.request_text, answer.text) if answer else (None, None)
    return _RunSource(
        source, lambda: read_record(path, root, source=source, request_text=request_text, text=text)
    )


def _answer_source(given: _AnswerSource, root: Path) -> _RunSource:
    def read() -> ImportedRun:
        time = round(given.file.stat().st_mtime, 3)
        return run_from_answer(given.answer, given.file.parent, root, source=given.source, time=time)

    return _RunSource(given.source, read)


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def read_results(out: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of an import's report, one per record."""
    for line in (out / REPORT).read_bytes().splitlines():
        yield json.loads(line)
