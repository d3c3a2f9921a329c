"""The library: example stories, runs of the command line, deletion and its undoing, sharing, web folders."""

from __future__ import annotations

import io
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from running import Service, service

from held import wait_until
from interleave.cli.main import run
from interleave.service.documents.keys import FILE_NAME, add_key
from interleave.service.documents.service import ServiceSettings
from interleave.studio.reading import NAMES
from interleave.studio.trash import KEEP_SECONDS


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("runs")
    with service(folder / "studio", settings=ServiceSettings(runs_beside=folder)) as running:
        yield running


def get(running: Service, path: str, **query: Any) -> Any:
    return running.http.get(path, params=query).raise_for_status().json()


def post(running: Service, path: str, body: Any = None) -> Any:
    return running.http.post(path, json=body or {}).raise_for_status().json()


def titles(running: Service, **query: Any) -> list[str]:
    return [item["title"] for item in get(running, "/v1/studio/documents", **query)["data"]]


def test_six_stories_can_be_read_and_made_ones_own(studio: Service) -> None:
    stories = get(studio, "/v1/studio/stories")["data"]
    assert [each["name"] for each in stories] == list(NAMES) and len(stories) == 6
    hen = get(studio, "/v1/studio/stories/hen")
    assert hen["title"] == "From the egg to the hen" and len(hen["steps"]) == 4
    for step in hen["steps"]:
        image = studio.http.get(step["picture"]).raise_for_status()
        assert image.headers["content-type"] == "image/png" and (step["width"], step["height"]) == (256, 256)
    own = post(studio, "/v1/studio/stories/hen/own")["id"]
    assert get(studio, f"/v1/documents/{own}")["status"] == "completed"
    post(studio, f"/v1/documents/{own}/words", {"title": "My hen"})
    wait_until(lambda: "My hen" in titles(studio))
    assert get(studio, "/v1/studio/stories/hen")["title"] == "From the egg to the hen"
    assert studio.http.get("/v1/studio/stories/..").status_code == 404
    assert studio.http.get(f"/v1/studio/stories/hen/images/{'0' * 64}.png").status_code == 404


def test_runs_of_the_command_line_are_shown_once(studio: Service) -> None:
    folder = studio.folder.parent
    asked = ["generate", "A frog by the pond, in two pictures", "--dry-run", "--out"]
    assert run([*asked, str(folder / "mine")]) == 0
    (folder / "no run").mkdir()
    (found,) = get(studio, "/v1/studio/documents", q="pond")["data"]
    assert found["status"] == "completed" and found["steps"] == 2
    post(studio, f"/v1/documents/{found['id']}/words", {"title": "The frog at home"})
    wait_until(lambda: titles(studio, q="pond") == ["The frog at home"])
    assert studio.http.delete(f"/v1/responses/{found['id']}").is_success
    assert titles(studio, q="pond") == []  # and it does not come back
    assert run(["show", str(folder / "mine"), "--words"]) == 0  # the run itself stays as it is


def test_what_is_deleted_can_be_restored_for_a_week(studio: Service) -> None:
    ids = [post(studio, f"/v1/studio/stories/{name}/own")["id"] for name in ("moon", "candle")]
    before = titles(studio)
    assert post(studio, "/v1/studio/delete", {"ids": [*ids, "resp_none"]})["ids"] == ids
    assert len(titles(studio)) == len(before) - 2
    assert get(studio, f"/v1/studio/documents/{ids[0]}/deletion") == {"deleted": True}
    assert sorted(titles(studio, outcome="deleted")) == ["How a candle burns down", "The phases of the moon"]
    assert post(studio, "/v1/studio/restore", {"ids": ids[:1]})["ids"] == ids[:1]
    assert get(studio, f"/v1/studio/documents/{ids[0]}/deletion") == {"deleted": False}
    assert titles(studio, outcome="deleted") == ["How a candle burns down"]
    assert "The phases of the moon" in titles(studio)
    marker = studio.folder / "trash" / ids[1]
    os.utime(marker, (time.time() - KEEP_SECONDS - 60,) * 2)
    post(studio, "/v1/studio/delete", {"ids": ids[:1]})  # looks for what has expired
    assert studio.http.get(f"/v1/documents/{ids[1]}").status_code == 404
    assert titles(studio, outcome="deleted") == ["The phases of the moon"]


