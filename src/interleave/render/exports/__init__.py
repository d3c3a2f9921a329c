"""Exports of a run: the registry of formats. The room `books` has ours."""

from interleave.render.exports.formats import (
    SIDECAR,
    Exported,
    ExportOptions,
    Format,
    PageLayout,
    export_run,
    format_names,
    known_formats,
    write_export,
)

__all__ = [
    "SIDECAR",
    "ExportOptions",
    "Exported",
    "Format",
    "PageLayout",
    "export_run",
    "format_names",
    "known_formats",
    "write_export",
]
