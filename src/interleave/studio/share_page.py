"""The page that leads to the documents of a web folder: a title and a cover for each."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable
from pathlib import Path

from interleave import RunError, RunRecord
from interleave.plugin import ImageStore, runs

COVER_SIDE = 480
STYLE = """
:root { color-scheme: light dark; --paper: #fdfcf9; --ink: #23211d; }
@media (prefers-color-scheme: dark) { :root { --paper: #181715; --ink: #e9e5dc; } }
body { max-width: 68rem; margin: 2.5rem auto; padding: 0 1.25rem; background: var(--paper); color: var(--ink);
  font: 1.05rem/1.45 Charter, Georgia, serif; }
ul { display: grid; gap: 2rem 1.5rem; padding: 0; list-style: none;
  grid-template-columns: repeat(auto-fill, minmax(min(13rem, 100%), 1fr)); }
a { color: inherit; text-decoration: none; }
a:hover { text-decoration: underline; }
img { display: block; width: 100%; aspect-ratio: 1; margin-bottom: .6rem; border-radius: .5rem;
  object-fit: cover; }
"""
PAGE = """<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<ul>
{items}
</ul>
</main>
</body>
</html>
"""


def index_page(documents: Iterable[tuple[str, RunRecord, Path]]) -> str:
    """Return the page for documents, each with its file, record and run folder."""
    items, titles = [], []
    for file, record, folder in documents:
        title = runs.as_shown(record).title
        titles.append(title)
        cover = _cover(record, folder)
        items.append(f'<li><a href="{html.escape(file)}">{cover}{html.escape(title)}</a></li>')
    return PAGE.format(title=html.escape(" · ".join(titles)[:120]), style=STYLE, items="\n".join(items))


def _cover(record: RunRecord, folder: Path) -> str:
    names = [step.record.attempt.image for step in runs.as_shown(record).steps if step.record.attempt]
    try:
        image = ImageStore(folder).get(names[-1])
    except (IndexError, RunError):
        return ""
    image.thumbnail((COVER_SIDE, COVER_SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=88)
    return f'<img src="data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}" alt="">'
