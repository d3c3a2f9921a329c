"""Guests of a public studio: known by a signed cookie, each with documents and a quota of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from running import HANGS_AFTER, Service, service
from serving import png

from interleave.cli.main import run
from interleave.service.documents.keys import FILE_NAME, GUEST_COOKIE, GuestQuota, Guests, KeyAccess, add_key


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path, guests=GuestQuota(max_jobs=1, per_hour=3)) as running:
        yield running


def visitor(running: Service) -> httpx.Client:
    client = httpx.Client(base_url=running.url, timeout=HANGS_AFTER, trust_env=False)
    running.clients.append(client)  # type: ignore[arg-type]
    client.get("/")
    return client


def ask(client: httpx.Client, **more: Any) -> httpx.Response:
    return client.post("/v1/responses", json={"input": "one image", **more})


def test_visitors_see_their_own_documents_only(public: Service) -> None:
    alice, bob = visitor(public), visitor(public)
    made = ask(alice).json()
    assert made["status"] == "completed"
    assert alice.get("/v1/studio/documents").json()["total"] == 1
    assert bob.get("/v1/studio/documents").json()["total"] == 0
    assert bob.get(f"/v1/documents/{made['id']}").status_code == 404
    start = alice.get("/v1/studio/start").json()
    assert (start["guest"], start["signed_in"], start["can_manage"]) == (True, True, False)
    assert alice.post("/v1/studio/queue/pause").status_code == 403
    assert alice.get("/metrics").status_code == 403
    upload = alice.post("/v1/files", files={"file": png()}, data={"purpose": "vision"})
    assert upload.json()["error"]["code"] == "not_for_guests"


def test_who_has_no_cookie_gets_one_with_the_page_and_nothing_else(public: Service) -> None:
    assert ask(public.http).status_code == 401
    said = public.http.get("/").headers["set-cookie"]
    assert "HttpOnly" in said and "SameSite=Strict" in said
    assert "set-cookie" not in public.http.get("/").headers  # the same guest
    forged = {"cookie": f"{GUEST_COOKIE}=guest-{'0' * 24}.{'0' * 32}"}
    with httpx.Client(base_url=public.url, trust_env=False) as stranger:
        assert stranger.get("/v1/studio/documents", headers=forged).status_code == 401


def test_a_guest_has_a_quota(public: Service) -> None:
    alice = visitor(public)
    public.generator.free = 0
    assert ask(alice, background=True).status_code == 200
    assert ask(alice, background=True).status_code == 429
    assert ask(visitor(public), background=True).status_code == 200
    public.generator.free = 100


def test_a_cookie_outlives_a_restart_and_can_be_used_in_a_frame(tmp_path: Path) -> None:
    guests = Guests(tmp_path, GuestQuota())
    cookie = guests.new_cookie(embedded=True)
    assert "SameSite=None; Secure; Partitioned" in cookie
    headers = {"cookie": f"other=1; {cookie.partition(';')[0]}"}
    caller = Guests(tmp_path, GuestQuota()).caller_in(headers)
    assert caller and caller.is_guest and caller.scopes == {"submit", "read"}
    assert (tmp_path / "guests.secret").stat().st_mode & 0o077 == 0


def test_a_key_counts_more_than_a_cookie(tmp_path: Path) -> None:
    _, secret = add_key(tmp_path / FILE_NAME, "operator", ["admin"])
    access = KeyAccess(tmp_path / FILE_NAME, Guests(tmp_path, GuestQuota()))
    caller = access.check("/v1/studio/queue", {"authorization": f"Bearer {secret}", "host": "a.example"})
    assert caller and not caller.is_guest and "admin" in caller.scopes


@pytest.mark.parametrize("site", ["huggingface.co", "https://a.example; script-src *", "https://a.example/x"])
def test_only_sites_may_show_the_studio_in_a_frame(site: str, tmp_path: Path) -> None:
    assert run(["studio", "--dry-run", "--no-open", "--frame", site, "--runs", str(tmp_path)]) == 2