def test_a_branch_says_what_it_was_branched_from(studio: Service) -> None:
    first = studio.sdk().responses.create(input="A lighthouse, in three pictures").id
    branch = post(studio, f"/v1/documents/{first}/branch", {"step": 2, "prompt": "A red lighthouse"})["id"]
    wait_until(lambda: get(studio, f"/v1/documents/{branch}")["status"] == "completed")
    found = {each["id"]: each for each in get(studio, "/v1/studio/documents", q="lighthouse")["data"]}
    assert (
        found[branch]["parent_title"] == "A lighthouse, in three pictures"
        and found[branch]["branch_step"] == 2
    )
    drawn = get(studio, f"/v1/documents/{branch}")["steps"][1]["picture"].rpartition("/")[2]
    assert drawn.removesuffix(".png") in found[branch]["cover"]  # the image that is new, not the last one
    assert found[first]["parent_title"] is None


def test_several_documents_become_a_folder_for_a_web_server(studio: Service, tmp_path: Path) -> None:
    ids = [post(studio, f"/v1/studio/stories/{name}/own")["id"] for name in ("frog", "rabbit")]
    exported = studio.http.get("/v1/studio/export", params={"ids": ",".join(ids), "format": "web"})
    with zipfile.ZipFile(io.BytesIO(exported.raise_for_status().content)) as archive:
        names = archive.namelist()
        page = archive.read("index.html").decode()
    assert names == ["01-how-a-frog-grows-up.html", "02-the-rabbit-and-the-carrot.html", "index.html"]
    assert all(f'href="{name}"' in page for name in names[:2]) and "data:image/webp" in page
    assert "http" not in page  # it loads nothing from elsewhere
    alone = studio.http.get("/v1/studio/export", params={"ids": ids[0], "format": "web"})
    with zipfile.ZipFile(io.BytesIO(alone.content)) as archive:
        assert archive.namelist() == ["index.html"]
    many = studio.http.get("/v1/studio/export", params={"ids": ",".join(ids), "format": "zip"})
    with zipfile.ZipFile(io.BytesIO(many.content)) as archive:
        assert [name.rpartition(".")[2] for name in archive.namelist()] == ["zip", "zip"]
    assert studio.http.get("/v1/studio/export", params={"ids": "resp_none"}).status_code == 400
    assert studio.http.get("/v1/studio/export", params={"ids": ids[0], "format": "exe"}).status_code == 400


def test_readers_with_the_link_see_the_document_and_nothing_else(tmp_path: Path) -> None:
    _, key = add_key(tmp_path / FILE_NAME, "alice")
    _, other = add_key(tmp_path / FILE_NAME, "bob")
    with service(tmp_path) as running:
        running.http.headers["authorization"] = f"Bearer {key}"
        id_ = post(running, "/v1/studio/stories/frog/own")["id"]
        address = f"/v1/studio/documents/{id_}/share"
        assert get(running, address)["token"] is None
        token = post(running, address)["token"]
        assert get(running, address)["token"] == token == post(running, address)["token"]
        with httpx.Client(base_url=running.url, trust_env=False) as reader:
            seen = reader.get(f"/v1/shared/{token}").raise_for_status()
            assert seen.json()["title"] == "How a frog grows up" and id_ not in seen.text
            assert "prompt" not in seen.text and seen.headers["x-robots-tag"] == "noindex"
            image = seen.json()["steps"][0]["picture"]
            assert reader.get(image).headers["content-type"] == "image/png"
            assert reader.get(f"/v1/documents/{id_}").status_code == 401
            assert reader.get(f"/v1/shared/{'0' * 32}").status_code == 404
            stranger = {"authorization": f"Bearer {other}"}
            assert reader.post(address, headers=stranger).status_code == 404
            assert reader.delete(address, headers=stranger).status_code == 404
            post(running, "/v1/studio/delete", {"ids": [id_]})
            assert reader.get(f"/v1/shared/{token}").status_code == 404
            post(running, "/v1/studio/restore", {"ids": [id_]})
            assert reader.get(f"/v1/shared/{token}").is_success
            assert running.http.delete(address).is_success
            assert reader.get(f"/v1/shared/{token}").status_code == 404
            assert reader.get(image).status_code == 404
