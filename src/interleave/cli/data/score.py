"""`interleave data score`: marks for every attempt of a collection."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.cli import options

if TYPE_CHECKING:
    from interleave.data.scoring.score_book import ScoreBook
    from interleave.data.scoring.scoring import Scoring, Tally


def score(
    collection: Annotated[Path, typer.Argument(metavar="COLLECTION", help="What `data collect` has made.")],
    scorer: Annotated[
        str, typer.Option("--scorer", metavar="SPEC", help="A vision-language model, or 'oracle'.")
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What its scores are called. [default: after the scorer]")
    ] = None,
    prompts: options.PackName = None,
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Attempts in flight at once.")] = 64,
    max_calls: Annotated[int | None, typer.Option(min=1, help="End after so many model calls.")] = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="End before it costs more than so many US dollars.")
    ] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Do the I-th of N parts; others may do theirs at once.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Score again what could not be scored.")
    ] = False,
    json_output: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Score every attempt of COLLECTION for meaning and looks; the same command goes on where it was.

    Another scorer's scores lie beside the first. What cannot be read is kept as a failure, never a number.
    """
    from interleave.agents.prompts.library import DEFAULT_PACK, load_pack
    from interleave.cli.working_many import say
    from interleave.data.scoring.desk import open_desk
    from interleave.data.scoring.score_book import ScoreBook, maker_of
    from interleave.data.scoring.scoring import Scoring
    from interleave.runs.config import Limits
    from interleave.runs.shards import Shard

    part = Shard.parse(shard)
    pack = load_pack(prompts or DEFAULT_PACK)
    maker = maker_of(scorer, pack)
    limits = Limits(max_calls=max_calls, max_cost=max_cost)
    say("loading the scorer…")
    desk = open_desk(scorer, pack, limits)
    book = ScoreBook(collection, name or maker.default_name, maker, shard=part)
    desk.count_from(book.calls, book.cost)
    scoring = Scoring(book, desk, shard=part, retry_failed=retry_failed)
    return _work(scoring, concurrency, json_output)


def _work(scoring: Scoring, concurrency: int, json_output: bool) -> int:
    """Score in front of a user; returns the exit code."""
    from interleave.cli.working_many import say
    from interleave.errors import LimitReached, StorageError

    started, status = time.monotonic(), "done"
    try:
        asyncio.run(_follow(scoring, concurrency))
    except LimitReached as reached:
        say(f"interleave: {reached}")
        status = "short"
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interleave: interrupted. Run the same command again to go on")
        return 130
    finally:
        with suppress(StorageError):  # the scores are safe, and the same command writes it again
            scoring.book.describe()
    return _report(scoring, status, time.monotonic() - started, json_output)
