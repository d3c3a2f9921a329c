"""Public names of `interleave.render`, available as `interleave.plugin.render`."""

from interleave.render.exports import (
    ExportOptions as ExportOptions,
    Exported as Exported,
    Format as Format,
    export_run as export_run,
    known_formats as known_formats,
)
from interleave.render.exports.fonts import font_files as font_files
from interleave.render.exports.formats import PageLayout as PageLayout, Paper as Paper
from interleave.render.html import (
    page_template as page_template,
    state_of as state_of,
    write_document as write_document,
)
from interleave.render.markdown import render_markdown as render_markdown
from interleave.render.svg_charts import (
    Curve as Curve,
    Series as Series,
    as_file as as_file,
    bars as bars,
    lines as lines,
    ranking as ranking,
    square as square,
)
