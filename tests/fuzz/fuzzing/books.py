"""Files of words in other languages: TOML and Markdown that people fill in."""

from __future__ import annotations

from fuzzing import REFUSED, attempt, scratch, target
from interleave.books.texts import originals, read_texts
from interleave.plugin import runs
from interleave.runs.record import StepRecord
from interleave.types import PlanStep

STEPS = tuple(
    runs.StepAsShown(
        number, "", text, text, (), StepRecord(plan=PlanStep(number=number, prompt=text, caption=text))
    )
    for number, text in enumerate(("One egg.", "Two eggs."), start=1)
)
DOCUMENT = runs.DocumentAsShown("Eggs", STEPS)
TOML = """language = "de"
[[words]]
where = "title"
original = "Eggs"
text = "Eier"
[[words]]
where = "step 1 text"
original = "One egg."
text = "Ein Ei."
[[words]]
where = "step 2 text"
original = "Two eggs."
text = \"\"\"Zwei
Eier.\"\"\"
"""


@target(
    [TOML.encode()],
    words=(b"[[words]]", b"text =", b'"', b"\\u0000", b"language", b"step 1 text"),
    examples=60,
)
def words_in_toml(data: bytes) -> bool:
    """A translation has a text for all words of the document, and a tag that pages can hold."""
    return _is_read(data, "texts.toml")


@target(
    [b"# Eier\n\n1. Ein Ei.\n2. Zwei Eier.\n", b"- a\n- b"],
    words=(b"#", b"\n", b"1. ", b"![a](b.png)"),
    examples=60,
)
def words_in_markdown(data: bytes) -> bool:
    """A Markdown file has one sentence for each step."""
    return _is_read(data, "eggs.de.md")


def _is_read(data: bytes, name: str) -> bool:
    with scratch() as folder:
        path = folder / name
        path.write_bytes(data)
        read = attempt(lambda: read_texts(path, DOCUMENT))
        if read is REFUSED:
            return False
        assert read.language and not read.is_original
        wanted = originals(DOCUMENT)
        assert all(read.words[place].strip() for place in wanted)
        assert [path.name for path in folder.iterdir()] == [name]
    return True
