"""The export formats of runs, found by their entry points.

The room `books` and other packages add a format with an entry point in the group `interleave.exporters` that
names a `Format`. The name of the entry point is the value of `--to` and the suffix of the file.
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
"""Entry point group of formats."""
SIGNERS, SIDECAR = "signers", ".c2pa"
"""Entry point group of functions that sign exports; suffix of credentials beside a file."""
BOOK_NAME = "book.html"
"""Name of a page that is exported into its run folder."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
PageLayout = Literal[
    "print", "picture-book", "one", "two", "four", "comic", "how-to", "worksheet", "labels", "slides"
]


@dataclass(frozen=True)
class ExportOptions:
    """Options of an export; a format uses those that apply to it."""

    paper: str = ""
    """Paper or trim size, such as `a4`, `letter` or `8x10in`. Empty: that of the layout."""
    layout: PageLayout = "print"
    """`print` fills pages with steps. The other layouts are named after what they make."""
    languages: tuple[str, ...] = ()
    """Languages to show together, as tags such as `de`. Empty: the original and those of `texts`."""
    texts: tuple[Path, ...] = ()
    """Files with the words in other languages."""
    bleed: bool = False
    """Whether a PDF is for a printer: with bleed, images at 300 dpi, and an even number of pages."""
    details: bool = False
    """Whether to include how the images were made: prompts, attempts, verdicts and the record."""
    sign: str = ""
    """Key to sign with: a PEM file or `self`. Empty: the export is not signed."""
    sign_prompts: Literal["no", "hash", "text"] = "no"
    """What signed statements say of the prompts."""
    ai_notice: bool = False
    """Whether the title says that the document was made with AI."""

    def __post_init__(self) -> None:
        if self.sign_prompts not in ("no", "hash", "text"):
            raise ConfigurationError(f"sign_prompts={self.sign_prompts}: use no, hash or text")
        if self.layout not in get_args(PageLayout):
            raise ConfigurationError(f"layout={self.layout}: use one of {', '.join(get_args(PageLayout))}")
        for language in self.languages:
            if not _LANGUAGE.fullmatch(language):
                raise ConfigurationError(f"language={language!r}: use a tag such as en, de or zh-Hans")


@dataclass(frozen=True)
class Exported:
    """An exported file."""

    data: bytes
    sidecar: bytes | None = None
    """Credentials to lie beside the file, if its format cannot hold them."""


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
    suffix: str = ""
    """Suffix of its files, if it is not the name."""

    @property
    def lacking(self) -> list[str]:
        """Required packages that are not installed."""
        return [package for package in self.needs if not entry_points.is_importable(package)]

    @property
    def missing(self) -> str | None:
        """Command that installs the missing packages; `None` if there are none."""
        return (self.install or f"pip install {' '.join(self.lacking)}") if self.lacking else None


def format_names() -> list[str]:
    """Return the names that `--to` accepts, without importing anything."""
    return list(entry_points.installed(EXPORTERS))


def find_format(name: str) -> Format:
    """Return the format `name`; an exporter of another package cannot replace one of ours."""
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
    options = options or ExportOptions()
    made = _function_of(wanted)(folder, record, options)
    if not isinstance(made, Exported):
        raise ConfigurationError(f"{wanted.made_by!r} must return an Exported, not {made!r:.60}")
    return _signed(folder, record, made, wanted.media_type, options) if options.sign else made


def _signed(
    folder: Path, record: RunRecord, made: Exported, media_type: str, options: ExportOptions
) -> Exported:
    """Return an export signed by the installed signer; of several, by the first in the alphabet."""
    for name, point in sorted(entry_points.installed(SIGNERS).items()):
        signed: Exported = entry_points.load(point, f"the signer {name!r}")(
            folder, record, made, media_type, options
        )
        return signed
    raise ConfigurationError("sign=: no installed package signs documents")


def write_export(folder: Path, name: str, out: Path | None, options: ExportOptions) -> Path:
    """Export the run in `folder` to a file, or `document.NAME` in a folder, by default its own."""
    from interleave.runs.folder import DOCUMENT_NAME
    from interleave.runs.record import read_record

    made = export_run(folder, read_record(folder), name, options)
    path = out or folder
    if path.is_dir():
        path /= f"document.{find_format(name).suffix or name}"
    if path == folder / DOCUMENT_NAME:  # the page of the run, which has its details
        path = folder / BOOK_NAME
    sidecar = path.with_name(f"{path.name}{SIDECAR}")
    try:
        sidecar.unlink(
            missing_ok=True
        )  # before the file changes: it never lies beside another file than its own
        write_atomic(path, made.data)
        if made.sidecar is not None:
            write_atomic(sidecar, made.sidecar)
    except StorageError as error:
        cause = error.__cause__
        if isinstance(cause, FileNotFoundError | IsADirectoryError | NotADirectoryError | PermissionError):
            problem = f"out={path}: cannot be written ({why(cause)}), name another file"
            raise ConfigurationError(problem) from None
        raise  # the disk, not the path
    return path


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
