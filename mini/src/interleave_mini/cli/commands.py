"""`interleave mini label|episodes|closed-loop`: its images labelled by its oracle, its gripper at work."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from interleave.plugin import options


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
    from interleave.plugin import backends, count, say
    from interleave_mini.bench.oracle_labels import LABELS_NAME, label_attempts

    backends.require_backend(generator, "generator")
    if critic is not None:
        backends.require_backend(critic, "critic")
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


def episodes(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new LeRobot dataset.")],
    count: Annotated[int, typer.Option("--episodes", min=1, help="How many episodes.")] = 20,
    seed: Annotated[int, typer.Option(help="Another seed gives other episodes.")] = 0,
) -> int:
    """Film the gripper and write the episodes as a LeRobot dataset; prints where their true sub-tasks are."""
    from interleave_mini.robots.episodes import write_episodes

    print(write_episodes(out, count, seed=seed))
    return 0


def closed_loop(
    critic: Annotated[
        str, typer.Option(metavar="SPEC|none", help="What checks sub-tasks; none: nothing does.")
    ] = "mini",
    planner: Annotated[
        str, typer.Option(metavar="SPEC|true", help="What plans; true: the true plans of the goals.")
    ] = "true",
    episodes: Annotated[int, typer.Option(min=1, help="How many goals.")] = 300,
    errs: Annotated[
        float,
        typer.Option("--error-rate", min=0, max=1, help="The share of movements in which the gripper errs."),
    ] = 0.2,
    max_tries: Annotated[
        int, typer.Option("--max-attempts", min=1, help="The most tries of a sub-task.")
    ] = 5,
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Episodes at the same time.")] = 16,
    seed: Annotated[int, typer.Option(help="Another seed gives other goals and mistakes.")] = 0,
    json_output: options.Json = False,
) -> int:
    """Let the gripper work on goals of the test split, with a critic in the loop or without."""
    from interleave.plugin import agents, backends, load_pack, parse_spec
    from interleave.robots.checking import load_check
    from interleave_mini.robots.closed_loop import ClosedLoop, run_episodes

    check = None if critic == "none" else load_check(critic=critic)
    plans = None
    if planner != "true":
        plans = agents.planner_from(
            backends.load_agent(parse_spec(planner), "planner"), load_pack("mini"), max_steps=50
        ).agent
    loop = ClosedLoop(check, plans, errs=errs, max_tries=max_tries)
    report = asyncio.run(
        run_episodes(episodes, loop, critic=critic, planner=planner, seed=seed, concurrency=concurrency)
    )
    if json_output:
        print(report.model_dump_json())
        return 0
    success = report.success
    print(
        f"{report.episodes} episodes, critic {critic}, planner {planner}, {errs:.0%} of movements go wrong: "
        f"{success.mean:.1%} reach the goal ({success.low:.1%} to {success.high:.1%})"
    )
    print(
        f"{report.tries:,} tries of {report.sub_tasks:,} sub-tasks; of {report.failures_seen:,} that were "
        f"not done {report.wrongly_accepted:,} were called done, and {report.wrongly_refused:,} done ones "
        f"not; a check took {1000 * report.check_seconds_median:.0f} ms (95 % within "
        f"{1000 * report.check_seconds_p95:.0f} ms, {concurrency} episodes at once)"
    )
    return 0
