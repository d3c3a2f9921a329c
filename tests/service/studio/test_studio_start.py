"""What the studio is told first: profiles with requests that they can take, formats, who may do what."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest
from running import Service, service

from interleave.config.run_config import RoleConfig
from interleave.runs.resolve import Choices, adapted_request, resolve
from interleave.service.documents.keys import FILE_NAME, add_key, revoke_key
from interleave.service.documents.model_cache import ModelCache, Offer
from interleave.service.documents.service import ServiceSettings, suggestions_for
from interleave.service.documents.sessions import SESSION_SECONDS, Sessions
from interleave.studio.schemas import Start
from interleave.studio.start import examples_of, strictness_within
from interleave.types import Request


def offer(profile: str) -> Offer:
    chosen = Choices(profile=profile)
    return Offer(*resolve(chosen), chosen)


def test_the_start_tells_what_there_is(running: Service) -> None:
    start = Start.model_validate(running.http.get("/v1/studio/start").json())
    assert (start.needs_key, start.signed_in, start.can_manage) == (False, True, True)
    (profile,) = start.profiles
    assert profile.name == start.default_profile
    assert len(profile.examples) == 6
    assert any("fake" in note for note in profile.notes)  # what draws here is no model
    assert {each.format for each in start.exports} == {
        *("pdf", "epub", "fixed-epub", "pptx", "cbz", "zip", "html", "texts")
    }


@pytest.mark.parametrize("profile", ["mini", "oracle", "dry-run", "klein"])
def test_every_example_is_one_that_the_profile_takes(profile: str) -> None:
    offered = offer(profile)
    examples = examples_of(offered)
    assert len({each.text for each in examples}) == 6
    for each in examples:
        adapted_request(Request.of(each.text), offered.config)


@pytest.mark.parametrize("asked", ["A unicorn eats a cake", "木 xyzzy", "the frog the frog"])
def test_the_nearest_requests_are_ones_that_the_profile_takes(asked: str) -> None:
    config = offer("mini").config
    nearest = suggestions_for(asked, config.planner)
    assert len(nearest) == 3
    for text in nearest:
        adapted_request(Request.of(text), config)


def test_the_nearest_requests_share_words_with_what_was_asked() -> None:
    nearest = suggestions_for("A unicorn bakes a cake", RoleConfig(spec="mini"))
    assert any("cake" in each and "bake" in each for each in nearest)
    assert suggestions_for("anything", RoleConfig(spec="openai:model@http://127.0.0.1:1/v1")) == []


@pytest.mark.parametrize(("most", "attempts"), [(5, [1, 3, 5]), (2, [1, 2]), (1, [1])])
def test_strictness_is_a_number_of_attempts_within_the_profile(most: int, attempts: list[int]) -> None:
    assert [each.max_attempts for each in strictness_within(most)] == attempts


def test_a_job_that_was_refused_in_its_turn_has_the_nearest_requests_as_data(tmp_path: Path) -> None:
    with service(tmp_path, chosen=Choices(profile="oracle")) as running:
        job = running.sdk().responses.create(input="A unicorn eats a cake")
        error = running.http.get(f"/v1/documents/{job.id}").json()["error"]
        assert (job.status, error["code"], len(error["nearest"])) == ("failed", "invalid_prompt", 3)


def test_a_request_gets_the_models_of_the_profile_it_names() -> None:
    own, other = offer("dry-run"), offer("oracle")
    model_cache = ModelCache(own.config, own.pack, own.chosen, others={"oracle": other})
    assert model_cache.config_for("oracle") is other.config
    assert model_cache.config_for("interleave") is own.config
    assert model_cache.offer_of(other.config.model_copy(update={"seed": 7})) is other


def test_a_key_is_kept_in_a_cookie_that_scripts_cannot_read(tmp_path: Path) -> None:
    _, secret = add_key(tmp_path / FILE_NAME, "alice")
    with service(tmp_path) as running:
        start = running.http.get("/v1/studio/start").json()
        assert (start["needs_key"], start["signed_in"], start["profiles"]) == (True, False, [])
        assert running.http.get("/").status_code == 200
        assert running.http.get("/v1/studio/documents").status_code == 401
        wrong = {"authorization": "Bearer ilk-wrong"}
        assert running.http.post("/v1/studio/session", headers=wrong).status_code == 401
        answer = running.http.post("/v1/studio/session", headers={"authorization": f"Bearer {secret}"})
        said = answer.headers["set-cookie"].lower()
        assert "httponly" in said and "samesite=strict" in said and "secure" not in said
        start = running.http.get("/v1/studio/start").json()  # the client sends the cookie back
        assert (start["signed_in"], start["can_manage"]) == (True, False)
        assert running.http.get("/v1/studio/documents").status_code == 200
        assert running.http.post("/v1/studio/queue/pause").status_code == 403  # not an administrator
        running.http.delete("/v1/studio/session")
        assert running.http.get("/v1/studio/documents").status_code == 401


def session(running: Service, secret: str, **headers: str) -> str:
    """Sign in and return the header that sets the cookie."""
    sent = {"authorization": f"Bearer {secret}", **headers}
    return running.http.post("/v1/studio/session", headers=sent).headers["set-cookie"]


def test_G31_a_stolen_cookie_is_not_the_key_and_ends_by_itself(tmp_path: Path) -> None:
    key, secret = add_key(tmp_path / FILE_NAME, "alice")
    clock = lambda: now  # noqa: E731
    now = time.time()
    sessions = Sessions(tmp_path, clock=clock)
    with service(tmp_path) as running:
        cookie = session(running, secret)
        assert secret not in cookie and key.digest not in cookie
        assert f"max-age={SESSION_SECONDS};" in cookie.lower()
        token = cookie.partition("=")[2].partition(";")[0]
        bare = httpx.Client(base_url=running.url, trust_env=False)
        as_key = {"authorization": f"Bearer {token}"}
        assert bare.get("/v1/documents", headers=as_key).status_code == 401
        assert bare.get("/v1/documents", headers={"cookie": f"interleave-key={secret}"}).status_code == 401
        bare.close()
    assert sessions.key_in(token, lambda id_: key.digest) == key.id  # after a restart
    ends = token.split(".")[1]
    assert sessions.key_in(token.replace(ends, str(int(ends) + 1)), lambda id_: key.digest) is None
    now += SESSION_SECONDS + 1
    assert sessions.key_in(token, lambda id_: key.digest) is None


def test_G31_a_session_ends_with_its_key(tmp_path: Path) -> None:
    _, secret = add_key(tmp_path / FILE_NAME, "alice")
    add_key(tmp_path / FILE_NAME, "bob")
    with service(tmp_path) as running:
        session(running, secret)
        assert running.http.get("/v1/documents").status_code == 200
        revoke_key(tmp_path / FILE_NAME, "alice")
        assert running.http.get("/v1/documents").status_code == 401


def test_G31_behind_https_the_cookie_is_secure(tmp_path: Path) -> None:
    _, secret = add_key(tmp_path / FILE_NAME, "alice")
    settings = ServiceSettings(public_url="https://documents.example.com")
    with service(tmp_path, settings=settings) as running:
        assert "; Secure" in session(running, secret)
    with service(tmp_path) as running:
        assert "; Secure" not in session(running, secret)
        assert "; Secure" in session(running, secret, **{"x-forwarded-proto": "https"})


def test_G31_the_cookie_of_earlier_versions_with_the_key_is_removed(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        running.http.cookies.set("interleave-key", "ilk-of-an-earlier-version")
        said = running.http.get("/").headers["set-cookie"]
        assert said.startswith('interleave-key=""; ') and "Max-Age=0" in said
