"""The wire of the reference's services, spoken to a real server."""

from __future__ import annotations

import time
from typing import Any

import pytest
from serving import Server, coded, make_image, png

TRAINER = {
    "num_inference_step": 4,
    "guidance_scale": 1.0,
    "width": 1024,
    "height": 1024,
    "enhance_prompt": False,
}
"""What the reference's reward function sends to its klein service with every image, in its spelling."""


def test_edit_answers_with_every_field_of_the_reference(server: Server) -> None:
    reply = server.client.post("/edit", json={"image": coded(png()), "prompt": "make it blue", "seed": 7})
    assert reply.status_code == 200
    body = reply.json()
    drawn = make_image(body.pop("edited_image"))
    assert (drawn.format, drawn.size, drawn.mode) == ("PNG", (64, 64), "RGB")
    assert body.pop("processing_time") > 0
    assert body.pop("task_id") == reply.headers["x-request-id"]
    assert body == {
        "success": True,
        "original_image": None,
        "seed": 7,
        "original_prompt": "make it blue",
        "enhanced_prompt": None,
        "gpu_id": 0,
        "error": None,
    }


def test_generate_answers_with_every_field_of_editthinker(server: Server) -> None:
    body = server.draw("a cat", seed=3, aspect_ratio="1:1").json()
    assert set(body) == {
        *("success", "task_id", "image", "seed", "enhanced_prompt", "gpu_id", "generation_time", "error")
    }
    assert make_image(body["image"]).size == (64, 64)


def test_an_edit_without_an_image_is_text_to_image(server: Server) -> None:
    drawn = server.client.post("/edit", json={"image": None, "prompt": "a cat", "seed": 3}).json()
    assert drawn["edited_image"] == server.draw("a cat", seed=3).json()["image"]


def test_the_same_seed_gives_the_same_image_and_no_seed_a_new_one(server: Server) -> None:
    first, second = (server.draw("a cat", seed=5).json()["image"] for _ in range(2))
    assert first == second
    seeds = {server.draw("a cat").json()["seed"] for _ in range(3)}
    assert len(seeds) == 3


def test_an_edit_depends_on_its_sources_and_takes_several(server: Server) -> None:
    def edited(image: Any) -> str:
        return server.client.post("/edit", json={"image": image, "prompt": "x", "seed": 1}).json()[
            "edited_image"
        ]

    navy, red = coded(png("navy")), coded(png("red"))
    assert len({edited(navy), edited(red), edited([navy, red]), edited([red, navy])}) == 4


def test_an_image_may_come_as_a_data_url_or_in_lines(server: Server) -> None:
    plain = coded(png())
    lines = "\n".join(plain[at : at + 40] for at in range(0, len(plain), 40))
    images = {
        server.client.post("/edit", json={"image": each, "prompt": "x", "seed": 1}).json()["edited_image"]
        for each in (plain, lines, f"data:image/png;base64,{plain}")
    }
    assert len(images) == 1


def test_an_upload_is_an_edit(server: Server) -> None:
    upload = server.client.post(
        "/edit-upload",
        data={"prompt": "x", "seed": "1", "negative_prompt": " "},
        files={"image_file": ("../../etc/passwd", png(), "image/png")},
    ).json()
    body = server.client.post("/edit", json={"image": coded(png()), "prompt": "x", "seed": 1}).json()
    assert upload["edited_image"] == body["edited_image"]


def test_the_references_trainer_works_against_its_preset(awkward: Server) -> None:
    request = {"image": coded(png()), "prompt": "a cat", **TRAINER, "seed": 0}
    reply = awkward.client.post("/edit", json=request)
    result = reply.json()
    assert result.get("success")
    assert make_image(result["edited_image"]).size == (1024, 1024)
    assert "x-ignored-parameters" not in reply.headers
    white = awkward.client.post("/edit", json={**request, "image": None}).json()
    assert white.get("success")


