"""API keys: hashed at rest, scoped, revoked at once; one key never sees another's jobs. Quotas and queue."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest
from running import HeldGenerator, Service, service
from serving import png

from interleave.cli.main import run
from interleave.errors import ConfigurationError
from interleave.runs.resolve import Choices
from interleave.service.documents.keys import FILE_NAME, KeyAccess, add_key, read_keys, revoke_key
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.server import DocumentsConfig, check_public
from interleave.service.documents.service import ServiceSettings

ASKED = {"input": "A frog, in one picture", "background": True}


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_keys_are_hashed_at_rest_and_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    key, secret = add_key(path, "alice")
    assert secret not in path.read_text()
    assert key.digest not in secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ConfigurationError, match="already"):
        add_key(path, "alice")
    with pytest.raises(ConfigurationError, match="no scope"):
        add_key(path, "bob", ["everything"])


def test_a_revoked_key_is_refused_from_the_next_request_on(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    _, secret = add_key(path, "alice")
    access = KeyAccess(path)
    assert access.check("/v1/responses", {"authorization": f"Bearer {secret}"})
    revoke_key(path, "alice")
    with pytest.raises(ApiRefusal) as refused:
        access.check("/v1/responses", {"authorization": f"Bearer {secret}"})
    assert refused.value.status == 401
    path.unlink()  # a file that is gone opens nothing
    with pytest.raises(ApiRefusal):
        access.check("/v1/responses", {"host": "localhost"})
    assert read_keys(path) == []


def test_a_file_that_cannot_be_read_leaves_the_keys_from_before(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    _, secret = add_key(path, "alice")
    access = KeyAccess(path)
    path.write_text("{")
    assert access.check("/v1/responses", {"authorization": f"Bearer {secret}"})
    with pytest.raises(ConfigurationError):
        KeyAccess(path)


def test_G20_without_keys_only_this_machine_is_served(tmp_path: Path) -> None:
    config = DocumentsConfig(Choices(profile="dry-run"), folder=tmp_path, host="0.0.0.0")
    with pytest.raises(ConfigurationError, match="no API key"):
        check_public(config, KeyAccess(config.keys_path))
    add_key(config.keys_path, "alice")
    check_public(config, KeyAccess(config.keys_path))


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("keyed")
    path = folder / FILE_NAME
    secrets = {
        "alice": add_key(path, "alice")[1],
        "bob": add_key(path, "bob")[1],
        "reader": add_key(path, "reader", ["read"])[1],
        "root": add_key(path, "root", ["admin"])[1],
    }
    with service(folder) as running:
        yield running, secrets


def test_G09_one_key_never_sees_what_another_has(keyed: tuple[Service, dict[str, str]]) -> None:
    running, secrets = keyed
    alice, bob = bearer(secrets["alice"]), bearer(secrets["bob"])
    mine = running.http.post("/v1/responses", json={**ASKED, "background": False}, headers=alice).json()["id"]
    address = running.http.get(f"/v1/documents/{mine}", headers=alice).json()["steps"][0]["picture"]
    upload = running.http.post(
        "/v1/files", files={"file": ("x.png", png())}, data={"purpose": "vision"}, headers=alice
    ).json()["id"]
    paths = [
        f"/v1/responses/{mine}",
        f"/v1/responses/{mine}?stream=true",
        *(f"/v1/documents/{mine}{end}" for end in ("", "/plan", "/steps", "/events", "/document.html")),
        *(f"/v1/documents/{mine}{end}" for end in ("/document.md", "/document.zip")),
        address,
        f"/v1/files/{upload}",
        f"/v1/files/{upload}/content",
    ]
    for path in paths:
        assert running.http.get(path, headers=alice).status_code == 200, path
        other = running.http.get(path, headers=bob)
        never = running.http.get(path.replace(mine, "resp_" + "0" * 48), headers=bob)
        assert other.status_code == 404, path
        assert other.text.replace(mine, "ID") == never.text.replace("resp_" + "0" * 48, "ID")
        assert running.http.get(path, headers=bearer(secrets["root"])).status_code == 200
    assert running.http.post(f"/v1/responses/{mine}/cancel", headers=bob).status_code == 404
    assert running.http.delete(f"/v1/responses/{mine}", headers=bob).status_code == 404
    assert running.http.delete(f"/v1/files/{upload}", headers=bob).status_code == 404
    continued = {"input": "more", "previous_response_id": mine}
    assert running.http.post("/v1/responses", json=continued, headers=bob).status_code == 404
    image = {"role": "user", "content": [{"type": "input_image", "file_id": upload}]}
    assert running.http.post("/v1/responses", json={"input": [image]}, headers=bob).status_code == 404
    assert running.http.get("/v1/documents", headers=bob).json()["data"] == []
    assert running.http.get("/v1/files", headers=bob).json()["data"] == []


def test_G09_no_route_tells_one_key_whether_another_has_something(
    keyed: tuple[Service, dict[str, str]],
) -> None:
    """What it answers about a stranger's job or upload is what it answers about one that never was."""
    running, secrets = keyed
    alice, bob = bearer(secrets["alice"]), bearer(secrets["bob"])
    job = running.http.post("/v1/responses", json={**ASKED, "background": False}, headers=alice).json()["id"]
    document = running.http.get(f"/v1/documents/{job}", headers=alice).json()
    image = document["steps"][0]["picture"].rpartition("/")[2]
    upload = running.http.post(
        "/v1/files", files={"file": ("x.png", png())}, data={"purpose": "vision"}, headers=alice
    ).json()["id"]
    bodies: list[dict[str, object]] = [{}, {"step": 1, "attempt": 1}, {"step": 1}, {"attempt": 1}]
    asked = 0
    for method, route in running.routes:
        if "{id}" not in route:
            continue
        mine, never = (upload, "file-" + "0" * 32) if "/files/" in route else (job, "resp_" + "0" * 48)
        for body in bodies if method == "POST" else [{}]:
            answers = []
            for id_ in (mine, never):
                path = route.replace("{id}", id_).replace("{step}", "1").replace("{name}", image)
                answer = running.http.request(method, path, json=body, headers=bob)
                answers.append((answer.status_code, answer.text.replace(id_, "ID")))
            assert answers[0] == answers[1], (method, route)
            assert 400 <= answers[0][0] < 500, (method, route)
            asked += 1
    assert asked > 20
    assert running.http.get(f"/v1/documents/{job}", headers=alice).json() == document


