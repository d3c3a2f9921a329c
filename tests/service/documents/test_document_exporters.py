"""A format of another package in the service: it is listed, linked and sent."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import service

from example_packages import example_package, put_on_path
from interleave.render.exports import known_formats
from interleave.service.documents.service import ServiceSettings


@pytest.fixture
def comics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of the how-to, installed before the service looks for formats."""
    site = example_package("how-to/add-an-exporter.md").build(tmp_path / "package")
    put_on_path(site, "comic_export", monkeypatch)
    known_formats.cache_clear()
    yield
    known_formats.cache_clear()


@pytest.mark.usefixtures("comics")
def test_a_document_is_sent_in_a_format_of_another_package(tmp_path: Path) -> None:
    with service(tmp_path / "documents") as running:
        id_ = running.sdk().responses.create(input="two images").id
        listed = running.http.get("/v1/studio/start").json()["exports"]
        assert [each["available"] for each in listed if each["format"] == "cbt"] == [True]
        link = running.http.get(f"/v1/documents/{id_}").json()["links"]["document.cbt"]
        sent = running.http.get(link)
    assert sent.headers["content-type"] == "application/vnd.comicbook+tar"
    assert "attachment" in sent.headers["content-disposition"]
    with tarfile.open(fileobj=io.BytesIO(sent.content)) as archive:
        assert len(archive.getnames()) == 2


def test_a_document_is_sent_in_the_languages_of_the_texts_in_the_body(tmp_path: Path) -> None:
    with service(tmp_path / "documents") as running:
        id_ = running.sdk().responses.create(input="two images").id
        address = f"/v1/documents/{id_}/document"
        words = running.http.get(f"{address}.texts?language=de").text
        texts = re.sub(r'(?m)^text = ""', 'text = "Zwei Bilder"', words)
        sent = running.http.post(f"{address}.html", json={"texts": [texts]})
        assert sent.text.count("Zwei Bilder") >= 3 and 'lang="de"' in sent.text and "two images" in sent.text
        only = running.http.post(f"{address}.html?language=de", json={"texts": [texts]}).text
        assert "Zwei Bilder" in only and '<h1 lang="de"' in only
        refused = running.http.post(f"{address}.html", json={"texts": ["language = 7"]})
        assert refused.status_code == 400
        assert refused.json()["error"]["message"].startswith("texts-1.toml: ")
        for wrong in ("language=!", "language=fr,de", "paper=a77&bleed=1"):
            assert running.http.get(f"{address}.pdf?{wrong}").status_code == 400, wrong


def test_a_book_that_cannot_be_set_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("typst")
    monkeypatch.setenv("INTERLEAVE_ONLY_FONTS", "1")
    with service(tmp_path / "documents") as running:
        id_ = running.sdk().responses.create(input="two images of 中文").id
        sent = running.http.get(f"/v1/documents/{id_}/document.pdf?layout=one")
        assert sent.status_code == 400 and "Noto Serif CJK" in sent.json()["error"]["message"]
        sent = running.http.get(f"/v1/documents/{id_}/document.pdf?paper=a77")
        assert sent.status_code == 400 and "paper=a77" in sent.json()["error"]["message"]
        assert running.http.get(f"/v1/documents/{id_}/document.epub").status_code == 200


def test_an_export_is_signed_with_the_key_of_the_service_and_says_that_ai_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("c2pa")
    from interleave.provenance.reading import credentials_of

    monkeypatch.setenv("INTERLEAVE_CONFIG", str(tmp_path / "config"))
    with service(tmp_path / "documents", settings=ServiceSettings(sign="self")) as running:
        id_ = running.sdk().responses.create(input="two images").id
        address = f"/v1/documents/{id_}/document"
        assert running.http.get("/v1/studio/start").json()["signs"] is True
        epub = running.http.get(f"{address}.epub?sign=true&ai_notice=true").content
        assert credentials_of(epub).state == "intact"
        with zipfile.ZipFile(io.BytesIO(epub)) as book:
            assert any(b"Made with AI" in book.read(name) for name in book.namelist())
        sent = running.http.get(f"{address}.html?sign=true&ai_notice=true")
        assert sent.headers["content-type"] == "application/zip"
        with zipfile.ZipFile(io.BytesIO(sent.content)) as both:
            page, credentials = both.namelist()
            assert credentials == f"{page}.c2pa" and page in sent.headers["content-disposition"]
            assert credentials_of(both.read(page), both.read(credentials)).state == "intact"
        assert credentials_of(running.http.get(f"{address}.epub").content).state == "none"
        (tmp_path / "config" / "signing" / "key.pem").write_text("damaged")
        refused = running.http.get(f"{address}.epub?sign=true")
        assert refused.status_code == 500 and str(tmp_path) not in refused.text


def test_a_service_without_a_key_refuses_to_sign(tmp_path: Path) -> None:
    with service(tmp_path / "documents") as running:
        id_ = running.sdk().responses.create(input="two images").id
        assert running.http.get("/v1/studio/start").json()["signs"] is False
        refused = running.http.get(f"/v1/documents/{id_}/document.epub?sign=true")
    assert refused.status_code == 501
    assert refused.json()["error"]["code"] == "not_configured"
    assert "has named no key" in refused.json()["error"]["message"]
