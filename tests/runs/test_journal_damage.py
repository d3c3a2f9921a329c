"""Journals that a disk or a hand has damaged: refused with file and line, or read as what they are."""

from __future__ import annotations

import json
import logging
import os
import random
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import interleave
from interleave.cli.main import run
from interleave.errors import RunError
from interleave.runs import journal as lines
from interleave.runs import record as recording
from interleave.runs import replay as replaying
from interleave.runs.journal import Journal, JournalReader, first_entry, read_journal
from interleave.runs.journal_files import DigestChain
from interleave.runs.record import fold, read_record
from interleave.runs.replay import Replay
from interleave.types import Outcome, Plan, PlanStep, Verdict

REQUEST = "A frog in two pictures"
PLAN = Plan(steps=(PlanStep(number=1, prompt="a frog"), PlanStep(number=2, caption="It grows.")))
DIGEST = re.compile(rb',"digest":"[0-9a-f]{16}"(?=\}\n)')
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, to be copied."""
    folder = tmp_path_factory.mktemp("made") / "run"
    interleave.generate(REQUEST, out=folder, generator="solid?size=64")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def journal_of(folder: Path) -> Path:
    return folder / "journal.jsonl"


def lines_of(folder: Path) -> list[bytes]:
    return journal_of(folder).read_bytes().splitlines(keepends=True)


def without_digests(folder: Path) -> None:
    """The journal and the record as versions before the digests wrote them."""
    journal_of(folder).write_bytes(DIGEST.sub(b"", journal_of(folder).read_bytes()))
    record = json.loads((folder / "run.json").read_text())
    del record["journal"]
    (folder / "run.json").write_text(json.dumps(record, indent=1) + "\n")


def refused(folder: Path) -> bool:
    """Whether reading a run is refused in the words of this package, with file and line."""
    try:
        read_record(folder)
    except RunError as error:
        assert re.search(r"journal\.jsonl:\d+ ", str(error)), error
        assert "restore it from a copy" in str(error)
        return True
    return False


def small_run(folder: Path) -> bytes:
    interleave.generate("A frog", out=folder, plan=PLAN, generator="solid?size=64")
    return journal_of(folder).read_bytes()


def refuses_flips(folder: Path, data: bytes, places: Iterable[tuple[int, int]]) -> None:
    """Flip bits one at a time, in the file itself, and expect each to be refused."""
    with journal_of(folder).open("r+b", buffering=0) as file:
        for place, bit in places:
            os.pwrite(file.fileno(), bytes([data[place] ^ 1 << bit]), place)
            assert refused(folder), f"bit {bit} of byte {place}"
            os.pwrite(file.fileno(), data[place : place + 1], place)
    assert not refused(folder)


def test_B08_a_bit_that_flips_is_refused(tmp_path: Path) -> None:
    data = small_run(tmp_path / "run")
    bits = random.Random(7)
    breaks = [place for place, byte in enumerate(data) if byte == ord("\n")]
    places = [*range(0, len(data), 17), *breaks, *range(len(data) - 40, len(data))]
    refuses_flips(tmp_path / "run", data, ((place, bits.randrange(8)) for place in places))
    refuses_flips(tmp_path / "run", data, ((len(data) - 1, bit) for bit in range(8)))


@pytest.mark.slow
def test_B08_every_bit_that_flips_is_refused(tmp_path: Path) -> None:
    data = small_run(tmp_path / "run")
    refuses_flips(tmp_path / "run", data, product(range(len(data)), range(8)))


def deleted(before: list[bytes], place: int) -> list[bytes]:
    return before[:place] + before[place + 1 :]


def doubled(before: list[bytes], place: int) -> list[bytes]:
    return [*before[: place + 1], *before[place:]]


def swapped(before: list[bytes], place: int) -> list[bytes]:
    return [*before[:place], before[place + 1], before[place], *before[place + 2 :]]


def moved_to_the_end(before: list[bytes], place: int) -> list[bytes]:
    return [*before[:place], *before[place + 1 :], before[place]]


def inserted(before: list[bytes], place: int) -> list[bytes]:
    return [*before[: place + 1], before[2], *before[place + 1 :]]


Change = Callable[[list[bytes], int], list[bytes]]
CHANGES = [deleted, doubled, swapped, moved_to_the_end, inserted]


@pytest.mark.parametrize("change", CHANGES)
def test_B08_lines_that_go_come_or_move_are_refused(folder: Path, change: Change) -> None:
    before = lines_of(folder)
    assert len(before) > 20
    for place in range(len(before) - 1):
        journal_of(folder).write_bytes(b"".join(change(before, place)))
        assert refused(folder), f"line {place + 1}"


@pytest.mark.parametrize("change", CHANGES)
def test_a_journal_without_digests_is_refused_or_read_whatever_was_done_to_its_lines(
    folder: Path, change: Change
) -> None:
    without_digests(folder)
    before = lines_of(folder)
    refusals = 0
    for place in range(len(before) - 1):
        journal_of(folder).write_bytes(b"".join(change(before, place)))
        refusals += refused(folder)  # and nothing but a refusal is raised
    assert refusals


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"event": "judged", "step": 2, "attempt": 9, "verdict": {"outcome": "accepted"}}, "never drawn"),
        (
            {"event": "step_finished", "step": 1, "attempt": 4, "accepted": True, "forced": False},
            "never drawn",
        ),
        (
            {"event": "step_finished", "step": 9, "attempt": None, "accepted": True, "forced": False},
            "no step 9",
        ),
        ({"event": "call_failed", "role": "critic", "call": 77, "error": "", "transient": True}, "announced"),
        ({"event": "started"}, "was started before"),
    ],
)
def test_a_line_that_cannot_follow_is_refused_with_its_number(
    folder: Path, line: dict[str, Any], problem: str
) -> None:
    without_digests(folder)
    before = lines_of(folder)
    if line["event"] == "started":
        line = json.loads(before[0])
    changed = [*before[:-1], json.dumps({"time": 1.0, **line}).encode() + b"\n"]
    journal_of(folder).write_bytes(b"".join(changed))
    with pytest.raises(RunError, match=rf"journal\.jsonl:{len(changed)} is damaged \(.*{problem}"):
        read_record(folder)


def test_nothing_follows_the_end_of_a_run_but_its_continuation(folder: Path) -> None:
    without_digests(folder)
    before = lines_of(folder)
    journal_of(folder).write_bytes(b"".join([*before, before[-2]]))
    with pytest.raises(
        RunError, match=rf"journal\.jsonl:{len(before) + 1} is damaged \(it comes after the end"
    ):
        read_record(folder)


def test_an_old_journal_is_read_and_continued_and_guarded_from_then_on(folder: Path, made: Path) -> None:
    whole = interleave.comparable(made)
    cut = len(lines_of(folder)) // 2
    journal_of(folder).write_bytes(b"".join(lines_of(folder)[:cut]))
    without_digests(folder)
    assert read_record(folder).status == "interrupted"
    assert read_record(folder).journal.digest == ""
    assert interleave.generate(REQUEST, out=folder, generator="solid?size=64").status == "done"
    assert interleave.comparable(folder) == whole
    after = lines_of(folder)
    assert [bool(DIGEST.search(line)) for line in after] == [False] * cut + [True] * (len(after) - cut)
    for place in (0, cut - 1):  # the first new line takes in all before it
        line = re.sub(rb'"time":\d', b'"time":7', after[place])  # which nothing else would give away
        assert line != after[place]
        journal_of(folder).write_bytes(b"".join([*after[:place], line, *after[place + 1 :]]))
        assert refused(folder)
    bare = DIGEST.sub(b"", after[-2])
    journal_of(folder).write_bytes(b"".join([*after[:-2], bare, after[-1]]))
    with pytest.raises(RunError, match=rf"journal\.jsonl:{len(after) - 1} is damaged \(it has no digest"):
        read_record(folder)


def test_a_finished_old_run_is_still_finished(folder: Path, made: Path) -> None:
    without_digests(folder)
    before = journal_of(folder).read_bytes()
    assert interleave.generate(REQUEST, out=folder, generator="solid?size=64").status == "done"
    assert journal_of(folder).read_bytes() == before
    assert interleave.comparable(folder) == interleave.comparable(made)


def test_the_digest_is_no_part_of_what_is_compared(folder: Path) -> None:
    assert "digest" in journal_of(folder).read_text()
    assert "journal" not in interleave.comparable(folder)


def test_B07_zeros_that_a_disk_without_power_left_at_the_end_are_dropped(
    folder: Path, made: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = lines_of(folder)
    for end in (b"\0" * 700, before[-1][:50] + b"\0" * 700, before[-1][:-1] + b"\0"):
        journal_of(folder).write_bytes(b"".join(before[:-1]) + end)
        assert read_record(folder).status == "interrupted"
        assert interleave.generate(REQUEST, out=folder, generator="solid?size=64").status == "done"
        assert "dropped an unfinished last line" in caplog.text
        assert interleave.comparable(folder) == interleave.comparable(made)


def test_lines_that_are_missing_at_the_end_are_noticed_by_the_record(
    folder: Path, capsys: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    before = lines_of(folder)
    journal_of(folder).write_bytes(b"".join(before[:-5]))
    assert run(["show", str(folder)]) == 0
    told = f"has lost its end: it has {len(before) - 5} lines, and run.json was made from {len(before)}"
    assert told in capsys.readouterr().err
    with caplog.at_level(logging.WARNING):
        assert interleave.generate(REQUEST, out=folder, generator="solid?size=64").status == "done"
    assert told in caplog.text
    capsys.readouterr()
    assert run(["show", str(folder)]) == 0
    assert "has lost" not in capsys.readouterr().err


def test_how_a_damaged_run_began_is_not_guessed(folder: Path) -> None:
    assert isinstance(first_entry(folder), lines.Started)
    journal_of(folder).write_bytes(journal_of(folder).read_bytes().replace(b"frog", b"dogs", 1))
    assert first_entry(folder) is None


@pytest.fixture
def patience() -> Iterator[None]:
    """For what would wait for ever: it fails after half a minute instead."""

    def give_up(*_: object) -> None:
        raise AssertionError("it never came back")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("patience")
def test_a_pipe_in_place_of_a_journal_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / "journal.jsonl")
    with pytest.raises(RunError, match="not a file"):
        read_record(tmp_path / "run")
    with pytest.raises(RunError, match="not a file"):
        interleave.generate(REQUEST, out=tmp_path / "run")


def test_lines_from_two_threads_are_one_chain(tmp_path: Path) -> None:
    journal, entry = Journal(tmp_path / "journal.jsonl"), lines.Continued(software="x")
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            journal.write()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    writer = threading.Thread(target=write)
    try:
        writer.start()
        for _ in range(3000):
            journal.append(entry)
    finally:
        sys.setswitchinterval(before)
        ended.set()
        writer.join()
    journal.sync()
    journal.close()
    assert len(read_journal(tmp_path)) == 3000


def test_a_journal_that_grows_is_read_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unseal, calls = DigestChain.unseal, 0

    def counted(self: DigestChain, line: bytes) -> bytes:
        nonlocal calls
        calls += 1
        return unseal(self, line)

    monkeypatch.setattr(DigestChain, "unseal", counted)
    (tmp_path / "growing").mkdir()
    reader, grown = JournalReader(tmp_path / "growing"), journal_of(tmp_path / "growing")
    told = []
    for line in lines_of(folder):
        with grown.open("ab") as file:
            file.write(line[:10])
            file.flush()
            assert (reader.read_new() if grown.exists() else []) == []  # half a line is none
            file.write(line[10:])
        told += reader.read_new()
    assert told == read_journal(folder)
    assert calls == 2 * len(told)


def test_following_a_run_reads_every_line_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from interleave.cli import show

    polls = iter([True] * 9 + [False])
    monkeypatch.setattr("interleave.runs.journal.is_being_written", lambda *_: next(polls, False))
    monkeypatch.setattr(show, "FOLLOW_SECONDS", 0)
    parsed = 0
    entry = JournalReader._entry

    def counted(self: JournalReader, line: bytes) -> Any:
        nonlocal parsed
        parsed += 1
        return entry(self, line)

    monkeypatch.setattr(JournalReader, "_entry", counted)
    show._follow(folder)
    assert parsed <= 2 * len(lines_of(folder))  # and once more for the record at the end


# What it takes to fold a long run


def long_run(start: lines.Entry, steps: int) -> Iterator[lines.Entry]:
    """The journal of a run of so many steps, each drawn twice."""
    yield start
    yield lines.Planned(plan=Plan(steps=tuple(PlanStep(number=n + 1, prompt="a frog") for n in range(steps))))
    for call in range(2 * steps):
        step, attempt = call // 2 + 1, call % 2 + 1
        place = {"call": call + 1, "step": step, "attempt": attempt}
        yield lines.Called(role="generator", **place)
        made = {"fingerprint": "", "prompt": "a frog", "seed": 1, "image": "", "seconds": 0.1}
        yield lines.Drawn(role="generator", **place, **made)
        verdict = Verdict(outcome=Outcome.ACCEPTED if attempt == 2 else Outcome.REJECTED)
        yield lines.Judged(step=step, attempt=attempt, verdict=verdict)
        if attempt == 2:
            yield lines.StepFinished(step=step, attempt=2, accepted=True, forced=False)
    yield lines.Ended(status="done")


def instructions(work: Callable[[], object], file: str) -> int:
    """How many instructions of a file a piece of work takes; unlike seconds, always the same."""
    counted = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal counted
        if frame.f_code.co_filename != file:
            return None
        frame.f_trace_opcodes = True
        counted += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


def test_folding_takes_work_in_proportion_to_the_length_of_a_run(folder: Path) -> None:
    start = read_journal(folder)[0]
    short, long = list(long_run(start, 50)), list(long_run(start, 200))
    less = instructions(lambda: fold(short), recording.__file__)
    more = instructions(lambda: fold(long), recording.__file__)
    assert 3.5 < more / less < 4.5


def test_what_a_journal_answers_is_found_in_proportion_to_its_length() -> None:
    def many(sessions: int) -> Iterator[lines.Entry]:
        for call in range(1, sessions + 1):
            yield lines.Replied(
                role="planner", call=call, fingerprint="", text="no", finish_reason="stop", seconds=0.1
            )
            yield lines.Ended(status="failed", unreadable_plan=True)
            yield lines.Continued(software="x")

    short, long = list(many(50)), list(many(200))
    less = instructions(lambda: Replay.of(short), replaying.__file__)
    more = instructions(lambda: Replay.of(long), replaying.__file__)
    assert 3.5 < more / less < 4.5
    assert Replay.of(long).unreadable_plans == 200


def test_the_steps_of_a_finished_run_are_made_once(folder: Path) -> None:
    ended = interleave.generate(REQUEST, out=folder, generator="solid?size=64")
    assert ended.steps is ended.steps
    assert [step.image is not None for step in ended.steps] == [True, True]
