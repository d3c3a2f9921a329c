"""A run as a file of another format: PDF, EPUB, PPTX, Markdown with its pictures, or one HTML page."""

from interleave.render.exports.formats import FORMATS, Exported, ExportOptions, Format, export_run

__all__ = ["FORMATS", "ExportOptions", "Exported", "Format", "export_run"]
