"""The gallery: search by words, profile, outcome and date, page by page; thumbnails; thousands of them."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from running import Service, service

from interleave.config.run_config import RunConfig
from interleave.errors import StorageError
from interleave.runs.journal import RequestPart
from interleave.runs.resolve import Choices, resolve
from interleave.service.documents.jobs import Job, new_job_id
from interleave.service.documents.keys import FILE_NAME, add_key
from interleave.studio.catalogue import Catalogue, Entry, Search, entry_of, words_of
from interleave.studio.indexing import Indexing
from interleave.studio.schemas import Gallery
from interleave.studio.thumbnails import Thumbnails

ASKED = (
    "How a frog grows up, in two pictures",
    "Ein Märchen vom Fluß, in two pictures",
    "中文故事, two pictures",
)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("gallery")) as running:
        for text in ASKED:
            running.sdk().responses.create(input=text)
        yield running


def listed(running: Service, **query: Any) -> Gallery:
    return Gallery.model_validate(
        running.http.get("/v1/studio/documents", params=query).raise_for_status().json()
    )


def titles(running: Service, **query: Any) -> list[str]:
    return [item.title for item in listed(running, **query).data]


def test_the_gallery_has_the_newest_first_with_images(shelf: Service) -> None:
    found = listed(shelf)
    assert ([item.title for item in found.data], found.total) == (list(reversed(ASKED)), 3)
    assert found.outcomes == {"completed": 3}
    first = found.data[0]
    assert (first.steps, first.pictures, len(first.thumbnails)) == (2, 3, 2)
    assert first.cover == first.thumbnails[-1] and first.alt
    assert titles(shelf, order="oldest") == list(ASKED)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("frog", [0]),
        ("FROG grows", [0]),
        ("grows frog", [0]),
        ("fro", [0]),  # still being typed
        ("fro grows", []),  # only the last word may be unfinished
        ("marchen", [1]),
        ("故事", [2]),
        ("文故", [2]),
        ("事故", []),
        ("elephant", []),
        ("pictures", [2, 1, 0]),
        ('"; DROP TABLE entries; --', []),
        ("* AND (", [2, 1, 0]),
        ("  ", [2, 1, 0]),
    ],
)
def test_words_are_found_wherever_they_stand(shelf: Service, words: str, expected: list[int]) -> None:
    if words == "* AND (":  # no query language: signs mean nothing, AND is a word
        assert titles(shelf, q=words) == []
        words = "* ("
    assert titles(shelf, q=words) == [ASKED[place] for place in expected]


@pytest.mark.parametrize(
    "words", ["___", '"', "a NEAR/2 b", "-frog", "frog*", "\x00", "e\u0301", "😀", "{x}:^y", "_*"]
)
def test_no_words_are_a_failure(shelf: Service, words: str) -> None:
    assert shelf.http.get("/v1/studio/documents", params={"q": words}).status_code == 200


def test_pages_follow_each_other_without_gaps(shelf: Service) -> None:
    seen, cursor = [], None
    while True:
        page = listed(shelf, limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [item.title for item in page.data]
        assert (page.total, page.outcomes is None) == (3, cursor is not None)
        if (cursor := page.cursor) is None:
            break
    assert seen == list(reversed(ASKED))


def test_documents_are_found_by_outcome_and_date(shelf: Service) -> None:
    assert titles(shelf, outcome="failed") == []
    assert len(titles(shelf, outcome="completed", profile="interleave")) == 3
    assert titles(shelf, profile="klein") == []
    assert len(titles(shelf, since="2020-01-01")) == 3
    assert titles(shelf, until="2020-01-01") == []
    created = listed(shelf).data[0].created_at
    assert titles(shelf, since=str(created + 100)) == []


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=x", "cursor=x", "outcome=good", "order=up", "since=yesterday", "until=2026-02-30"],
)
def test_what_cannot_be_read_is_refused_by_name(shelf: Service, query: str) -> None:
    answer = shelf.http.get(f"/v1/studio/documents?{query}")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, query.partition("=")[0])


def test_a_thumbnail_is_small_kept_and_of_this_document_only(shelf: Service, monkeypatch: Any) -> None:
    first, second = listed(shelf).data[:2]
    assert first.cover and second.cover
    answer = shelf.http.get(first.cover, params={"side": 160})
    assert (answer.headers["content-type"], "immutable" in answer.headers["cache-control"]) == (
        "image/webp",
        True,
    )
    assert max(Image.open(io.BytesIO(answer.content)).size) == 64  # the images here are no larger
    monkeypatch.setattr(shelf.documents, "record", lambda job: pytest.fail("the journal was read again"))
    assert shelf.http.get(first.cover, params={"side": 160}).content == answer.content
    monkeypatch.undo()
    other = first.cover.replace(first.id, second.id)
    assert shelf.http.get(other).status_code == 404
    for bad in ("0" * 64 + ".webp", "..%2f..%2fjobs.sqlite", "x.webp"):
        assert shelf.http.get(f"/v1/documents/{first.id}/thumbnails/{bad}").status_code == 404
    assert shelf.http.get(first.cover, params={"side": 999}).status_code == 400


def test_a_thumbnail_torn_by_a_crash_is_made_again(shelf: Service) -> None:
    item = listed(shelf).data[0]
    assert item.cover
    whole = shelf.http.get(item.cover).content
    (file,) = shelf.documents.folders.thumbnails(item.id).glob(
        f"{item.cover.rpartition('/')[2][:64]}-320.webp"
    )
    file.write_bytes(whole[:-20])
    assert shelf.http.get(item.cover).content == whole


def test_thumbnails_take_no_more_than_their_limit(shelf: Service) -> None:
    items = listed(shelf).data
    made = Thumbnails(shelf.documents.folders)
    names = [item.thumbnails[0].rpartition("/")[2].removesuffix(".webp") + ".png" for item in items]
    sizes = [len(made.made(item.id, name, 640)) for item, name in zip(items, names, strict=True)]
    bounded = Thumbnails(shelf.documents.folders, most_bytes=max(sizes))
    bounded.made(items[0].id, names[0], 640)
    left = (shelf.folder / "thumbnails").rglob("*.webp")
    assert sum(path.stat().st_size for path in left) <= max(sizes)
    assert shelf.http.get(items[1].thumbnails[0]).status_code == 200  # made again


def test_a_deleted_document_leaves_gallery_and_disk(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        running.sdk().responses.create(input="one image of a lighthouse")
        (item,) = listed(running, q="lighthouse").data
        running.http.get(item.cover or "")
        folder = running.documents.folders.thumbnails(item.id)
        assert folder.exists()
        running.http.delete(f"/v1/responses/{item.id}")
        running.until(lambda: listed(running, q="lighthouse").total == 0)
        assert not folder.exists()


def test_a_document_that_is_deleted_while_it_is_read_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Indexing._record

    def deleting(self: Indexing, job: Job) -> Any:
        asyncio.run_coroutine_threadsafe(self.documents.remove_job(job.id), running.loop).result()
        return read(self, job)

    with service(tmp_path) as running:
        running.sdk().responses.create(input="one image of a lighthouse")
        monkeypatch.setattr(Indexing, "_record", deleting)
        listed(running)
        running.until(lambda: listed(running).total == 0)


def test_keys_see_their_own_documents_only(tmp_path: Path) -> None:
    secrets = {name: add_key(tmp_path / FILE_NAME, name)[1] for name in ("alice", "bob")}
    with service(tmp_path) as running:
        running.sdk(secrets["alice"]).responses.create(input="one image")
        own = {"authorization": f"Bearer {secrets['alice']}"}
        others = {"authorization": f"Bearer {secrets['bob']}"}
        (item,) = running.http.get("/v1/studio/documents", headers=own).json()["data"]
        nothing = running.http.get("/v1/studio/documents", headers=others).json()
        assert (nothing["data"], nothing["total"], nothing["outcomes"]) == ([], 0, {})
        assert running.http.get(item["cover"], headers=own).status_code == 200
        assert running.http.get(item["cover"], headers=others).status_code == 404


def test_an_index_that_was_lost_is_made_again(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        running.sdk().responses.create(input="one image of a lighthouse")
        assert listed(running).total == 1
        gone = running.sdk().responses.create(input="one image of a boat").id
    for file in tmp_path.glob("studio.sqlite*"):
        file.unlink()
    with service(tmp_path) as running:
        running.until(lambda: listed(running).complete)
        assert len(titles(running, q="lighthouse")) == 1
        running.http.delete(f"/v1/responses/{gone}")
    with service(tmp_path) as running:
        assert titles(running) == ["one image of a lighthouse"]


def test_an_index_that_cannot_be_read_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "studio.sqlite").write_bytes(
        b"this is not a database, and long enough to be taken for one" * 20
    )
    catalogue = Catalogue.opened(tmp_path)
    assert asyncio.run(catalogue.states()) == {}
    catalogue.close()
    with sqlite3.connect(tmp_path / "studio.sqlite") as newer:
        newer.execute("PRAGMA user_version=99")
    newer.close()
    catalogue = Catalogue.opened(tmp_path)
    assert asyncio.run(catalogue.search(None, Search(), limit=1)).total == 0
    catalogue.close()


def test_a_disk_that_fails_is_told_and_what_is_there_is_shown(tmp_path: Path, monkeypatch: Any) -> None:
    async def full(*given: Any) -> None:
        raise StorageError("the disk is full")

    with service(tmp_path) as running:
        running.sdk().responses.create(input="one image of a lighthouse")
        assert listed(running).total == 1
        monkeypatch.setattr(Catalogue, "put", full)
        running.sdk().responses.create(input="one image of a boat")
        assert titles(running) == ["one image of a lighthouse"]
        monkeypatch.setattr(Catalogue, "search", lambda *given, **options: full())
        failed = running.http.get("/v1/studio/documents")
        assert (failed.status_code, failed.json()["error"]["code"]) == (503, "storage_failed")


# Thousands of documents


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return resolve(Choices(profile="dry-run"))[0]


def filled(catalogue: Catalogue, config: RunConfig, documents: int) -> None:
    def row(number: int) -> tuple[Job, Entry, str, str]:
        text = f"story {number} of the {'owl' if number % 100 == 0 else 'fox'}"
        parts = (RequestPart(text=text),)
        job = Job(id=new_job_id(), created=number, parts=parts, config=config, model="m", number=number)
        return job, entry_of(job, None, "mini"), "completed", words_of(job, None)

    asyncio.run(catalogue.put([row(number) for number in range(1, documents + 1)]))


@pytest.mark.parametrize("has_word_index", [True, False])
def test_a_page_of_thousands_reads_that_page_only(
    tmp_path: Path, config: RunConfig, has_word_index: bool
) -> None:
    catalogue = Catalogue(tmp_path)
    if not has_word_index:
        catalogue.has_word_index = False
    filled(catalogue, config, 2000)
    read = 0
    validate = Entry.model_validate_json

    def counted(*given: Any, **options: Any) -> Entry:
        nonlocal read
        read += 1
        return validate(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Entry, "model_validate_json", counted)
        found = asyncio.run(catalogue.search(None, Search(), limit=60))
        assert (len(found.entries), found.total, read) == (60, 2000, 60)
        page = asyncio.run(catalogue.search(None, Search(), limit=60, start=found.next))
        assert page.entries[0].title == "story 1940 of the fox"
        owls = asyncio.run(catalogue.search(None, Search(words="owl"), limit=60))
        assert (owls.total, owls.entries[0].title) == (20, "story 2000 of the owl")
    catalogue.close()
    with sqlite3.connect(tmp_path / "studio.sqlite") as connection:
        query = "SELECT entry FROM entries WHERE 1 AND number <= 1500 ORDER BY number DESC LIMIT 61"
        steps = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}"))
    connection.close()
    assert "TEMP B-TREE" not in steps and "PRIMARY KEY" in steps
