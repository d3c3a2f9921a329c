"""Markdown that is handed in, and what users and models write as it is written out: Markdown and HTML.

Both outputs are read by parsers that are not ours. Text must come out as text: no heading, link, list, code,
image or element may stem from it, whatever it holds.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import Element

import html5lib
from markdown_it import MarkdownIt
from markdown_it.token import Token
from PIL import Image

from fuzzing import REFUSED, attempt, journals, scratch, spare_text, target
from interleave.batches.batch import Ended
from interleave.cli.request_input import build_request, gather_parts
from interleave.errors import InputError
from interleave.render.gallery import write_gallery
from interleave.render.html import render_document
from interleave.render.markdown import render_markdown
from interleave.runs.journal import RequestPart
from interleave.runs.record import AttemptRecord, RunRecord, StepRecord, read_record
from interleave.text import unusable, visible
from interleave.types import Outcome, PlanStep, Request, Verdict

BREAK = b"\x1e"
"""Between the texts of one input."""

STORY = """# A frog

> It begins in water.

![eggs](cat.png "Eggs")

Step 1: *Eggs* lie in water.

![a tadpole](<my cat.png>)
![](my%20cat.png)

---
1. The end.
"""


@target(
    [STORY.encode(), b"![a](cat.png)", b"\xef\xbb\xbfText\n![a]( cat.png )\nmore"],
    words=(
        b"![",
        b"](",
        b")",
        b"![](cat.png)",
        b"![a](../outside/secret.png)",
        b"![a](link.png)",
        b"<cat.png>",
        b' "t"',
    ),
    examples=40,
)
def handed_in(data: bytes) -> bool:
    """A Markdown file: text and images in order, none from outside its folder."""
    with scratch() as folder:
        for name in ("cat.png", "my cat.png"):
            Image.new("RGB", (8, 8), "teal").save(folder / name)
        outside = folder.parent / "outside"
        outside.mkdir()
        Image.new("RGB", (8, 8), "red").save(outside / "secret.png")
        (folder / "link.png").symlink_to(outside / "secret.png")
        path = folder / "story.md"
        path.write_bytes(data)
        parts = attempt(lambda: gather_parts("Go on", None, path), errors=InputError)
        if not isinstance(parts, list):
            return False
        request = attempt(lambda: build_request(parts), errors=InputError)
        if not isinstance(request, Request):
            return False
        assert not unusable(request.text)
        assert all(image.getpixel((0, 0)) != (255, 0, 0) for image in request.images), "an image from outside"
        return True


@cache
def image_name() -> str:
    return sorted(path.name for path in (journals.finished() / "images").iterdir())[0]


def a_record(texts: list[str]) -> RunRecord:
    """A run in which these texts stand at every place where a user or a model can put one."""
    title, caption, name, prompt, refined, thought, reason, reply = (texts * 8)[:8]
    base = read_record(journals.finished())
    attempts = tuple(
        AttemptRecord(
            number=number,
            prompt=said,
            seed=number,
            image=image_name(),
            verdict=Verdict(outcome=Outcome.REJECTED, reasoning=thought, confidence=0.5),
            bad_replies=(reply,),
        )
        for number, said in enumerate((prompt, refined), start=1)
    )
    drawn = PlanStep.model_construct(
        number=1, name=name, instruction=None, prompt=prompt, caption=caption, sources=None
    )
    told = PlanStep.model_construct(
        number=2, name=None, instruction=caption, prompt=None, caption=None, sources=None
    )
    return RunRecord.model_construct(
        **{
            **dict(base),
            "status": "failed",
            "reason": reason,
            "request": (RequestPart(text=title), RequestPart(image=image_name()), RequestPart(text=caption)),
            "steps": (
                StepRecord.model_construct(
                    plan=drawn, attempts=attempts, shown=2, forced=True, finished=True
                ),
                StepRecord.model_construct(plan=told, finished=True, accepted=True),
            ),
            "planner_bad_replies": (reply,),
        }
    )


TEXTS = (
    [
        "How a frog grows up",
        "It hatches.",
        "Eggs",
        "eggs in a pond",
        "more eggs",
        "Too few.",
        "stopped",
        "no {}",
    ],
    [
        "# title\n---",
        "a\n===\nb\n---\nc",
        "`code`",
        "* a\n+ b\n1) c",
        "<b>x</b>",
        "[a](b) ![c](d)",
        "| a |\n|---|",
        "&lt;",
    ],
    [
        "    indented",
        "\ttab\n\tcode",
        "~~~\nfence\n~~~",
        "> quote",
        "https://x.y/z",
        "a\\\nb",
        "<script>",
        "\u202ea",
    ],
)
MARKUP = (
    *(
        b"\n",
        b"\n\n",
        b"---",
        b"===",
        b"# ",
        b"## ",
        b"* ",
        b"- ",
        b"+ ",
        b"1. ",
        b"1) ",
        b"> ",
        b"```",
        b"~~~",
        b"    ",
    ),
    *(
        b"\t",
        b"<b>",
        b"</p>",
        b"<script>alert(1)</script>",
        b"<!--",
        b"](",
        b"![",
        b"[a]: /b",
        b"[a]",
        b"|",
        b"| --- |",
    ),
    *(
        b"\\",
        b"&amp;",
        b"&#35;",
        b"&",
        b"https://a.b",
        b"<https://a.b>",
        b"a@b.c",
        b"_a_",
        b"**a**",
        b"~~a~~",
        b"  \n",
        BREAK,
    ),
    *(
        b'"',
        b"'",
        b'" onerror="alert(1)',
        b"'>",
        b"{{ 7*7 }}",
        b"{% raw %}",
        b"\x1b[31m",
        b"\xe2\x80\xa8",
        b"\r",
        b"\r\n",
    ),
    *(
        b"&NewLine;",
        b"&Tab;",
        b"*",
        b"_",
        b"`",
        b"~",
        b"=",
        b"-",
        b"<",
        b">",
        b"(",
        b")",
        b":",
        b"[^1]",
        b"$a$",
        b"www.a.b",
    ),
)


def text_seeds() -> list[bytes]:
    return [BREAK.join(text.encode() for text in texts) for texts in TEXTS]


def usable_texts(data: bytes) -> list[str] | None:
    texts = [spare_text(piece) for piece in data.split(BREAK)][:8]
    return None if any(unusable(text) for text in texts) else texts


@target(text_seeds, words=MARKUP, examples=40)
def markdown(data: bytes) -> bool:
    """`document.md` has the headings and images of the run, no other markup, and the words as told."""
    texts = usable_texts(data)
    if texts is None:
        return False
    record = a_record(texts)
    written = render_markdown(record)
    tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(written)
    flat = list(tokens_in(tokens))
    kinds = [token.type for token in flat]
    strange = {kind for kind in kinds if kind not in ORDINARY}
    assert not strange, f"text became {sorted(strange)}"
    headings = [token.tag for token in flat if token.type == "heading_open"]
    assert headings == ["h1", "h2", "h2"], f"text became headings: {headings}"
    assert kinds.count("hr") == 1 and kinds.count("em_open") == 1 and kinds.count("strong_open") == 0
    sources = [token.attrs["src"] for token in flat if token.type == "image"]
    assert sources == [f"images/{image_name()}"] * 2, f"pictures: {sources}"
    paragraphs = [words_of(token) for token in inline_of(tokens, "paragraph_open")]
    for text in (texts * 8)[:2]:
        assert words(visible(text)) in "".join(paragraphs), f"{text!r} is not told as it is"
    return True


ORDINARY = {
    *("heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "text", "softbreak"),
    *(
        "hr",
        "image",
        "blockquote_open",
        "blockquote_close",
        "em_open",
        "em_close",
        "text_special",
        "hardbreak",
    ),
}


def tokens_in(tokens: list[Token]) -> list[Token]:
    return [each for token in tokens for each in (token, *tokens_in(token.children or []))]


def inline_of(tokens: list[Token], opening: str) -> list[Token]:
    return [after for before, after in pairwise(tokens) if before.type == opening]


def words_of(token: Token) -> str:
    return words(
        "".join(child.content if child.type != "softbreak" else " " for child in token.children or [])
    )


def words(text: str) -> str:
    """What is told, however its lines are broken."""
    return "".join(text.split())


@target(text_seeds, words=MARKUP, examples=24, weight=0.5)
def html(data: bytes) -> bool:
    """`document.html` has the elements of its template, whatever its texts say, and the texts as text."""
    texts = usable_texts(data)
    if texts is None:
        return False
    record = a_record(texts)
    page = render_document(journals.finished(), record)
    elements = list(html5lib.parse(page, namespaceHTMLElements=False).iter())
    check_inert(elements)
    told = ["".join(element.itertext()) for element in elements if element.get("class") == "prose"]
    for text in (texts * 8)[:2]:
        assert not text.strip() or same_lines(visible(text)) in map(same_lines, told), (
            f"{text!r} is not told as it is"
        )
    return True


ELEMENTS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "h1",
        "h2",
        "h3",
        "p",
        "div",
        "section",
        "span",
    ),
    *("figure", "img", "details", "summary", "article", "a", "dl", "dt", "dd", "pre", "ins", "del", "footer"),
    *("em", "code", "header", "h4", "ol", "ul", "li", "nav", "figcaption"),
}
ATTRIBUTES = {
    *(
        "lang",
        "charset",
        "http-equiv",
        "content",
        "name",
        "class",
        "id",
        "src",
        "width",
        "height",
        "alt",
        "dir",
    ),
    *("href", "style", "aria-label"),
}


def check_inert(elements: list[Element]) -> None:
    """Nothing of a page runs, loads or leads elsewhere."""
    for element in elements:
        if not isinstance(element.tag, str):
            raise AssertionError("a comment stems from a text")
        assert element.tag in ELEMENTS, f"an element <{element.tag}>"
        assert set(element.attrib) <= ATTRIBUTES, f"attributes {sorted(element.attrib)}"
        assert element.tag != "img" or element.attrib["src"].startswith("data:image/")
        assert element.tag != "a" or re.fullmatch(r"(images|runs)/[\w./-]+|#[\w-]+", element.attrib["href"])
        assert "url(" not in element.attrib.get("style", "")


def same_lines(text: str) -> str:
    return text.replace("\r\n", "\n")


@target(text_seeds, words=MARKUP, examples=8, weight=0.2)
def gallery(data: bytes) -> bool:
    """The page of many runs, and the documents it leads to."""
    texts = usable_texts(data)
    if texts is None or not texts[0].strip():
        return False
    with scratch() as folder:
        run = folder / "runs" / "aa" / "a"
        run.mkdir(parents=True)
        title = attempt(lambda: Request.of(texts[0]), errors=InputError)
        if title is REFUSED:
            return False
        (run / "images").symlink_to(journals.finished() / "images")
        write_journal(run, texts)
        ended = Ended(id="a", digest="", folder="runs/aa/a", status="failed", reason=texts[-1])
        page = write_gallery(folder, [ended], {"a": texts[0]}).read_text("utf-8")
        pages = [page, *(each.read_text("utf-8") for each in run.glob("document.html"))]
        for text in pages:
            check_inert(list(html5lib.parse(text, namespaceHTMLElements=False).iter()))
        return True


def write_journal(run: Path, texts: list[str]) -> None:
    """The journal of a run that was asked for the first text and failed with the last."""
    from interleave.runs.folder import open_journal
    from interleave.runs.journal import Ended as RunEnded
    from interleave.runs.journal import Started

    journal = open_journal(run)
    config = read_record(journals.finished()).config
    journal.append(Started(time=1e9, request=(RequestPart(text=texts[0]),), config=config, software="test"))
    journal.append(RunEnded(time=1e9, status="failed", reason=texts[-1]))
    journal.write()
    journal.close()
