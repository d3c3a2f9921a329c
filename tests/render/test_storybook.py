"""The page of a document as a reader meets it: a grid of images, quiet notes, details folded away."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

import interleave
from interleave.cli.main import run
from interleave.render.html import layout_of, merged_notes

Captured = pytest.CaptureFixture[str]


class Unfolded(HTMLParser):
    """The text that is seen before anything is unfolded, and the alternative texts of images."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.alts, self._folded, self._skip = "", [], 0, 0  # type: ignore[var-annotated]
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._folded += tag == "details"
        self._skip += tag in ("style", "title")
        if tag == "img" and not self._folded:
            self.alts.append(dict(attrs).get("alt"))

    def handle_endtag(self, tag: str) -> None:
        self._folded -= tag == "details"
        self._skip -= tag in ("style", "title")

    def handle_data(self, data: str) -> None:
        if not self._folded and not self._skip:
            self.text += data


def page(request: str, **options: object) -> tuple[interleave.RunResult, str]:
    made = interleave.generate(request, out="run", **options)  # type: ignore[arg-type]
    return made, made.document.read_text("utf-8")


def test_a_reader_sees_captions_and_no_prompts_seeds_or_verdicts() -> None:
    made, html = page("A boat in 4 pictures")
    seen = Unfolded(html).text
    for step in made.record.steps:
        assert step.plan.text in seen
        for attempt in step.attempts:
            assert str(attempt.seed) not in seen
            assert str(attempt.seed) in html
    assert "Attempt 1" not in seen
    assert "scripted" in seen  # the quiet line names the doubles


def test_what_holds_for_two_models_is_said_once() -> None:
    _, html = page("A boat in 1 picture")
    assert Unfolded(html).text.count("no language model took part") == 1
    assert merged_notes(
        ["The plan comes from x.", "The verdicts come from x.", "The images come from y."]
    ) == ("The plan and the verdicts come from x. The images come from y.")
    assert merged_notes(["The plan comes from x.", "Small models took part."]) == (
        "The plan comes from x. Small models took part."
    )


def test_every_image_says_in_words_what_it_shows() -> None:
    made, html = page("A boat in 3 pictures")
    assert Unfolded(html).alts == [step.plan.text for step in made.record.steps if step.attempt]


def test_a_forced_step_is_marked_below_its_image_and_counted_once_above() -> None:
    Path("c.jsonl").write_text(
        "\n".join(
            json.dumps({"text": json.dumps({"success": False, "refine_prompt": "x"})}) for _ in range(4)
        )
    )
    _, html = page("A boat in 2 pictures", critic="scripted:./c.jsonl", max_attempts=2)
    seen = Unfolded(html).text
    assert seen.count("Not accepted by the critic: the best of 2 attempts") == 2
    assert seen.count("2 images were not accepted") == 1


@pytest.mark.parametrize(
    ("width", "steps", "columns", "tile"),
    [
        (256, 1, 1, 512),  # small ones are enlarged a little
        (256, 4, 2, 448),
        (256, 12, 3, 384),
        (64, 4, 2, 384),  # whole multiples, pixel by pixel
        (512, 4, 2, 512),  # real size
        (1024, 1, 1, 1024),
        (1024, 4, 2, 560),  # never larger than real size
        (1024, 12, 3, 400),
    ],
)
def test_images_stand_in_a_grid_at_a_size_where_they_are_sharp(
    width: int, steps: int, columns: int, tile: int
) -> None:
    layout = layout_of([(width, width)] * steps, steps)
    assert (layout.columns, layout.tile) == (columns, tile)


def test_only_tiny_images_show_their_pixels() -> None:
    _, tiny = page("A boat in 1 picture", generator="solid?size=64")
    assert 'class="pixels"' in tiny
    made = interleave.generate("A boat in 1 picture", out="large", generator="solid?size=256")
    assert 'class="pixels"' not in re.sub("(?s)<details>.*</details>", "", made.document.read_text("utf-8"))


def test_a_document_of_text_alone_has_no_grid() -> None:
    plan = interleave.Plan(steps=(interleave.PlanStep(number=1, caption="Only words."),))
    _, html = page("Words", plan=plan)
    assert "columns-1" in html
    assert "Only words." in Unfolded(html).text


@pytest.mark.parametrize(
    ("name", "plan", "title"),
    [
        ("omelette_for-two.json", {}, "Omelette for two"),
        ("plan.json", {}, "Break the eggs"),
        ("plan-2.json", {"title": "Breakfast"}, "Breakfast"),
        ("eggs.json", {"request": "How to fry eggs"}, "How to fry eggs"),
    ],
)
def test_a_plan_made_by_hand_has_a_title(name: str, plan: dict[str, str], title: str) -> None:
    steps = [{"name": "Break the eggs", "caption": "Into a bowl.", "prompt": "two eggs in a bowl"}]
    Path(name).write_text(json.dumps({**plan, "steps": steps}))
    assert run(["generate", "--plan", name, "--out", "made"]) == 0
    assert f'<h1 dir="auto">{title}</h1>' in Path("made/document.html").read_text("utf-8")


def test_a_title_that_is_no_text_is_refused(capsys: Captured) -> None:
    Path("x.json").write_text('{"title": 5, "steps": [{"prompt": "eggs"}]}')
    assert run(["generate", "--plan", "x.json", "--out", "made"]) == 2
    assert '"title" must be a text' in capsys.readouterr().err


def test_a_given_image_says_that_it_was_given() -> None:
    made = interleave.generate(["Once", Image.new("RGB", (64, 64), "teal"), "go on in 1 step"], out="run")
    assert "An image given with the request" in Unfolded(made.document.read_text("utf-8")).alts
