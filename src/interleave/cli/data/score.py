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
from interleave.cli.data.stage_progress import following
from interleave.cli.run_command import cancel_on_terminate, say
from interleave.cli.streams import limit_retry_messages
from interleave.text import one_line

if TYPE_CHECKING:
    from interleave.data.scoring.scoring import Scoring


def score(
    collection: Annotated[Path, typer.Argument(metavar="COLLECTION", help="What `data collect` has made.")],
    scorer: Annotated[
        str, typer.Option("--scorer", metavar="SPEC", help="A vision-language model, or 'oracle'.")
    ],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name of its scores. [default: after the scorer]"),
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
    from interleave.agents.prompts.library import DEFAULT_PACK
    from interleave.batches.shards import Shard
    from interleave.config.run_config import Limits
    from interleave.data.scoring.scoring import open_scoring

    say("loading the scorer…")
    scoring = open_scoring(
        collection,
        scorer,
        name=name,
        prompts=prompts or DEFAULT_PACK,
        limits=Limits(max_calls=max_calls, max_cost=max_cost),
        shard=Shard.parse(shard),
        retry_failed=retry_failed,
    )
    return _work(scoring, concurrency, json_output)


def _work(scoring: Scoring, concurrency: int, json_output: bool) -> int:
    """Score in front of a user; returns the exit code."""
    from interleave.errors import LimitReached, StorageError

    started, status = time.monotonic(), "done"
    try:
        with limit_retry_messages():
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


async def _follow(scoring: Scoring, concurrency: int) -> None:
    cancel_on_terminate()
    with following("runs scored") as progress:
        async with aclosing(scoring.run(concurrency=concurrency)) as lines:
            async for _ in lines:
                progress(scoring.tally.taken, scoring.tally.runs)


def _report(scoring: Scoring, status: str, seconds: float, json_output: bool) -> int:
    tally, book = scoring.tally, scoring.book
    for failure in tally.failures[:5]:
        place = f"{failure.run}, step {failure.step}, attempt {failure.attempt}"
        say(f"not scored: {place}: {one_line(failure.failure, 200)}")
    if tally.left_out:
        reasons = ", ".join(f"{number:,} {why}" for why, number in sorted(tally.left_out.items()))
        say(f"runs left out: {reasons}")
    say(f"{tally.scored:,} scored, {tally.failed:,} failed, {tally.already:,} had been done before")
    if tally.failed:
        say("run the same command with --retry-failed to score again what failed")
    print(_as_json(scoring, status, seconds) if json_output else book.journal.path)
    if tally.failed and not tally.scored:
        return 3
    return 1 if tally.failed or status == "short" else 0


def _as_json(scoring: Scoring, status: str, seconds: float) -> str:
    tally = scoring.tally
    return json.dumps(
        {
            "collection": str(scoring.book.collection),
            "name": scoring.book.name,
            "scores": str(scoring.book.journal.path),
            "status": "failed" if tally.failed else status,
            "scored": tally.scored,
            "failed": tally.failed,
            "already": tally.already,
            "left_out": dict(sorted(tally.left_out.items())),
            "calls": tally.calls,
            "cost": tally.cost,
            "seconds": round(seconds, 3),
            "failures": [failure.model_dump() for failure in tally.failures],
        },
        ensure_ascii=False,
    )
