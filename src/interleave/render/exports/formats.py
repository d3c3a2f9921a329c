"""The formats that a run can be exported to, each with what it needs and the function that makes it."""

from __future__ import annotations

import importlib.util
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from interleave.errors import ConfigurationError, MissingDependency, did_you_mean
from interleave.runs.record import RunRecord

INSTALL = 'pip install "interleavethinker[studio]"'
Paper = Literal["a4", "letter"]
PageLayout = Literal["print", "slides"]


@dataclass(frozen=True)
class ExportOptions:
    """What can be chosen about a PDF; the other formats have no choices."""

    paper: Paper = "a4"
    layout: PageLayout = "print"
    """`print` fills upright pages, `slides` has one wide page for each step."""


@dataclass(frozen=True)
class Exported:
    """A file that was made, and what it could not show."""

    data: bytes
    missing_characters: str = ""
    """Characters that no font of this machine has; the file has their numbers instead."""


@dataclass(frozen=True)
class Format:
    """A format, and where the function is that makes it."""

    name: str
    title: str
    media_type: str
    made_by: str
    """`module:function` of a run folder, its record and the options."""
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> str | None:
        """The command that installs what it needs, where that is not installed."""
        absent = any(importlib.util.find_spec(package) is None for package in self.needs)
        return INSTALL if absent else None


_HERE = "interleave.render.exports"
FORMATS = {
    each.name: each
    for each in (
        Format("pdf", "PDF", "application/pdf", f"{_HERE}.pdf:render_pdf", ("fpdf",)),
        Format("epub", "EPUB", "application/epub+zip", f"{_HERE}.epub:render_epub"),
        Format(
            "pptx",
            "PowerPoint",
            "application/vnd.openxmlformats-officedocument.presentationml.presentation",
            f"{_HERE}.pptx:render_pptx",
            ("pptx",),
        ),
        Format("zip", "Markdown and pictures", "application/zip", f"{_HERE}.archive:render_archive"),
        Format("html", "one HTML page", "text/html", f"{_HERE}.archive:render_page"),
    )
}


def export_run(folder: Path, record: RunRecord, name: str, options: ExportOptions | None = None) -> Exported:
    """The run in this folder as a file of a format; raises where that is unknown or lacks a package."""
    if name not in FORMATS:
        raise ConfigurationError(f"there is no format {name!r}. {did_you_mean(name, FORMATS)}")
    wanted = FORMATS[name]
    if wanted.missing is not None:
        raise MissingDependency(
            f"{wanted.title} files need a package that is not installed. Install it with: {wanted.missing}"
        )
    make = pkgutil.resolve_name(wanted.made_by)
    return cast(Exported, make(folder, record, options or ExportOptions()))
