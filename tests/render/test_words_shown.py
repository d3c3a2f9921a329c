"""What a person changed of a document is in every format; what is only for that person is in none."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path

import pytest

import interleave
from interleave.cli.main import run
from interleave.render.exports import ExportOptions, export_run
from interleave.render.markdown import render_markdown
from interleave.runs.record import read_record
from interleave.types import Plan, PlanStep

PLAN = Plan(
    steps=(
        PlanStep(number=1, name="Spawn", caption="Eggs lie in a pond.", prompt="a pond with eggs"),
        PlanStep(number=2, name="Froglet", caption="It grows legs.", prompt="turn the eggs into a froglet"),
        PlanStep(number=3, name="Moon", caption="The moon rises.", prompt="add a moon"),
    )
)
READABLE = ("epub", "fixed-epub", "pptx", "zip", "html")
INTERNAL = ("by hand", "still says", "turn the eggs", "a red fish")
HIDDEN = ("Moon", "The moon rises.", "add a moon")


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A story whose second step was redrawn, whose steps were moved, and whose third step is hidden."""
    folder = tmp_path_factory.mktemp("edited") / "run"
    interleave.generate("A frog", out=folder, plan=PLAN, profile="dry-run", generator="solid?size=64")
    edit = interleave.edit(folder)
    edit.redraw(2, prompt="a red fish", only_step=True)
    edit.words(title="Der Fisch", order=[2, 1])
    edit.words(1, name="Laich", text="Eier im Teich.", alt="Viele Eier in einem Teich")
    edit.words(3, hidden=True)
    return folder


def text_of(data: bytes) -> str:
    """All text in an exported file."""
    if not data.startswith(b"PK"):
        return data.decode()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if name.endswith((".xhtml", ".xml", ".md", ".html"))]
        return "\n".join(archive.read(name).decode() for name in names)


@pytest.mark.parametrize("name", READABLE)
def test_every_format_shows_the_edited_document(edited: Path, name: str) -> None:
    pytest.importorskip("pptx")
    text = text_of(export_run(edited, read_record(edited), name).data)
    for words in ("Der Fisch", "Laich", "Eier im Teich.", "Viele Eier in einem Teich", "It grows legs."):
        assert words in text, words
    assert text.index("It grows legs.") < text.index("Eier im Teich.")
    book = re.split("Attempts and verdicts", text)[0]
    assert not [words for words in (*INTERNAL, *HIDDEN, "Spawn") if words in book]
    assert not [words for words in HIDDEN if words in text.split("Reasoning of the planner")[0]]


def test_a_pdf_shows_the_edited_document(edited: Path) -> None:
    pypdf = pytest.importorskip("pypdf")
    pytest.importorskip("typst")
    data = export_run(edited, read_record(edited), "pdf").data
    text = " ".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages)
    assert "1 Froglet" in text and "2 Laich" in text
    assert not [words for words in (*INTERNAL, *HIDDEN, "Spawn") if words in text]


def test_an_archive_has_no_image_of_a_hidden_step(edited: Path) -> None:
    record = read_record(edited)
    hidden = {attempt.image for attempt in record.steps[2].attempts}
    shown = {attempt.image for step in record.steps[:2] for attempt in step.attempts}
    made = export_run(edited, record, "zip", ExportOptions(details=True))
    with zipfile.ZipFile(io.BytesIO(made.data)) as archive:
        names = {Path(name).name for name in archive.namelist()}
    assert hidden and not hidden & names and shown <= names


def test_a_moved_step_is_numbered_by_its_place_and_linked_by_its_number(edited: Path) -> None:
    page = (edited / "document.html").read_text("utf-8")
    assert re.findall(r'id="step-(\d)" aria-label="Step (\d)"', page) == [("2", "1"), ("1", "2")]
    assert re.findall(r"^## .*", render_markdown(read_record(edited)), re.MULTILINE) == [
        "## 1. Froglet",
        "## 2. Laich",
    ]


def test_only_the_page_in_the_run_folder_says_that_a_text_is_of_an_earlier_image(edited: Path) -> None:
    note = "The text still says “It grows legs.”; its image was redrawn as “a red fish”."
    assert note in (edited / "document.html").read_text("utf-8")
    assert note not in export_run(edited, read_record(edited), "html").data.decode()


def test_json_has_the_words_shown_and_the_place_of_each_step(
    edited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", str(edited), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["title"] == "Der Fisch"
    told = [[step[key] for key in ("number", "place", "name", "text", "alt")] for step in shown["steps"]]
    assert told == [
        [1, 2, "Laich", "Eier im Teich.", "Viele Eier in einem Teich"],
        [2, 1, "Froglet", "It grows legs.", "It grows legs."],
        [3, None, "Moon", "The moon rises.", "The moon rises."],
    ]
    assert [step["words_for"] for step in shown["steps"]] == [None, "turn the eggs into a froglet", None]


def test_hostile_words_are_text_in_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interleave.generate("A frog", out=folder, plan=PLAN, profile="dry-run", generator="solid?size=64")
    attack = '<script>alert(1)</script>" onerror="x\u202e'
    interleave.edit(folder).words(1, name=attack, text=attack, alt=attack)
    page = (folder / "document.html").read_text("utf-8")
    assert "<script>" not in page and 'onerror="' not in page and "\u202e" not in page
