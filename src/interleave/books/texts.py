"""Words in other languages: a TOML file to fill, or a Markdown file with one sentence per step."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from interleave import InputError, RunRecord, read_markdown
from interleave.books.languages import UNKNOWN, guessed
from interleave.plugin import first_problem, read_text, render, runs, types

MAX_BYTES = 4_000_000
MARKDOWN = (".md", ".markdown")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
HEAD = """\
# The words of “{title}”, to be translated.
# Write the language of your texts below, such as "de" or "ar", and your words after each `text =`.
# Leave `original` as it is: it shows whether a text still fits the document.
# Alternative texts may stay empty.
# Then: interleave export RUN --texts THIS_FILE
"""


@dataclass(frozen=True)
class StepTexts:
    """The words of one step in one language."""

    heading: str
    text: str
    alt: str
    lettering: tuple[str, ...]


@dataclass(frozen=True)
class Translation:
    """The words of a document in one language, by their place; the original has none of its own."""

    language: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    is_original: bool = True

    def of_step(self, step: runs.StepAsShown) -> StepTexts:
        letters = tuple(each.text for each in step.lettering)
        if self.is_original:
            return StepTexts(step.name, step.text, step.alt, letters)
        number = step.record.plan.number
        own = {key: self.words.get(_place(number, key), "") for key in ("heading", "text", "alt")}
        lettering = tuple(
            self.words[_place(number, f"lettering {place}")] for place in range(1, len(letters) + 1)
        )
        return StepTexts(**own, lettering=lettering)


def _place(number: int, key: str) -> str:
    return f"step {number} {key}"


def originals(document: runs.DocumentAsShown) -> dict[str, str]:
    """Return all words of a document by their place, without empty ones."""
    found = {"title": document.title}
    for step in document.steps:
        number = step.record.plan.number
        alt = step.alt if step.record.attempt and step.alt not in (step.text, step.name) else ""
        found |= {
            _place(number, "heading"): step.name,
            _place(number, "text"): step.text,
            _place(number, "alt"): alt,
        }
        for place, each in enumerate(step.lettering, start=1):
            found[_place(number, f"lettering {place}")] = each.text
    return {place: words for place, words in found.items() if words.strip()}


def render_texts(folder: Path, record: RunRecord, options: render.ExportOptions) -> render.Exported:
    """Render the file of words to translate, filled with the translations that the options name."""
    document = runs.as_shown(record)
    language = next(iter(options.languages), "")
    filled: Mapping[str, str] = {}
    if options.texts:
        (first, *_) = translations(document, options)
        language, filled = first.language, first.words
    return render.Exported(texts_file(document, language, filled).encode())


def texts_file(document: runs.DocumentAsShown, language: str, filled: Mapping[str, str]) -> str:
    """Return the file of words to translate, with the translations that are known."""
    title = " ".join(document.title.split())
    lines = [HEAD.format(title=title), f"language = {_quoted(language)}"]
    for place, words in originals(document).items():
        lines += ["", "[[words]]", f"where = {_quoted(place)}", f"original = {_quoted(words)}"]
        lines.append(f"text = {_quoted(filled.get(place, ''))}")
    return "\n".join(lines) + "\n"


def _quoted(words: str) -> str:
    """Return a TOML string: JSON's, with the one control character escaped that TOML refuses."""
    return json.dumps(words, ensure_ascii=False).replace("\x7f", "\\u007f")


class _Entry(types.Value):
    where: str
    original: str
    text: str = ""


class _TextsFile(types.Value):
    language: str = ""
    words: tuple[_Entry, ...]


def translations(document: runs.DocumentAsShown, options: render.ExportOptions) -> tuple[Translation, ...]:
    """Return the words in each language to show; the original has the tag that no file has.

    Raises `InputError` for a language without a file, and for files that do not fit the document.
    """
    only = options.languages[0] if len(options.languages) == 1 else ""
    files = [read_texts(path, document, only) for path in options.texts]
    known = {each.language: each for each in files}
    if len(known) < len(files):
        raise InputError(f"two files of texts have the language {files[0].language!r}: name one")
    if not options.languages:
        return (Translation(guess(document)), *files)
    unknown = [tag for tag in options.languages if tag not in known]
    if len(unknown) > 1:
        raise InputError(
            f"no texts in {unknown[1]!r}: write them with --to texts --language {unknown[1]}, "
            "and add the file with --texts"
        )
    if unknown and guess(document) not in ("", unknown[0].partition("-")[0]):
        raise InputError(f"no texts in {unknown[0]!r}: add the file with --texts")
    return tuple(known.get(tag) or Translation(tag) for tag in options.languages)


