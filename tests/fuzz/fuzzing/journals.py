"""What a run and a batch leave on disk, read again after damage."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from fuzzing import REFUSED, attempt, scratch, target
from interleave.api import generate, generate_many
from interleave.batches.assignment import Assignment, assignment_differences
from interleave.batches.batch import CONFIG_NAME, Ended, read_assignment, read_index
from interleave.batches.status import read_batch_status
from interleave.errors import RunError
from interleave.render.html import render_document
from interleave.render.markdown import render_markdown
from interleave.request_files import read_words_file
from interleave.runs.decisions import DecidedRun
from interleave.runs.event_lines import summarize
from interleave.runs.folder import ImageStore, comparable, open_journal, stored_request
from interleave.runs.journal import DocumentEdited, first_entry, read_journal
from interleave.runs.journal_files import JOURNAL_NAME
from interleave.runs.record import (
    RECORD_NAME,
    RunRecord,
    fold,
    image_names,
    read_record,
    write_stored,
)
from interleave.runs.replay import Replay
from interleave.runs.shown_document import as_shown
from interleave.runs.words import words_line, words_of
from interleave.train.data.trajectories import DAMAGED, Trajectory, read_trajectory

WORDS = (
    *(
        b'"event":"judged"',
        b'"event":"ended"',
        b'"status":"done"',
        b'"step":1',
        b'"attempt":2',
        b'"version":2',
    ),
    *(
        b'"accepted":true',
        b'"forced":true',
        b'"outcome":"accepted"',
        b'"version":' + b"9" * 5000,
        b'"call":1',
    ),
)
SMALL = "solid?size=64"


@cache
def finished() -> Path:
    """A run of the doubles, done; one of its attempts was rejected."""
    return a_run("How a frog grows up, in two pictures", None)


@cache
def interrupted() -> Path:
    """A run that was ended by a limit, continued, and ended again."""
    return a_run("The moon in two pictures", 2, 4)


def a_run(request: str, *sessions: int | None) -> Path:
    """A run folder whose bytes are the same every time: times are taken out, and the rest is written anew."""
    made = Path(mkdtemp(prefix="fuzz-run-"))
    for calls in sessions:
        generate(request, out=made / "made", profile="dry-run", generator=SMALL, max_calls=calls)
    folder = made / "run"
    shutil.copytree(made / "made" / "images", folder / "images")
    journal = open_journal(folder)
    for number, entry in enumerate(read_journal(made / "made")):
        fixed = {name: 0.125 for name in ("seconds",) if name in type(entry).model_fields}
        journal.append(entry.model_copy(update={"time": 1e9 + number, **fixed}))
    journal.sync()
    journal.close()
    write_stored(folder, read_record(folder))
    return folder


@cache
def prefixes(run: Path) -> frozenset[str]:
    """What the run was at any moment: the only other runs that its journal may be taken for."""
    entries = read_journal(run)
    return frozenset(told_by(fold(entries[:end])) for end in range(1, len(entries) + 1))


def told_by(record: RunRecord) -> str:
    """What a record tells, but for how many lines told it."""
    return record.model_dump_json(exclude={"journal"})


def journal_seeds() -> list[bytes]:
    return [(run / JOURNAL_NAME).read_bytes() for run in (finished(), interrupted())]


@target(journal_seeds, words=WORDS, examples=24)
def journal_is_true(data: bytes) -> bool:
    """Damage to a journal is noticed: what is read is the run as it was at some moment, or nothing."""
    with scratch() as folder:
        (folder / JOURNAL_NAME).write_bytes(data)
        record = attempt(lambda: read_record(folder))
        if not isinstance(record, RunRecord):
            return False
        told = record.model_copy(update={"status": "running"}) if record.status == "interrupted" else record
        assert told_by(told) in prefixes(finished()) | prefixes(interrupted()), "it is another run"
        return True


def old_seeds() -> list[bytes]:
    """Journals as older versions wrote them, without digests: what is changed in them is read."""
    return [re.sub(rb',"digest":"[0-9a-f]{16}"(?=\}\n)', b"", data) for data in journal_seeds()]


@target(old_seeds, words=WORDS, examples=32)
def journal(data: bytes) -> bool:
    """A damaged journal is refused by every reader with a typed error, and ends nothing but its own run."""
    with scratch() as folder:
        shutil.copytree(finished() / "images", folder / "images", copy_function=_link)
        (folder / JOURNAL_NAME).write_bytes(data)
        first_entry(folder)
        record = attempt(lambda: read_record(folder), errors=RunError)
        assert read_batch_status(folder) is not None
        name = attempt(lambda: read_trajectory(folder.parent, folder.name))
        assert (record is REFUSED) == (name == DAMAGED)
        if not isinstance(record, RunRecord):
            return False
        Replay.of(read_journal(folder))
        use(folder, record)
        return True


def _link(source: str, place: str) -> None:
    Path(place).hardlink_to(source)


def use(folder: Path, record: RunRecord) -> None:
    """Everything that is made of a record; images may be missing, and nothing else may go wrong."""
    assert RunRecord.model_validate_json(record.model_dump_json()) == record
    summarize(record, folder).model_dump_json().encode()
    image_names(record)
    _ = record.title, record.forced_steps
    attempt(lambda: comparable(folder), errors=RunError)
    attempt(lambda: stored_request(folder, record))
    attempt(lambda: render_markdown(record))
    attempt(lambda: render_document(folder, record))


def record_seeds() -> list[bytes]:
    return [(run / RECORD_NAME).read_bytes() for run in (finished(), interrupted())]


@target(record_seeds, words=WORDS, examples=32)
def run_json(data: bytes) -> bool:
    """`run.json` as the data stages read it."""
    with scratch() as folder:
        run = folder / "run"
        run.mkdir()
        shutil.copytree(finished() / "images", run / "images", copy_function=_link)
        (run / RECORD_NAME).write_bytes(data)
        trajectory = attempt(lambda: read_trajectory(folder, "run"))
        assert trajectory is not REFUSED, "a run of a collection is left out with a word, and ends nothing"
        read_batch_status(folder)
        if not isinstance(trajectory, Trajectory):
            return False
        look_through(trajectory)
        attempt(lambda: render_markdown(trajectory.record))
        attempt(lambda: render_document(run, trajectory.record))
        return True


def look_through(trajectory: Trajectory) -> None:
    """What every stage after collecting does with a trajectory."""
    attempt(lambda: trajectory.request)
    for step, each in trajectory.attempts():
        seen = attempt(lambda step=step, each=each: trajectory.critic_input(step, each))
        if seen is not REFUSED:
            attempt(seen.after.load)  # type: ignore[union-attr]


def words_seeds() -> list[bytes]:
    words = words_of(read_record(finished()))
    changed = {
        "title": "Frösche",
        "order": [2, 1],
        "steps": [{"number": 1, "alt": "", "hidden": True}],
        "keep": [2],
    }
    return [json.dumps(words).encode(), json.dumps(changed).encode()]


@target(words_seeds, words=(b'"number": 1', b'"text": ""', b'"hidden": true', b'"order": [2]', b"null"))
def words_file(data: bytes) -> bool:
    """Edited words are refused, or make a line after which the run can be read and shown."""
    with scratch() as folder:
        (folder / "words.json").write_bytes(data)
        given = attempt(lambda: read_words_file(folder / "words.json"))
        if not isinstance(given, dict):
            return False
        run = DecidedRun.of(finished(), read_journal(finished()))
        line = attempt(lambda: words_line(run, given))
        if not isinstance(line, DocumentEdited):
            return False
        assert DocumentEdited.model_validate_json(line.model_dump_json()) == line
        record = fold([*run.entries, line])
        assert (record.status, record.plan) == (run.record.status, run.record.plan)
        assert as_shown(record).steps
        use(finished(), record)
        return True


@cache
def batch() -> Path:
    folder = Path(mkdtemp(prefix="fuzz-batch-")) / "batch"
    requests = [
        ("a", "A frog in one picture"),
        ("b", "The moon in one picture"),
        ("c", "A cat in one picture"),
    ]
    generate_many(requests, out=folder, profile="dry-run", generator=SMALL)
    return folder


def index_seeds() -> list[bytes]:
    with scratch() as folder:
        index = open_journal(folder, "index.jsonl")
        for number, ended in enumerate(sorted(read_index(batch()), key=lambda ended: ended.id)):
            index.append(ended.model_copy(update={"time": 1e9 + number, "seconds": 0.125}))
        index.sync()
        index.close()
        return [(folder / "index.jsonl").read_bytes()]


@target(index_seeds, words=(b'"id":"a"', b'"folder":"runs/../.."', b'"status":"failed"'))
def batch_index(data: bytes) -> bool:
    """The index only saves opening run folders; one that names other folders must not lead there."""
    with scratch() as folder:
        (folder / "index.jsonl").write_bytes(data)
        ended = attempt(lambda: read_index(folder))
        assert ended is not REFUSED, "a line that cannot be read counts for nothing"
        assert isinstance(ended, list) and len({each.id for each in ended}) == len(ended)
        for each in ended:
            assert Ended.model_validate_json(each.model_dump_json()) == each
        standing = read_batch_status(folder)
        assert standing.summary.total == len(ended)
        json.dumps(Counter(standing.summary.generators)).encode()
        return bool(ended)


def casting_seeds() -> list[bytes]:
    return [(batch() / CONFIG_NAME).read_bytes()]


@target(casting_seeds, words=(b'"spec": "solid"', b'"mixture": []', b'"weight": 0', b'"spec": "object:x"'))
def batch_json(data: bytes) -> bool:
    with scratch() as folder:
        (folder / CONFIG_NAME).write_bytes(data)
        assignment = attempt(lambda: read_assignment(folder), errors=RunError)
        if not isinstance(assignment, Assignment):
            return False
        ours = read_assignment(batch())
        attempt(lambda: assignment_differences(ours, assignment))
        attempt(lambda: assignment.assign(["a", "b", "c"]))
        assert type(assignment).model_validate_json(assignment.model_dump_json()) == assignment
        return True


@target(lambda: [b"0/60000/3", b"1/3/7", b"5/200/1"])
def stored_image(data: bytes) -> bool:
    """An image that was altered on disk is never taken for the one that was stored."""
    try:
        which, where, bit = (int(number) for number in data[:30].decode().split("/"))
    except ValueError:
        return False
    with scratch() as folder:
        names = sorted(path.name for path in (finished() / "images").iterdir())
        name = names[which % len(names)]
        good = (finished() / "images" / name).read_bytes()
        at = where % len(good)
        (folder / "images").mkdir()
        (folder / "images" / name).write_bytes(
            good[:at] + bytes([good[at] ^ (1 << bit % 8)]) + good[at + 1 :]
        )
        store = ImageStore(folder)
        assert not store.has(name) and attempt(lambda: store.get(name), errors=RunError) is REFUSED
        return True
