"""`POST /v1/robot/check`: a robot's controller asks whether a sub-task is done."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image
from running import Service, service

from interleave.runs.resolve import Choices
from interleave_mini.world.drawing import draw
from interleave_mini.world.operations import Pick
from interleave_mini.world.scene import Gripper, Scene, Size, Thing

BENCH = Scene.of("workbench", {6: Thing("block", "red", Size.SMALL)}, Gripper(1))
LIFTED = Pick(6).apply(BENCH)


def as_url(image: Image.Image) -> str:
    data = io.BytesIO()
    image.save(data, "PNG")
    return f"data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}"


BODY = {
    "instruction": "Pick up the red block with the gripper.",
    "before": as_url(draw(BENCH)),
    "after": as_url(draw(LIFTED)),
}


@pytest.fixture(scope="module")
def robots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    chosen = Choices(profile="oracle")
    with service(tmp_path_factory.mktemp("documents"), chosen=chosen) as started:
        yield started


def asked(running: Service, **changes: Any) -> Any:
    body = {key: value for key, value in {**BODY, **changes}.items() if value is not None}
    return running.http.post("/v1/robot/check", json=body)


def test_a_sub_task_is_done_or_there_is_something_to_correct(robots: Service) -> None:
    done = asked(robots)
    assert done.status_code == 200
    assert done.json()["done"] is True and done.json()["outcome"] == "accepted"
    not_done = asked(robots, after=BODY["before"]).json()
    assert not_done["done"] is False
    assert not_done["correction"] == "Pick up the red block with the gripper."
    assert not_done["seconds"] >= 0


def test_a_critic_that_only_judges_images_can_check_too(running: Service) -> None:
    """The double `scripted` is a model: it is asked with the prompt for robots."""
    assert asked(running).json()["outcome"] in ("accepted", "rejected")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"instruction": None}, "instruction: the robot's instruction is empty"),
        ({"instruction": " "}, "instruction: the robot's instruction is empty"),
        ({"before": None}, "before: send"),
        ({"after": None}, "after: send"),
        ({"after": "https://example.org/a.png"}, "fetches nothing"),
        ({"after": "data:image/png;base64,AAAA"}, "after"),
        ({"after": 7}, "after"),
        ({"speed": 3}, "unknown parameter"),
        ({"model": "nobody"}, "no such model"),
    ],
)
def test_what_is_missing_or_wrong_is_named(robots: Service, changes: dict[str, Any], words: str) -> None:
    answer = asked(robots, **changes)
    assert answer.status_code in (400, 404, 422)
    assert words in answer.json()["error"]["message"]


def test_nothing_of_a_check_is_kept(robots: Service) -> None:
    asked(robots)
    assert robots.http.get("/v1/documents").json()["data"] == []
