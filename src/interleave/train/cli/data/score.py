"""`interleave data score`: score every attempt of a collection."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.plugin import cancel_on_terminate, cli, one_line, options, progress_bar, say

if TYPE_CHECKING:
    from interleave.train.data.score import Scoring


def score(
    collection: Annotated[Path, typer.Argument(metavar="COLLECTION", help="The output of `data collect`.")],
    scorer: Annotated[
        str, typer.Option("--scorer", metavar="SPEC", help="A vision-language model, or 'oracle'.")
    ],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name of the scores. [default: the scorer's]"),
    ] = None,
    prompts: options.PackName = None,
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Concurrent attempts.")] = 64,
    max_calls: Annotated[int | None, typer.Option(min=1, help="Stop after this many model calls.")] = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Stop before the cost exceeds this many US dollars.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Score part I of N; the parts may run concurrently."),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Retry attempts that could not be scored.")
    ] = False,
    json_output: options.Json = False,
) -> int:
    """Score semantics and quality of every attempt of COLLECTION. Run the command again to continue.

    Each scorer has its own files. An unreadable reply is recorded as a failure, never as a number.
    """
    from interleave.plugin import Limits, agents, batches
    from interleave.train.data.score import open_scoring

    say("loading the scorer…")
    scoring = open_scoring(
        collection,
        scorer,
        name=name,
        prompts=prompts or agents.DEFAULT_PACK,
        limits=Limits(max_calls=max_calls, max_cost=max_cost),
        shard=batches.Shard.parse(shard),
        retry_failed=retry_failed,
    )
    return _score(scoring, concurrency, json_output)


def _score(scoring: Scoring, concurrency: int, json_output: bool) -> int:
    """Score with progress on the terminal. Return the exit code."""
    from interleave import LimitReached, StorageError

    started, status = time.monotonic(), "done"
    try:
        with cli.collapse_retry_messages():
            asyncio.run(_follow(scoring, concurrency))
    except LimitReached as reached:
        say(f"interleave: {reached}", error=True)
        status = "short"
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interleave: interrupted. Run the same command again to continue")
        return 130
    finally:
        with suppress(StorageError):  # the scores are on disk, and the same command writes it again
            scoring.score_file.save_manifest()
    return _report(scoring, status, time.monotonic() - started, json_output)


async def _follow(scoring: Scoring, concurrency: int) -> None:
    cancel_on_terminate()
    with progress_bar("runs scored") as progress:
        async with aclosing(scoring.run(concurrency=concurrency)) as lines:
            async for _ in lines:
                progress(scoring.stats.runs_done, scoring.stats.runs)


def _report(scoring: Scoring, status: str, seconds: float, json_output: bool) -> int:
    stats, score_file = scoring.stats, scoring.score_file
    for failure in stats.failures[:5]:
        place = f"{failure.run}, step {failure.step}, attempt {failure.attempt}"
        say(f"not scored: {place}: {one_line(failure.failure, 200)}")
    if stats.left_out:
        reasons = ", ".join(f"{number:,} {why}" for why, number in sorted(stats.left_out.items()))
        say(f"runs left out: {reasons}")
    say(f"{stats.scored:,} scored, {stats.failed:,} failed, {stats.skipped:,} had been done before")
    if stats.failed:
        say("run the same command with --retry-failed to score again what failed")
    print(_as_json(scoring, status, seconds) if json_output else score_file.journal.path)
    if stats.failed and not stats.scored:
        return 3
    return 1 if stats.failed or status == "short" else 0


def _as_json(scoring: Scoring, status: str, seconds: float) -> str:
    stats = scoring.stats
    return json.dumps(
        {
            "collection": str(scoring.score_file.collection),
            "name": scoring.score_file.name,
            "scores": str(scoring.score_file.journal.path),
            "status": "failed" if stats.failed else status,
            "scored": stats.scored,
            "failed": stats.failed,
            "already": stats.skipped,
            "left_out": dict(sorted(stats.left_out.items())),
            "calls": stats.calls,
            "cost": stats.cost,
            "seconds": round(seconds, 3),
            "failures": [failure.model_dump() for failure in stats.failures],
        },
        ensure_ascii=False,
    )
