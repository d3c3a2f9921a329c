"""The page a person looks at, and its Markdown sister: complete, self-contained, safe."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

import interleave
from interleave.render.html import prompt_changes, render_document
from interleave.render.markdown import render_markdown
from interleave.runs.run import RunResult

REQUEST = "How a frog grows up, in four pictures"
SMALL = "solid?size=64"
ATTACKS = [
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</style><iframe src=https://evil.example>",
    "{{ 7*7 }} {% raw %}",
    "![](https://evil.example/x.png) [click](javascript:alert(1))",
    "\x1b[31mred\x1b[0m \u202egnp.exe",
    "]]><!--",
]


class Page(HTMLParser):
    """What a browser would see of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def script(name: str, *replies: object) -> str:
    Path(name).write_text("".join(json.dumps({"text": json.dumps(reply)}) + "\n" for reply in replies))
    return f"scripted:./{name}"


def hostile_run(attack: str) -> RunResult:
    steps = [
        {
            "step_number": n,
            "step_name": attack,
            "instruction": attack,
            "prompt": attack,
            "auxiliary_text": attack,
        }
        for n in (1, 2)
    ]
    planner = script("planner.jsonl", {"execution_plan": steps})
    refusal = {"success": False, "refine_prompt": attack + " more"}
    critic = script("critic.jsonl", refusal, refusal, "unreadable " + attack, *[{"success": True}] * 8)
    return interleave.generate(attack, out="hostile", planner=planner, critic=critic, generator=SMALL)


@pytest.mark.parametrize("attack", ATTACKS)
def test_D19_G22_nothing_written_by_a_user_or_model_becomes_markup(attack: str) -> None:
    page = Page((hostile_run(attack).document).read_text("utf-8"))
    plain = Page((interleave.generate(REQUEST, out="plain", generator=SMALL).document).read_text("utf-8"))
    assert set(page.tags) <= {*plain.tags, "pre", "ins", "del"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    for name, value in page.attributes:
        if name in ("src", "href"):
            assert value.startswith(("data:image/", "images/")) or re.fullmatch(r"#(?:image|step)-\d+", value)
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    html = interleave.generate(REQUEST, out="run").document.read_text("utf-8")
    assert "<script" not in html
    assert "default-src 'none'" in html
    assert not re.search(r"(?:src|href|url)\s*[=(]\s*[\"']?(?:https?:)?//", html)


def test_text_and_images_stand_in_order() -> None:
    run = interleave.generate(REQUEST, out="run")
    html = run.document.read_text("utf-8")
    places = [html.index(f'id="step-{step.number}"') for step in run.steps]
    assert places == sorted(places)
    assert html.count("data:image/png") == 4
    assert html.count("data:image/webp") == 6  # a thumbnail for every attempt


def test_every_attempt_is_there_with_its_prompt_change_verdict_seed_and_time() -> None:
    run = interleave.generate(REQUEST, out="run")
    text = " ".join(Page(run.document.read_text("utf-8")).text.split())
    for step in run.record.steps:
        for attempt in step.attempts:
            assert attempt.prompt in text
            assert str(attempt.seed) in text
            assert attempt.verdict is not None
            assert attempt.verdict.reasoning in text
    assert "Changes" in text
    assert "s to draw" in text


def test_forced_steps_are_marked() -> None:
    refusal = {"success": False, "refine_prompt": "again"}
    run = interleave.generate(REQUEST, out="run", critic=script("c.jsonl", *[refusal] * 8), max_attempts=2)
    text = Page(run.document.read_text("utf-8")).text
    assert text.count("Not accepted by the critic") == 4
    assert "4 images were not accepted" in text
    assert "Not accepted by the critic" in render_markdown(run.record)


def test_a_page_made_with_doubles_says_so() -> None:
    run = interleave.generate(REQUEST, out="run")
    text = Page(run.document.read_text("utf-8")).text
    assert "no image model took part" in text
    assert "no language model took part" in text
    assert "no image model took part" in render_markdown(run.record)


def test_a_short_run_says_why_it_ended() -> None:
    run = interleave.generate(REQUEST, out="run", max_calls=4)
    assert "limit of 4 model calls" in Page(run.document.read_text("utf-8")).text


def test_a_missing_image_is_said_not_left_out() -> None:
    run = interleave.generate(REQUEST, out="run")
    for image in (run.folder / "images").iterdir():
        image.unlink()
    assert "missing or was altered" in render_document(run.folder, run.record)


def test_given_images_are_part_of_the_document() -> None:
    run = interleave.generate(["Once", Image.new("RGB", (64, 64), "teal"), "go on in 1 step"], out="run")
    html = run.document.read_text("utf-8")
    assert html.count("data:image/png") == 2
    assert "The request" in Page(html).text


def test_large_images_are_embedded_smaller_than_their_files() -> None:
    import random

    noise = Image.frombytes("RGB", (512, 512), random.Random(0).randbytes(512 * 512 * 3))
    run = interleave.generate(["x", noise, "in 1 step"], out="run")
    assert run.document.stat().st_size < 512 * 512 * 3


def changes(before: str, after: str) -> list[tuple[str, str]]:
    return [(change.kind, change.words) for change in prompt_changes(before, after)]


def test_the_difference_of_prompts_is_told_in_words() -> None:
    assert changes("a cat on a mat", "a black cat on a mat") == [
        ("kept", "a "),
        ("added", "black "),
        ("kept", "cat on a mat"),
    ]
    assert changes("one", "two") == [("removed", "one"), ("added", "two")]


@pytest.mark.parametrize("attack", ATTACKS)
def test_markdown_shows_hostile_text_as_text(attack: str) -> None:
    text = render_markdown(hostile_run(attack).record)
    unescaped = re.sub(r"\\.", "", text)
    assert "<" not in unescaped.replace("> ", "")
    links = re.findall(r"(?<!\\)\]\(([^)]*)\)", text)
    assert all(link.startswith("images/") for link in links)
    assert "\x1b" not in text


def test_markdown_lists_every_step_with_its_image() -> None:
    run = interleave.generate(REQUEST, out="run")
    text = render_markdown(run.record)
    for step in run.steps:
        assert step.image is not None
        assert f"(images/{step.image.name})" in text
        assert (run.folder / "images" / step.image.name).exists()


def test_run_json_is_the_folded_journal() -> None:
    run = interleave.generate(REQUEST, out="run")
    stored = json.loads((run.folder / "run.json").read_text("utf-8"))
    assert stored == json.loads(interleave.read_record(run.folder).model_dump_json())
