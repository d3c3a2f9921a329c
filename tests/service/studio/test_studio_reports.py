"""Reports in the studio: which are found, who may read them, and that a hostile page has no rights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from running import Service, service

from interleave.errors import ConfigurationError
from interleave.service.documents.keys import FILE_NAME, GuestQuota, add_key
from interleave.service.documents.routes import Router
from interleave.studio.report_routes import SCRIPT, framed_page, report_policy
from interleave.studio.reports import TICKET_SECONDS, ReportFolders
from interleave.studio.routes import studio_routes
from interleave.train.data.report.page import MARK
from interleave.train.samples_page import write_page

LISTING = "/v1/studio/reports"
HEAD = "<!doctype html><html><head><title>{title}</title>{more}</head><body>{body}</body></html>"


def page(path: Path, title: str = "A page", more: str = "", body: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD.format(title=title, more=more, body=body))
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a benchmark, data and training, beside things that are nobody's business."""
    home = tmp_path_factory.mktemp("home")
    bench = home / "bench" / "mini-story-full"
    page(bench / "report.html", "mini &amp; story", body='<img src="images/one.png">')
    (bench / "result.json").write_text('{"strict": 1}')
    (bench / "pictures").mkdir()
    Image.new("RGB", (4, 4), "red").save(bench / "pictures" / "one.png")
    run = bench / "attempts-5" / "run-1"
    page(run / "document.html", "A run")
    page(run / "notes.html", "Inside of a run")
    (run / "journal.jsonl").write_text("")
    page(home / "bench" / "ueval" / "compare-other.html", "A against B")
    page(home / "bench" / ".hidden" / "report.html", "hidden")
    page(home / "reports" / "data.html", "mixed", more=f'<meta name="generator" content="{MARK}">')
    (home / "trained" / "critic-grpo").mkdir(parents=True)
    write_page(home / "trained" / "critic-grpo" / "samples.html", "critic, GRPO", [])
    (home / "secret.html").write_text("a secret")
    os.symlink(home / "secret.html", bench / "linked.html")
    os.symlink(home, bench / "out")
    return home


def folders_of(home: Path) -> list[Path]:
    return [home / name for name in ("bench", "reports", "trained")]


def routes_of(home: Path) -> dict[str, Router]:
    return {"studio": studio_routes(reports=folders_of(home))}


@pytest.fixture(scope="module")
def studio(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("studio"), routes=routes_of(home)) as started:
        yield started


def listed(studio: Service, **headers: str) -> dict[str, Any]:
    return {
        each["path"]: each
        for each in studio.http.get(LISTING, headers=headers).raise_for_status().json()["data"]
    }


def test_reports_are_found_with_their_titles_and_kinds(studio: Service) -> None:
    found = listed(studio)
    assert {path: (each["folder"], each["kind"], each["title"]) for path, each in found.items()} == {
        "mini-story-full/report.html": ("bench", "benchmark", "mini & story"),
        "ueval/compare-other.html": ("bench", "benchmark", "A against B"),
        "data.html": ("reports", "data", "mixed"),
        "critic-grpo/samples.html": ("trained", "training", "critic, GRPO"),
    }
    assert found["mini-story-full/report.html"]["beside"] == ["mini-story-full/result.json"]


def test_a_new_report_is_there_without_a_restart_and_a_removed_one_is_gone(
    studio: Service, home: Path
) -> None:
    new = page(home / "reports" / "new.html", "New")
    os.utime(new, (4e9, 4e9))
    listing = studio.http.get(LISTING).json()
    assert listing["data"][0]["title"] == "New" and listing["total"] == len(listing["data"])
    new.unlink()
    assert "new.html" not in listed(studio)


def test_a_report_its_images_and_its_figures_are_sent_without_a_key(studio: Service) -> None:
    report = listed(studio)["mini-story-full/report.html"]
    sent = studio.http.get(report["address"] + report["path"])
    assert sent.headers["content-type"] == "text/html; charset=utf-8"
    assert "mini &amp; story" in sent.text and SCRIPT in sent.text
    image = studio.http.get(report["address"] + "mini-story-full/pictures/one.png")
    assert image.headers["content-type"] == "image/png"
    figures = studio.http.get(report["address"] + report["beside"][0])
    assert figures.headers["content-type"].startswith("text/plain") and figures.json() == {"strict": 1}
    run = studio.http.get(report["address"] + "mini-story-full/attempts-5/run-1/document.html")
    assert "A run" in run.text


