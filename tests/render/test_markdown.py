"""`document.md`, read by a real Markdown parser: what users and models wrote is text, and nothing else."""

from __future__ import annotations

import random

from markdown_it import MarkdownIt
from markdown_it.token import Token
from test_html import script

import interleave
from interleave.render.markdown import render_markdown
from interleave.text import visible

TEXT = {"paragraph_open", "paragraph_close", "text", "text_special", "softbreak"}
PIECES = [
    "---",
    "===",
    "a\n===",
    "a\n-",
    "- - -",
    "***",
    "> said",
    "# heading",
    "1. one",
    "12) twelve",
    "* item",
    "- item",
    "+ item",
    "    code",
    "\tcode",
    "```",
    "~~~ python",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "a\n:-",
    "<div onclick=x>",
    "<!-- comment",
    "[name]: http://evil.example",
    "[^1]: note",
    "ends with \\",
    "two spaces  \nthen a line",
    "\\",
    "&lt;b&gt; &#42;",
    "_under_ **bold** `code` ~~gone~~ $x$",
    "[link](http://evil.example) ![](http://evil.example/x.png) <http://evil.example>",
    "Windows\r\n---\r\nlines",
    "-5 °C, 3.5 cm, 1986",
    "",
    "plain words",
]


def parse(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def kinds(tokens: list[Token]) -> set[str]:
    inside = {child.type for token in tokens for child in token.children or ()}
    return inside | {token.type for token in tokens if token.type != "inline"}


def lines(tokens: list[Token]) -> list[str]:
    shown = (
        "".join("\n" if child.type == "softbreak" else child.content for child in token.children or ())
        for token in tokens
        if token.type == "inline"
    )
    return [line.strip() for text in shown for line in text.split("\n") if line.strip()]


def document(*captions: str) -> str:
    """The Markdown of a run whose first step has an image, and whose other ones are text alone."""
    steps = [
        {"step_number": number, "step_name": caption, "prompt": None, "auxiliary_text": caption}
        for number, caption in enumerate(captions, start=1)
    ]
    steps[0]["prompt"] = "a cat"
    planner = script("planner.jsonl", {"execution_plan": steps})
    return render_markdown(interleave.generate("A cat", out="run", planner=planner).record)


def test_a_caption_is_never_more_than_text() -> None:
    captions = [f"Before\n{piece}\nafter" for piece in PIECES]
    tokens = parse(document("The first step", *captions))
    ends = [place for place, token in enumerate(tokens) if token.type == "heading_close"]
    assert len(ends) == len(PIECES) + 2, "a title, and a heading for each step"
    for caption, start, end in zip(captions, ends[2:], [*(end - 2 for end in ends[3:]), None], strict=True):
        step = tokens[start + 1 : end]
        assert kinds(step) <= TEXT, caption
        assert lines(step) == [line.strip() for line in visible(caption).splitlines() if line.strip()]


def test_any_mixture_of_markup_is_text() -> None:
    from interleave.render.markdown import plain

    draw = random.Random(0)
    for _ in range(300):
        text = draw.choice(["\n", "\n\n", " "]).join(draw.choices(PIECES, k=4))
        tokens = parse(f"# Title\n\n{plain(text)}\n\n## Next\n")[3:-3]
        assert kinds(tokens) <= TEXT, text
        assert lines(tokens) == [line.strip() for line in visible(text).splitlines() if line.strip()], text


def test_a_document_has_one_title_and_one_heading_a_step() -> None:
    tokens = parse(document("# 1\n---\n| a |\n|---|"))
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2"]
    links = [
        child.attrs["src"] for token in tokens for child in token.children or () if child.type == "image"
    ]
    assert len(links) == 1
    assert str(links[0]).startswith("images/")
