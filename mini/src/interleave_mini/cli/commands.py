"""`interleave mini label|episodes|closed-loop`: labels of the oracle, and episodes of the gripper."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from interleave.plugin import options


def label(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output folder; repeating the command resumes.")],
    critic: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Also judge the attempts with this critic, e.g. mini.")
    ] = None,
    generator: Annotated[str, typer.Option(metavar="SPEC", help="Generator of the attempts.")] = "mini",
    prompts: Annotated[str, typer.Option(metavar="PACK", help="Prompt pack of the critic.")] = "mini",
    attempts: Annotated[int, typer.Option(min=1, help="Number of attempts.")] = 300,
    failures: Annotated[
        int, typer.Option(min=0, help="Continue until this many are wrong, up to five times --attempts.")
    ] = 0,
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Concurrent calls.")] = 16,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    json_output: options.Json = False,
) -> int:
    """Draw steps of true plans and label each as right or wrong; print the path of the labels."""
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
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output folder of the LeRobot dataset.")],
    count: Annotated[int, typer.Option("--episodes", min=1, help="Number of episodes.")] = 20,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
) -> int:
    """Record the gripper as a LeRobot dataset; print the path of the true sub-tasks of its episodes."""
    from interleave_mini.robots.episodes import write_episodes

    print(write_episodes(out, count, seed=seed))
    return 0


def closed_loop(
    critic: Annotated[
        str, typer.Option(metavar="SPEC|none", help="Critic that checks sub-tasks, or none.")
    ] = "mini",
    planner: Annotated[
        str, typer.Option(metavar="SPEC|true", help="Planner, or true for the true plans of the goals.")
    ] = "true",
    episodes: Annotated[int, typer.Option(min=1, help="Number of goals.")] = 300,
    errs: Annotated[
        float,
        typer.Option("--error-rate", min=0, max=1, help="Share of movements in which the gripper errs."),
    ] = 0.2,
    max_tries: Annotated[
        int, typer.Option("--max-attempts", min=1, help="Maximum attempts at a sub-task.")
    ] = 5,
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Concurrent episodes.")] = 16,
    seed: Annotated[int, typer.Option(help="Random seed of goals and mistakes.")] = 0,
    json_output: options.Json = False,
) -> int:
    """Run the gripper on goals of the test split, with or without a critic; print the success rate."""
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
        f"{report.tries:,} attempts at {report.sub_tasks:,} sub-tasks; the critic accepted "
        f"{report.wrongly_accepted:,} of {report.failures_seen:,} failures and rejected "
        f"{report.wrongly_refused:,} successes; a check took {1000 * report.check_seconds_median:.0f} ms "
        f"(95 % within {1000 * report.check_seconds_p95:.0f} ms, {concurrency} concurrent episodes)"
    )
    return 0
