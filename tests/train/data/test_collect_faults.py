"""Collections under faults: killed, out of disk, refused by servers. Nothing is lost, little is repeated."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from collections_made import MIXED, SMALL, collect, comparables, results_in, write_requests

import interleave
from interleave.batches.batch import Batch, read_index
from interleave.cli.main import run
from interleave.train.data.collect import CollectConfig, Workload
from interleave.train.data.manifest import COLLECTION_MANIFEST

TESTS = Path(__file__).parents[2]
sys.path += [str(TESTS / "runs"), str(TESTS / "backends")]  # the crash server and the loopback server
from crashing import KILLED, CrashServer, ledger_of  # noqa: E402

from loopback import Asked, Fault, Loopback, status  # noqa: E402


@pytest.fixture(scope="module")
def crash_server() -> Iterator[CrashServer]:
    server = CrashServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    running = Loopback()
    yield running
    running.stop()


def collect_with_kills(
    crash_server: CrashServer, count: int, kills_at: list[dict[str, int]], concurrency: int
) -> int:
    """Kill a collection at each of these points, then let it end; returns how often one was reached."""
    requests, ledger = str(Path(write_requests(count)).absolute()), Path("ledger").absolute()
    arguments = ["data", "collect", requests, "--out", str(Path("made").absolute()), "--dry-run", *MIXED]
    order = {"arguments": [*arguments, "--concurrency", str(concurrency)], "ledger": str(ledger)}
    kills = 0
    for point in kills_at:
        kills += go_on(crash_server, order, point) == KILLED
    assert go_on(crash_server, order, {}) == 0
    made = Counter(ledger_of(ledger))
    assert set(made) == results_in("made")
    assert sum(made.values()) - len(made) <= kills * concurrency  # at most one for every open slot
    return kills


def go_on(crash_server: CrashServer, order: dict[str, Any], kill: dict[str, int]) -> int:
    kept, before = results_in("made"), Counter(ledger_of(Path(order["ledger"])))
    ended = crash_server.run(**order, **kill)
    assert ended in (0, KILLED)
    made = Counter(ledger_of(Path(order["ledger"]))) - before
    assert not kept & set(made), "a call whose result was kept was made again"
    return ended


@pytest.mark.slow
def test_A02_a_collection_killed_again_and_again_ends_as_an_undisturbed_one(
    crash_server: CrashServer,
) -> None:
    touches_of_the_disk = [{"kill_at": touch} for touch in (9, 40, 90, 150)]
    assert collect_with_kills(crash_server, 24, touches_of_the_disk, concurrency=8) == 4
    assert collect("requests.jsonl", "whole", *MIXED) == 0
    assert comparables("made") == comparables("whole")
    assert Path("made", COLLECTION_MANIFEST).read_bytes() == Path("whole", COLLECTION_MANIFEST).read_bytes()
    assert not list(Path("made").rglob(".*.tmp"))


@pytest.mark.slow
def test_A02_200_trajectories_killed_at_20_random_touches_of_the_disk(crash_server: CrashServer) -> None:
    """Touches and not seconds, as nobody knows how fast a machine is; there are some 10,000 of them."""
    chance = random.Random(20)
    touches_of_the_disk = [{"kill_at": chance.randint(1, 500)} for _ in range(20)]
    assert collect_with_kills(crash_server, 200, touches_of_the_disk, concurrency=32) == 20
    assert collect("requests.jsonl", "whole", *MIXED) == 0
    assert comparables("made") == comparables("whole")
    assert Path("made", COLLECTION_MANIFEST).read_bytes() == Path("whole", COLLECTION_MANIFEST).read_bytes()


@pytest.mark.parametrize("after", [1, 4])
def test_A02_a_collection_that_is_stopped_goes_on_where_it_was(after: int) -> None:
    requests = write_requests(10)
    recipe = CollectConfig({}, (SMALL,))

    async def some() -> None:
        batch = Batch(Path("made"), recipe.assignment(), recipe.worker(Path("made")))
        async with aclosing(
            batch.run(Workload.read(Path(requests), recipe.assignment()).items, concurrency=3)
        ) as all_ended:
            for _ in range(after):
                await anext(all_ended)

    asyncio.run(some())
    kept = results_in("made")
    assert collect(requests, "made") == 0
    assert kept < results_in("made")
    assert collect(requests, "whole") == 0
    assert comparables("made") == comparables("whole")


class FullDisk:
    """Writes work until so many bytes are on the disk; from then on there is no space left."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write
        self._lock = threading.Lock()

    def __call__(self, file: int, data: bytes) -> int:
        with self._lock:
            if file > 2 and len(data) > self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.room -= len(data) if file > 2 else 0
            return self._write(file, data)


