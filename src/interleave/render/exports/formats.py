"""The export formats of runs: a built-in table, and entry points of other packages.

A package adds a format with an entry point in the group `interleave.exporters` that names a `Format`. The
name of the entry point is the value of `--to` and the suffix of the file.
"""

from __future__ import annotations

import logging
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from interleave import entry_points
from interleave.errors import (
    ConfigurationError,
    InterleaveError,
    MissingDependency,
    StorageError,
    class_and_message,
    did_you_mean,
)
from interleave.files import why, write_atomic

if TYPE_CHECKING:
    from interleave.runs.record import RunRecord

log = logging.getLogger(__name__)
EXPORTERS = "exporters"
"""Entry point group of formats in other packages."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
INSTALL = 'pip install "interleavethinker[studio]"'
Paper = Literal["a4", "letter"]
PageLayout = Literal["print", "slides"]


@dataclass(frozen=True)
class ExportOptions:
    """Options of PDF export; the other formats have none."""

    paper: Paper = "a4"
    layout: PageLayout = "print"
    """`print` fills portrait pages, `slides` has one landscape page per step."""

    def __post_init__(self) -> None:
        for name, value, known in (("paper", self.paper, Paper), ("layout", self.layout, PageLayout)):
            if value not in get_args(known):
                raise ConfigurationError(f"{name}={value}: use {' or '.join(get_args(known))}")


@dataclass(frozen=True)
class Exported:
    """An exported file and the characters that it could not show."""

    data: bytes
    missing_characters: str = ""
    """Characters without a font on this machine; the file shows their code points instead."""


@dataclass(frozen=True)
class Format:
    """An export format and the function that renders it."""

    name: str
    title: str
    media_type: str
    made_by: str
    """`module:function`, called with a run folder, its record and the options; returns an `Exported`."""
    needs: tuple[str, ...] = ()
    """Required packages."""
    install: str = ""
    """Command that installs them, if it is not `pip install` with their names."""

    @property
    def lacking(self) -> list[str]:
        """Required packages that are not installed."""
        return [package for package in self.needs if not entry_points.is_importable(package)]

    @property
    def missing(self) -> str | None:
        """Command that installs the missing packages; `None` if there are none."""
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
    """Return the names that `--to` accepts, without importing anything."""
    return list(dict.fromkeys((*FORMATS, *entry_points.installed(EXPORTERS))))


def find_format(name: str) -> Format:
    """Return the format `name`; an exporter of another package cannot replace a built-in one."""
    if name in FORMATS:
        return FORMATS[name]
    point = entry_points.installed(EXPORTERS).get(name)
    if point is None:
        raise ConfigurationError(f"no format {name!r}. {did_you_mean(name, format_names())}")
    found = entry_points.load(point, f"the exporter {name!r}")
    if not isinstance(found, Format):
        raise ConfigurationError(f"{point.value!r} of {entry_points.package_of(point)} is not a Format")
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"the exporter {name!r} of {entry_points.package_of(point)} needs another name: as a file suffix "
            "it may have only lower-case letters, digits and hyphens"
        )
    return replace(found, name=name)


@cache
def known_formats() -> Mapping[str, Format]:
    """Return every format, looked up once; exporters that cannot be loaded are skipped with a warning."""
    found = {}
    for name in format_names():
        try:
            found[name] = find_format(name)
        except InterleaveError as error:
            log.warning("%s (skipped)", error)
    return found


def export_run(folder: Path, record: RunRecord, name: str, options: ExportOptions | None = None) -> Exported:
    """Export the run in `folder`; raise if the format is unknown or a package is missing."""
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


def write_export(folder: Path, name: str, out: Path | None, options: ExportOptions) -> tuple[Path, Exported]:
    """Export the run in `folder` to a file, by default `document.NAME` in the folder; return its path too."""
    from interleave.runs.record import read_record

    made = export_run(folder, read_record(folder), name, options)
    path = out or folder / f"document.{name}"
    try:
        write_atomic(path, made.data)
    except StorageError as error:
        cause = error.__cause__
        if isinstance(cause, FileNotFoundError | IsADirectoryError | NotADirectoryError | PermissionError):
            problem = f"out={path}: cannot be written ({why(cause)}), name another file"
            raise ConfigurationError(problem) from None
        raise  # the disk, not the path
    return path, made


def _function_of(wanted: Format) -> Any:
    """Return the function that renders a format; importing another package may raise any exception."""
    try:
        return pkgutil.resolve_name(wanted.made_by)
    except InterleaveError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"the exporter {wanted.name!r} cannot be loaded from {wanted.made_by!r}: "
            f"{class_and_message(error)}"
        ) from error
