"""Lettering never overlaps, points at its things, and follows what a reader of the images sees."""

from __future__ import annotations

import io
import json
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import interleave
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.books.book import BookImage, BookPage, Letters, Words, book_of
from interleave.books.languages import Language
from interleave.books.lettering import WIDTH, diagram, drawn_over
from interleave.cli.main import run
from interleave.runs.calls import NO_WRITING, without_writing
from interleave.runs.record import read_record
from interleave.types import Lettering, Plan, PlanStep

ENGLISH = Language("en", is_rtl=False)
LETTERS = st.builds(
    Letters,
    kind=st.sampled_from(["speech", "caption", "label"]),
    text=st.text(min_size=1, max_size=120),
    target=st.sampled_from(["", "Ann"]),
    at=st.none() | st.tuples(st.floats(0, 1), st.floats(0, 1)),
)


def page(letters: tuple[Letters, ...], width: int = 64, height: int = 64) -> BookPage:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, "PNG")
    image = BookImage("a.png", buffer.getvalue(), "image/png", width, height, "black")
    return BookPage(1, (Words(ENGLISH, "", "", "", letters),), image)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(LETTERS, max_size=12), st.sampled_from([(64, 64), (96, 64), (64, 112)]))
def test_nothing_overlaps_and_no_word_is_lost(letters: list[Letters], size: tuple[int, int]) -> None:
    shown = page(tuple(letters), *size)
    for drawn in (drawn_over(shown), diagram(shown)):
        assert not [pair for pair in combinations(drawn.boxes, 2) if pair[0].overlaps(pair[1])]
        for box in drawn.boxes:
            assert box.x >= -0.01 and box.x + box.w <= WIDTH + 0.01 and box.y >= -0.01
            assert box.y + box.h <= drawn.height + 0.01
        told = [part.text for box in drawn.boxes for part in box.parts]
        told += [part.text for entry in drawn.legend for part in entry.parts]
        assert sorted(told) == sorted(each.text for each in letters)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.floats(0.1, 0.9), st.floats(0.1, 0.9)), min_size=1, max_size=9))
def test_labels_stand_beside_the_image_and_their_lines_end_at_their_points(
    points: list[tuple[float, float]],
) -> None:
    drawn = diagram(page(tuple(Letters("label", f"thing {at}", "", at) for at in points)))
    image = (drawn.left, drawn.left + drawn.width)
    assert all(box.x + box.w <= image[0] or box.x >= image[1] for box in drawn.boxes)
    tips = sorted(
        (round((x - drawn.left) / drawn.width, 6), round(y / drawn.width, 6)) for _, (x, y) in drawn.leaders
    )
    assert tips == sorted((round(x, 6), round(y, 6)) for x, y in points)


def test_labels_of_the_miniature_overlap_nothing_where_the_truth_is_known(tmp_path: Path) -> None:
    """The painter draws what it is told, so the scene is the truth: cells of 80 pixels, 8 from the border."""
    pytest.importorskip("interleave_mini")
    prompt = "A meadow with a yellow duck on the left, a red house in the middle and a red cat on the right."
    letters = tuple(
        Lettering(kind="label", text=text) for text in ("the yellow duck", "house", "cat", "the moon")
    )
    step = PlanStep(number=1, prompt=prompt, caption="They meet.", lettering=letters)
    folder = tmp_path / "run"
    interleave.generate("Labels", plan=Plan(steps=(step,)), generator="world", critic="oracle", out=folder)
    assert run(["book", "look", str(folder)]) == 0
    (shown,) = book_of(folder, read_record(folder)).pages
    assert shown.image and shown.image.alt == prompt  # what is seen, not the text
    drawn = diagram(shown)
    cells = {"the yellow duck": 0, "house": 1, "cat": 2}
    assert {part.text for box in drawn.boxes for part in box.parts} == set(cells)
    assert [part.text for entry in drawn.legend for part in entry.parts] == ["the moon"]  # not there
    for box, (_, (x, y)) in zip(drawn.boxes, drawn.leaders, strict=True):
        left = 8 + 80 * cells[box.parts[0].text]
        assert left < (x - drawn.left) / drawn.width * 256 < left + 80
        assert 88 < y / drawn.width * 256 < 168
    assert not [pair for pair in combinations(drawn.boxes, 2) if pair[0].overlaps(pair[1])]
    assert all(box.x + box.w <= drawn.left or box.x >= drawn.left + drawn.width for box in drawn.boxes)


