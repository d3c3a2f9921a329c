"""The formats that a run can be exported to: ours in a table, those of other packages by entry points.

A package adds one with an entry point in the group `interleave.exporters` that names a `Format`. The name of
the entry is what `--to` takes, and the suffix of the file.
"""

from __future__ import annotations

import logging
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from interleave import entry_points
from interleave.errors import (
    ConfigurationError,
    InterleaveError,
    MissingDependency,
    class_and_message,
    did_you_mean,
)

if TYPE_CHECKING:
    from interleave.runs.record import RunRecord

log = logging.getLogger(__name__)
EXPORTERS = "exporters"
"""The entry point group of other packages' formats."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
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
    """`module:function` of a run folder, its record and the options; returns an `Exported`."""
    needs: tuple[str, ...] = ()
    """Packages that must be importable."""
    install: str = ""
    """The command that installs them, where it is not `pip install` with their names."""

    @property
    def lacking(self) -> list[str]:
        """The packages it needs that are not installed."""
        return [package for package in self.needs if not entry_points.is_importable(package)]

    @property
    def missing(self) -> str | None:
        """The command that installs what it needs, where that is not installed."""
        return (self.install or f"pip install {' '.join(self.lacking)}") if self.lacking else None


_HERE = "interleave.render.exports"
FORMATS = {
    each.name: each
    for each in (
        Format("pdf", "PDF", "application/pdf", f"{_HERE}.pdf:render_pdf", ("fpdf",), INSTALL),
        Format("epub", "EPUB", "application/epub+zip", f"{_HERE}.epub:render_epub"),
        Format(
            "pptx",
            "PowerPoint",
            "application/vnd.openxmlformats-officedocument.presentationml.presentation",
            f"{_HERE}.pptx:render_pptx",
            ("pptx",),
            INSTALL,
        ),
        Format("zip", "Markdown and images", "application/zip", f"{_HERE}.archive:render_archive"),
        Format("html", "one HTML page", "text/html", f"{_HERE}.archive:render_page"),
    )
}


def format_names() -> list[str]:
    """The names that `--to` takes; nothing is imported."""
    return list(dict.fromkeys((*FORMATS, *entry_points.installed(EXPORTERS))))


def find_format(name: str) -> Format:
    """The format of a name; an exporter of another package cannot replace one of ours."""
    if name in FORMATS:
        return FORMATS[name]
    point = entry_points.installed(EXPORTERS).get(name)
    if point is None:
        raise ConfigurationError(f"there is no format {name!r}. {did_you_mean(name, format_names())}")
    found = entry_points.load(point, f"the exporter {name!r}")
    if not isinstance(found, Format):
        raise ConfigurationError(f"{point.value!r} of {entry_points.package_of(point)} is no Format")
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"the exporter {name!r} of {entry_points.package_of(point)} needs another name: it is the suffix "
            "of a file, of lower-case letters, digits and hyphens"
        )
    return replace(found, name=name)


@cache
def known_formats() -> Mapping[str, Format]:
    """Every format, looked up once; an exporter that cannot be loaded is left out with a warning."""
    found = {}
    for name in format_names():
        try:
            found[name] = find_format(name)
        except InterleaveError as error:
            log.warning("%s (left out)", error)
    return found


def export_run(folder: Path, record: RunRecord, name: str, options: ExportOptions | None = None) -> Exported:
    """The run in this folder as a file of a format; raises where that is unknown or lacks a package."""
    wanted = find_format(name)
    if wanted.missing is not None:
        raise MissingDependency(
            f"{wanted.title} files need the package {wanted.lacking[0]!r}, which is not installed. "
            f"Install it with: {wanted.missing}"
        )
    made = _function_of(wanted)(folder, record, options or ExportOptions())
    if not isinstance(made, Exported):
        raise ConfigurationError(f"{wanted.made_by!r} must return an Exported, not {made!r:.60}")
    return made


def _function_of(wanted: Format) -> Any:
    """The function that makes a format; another package may raise anything at all while it is imported."""
    try:
        return pkgutil.resolve_name(wanted.made_by)
    except InterleaveError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"the exporter {wanted.name!r} cannot be loaded from {wanted.made_by!r}: "
            f"{class_and_message(error)}"
        ) from error
