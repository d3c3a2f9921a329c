"""The queue: paused, reordered, one cancelled, what failed is gone on with; all of it over a restart."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from running import HeldGenerator, Service, service
from serving import png

from interleave.errors import BackendError
from interleave.service.documents.service import ServiceSettings
from interleave.studio.schemas import Queue

ONE = ServiceSettings(concurrency=1)


def ask(running: Service, text: str, **more: Any) -> str:
    return str(running.sdk().responses.create(input=text, background=True, **more).id)


def queue(running: Service) -> Queue:
    return Queue.model_validate(running.http.get("/v1/studio/queue").json())


def waiting(running: Service) -> list[str]:
    return [item.id for item in queue(running).waiting]


def status(running: Service, id_: str) -> str:
    return str(running.http.get(f"/v1/documents/{id_}").json()["status"])


class BrokenGenerator(HeldGenerator):
    """Fails for good until it is repaired."""

    broken = True

    async def generate(self, request: Any) -> Any:
        if self.broken:
            raise BackendError("the brush is broken")
        return await super().generate(request)


def test_what_waits_is_reordered_and_stays_so_over_a_restart(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=0), settings=ONE) as running:
        first = ask(running, "one image")
        running.until(lambda: queue(running).running)
        second, third, fourth = (ask(running, f"{name}, in one picture") for name in "bcd")
        assert waiting(running) == [second, third, fourth]
        moved = running.http.post(f"/v1/studio/queue/{fourth}/move", json={"place": 0})
        assert [item["id"] for item in moved.json()["waiting"]] == [fourth, second, third]
        running.http.post(f"/v1/studio/queue/{fourth}/move", json={"place": 99})
        running.http.post(f"/v1/studio/queue/{third}/move", json={"place": 0})
        assert waiting(running) == [third, second, fourth]
        gone = running.http.post(f"/v1/studio/queue/{first}/move", json={"place": 1})
        assert (gone.status_code, gone.json()["error"]["code"]) == (409, "not_possible_now")
    with service(tmp_path, generator=HeldGenerator(free=0), settings=ONE) as running:
        running.until(lambda: [item.id for item in queue(running).running] == [first])
        assert waiting(running) == [third, second, fourth]


@pytest.mark.parametrize(
    "body", [{}, {"place": -1}, {"place": 10**30}, {"place": "first"}, {"place": 0, "more": 1}]
)
def test_a_place_that_cannot_be_read_is_refused(running: Service, body: dict[str, Any]) -> None:
    answer = running.http.post(f"/v1/studio/queue/resp_{'0' * 48}/move", json=body)
    assert answer.status_code == 400


def test_a_paused_queue_starts_nothing_also_after_a_restart(tmp_path: Path) -> None:
    with service(tmp_path, settings=ONE) as running:
        assert running.http.post("/v1/studio/queue/pause").json()["paused"]
        id_ = ask(running, "one image")
        assert waiting(running) == [id_]
    with service(tmp_path, settings=ONE) as running:
        assert (queue(running).paused, waiting(running)) == (True, [id_])
        assert not running.generator.calls
        running.http.post("/v1/studio/queue/resume")
        running.until(lambda: status(running, id_) == "completed")
        assert not queue(running).paused


def test_one_that_waits_is_cancelled_and_goes_on_later(tmp_path: Path) -> None:
    with service(tmp_path, settings=ONE) as running:
        running.http.post("/v1/studio/queue/pause")
        kept, stopped = ask(running, "one image"), ask(running, "another, in one picture")
        running.http.post(f"/v1/responses/{stopped}/cancel")
        assert (waiting(running), status(running, stopped)) == ([kept], "cancelled")
        answer = running.http.post(f"/v1/documents/{stopped}/continue")
        assert answer.json()["status"] == "queued"
        assert waiting(running) == [kept, stopped]
        again = running.http.post(f"/v1/documents/{stopped}/continue")
        assert again.status_code == 409
        running.http.post("/v1/studio/queue/resume")
        running.until(lambda: status(running, stopped) == "completed")
        with running.http.stream("GET", f"/v1/documents/{stopped}/events") as events:
            told = [line.partition(": ")[2] for line in events.iter_lines() if line.startswith("event")]
        assert told[:3] == ["job.queued", "job.cancelled", "job.queued"]
        assert told[-1] == "job.completed"
        assert running.http.post(f"/v1/documents/{stopped}/continue").status_code == 409


def test_a_document_that_was_stopped_half_way_goes_on_where_it_was(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=1)) as running:
        id_ = ask(running, "two images")
        running.until(lambda: len(running.generator.calls) == 2)
        running.http.post(f"/v1/responses/{id_}/cancel")
        running.generator.free = 100
        running.http.post(f"/v1/documents/{id_}/continue")
        running.until(lambda: status(running, id_) == "completed")
        drawn = [call.slot.step for call in running.generator.calls]
        assert drawn.count(1) == 1


def test_what_failed_is_gone_on_with_all_at_once(tmp_path: Path) -> None:
    generator = BrokenGenerator()
    with service(tmp_path, generator=generator) as running:
        ids = {ask(running, f"{name}, in one picture") for name in "ab"}
        running.until(lambda: {item.id for item in queue(running).failed} == ids)
        assert all("brush" in (item.error or "") for item in queue(running).failed)
        generator.broken = False
        answer = running.http.post("/v1/studio/queue/retry-failed").json()
        assert (set(answer["continued"]), answer["left"]) == (ids, 0)
        for id_ in ids:
            running.until(lambda id_=id_: status(running, id_) == "completed")  # type: ignore[misc]
        running.until(lambda: queue(running).failed == [])


def test_a_job_whose_images_are_gone_says_so(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        running.http.post("/v1/studio/queue/pause")
        image = {
            "type": "input_image",
            "image_url": f"data:image/png;base64,{base64.b64encode(png()).decode()}",
        }
        parts = [{"type": "input_text", "text": "one image"}, image]
        id_ = ask(running, [{"role": "user", "content": parts}])  # type: ignore[arg-type]
        running.http.post(f"/v1/responses/{id_}/cancel")
        refused = running.http.post(f"/v1/documents/{id_}/continue")
        assert (refused.status_code, "submit it again" in refused.text) == (409, True)


def test_a_running_document_tells_its_step(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=1)) as running:
        ask(running, "three images")
        running.until(lambda: [item.step for item in queue(running).running] == [2])
        (item,) = queue(running).running
        assert (item.steps, item.cover is not None) == (3, True)
        running.generator.free = 100