def test_everything_that_is_sent_has_no_rights(studio: Service) -> None:
    report = listed(studio)["mini-story-full/report.html"]
    for path in (report["path"], report["beside"][0], "mini-story-full/pictures/one.png"):
        headers = studio.http.get(report["address"] + path).headers
        rules = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert rules["sandbox"] == "allow-scripts"  # and nothing else: an origin of its own
        assert rules["default-src"] == "'none'" and rules["script-src"].startswith("'sha256-")
        assert "unsafe" not in rules["script-src"] and " " not in rules["script-src"]
        assert rules["frame-ancestors"] == "'self'" and rules["form-action"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'self' https://example.com;" in report_policy(("https://example.com",))


@pytest.mark.parametrize(
    "path",
    [
        "../secret.html",
        "..%2fsecret.html",
        "%2e%2e/secret.html",
        "mini-story-full/../../secret.html",
        "mini-story-full/linked.html",
        "mini-story-full/out/secret.html",
        "mini-story-full/..%5c..%5csecret.html",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        ".hidden/report.html",
        "mini-story-full",
        "mini-story-full/",
        "",
        "nothing.html",
        "a%00.html",
        "mini-story-full/report.html/x.html",
        "x/" * 2000 + "a.html",
    ],
)
def test_no_path_leads_outside(studio: Service, path: str) -> None:
    address = listed(studio)["mini-story-full/report.html"]["address"]
    with httpx.Client(base_url=studio.url, trust_env=False) as client:
        request = client.build_request("GET", "/")
        request.url = request.url.copy_with(raw_path=(address + path).encode())  # httpx would tidy it
        answer = client.send(request)
    assert answer.status_code == 404 and "a secret" not in answer.text


@pytest.mark.parametrize(
    "name", ["keys.json", "jobs.sqlite", "run.lock", "model.safetensors", "script.js", "a.svg"]
)
def test_files_that_are_no_reports_are_not_sent(studio: Service, home: Path, name: str) -> None:
    (home / "reports" / name).write_text("private")
    address = listed(studio)["data.html"]["address"]
    assert studio.http.get(address + name).status_code == 404


def test_the_services_own_folder_is_never_shown(tmp_path: Path) -> None:
    page(tmp_path / "studio" / "report.html")
    page(tmp_path / "bench" / "report.html")
    folders = ReportFolders([tmp_path], tmp_path / "studio")
    assert [each.path for each in folders.listing().data] == ["bench/report.html"]
    (ticket,) = {each.address.split("/")[-2] for each in folders.listing().data}
    assert folders.file(ticket, "bench/report.html") is not None
    assert folders.file(ticket, "studio/report.html") is None


def test_a_ticket_ends_and_cannot_be_changed(home: Path, tmp_path: Path) -> None:
    now = [1000.0]
    folders = ReportFolders(folders_of(home), tmp_path, clock=lambda: now[0])
    ticket = folders.ticket("reports")
    assert folders.file(ticket, "data.html") is not None
    name, ends, signature = ticket.split(".")
    for other in (
        f"bench.{ends}.{signature}",
        f"{name}.{int(ends) + 1}.{signature}",
        f"{name}.{ends}.{'0' * 32}",
        "",
        "a.b",
    ):
        assert folders.file(other, "data.html") is None
        assert folders.file(other, "mini-story-full/report.html") is None
    now[0] += TICKET_SECONDS
    assert folders.file(ticket, "data.html") is not None
    now[0] += 1
    assert folders.file(ticket, "data.html") is None


def test_the_listing_needs_a_key_that_may_read(home: Path, tmp_path: Path) -> None:
    keys = tmp_path / FILE_NAME
    secrets = {scope: add_key(keys, scope, [scope])[1] for scope in ("read", "submit", "admin")}
    with service(tmp_path, routes=routes_of(home)) as locked:
        assert locked.http.get(LISTING).status_code == 401
        statuses = {
            scope: locked.http.get(LISTING, headers={"Authorization": f"Bearer {secret}"}).status_code
            for scope, secret in secrets.items()
        }
        assert statuses == {"read": 200, "submit": 403, "admin": 200}
        report = listed(locked, Authorization=f"Bearer {secrets['read']}")["data.html"]
        assert locked.http.get(report["address"] + "data.html").status_code == 200
        assert locked.http.get("/v1/studio/reports/reports.9999999999.0/data.html").status_code == 404


def test_guests_see_none(home: Path, tmp_path: Path) -> None:
    with service(tmp_path, routes=routes_of(home), guests=GuestQuota()) as public:
        public.http.get("/")  # sets the cookie of a guest
        assert public.http.get("/v1/studio/start").json()["guest"]
        assert public.http.get(LISTING).status_code == 403


def test_folders_of_one_name_are_told_apart_and_may_come_later(tmp_path: Path) -> None:
    one, two = tmp_path / "a" / "bench", tmp_path / "b" / "bench"
    folders = ReportFolders([one, two, one], tmp_path / "studio")
    (tmp_path / "studio").mkdir()
    assert folders.listing().data == [] and len(folders.listing().folders) == 2
    page(two / "report.html", "two")
    (found,) = folders.listing().data
    assert found.folder == "bench-2"


def test_a_pages_own_policy_makes_room_for_ours() -> None:
    own = b'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:">'
    sent = framed_page(b"<!doctype html><html><head>" + own + b"<title>x</title></head><p>y")
    assert own not in sent and b"<title>x</title></head><p>y" in sent
    assert sent.startswith(b"<!doctype html><html><head><script>")
    assert framed_page(b"plain").startswith(b"plain<script>")


@pytest.fixture
def told() -> Callable[[list[Path] | None, Path], tuple[Path, ...]]:
    from interleave.studio.command import _report_folders

    return _report_folders


def test_the_command_looks_where_other_commands_write(
    told: Callable[[list[Path] | None, Path], tuple[Path, ...]], tmp_path: Path
) -> None:
    assert told(None, Path("runs/studio")) == (Path("runs/bench"), Path("runs/reports"), Path("trained"))
    assert told([tmp_path], Path("runs/studio")) == (tmp_path,)
    with pytest.raises(ConfigurationError, match=r"--reports .*nothing: no such folder"):
        told([tmp_path / "nothing"], Path("runs/studio"))
