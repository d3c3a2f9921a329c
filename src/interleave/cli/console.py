"""The one place that makes consoles: text is printed as it is, styles are given beside it.

Requests, paths, model names and `pip install "…[api]"` have brackets that rich would take for markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TextColumn


def make_console(*, stderr: bool = True, width: int | None = None) -> Console:
    """A console that prints brackets, emoji codes and numbers as they are, also in the cells of tables."""
    from rich.console import Console

    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def text_column(text: str) -> TextColumn:
    """A column of a progress bar: these read markup whatever the console says."""
    from rich.progress import TextColumn

    return TextColumn(text, markup=False)
