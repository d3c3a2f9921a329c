"""Public names of `interleave.render`, available as `interleave.plugin.render`."""

from interleave.render.exports import (
    SIDECAR as SIDECAR,
    ExportOptions as ExportOptions,
    Exported as Exported,
    Format as Format,
    PageLayout as PageLayout,
    export_run as export_run,
    known_formats as known_formats,
)
from interleave.render.html import (
    forced_note as forced_note,
    merged_notes as merged_notes,
    page_template as page_template,
    state_of as state_of,
    render_document as render_document,
    write_document as write_document,
)
from interleave.render.markdown import plain as plain, render_markdown as render_markdown
from interleave.render.svg_charts import (
    Curve as Curve,
    Series as Series,
    as_file as as_file,
    bars as bars,
    lines as lines,
    ranking as ranking,
    square as square,
)
