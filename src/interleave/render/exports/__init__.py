"""Exports of a run: PDF, EPUB, PPTX, Markdown with its images, or one HTML page."""

from interleave.render.exports.formats import (
    Exported,
    ExportOptions,
    Format,
    export_run,
    format_names,
    known_formats,
    write_export,
)

__all__ = [
    "ExportOptions",
    "Exported",
    "Format",
    "export_run",
    "format_names",
    "known_formats",
    "write_export",
]
