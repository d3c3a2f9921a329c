"""Files of words in other languages: written, filled, read, and refused where they do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import interleave
from interleave import InputError
from interleave.books.book import book_of
from interleave.cli.main import run
from interleave.render.exports import ExportOptions
from interleave.runs.record import read_record
from interleave.types import Plan, PlanStep


@pytest.fixture
def made(tmp_path: Path) -> Path:
    steps = (PlanStep(number=1, prompt="an egg", caption="One egg."), PlanStep(number=2, caption="End."))
    folder = tmp_path / "run"
    interleave.generate(
        "Eggs", profile="dry-run", generator="solid?size=64", plan=Plan(steps=steps), out=folder
    )
    return folder


def filled(made: Path, *changes: tuple[str, str]) -> Path:
    """The file of words, with some of it replaced."""
    path = interleave.export(made, "texts")
    text = path.read_text("utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text, "utf-8")
    return path


GERMAN = (
    ('language = ""', 'language = "de"'),
    ('original = "Eggs"\ntext = ""', 'original = "Eggs"\ntext = "Eier"'),
    ('original = "One egg."\ntext = ""', 'original = "One egg."\ntext = "Ein Ei."'),
    ('original = "End."\ntext = ""', 'original = "End."\ntext = "Ende."'),
)


def words(made: Path, **options: object) -> list[list[str]]:
    book = book_of(made, read_record(made), ExportOptions(**options))  # type: ignore[arg-type]
    return [
        [each.heading for each in book.titles],
        *([each.text for each in page.words] for page in book.pages),
    ]


def test_a_filled_file_gives_one_language_or_two(made: Path) -> None:
    file = filled(made, *GERMAN)
    assert words(made, texts=(file,)) == [["Eggs", "Eier"], ["One egg.", "Ein Ei."], ["End.", "Ende."]]
    assert words(made, texts=(file,), languages=("de",)) == [["Eier"], ["Ein Ei."], ["Ende."]]
    assert words(made, texts=(file,), languages=("de", "en"))[1] == ["Ein Ei.", "One egg."]


def test_a_markdown_file_with_a_sentence_for_each_step_will_do(made: Path) -> None:
    file = made.parent / "story.de.md"
    file.write_text("# Eier\n\n1. Ein Ei.\n2. Ende.\n", "utf-8")
    assert words(made, texts=(file,)) == [["Eggs", "Eier"], ["One egg.", "Ein Ei."], ["End.", "Ende."]]
    file.write_text("Ein Ei.\n", "utf-8")
    with pytest.raises(InputError, match="has 1 sentences, the document 2 steps"):
        words(made, texts=(file,))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (GERMAN[1:], 'language = "": write a tag'),
        (GERMAN[:-1], "'step 2 text' has no text: translate 'End.'"),
        (
            (*GERMAN, ('original = "End."', 'original = "Fin."')),
            "was translated from 'Fin.', and is now 'End.'",
        ),
        ((*GERMAN, ('where = "step 2 text"', 'where = "step 3 text"')), "'step 2 text' is missing"),
        ((("[[words]]", "[[words"),), "not TOML"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    made: Path, changes: tuple[tuple[str, str], ...], problem: str
) -> None:
    with pytest.raises(InputError) as raised:
        words(made, texts=(filled(made, *changes),))
    assert problem in str(raised.value)


def test_a_language_without_a_file_is_refused(made: Path) -> None:
    with pytest.raises(InputError, match="no texts in 'fr'"):
        words(made, languages=("en", "fr"))


def test_texts_of_edited_words_are_refused_until_they_are_translated_again(made: Path) -> None:
    file = filled(made, *GERMAN)
    assert run(["edit", str(made), "words", "--step", "2", "--text", "The end."]) == 0
    with pytest.raises(InputError, match=r"is now 'The end\.'"):
        words(made, texts=(file,))
    assert words(made)[2] == ["The end."]


def scripted(made: Path, reply: object) -> str:
    path = made.parent / "replies.jsonl"
    path.write_text(json.dumps({"text": json.dumps(reply), "finish_reason": "stop"}) + "\n", "utf-8")
    return f"scripted:{path}"


def test_a_model_translates_into_a_file_that_export_reads(made: Path) -> None:
    planner = scripted(made, ["Eier", "Ein Ei.", "Ende."])
    assert run(["book", "translate", str(made), "--language", "de", "--planner", planner]) == 0
    assert words(made, texts=(made / "texts.de.toml",))[1] == ["One egg.", "Ein Ei."]


def test_a_model_describes_images_as_alternative_texts(made: Path) -> None:
    critic = scripted(made, {"description": "A pale pattern."})
    assert run(["book", "look", str(made), "--critic", critic]) == 0
    assert read_record(made).words.of(1).alt == "A pale pattern."  # type: ignore[union-attr]