def guess(document: runs.DocumentAsShown) -> str:
    """Return the tag that the script of a document suggests; empty if it suggests none."""
    tag = guessed(" ".join(originals(document).values()))
    return "" if tag == UNKNOWN else tag


def read_texts(path: Path, document: runs.DocumentAsShown, language: str = "") -> Translation:
    """Return the words in a file, checked against the document."""
    if path.suffix.lower() in MARKDOWN:
        return _read_markdown(path, document, language)
    given = _read_toml(path)
    tag = given.language or language
    if not _LANGUAGE.fullmatch(tag):
        raise InputError(f'{path}: language = "{given.language}": write a tag such as "de" or "ar"')
    words = {entry.where: entry.text for entry in given.words}
    if problem := next(_problems(given, originals(document)), None):
        raise InputError(f"{path}: {problem}")
    return Translation(tag, words, is_original=False)


def _read_toml(path: Path) -> _TextsFile:
    try:
        return _TextsFile.model_validate(tomllib.loads(_text_of(path)))
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"{path}: not TOML ({error}). Make one with: interleave export RUN --to texts"
        ) from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    except ValidationError as error:
        problem = first_problem(error)
        raise InputError(f"{path}: {problem}. Make one with: interleave export RUN --to texts") from None


def _text_of(path: Path) -> str:
    try:
        return read_text(path, most_bytes=MAX_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def _problems(given: _TextsFile, wanted: Mapping[str, str]) -> Iterator[str]:
    found = {entry.where: entry for entry in given.words}
    for place, original in wanted.items():
        entry = found.get(place)
        if entry is None:
            yield f"{place!r} is missing: it is {original[:80]!r}"
        elif entry.original != original:
            yield f"{place!r} was translated from {entry.original[:80]!r}, and is now {original[:80]!r}"
        elif not entry.text.strip() and not place.endswith(" alt"):
            yield f"{place!r} has no text: translate {original[:80]!r}"


def _read_markdown(path: Path, document: runs.DocumentAsShown, language: str) -> Translation:
    """Return the words of a Markdown file: its heading is the title, its paragraphs the texts in order."""
    tag = path.stem.rpartition(".")[2] if _LANGUAGE.fullmatch(path.stem.rpartition(".")[2]) else language
    if not tag:
        raise InputError(f"{path}: name the file STORY.LANGUAGE.md, such as {path.stem}.de.md")
    title, chapters = markdown_story(path)
    sentences = [sentence for chapter in chapters for sentence in chapter]
    if len(sentences) != len(document.steps):
        raise InputError(
            f"{path} has {len(sentences)} sentences, the document {len(document.steps)} steps: "
            "write one sentence for each, each in its own line"
        )
    words = {"title": title or document.title}
    for step, sentence in zip(document.steps, sentences, strict=True):
        words[_place(step.record.plan.number, "text")] = sentence
        if step.lettering:
            raise InputError(
                f"{path}: step {step.number} has lettering, translate it in a file of --to texts"
            )
    return Translation(tag, words, is_original=False)


_HEADING = re.compile(r"#{1,6}[ \t]+(.*?)[ \t]*#*")
_MARK = re.compile(r"(?:[-*+]|\d{1,3}[.)])[ \t]+")


def markdown_story(path: Path) -> tuple[str, list[list[str]]]:
    """Return the title of a Markdown file, and its sentences by chapter, one in each line or list item."""
    parts = read_markdown(path)
    if any(isinstance(part, Path) for part in parts):
        raise InputError(f"{path} shows images: a story to illustrate has text only")
    title, chapters = "", list[list[str]]([[]])
    for line in filter(None, (line.strip() for part in parts for line in str(part).splitlines())):
        if heading := _HEADING.fullmatch(line):
            title = title or heading[1]
            chapters.append([])
        else:
            chapters[-1].append(_MARK.sub("", line, count=1))
    return title, [chapter for chapter in chapters if chapter]
