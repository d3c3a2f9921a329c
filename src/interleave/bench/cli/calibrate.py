"""`interleave bench calibrate`: compare a critic's confidence with labels, and choose its threshold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interleave.plugin import options

if TYPE_CHECKING:
    from interleave.bench.calibration.report import Calibration
    from interleave.bench.labels import CriticVerdict, Label, Subject

DEFAULT_FALSE_ALARMS = 0.03


def calibrate(
    labels: Annotated[
        Path,
        typer.Option(
            metavar="FILE.jsonl",
            callback=options.or_stdin,
            help="Labels of attempts by people. '-' reads standard input.",
        ),
    ],
    critic: options.CriticSpec = None,
    judge: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Compare the scores of this scorer with the labels instead."),
    ] = None,
    runs: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="A folder with runs of the labels. Repeatable."),
    ] = None,
    false_alarms: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="The share of right images that may be rejected. [default: 0.03]"),
    ] = None,
    misses: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="The share of wrong images that may be accepted instead."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE.toml", help="Write the threshold into this profile, as 'strict'."),
    ] = None,
    prompts: options.PackName = None,
    rejudge: Annotated[
        bool, typer.Option("--rejudge", help="Also judge attempts whose labels have a verdict.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Also find the probability for ?quick=, from which on images are accepted without "
            "reasoning. Judges all attempts, with two calls each.",
        ),
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Concurrent attempts.")] = 16,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder of the page and of new verdicts.")
    ] = Path("calibration"),
    json_output: options.Json = False,
) -> int:
    """Compare a critic's confidence with labels. Prints the path of the page.

    The critic judges attempts whose labels have no verdict. Run the command again to continue.
    """
    from interleave import ConfigurationError
    from interleave.bench.calibration.page import PAGE_NAME, write_calibration
    from interleave.bench.calibration.profile_file import write_strictness
    from interleave.bench.calibration.report import calibrate as figures_of
    from interleave.bench.labels import read_labels
    from interleave.plugin import say

    if false_alarms is not None and misses is not None:
        raise ConfigurationError(
            "--false-alarms and --misses cannot be combined: each determines the threshold"
        )
    read = read_labels(labels)
    folders = [*(runs or ()), Path(), labels.parent]
    if judge is not None:
        return _compare_judge(judge, read, runs or [], json_output)
    verdicts = _verdicts(
        read,
        critic,
        prompts,
        folders,
        rejudge=rejudge or quick,
        quick=quick,
        concurrency=concurrency,
        out=out,
    )
    found = figures_of(
        critic or "the critic of the labels",
        read,
        verdicts,
        wanted="false_alarms" if misses is None else "misses",
        rate=(DEFAULT_FALSE_ALARMS if false_alarms is None else false_alarms) if misses is None else misses,
    )
    threshold = found.threshold.point.threshold or 0.0
    written = write_strictness(profile, threshold, critic) if profile is not None else None
    page = write_calibration(out, found, _use(critic, threshold, written))
    for line in _summary(found):
        say(line)
    if written is not None:
        say(f"strict = {threshold!r} is in {written}")
    facts: dict[str, Any] = {"page": str(page), "profile": str(written) if written else None}
    print(json.dumps({**facts, **found.model_dump(mode="json")}) if json_output else out / PAGE_NAME)
    return 0


def _verdicts(
    labels: list[Label],
    critic: str | None,
    prompts: str | None,
    folders: list[Path],
    *,
    rejudge: bool,
    quick: bool,
    concurrency: int,
    out: Path,
) -> dict[Subject, CriticVerdict]:
    """Return the verdicts of the labels, and those of the critic on the other attempts."""
    import asyncio

    from interleave import ConfigurationError
    from interleave.bench.calibration.report import truths
    from interleave.bench.calibration.verdicts import (
        RunFolders,
        VerdictFile,
        judge_attempts,
        load_critic,
        readable,
        stored_verdicts,
    )
    from interleave.plugin import cli, config, count, load_pack, runs, say

    stored = {} if rejudge else stored_verdicts(labels)
    left = [
        subject for subject, right in truths(labels).items() if right is not None and subject not in stored
    ]
    if not left or (critic is None and stored):
        return stored
    if critic is None:
        raise ConfigurationError("the labels have no verdicts of a critic: name it with --critic SPEC")
    pack = load_pack(runs.choose_pack(config.load_profile(), prompts=prompts, planner=critic, critic=critic))
    file = VerdictFile(out, critic, pack)
    places = RunFolders(tuple(folders))
    new = [subject for subject in left if not file.has(subject, quick=quick)]
    if stored:  # a label without a verdict may be an unreadable one
        there = [subject for subject in new if places.has(subject.run)]
        if absent := len(new) - len(there):
            say(f"{count(absent, 'attempt')} without a verdict left out: the runs are not in --runs")
        new = there
    if new:
        say(f"{count(len(new), 'attempt')} to be judged by {critic}")
        with cli.collapse_retry_messages():
            loaded = load_critic(critic, pack)
            asyncio.run(judge_attempts(new, places, file, loaded, quick=quick, concurrency=concurrency))
    wanted = set(left)
    return {**stored, **readable(line for line in file.lines.values() if line.subject in wanted)}


def _use(critic: str | None, threshold: float, profile: Path | None) -> str:
    """Return the command that uses the threshold."""
    from dataclasses import replace

    from interleave.plugin import parse_spec

    if profile is not None:
        return f"interleave generate … --profile {profile}"
    if critic is None:
        return f"interleave generate … --critic 'SPEC?strict={threshold!r}'"
    spec = parse_spec(critic)
    strict = replace(spec, options={**spec.options, "strict": repr(threshold)})
    return f"interleave generate … --critic '{strict}'"


def _summary(found: Calibration) -> list[str]:
    from interleave.bench.calibration.page import number, percent

    chosen, said = found.threshold.point, found.as_it_says
    lines = [
        f"{found.labels:,} labelled attempts, {found.right:,} right; calibration error "
        f"{found.errors.calibration:.3f}, Brier score {found.errors.brier:.3f}, area {found.area:.3f}",
        f"its own word: false alarms {percent(said.false_alarms)}, misses {percent(said.misses)}",
        f"strict={number(chosen.threshold or 0.0)} ({number(found.threshold.low)} to "
        f"{number(found.threshold.high)}): false alarms {percent(chosen.false_alarms)}, "
        f"misses {percent(chosen.misses)}",
    ]
    if found.quick is not None:
        quick = found.quick.held_out or found.quick.point
        lines.append(
            f"quick={number(found.quick.point.threshold)}: {percent(quick.saved)} of the images accepted at "
            f"once, misses {percent(quick.misses)}, with reasoning {percent(quick.misses_with_reasoning)}"
            + (" (on the other half)" if found.quick.held_out else "")
        )
    lines += [
        f"{each.scaling.method} scaling, on the other half: calibration error "
        f"{each.before.calibration:.3f} → {each.after.calibration:.3f}, "
        f"Brier score {each.before.brier:.3f} → {each.after.brier:.3f}"
        for each in found.scaled
    ]
    return lines


def _compare_judge(judge: str, labels: list[Label], collections: list[Path], json_output: bool) -> int:
    """Print the agreement of a scorer's scores with `better` and `score` labels."""
    from interleave import ConfigurationError
    from interleave.bench.calibration.judges import judge_agreement
    from interleave.plugin import say

    if not collections:
        raise ConfigurationError("--judge compares the scores of a collection: name it with --runs DIR")
    found = judge_agreement(judge, labels, collections)
    for line in found.lines:
        say(line)
    print(json.dumps(found.model_dump(mode="json")) if json_output else found.lines[-1])
    return 0
