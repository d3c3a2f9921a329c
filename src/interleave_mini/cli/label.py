"""`interleave mini label`: attempts of the miniature, labelled by its oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from interleave.cli import options


def label(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where pictures and labels go; the same command goes on.")
    ],
    critic: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Also ask this critic, e.g. mini: labels then have it.")
    ] = None,
    generator: Annotated[str, typer.Option(metavar="SPEC", help="What draws the attempts.")] = "mini",
    prompts: Annotated[str, typer.Option(metavar="PACK", help="The critic's prompt pack.")] = "mini",
    attempts: Annotated[int, typer.Option(min=1, help="How many attempts to draw.")] = 300,
    failures: Annotated[
        int, typer.Option(min=0, help="Draw on until so many are wrong, at most five times as many attempts.")
    ] = 0,
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Calls at the same time.")] = 16,
    seed: Annotated[int, typer.Option(help="Another seed gives other attempts.")] = 0,
    json_output: options.Json = False,
) -> int:
    """Draw steps of true plans and label each as right or wrong; prints where the labels are."""
    from interleave.backends.registry import require_backend
    from interleave.cli.streams import say
    from interleave.text import count
    from interleave_mini.bench.oracle_labels import LABELS_NAME, label_attempts

    require_backend(generator, "generator")
    if critic is not None:
        require_backend(critic, "critic")
    labels = label_attempts(
        out,
        generator=generator,
        critic=critic,
        prompts=prompts,
        count=attempts,
        failures=failures,
        seed=seed,
        concurrency=concurrency,
        report=say,
    )
    wrong = sum(not each.value for each in labels)
    judged = sum(each.critic is not None for each in labels)
    say(f"{count(len(labels), 'attempt')}, {wrong:,} of them wrong; {judged:,} judged by the critic")
    facts = {"attempts": len(labels), "wrong": wrong, "judged": judged}
    print(json.dumps({"labels": str(out / LABELS_NAME), **facts}) if json_output else out / LABELS_NAME)
    return 0
