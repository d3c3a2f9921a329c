"""What has ended is removed after the days that its operator set, and nothing before."""

from __future__ import annotations

from pathlib import Path

from running import HeldGenerator, service
from serving import png

from interleave.service.documents.service import DAY, ServiceSettings

ASKED = {"input": "A frog in one picture"}


def test_jobs_and_uploads_are_removed_after_their_days(tmp_path: Path) -> None:
    now = [1_000_000.0]
    with service(tmp_path, clock=lambda: now[0]) as running:
        old = running.http.post("/v1/responses", json=ASKED).json()["id"]
        held = running.http.post("/v1/responses", json={**ASKED, "interleave": {"hold_plan": True}}).json()
        upload = {"file": ("frog.png", png(), "image/png")}
        file = running.http.post("/v1/files", files=upload, data={"purpose": "vision"}).json()["id"]
        now[0] += 5 * DAY
        new = running.http.post("/v1/responses", json=ASKED).json()["id"]
        now[0] += 5 * DAY
        assert running.do(running.documents.remove_older(11)) == 0
        assert running.do(running.documents.remove_older(7)) == 2
        codes = [running.http.get(f"/v1/responses/{id_}").status_code for id_ in (old, held["id"], new)]
        assert codes == [404, 404, 200]
        assert running.http.get(f"/v1/files/{file}").status_code == 404
        assert not running.documents.folders.run(old).exists()
        assert running.documents.folders.run(new).exists()
        assert not list((tmp_path / "files").rglob("*.png"))


def test_a_job_that_has_not_ended_is_never_too_old(tmp_path: Path) -> None:
    now = [1_000_000.0]
    with service(tmp_path, generator=HeldGenerator(free=0), clock=lambda: now[0]) as running:
        id_ = running.http.post("/v1/responses", json={**ASKED, "background": True}).json()["id"]
        running.until(lambda: running.generator.calls)
        now[0] += 100 * DAY
        assert running.do(running.documents.remove_older(7)) == 0
        assert running.http.get(f"/v1/responses/{id_}").json()["status"] == "in_progress"


def test_a_service_that_starts_removes_what_became_old_meanwhile(tmp_path: Path) -> None:
    with service(tmp_path, clock=lambda: 1_000_000.0) as first:
        id_ = first.http.post("/v1/responses", json=ASKED).json()["id"]
    settings = ServiceSettings(keep_days=7)
    with service(tmp_path, settings=settings, clock=lambda: 1_000_000.0 + 8 * DAY) as second:
        second.until(lambda: second.http.get(f"/v1/responses/{id_}").status_code == 404)