def test_a_generator_is_told_to_draw_no_writing_where_words_are_set_later(tmp_path: Path) -> None:
    letters = (Lettering(kind="caption", text="Meanwhile…"),)
    steps = (
        PlanStep(number=1, prompt="a cat", caption="A cat.", lettering=letters),
        PlanStep(number=2, prompt="a dog", caption="A dog."),
    )
    folder = tmp_path / "run"
    interleave.generate(
        "Cat", profile="dry-run", generator="solid?size=64", plan=Plan(steps=steps), out=folder, critic="none"
    )
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text("utf-8").splitlines()]
    drawn = [line for line in lines if line["event"] == "drawn"]
    assert [line["prompt"] for line in drawn] == ["a cat", "a dog"]
    assert drawn[0]["sent"] == f"a cat\n{NO_WRITING}" and "sent" not in drawn[1]
    assert "Meanwhile" not in drawn[0]["sent"]
    (folder / "run.json").unlink()
    again = interleave.resume(folder).record
    assert (again.status, again.steps[0].attempts[0].image) == ("done", drawn[0]["image"])
    request = ImageRequest("a cat", 1, lettered=True)
    assert without_writing(request, GeneratorCapabilities(draws_writing=False)) is request


def test_a_redraw_below_lettering_that_was_added_or_removed_later_follows_it(tmp_path: Path) -> None:
    planned = (Lettering(kind="label", text="paw"),)
    steps = (
        PlanStep(number=1, prompt="a cat", caption="A cat."),
        PlanStep(number=2, prompt="a dog", caption="A dog.", lettering=planned),
    )
    folder = tmp_path / "run"
    interleave.generate(
        "Cat", profile="dry-run", generator="solid?size=64", plan=Plan(steps=steps), out=folder, critic="none"
    )
    changed = tmp_path / "words.json"
    hello = {"kind": "speech", "text": "hello", "target": "cat"}
    words = [{"number": 1, "lettering": [hello]}, {"number": 2, "lettering": []}]
    changed.write_text(json.dumps({"steps": words}))
    assert run(["edit", str(folder), "words", "--from", str(changed)]) == 0
    interleave.edit(folder).redraw(1)
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text("utf-8").splitlines()]
    first, second = [line for line in lines if line["event"] == "drawn"][2:]
    assert (first["step"], first["prompt"], first["sent"]) == (1, "a cat", f"a cat\n{NO_WRITING}")
    assert second["step"] == 2 and "sent" not in second


def test_lettering_is_a_word_of_the_document_that_can_be_undone(tmp_path: Path) -> None:
    steps = (PlanStep(number=1, prompt="a cat", caption="A cat."), PlanStep(number=2, caption="End."))
    folder = tmp_path / "run"
    interleave.generate(
        "Cat", profile="dry-run", generator="solid?size=64", plan=Plan(steps=steps), out=folder
    )
    letters = [{"kind": "speech", "text": "Miau!", "target": "cat", "at": [0.5, 0.5]}]
    edit = interleave.edit(folder)
    edit.words(document={"steps": [{"number": 1, "lettering": letters}]})
    assert book_of(folder, read_record(folder)).pages[0].words[0].lettering[0].text == "Miau!"
    page_with_bubble = interleave.export(folder, "html").read_text("utf-8")
    assert "Miau!" in page_with_bubble and 'class="speech"' in page_with_bubble
    with pytest.raises(interleave.InputError, match="step 2 has no image, so it takes no lettering"):
        edit.words(document={"steps": [{"number": 2, "lettering": letters}]})
    edit.undo()
    assert book_of(folder, read_record(folder)).pages[0].words[0].lettering == ()
