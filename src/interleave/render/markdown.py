"""`document.md`: a run as editable Markdown with links to its images."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from interleave.files import write_atomic
from interleave.runs.folder import IMAGES_FOLDER
from interleave.runs.record import RunRecord
from interleave.runs.shown_document import StepAsShown, as_shown
from interleave.text import one_line, visible

FILE_NAME = "document.md"

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")
_LINE_MARKUP = re.compile(r"[-+=:]|[0-9]+(?=[.)](?:\s|$))")
"""Markup at the start of a line: lists, rules, underlined headings, rows of tables."""


def write_markdown(folder: Path, record: RunRecord) -> Path:
    """Write the Markdown of a run into its folder."""
    path = folder / FILE_NAME
    write_atomic(path, render_markdown(record).encode())
    return path


def render_markdown(record: RunRecord) -> str:
    """Render a run as Markdown; images are links into its `images` folder."""
    document = as_shown(record)
    blocks = [f"# {plain(one_line(document.title, 200))}"]
    blocks += [f"> {plain(one_line(note, 1000))}" for note in record.model_notes]
    if record.status != "done":
        reason = plain(one_line(record.reason, 300))
        blocks.append(f"> This document is incomplete ({record.status}). {reason}".rstrip())
    if len(record.request) > 1:
        for part in record.request:
            blocks.append(_image(part.image, "given") if part.image else plain(part.text or ""))
        blocks.append("---")
    for step in document.steps:
        blocks += _step(step)
    blocks += [f"*{plain(one_line(note, 1000))}*" for note in record.plan_notes]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _step(step: StepAsShown) -> list[str]:
    blocks = [f"## {step.number}. {plain(one_line(step.name, 200))}".rstrip()]
    if step.record.attempt:
        blocks.append(_image(step.record.attempt.image, step.alt))
    if step.record.forced:
        blocks.append("*Not accepted by the critic; the best attempt is shown.*")
    blocks.append(plain(step.text))
    return blocks


def _image(name: str, description: str) -> str:
    return f"![{plain(description)}]({IMAGES_FOLDER}/{quote(name)})"


def plain(text: str) -> str:
    """Escape text so that Markdown shows it unchanged, as paragraphs."""
    return "\n".join(_plain_line(line) for line in visible(text).replace("\r\n", "\n").split("\n"))


def _plain_line(line: str) -> str:
    """Escape a line and strip leading and trailing spaces, which would be markup."""
    escaped = _MARKUP.sub(r"\\\1", line.strip(" \t"))
    start = _LINE_MARKUP.match(escaped)
    if start is None:
        return escaped
    before = start.end() if start[0].isdigit() else 0  # 1\. and \-
    return f"{escaped[:before]}\\{escaped[before:]}"
