"""Pictures are served only as they were stored, through no link; nobody else reads the service's files."""

from __future__ import annotations

import io
import os
import sqlite3
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from PIL import Image
from running import DocumentServer, Service, service

from interleave.service.documents.keys import FILE_NAME, add_key
from interleave.service.documents.private_files import close_to_others

IMAGE = {"input": "A frog in one picture"}


def altered(run: Path, image: Path) -> None:
    data = bytearray(image.read_bytes())
    data[-5] ^= 1
    image.write_bytes(data)


def linked(run: Path, image: Path) -> None:
    """The same bytes, but behind a link."""
    elsewhere = run.parent / "elsewhere.png"
    image.rename(elsewhere)
    image.symlink_to(elsewhere)


def folder_linked(run: Path, image: Path) -> None:
    elsewhere = run.parent / "elsewhere"
    image.parent.rename(elsewhere)
    (run / "images").symlink_to(elsewhere)


def run_linked(run: Path, image: Path) -> None:
    elsewhere = run.parent / "elsewhere"
    run.rename(elsewhere)
    run.symlink_to(elsewhere)


def piped(run: Path, image: Path) -> None:
    image.unlink()
    os.mkfifo(image)


HARM = [altered, linked, folder_linked, run_linked, piped]


def addresses(running: Service, id_: str, name: str) -> list[str]:
    signed = running.documents.addresses.path_of(id_, name)
    thumbnail = f"/v1/documents/{id_}/thumbnails/{name.removesuffix('png')}webp?side=160"
    return [f"/v1/documents/{id_}/pictures/{name}", signed, thumbnail]


@pytest.mark.parametrize("harm", HARM, ids=lambda harm: harm.__name__)
def test_G32_a_picture_that_is_not_as_it_was_stored_is_not_served(
    tmp_path: Path, harm: Callable[[Path, Path], None]
) -> None:
    with service(tmp_path) as running:
        id_ = running.http.post("/v1/responses", json=IMAGE).json()["id"]
        run = running.documents.folders.run(id_)
        (image,) = (run / "images").iterdir()
        name, data = image.name, image.read_bytes()
        harm(run, image)
        for path in addresses(running, id_, name):
            assert running.http.get(path).status_code in (404, 500), path
        if harm is run_linked:  # nothing of the job is read
            assert running.http.get(f"/v1/documents/{id_}").status_code == 500
            return
        items = running.http.get(f"/v1/responses/{id_}").json()["output"]
        assert [each["result"] for each in items if each["type"] == "image_generation_call"] == [None]
        with zipfile.ZipFile(
            io.BytesIO(running.http.get(f"/v1/documents/{id_}/document.zip").content)
        ) as zipped:
            assert not [each for each in zipped.namelist() if each.endswith(".png")]
        for exported in ("html", "epub"):
            assert data[-60:] not in running.http.get(f"/v1/documents/{id_}/document.{exported}").content


def test_G32_an_upload_that_is_not_as_it_was_stored_is_not_served(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(buffer, "PNG")
    with service(tmp_path) as running:
        sent = {"file": ("a.png", buffer.getvalue())}
        id_ = running.http.post("/v1/files", files=sent, data={"purpose": "vision"}).json()["id"]
        assert running.http.get(f"/v1/files/{id_}/content").status_code == 200
        (image,) = (tmp_path / "files" / "images").iterdir()
        linked(tmp_path / "files", image)
        assert running.http.get(f"/v1/files/{id_}/content").status_code == 404
        asked = [{"role": "user", "content": [{"type": "input_image", "file_id": id_}]}]
        refused = running.http.post("/v1/responses", json={"input": asked})
        assert refused.status_code >= 400


@contextmanager
def open_umask() -> Iterator[None]:
    """Processes started meanwhile inherit the most generous umask."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def readable_by_others(folder: Path) -> list[str]:
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if stat.S_IMODE(path.lstat().st_mode) & 0o077 and not path.is_symlink()
    ]


def test_B21_nobody_else_reads_what_a_service_writes(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with open_umask():
        command = [sys.executable, "-m", "interleave", "serve", "keys", "add", "me", "--runs", str(runs)]
        key = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        server = DocumentServer(tmp_path / "server", "--dry-run", "--runs", str(runs))
    try:
        client = httpx.Client(
            base_url=server.url, headers={"authorization": f"Bearer {key}"}, trust_env=False
        )
        buffer = io.BytesIO()
        Image.new("RGB", (64, 64), "red").save(buffer, "PNG")
        file = client.post("/v1/files", files={"file": buffer.getvalue()}, data={"purpose": "vision"}).json()
        content = [{"type": "input_text", "text": "A frog"}, {"type": "input_image", "file_id": file["id"]}]
        asked = {"input": [{"role": "user", "content": content}]}
        id_ = client.post("/v1/responses", json=asked, timeout=120).raise_for_status().json()["id"]
        assert client.get(f"/v1/documents/{id_}").json()["status"] == "completed"
        client.post("/v1/studio/session")
        written = {path.name for path in runs.rglob("*")}
        assert {
            "keys.json",
            "jobs.sqlite",
            "jobs.sqlite-wal",
            "journal.jsonl",
            "images",
            "sessions.secret",
        } <= written
        assert readable_by_others(runs) == []
        assert stat.S_IMODE(runs.stat().st_mode) == 0o700
        client.close()
    finally:
        assert server.stop() == 0
    assert readable_by_others(runs) == []


def test_B21_what_an_earlier_version_left_open_is_closed(tmp_path: Path) -> None:
    with open_umask():
        for name in ("runs", "files", "own"):
            (tmp_path / name).mkdir()
        sqlite3.connect(tmp_path / "jobs.sqlite").execute("CREATE TABLE t (a)").connection.close()
        (tmp_path / "jobs.sqlite-wal").touch()
        (tmp_path / "endpoints.txt").touch()
    before = tmp_path.stat().st_mode
    close_to_others(tmp_path)
    assert sorted(readable_by_others(tmp_path)) == ["endpoints.txt", "own"]
    assert tmp_path.stat().st_mode == before


def test_B21_keys_are_written_for_their_user_only(tmp_path: Path) -> None:
    with open_umask():
        add_key(tmp_path / FILE_NAME, "alice")
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
