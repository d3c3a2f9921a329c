"""Whoever records is alone; whoever works is not kept from it for longer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from interleave.backends.local.recording import Room

SECONDS = 10


@pytest.fixture
def room() -> Room:
    return Room()


def test_many_work_at_once(room: Room) -> None:
    both = threading.Barrier(2, timeout=SECONDS)

    def work() -> None:
        with room.working():
            both.wait()

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(work) for _ in range(2)]:
            done.result(SECONDS)


def test_who_records_waits_for_those_that_work_and_others_wait_for_it(room: Room) -> None:
    told: list[str] = []
    working, go_on, recording, finish = (threading.Event() for _ in range(4))

    def draw() -> None:
        with room.working():
            working.set()
            go_on.wait(SECONDS)
            told.append("drawn")

    def record() -> None:
        with room.working(), room.alone():
            told.append("recording")
            recording.set()
            finish.wait(SECONDS)
            told.append("recorded")

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(draw)
        assert working.wait(SECONDS)
        second = threads.submit(record)
        assert not recording.wait(0.05), "recorded beside one that works"
        go_on.set()
        assert recording.wait(SECONDS)
        third = threads.submit(draw)
        finish.set()
        for each in (first, second, third):
            each.result(SECONDS)
    assert told == ["drawn", "recording", "recorded", "drawn"]


def test_two_record_one_after_the_other(room: Room) -> None:
    inside: list[int] = []
    most: list[int] = []

    def record() -> None:
        with room.working(), room.alone():
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    with ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(record) for _ in range(20)]:
            each.result(SECONDS)
    assert set(most) == {1}


def test_one_that_fails_leaves_the_room(room: Room) -> None:
    with pytest.raises(ValueError, match="x"), room.working(), room.alone():
        raise ValueError("x")
    with room.alone():
        pass
    with room.working():
        pass