def test_the_trainer_hears_why_an_image_was_refused(awkward: Server) -> None:
    result = awkward.client.post("/edit", json={"image": None, "prompt": "refuse", **TRAINER}).json()
    assert not result.get("success")
    assert result.get("error") == "the model does not draw that"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "other steps": ({"num_inference_steps": 50}, "num_inference_steps=50: this server uses 4"),
    "other steps, misspelt": ({"num_inference_step": 50}, "this server uses 4"),
    "other guidance": ({"guidance_scale": 4.0}, "this server uses 1.0"),
    "negative prompt": ({"negative_prompt": "ugly"}, "negative_prompt=ugly"),
    "enhanced prompt": ({"enhance_prompt": True}, "prompts are used unchanged"),
    "text guidance": ({"text_guidance_scale": 5}, "this server uses 1.0"),
    "image guidance": ({"image_guidance_scale": 2}, "no such setting"),
    "several pictures": ({"num_images_per_prompt": 2}, "one image"),
    "another width": ({"width": 512}, "this server uses 1024x1024"),
    "sequence length": ({"max_sequence_length": 512}, "no such setting"),
    "misspelt": ({"sead": 5}, "unknown parameter 'sead'. Known"),
    "did you mean": ({"sead": 5}, "Did you mean 'seed'?"),
    "seed of words": ({"seed": "five"}, "must be a whole number"),
    "seed below zero": ({"seed": -1}, "must be a whole number"),
    "huge seed": ({"seed": 2**63}, "must be a whole number"),
    "true seed": ({"seed": True}, "must be a whole number"),
    "half a seed": ({"seed": 1.5}, "must be a whole number"),
    "prompt of numbers": ({"prompt": 5}, "must be a string"),
    "no prompt": ({"prompt": None}, "prompt is missing"),
    "prompt with NUL": ({"prompt": "a\x00b"}, "NUL"),
    "half a character": ({"prompt": "a\ud800"}, "surrogate"),
    "long prompt": ({"prompt": "x" * 70_000}, "70,000 characters"),
    "image of words": ({"image": "hello!"}, "not base64"),
    "empty picture": ({"image": ""}, "empty"),
    "image of numbers": ({"image": 5}, "base64 string"),
    "address of an image": ({"image": "http://169.254.169.254/x.png"}, "fetches nothing"),
    "too many pictures": ({"image": [coded(png())] * 3}, "takes at most 2"),
    "not an image": ({"image": coded(b"hello, I am text")}, "not a PNG, JPEG or WebP"),
    "cut off": ({"image": coded(png()[:-20])}, "damaged or cut off"),
}


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_honoured_is_refused(awkward: Server, change: dict[str, Any], words: str) -> None:
    import json

    request = {"image": None, "prompt": "a cat"} | change
    reply = awkward.client.post(
        "/edit", content=json.dumps(request), headers={"Content-Type": "application/json"}
    )
    assert reply.status_code == 422
    assert words in reply.json()["detail"]


ACCEPTED: dict[str, dict[str, Any]] = {
    "the true steps": {"num_inference_steps": 4},
    "the true guidance": {"guidance_scale": 1},
    "nothing to avoid": {"negative_prompt": " "},
    "no enhancing": {"enhance_prompt": False},
    "nulls": {"seed": None, "guidance_scale": None, "negative_prompt": None},
    "empty prompt": {"prompt": ""},
    "one image": {"num_images_per_prompt": 1},
    "the true size": {"width": 1024, "height": 1024},
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED)
def test_what_says_the_truth_is_taken(awkward: Server, change: dict[str, Any]) -> None:
    reply = awkward.client.post("/edit", json={"image": None, "prompt": "a cat"} | change)
    assert reply.status_code == 200, reply.text


def test_what_the_operator_ignores_is_dropped_and_every_answer_says_so(awkward: Server) -> None:
    reply = awkward.draw("a cat", vip=True, user_tag={"any": "thing"})
    assert reply.status_code == 200
    assert reply.headers["x-ignored-parameters"] == "user_tag, vip"
    assert "x-ignored-parameters" not in awkward.draw("a cat").headers


def test_an_image_is_not_enlarged_or_shrunk_to_please(server: Server) -> None:
    assert server.draw("a cat", width=64, height=64).status_code == 200
    assert "uses 64x64" in server.draw("a cat", width=128, height=64).json()["detail"]
    assert "uses 64x64" in server.draw("a cat", aspect_ratio="16:9").json()["detail"]


def test_status_has_the_references_fields_and_the_truth(server: Server) -> None:
    status = server.status()
    assert {
        "active_workers": 1,
        "task_queue_size": 0,
        "result_queue_size": 0,
        "pending_tasks": 0,
        "total_gpus": 1,
        "system_ready": True,
        "state": "ready",
    }.items() <= status.items()
    (worker,) = status["workers"]
    assert (worker["state"], worker["restarts"], worker["last_error"]) == ("ready", 0, None)
    assert status["settings"]["size"] == 64


def test_health_says_healthy_in_the_references_words(server: Server) -> None:
    body = server.client.get("/health").json()
    assert (body["status"], body["gpu_manager_ready"]) == ("Healthy", True)
    assert abs(body["timestamp"] - time.time()) < 60
    assert server.client.get("/").json()["status"] == "Running"


FAILURES = {
    "permanent": ("refuse", 422, "the model does not draw that"),
    "transient": ("overloaded", 503, "the model is busy"),
    "a fault in the generator": ("raise", 500, "ZeroDivisionError"),
    "no image": ("text", 422, "returned a str, not an image"),
    "a picture too large": ("huge", 422, "9000×9000"),
    "given up": ("give-up", 500, "cancelled the image"),
}


@pytest.mark.parametrize(("prompt", "status", "words"), FAILURES.values(), ids=FAILURES)
def test_a_generator_that_fails_is_answered_for(
    awkward: Server, prompt: str, status: int, words: str
) -> None:
    reply = awkward.draw(prompt)
    assert (reply.status_code, words in reply.json()["detail"]) == (status, True)
    assert reply.headers.get("retry-after") == ("7" if prompt == "overloaded" else None)
    assert awkward.draw("a cat").status_code == 200
