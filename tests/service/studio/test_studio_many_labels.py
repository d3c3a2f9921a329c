"""Thousands of labels and of things to be judged: pages that stay small, and work that grows no faster."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from interleave.bench.labels import Kind, Label, Subject
from interleave.bench.rater_agreement import label_agreement
from interleave.config.run_config import RunConfig
from interleave.runs.journal import RequestPart
from interleave.runs.resolve import Choices, resolve
from interleave.service.documents.jobs import Job, new_job_id
from interleave.studio import label_store
from interleave.studio.catalogue import Catalogue
from interleave.studio.label_routes import labels_in
from interleave.studio.label_store import Choice, LabelStore, Rater
from interleave.studio.subjects import place_of, unit_of
from work import at_most_calls, that_ends

LABELS = 10_000
RATERS = ("ann", "bob", "cem", "dan")


def label(number: int) -> Label:
    """Four raters label the same things; each of them sees every seventh otherwise."""
    thing, rater = divmod(number, len(RATERS))
    return Label(
        kind=Kind.ACCEPT,
        rater=RATERS[rater],
        at=datetime(2026, 1, 1, tzinfo=UTC),
        run=f"resp_{thing // 20}",
        step=1 + thing % 20,
        attempt=1,
        value=(thing % 2 == 0) != ((thing + rater) % 7 == 0),
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelStore]:
    store = LabelStore(tmp_path_factory.mktemp("many"))
    assert asyncio.run(store.put("", [label(number) for number in range(LABELS)])) == LABELS
    yield store
    store.close()


def test_ten_thousand_labels_are_read_and_their_agreement_found(stored: LabelStore) -> None:
    with sqlite3.connect(stored.database.path.parent / "copy.sqlite") as copy:
        copy.row_factory = sqlite3.Row
        copy.executescript(label_store.SCHEMA)
        rows = asyncio.run(
            stored.database.run(lambda given: [tuple(row) for row in given.execute("SELECT * FROM labels")])
        )
        copy.executemany("INSERT INTO labels VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        with at_most_calls(60 * LABELS):
            found = list(label_store._labels(copy, Choice()))
            agreement = label_agreement(found, Kind.ACCEPT)
    copy.close()
    assert (len(found), agreement.units, agreement.raters) == (LABELS, LABELS // 4, 4)
    assert agreement.alpha is not None and 0.4 < agreement.alpha < 0.6


def test_ten_thousand_labels_go_out_and_in(stored: LabelStore, tmp_path: Path) -> None:
    with that_ends():
        data = asyncio.run(stored.lines(Choice()))
        assert data.count(b"\n") == LABELS
        other = LabelStore(tmp_path)
        assert asyncio.run(other.take_in("", labels_in(data))) == LABELS
        assert asyncio.run(other.lines(Choice())) == data
    other.close()


def test_a_page_of_labels_is_that_page(stored: LabelStore) -> None:
    choice = Choice("", "bob", Kind.ACCEPT)
    rows, total = asyncio.run(stored.newest(choice, limit=100))
    assert (len(rows), total) == (100, LABELS // 4)
    after, _ = asyncio.run(stored.newest(choice, limit=100, before=rows[-1][0]))
    assert after[0][0] < rows[-1][0] and len({number for number, _ in (*rows, *after)}) == 200
    assert len(asyncio.run(stored.units(Rater("", "bob"), Kind.ACCEPT))) == LABELS // 4


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return resolve(Choices(profile="dry-run"))[0]


@pytest.fixture(scope="module")
def catalogue(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    """1,000 documents of one request with 5 attempts each."""
    made = Catalogue(tmp_path_factory.mktemp("shelf"))
    jobs = [
        Job(
            id=new_job_id(),
            created=number,
            parts=(RequestPart(text="a frog"),),
            config=config,
            model="m",
            number=number,
            status="completed",
        )
        for number in range(1, 1001)
    ]

    async def fill() -> None:
        await made.subjects.put([(job, None) for job in jobs])
        facts = '{"picture": "p", "before": null, "prompt": "a frog", "text": "a frog"}'

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE documents SET steps = '[]'")
            for job in jobs:
                for attempt in range(1, 6):
                    subject = Subject(run=job.id, step=1, attempt=attempt)
                    row = (job.number, 1, attempt, place_of(unit_of(subject)), int(attempt == 5))
                    image = f"{job.number}-{attempt}"
                    connection.execute(
                        "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, image, facts)
                    )

        await made.database.run(work)  # type: ignore[arg-type]

    asyncio.run(fill())
    yield made
    made.close()


def test_all_of_thousands_come_once_in_an_order_that_mixes_them(catalogue: Catalogue) -> None:
    seen: list[Subject] = []
    start = None
    with that_ends():
        while True:
            page = asyncio.run(catalogue.subjects.page("accept", None, set(), start=start, limit=200))
            seen += [item.first for item in page.items]
            if (start := page.next) is None:
                break
    assert len({unit_of(each) for each in seen}) == len(seen) == 5000
    neighbours = sum(first.run == second.run for first, second in pairwise(seen))
    assert neighbours < 30


def test_who_comes_back_goes_on_where_they_stopped_past_thousands_that_are_done(
    catalogue: Catalogue,
) -> None:
    first = asyncio.run(catalogue.subjects.page("accept", None, set(), limit=4000))
    done = {unit_of(item.first) for item in first.items}
    page = asyncio.run(catalogue.subjects.page("accept", None, done, limit=50))
    assert (page.total, page.left, len(page.items)) == (5000, 1000, 50)
    assert not done & {unit_of(item.first) for item in page.items}
    following = asyncio.run(catalogue.subjects.page("accept", None, set(), start=first.next, limit=50))
    assert [item.first for item in following.items] == [item.first for item in page.items]


def test_runs_of_one_request_are_not_paired_with_all_others(catalogue: Catalogue) -> None:
    with that_ends():
        page = asyncio.run(catalogue.subjects.page("better", None, set(), limit=50))
    # four pairs of attempts in each document, and each document with the next two
    assert page.total == 4 * 1000 + 999 + 998
    assert all(item.second is not None for item in page.items)


def test_an_index_of_an_older_version_is_made_again(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "studio.sqlite") as older:
        older.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY)")
        older.execute("PRAGMA user_version=1")
    older.close()
    opened = Catalogue.opened(tmp_path)
    assert asyncio.run(opened.subjects.page("accept", None, set())).total == 0
    opened.close()
