"""`interleave bench convert-comm`: CoMM's pickled files as JSON lines, and their images."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from interleave.plugin import count, options, progress_bar, say


def convert_comm(
    source: Annotated[Path, typer.Argument(metavar="FILE.pth", help="A file of weisuxi/CoMM on the Hub.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder that bench reads with --data.")],
    images: Annotated[
        bool, typer.Option("--images", help="Also download the images; run again to continue.")
    ] = False,
    retry_gone: Annotated[
        bool, typer.Option("--retry-gone", help="Also try images again that were not available.")
    ] = False,
    concurrency: Annotated[int, typer.Option(metavar="N", min=1, max=256, help="Concurrent downloads.")] = 16,
    json_output: options.Json = False,
) -> int:
    """Convert a pickled file of CoMM to JSON lines. No code in the file is run.

    Exit code 1 if images failed that may load later; those that are not available count as missing.
    """
    from interleave.bench.comm_data import IMAGES, convert
    from interleave.bench.image_download import download

    made = convert(source, out)
    say(f"{count(made.items, 'document')} with {count(len(made.urls), 'image')} in {made.path}")
    endings: Counter[str] = Counter()
    if images:
        with progress_bar("images") as show:
            for ended in download(made.urls, out / IMAGES, workers=concurrency, retry_gone=retry_gone):
                endings[ended.ending] += 1
                show(endings.total(), len(made.urls))
        say(", ".join(f"{number:,} {ending}" for ending, number in sorted(endings.items())))
    facts = {"file": str(made.path), "items": made.items, "images": len(made.urls), **endings}
    typer.echo(json.dumps(facts) if json_output else str(made.path))
    return 1 if endings["failed"] else 0
