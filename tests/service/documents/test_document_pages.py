"""Documents as JSON, page, Markdown and archive; images by their content; uploads."""

from __future__ import annotations

import hashlib
import io
import zipfile
from typing import Any

import pytest
from PIL import Image
from running import Service
from serving import png

ASKED = "How a <b>frog</b> grows up, in two pictures"


@pytest.fixture(scope="module")
def frog(running: Service) -> str:
    return str(running.sdk().responses.create(input=ASKED, metadata={"page": "3"}).id)


def test_the_document_has_plan_attempts_verdicts_and_links(running: Service, frog: str) -> None:
    found = running.http.get(f"/v1/documents/{frog}").json()
    assert (found["status"], found["title"], found["metadata"]) == ("completed", ASKED, {"page": "3"})
    assert [step["accepted"] for step in found["steps"]] == [True, True]
    assert [step["before"] for step in found["steps"]] == [None, found["steps"][0]["picture"]]
    assert found["steps"][1]["attempts"][0]["verdict"]["outcome"] == "rejected"
    for link in found["links"].values():
        assert running.http.get(link).status_code == 200
    assert running.http.get(found["links"]["plan"]).json() == found["plan"]
    assert running.http.get(found["links"]["steps"]).json()["data"] == found["steps"]
    assert str(running.folder) not in running.http.get(f"/v1/documents/{frog}").text


def test_G23_images_are_named_by_their_content_and_served_as_nothing_else(
    running: Service, frog: str
) -> None:
    step = running.http.get(f"/v1/documents/{frog}/steps").json()["data"][0]
    answer = running.http.get(step["picture"])
    name = step["picture"].rpartition("/")[2]
    assert hashlib.sha256(answer.content).hexdigest() == name.removesuffix(".png")
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "immutable" in answer.headers["cache-control"]
    assert Image.open(io.BytesIO(answer.content)).size == (64, 64)
    for other in ("0" * 64 + ".png", "..%2f..%2fjobs.sqlite", "journal.jsonl", name.upper()):
        assert running.http.get(f"/v1/documents/{frog}/pictures/{other}").status_code == 404


def test_G22_the_page_shows_text_as_text_and_runs_nothing(running: Service, frog: str) -> None:
    page = running.http.get(f"/v1/documents/{frog}/document.html")
    assert "sandbox" in page.headers["content-security-policy"]
    assert "<b>frog</b>" not in page.text
    assert "&lt;b&gt;frog" in page.text


def test_markdown_links_to_the_images_of_the_service(running: Service, frog: str) -> None:
    text = running.http.get(f"/v1/documents/{frog}/document.md").text
    links = [line.partition("](")[2].rstrip(")") for line in text.splitlines() if line.startswith("![")]
    assert len(links) == 2
    for link in links:
        assert running.http.get(link).headers["content-type"] == "image/png"


def test_the_archive_is_whole_and_has_no_paths_of_the_service(running: Service, frog: str) -> None:
    plain = running.http.get(f"/v1/documents/{frog}/document.zip").content
    with zipfile.ZipFile(io.BytesIO(plain)) as archive:
        assert "run.json" not in archive.namelist() and len(archive.namelist()) == 4
    data = running.http.get(f"/v1/documents/{frog}/document.zip?details=true").content
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert {"document.html", "document.md", "run.json"} < set(names)
        assert sum(name.startswith("images/") for name in names) == 3
        assert str(running.folder).encode() not in b"".join(map(archive.read, names))


def test_documents_are_listed_newest_first_and_in_pages(running: Service) -> None:
    made = [running.sdk().responses.create(input="A frog in one picture").id for _ in range(3)]
    first = running.http.get("/v1/documents", params={"limit": 2}).json()
    assert [each["id"] for each in first["data"]] == [made[2], made[1]]
    assert first["has_more"]
    second = running.http.get("/v1/documents", params={"limit": 2, "after": made[1]}).json()
    assert second["data"][0]["id"] == made[0]
    for limit in ("0", "101", "x", "١", "9" * 30):
        assert running.http.get("/v1/documents", params={"limit": limit}).status_code == 400


def test_uploaded_images_are_used_by_their_id(running: Service) -> None:
    sdk = running.sdk()
    file = sdk.files.create(file=("../../x.png", png("red", (40, 30))), purpose="vision")
    assert (file.object, file.bytes, file.filename) == ("file", len(png("red", (40, 30))), "image.png")
    assert sdk.files.retrieve(file.id).id == file.id
    assert file.id in [each.id for each in sdk.files.list().data]
    assert Image.open(io.BytesIO(sdk.files.content(file.id).read())).size == (40, 30)
    content: Any = [
        {"type": "input_text", "text": "Change this in one picture"},
        {"type": "input_image", "file_id": file.id, "detail": "auto"},
    ]
    answer = sdk.responses.create(input=[{"role": "user", "content": content}])
    assert answer.status == "completed"
    assert running.generator.calls[-1].sources[0].size == (40, 30)
    shown = running.http.get(f"/v1/documents/{answer.id}").json()["request"]
    assert running.http.get(shown[1]["picture"]).headers["content-type"] == "image/png"
    twin = sdk.files.create(file=("y.png", png("red", (40, 30))), purpose="vision")
    assert sdk.files.delete(file.id).deleted
    assert running.http.get(f"/v1/files/{file.id}").status_code == 404
    assert Image.open(io.BytesIO(sdk.files.content(twin.id).read())).size == (40, 30)
    sdk.files.delete(twin.id)
    assert not list((running.folder / "files").rglob("*.png"))


def test_an_upload_that_is_no_image_is_refused(running: Service) -> None:
    for data in (b"", b"<svg onload=alert(1)>", b"\x89PNG\r\n\x1a\n" + b"\0" * 50):
        answer = running.http.post("/v1/files", files={"file": ("x.png", data)}, data={"purpose": "vision"})
        assert answer.status_code == 400
    assert running.http.post("/v1/files", data={"purpose": "vision"}, files={"f": b"x"}).status_code == 400