@pytest.mark.parametrize("room", [0, 1_000, 10_000, 40_000])
def test_B01_a_full_disk_ends_a_collection_with_3_and_nothing_is_lost(
    room: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = write_requests(8)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", FullDisk(room))
        assert collect(requests, "made") == 3
    err = capsys.readouterr().err
    assert "No space left on device" in err
    assert "make room" in err
    kept = results_in("made")
    assert collect(requests, "made") == 0
    assert kept <= results_in("made")
    assert collect(requests, "whole") == 0
    assert comparables("made") == comparables("whole")
    assert not list(Path("made").rglob(".*.tmp"))


def test_B01_a_full_disk_is_told_in_a_line_or_two_however_many_runs_meet_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    requests = write_requests(64)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", FullDisk(100_000))
        assert collect(requests, "made", "--concurrency", "64") == 3
    gc.collect()  # what nobody has asked for its error complains when it is thrown away
    assert caplog.records == []
    complaint = [line for line in capsys.readouterr().err.splitlines() if line.startswith("interleave: ")]
    assert len(complaint) == 1 and "No space left on device" in complaint[0]


@pytest.mark.parametrize("name", ["mkdir", "open"])
def test_B18_no_room_for_another_folder_is_a_full_disk_and_no_failed_request(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = write_requests(6)
    original, calls = getattr(os, name), 0

    def full(path: object, *arguments: object, **options: object) -> object:
        nonlocal calls
        calls += "/runs/" in str(path)
        if calls > 3 and "/runs/" in str(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(path, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, name, full)
        assert collect(requests, str(Path("made").absolute())) == 3
    assert "failed" not in {ended.status for ended in read_index(Path("made"))}
    assert collect(requests, str(Path("made").absolute())) == 0


class RateLimit:
    """A server that takes so many calls a second and answers all others with 429 and when to come back."""

    def __init__(self, per_second: float, burst: float, retry_after: float) -> None:
        self.per_second, self.burst = per_second, burst
        self.refusal = status(429, Retry_After=str(retry_after))
        self.left, self.at = burst, time.monotonic()
        self.refused = 0

    def __call__(self, number: int, asked: Asked) -> Fault | None:
        now = time.monotonic()
        self.left = min(self.burst, self.left + (now - self.at) * self.per_second)
        self.at = now
        if self.left < 1:
            self.refused += 1
            return self.refusal
        self.left -= 1
        return None


def models_of(server: Loopback) -> list[str]:
    vlm = f"openai:qwen3-vl@{server.url}/v1"
    return ["--planner", vlm, "--critic", vlm, "--generator", f"{server.url}?concurrency=64"]


def collect_from(server: Loopback, requests: str, out: str) -> int:
    command = ["data", "collect", requests, "--out", out, *models_of(server), "--concurrency", "64", "--json"]
    return run(command)


class Overload:
    """A server that refuses so many of five calls, whenever they come, but none more than so many times."""

    def __init__(self, of_five: int, most: int) -> None:
        self.of_five, self.most = of_five, most
        self.refusals: Counter[bytes] = Counter()

    def __call__(self, number: int, asked: Asked) -> Fault | None:
        call = asked.path.encode() + asked.body
        if number % 5 >= self.of_five or self.refusals[call] == self.most:
            return None
        self.refusals[call] += 1
        return status(429, Retry_After="0.001")

    @property
    def refused(self) -> int:
        return self.refusals.total()


def storm(server: Loopback, count: int, limit: Overload | RateLimit, told: pytest.CaptureFixture[str]) -> int:
    """Collect from a server that refuses calls, then from a calm one; returns how many it refused."""
    requests = write_requests(count)
    server.reset()
    server.fault = limit
    assert collect_from(server, requests, "made") == 0
    summary = json.loads(told.readouterr().out)
    assert (summary["done"], summary["failed"]) == (count, 0)
    assert len(server.asked) == count * 7 + limit.refused
    assert summary["repeated"] == limit.refused
    server.reset()
    assert collect_from(server, requests, "calm") == 0
    assert comparables("made") == comparables("calm")
    return limit.refused


@pytest.mark.usefixtures("impatient")
def test_C12_a_storm_of_429_ends_with_everything_done_and_only_refused_calls_repeated(
    server: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    assert storm(server, 12, Overload(2, 3), capsys) > 12 * 7 / 5


@pytest.mark.slow
def test_C12_in_a_long_storm_of_429_few_calls_are_repeated(
    server: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    assert storm(server, 60, RateLimit(per_second=40, burst=8, retry_after=0.2), capsys) < 60 * 7


@pytest.mark.usefixtures("impatient")
def test_C14_with_every_call_refused_seven_times_everything_is_done_in_the_end(server: Loopback) -> None:
    """More often than a call is tried: requests are taken up again."""
    requests = write_requests(2)
    server.reset()
    server.fault = Overload(5, 7)
    assert collect_from(server, requests, "made") == 0
    assert {ended.status for ended in read_index(Path("made"))} == {"done"}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interleave.runs.outage.FIRST_DELAY_SECONDS", 0.001)
    monkeypatch.setattr("interleave.runs.outage.LONGEST_OUTAGE_SECONDS", 0.05)
    monkeypatch.setattr("interleave.backends.retries.BUDGET_PER_SECOND", 10_000.0)


@pytest.mark.usefixtures("impatient")
def test_C13_a_server_that_stays_away_is_given_up_and_taken_up_later(server: Loopback) -> None:
    requests = write_requests(3)
    server.reset()
    server.fails_with(status(503, Retry_After="0"))
    assert collect_from(server, requests, "made") == 3
    assert {(ended.status, ended.passing) for ended in read_index(Path("made"))} == {("failed", True)}
    server.reset()
    command = ["data", "collect", requests, "--out", "made", *models_of(server), "--retry-failed"]
    assert run(command) == 0


@pytest.mark.usefixtures("impatient")
def test_C10_a_failure_that_will_not_pass_is_not_taken_up_again(server: Loopback) -> None:
    requests = write_requests(1)
    server.reset()
    server.fails_with(status(401))
    assert collect_from(server, requests, "made") == 3
    assert len(server.asked) == 1


@pytest.mark.slow
def test_the_generator_is_the_limit_and_not_the_journal() -> None:
    """Eight images at a time, each a fifth of a second: nothing else may take as much of the time."""
    requests = write_requests(120)
    started = time.monotonic()
    assert collect(requests, "made", "--generator", "solid?size=256&delay=0.2&concurrency=8") == 0
    seconds = time.monotonic() - started
    images = sum(interleave.read_record(folder).calls.generator for folder in Path("made").glob("runs/*/*"))
    assert images == 360
    assert images * 0.2 / 8 / seconds > 0.5  # the share of its time in which the generator draws


@pytest.mark.slow
def test_J04_three_shards_in_three_processes_at_once_make_one_collection() -> None:
    requests = write_requests(30)
    command = [sys.executable, "-m", "interleave", "data", "collect", requests, "--out", "made", "--dry-run"]
    processes = [subprocess.Popen([*command, *MIXED, "--shard", f"{number}/3"]) for number in (1, 2, 3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert collect(requests, "whole", *MIXED) == 0
    assert comparables("made") == comparables("whole")
    assert Path("made", COLLECTION_MANIFEST).read_bytes() == Path("whole", COLLECTION_MANIFEST).read_bytes()