def test_G19_no_key_a_wrong_one_or_one_in_the_address_is_401(keyed: tuple[Service, dict[str, str]]) -> None:
    running, secrets = keyed
    for headers in (
        {},
        bearer("ilk-wrong"),
        {"Authorization": secrets["alice"]},
        {"Authorization": "Bearer"},
    ):
        answer = running.http.get("/v1/documents", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    assert running.http.get("/v1/documents", params={"api_key": secrets["alice"]}).status_code == 401
    assert running.http.get("/health").status_code == 200


def test_scopes_are_kept(keyed: tuple[Service, dict[str, str]]) -> None:
    running, secrets = keyed
    reader, alice = bearer(secrets["reader"]), bearer(secrets["alice"])
    assert running.http.get("/v1/documents", headers=reader).status_code == 200
    refused = running.http.post("/v1/responses", json=ASKED, headers=reader)
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "insufficient_permissions"
    assert running.http.get("/metrics", headers=alice).status_code == 403
    scraped = running.http.get("/metrics", headers=bearer(secrets["root"])).text
    assert "interleave_documents_oldest_job_seconds" in scraped


def test_G21_pages_of_other_sites_and_foreign_names_are_refused(running: Service) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
        assert running.http.post("/v1/responses", json=ASKED, headers=headers).status_code == 403


def test_G06_the_same_idempotency_key_is_the_same_job(tmp_path: Path) -> None:
    _, alice = add_key(tmp_path / FILE_NAME, "alice")
    _, bob = add_key(tmp_path / FILE_NAME, "bob")
    headers = {"Idempotency-Key": "order-1"}
    generator = HeldGenerator(free=0)
    with service(tmp_path, generator=generator) as first:

        async def at_once() -> list[httpx.Response]:
            async with httpx.AsyncClient(base_url=first.url, trust_env=False, timeout=60) as client:
                return await asyncio.gather(
                    *(
                        client.post("/v1/responses", json=ASKED, headers={**headers, **bearer(alice)})
                        for _ in range(8)
                    )
                )

        answers = asyncio.run(at_once())
        ids = {answer.json()["id"] for answer in answers}
        assert len(ids) == 1
        other_body = first.http.post(
            "/v1/responses", json={**ASKED, "input": "A cat"}, headers={**headers, **bearer(alice)}
        )
        assert (other_body.status_code, other_body.json()["error"]["code"]) == (422, "idempotency_key_reused")
        other_key = first.http.post("/v1/responses", json=ASKED, headers={**headers, **bearer(bob)})
        assert other_key.json()["id"] not in ids
        # the inputs of a request that came twice are not kept
        assert not list((tmp_path / "inputs").iterdir())
    with service(tmp_path, generator=generator) as second:
        again = second.http.post("/v1/responses", json=ASKED, headers={**headers, **bearer(alice)})
        assert again.json()["id"] in ids
        reordered = json.loads(json.dumps(ASKED, sort_keys=True))
        same = second.http.post("/v1/responses", json=reordered, headers={**headers, **bearer(alice)})
        assert same.json()["id"] in ids
        generator.free = 1000


def test_G05_a_full_queue_refuses_at_once_and_keeps_nothing(tmp_path: Path) -> None:
    settings = ServiceSettings(concurrency=1, queue=2)
    with service(tmp_path, generator=HeldGenerator(free=0), settings=settings) as held:
        for _ in range(3):
            assert held.http.post("/v1/responses", json=ASKED).status_code == 200
        refused = held.http.post("/v1/responses", json=ASKED, headers={"Idempotency-Key": "late"})
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert len(held.http.get("/v1/documents").json()["data"]) == 3
        held.generator.free = 1000
        held.until(lambda: held.do(held.jobs.load()).waiting == 0)
        assert held.http.post("/v1/responses", json=ASKED, headers={"Idempotency-Key": "late"}).is_success


def test_a_key_at_its_quota_gets_429_and_others_go_on(tmp_path: Path) -> None:
    _, alice = add_key(tmp_path / FILE_NAME, "alice", max_jobs=2)
    _, bob = add_key(tmp_path / FILE_NAME, "bob", per_hour=1)
    with service(tmp_path, generator=HeldGenerator(free=0)) as held:
        codes = [
            held.http.post("/v1/responses", json=ASKED, headers=bearer(key)).status_code
            for key in (alice, alice, alice, bob, bob)
        ]
        assert codes == [200, 200, 429, 200, 429]
        held.generator.free = 1000


def test_J22_a_quota_per_hour_holds_over_a_restart(tmp_path: Path) -> None:
    _, bob = add_key(tmp_path / FILE_NAME, "bob", per_hour=1)
    codes = []
    for _ in range(2):
        with service(tmp_path) as running:
            answer = running.http.post("/v1/responses", json=ASKED, headers=bearer(bob))
            codes.append(answer.status_code)
    assert codes == [200, 429]
    assert int(answer.headers["retry-after"]) > 3000


def test_keys_are_made_listed_and_revoked_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--runs", str(tmp_path)]
    assert run(["serve", "keys", "add", "alice", "--scope", "read", "--max-jobs", "3", *here]) == 0
    secret = capsys.readouterr().out.strip()
    assert KeyAccess(tmp_path / FILE_NAME).check("/v1/documents", {"authorization": f"Bearer {secret}"})
    assert run(["serve", "keys", "list", *here]) == 0
    listed = capsys.readouterr().out
    assert "alice" in listed
    assert "read" in listed
    assert secret not in listed
    assert run(["serve", "keys", "revoke", "alice", *here]) == 0
    assert run(["serve", "keys", "revoke", "alice", *here]) == 2
    assert run(["serve", "keys", "add", "bob", "--scope", "root", *here]) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--host", "0.0.0.0"],
        ["--jobs", "postgres://x"],
        ["--profile", "no-such-profile"],
        ["--log-format", "xml"],
        ["--ignore", "stream"],
        ["--webhook-host", "hooks.example.com"],  # without a secret
    ],
    ids=" ".join,
)
def test_a_service_that_cannot_work_does_not_start(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INTERLEAVE_WEBHOOK_SECRET", raising=False)
    given = ["serve", "documents", "--port", "0", "--runs", str(tmp_path)]
    assert run([*given, *([] if "--profile" in arguments else ["--dry-run"]), *arguments]) == 2
