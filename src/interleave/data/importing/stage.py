"""`data import`: everything below a folder that the reference left, one run folder for each record.

A record that cannot be used is named with the reason, one that is odd is imported and named too; nothing is
left out in silence. Kill it anywhere and run the same command again: runs that are there are not made again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from interleave.agents.prompts.library import load_pack
from interleave.data.importing.folders import MAKING, refuse_unusable, write_run
from interleave.data.importing.pictures import find_picture
from interleave.data.importing.records import read_json, read_record
from interleave.data.importing.results import Answer, is_result_list, read_answer, run_of
from interleave.data.importing.values import ImportedRun
from interleave.data.manifest import Manifest, file_digest, write_manifest
from interleave.errors import InputError, InterleaveError, StorageError
from interleave.runs.config import PackConfig
from interleave.runs.folder import refuse_foreign_folder
from interleave.runs.store import write_whole

RECORD = "execution_record.json"
REPORT = "import.jsonl"
MANIFEST = "import.manifest.json"
RUNS = "runs"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """What became of one record."""

    source: str
    run: str | None = None
    """The run folder, relative to the collection; None where nothing could be made of it."""
    problem: str | None = None
    warnings: tuple[str, ...] = ()

    def line(self) -> bytes:
        row = {
            "source": self.source,
            "run": self.run,
            "problem": self.problem,
            "warnings": list(self.warnings),
        }
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True)
class _Found:
    source: str
    read: Callable[[], ImportedRun]


def import_all(
    src: Path, out: Path, *, pack: str = "default", progress: Progress = lambda done, total: None
) -> list[Outcome]:
    """Import every record below `src` (or the one file it is) into the collection `out`."""
    root = src if src.is_dir() else src.parent
    if not src.exists():
        raise InputError(f"{src} does not exist")
    if root.resolve().is_relative_to(out.resolve()):
        raise InputError(f"{out} holds what is to be imported: choose another folder with --out")
    found, problems = _find(src, root, out)
    if not found and not problems:
        raise InputError(f"{src} holds neither an {RECORD} nor a result list of the reference")
    refuse_foreign_folder(out, marker=REPORT if (out / REPORT).exists() else RUNS)
    chosen = load_pack(pack)
    words = PackConfig(name=chosen.name, version=chosen.description.version, digest=chosen.digest)
    outcomes = list(problems)
    for done, each in enumerate(found, start=1):
        outcomes.append(_import_one(each, out, words))
        progress(done, len(found))
    _finish(outcomes, src, out, pack)
    return outcomes


def _import_one(found: _Found, out: Path, words: PackConfig) -> Outcome:
    name = f"{RUNS}/{hashlib.sha256(found.source.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"
    try:
        run = found.read()
        if not (out / name).exists():
            refuse_unusable(run)
            write_run(run, out / name, out, words)
    except StorageError:
        raise  # a full disk is no fault of the record
    except InterleaveError as error:
        return Outcome(found.source, problem=str(error))
    except ValidationError as error:  # a plan or verdict that our own values refuse
        first = error.errors()[0]
        return Outcome(found.source, problem=f"{first['loc'][-1] if first['loc'] else ''}: {first['msg']}")
    return Outcome(found.source, run=name, warnings=run.warnings)


def _finish(outcomes: list[Outcome], src: Path, out: Path, pack: str) -> None:
    shutil.rmtree(out / MAKING, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    ordered = sorted(outcomes, key=lambda each: each.source)
    report = b"".join(each.line() for each in ordered)
    write_whole(out / REPORT, report)
    manifest = Manifest(
        stage="import",
        options={"prompts": pack},
        inputs={REPORT: file_digest(out / REPORT)},
        counts={
            "records": len(outcomes),
            "imported": sum(each.run is not None for each in outcomes),
            "imported with warnings": sum(bool(each.warnings) for each in outcomes),
            "not imported": sum(each.problem is not None for each in outcomes),
        },
    )
    write_manifest(out / MANIFEST, manifest)


def _find(src: Path, root: Path, out: Path) -> tuple[list[_Found], list[Outcome]]:
    """Records and result items in a fixed order, and files that cannot be read; never our own output."""
    files = [src] if src.is_file() else sorted(path for path in src.rglob("*.json") if path.is_file())
    files = [path for path in files if not path.resolve().is_relative_to(out.resolve())]
    records = [path for path in files if path.name == RECORD or (src.is_file() and not _list_in(path))]
    found: list[_Found] = []
    problems: list[Outcome] = []
    answers: dict[str, tuple[Answer, Path, str]] = {}
    for path in (path for path in files if path not in records):
        try:
            value = read_json(path)
        except InputError as error:
            problems.append(Outcome(_name(path, root), problem=str(error)))
            continue
        if is_result_list(value):
            _take_answers(value, path, root, answers, problems)
    used: set[str] = set()
    for path in records:
        answer = _answer_for(path, root, answers)
        used |= {answer.id} if answer else set()
        found.append(_record(path, root, answer))
    found += [
        _result(answer, path, root, source)
        for identity, (answer, path, source) in answers.items()
        if identity not in used
    ]
    return found, problems


def _list_in(path: Path) -> bool:
    try:
        return isinstance(read_json(path), list)
    except InputError:
        return False


def _take_answers(
    items: list[Any],
    path: Path,
    root: Path,
    answers: dict[str, tuple[Answer, Path, str]],
    problems: list[Outcome],
) -> None:
    for place, item in enumerate(items, start=1):
        source = f"{_name(path, root)}#{place}"
        try:
            answer = read_answer(item)
            if (before := answers.get(answer.id)) is None:
                answers[answer.id] = (answer, path, source)
            elif before[0] != answer:
                raise InputError(f"the id {answer.id[:80]!r} stands for another answer in {before[2]}")
        except InputError as error:
            problems.append(Outcome(source, problem=str(error)))


def _answer_for(path: Path, root: Path, answers: dict[str, tuple[Answer, Path, str]]) -> Answer | None:
    """The answer of the benchmark that a record belongs to: the one with its folder's name as id."""
    if path.parent.name in answers:
        return answers[path.parent.name][0]
    for answer, file, _ in answers.values():
        for name in answer.pictures[:1]:
            try:
                if find_picture(name, file.parent, root).parent.resolve() == path.parent.resolve():
                    return answer
            except InputError:
                continue
    return None


def _record(path: Path, root: Path, answer: Answer | None) -> _Found:
    source = _name(path, root)
    asked, text = (answer.asked, answer.text) if answer else (None, None)
    return _Found(source, lambda: read_record(path, root, source=source, asked=asked, text=text))


def _result(answer: Answer, path: Path, root: Path, source: str) -> _Found:
    time = round(path.stat().st_mtime, 3)
    return _Found(source, lambda: run_of(answer, path.parent, root, source=source, time=time))


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def outcomes_in(out: Path) -> Iterator[dict[str, Any]]:
    """What an import said about every record."""
    for line in (out / REPORT).read_bytes().splitlines():
        yield json.loads(line)
