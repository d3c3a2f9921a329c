"""Named things that must stay the same, sent with a request over HTTP."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from running import HeldGenerator, Service, service
from serving import png

ASKED = "How a frog grows up, in two pictures"
IMAGE = "data:image/png;base64," + base64.b64encode(png("red")).decode()
FROG = {"name": "frog", "description": "a small green frog", "image_url": IMAGE}
POND = {"name": "pond", "kind": "place", "description": "a round pond"}


def make(running: Service, assets: Any, **more: Any) -> dict[str, Any]:
    body = {"input": ASKED, "interleave": {"assets": assets, **more.pop("own", {})}, **more}
    answer = running.http.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def document(running: Service, id_: str) -> dict[str, Any]:
    return running.http.get(f"/v1/documents/{id_}").json()


def test_assets_go_to_the_plan_the_prompts_and_the_generator(running: Service) -> None:
    before = len(running.generator.calls)
    made = make(running, [FROG, POND])
    assert made["status"] == "completed", made["error"]
    found = document(running, made["id"])
    assert [(each["name"], each["kind"]) for each in found["assets"]] == [
        ("frog", "character"),
        ("pond", "place"),
    ]
    assert [each["name"] for each in found["plan"]["assets"]] == ["frog", "pond"]
    first = running.generator.calls[before]
    assert "frog: a small green frog." in first.prompt
    assert first.sources[0].getpixel((0, 0)) == (255, 0, 0)
    shown = running.http.get(found["assets"][0]["picture"])
    assert Image.open(io.BytesIO(shown.content)).getpixel((0, 0)) == (255, 0, 0)
    assert found["assets"][1]["picture"] is None
    assert "--asset 'frog: a small green frog'" in found["command"]
    assert "--asset 'pond (place): a round pond'" in found["command"]


def test_the_drift_of_every_step_is_with_the_document(running: Service) -> None:
    found = document(running, make(running, [FROG])["id"])
    drift = found["steps"][1]["drift"]
    assert set(drift["identity"]) == {"frog"}
    assert 0 <= drift["changed"] <= 1


def test_an_upload_can_be_the_image_of_an_asset(running: Service) -> None:
    sent = {"file": ("frog.png", png("red"), "image/png")}
    file = running.http.post("/v1/files", files=sent, data={"purpose": "vision"}).json()
    found = document(running, make(running, [{"name": "frog", "file_id": file["id"]}])["id"])
    assert found["assets"][0]["picture"]


@pytest.mark.parametrize(
    ("assets", "where"),
    [
        ("frog", "interleave.assets"),
        ([FROG] * 2, "interleave.assets[1].name"),
        ([{**FROG, "name": f"frog {number}"} for number in range(33)], "interleave.assets"),
        ([{"name": "frog"}], "interleave.assets[0]"),
        ([{"name": "", "description": "x"}], "interleave.assets[0].name"),
        ([{"name": "a" * 61, "description": "x"}], "interleave.assets[0].name"),
        ([{"name": 7, "description": "x"}], "interleave.assets[0].name"),
        ([{**POND, "kind": "animal"}], "interleave.assets[0].kind"),
        ([{**POND, "kind": ["place"]}], "interleave.assets[0].kind"),
        ([{**POND, "description": "x" * 40_000}], "interleave.assets[0].description"),
        ([{**POND, "description": "\x00"}], "interleave.assets[0].description"),
        ([{**FROG, "image_url": "http://example.org/frog.png"}], "interleave.assets[0].image_url"),
        ([{**FROG, "file_id": "file-1"}], "interleave.assets[0]"),
        ([{**FROG, "colour": "green"}], "colour"),
    ],
)
def test_what_is_wrong_with_an_asset_is_refused_by_its_place(
    running: Service, assets: Any, where: str
) -> None:
    answer = running.http.post("/v1/responses", json={"input": ASKED, "interleave": {"assets": assets}})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == where


def test_a_continuation_keeps_the_assets_unless_they_are_given_anew(running: Service) -> None:
    first = make(running, [FROG, POND])["id"]
    other = {"name": "Pond", "kind": "place", "description": "a square pond"}
    found = document(running, make(running, [other], previous_response_id=first)["id"])
    assert [(each["name"], each["description"]) for each in found["assets"]] == [
        ("frog", "a small green frog"),
        ("Pond", "a square pond"),
    ]


def test_the_other_apis_take_assets_too(running: Service) -> None:
    body = {"messages": [{"role": "user", "content": ASKED}], "interleave": {"assets": [FROG]}}
    before = len(running.generator.calls)
    assert running.http.post("/v1/chat/completions", json=body).status_code == 200
    assert "a small green frog" in running.generator.calls[before].prompt


def test_assets_of_an_edited_plan_go_with_their_steps_and_stay_where_none_are_sent(running: Service) -> None:
    held = make(running, [POND], own={"hold_plan": True})["id"]
    plan = running.http.get(f"/v1/documents/{held}/plan").json()
    steps = [{"prompt": "a pond", "caption": "new"}, *plan["steps"]]
    assets = [{"name": "frog", "description": "green", "step": 1}, *plan["assets"]]
    body = {"plan": {"steps": steps, "assets": assets}}
    released = running.http.post(f"/v1/documents/{held}/plan/release", json=body)
    assert released.status_code == 200, released.text
    found = running.http.get(f"/v1/documents/{held}/plan").json()
    running.until(lambda: document(running, held)["status"] == "completed")
    found = document(running, held)["plan"]
    assert [(each["name"], each["step"]) for each in found["assets"]] == [("frog", 2), ("pond", None)]
    other = make(running, [POND], own={"hold_plan": True})["id"]
    body = {"plan": {"steps": plan["steps"][:1]}}
    assert running.http.post(f"/v1/documents/{other}/plan/release", json=body).status_code == 200
    running.until(lambda: document(running, other)["status"] == "completed")
    assert [each["name"] for each in document(running, other)["plan"]["assets"]] == ["pond"]


def test_what_is_only_described_can_be_drawn_first_as_a_sheet(running: Service) -> None:
    made = make(running, [{"name": "frog", "description": "a small green frog"}], own={"sheets": True})
    plan = document(running, made["id"])["plan"]
    assert plan["assets"][0]["step"] == 1
    assert "character sheet" in plan["steps"][0]["prompt"]
    wrong = {"input": ASKED, "interleave": {"sheets": "yes"}}
    assert running.http.post("/v1/responses", json=wrong).json()["error"]["param"] == "interleave.sheets"


def test_a_job_that_waits_keeps_its_assets_over_a_restart(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(0)) as before:
        body = {"input": ASKED, "background": True, "interleave": {"assets": [FROG, POND]}}
        id_ = before.http.post("/v1/responses", json=body).json()["id"]
        before.until(lambda: before.generator.calls)
    with service(tmp_path) as after:
        after.until(lambda: document(after, id_)["status"] == "completed")
        assert [each["name"] for each in document(after, id_)["assets"]] == ["frog", "pond"]
        assert "a small green frog" in after.generator.calls[0].prompt
    assert not list((tmp_path / "inputs").iterdir())
