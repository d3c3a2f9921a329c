"""Puts the page of `make site`, if it was built, into the documentation, with a link on the front page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

DIST = Path(__file__).resolve().parent.parent / "browser" / "dist"
FOLDER = "try"
LINK = f"**[Try it in this tab]({FOLDER}/index.html)**, without an installation.\n\n"
BEFORE = "Needs: the program make"


def on_files(files: Any, config: Any) -> Any:
    """Add the files of the page as they are."""
    if (DIST / "index.html").exists():
        for path in sorted(each for each in DIST.rglob("*") if each.is_file()):
            name = f"{FOLDER}/{path.relative_to(DIST).as_posix()}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Add the link to the front page."""
    if page.file.src_uri != "index.md" or not (DIST / "index.html").exists():
        return markdown
    if markdown.count(BEFORE) != 1:
        raise ValueError(f"docs/index.md has no line {BEFORE!r} to put the link before")
    return markdown.replace(BEFORE, LINK + BEFORE)
