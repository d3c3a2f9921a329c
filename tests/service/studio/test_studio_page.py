"""The page is one file under a policy of hashes, and only it may change anything from a browser."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest
from running import Service, service

from interleave.studio.page import PageFile, page_policy
from interleave.studio.routes import studio_routes

PAGE = """<!doctype html><html><head><style>p { color: red }</style>
<script type="module">console.log("</style>" + 1 < 2)</script></head>
<body><p>Text with &lt;script&gt;</p><script>two()</script></body></html>"""


def sha(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def rules(policy: str) -> dict[str, list[str]]:
    return {name: values for name, *values in (rule.split() for rule in policy.split("; "))}


def test_every_script_and_style_of_the_page_is_allowed_by_its_hash_and_nothing_else() -> None:
    found = rules(page_policy(PAGE))
    assert found["script-src"] == [sha('console.log("</style>" + 1 < 2)'), sha("two()")]
    assert found["style-src"] == [sha("p { color: red }")]
    assert found["default-src"] == found["base-uri"] == found["frame-ancestors"] == ["'none'"]
    assert (found["connect-src"], found["img-src"]) == (["'self'"], ["'self'", "data:", "blob:"])


def test_a_page_without_scripts_may_run_none() -> None:
    assert rules(page_policy("<p>nothing"))["script-src"] == ["'none'"]


def test_a_changed_page_gets_a_new_policy(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<script>a</script>")
    page = PageFile(path)
    first = page.read()
    assert page.read() is first
    path.write_text("<script>b</script>")
    os.utime(path, (1, 1))
    assert sha("b") in page.read().policy
    assert page.read().etag != first.etag


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Service:  # type: ignore[misc]
    folder = tmp_path_factory.mktemp("shown")
    (folder / "page.html").write_text(PAGE)
    routes = {"studio": studio_routes(PageFile(folder / "page.html"))}
    with service(folder / "runs", routes=routes) as started:
        yield started


def test_the_page_is_served_with_its_policy_and_not_sent_twice(shown: Service) -> None:
    answer = shown.http.get("/")
    assert answer.text == PAGE
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert sha("two()") in answer.headers["content-security-policy"]
    again = shown.http.get("/", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_an_installation_without_the_page_says_how_to_build_it(tmp_path: Path) -> None:
    assert b"npm run build" in PageFile(tmp_path / "absent.html").read().body


@pytest.mark.parametrize("sent", [{"sec-fetch-site": "same-origin"}, {"origin": ""}])
def test_changes_from_a_browser_need_the_header(shown: Service, sent: dict[str, str]) -> None:
    sent = {name: value or shown.url for name, value in sent.items()}
    path = "/v1/studio/queue/resume"
    refused = shown.http.post(path, headers=sent)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "header_missing")
    assert shown.http.post(path, headers={**sent, "x-interleave-studio": "1"}).status_code == 200
    assert shown.http.get("/v1/studio/queue", headers=sent).status_code == 200
    assert shown.http.post(path).status_code == 200  # a program, which is no browser


@pytest.mark.parametrize(
    "sent", [{"origin": "https://elsewhere.example"}, {"origin": "null"}, {"host": "elsewhere.example"}]
)
def test_pages_of_other_sites_are_refused_whatever_they_send(shown: Service, sent: dict[str, str]) -> None:
    headers = {**sent, "x-interleave-studio": "1"}
    assert shown.http.post("/v1/studio/queue/resume", headers=headers).status_code == 403
    assert shown.http.get("/v1/studio/queue", headers=headers).status_code == 403
    assert shown.http.get("/", headers=headers).status_code == 403
